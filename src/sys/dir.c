// Unit dir.c: the directories of sys/dir.h.
#include "sys/dir.h"

#include "base/assert.h"
#include "base/path.h"
#include "sys/fs.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN_DIR = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

static int make_one(int dir, const char *name, int flags)
{
    if (!(flags & DIR_CREATE)) return 0;
    if (mkdirat(dir, name, 0777) < 0) return errno == EEXIST ? 0 : -1;
    return flags & DIR_DURABLE && fsync(dir) < 0 && errno != EINVAL ? -1 : 0;
}

// Opens path step by step, from the directory `at`, which is closed.
static int open_steps(int at, const char *path, int flags, int open_flags)
{
    char step[256];
    for (struct str rest = str_from(path); rest.ptr && at >= 0;) {
        struct str part = str_cut(&rest, '/');
        if (!part.len) continue;
        int next = -1;
        errno = ENAMETOOLONG;
        if (part.len < sizeof step) {
            memcpy(step, part.ptr, part.len);
            step[part.len] = 0;
            if (!make_one(at, step, flags)) next = openat(at, step, OPEN_DIR | open_flags);
        }
        int error = errno;
        close(at);
        errno = error;
        at = next;
    }
    return at;
}

int dir_open(const char *path, int flags, int *out, det_err *err)
{
    int fd = open_steps(open(path[0] == '/' ? "/" : ".", OPEN_DIR), path, flags, 0);
    if (fd < 0) return fs_fail(err, "open the directory", path);
    *out = fd;
    return det_ok(err);
}

int dir_open_below(int dir, const char *name, int flags, int *out, det_err *err)
{
    ASSERT(path_is_plain(str_from(name)));
    int fd = open_steps(fcntl(dir, F_DUPFD_CLOEXEC, 0), name, flags, O_NOFOLLOW);
    if (fd < 0) return fs_fail(err, "open the directory", name);
    *out = fd;
    return det_ok(err);
}

// The directory that holds name, and name's last step.
static int open_parent(int dir, const char *name, const char **last, int *out, det_err *err)
{
    const char *slash = strrchr(name, '/');
    *last = slash ? slash + 1 : name;
    if (!slash) {
        *out = fcntl(dir, F_DUPFD_CLOEXEC, 0);
        return *out < 0 ? fs_fail(err, "open", name) : det_ok(err);
    }
    char folder[4096];
    if ((size_t)(slash - name) >= sizeof folder)
        return det_fail(err, DET_EINVAL, "the name '%.40s...' is too long", name);
    memcpy(folder, name, (size_t)(slash - name));
    folder[slash - name] = 0;
    return dir_open_below(dir, folder, 0, out, err);
}

int dir_open_file(int dir, const char *name, int *out, det_err *err)
{
    const char *last;
    struct stat st;
    int parent = -1;
    int rc = open_parent(dir, name, &last, &parent, err);
    if (rc) return rc;
    // A pipe must not make us wait.
    int fd = openat(parent, last, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        rc = det_fail(err, DET_ECORRUPT, "'%s' is a symbolic link", name);
    else if (fd < 0 || fstat(fd, &st) < 0)
        rc = fs_fail(err, "open", name);
    else if (!S_ISREG(st.st_mode))
        rc = det_fail(err, DET_ECORRUPT, "'%s' is not a regular file", name);
    close(parent);
    if (!rc)
        *out = fd;
    else if (fd >= 0)
        close(fd);
    return rc;
}

int dir_read_file(int dir, const char *name, struct buf *out, det_err *err)
{
    char piece[16 << 10];
    ssize_t n;
    int fd, rc = dir_open_file(dir, name, &fd, err);
    if (rc) return rc;
    buf_clear(out);
    do {
        n = read(fd, piece, sizeof piece);
        if (n > 0) buf_add(out, piece, (size_t)n);
    } while ((n > 0 && buf_ok(out)) || (n < 0 && errno == EINTR));
    if (n < 0)
        rc = fs_fail(err, "read", name);
    else if (!buf_ok(out))
        rc = det_fail(err, DET_ELIMIT, "'%s' has more than %zu bytes", name, out->max);
    close(fd);
    return rc;
}

static enum dir_kind kind_of(int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return DIR_OTHER;
    return S_ISREG(st.st_mode) ? DIR_FILE : S_ISDIR(st.st_mode) ? DIR_FOLDER : DIR_OTHER;
}

static int by_name(const void *a, const void *b)
{
    const struct dir_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void add_entry(struct arena *arena, struct dir_entries *all, struct dir_entry entry)
{
    // Full at every power of two, where it doubles.
    if ((all->n & (all->n - 1)) == 0) {
        struct dir_entry *more = arena_array(arena, all->n ? 2 * all->n : 1, sizeof *more);
        if (all->n) memcpy(more, all->items, all->n * sizeof *more);
        all->items = more;
    }
    all->items[all->n++] = entry;
}

int dir_list(int dir, const char *path, struct arena *arena, struct dir_entries *out, det_err *err)
{
    struct dir_entries all = {0};
    int fd = openat(dir, ".", OPEN_DIR); // a position of its own
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        int rc = fs_fail(err, "read the directory", path);
        if (fd >= 0) close(fd);
        return rc;
    }
    errno = 0;
    for (struct dirent *e; (e = readdir(stream));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        const char *name = arena_strdup(arena, e->d_name);
        add_entry(arena, &all, (struct dir_entry){name, kind_of(dir, name)});
        errno = 0;
    }
    int rc = errno ? fs_fail(err, "read the directory", path) : det_ok(err);
    closedir(stream);
    if (rc) return rc;
    if (all.n) qsort(all.items, all.n, sizeof *all.items, by_name);
    *out = all;
    return rc;
}

// --- removal

enum { MAX_DEPTH = 32 };

// One removal. What lies deeper than MAX_DEPTH is moved up to the top first, so that neither our
// stack nor our descriptors depend on what somebody has made.
struct removal {
    int top;
    unsigned n_moved;
};

static int remove_one(struct removal *r, int dir, const char *name, int depth, det_err *err);

// Never one that is mounted there. Whoever made it may have closed it against himself.
static int open_own(int dir, const char *name)
{
    const struct open_how how = {.flags = (unsigned)OPEN_DIR | O_NOFOLLOW,
                                 .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (fd < 0 && errno == EACCES && !fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW))
        fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    return fd;
}

static int remove_content(struct removal *r, int fd, const char *name, int depth, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries all = {0};
    int rc = dir_list(fd, name, &arena, &all, err);
    if (!rc && all.n && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) fchmod(fd, 0700);
    for (size_t i = 0; !rc && i < all.n; i++)
        rc = remove_one(r, fd, all.items[i].name, depth + 1, err);
    arena_done(&arena);
    return rc;
}

static int move_up(struct removal *r, int dir, const char *name, det_err *err)
{
    char moved[64];
    int failed;
    fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW); // its ".." changes
    do {
        snprintf(moved, sizeof moved, ".det-removed-%u", r->n_moved++);
        failed = renameat2(dir, name, r->top, moved, RENAME_NOREPLACE);
    } while (failed && errno == EEXIST);
    return failed ? fs_fail(err, "remove", name) : det_ok(err);
}

static int remove_folder(struct removal *r, int dir, const char *name, int depth, det_err *err)
{
    if (depth > MAX_DEPTH) return move_up(r, dir, name, err);
    int fd = open_own(dir, name);
    if (fd < 0 && errno == EXDEV)
        return det_fail(err, DET_ESTATE, "cannot remove '%s': something is mounted there", name);
    if (fd < 0) return fs_fail(err, "remove", name);
    if (r->top < 0) r->top = fd;
    int rc = 0;
    unsigned before;
    do { // once more if something was moved to the top meanwhile
        before = r->n_moved;
        rc = remove_content(r, fd, name, depth, err);
    } while (!rc && r->top == fd && r->n_moved != before);
    if (r->top == fd) r->top = -1;
    close(fd);
    if (!rc && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        rc = fs_fail(err, "remove", name);
    return rc;
}

static int remove_one(struct removal *r, int dir, const char *name, int depth, det_err *err)
{
    if (!unlinkat(dir, name, 0) || errno == ENOENT) return det_ok(err);
    if (errno != EISDIR && errno != EPERM) return fs_fail(err, "remove", name);
    return remove_folder(r, dir, name, depth, err);
}

int dir_remove(int dir, const char *name, det_err *err)
{
    struct removal r = {.top = -1};
    return remove_one(&r, dir, name, 0, err);
}

int dir_sync(int dir, const char *path, det_err *err)
{
    // Some file systems cannot sync a directory and say so with EINVAL; there is nothing to wait
    // for.
    if (fsync(dir) < 0 && errno != EINVAL) return fs_fail(err, "sync the directory", path);
    return det_ok(err);
}
