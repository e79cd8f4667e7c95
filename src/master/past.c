// Unit past.c: notices a database that is missing.
#include "master/past.h"

#include "base/arena.h"
#include "base/assert.h"
#include "sys/dir.h"
#include <sys/stat.h>
#include <unistd.h>

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
    static const char *const folders[] = {"backups", "run", "checkpoints", "contexts"};
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
        rc = det_fail(err, DET_ECORRUPT,
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
    det_fail(err, err->code,
             "%s. Nothing was changed. 'det master --recover' brings back what can be read and what "
             "the backups have",
             said);
}
