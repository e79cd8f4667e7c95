// Unit guard.c: what users who are no administrators may not mount, because it would make them one.
// Called by view.c.
#include "sandbox/view.h"

#include "base/assert.h"

enum rule {
    NEVER,     // processes, disks, sockets of programs that do what they are told
    READ_ONLY, // programs that others run; it can be read without a mount, too
    HOMES,     // below it are the homes of people
    HOME,      // keys, and files that a shell or an editor runs
    SHARED,    // everybody's files; some of them are sockets
};

static const struct {
    const char *dir;
    enum rule rule;
} rules[] = {
    {"dev", NEVER},       {"proc", NEVER},      {"run", NEVER},        {"sys", NEVER},
    {"bin", READ_ONLY},   {"boot", READ_ONLY},  {"etc", READ_ONLY},    {"lib", READ_ONLY},
    {"lib32", READ_ONLY}, {"lib64", READ_ONLY}, {"libx32", READ_ONLY}, {"opt", READ_ONLY},
    {"sbin", READ_ONLY},  {"usr", READ_ONLY},   {"var", READ_ONLY},    {"home", HOMES},
    {"root", HOME},       {"tmp", SHARED},
};

static const char *const socket_dirs[] = {".", "ssh-", "tmux-", "systemd-private-"};

// What follows a directory and its slash; a NULL pointer if path is not inside of it.
static struct str inside(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    if (strncmp(path, dir, n) != 0 || path[n] != '/') return (struct str){0};
    return str_from(path + n + 1);
}

static bool is_plain_name(struct str name)
{
    return name.len && name.ptr[0] != '.';
}

static bool is_socket_dir(struct str name)
{
    for (size_t i = 0; i < STATIC_LEN(socket_dirs); i++)
        if (str_starts(name, str_from(socket_dirs[i]))) return true;
    return false;
}

static bool obeys(enum rule rule, struct str rest, bool read_only)
{
    struct str name = str_cut(&rest, '/');
    switch (rule) {
    case NEVER:
        return false;
    case READ_ONLY:
        return read_only;
    case HOMES:
        return rest.ptr && is_plain_name(str_cut(&rest, '/'));
    case HOME:
        return is_plain_name(name);
    case SHARED:
        return name.len && !is_socket_dir(name);
    }
    return false;
}

bool guard_allows(const struct sandbox *s, const char *path, bool read_only)
{
    struct str rest = str_from(path), top;
    for (size_t i = 0; i < s->covered.n; i++) {
        const char *home = s->covered.items[i];
        if (str_eqz(str_from(path), home) || inside(home, path).ptr)
            return false; // shows what is covered
        struct str below = inside(path, home);
        if (below.ptr && !str_eqz(str_from(home), "/home") && !obeys(HOME, below, read_only))
            return false;
    }
    str_cut(&rest, '/');
    if (!rest.len) return false;
    top = str_cut(&rest, '/');
    for (size_t i = 0; i < STATIC_LEN(rules); i++)
        if (str_eqz(top, rules[i].dir)) return obeys(rules[i].rule, rest, read_only);
    return true;
}
