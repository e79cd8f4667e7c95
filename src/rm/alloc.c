// Unit alloc.c: one allocation from its start to its end, as its owner follows it.
#include "rm/manager.h"

#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

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

int alloc_watch_files(struct rm *rm, struct alloc *a, det_err *err)
{
    uint32_t what = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
    a->watch = inotify_add_watch(rm->inotify, a->seen.dir, what);
    return a->watch < 0 ? fs_fail(err, "watch", a->seen.dir) : det_ok(err);
}

int alloc_watch_shim(struct rm *rm, struct alloc *a, det_err *err)
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

// Nobody knows how a task ended whose shim was killed. What is left of it is killed, and the end is
// written down, so that the next owner is told the same.
static void declare_lost(struct alloc *a)
{
    det_err ignored; // without space for it, the next owner finds out again
    a->exit = (struct task_exit){
        .token = a->seen.token,
        .end = TASK_LOST,
        .code = -1,
        .rank = -1,
        .asked = a->asked,
        .why = a->is_ready ? "the shim was killed" : "the shim did not start",
        .ended_us = clock_unix_us(),
    };
    task_kill_rest(a->seen.dir);
    task_exit_save(a->seen.dir, &a->exit, &ignored);
}

void alloc_conclude(struct rm *rm, struct alloc *a)
{
    stop_watching(rm, a);
    if (task_exit_load(a->seen.dir, &a->arena, &a->exit, NULL)) declare_lost(a);
    a->exit.token = a->seen.token;
    a->seen.running = false;
    a->tell_log = a->tell_exited = true;
    slots_free(rm, a->seen.token);
    wake(rm);
}

// Has the shim just been started, it may not have said yet who it is.
static int find_shim(struct rm *rm, struct alloc *a, bool *ended, det_err *err)
{
    enum { TRY_MS = 5, TRIES = 2000 };
    struct proc_id id;
    int lock;
    for (int i = 0; i < TRIES; i++) {
        int rc = task_lock(a->seen.dir, &lock, err);
        *ended = rc == 0;
        if (rc == 0) close(lock);
        if (rc != DET_ESTATE) return rc;
        if (!task_shim_load(a->seen.dir, &id, NULL) && !proc_open(&id, &a->pidfd, NULL)) {
            alloc_note_ready(rm, a);
            return alloc_watch_shim(rm, a, err);
        }
        poll(NULL, 0, TRY_MS);
    }
    return det_fail(err, DET_ESTATE, "the shim of '%s' does not say who it is", a->seen.dir);
}

int alloc_recover(struct rm *rm, struct alloc *a, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct task_spec spec = {0};
    struct proc_id id;
    bool ended = false;
    if (!task_spec_load(a->seen.dir, &arena, &spec, NULL)) {
        a->seen.n_slots = (int)spec.slots.n;
        slots_take(rm, &spec);
    }
    arena_done(&arena);
    if (!task_shim_load(a->seen.dir, &id, NULL)) alloc_note_ready(rm, a);
    int rc = alloc_watch_files(rm, a, err);
    if (!rc) rc = find_shim(rm, a, &ended, err);
    if (rc) return rc;
    a->tell_log = true;
    if (ended) alloc_conclude(rm, a);
    return det_ok(err);
}
