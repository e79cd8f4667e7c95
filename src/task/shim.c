// Unit shim.c: the shim itself: one loop around the ranks of a task. Called by the program that a
// shim is.
//
//     RUNNING --SIGTERM, a rank fails, all ranks ended--> STOPPING --grace over, SIGINT--> KILLING
//
// It is over, in any state, when no process is left that the task has started.
#include "task/shim.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum state { RUNNING, STOPPING, KILLING };

struct shim {
    const char *dir;    // absolute
    struct arena arena; // for the specification, and words about the end
    struct task_spec spec;
    struct spool spool;
    struct rank *ranks;
    int n_ranks;
    int signal_fd;
    struct pollfd *polls; // the signals, then two of each rank
    enum state state;
    pid_t *told; // strays that know that they should stop
    size_t n_told;
    bool child_ended;    // since the last look
    int64_t deadline_us; // STOPPING: end of the grace
    struct task_exit exit;
};

static void say(struct shim *s, const char *text)
{
    const struct task_line line = {
        .time_us = clock_unix_us(), .rank = -1, .stream = TASK_SHIM, .text = str_from(text)};
    spool_add(&s->spool, &line);
}

// --- ends

static void signal_all(struct shim *s, int signal)
{
    for (int i = 0; i < s->n_ranks; i++)
        rank_signal(&s->ranks[i], signal);
}

static bool is_rank(const struct shim *s, pid_t pid)
{
    for (int i = 0; i < s->n_ranks; i++)
        if (s->ranks[i].pid == pid) return true;
    return false;
}

static bool was_told(const struct shim *s, pid_t pid)
{
    for (size_t i = 0; i < s->n_told; i++)
        if (s->told[i] == pid) return true;
    return false;
}

// A stray is a child that is not a rank: its parent has ended before it. Does to them what the
// state demands, and returns how many are alive. Each is told once to stop.
static size_t tend_strays(struct shim *s)
{
    enum { AT_ONCE = 256 };
    size_t max = (size_t)s->n_ranks + AT_ONCE, n_alive = 0;
    pid_t *pids = xcalloc(max, sizeof *pids);
    size_t n = proc_children(pids, max);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = pids[i];
        if (is_rank(s, pid) || waitpid(pid, NULL, WNOHANG) == pid) continue;
        if (s->state == KILLING)
            kill(pid, SIGKILL);
        else if (s->state == STOPPING && !was_told(s, pid))
            kill(pid, SIGTERM);
        pids[n_alive++] = pid;
    }
    free(s->told);
    s->told = pids;
    s->n_told = s->state == RUNNING ? 0 : n_alive;
    return n_alive;
}

static void begin_stop(struct shim *s)
{
    if (s->state != RUNNING) return;
    s->state = STOPPING;
    s->deadline_us = clock_mono_us() + s->spec.grace_us;
    signal_all(s, SIGTERM);
    tend_strays(s);
}

static void describe_failure(struct shim *s, const struct rank *r, int index)
{
    char who[32] = "the task", how[128];
    if (s->spec.rank_per_slot) snprintf(who, sizeof who, "rank %d", index);
    if (r->signal)
        snprintf(how, sizeof how, "was ended by signal %d (%s)", r->signal,
                 sigdescr_np(r->signal) ? sigdescr_np(r->signal) : "unknown");
    else
        snprintf(how, sizeof how, "returned %d", r->code);
    s->exit.why =
        arena_printf(&s->arena, "%s%s %s", s->exit.asked ? "stopped on request: " : "", who, how);
}

// The first failure is the culprit; what follows is mostly its consequence, or ours. Its last words
// come before ours.
static void note_end(struct shim *s, struct rank *r, int index)
{
    bool failed = r->code != 0;
    rank_drain(r);
    if (!failed || s->exit.end != TASK_SUCCEEDED) return;
    s->exit.end = TASK_FAILED;
    s->exit.code = r->code;
    s->exit.signal = r->signal;
    s->exit.rank = index;
    describe_failure(s, r, index);
    say(s, s->exit.why);
    begin_stop(s);
}

// True when nothing of the task is left.
static bool check_children(struct shim *s)
{
    bool all_ended = true;
    s->child_ended = false;
    for (int i = 0; i < s->n_ranks; i++) {
        if (rank_check(&s->ranks[i])) note_end(s, &s->ranks[i], i);
        all_ended &= s->ranks[i].ended || !s->ranks[i].pid;
    }
    bool none_left = tend_strays(s) == 0;
    if (all_ended && !none_left) begin_stop(s);
    return all_ended && none_left;
}

static void kill_when_due(struct shim *s)
{
    if (s->state == STOPPING && clock_mono_us() >= s->deadline_us) {
        say(s, "what is left of the task is killed: it did not stop in time");
        s->state = KILLING;
    }
    if (s->state != KILLING) return;
    signal_all(s, SIGKILL);
    tend_strays(s);
}

// --- events

static void read_signals(struct shim *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == sizeof info) {
        bool asks = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
        s->child_ended |= info.ssi_signo == SIGCHLD;
        if (!asks) continue;
        if (s->exit.end == TASK_SUCCEEDED) s->exit.asked = true;
        say(s, "the task is asked to stop");
        begin_stop(s);
        if (info.ssi_signo == SIGINT) s->state = KILLING;
    }
}

static int poll_timeout_ms(const struct shim *s)
{
    enum { RETRY_MS = 20 };
    int64_t due_us = s->state == STOPPING ? s->deadline_us : INT64_MAX;
    if (s->state == KILLING) return RETRY_MS;
    for (int i = 0; i < 2 * s->n_ranks; i++)
        due_us = MIN(due_us, liner_due_us(&s->ranks[i / 2].liners[i % 2]));
    if (due_us == INT64_MAX) return -1;
    return (int)MIN(MAX(0, due_us - clock_mono_us()) / 1000 + 1, 1000000);
}

static void read_output(struct shim *s)
{
    int64_t now_us = clock_mono_us();
    for (int i = 0; i < 2 * s->n_ranks; i++) {
        struct rank *r = &s->ranks[i / 2];
        if (r->pipes[i % 2] >= 0 && s->polls[1 + i].revents) rank_read(r, i % 2, now_us);
        if (liner_due_us(&r->liners[i % 2]) <= now_us) liner_flush(&r->liners[i % 2], true);
    }
}

// While the spool is full the pipes are left alone, so that the task waits.
static void wait_for_events(struct shim *s)
{
    enum { FULL_MS = 10 };
    bool full = spool_is_full(&s->spool, clock_mono_us());
    int timeout_ms = poll_timeout_ms(s);
    if (full) timeout_ms = timeout_ms < 0 ? FULL_MS : MIN(timeout_ms, FULL_MS);
    s->polls[0] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    for (int i = 0; i < 2 * s->n_ranks; i++)
        s->polls[1 + i] = (struct pollfd){.fd = full ? -1 : s->ranks[i / 2].pipes[i % 2],
                                          .events = POLLIN}; // -1: none
    if (poll(s->polls, 1 + 2 * (nfds_t)s->n_ranks, timeout_ms) < 0) return;
    read_signals(s);
    read_output(s);
}

static void run_loop(struct shim *s)
{
    for (;;) {
        if ((s->child_ended || s->state == KILLING) && check_children(s)) return;
        kill_when_due(s);
        wait_for_events(s);
    }
}

// --- beginning and end

static int watch_signals(struct shim *s, det_err *err)
{
    sigset_t all;
    sigfillset(&all); // nothing but SIGKILL ends a shim before its task
    sigprocmask(SIG_SETMASK, &all, NULL);
    s->signal_fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    return s->signal_fd < 0 ? fs_fail(err, "watch", "signals") : det_ok(err);
}

static void note_not_started(struct shim *s, const det_err *err)
{
    s->exit.end = TASK_NOT_STARTED;
    s->exit.code = -1;
    s->exit.why = arena_strdup(&s->arena, err->msg);
}

static void start_ranks(struct shim *s)
{
    det_err err = {0};
    int rc = 0;
    for (int i = 0; i < s->n_ranks; i++) {
        struct rank *r = &s->ranks[i];
        r->pipes[0] = r->pipes[1] = -1;
        for (int k = 0; k < 2; k++)
            liner_init(&r->liners[k], &s->spool, (enum task_stream)k, i, s->spec.rank_per_slot);
        if (!rc) rc = rank_start(r, &s->spec, s->dir, i, &err);
    }
    s->child_ended = true; // also when there is none
    if (!rc) return;
    note_not_started(s, &err);
    say(s, err.msg);
    s->state = KILLING;
}

// Everybody who could write is dead, so what the pipes hold is all there will be.
static void finish_ranks(struct shim *s)
{
    for (int i = 0; i < s->n_ranks; i++)
        rank_drain(&s->ranks[i]);
    for (int i = 0; i < 2 * s->n_ranks; i++) {
        struct rank *r = &s->ranks[i / 2];
        if (r->pipes[i % 2] >= 0) close(r->pipes[i % 2]); // somebody unknown has the other end
        liner_flush(&r->liners[i % 2], false);
        liner_done(&r->liners[i % 2]);
    }
    for (int i = 0; i < s->n_ranks; i++)
        if (s->ranks[i].pid) waitpid(s->ranks[i].pid, NULL, 0);
}

// Space that is given back when the result has to be written: a full disk must not hide it.
static const char reserve_name[] = "reserve";

static int take_reserve(const struct shim *s, det_err *err)
{
    static const char nothing[8192];
    char path[PATH_MAX];
    struct fs_writer file = FS_WRITER_INIT;
    snprintf(path, sizeof path, "%s/%s", s->dir, reserve_name);
    int rc = fs_writer_open(&file, path, err);
    if (!rc) rc = fs_writer_add(&file, nothing, sizeof nothing, err);
    if (!rc) rc = fs_writer_publish(&file, err);
    fs_writer_close(&file);
    return rc;
}

// If there is no space even so, the shim waits: it is the only one who knows the result. The log is
// durable before it is said that there will be no more of it.
static int save_exit(struct shim *s, int dir_fd, det_err *err)
{
    enum { RETRY_MS = 500 };
    s->exit.ended_us = clock_unix_us();
    spool_sync(&s->spool);
    unlinkat(dir_fd, reserve_name, 0);
    for (;;) {
        int rc = task_exit_save(s->dir, &s->exit, err);
        if (rc == 0 || rc == DET_ENOTFOUND) return rc;
        poll(NULL, 0, RETRY_MS);
    }
}

static int run_task(struct shim *s, int dir_fd, det_err *err)
{
    struct proc_id self;
    int rc = spool_open(&s->spool, dir_fd, s->spec.log_max_bytes, err);
    if (!rc) rc = take_reserve(s, err);
    if (!rc) rc = watch_signals(s, err);
    if (!rc) rc = proc_id_of(getpid(), &self, err);
    if (!rc) rc = task_shim_save(s->dir, &self, err);
    if (rc) return rc;
    s->n_ranks = s->spec.rank_per_slot ? (int)s->spec.slots.n : 1;
    s->ranks = xcalloc((size_t)s->n_ranks, sizeof *s->ranks);
    s->polls = xcalloc(1 + 2 * (size_t)s->n_ranks, sizeof *s->polls);
    start_ranks(s);
    run_loop(s);
    finish_ranks(s);
    det_err why = {0};
    if (task_deliver_reports(&s->spec, s->dir, &why)) say(s, why.msg);
    return det_ok(err);
}

static void shim_done(struct shim *s)
{
    spool_close(&s->spool);
    if (s->signal_fd >= 0) close(s->signal_fd);
    free(s->ranks);
    free(s->polls);
    free(s->told);
    arena_done(&s->arena);
}

int task_shim_run(const char *dir, int lock_fd, det_err *err)
{
    struct shim s = {.dir = dir, .spool = SPOOL_INIT, .signal_fd = -1};
    det_err why = {0};
    int fd = lock_fd, rc = fd < 0 ? task_lock(dir, &fd, err) : task_check_lock(dir, fd, err);
    if (rc) return rc;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    s.exit = (struct task_exit){.rank = -1, .started_us = clock_unix_us()};
    rc = task_spec_load(dir, &s.arena, &s.spec, &why);
    s.exit.token = s.spec.token;
    if (!rc) rc = run_task(&s, fd, &why);
    if (rc) note_not_started(&s, &why);
    rc = save_exit(&s, fd, err);
    shim_done(&s);
    close(fd);
    return rc;
}
