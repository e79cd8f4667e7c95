// Unit mountinfo.c: other ways to the same files. Called by view.c.
#include "sandbox/view.h"

#include "sys/fs.h"
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 16 << 20 };

static const char *unescape(struct arena *arena, struct str text)
{
    char *out = arena_alloc(arena, text.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool is_octal = text.ptr[i] == '\\' && i + 3 < text.len;
        out[n++] = is_octal ? (char)((text.ptr[i + 1] - '0') * 64 + (text.ptr[i + 2] - '0') * 8 +
                                     (text.ptr[i + 3] - '0'))
                            : text.ptr[i];
        i += is_octal ? 3 : 0;
    }
    if (n == 1 && out[0] == '/') n = 0;
    out[n] = 0;
    return out;
}

static bool parse(struct str line, struct arena *arena, struct mount_entry *out)
{
    str_cut(&line, ' ');
    str_cut(&line, ' ');
    out->device = str_cut(&line, ' ');
    out->root = unescape(arena, str_cut(&line, ' '));
    out->point = unescape(arena, str_cut(&line, ' '));
    while (line.ptr && !str_eqz(str_cut(&line, ' '), "-"))
        ;
    out->type = str_cut(&line, ' ');
    str_cut(&line, ' ');
    out->options = line;
    return out->type.len > 0;
}

int mountinfo_read(struct arena *arena, struct mount_entries *out, det_err *err)
{
    struct buf text = BUF_INIT(MAX_BYTES);
    int rc = fs_read("/proc/self/mountinfo", &text, err);
    size_t n_lines = 0;
    for (size_t i = 0; !rc && i < text.len; i++)
        n_lines += text.ptr[i] == '\n';
    struct str rest = {arena_strndup(arena, text.ptr ? text.ptr : "", text.len), text.len};
    out->items = arena_array(arena, n_lines + 1, sizeof *out->items);
    out->n = 0;
    while (!rc && rest.len && out->n < n_lines)
        out->n += parse(str_cut(&rest, '\n'), arena, &out->items[out->n]);
    buf_done(&text);
    return rc;
}

// What follows the prefix, "" or "/..."; NULL if it is another path.
static const char *below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return !strncmp(path, prefix, n) && (!path[n] || path[n] == '/') ? path + n : NULL;
}

// The mount that a path is on: the last one of those that lead farthest.
static const struct mount_entry *mount_of(const struct mount_entries *all, const char *path)
{
    const struct mount_entry *best = NULL;
    for (size_t i = 0; i < all->n; i++)
        if (below(path, all->items[i].point) &&
            (!best || strlen(all->items[i].point) >= strlen(best->point)))
            best = &all->items[i];
    return best;
}

static void add(struct mount_names *names, const char *path)
{
    for (size_t i = 0; i < names->n; i++)
        if (str_eqz(str_from(names->items[i]), path)) return;
    names->items[names->n++] = path;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void add_aliases(const struct mount_entries *all, const char *dir, struct arena *arena,
                        struct mount_names *out)
{
    const struct mount_entry *own = mount_of(all, dir);
    if (!own) return;
    const char *inside = arena_printf(arena, "%s%s", own->root, below(dir, own->point));
    for (size_t i = 0; i < all->n; i++) {
        const struct mount_entry *e = &all->items[i];
        const char *rest = below(inside, e->root);
        if (e == own || !rest || !str_eq(e->device, own->device)) continue;
        const char *alias = arena_printf(arena, "%s%s", e->point, rest);
        if (!str_eqz(str_from(alias), dir) && same_file(alias, dir)) add(out, alias);
    }
}

int mountinfo_find(struct arena *arena, const char *const *dirs, size_t n_dirs,
                   struct mount_names *out, det_err *err)
{
    struct mount_entries all;
    int rc = mountinfo_read(arena, &all, err);
    if (rc) return rc;
    *out =
        (struct mount_names){arena_array(arena, all.n * (n_dirs + 1) + 1, sizeof *out->items), 0};
    for (size_t i = 0; i < all.n; i++) {
        const struct mount_entry *e = &all.items[i];
        bool shows_processes = str_eqz(e->type, "proc") && !str_eqz(str_from(e->point), "/proc");
        bool shows_devices = str_eqz(e->type, "devtmpfs") && !str_eqz(str_from(e->point), "/dev");
        if ((shows_processes || shows_devices) && *e->point) add(out, e->point);
    }
    for (size_t i = 0; i < n_dirs; i++)
        add_aliases(&all, dirs[i], arena, out);
    return det_ok(err);
}
