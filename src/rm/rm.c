// Unit rm.c: the resource manager of rm/rm.h: opens, starts, kills, forgets. Called by the master.
#include "rm/rm.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "rm/manager.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

// --- the list of allocations

// The index of token, or where it belongs.
static size_t search(const struct rm *rm, int64_t token)
{
    size_t low = 0, high = rm->n_allocs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rm->allocs[middle]->seen.token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct alloc *find(const struct rm *rm, int64_t token)
{
    size_t i = search(rm, token);
    return i < rm->n_allocs && rm->allocs[i]->seen.token == token ? rm->allocs[i] : NULL;
}

static void insert(struct rm *rm, struct alloc *a)
{
    size_t i = search(rm, a->seen.token);
    rm->allocs = xrealloc(rm->allocs, (rm->n_allocs + 1) * sizeof *rm->allocs);
    memmove(rm->allocs + i + 1, rm->allocs + i, (rm->n_allocs - i) * sizeof *rm->allocs);
    rm->allocs[i] = a;
    rm->n_allocs++;
}

static void take_out(struct rm *rm, const struct alloc *a)
{
    size_t i = search(rm, a->seen.token);
    rm->n_allocs--;
    memmove(rm->allocs + i, rm->allocs + i + 1, (rm->n_allocs - i) * sizeof *rm->allocs);
}

const struct rm_alloc *rm_find(const struct rm *rm, int64_t token)
{
    const struct alloc *a = find(rm, token);
    return a ? &a->seen : NULL;
}

size_t rm_count(const struct rm *rm)
{
    return rm->n_allocs;
}

const struct rm_alloc *rm_at(const struct rm *rm, size_t index)
{
    return &rm->allocs[index]->seen;
}

static int no_such(int64_t token, det_err *err)
{
    return det_fail(err, DET_ENOTFOUND, "there is no allocation %lld", (long long)token);
}

// --- open and close

static int watch_fd(struct rm *rm, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd < 0 ? -1 : epoll_ctl(rm->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int open_fds(struct rm *rm, det_err *err)
{
    rm->epoll = epoll_create1(EPOLL_CLOEXEC);
    rm->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    rm->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (rm->epoll < 0 || watch_fd(rm, rm->inotify) < 0 || watch_fd(rm, rm->wake) < 0)
        return fs_fail(err, "watch", rm->root);
    return det_ok(err);
}

// One owner at a time; the lock goes with the process. If that is killed while it starts a shim,
// the new process has the lock, too, for the moment until it becomes the shim.
static int open_root(struct rm *rm, const char *root, det_err *err)
{
    enum { TRY_MS = 5, TRIES = 100 };
    int rc = dir_open(root, DIR_CREATE | DIR_DURABLE, &rm->root_fd, err);
    if (rc) return rc;
    char *absolute = realpath(root, NULL); // tasks are known by the names of their directories
    if (!absolute) return fs_fail(err, "open", root);
    rm->root = arena_strdup(&rm->arena, absolute);
    free(absolute);
    for (int i = 0; i < TRIES; i++) {
        if (flock(rm->root_fd, LOCK_EX | LOCK_NB) == 0) return det_ok(err);
        if (errno != EWOULDBLOCK) return fs_fail(err, "lock", root);
        poll(NULL, 0, TRY_MS);
    }
    return det_fail(err, DET_ESTATE, "'%s' belongs to another process", root);
}

static int recover(struct rm *rm, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries entries = {0};
    int64_t token;
    int rc = dir_list(rm->root_fd, rm->root, &arena, &entries, err);
    for (size_t i = 0; !rc && i < entries.n; i++) {
        if (entries.items[i].kind != DIR_FOLDER) continue;
        if (!number_to_int(str_from(entries.items[i].name), 10, &token) || token <= 0) continue;
        struct alloc *a = alloc_new(rm, token);
        insert(rm, a);
        alloc_recover(rm, a);
    }
    arena_done(&arena);
    return rc;
}

struct rm *rm_open(const struct rm_opts *opts, det_err *err)
{
    struct rm *rm = xcalloc(1, sizeof *rm);
    rm->root_fd = rm->epoll = rm->inotify = rm->wake = -1;
    rm->shim = opts->shim;
    int rc = open_root(rm, opts->root, err);
    if (!rc) rc = open_fds(rm, err);
    if (!rc) rc = slots_find(rm, opts->n_cpu_slots, err);
    if (!rc) rc = recover(rm, err);
    if (!rc) return rm;
    rm_close(rm);
    return NULL;
}

void rm_close(struct rm *rm)
{
    if (!rm) return;
    for (size_t i = 0; i < rm->n_allocs; i++)
        alloc_free(rm, rm->allocs[i]);
    free(rm->allocs);
    const int fds[] = {rm->wake, rm->inotify, rm->epoll, rm->root_fd};
    for (size_t i = 0; i < STATIC_LEN(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
    arena_done(&rm->arena);
    free(rm);
}

int rm_fd(const struct rm *rm)
{
    return rm->epoll;
}

// --- start

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

// Ours first: what the task was given wins.
static void set_env(const struct rm *rm, const struct rm_task *task, struct arena *arena,
                    struct task_spec *spec)
{
    const char *devices = slots_devices(rm, spec, arena);
    size_t n_ours = devices != NULL, n_given = count(task->env);
    spec->env.n = n_ours + n_given;
    spec->env.items = arena_array(arena, spec->env.n, sizeof *spec->env.items);
    for (size_t i = 0; i < spec->env.n; i++)
        spec->env.items[i] = i < n_ours ? devices : task->env[i - n_ours];
}

static int make_spec(const struct rm *rm, const struct rm_task *task, struct arena *arena,
                     struct task_spec *out, det_err *err)
{
    enum { GRACE_US = 30000000, LOG_BYTES = 256 << 20 };
    struct task_spec spec = {
        .token = task->token,
        .withheld = task->withheld,
        .workdir = task->workdir,
        .rank_per_slot = task->rank_per_slot && task->n_slots > 0,
        .grace_us = task->grace_us ? task->grace_us : GRACE_US,
        .log_max_bytes = task->log_max_bytes ? task->log_max_bytes : LOG_BYTES,
    };
    if (task->sandbox) spec.sandbox = *task->sandbox;
    spec.argv.items = (const char **)(uintptr_t)task->argv;
    spec.argv.n = count(task->argv);
    spec.launch.items = (const char **)(uintptr_t)task->launch;
    spec.launch.n = count(task->launch);
    int rc = slots_choose(rm, task->n_slots, task->pool, arena, &spec, err);
    if (rc) return rc;
    set_env(rm, task, arena, &spec);
    *out = spec;
    return det_ok(err);
}

static void destroy_unwatched(struct alloc *a)
{
    struct pollfd ended = {.fd = a->pidfd, .events = POLLIN};
    proc_signal(a->pidfd, SIGKILL);
    poll(&ended, 1, -1);
    proc_reap(a->pidfd);
    task_kill_rest(a->seen.dir);
}

static int remove_directory(struct rm *rm, int64_t token, det_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)token);
    return dir_remove(rm->root_fd, name, err);
}

// From the directory on, the token is used. If nothing could be started, it is as if nothing was.
static int start_in_directory(struct rm *rm, struct alloc *a, const struct task_spec *spec,
                              det_err *err)
{
    if (mkdir(a->seen.dir, 0700) < 0) {
        if (errno != EEXIST) return fs_fail(err, "create", a->seen.dir);
        return det_fail(err, DET_ESTATE, "allocation %lld was started before",
                        (long long)spec->token);
    }
    int rc = task_spec_save(a->seen.dir, spec, err);
    if (!rc) rc = alloc_start_shim(rm, a, false, err);
    if (!rc) return det_ok(err);
    if (a->pidfd >= 0) destroy_unwatched(a);
    remove_directory(rm, spec->token, NULL);
    return rc;
}

int rm_start(struct rm *rm, const struct rm_task *task, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct alloc *a = alloc_new(rm, task->token);
    struct task_spec spec;
    int rc = 0;
    ASSERT(task->token > 0 && task->argv && task->argv[0] && task->n_slots >= 0);
    if (find(rm, task->token))
        rc =
            det_fail(err, DET_ESTATE, "allocation %lld was started before", (long long)task->token);
    if (!rc) rc = make_spec(rm, task, &arena, &spec, err);
    if (!rc) rc = start_in_directory(rm, a, &spec, err);
    if (rc) {
        alloc_free(rm, a);
    } else {
        a->seen.n_slots = task->n_slots;
        slots_take(rm, &spec);
        insert(rm, a);
    }
    arena_done(&arena);
    return rc;
}

// --- end

int rm_kill(struct rm *rm, int64_t token, enum rm_how how, det_err *err)
{
    static const int signals[] = {[RM_STOP] = SIGTERM, [RM_KILL] = SIGINT};
    struct alloc *a = find(rm, token);
    if (!a) return no_such(token, err);
    if (a->pidfd < 0) return det_ok(err);
    a->asked = true;
    if (how == RM_DESTROY && !a->n_finishers) // of a task that has a second shim, nothing is left
        alloc_destroy(a);
    else if (how != RM_DESTROY)
        proc_signal(a->pidfd, signals[how]); // if it has just ended, that is what was wanted
    return det_ok(err);
}

int rm_forget(struct rm *rm, int64_t token, const char *aside, det_err *err)
{
    struct alloc *a = find(rm, token);
    if (!a) return no_such(token, err);
    if (a->seen.running)
        return det_fail(err, DET_ESTATE, "allocation %lld is running", (long long)token);
    bool moved = aside && rename(a->seen.dir, aside) == 0;
    int rc = moved ? 0 : remove_directory(rm, token, err);
    if (rc) return rc;
    take_out(rm, a);
    alloc_free(rm, a);
    return det_ok(err);
}
