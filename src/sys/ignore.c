// Unit ignore.c: reads .detignore, and matches paths with it.
#include "sys/ignore.h"

#include "base/buf.h"
#include "sys/fs.h"
#include <ctype.h>
#include <fnmatch.h>

enum { MAX_BYTES = 1 << 20 };

static const char always[] = "__pycache__/\n*.py[co]\n*$py.class\n"
                             "events.out.tfevents.*\n" // of det-run --tensorboard
                             ".tmp-*/\n.del-*/\n";     // checkpoints that come and go

int ignore_read(const char *dir, struct arena *arena, struct str *out, det_err *err)
{
    struct buf text = BUF_INIT(MAX_BYTES);
    int rc = fs_read(arena_printf(arena, "%s/.detignore", dir), &text, err);
    *out = (struct str){arena_strndup(arena, buf_str(&text).ptr, text.len), text.len};
    buf_done(&text);
    return rc == DET_ENOTFOUND ? det_ok(err) : rc;
}

static bool matches(struct str pattern, const char *path, bool is_folder)
{
    char text[1024];
    while (pattern.len &&
           (pattern.ptr[pattern.len - 1] == ' ' || pattern.ptr[pattern.len - 1] == '\r'))
        pattern.len--;
    if (!pattern.len || pattern.ptr[0] == '#' || pattern.len >= sizeof text) return false;
    if (pattern.ptr[pattern.len - 1] == '/') {
        if (!is_folder) return false;
        pattern.len--;
    }
    memcpy(text, pattern.ptr, pattern.len);
    text[pattern.len] = 0;
    if (text[0] == '/') return !fnmatch(text + 1, path, FNM_PATHNAME);
    if (strchr(text, '/')) return !fnmatch(text, path, FNM_PATHNAME);
    const char *slash = strrchr(path, '/');
    return !fnmatch(text, slash ? slash + 1 : path, FNM_PATHNAME);
}

bool ignore_has(struct str patterns, const char *path, bool is_folder)
{
    struct str lists[] = {str_from(always), patterns};
    bool ignored = false;
    for (int i = 0; i < 2; i++)
        while (lists[i].len) { // the last line that matches decides; ! brings back
            struct str line = str_cut(&lists[i], '\n');
            bool keep = line.len && line.ptr[0] == '!';
            if (keep) line.ptr++, line.len--;
            if (matches(line, path, is_folder)) ignored = !keep;
        }
    return ignored;
}

// As checkpoints are named.
static bool is_uuid(const char *name)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (strlen(name) != strlen(form)) return false;
    for (size_t i = 0; form[i]; i++)
        if (form[i] == '-' ? name[i] != '-' : !isxdigit((unsigned char)name[i])) return false;
    return true;
}

bool ignore_is_output(const char *name, const struct dir_entries *entries)
{
    for (size_t i = 0; i < entries->n; i++) {
        struct str inner = str_from(entries->items[i].name);
        if (is_uuid(name) && str_eqz(inner, "manifest.json")) return true;
        if (str_eqz(inner, "det.db")) return true;
    }
    return false;
}
