// Unit guard.c: watches the files of the database, see db/guard.h. Used by the writer thread.
#include "db/guard.h"

#include "base/arena.h"
#include "base/mem.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    char *joined = xmalloc(n + k + 1);
    memcpy(joined, path, n);
    memcpy(joined + n, suffix, k + 1);
    return joined;
}

static void note_size(struct guarded *f)
{
    struct stat st;
    f->min_bytes = f->fd >= 0 && !fstat(f->fd, &st) ? st.st_size : 0;
}

static int open_file(struct guarded *f, det_err *err)
{
    f->fd = open(f->path, O_RDWR | O_CLOEXEC);
    if (f->fd < 0) return fs_fail(err, "open", f->path);
    note_size(f);
    return 0;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

bool guard_is_wal_missing(const char *path)
{
    struct stat live, db, st;
    char *live_path = join(path, "-live"), *wal_path = join(path, "-wal");
    bool missing = !stat(live_path, &live) && stat(wal_path, &st) < 0 && !stat(path, &db) &&
                   is_later(&live.st_mtim, &db.st_mtim);
    free(live_path);
    free(wal_path);
    return missing;
}

static int check_last_end(const struct guard *g, det_err *err)
{
    if (!guard_is_wal_missing(g->db.path)) return 0;
    return det_fail(err, DET_ECORRUPT,
                    "'%s' is missing: the last process that used the database was killed, and what "
                    "it acknowledged last was in that file",
                    g->wal.path);
}

int guard_open(struct guard *g, const char *path, bool is_new, det_err *err)
{
    *g =
        (struct guard){.db = {.path = xstrdup(path), .word = "database", .fd = -1},
                       .wal = {.path = join(path, "-wal"), .word = "log of the database", .fd = -1},
                       .live_path = join(path, "-live")};
    int rc = is_new ? 0 : check_last_end(g, err);
    if (!rc) rc = open_file(&g->db, err);
    if (rc) guard_close(g);
    return rc;
}

void guard_close(struct guard *g)
{
    if (g->db.fd >= 0) close(g->db.fd);
    if (g->wal.fd >= 0) close(g->wal.fd);
    if (g->live_fd >= 0) close(g->live_fd);
    free(g->db.path);
    free(g->wal.path);
    free(g->live_path);
    *g = GUARD_INIT;
}

// --- while it is open

// It begins older than the database: nothing has been written yet.
static int make_live_file(struct guard *g, det_err *err)
{
    static const struct timespec long_ago[2] = {{1, 0}, {1, 0}};
    g->live_fd = open(g->live_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (g->live_fd < 0 || futimens(g->live_fd, long_ago) < 0)
        return fs_fail(err, "create", g->live_path);
    return fs_sync_directory_of(g->live_path, err); // with the log's name
}

int guard_watch_wal(struct guard *g, det_err *err)
{
    int rc = open_file(&g->wal, err);
    g->wal.min_bytes = 0; // it may be left from before
    if (!rc) rc = make_live_file(g, err);
    return rc == DET_ENOSPC ? 0 : rc; // a full disk can be read
}

int guard_end(struct guard *g, det_err *err)
{
    if (unlink(g->live_path) < 0 && errno != ENOENT) return fs_fail(err, "remove", g->live_path);
    return fs_sync_directory_of(g->live_path, err);
}

static int look_at(const struct guarded *f, det_err *err)
{
    struct stat open_one, named;
    if (f->fd < 0) return 0;
    if (fstat(f->fd, &open_one) < 0) return fs_fail(err, "look at", f->path);
    if (stat(f->path, &named) < 0)
        return det_fail(err, DET_EIO, "the %s, '%s', is gone: %s", f->word, f->path,
                        open_one.st_nlink ? strerror(errno) : "it was deleted");
    if (named.st_ino != open_one.st_ino || named.st_dev != open_one.st_dev)
        return det_fail(err, DET_EIO, "the %s, '%s', was replaced by another file", f->word,
                        f->path);
    if (open_one.st_size < f->min_bytes)
        return det_fail(err, DET_EIO, "the %s, '%s', was cut from %lld to %lld bytes", f->word,
                        f->path, (long long)f->min_bytes, (long long)open_one.st_size);
    return 0;
}

int guard_look(const struct guard *g, det_err *err)
{
    int rc = look_at(&g->db, err);
    return rc ? rc : look_at(&g->wal, err);
}

void guard_note_commit(struct guard *g, int64_t n_bytes)
{
    g->wal.min_bytes = n_bytes;
    if (g->live_fd >= 0) futimens(g->live_fd, NULL);
}

void guard_expect_change(struct guard *g)
{
    note_size(&g->db);
    g->wal.min_bytes = 0;
}

int guard_fd(const struct guard *g)
{
    return g->db.fd;
}
