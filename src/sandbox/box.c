// Unit box.c: the processes and namespaces of a sandbox. Called by the shim of a task.
//
//     shim --fork--> 1 (init): mounts; then waits for orphans, until the shim ends
//          --fork--> 2, 3, ... (ranks): join the namespaces of init, run the task
//
// Ranks are children of the shim, which sees them by numbers of its own. Orphans are children of
// init: the namespace has no other process that could take them.
#include "sandbox/box.h"

#include "base/assert.h"
#include "sandbox/view.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const sandbox_mode_names[] = {"none", "private", "strict", "users", NULL};

// --- user namespace

static int write_text(const char *path, const char *text, det_err *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    int rc = n < 0 ? fs_fail(err, "write", path) : det_ok(err);
    if (fd >= 0) close(fd);
    return rc;
}

// In it we may mount; outside of it we are who we were.
static int make_user_namespace(det_err *err)
{
    char uids[64], gids[64];
    snprintf(uids, sizeof uids, "%u %u 1", geteuid(), geteuid());
    snprintf(gids, sizeof gids, "%u %u 1", getegid(), getegid());
    if (unshare(CLONE_NEWUSER) < 0) return fs_fail(err, "make", "a user namespace");
    int rc = write_text("/proc/self/setgroups", "deny", err);
    if (!rc) rc = write_text("/proc/self/uid_map", uids, err);
    if (!rc) rc = write_text("/proc/self/gid_map", gids, err);
    return rc;
}

// --- init

static int become_init(const struct sandbox *s, det_err *err)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC) < 0) return fs_fail(err, "make", "a mount namespace");
    errno = privileges_set_groups(s);
    return errno ? fs_fail(err, "take on", "the task's groups") : view_build(s, err);
}

// Waits for orphans, and tells the shim of each. When the shim ends, so does everything here.
static _Noreturn void run_init(int life, int reaped)
{
    sigset_t all, child;
    struct signalfd_siginfo info;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    struct pollfd p[] = {{.fd = life, .events = POLLIN},
                         {.fd = signalfd(-1, &child, SFD_NONBLOCK), .events = POLLIN}};
    if (p[1].fd < 0) _exit(1);
    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR) _exit(1);
        if (p[0].revents) _exit(0);
        while (read(p[1].fd, &info, sizeof info) > 0)
            ;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            if (write(reaped, "", 1) < 0 && errno != EAGAIN) _exit(1);
    }
}

struct pipes {
    int report[2]; // from init: how it went
    int life[2];   // from the shim: it is there; and a byte when init may begin to work
    int reaped[2]; // from init: an orphan has ended
};

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0) close(pair[i]);
    pair[0] = pair[1] = -1;
}

static void keep_only(unsigned low, unsigned high)
{
    if (low > 0) close_range(0, low - 1, 0);
    if (high > low + 1) close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
}

// Nobody inside may look into its memory, which is a copy of the shim's.
static _Noreturn void init_main(const struct sandbox *s, struct pipes *p)
{
    det_err err = {0};
    const char *what;
    char go;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(p->life[1]);
    int rc = become_init(s, &err);
    if (write(p->report[1], &err, sizeof err) != sizeof err || rc) _exit(1);
    if (read(p->life[0], &go, 1) != 1) _exit(0); // until the shim has opened our namespaces
    const struct sandbox plain = {.mode = SANDBOX_PRIVATE};
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || privileges_drop(&plain, &what)) _exit(1);
    keep_only((unsigned)MIN(p->life[0], p->reaped[1]), (unsigned)MAX(p->life[0], p->reaped[1]));
    run_init(p->life[0], p->reaped[1]);
}

// --- open

static int open_namespaces(struct sandbox_box *box, det_err *err)
{
    const struct {
        const char *name;
        int flags, *fd;
    } parts[] = {{"ns/mnt", O_RDONLY, &box->mnt},
                 {"ns/ipc", O_RDONLY, &box->ipc},
                 {"root", O_PATH | O_DIRECTORY, &box->root}};
    for (size_t i = 0; i < STATIC_LEN(parts); i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%ld/%s", (long)box->init, parts[i].name);
        *parts[i].fd = open(path, parts[i].flags | O_CLOEXEC);
        if (*parts[i].fd < 0) return fs_fail(err, "open", path);
    }
    return det_ok(err);
}

static int wait_for_init(const struct pipes *p, det_err *err)
{
    det_err report = {0};
    ssize_t n;
    do
        n = read(p->report[0], &report, sizeof report);
    while (n < 0 && errno == EINTR);
    if (n != sizeof report) return det_fail(err, DET_EIO, "process 1 of the sandbox was killed");
    return report.code ? det_fail(err, report.code, "%s", report.msg) : det_ok(err);
}

static int start_init(const struct sandbox *s, struct sandbox_box *box, det_err *err)
{
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    int rc = 0;
    if (pipe2(p.report, O_CLOEXEC) < 0 || pipe2(p.life, O_CLOEXEC) < 0 ||
        pipe2(p.reaped, O_CLOEXEC | O_NONBLOCK) < 0)
        rc = fs_fail(err, "make", "a pipe");
    pid_t pid = rc ? -1 : fork();
    if (pid == 0) init_main(s, &p);
    if (!rc && pid < 0) rc = fs_fail(err, "start", "process 1 of the sandbox");
    if (!rc) {
        box->init = pid;
        close(p.report[1]);
        p.report[1] = -1;
        rc = wait_for_init(&p, err);
    }
    if (!rc) rc = open_namespaces(box, err);
    if (!rc && write(p.life[1], "", 1) != 1) rc = fs_fail(err, "start", "process 1");
    box->life = p.life[1];
    box->reaped = p.reaped[0];
    p.life[1] = p.reaped[0] = -1;
    close_pair(p.report);
    close_pair(p.life);
    close_pair(p.reaped);
    return rc;
}

int sandbox_open(const struct sandbox *s, struct sandbox_box *out, det_err *err)
{
    struct sandbox_box box = SANDBOX_BOX_INIT;
    box.sandbox = s;
    int rc = cgroup_make(&s->limits, err);
    if (!rc && s->mode != SANDBOX_NONE) {
        if (s->mode == SANDBOX_USERS && !privileges_are_full())
            rc = det_fail(err, DET_EDENIED, "only root can run tasks as other users");
        if (!rc && !privileges_are_full()) rc = make_user_namespace(err);
        if (!rc && unshare(CLONE_NEWPID) < 0) rc = fs_fail(err, "make", "a process namespace");
        if (!rc) rc = start_init(s, &box, err);
    }
    if (rc)
        sandbox_close(&box);
    else
        *out = box;
    return rc;
}

void sandbox_close(struct sandbox_box *box)
{
    const int fds[] = {box->life, box->reaped, box->mnt, box->ipc, box->root};
    if (box->init > 0) {
        kill(box->init, SIGKILL);
        while (waitpid(box->init, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    for (size_t i = 0; i < STATIC_LEN(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
    if (box->sandbox) limits_kill(&box->sandbox->limits);
    *box = SANDBOX_BOX_INIT;
}

// --- join

static int set_limits(const struct sandbox_limits *l)
{
    const struct {
        int64_t value;
        bool counted; // by a cgroup
        int resource;
    } limits[] = {{l->memory_bytes, l->memory_cgroup, RLIMIT_DATA},
                  {l->n_processes, l->process_cgroup, RLIMIT_NPROC}};
    for (size_t i = 0; i < STATIC_LEN(limits); i++) {
        struct rlimit r;
        if (!limits[i].value || limits[i].counted) continue;
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &r) < 0) return errno;
        rlim_t wanted = (rlim_t)limits[i].value;
        if (r.rlim_max != RLIM_INFINITY && r.rlim_max < wanted) wanted = r.rlim_max;
        r = (struct rlimit){wanted, wanted};
        if (setrlimit((__rlimit_resource_t)limits[i].resource, &r) < 0) return errno;
    }
    return 0;
}

static int enter(const struct sandbox_box *box, const char **what)
{
    *what = "enter the sandbox";
    if (setns(box->mnt, CLONE_NEWNS) < 0 || setns(box->ipc, CLONE_NEWIPC) < 0) return errno;
    if (fchdir(box->root) < 0 || chroot(".") < 0) return errno;
    return privileges_drop(box->sandbox, what);
}

int sandbox_join(const struct sandbox_box *box, const char **what)
{
    *what = "join its cgroup";
    int error = cgroup_join(&box->sandbox->limits);
    if (error) return error;
    *what = "limit memory and processes";
    error = set_limits(&box->sandbox->limits);
    if (error || !box->init) return error;
    return enter(box, what);
}

// --- try

int sandbox_try(const struct sandbox *s, det_err *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0) return fs_fail(err, "make", "a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        struct sandbox_box box = SANDBOX_BOX_INIT;
        det_err why = {0};
        const char *what;
        int rc = sandbox_open(s, &box, &why), error = 0;
        pid_t inside = rc ? 0 : fork();
        if (!rc && inside == 0) _exit(sandbox_join(&box, &what));
        if (inside > 0) waitpid(inside, &error, 0);
        if (error)
            det_fail(&why, DET_EIO, "a process cannot enter it: %s", strerror(WEXITSTATUS(error)));
        sandbox_close(&box);
        _exit(write(report[1], &why, sizeof why) != sizeof why);
    }
    det_err result = {0};
    close(report[1]);
    ssize_t n = pid < 0 ? -1 : read(report[0], &result, sizeof result);
    close(report[0]);
    if (pid > 0) waitpid(pid, NULL, 0);
    if (n != sizeof result) return det_fail(err, DET_EIO, "the attempt ended before its time");
    return result.code ? det_fail(err, result.code, "%s", result.msg) : det_ok(err);
}
