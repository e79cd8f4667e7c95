// Unit place.c: makes the names at which something is mounted. Called by view.c.
#include "sandbox/view.h"

#include "base/path.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_ENTRIES = 4096 };

// --- a directory in memory with the content of another one

struct item {
    const char *name;
    const char *target; // of a link
    bool is_dir;
    int copy; // -1: a link
};

static int copy_item(int dir, const char *name, struct arena *arena, struct item *out, det_err *err)
{
    char target[4096];
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return fs_fail(err, "look at", name);
    *out = (struct item){.name = name, .is_dir = S_ISDIR(st.st_mode), .copy = -1};
    if (!S_ISLNK(st.st_mode)) return mount_copy(dir, name, &out->copy, err);
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0) return fs_fail(err, "look at", name);
    out->target = arena_strndup(arena, target, (size_t)n);
    return det_ok(err);
}

static int copy_items(const char *path, struct arena *arena, struct item **out, size_t *n,
                      det_err *err)
{
    struct dir_entries all = {0};
    int dir = -1;
    int rc = dir_open(path, 0, &dir, err);
    if (!rc) rc = dir_list(dir, path, arena, &all, err);
    if (!rc && all.n > MAX_ENTRIES)
        rc = det_fail(err, DET_ELIMIT,
                      "something is to be mounted below '%s', where nothing of that name is, and "
                      "it has too many entries to add one",
                      path);
    *out = arena_array(arena, all.n + 1, sizeof **out);
    for (*n = 0; !rc && *n < all.n; *n += !rc)
        rc = copy_item(dir, all.items[*n].name, arena, &(*out)[*n], err);
    if (dir >= 0) close(dir);
    return rc;
}

static int make_empty(const char *path, bool is_dir, det_err *err)
{
    if (is_dir) return mkdir(path, 0755) < 0 ? fs_fail(err, "make", path) : det_ok(err);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return fs_fail(err, "make", path);
    close(fd);
    return det_ok(err);
}

static int attach_item(const struct item *item, const char *folder, struct arena *arena,
                       det_err *err)
{
    const char *path = arena_printf(arena, "%s/%s", folder, item->name);
    if (item->target)
        return symlink(item->target, path) < 0 ? fs_fail(err, "make", path) : det_ok(err);
    int rc = make_empty(path, item->is_dir, err);
    return rc ? rc : mount_attach(item->copy, path, err);
}

// The directory in memory becomes the root. A process that runs where the kernel cannot replace the
// root (in a chroot) is moved there instead.
static int make_root(const char *folder, det_err *err)
{
    if (chdir(folder) < 0) return fs_fail(err, "enter", folder);
    bool replaced = syscall(SYS_pivot_root, ".", ".") == 0;
    if (replaced && umount2(".", MNT_DETACH) < 0) return fs_fail(err, "leave", "the old root");
    if (!replaced && chroot(".") < 0) return fs_fail(err, "change the root to", folder);
    return chdir("/") < 0 ? fs_fail(err, "enter", "/") : det_ok(err);
}

// Everything is copied before the new directory covers it.
static int replace(struct view *v, const char *path, det_err *err)
{
    static const char spare[] = "/proc"; // a directory to build a new root on
    bool is_root = !*path;
    struct item *items = NULL;
    size_t n = 0;
    int rc = copy_items(is_root ? "/" : path, &v->arena, &items, &n, err);
    const char *at = is_root ? spare : path;
    if (!rc) rc = mount_tmpfs(at, "mode=0755", err);
    for (size_t i = 0; !rc && i < n; i++)
        rc = attach_item(&items[i], at, &v->arena, err);
    for (size_t i = 0; i < n; i++)
        if (items[i].copy >= 0) close(items[i].copy);
    if (!rc && is_root) rc = make_root(at, err);
    if (!rc) view_add_cover(v, is_root ? "/" : path);
    return rc;
}

// --- the way to a path

// All that is below a directory of the task is its own; of one that was replaced, only the names.
static bool is_own(const struct view *v, const char *path)
{
    for (size_t i = 0; i < v->n_own; i++)
        if (path_is_inside(path, v->own[i])) return true;
    for (size_t i = 0; i < v->n_covers; i++)
        if (str_eqz(str_from(*path ? path : "/"), v->covers[i].path)) return true;
    return false;
}

static int make_step(struct view *v, const char *parent, const char *path, bool is_dir,
                     det_err *err)
{
    if (is_own(v, parent) && !make_empty(path, is_dir, NULL)) return det_ok(err);
    int rc = replace(v, parent, err);
    return rc ? rc : make_empty(path, is_dir, err);
}

int place_make(struct view *v, const char *path, bool is_dir, det_err *err)
{
    const char *normal = path_normal(&v->arena, path), *parent = "";
    struct stat st;
    int rc = 0;
    for (size_t i = 1; !rc && normal[0] && i <= strlen(normal); i++) {
        if (normal[i] && normal[i] != '/') continue;
        const char *step = arena_strndup(&v->arena, normal, i);
        if (stat(step, &st) < 0) {
            bool is_last = !normal[i];
            if (errno != ENOENT) return fs_fail(err, "look at", step);
            rc = make_step(v, parent, step, is_last ? is_dir : true, err);
        }
        parent = step;
    }
    return rc;
}
