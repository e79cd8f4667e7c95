// Unit alloc.c: one allocation from its start to its end, as its owner follows it.
//
//     first shim --ends well--> told
//         `--killed, or reports are left--> second shim --ends--> told
//
// The second shim kills, delivers and waits, so the owner never does.
#include "rm/manager.h"

#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { MAX_FINISHERS = 3 };

struct alloc *alloc_new(struct rm *rm, int64_t token)
{
    struct alloc *a = xcalloc(1, sizeof *a);
    a->pidfd = a->watch = -1;
    a->seen.token = token;
    a->seen.dir = arena_printf(&a->arena, "%s/%lld", rm->root, (long long)token);
    return a;
}

static void stop_watching(struct rm *rm, struct alloc *a)
{
    if (a->watch >= 0) inotify_rm_watch(rm->inotify, a->watch);
    if (a->pidfd >= 0) close(a->pidfd); // which takes it out of the epoll set
    a->watch = a->pidfd = -1;
}

void alloc_free(struct rm *rm, struct alloc *a)
{
    if (!a) return;
    stop_watching(rm, a);
    arena_done(&a->arena);
    free(a);
}

static int watch_files(struct rm *rm, struct alloc *a, det_err *err)
{
    uint32_t what = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
    a->watch = inotify_add_watch(rm->inotify, a->seen.dir, what);
    return a->watch < 0 ? fs_fail(err, "watch", a->seen.dir) : det_ok(err);
}

static int watch_shim(struct rm *rm, struct alloc *a, det_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = a->pidfd};
    if (epoll_ctl(rm->epoll, EPOLL_CTL_ADD, a->pidfd, &event) < 0)
        return fs_fail(err, "watch the shim of", a->seen.dir);
    a->seen.running = true;
    return det_ok(err);
}

static void wake(struct rm *rm)
{
    eventfd_write(rm->wake, 1);
}

void alloc_note_ready(struct rm *rm, struct alloc *a)
{
    if (a->is_ready) return;
    a->is_ready = a->tell_started = true;
    wake(rm);
}

// --- shims

static int spawn(struct rm *rm, struct alloc *a, bool second, det_err *err)
{
    struct arena arena = ARENA_INIT;
    size_t n = 0;
    while (rm->shim[n])
        n++;
    const char **argv = arena_array(&arena, n + 3, sizeof *argv);
    int lock, rc = task_lock(a->seen.dir, &lock, err);
    memcpy(argv, rm->shim, n * sizeof *argv);
    argv[n] = a->seen.dir;
    if (second) argv[n + 1] = TASK_SECOND_SHIM;
    if (!rc) {
        rc = proc_spawn(argv, lock, &a->pidfd, err);
        close(lock); // the shim has it now, or nobody
    }
    arena_done(&arena);
    return rc;
}

int alloc_start_shim(struct rm *rm, struct alloc *a, bool second, det_err *err)
{
    int rc = watch_files(rm, a, err);
    if (!rc) rc = spawn(rm, a, second, err);
    if (!rc) rc = watch_shim(rm, a, err);
    return rc;
}

// Of a shim that is stopped, or does not react for another reason, too. What it has started is
// killed first: without the shim, nobody could tell what belongs to the task. The shim is stopped
// meanwhile, so that it never takes this for the end of the task.
void alloc_destroy(struct alloc *a)
{
    pid_t pid = a->pidfd >= 0 ? proc_pid(a->pidfd) : 0;
    if (pid) proc_signal(a->pidfd, SIGSTOP);
    if (pid) proc_kill_tree(pid);
    if (a->pidfd >= 0) proc_signal(a->pidfd, SIGKILL);
}

// --- the end

static void tell_end(struct rm *rm, struct alloc *a)
{
    a->exit.token = a->seen.token;
    a->exit.asked |= a->asked;
    if (a->defect) {
        a->exit.end = TASK_LOST;
        a->exit.why = a->defect;
    }
    a->seen.running = false;
    a->tell_log = a->tell_exited = true;
    slots_free(rm, a->seen.token);
    wake(rm);
}

// No second shim can be had: then reports are lost, but not the rest.
static void give_up(struct rm *rm, struct alloc *a, const char *why)
{
    a->exit = (struct task_exit){
        .end = TASK_LOST,
        .code = -1,
        .rank = -1,
        .why = arena_printf(&a->arena, "the shim was killed, and nobody can clean up: %s", why),
        .ended_us = clock_unix_us(),
    };
    task_kill_rest(a->seen.dir);
    task_exit_save(a->seen.dir, &a->exit, NULL); // without space, the next owner finds out again
    tell_end(rm, a);
}

void alloc_finish(struct rm *rm, struct alloc *a)
{
    det_err err = {0};
    if (!a->is_unfinished) return;
    a->is_unfinished = false;
    if (a->n_finishers++ == MAX_FINISHERS)
        det_fail(&err, DET_ESTATE, "%d that tried were killed", MAX_FINISHERS);
    else if (!alloc_start_shim(rm, a, true, &err))
        return;
    stop_watching(rm, a);
    give_up(rm, a, err.msg);
}

void alloc_conclude(struct rm *rm, struct alloc *a, bool well)
{
    stop_watching(rm, a);
    bool is_known = !task_exit_load(a->seen.dir, &a->arena, &a->exit, NULL);
    bool is_finished = a->n_finishers ? well : !task_has_reports(a->seen.dir);
    if (is_known && is_finished) {
        tell_end(rm, a);
        return;
    }
    a->seen.running = a->is_unfinished = true;
    wake(rm);
}

// --- what is found

// The lock tells whether there is a shim, and who it is: a process has the lock before it is a
// shim.
static bool find_shim(struct rm *rm, struct alloc *a)
{
    enum { TRIES = 3 };
    det_err err = {0};
    pid_t pid;
    int lock;
    for (int i = 0; i < TRIES; i++) {
        if (!task_lock(a->seen.dir, &lock, &err)) {
            close(lock);
            return false;
        }
        if (err.code == DET_ESTATE && !task_find_shim(a->seen.dir, &pid, &a->pidfd, &err))
            return !watch_shim(rm, a, &err);
    }
    a->defect = arena_printf(&a->arena, "it cannot be found again: %s", err.msg);
    return false;
}

// Whatever the directory looks like: a task may have written there, and one that is beyond repair
// must not be in the way of the others.
void alloc_recover(struct rm *rm, struct alloc *a)
{
    struct arena arena = ARENA_INIT;
    struct task_spec spec = {0};
    struct proc_id id;
    det_err err = {0};
    bool has_spec = !task_spec_load(a->seen.dir, &arena, &spec, &err);
    bool has_exit = !task_exit_load(a->seen.dir, &a->arena, &a->exit, NULL);
    if (has_spec) {
        a->seen.n_slots = (int)spec.slots.n;
        slots_take(rm, &spec);
    } else if (!has_exit) {
        a->defect = arena_printf(&a->arena, "it cannot be found again: %s", err.msg);
    }
    arena_done(&arena);
    if (!task_shim_load(a->seen.dir, &id, NULL)) alloc_note_ready(rm, a);
    watch_files(rm, a, NULL);
    a->tell_log = true;
    if (!find_shim(rm, a)) {
        if (err.code == DET_ENOTFOUND) a->defect = NULL; // nothing was started
        alloc_conclude(rm, a, true);
    } else if (a->defect) {
        alloc_destroy(a);
    } else if (!a->is_ready) {
        alloc_note_ready(rm, a);
    }
}
