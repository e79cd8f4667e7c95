// Unit lock.c: who may work in the directory of an allocation, and the end of those who should not.
#include "task/task.h"

#include "base/number.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include "task/shim.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/pidfd.h>
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

// The shim says who it is in a file that a task without a sandbox can write. So it is believed only
// of a process that has the lock; and if the file is no good, the lock alone tells.
static bool open_holder(const char *dir, const struct proc_id *id, int *out)
{
    int fd = -1;
    bool is_open = id->boot[0] ? !proc_open(id, &fd, NULL)
                               : id->pid && (fd = pidfd_open((pid_t)id->pid, 0)) >= 0;
    if (!is_open) return false;
    bool holds = proc_has_file((pid_t)id->pid, TASK_LOCK_FD, dir);
    if (holds)
        *out = fd;
    else
        close(fd);
    return holds;
}

int task_find_shim(const char *dir, pid_t *pid, int *out, det_err *err)
{
    struct proc_id id = {0};
    bool found = !task_shim_load(dir, &id, NULL) && open_holder(dir, &id, out);
    if (!found) {
        id = (struct proc_id){.pid = proc_find_file(TASK_LOCK_FD, dir)};
        found = open_holder(dir, &id, out);
    }
    *pid = (pid_t)id.pid;
    return found ? det_ok(err) : det_fail(err, DET_ENOTFOUND, "nobody has the lock of '%s'", dir);
}

// --- what a task has left behind

enum { WAIT_MS = 10000 }; // what cannot be killed (stuck in a driver) must not hold us

// All of the sandbox ends with its first process, before that one can be waited for.
static void kill_sandbox(const char *dir)
{
    struct proc_id id;
    int fd;
    if (task_init_load(dir, &id, NULL) || proc_open(&id, &fd, NULL)) return;
    bool is_ours = proc_ends_with((pid_t)id.pid, dir); // a copy of the shim
    if (is_ours) proc_signal(fd, SIGKILL);
    if (is_ours || proc_is_ending((pid_t)id.pid)) { // the shim's end has killed it, too
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        poll(&ended, 1, WAIT_MS);
    }
    close(fd);
}

// ".../det-<master>/<token>", where the token is that of the directory.
static bool is_own_group(const char *group, const char *dir)
{
    struct str path = str_from(group), token = str_from(strrchr(dir, '/'));
    if (!group || !str_ends(path, token)) return false;
    path.len -= token.len;
    const char *slash = memrchr(path.ptr, '/', path.len);
    return slash && str_starts(str_from(slash), STR("/" TASK_CGROUP_PREFIX));
}

static void kill_groups(const char *dir)
{
    struct arena arena = ARENA_INIT;
    struct task_spec spec = {0};
    if (!task_spec_load(dir, &arena, &spec, NULL)) {
        struct sandbox_limits l = spec.sandbox.limits;
        if (!is_own_group(l.memory_cgroup, dir)) l.memory_cgroup = NULL;
        if (!is_own_group(l.process_cgroup, dir)) l.process_cgroup = NULL;
        limits_kill(&l);
    }
    arena_done(&arena);
}

void task_kill_rest(const char *dir)
{
    struct arena arena = ARENA_INIT;
    const char *marks[] = {task_mark(&arena, dir), arena_printf(&arena, "DET_RUN_DIR=%s", dir),
                           NULL}; // the latter: of shims before tasks had a directory of their own
    kill_sandbox(dir);
    kill_groups(dir);
    proc_kill_marked(marks);
    arena_done(&arena);
}
