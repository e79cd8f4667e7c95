// Unit lock.c: who may work in the directory of an allocation, and the end of those who should not.
#include "task/task.h"

#include "sys/dir.h"
#include "sys/fs.h"
#include "task/shim.h"
#include <errno.h>
#include <sys/file.h>
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

void task_kill_rest(const char *dir)
{
    struct arena arena = ARENA_INIT;
    proc_kill_marked(task_mark(&arena, dir));
    arena_done(&arena);
}
