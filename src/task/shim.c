// Unit shim.c: the shim itself: one loop around the ranks of a task. Called by the program that a
// shim is.
//
//     RUNNING --SIGTERM, a rank fails, all ranks ended--> STOPPING --grace over, SIGINT--> KILLING
//
// It is over, in any state, when no process is left that the task has started.
#include "task/shim.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/safe.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/entropy.h"
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

// What is polled: our signals, the sandbox, then two pipes of each rank.
enum { POLL_SIGNALS, POLL_SANDBOX, POLL_RANKS };

struct shim {
    const char *dir;    // absolute
    struct arena arena; // for the specification, and words about the end
    struct task_spec spec;
    struct sandbox sandbox; // with the task's own directories
    struct spool spool;
    struct ranks all;
    struct rank *ranks;
    int n_ranks;
    int signal_fd;
    struct pollfd *polls;
    enum state state;
    pid_t *told; // strays that know that they should stop
    size_t n_told;
    bool child_ended;    // since the last look
    int64_t deadline_us; // STOPPING: end of the grace
    int64_t count_us;    // when memory is counted next; INT64_MAX: never
    struct usage usage;
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

// A rank, or who watches the GPUs.
static bool is_ours(const struct shim *s, pid_t pid)
{
    for (int i = 0; i < s->n_ranks; i++)
        if (s->ranks[i].pid == pid) return true;
    return gpus_has(s->usage.gpus, pid);
}

static bool was_told(const struct shim *s, pid_t pid)
{
    for (size_t i = 0; i < s->n_told; i++)
        if (s->told[i] == pid) return true;
    return false;
}

static void kill_sandbox(const struct shim *s)
{
    if (s->state == KILLING && s->all.box.init) kill(s->all.box.init, SIGKILL);
}

// A stray is a process whose parent has ended before it. They become children of the sandbox's
// first process, or of us if there is no sandbox; one that is not ours is a stray then. Does to them
// what the state demands, and returns how many are alive. Each is told once to stop.
static size_t tend_strays(struct shim *s)
{
    enum { AT_ONCE = 256 };
    const pid_t init = s->all.box.init, parent = init ? init : getpid();
    size_t max = (size_t)s->n_ranks + AT_ONCE, n_alive = 0;
    pid_t *pids = xcalloc(max, sizeof *pids);
    kill_sandbox(s);
    size_t n = proc_children(parent, pids, max);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = pids[i];
        if (!init && (is_ours(s, pid) || waitpid(pid, NULL, WNOHANG) == pid)) continue;
        if (s->state == KILLING)
            proc_signal_child(parent, pid, SIGKILL);
        else if (s->state == STOPPING && !was_told(s, pid))
            proc_signal_child(parent, pid, SIGTERM);
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
    if (limits_memory_exceeded(&s->sandbox.limits))
        s->exit.why = arena_printf(&s->arena, "%s: the limit of memory is %lld bytes", s->exit.why,
                                   (long long)s->sandbox.limits.memory_bytes);
}

// What it wrote to stderr last: in lists of what failed, that says most.
static void keep_last_words(struct shim *s, struct rank *r)
{
    const char *said = liner_last_words(&r->liners[TASK_STDERR]);
    struct buf safe = BUF_INIT(16 * LINER_SAID_BYTES);
    if (s->exit.asked || !*said) return;
    safe_add(&safe, str_from(said), SAFE_LINE);
    s->exit.said = arena_strdup(&s->arena, buf_str(&safe).ptr);
    buf_done(&safe);
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
    keep_last_words(s, r);
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

static pid_t *find_roots(const struct shim *s, size_t *n)
{
    pid_t *roots = xcalloc((size_t)s->n_ranks + 1, sizeof *roots);
    *n = 0;
    if (s->all.box.init) roots[(*n)++] = s->all.box.init;
    for (int i = 0; i < s->n_ranks; i++)
        if (s->ranks[i].pid && !s->ranks[i].ended) roots[(*n)++] = s->ranks[i].pid;
    return roots;
}

static void end_too_large(struct shim *s)
{
    if (s->exit.end == TASK_SUCCEEDED) {
        s->exit.end = TASK_FAILED;
        s->exit.code = -1;
        s->exit.signal = SIGKILL;
        s->exit.why =
            arena_printf(&s->arena, "the task was killed: the limit of memory is %lld bytes",
                         (long long)s->sandbox.limits.memory_bytes);
        say(s, s->exit.why);
    }
    s->state = KILLING;
}

// Without a cgroup, nobody counts the memory of all processes together but us.
static void look_at_usage(struct shim *s)
{
    enum { EVERY_US = 250000 };
    int64_t now_us = clock_mono_us();
    struct proc_usage usage;
    size_t n;
    if (now_us < MIN(s->count_us, s->usage.next_us)) return;
    pid_t *roots = find_roots(s, &n);
    if (now_us >= s->count_us) {
        s->count_us = now_us + EVERY_US;
        proc_usage_of(roots, n, &usage);
        if (usage.memory_bytes > s->sandbox.limits.memory_bytes && s->state != KILLING)
            end_too_large(s);
    }
    usage_add(&s->usage, &s->spool, roots, n, now_us);
    free(roots);
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
    int64_t due_us = MIN(s->count_us, s->usage.next_us);
    if (s->state == STOPPING) due_us = MIN(due_us, s->deadline_us);
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
        if (r->pipes[i % 2] >= 0 && s->polls[POLL_RANKS + i].revents) rank_read(r, i % 2, now_us);
        if (liner_due_us(&r->liners[i % 2]) <= now_us) liner_flush(&r->liners[i % 2], true);
    }
}

static void read_sandbox(struct shim *s)
{
    char bytes[256];
    while (s->all.box.reaped >= 0 && read(s->all.box.reaped, bytes, sizeof bytes) > 0)
        s->child_ended = true;
}

// While the spool is full the pipes are left alone, so that the task waits.
static void wait_for_events(struct shim *s)
{
    enum { FULL_MS = 10 };
    bool full = spool_is_full(&s->spool, clock_mono_us());
    int timeout_ms = poll_timeout_ms(s);
    if (full) timeout_ms = timeout_ms < 0 ? FULL_MS : MIN(timeout_ms, FULL_MS);
    s->polls[POLL_SIGNALS] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    s->polls[POLL_SANDBOX] = (struct pollfd){.fd = s->all.box.reaped, .events = POLLIN}; // -1: none
    for (int i = 0; i < 2 * s->n_ranks; i++)
        s->polls[POLL_RANKS + i] =
            (struct pollfd){.fd = full ? -1 : s->ranks[i / 2].pipes[i % 2], .events = POLLIN};
    if (poll(s->polls, POLL_RANKS + 2 * (nfds_t)s->n_ranks, timeout_ms) < 0) return;
    read_signals(s);
    read_sandbox(s);
    read_output(s);
}

static void run_loop(struct shim *s)
{
    for (;;) {
        if ((s->child_ended || s->state == KILLING) && check_children(s)) return;
        look_at_usage(s);
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
        if (!rc) rc = rank_start(r, &s->all, i, &err);
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
// durable before it is said that there will be no more of it. A task without a sandbox may have
// made a directory of that name.
static int save_exit(struct shim *s, int dir_fd, det_err *err)
{
    enum { RETRY_MS = 500 };
    spool_sync(&s->spool);
    unlinkat(dir_fd, reserve_name, 0);
    for (;;) {
        int rc = task_exit_save(s->dir, &s->exit, err);
        if (rc == 0 || rc == DET_ENOTFOUND) return rc;
        if (rc != DET_ENOSPC) dir_remove(dir_fd, "exit.json", NULL);
        poll(NULL, 0, RETRY_MS);
    }
}

static int make_key(struct shim *s, det_err *err)
{
    uint8_t random[16];
    char text[2 * sizeof random + 1];
    int rc = entropy_read(random, sizeof random, err);
    for (size_t i = 0; !rc && i < sizeof random; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    if (!rc) s->all.key = arena_strdup(&s->arena, text);
    return rc;
}

// Who we are is said when the first process of the sandbox is there, too: who kills one must find
// the other.
static int announce(struct shim *s, det_err *err)
{
    struct proc_id self, init = {0};
    int rc = proc_id_of(getpid(), &self, err);
    if (!rc && s->all.box.init) rc = proc_id_of(s->all.box.init, &init, err);
    return rc ? rc : task_shim_save(s->dir, &self, &init, err);
}

static int prepare(struct shim *s, int dir_fd, det_err *err)
{
    const struct sandbox_limits *l = &s->sandbox.limits;
    int rc = spool_open(&s->spool, dir_fd, s->spec.log_max_bytes, err);
    if (!rc) rc = take_reserve(s, err);
    if (!rc) rc = watch_signals(s, err);
    if (!rc) rc = make_key(s, err);
    if (!rc) rc = task_sandbox(s->dir, dir_fd, &s->spec, &s->arena, &s->sandbox, err);
    if (rc) return rc;
    s->all.spec = &s->spec;
    s->all.dir = s->dir;
    s->all.home = task_home(&s->arena, s->dir);
    s->count_us = l->memory_bytes && !l->memory_cgroup ? 0 : INT64_MAX;
    rc = sandbox_open(&s->sandbox, &s->all.box, err);
    if (rc) return det_wrap(err, "the task cannot be isolated");
    if (s->spec.slots.n) rc = task_ports_take(s->all.ports, err);
    return rc ? rc : announce(s, err);
}

static int run_task(struct shim *s, int dir_fd, det_err *err)
{
    int rc = prepare(s, dir_fd, err);
    if (rc) return rc;
    s->n_ranks = s->spec.rank_per_slot ? (int)s->spec.slots.n : 1;
    s->ranks = xcalloc((size_t)s->n_ranks, sizeof *s->ranks);
    s->polls = xcalloc(POLL_RANKS + 2 * (size_t)s->n_ranks, sizeof *s->polls);
    start_ranks(s);
    usage_init(&s->usage, &s->spec, clock_mono_us());
    run_loop(s);
    finish_ranks(s);
    sandbox_close(&s->all.box);
    det_err why = {0};
    if (task_deliver_reports(&s->spec, s->dir, &why)) say(s, why.msg);
    return det_ok(err);
}

static void shim_done(struct shim *s)
{
    usage_done(&s->usage);
    sandbox_close(&s->all.box);
    task_ports_return(s->all.ports);
    spool_close(&s->spool);
    if (s->signal_fd >= 0) close(s->signal_fd);
    free(s->ranks);
    free(s->polls);
    free(s->told);
    arena_done(&s->arena);
}

static int begin(struct shim *s, const char *dir, int *lock_fd, det_err *err)
{
    *s = (struct shim){.dir = dir, .spool = SPOOL_INIT, .signal_fd = -1};
    s->all.box = SANDBOX_BOX_INIT;
    for (int i = 0; i < TASK_N_PORTS; i++)
        s->all.ports[i] = PORT_NONE;
    int rc = *lock_fd < 0 ? task_lock(dir, lock_fd, err) : task_check_lock(dir, *lock_fd, err);
    if (rc) return rc;
    fcntl(*lock_fd, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return det_ok(err);
}

static int end(struct shim *s, int lock_fd, det_err *err)
{
    int rc = save_exit(s, lock_fd, err);
    shim_done(s);
    close(lock_fd);
    return rc;
}

int task_shim_run(const char *dir, int lock_fd, det_err *err)
{
    struct shim s;
    det_err why = {0};
    int rc = begin(&s, dir, &lock_fd, err);
    if (rc) return rc;
    s.exit = (struct task_exit){.rank = -1, .started_us = clock_unix_us()};
    rc = task_spec_load(dir, &s.arena, &s.spec, &why);
    s.exit.token = s.spec.token;
    if (!rc) rc = run_task(&s, lock_fd, &why);
    if (rc) note_not_started(&s, &why);
    s.exit.ended_us = clock_unix_us();
    return end(&s, lock_fd, err);
}

// Nobody knows how a task ended whose shim was killed.
static void find_exit(struct shim *s)
{
    struct proc_id id;
    if (!task_exit_load(s->dir, &s->arena, &s->exit, NULL)) return;
    bool was_ready = !task_shim_load(s->dir, &id, NULL);
    s->exit = (struct task_exit){
        .end = TASK_LOST,
        .code = -1,
        .rank = -1,
        .why = was_ready ? "the shim was killed" : "the shim did not start",
        .ended_us = clock_unix_us(),
    };
}

int task_shim_finish(const char *dir, int lock_fd, det_err *err)
{
    struct shim s;
    det_err why = {0};
    int rc = begin(&s, dir, &lock_fd, err);
    if (rc) return rc;
    find_exit(&s);
    task_kill_rest(dir);
    if (task_has_reports(dir)) {
        rc = task_spec_load(dir, &s.arena, &s.spec, &why);
        if (!rc) rc = task_deliver_reports(&s.spec, dir, &why);
    }
    if (rc)
        s.exit.why = arena_printf(&s.arena, "%s; not all of its reports were taken: %s",
                                  s.exit.why ? s.exit.why : "it has ended", why.msg);
    return end(&s, lock_fd, err);
}
