// Unit path.c: the steps of a path.
#include "base/path.h"

const char *path_normal(struct arena *arena, const char *path)
{
    char *out = arena_alloc(arena, strlen(path) + 2);
    size_t n = 0;
    for (struct str rest = str_from(path); rest.ptr;) {
        struct str part = str_cut(&rest, '/');
        if (!part.len || str_eqz(part, ".")) continue;
        if (str_eqz(part, "..")) {
            while (n && out[--n] != '/')
                ;
            continue;
        }
        out[n++] = '/';
        memcpy(out + n, part.ptr, part.len);
        n += part.len;
    }
    out[n] = 0;
    return out;
}

bool path_is_inside(const char *path, const char *folder)
{
    struct str inner = str_from(path), outer = str_from(folder);
    return str_starts(inner, outer) && (inner.len == outer.len || inner.ptr[outer.len] == '/');
}

bool path_is_plain(struct str name)
{
    if (!name.len || memchr(name.ptr, 0, name.len)) return false;
    while (name.ptr) {
        struct str part = str_cut(&name, '/');
        if (!part.len || str_eqz(part, ".") || str_eqz(part, "..")) return false;
    }
    return true;
}
