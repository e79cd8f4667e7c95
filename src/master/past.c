// Unit past.c: notices a database that is missing, and brings one back.
#include "master/past.h"

#include "base/arena.h"
#include "base/assert.h"
#include "db/db.h"
#include "master/master.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// If a master is killed while it starts a shim, the new process has the lock, too, for the moment
// until it becomes the shim.
int past_lock(const char *data_dir, int *out, det_err *err)
{
    enum { TRY_MS = 5, TRIES = 100 };
    struct arena arena = ARENA_INIT;
    const char *path = arena_printf(&arena, "%s/lock", data_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), locked = -1;
    int rc = fd < 0 ? fs_fail(err, "open", path) : 0;
    for (int i = 0; !rc && locked < 0 && i < TRIES; i++) {
        locked = flock(fd, LOCK_EX | LOCK_NB);
        if (locked < 0) poll(NULL, 0, TRY_MS);
    }
    if (!rc && locked < 0) rc = det_fail(err, DET_ESTATE, "another master uses '%s'", data_dir);
    if (!rc)
        *out = fd;
    else if (fd >= 0)
        close(fd);
    arena_done(&arena);
    return rc;
}

static bool has_content(const char *path)
{
    struct stat st;
    return !stat(path, &st) && st.st_size > 0;
}

static bool has_entries(const char *path, struct arena *arena)
{
    struct dir_entries entries = {0};
    int fd = -1;
    if (dir_open(path, 0, &fd, NULL)) return false;
    int rc = dir_list(fd, path, arena, &entries, NULL);
    close(fd);
    return !rc && entries.n > 0;
}

// What only a master that had a database leaves behind; NULL: nothing.
static const char *find_trace(const char *data_dir, struct arena *arena)
{
    static const char *const files[] = {"det.db-wal", "det.db-live", "master.json"};
    static const char *const folders[] = {"backups", "run", "checkpoints", "code", "contexts"};
    for (size_t i = 0; i < STATIC_LEN(files); i++) {
        const char *path = arena_printf(arena, "%s/%s", data_dir, files[i]);
        if (!access(path, F_OK)) return path;
    }
    for (size_t i = 0; i < STATIC_LEN(folders); i++) {
        const char *path = arena_printf(arena, "%s/%s", data_dir, folders[i]);
        if (has_entries(path, arena)) return path;
    }
    return NULL;
}

int past_check(const char *data_dir, const char *database, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const char *trace = has_content(database) ? NULL : find_trace(data_dir, &arena);
    int rc = 0;
    if (trace)
        rc =
            det_fail(err, DET_ECORRUPT,
                     "the database '%s' is %s, but '%s' shows that there was one; to begin with an "
                     "empty one, give another directory or move this one away",
                     database, access(database, F_OK) ? "missing" : "empty", trace);
    arena_done(&arena);
    return rc;
}

void past_advise(det_err *err)
{
    char said[DET_ERR_MSG_MAX];
    snprintf(said, sizeof said, "%s", err->msg);
    det_fail(
        err, err->code,
        "%s. Nothing was changed. 'det master --recover' brings back what can be read and what "
        "the backups have",
        said);
}

int master_recover(const char *data_dir, struct buf *report, det_err *err)
{
    struct arena arena = ARENA_INIT;
    int lock = -1;
    int rc = past_lock(data_dir, &lock, err);
    if (!rc)
        rc = db_recover(arena_printf(&arena, "%s/det.db", data_dir),
                        arena_printf(&arena, "%s/backups", data_dir), report, err);
    if (lock >= 0) close(lock);
    arena_done(&arena);
    return rc;
}
