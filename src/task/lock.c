// Unit lock.c: who may work in the directory of an allocation, and the end of those who should not.
#include "task/task.h"

#include "sys/dir.h"
#include "sys/fs.h"
#include "task/shim.h"
#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int task_lock(const char *dir, int *out, det_err *err)
{
    int fd, rc = dir_open(dir, 0, &fd, err);
    if (rc) return rc;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *out = fd;
        return det_ok(err);
    }
    rc = errno == EWOULDBLOCK ? det_fail(err, DET_ESTATE, "the shim of '%s' is alive", dir)
                              : fs_fail(err, "lock", dir);
    close(fd);
    return rc;
}

int task_check_lock(const char *dir, int fd, det_err *err)
{
    struct stat given, wanted;
    if (stat(dir, &wanted) < 0) return fs_fail(err, "open", dir);
    bool same =
        fstat(fd, &given) == 0 && given.st_dev == wanted.st_dev && given.st_ino == wanted.st_ino;
    if (same && flock(fd, LOCK_EX | LOCK_NB) == 0) return det_ok(err);
    return det_fail(err, DET_ESTATE, "descriptor %d is not the lock of '%s'", fd, dir);
}

void task_kill_rest(const char *dir)
{
    struct arena arena = ARENA_INIT;
    proc_kill_marked(task_mark(&arena, dir));
    arena_done(&arena);
}
