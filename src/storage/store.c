// Unit store.c: base directories: opening, cleaning, deleting.
#include "storage/store.h"

#include "base/mem.h"
#include "base/path.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static struct store *store_new(const char *path, int dir)
{
    struct store *s = xcalloc(1, sizeof *s);
    s->path = xstrdup(path);
    s->dir = dir;
    return s;
}

int store_open(const char *base, struct store **out, det_err *err)
{
    int dir;
    int rc = dir_open(base, DIR_CREATE | DIR_DURABLE, &dir, err);
    if (!rc) *out = store_new(base, dir);
    return rc;
}

// host is open and closed here.
static int open_inner(int host, const char *host_path, const char *inner, struct store **out,
                      det_err *err)
{
    int dir = host;
    if (*inner) {
        int rc = dir_open_below(host, inner, DIR_CREATE | DIR_DURABLE, &dir, err);
        close(host);
        if (rc) return det_wrap(err, "checkpoint storage '%s'", host_path);
    }
    *out = store_new(host_path, dir);
    return det_ok(err);
}

int store_open_below(const char *host_path, const char *storage_path, struct store **out,
                     det_err *err)
{
    struct arena arena = ARENA_INIT;
    const char *host = path_normal(&arena, host_path), *whole = host;
    int dir = -1, rc;
    if (storage_path && storage_path[0] == '/')
        whole = path_normal(&arena, storage_path);
    else if (storage_path)
        whole = path_normal(&arena, arena_printf(&arena, "%s/%s", host, storage_path));
    if (!path_is_inside(whole, host))
        rc = det_fail(err, DET_EINVAL, "storage_path '%s' is not inside host_path '%s'",
                      storage_path, host_path);
    else
        rc = dir_open(host, 0, &dir, err);
    if (!rc) {
        const char *inner = whole + strlen(host);
        rc = open_inner(dir, *whole ? whole : "/", inner + (*inner == '/'), out, err);
    }
    arena_done(&arena);
    return rc;
}

void store_close(struct store *s)
{
    if (!s) return;
    close(s->dir);
    free(s->path);
    free(s);
}

int lock_unfinished(int dir)
{
    int fd = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

// Whoever has the lock of a directory may remove it; one who makes it again meanwhile waits for
// nobody.
static int remove_unfinished(struct store *s, const char *name, int *n_removed, det_err *err)
{
    int dir = -1, lock = -1;
    int rc = dir_open_below(s->dir, name, 0, &dir, err);
    if (rc) return rc == DET_ENOTFOUND ? det_ok(err) : rc;
    lock = lock_unfinished(dir);
    if (lock >= 0) {
        rc = dir_remove(s->dir, name, err);
        if (!rc) ++*n_removed;
        close(lock);
    }
    close(dir);
    return rc;
}

int store_clean(struct store *s, int *n_removed, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries all = {0};
    int n = 0;
    int rc = dir_list(s->dir, s->path, &arena, &all, err);
    for (size_t i = 0; !rc && i < all.n; i++) {
        struct str name = str_from(all.items[i].name);
        if (str_starts(name, STR(GONE_PREFIX))) {
            rc = dir_remove(s->dir, name.ptr, err);
            n += !rc;
        } else if (str_starts(name, STR(TEMP_PREFIX)) && all.items[i].kind == DIR_FOLDER) {
            rc = remove_unfinished(s, name.ptr, &n, err);
        }
    }
    arena_done(&arena);
    if (rc) return det_wrap(err, "checkpoint storage '%s'", s->path);
    if (n_removed) *n_removed = n;
    return rc;
}

const char *ckpt_file(const struct store *s, struct uuid id, const char *name, struct arena *arena)
{
    char text[UUID_TEXT_BYTES];
    uuid_format(id, text);
    return arena_printf(arena, "%s/%s%s%s", s->path, text, name ? "/" : "", name ? name : "");
}

int ckpt_delete(struct store *s, struct uuid id, det_err *err)
{
    char text[UUID_TEXT_BYTES], gone[UUID_TEXT_BYTES + sizeof GONE_PREFIX];
    uuid_format(id, text);
    snprintf(gone, sizeof gone, GONE_PREFIX "%s", text);
    int rc = 0;
    if (renameat(s->dir, text, s->dir, gone) < 0) rc = fs_fail(err, "delete", text);
    if (!rc) rc = dir_sync(s->dir, s->path, err);
    if (!rc) rc = dir_remove(s->dir, gone, err);
    return rc ? det_wrap(err, "checkpoint storage '%s'", s->path) : rc;
}
