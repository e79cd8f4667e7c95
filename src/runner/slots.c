// Unit slots.c: starts the ranks of a run, shows what they print, and looks after them.
#include "runner/slots.h"

#include "args/args.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "client/client.h"
#include "sys/clock.h"
#include "sys/cpu.h"
#include "sys/entropy.h"
#include "sys/fs.h"
#include "sys/pool.h"
#include "sys/port.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 1 << 20,
    KEY_BYTES = 16,
    GRACE_US = 5000000,
    UNFINISHED_US = 1000000, // a line of rank 0 that does not go on is shown after a second
    N_STREAMS = 2,
};

struct child {
    pid_t pid; // 0: has ended
    int status;
    int pipe[N_STREAMS];        // -1: none, or closed
    struct buf line[N_STREAMS]; // that has no end yet
};

// Where the ranks of this machine are among all of them.
struct place {
    int first, size;       // the rank of the first one here; how many there are in all
    int machine, machines; // the same of machines
    char chief[256];       // address of the first machine
};

struct launcher {
    int n, n_running;
    struct place place;
    struct child *child;
    int signals; // signalfd
    enum slots_signals to;
    bool is_open[N_STREAMS];     // what was written last is a line of rank 0 without its end
    int64_t since_us[N_STREAMS]; // when rank 0 began the line that has no end yet
    int n_stops;                 // signals to stop so far
    int culprit; // the first rank that failed, followers only if there is no other; -1: none
    int64_t kill_at_us;
};

// --- what ranks print

static void write_all(int fd, struct str text)
{
    while (text.len) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return; // nobody listens
        text.ptr += n;
        text.len -= (size_t)n;
    }
}

static bool is_end(char c)
{
    return c == '\n' || c == '\r';
}

static void show_line(struct launcher *l, int rank, int stream)
{
    struct buf *line = &l->child[rank].line[stream], out = BUF_INIT(LINE_MAX_BYTES + 64);
    if (l->is_open[stream]) buf_addc(&out, '\n');
    l->is_open[stream] = false;
    buf_printf(&out, "[rank=%d] ", rank);
    buf_add(&out, line->ptr, line->len);
    buf_addc(&out, '\n');
    write_all(stream ? STDERR_FILENO : STDOUT_FILENO, buf_str(&out));
    buf_done(&out);
    buf_clear(line);
}

// A carriage return ends a line too: a bar that is drawn again would hide what others say.
static void take_lines(struct launcher *l, int rank, int stream, struct str text)
{
    struct buf *line = &l->child[rank].line[stream];
    for (size_t i = 0; i < text.len; i++) {
        bool ends = is_end(text.ptr[i]);
        if (!ends) buf_addc(line, text.ptr[i]);
        if (line->len && (ends || line->len == LINE_MAX_BYTES)) show_line(l, rank, stream);
    }
}

// Rank 0 speaks for all: its first n bytes that wait are passed on as they are.
static void pass_on(struct launcher *l, int stream, size_t n)
{
    struct buf *text = &l->child[0].line[stream];
    if (!n) return;
    write_all(stream ? STDERR_FILENO : STDOUT_FILENO, (struct str){text->ptr, n});
    l->is_open[stream] = !is_end(text->ptr[n - 1]);
    text->len -= n;
    memmove(text->ptr, text->ptr + n, text->len);
    l->since_us[stream] = clock_mono_us();
}

static void take_text(struct launcher *l, int stream, struct str text)
{
    struct buf *waits = &l->child[0].line[stream];
    if (waits->len + text.len > LINE_MAX_BYTES) pass_on(l, stream, waits->len);
    if (!waits->len) l->since_us[stream] = clock_mono_us();
    buf_add(waits, text.ptr, text.len);
    size_t n = waits->len;
    while (n && !is_end(waits->ptr[n - 1]))
        n--;
    pass_on(l, stream, n);
}

static void read_output(struct launcher *l, int rank, int stream)
{
    struct child *c = &l->child[rank];
    char bytes[16 << 10];
    ssize_t n = read(c->pipe[stream], bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n > 0 && rank) take_lines(l, rank, stream, (struct str){bytes, (size_t)n});
    if (n > 0 && !rank) take_text(l, stream, (struct str){bytes, (size_t)n});
    if (n > 0) return;
    if (c->line[stream].len && rank) show_line(l, rank, stream);
    if (!rank) pass_on(l, stream, c->line[stream].len);
    close(c->pipe[stream]);
    c->pipe[stream] = -1;
}

// When something has to be done even if nothing happens; -1: never.
static int64_t next_wake_us(const struct launcher *l)
{
    int64_t at_us = l->culprit < 0 ? INT64_MAX : l->kill_at_us;
    for (int i = 0; i < N_STREAMS; i++)
        if (l->child[0].line[i].len) at_us = MIN(at_us, l->since_us[i] + UNFINISHED_US);
    return at_us == INT64_MAX ? -1 : MAX(at_us - clock_mono_us(), 0);
}

static void pass_on_unfinished(struct launcher *l)
{
    for (int i = 0; i < N_STREAMS; i++)
        if (clock_mono_us() >= l->since_us[i] + UNFINISHED_US)
            pass_on(l, i, l->child[0].line[i].len);
}

// --- signals and ends

// And what they have started.
static void signal_all(const struct launcher *l, int number)
{
    for (int i = 0; i < l->n; i++)
        if (l->child[i].pid) kill(-l->child[i].pid, number);
}

static void stop(struct launcher *l, int number)
{
    if (l->n_stops++) {
        signal_all(l, SIGKILL);
        signal(number, SIG_DFL);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(number);
    }
    if (l->to == SLOTS_SIGNAL_ALL)
        signal_all(l, number);
    else if (l->child[0].pid)
        kill(l->child[0].pid, number);
}

static bool is_follower(const struct launcher *l, int status)
{
    return l->to == SLOTS_SIGNAL_CHIEF && WIFEXITED(status) &&
           WEXITSTATUS(status) == SLOTS_FOLLOWER;
}

static void note_end(struct launcher *l, int rank, int status)
{
    struct child *c = &l->child[rank];
    int64_t now = clock_mono_us();
    c->pid = 0;
    c->status = status;
    l->n_running--;
    bool stopped = l->n_stops && WIFEXITED(status) && WEXITSTATUS(status) > 128;
    if (status == 0 || stopped) return;
    bool is_first = l->culprit < 0;
    bool was_killed = !is_first && now >= l->kill_at_us; // by this process
    if (is_first || (is_follower(l, l->child[l->culprit].status) && !was_killed)) l->culprit = rank;
    if (is_first) l->kill_at_us = now + GRACE_US;
}

static void reap(struct launcher *l)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < l->n; i++)
            if (l->child[i].pid == pid) note_end(l, i, status);
}

static void read_signals(struct launcher *l)
{
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD)
            reap(l);
        else
            stop(l, (int)info.ssi_signo);
}

// Waits for whatever comes next.
static void turn(struct launcher *l)
{
    const int n = l->n * N_STREAMS;
    struct pollfd *p = xcalloc((size_t)n + 1, sizeof *p);
    for (int i = 0; i < n; i++)
        p[i] = (struct pollfd){.fd = l->child[i / N_STREAMS].pipe[i % N_STREAMS], .events = POLLIN};
    p[n] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    int64_t left_us = next_wake_us(l);
    poll(p, (nfds_t)n + 1, left_us < 0 ? -1 : (int)(left_us / 1000) + 1);
    for (int i = 0; i < n; i++)
        if (p[i].revents) read_output(l, i / N_STREAMS, i % N_STREAMS);
    pass_on_unfinished(l);
    read_signals(l);
    if (l->culprit >= 0 && clock_mono_us() >= l->kill_at_us) signal_all(l, SIGKILL);
    free(p);
}

static int conclude(const struct launcher *l)
{
    if (l->culprit < 0) return WEXITSTATUS(l->child[0].status);
    int status = l->child[l->culprit].status;
    if (WIFSIGNALED(status)) {
        print_error("rank %d was killed by signal %d (%s); all ranks have ended", l->culprit,
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
    print_error("rank %d has failed; all ranks have ended", l->culprit);
    return is_follower(l, status) ? EXIT_FAILED : WEXITSTATUS(status);
}

static int look_after(struct launcher *l)
{
    while (l->n_running)
        turn(l);
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < N_STREAMS; k++)
            while (l->child[i].pipe[k] >= 0)
                read_output(l, i, k);
    return conclude(l);
}

// --- starting

static void set_int(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

// In the new process. It is in a group of its own, so that Ctrl-C reaches it by way of its parent
// only; and it ends with its parent.
static void become_rank(const struct launcher *l, int rank, int n_threads, const int *output,
                        pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILED);
    for (int i = 0; i < N_STREAMS; i++)
        if (output[i] >= 0) dup2(output[i], STDOUT_FILENO + i);
    set_int("RANK", l->place.first + rank);
    set_int("LOCAL_RANK", rank);
    set_int("WORLD_SIZE", l->place.size);
    set_int("LOCAL_WORLD_SIZE", l->n);
    set_int("GROUP_RANK", l->place.machine);
    set_int("GROUP_WORLD_SIZE", l->place.machines);
    setenv("MASTER_ADDR", l->place.chief, 1);
    pool_set_threads(n_threads);
}

// One process writes what all say, line by line: two that write at the same time would tear the
// lines of each other. Only to a terminal rank 0 writes itself: it draws there.
static int open_pipes(struct child *c, int rank, int output[N_STREAMS], det_err *err)
{
    for (int i = 0; i < N_STREAMS; i++) {
        int ends[2];
        if (!rank && isatty(STDOUT_FILENO + i)) continue;
        if (pipe2(ends, O_CLOEXEC) < 0) return fs_fail(err, "make", "a pipe");
        c->pipe[i] = ends[0];
        output[i] = ends[1];
    }
    return 0;
}

// Returns in both processes; *is_rank tells which.
static int start_one(struct launcher *l, int rank, int n_threads, bool *is_rank, det_err *err)
{
    struct child *c = &l->child[rank];
    int output[N_STREAMS] = {-1, -1};
    int rc = open_pipes(c, rank, output, err);
    pid_t parent = getpid();
    pid_t pid = rc ? -1 : fork();
    if (!rc && pid < 0) rc = fs_fail(err, "start", "a rank");
    *is_rank = pid == 0;
    if (*is_rank) become_rank(l, rank, n_threads, output, parent);
    for (int i = 0; i < N_STREAMS; i++)
        if (output[i] >= 0) close(output[i]);
    if (pid > 0) {
        setpgid(pid, pid); // as it does itself: whoever is first
        c->pid = pid;
        l->n_running++;
    }
    return rc;
}

static int make_key(det_err *err)
{
    unsigned char bytes[KEY_BYTES];
    char text[2 * KEY_BYTES + 1];
    int rc = entropy_read(bytes, sizeof bytes, err);
    for (int i = 0; !rc && i < KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    if (!rc) setenv("DET_RANKS_KEY", text, 1);
    return rc;
}

static int watch_signals(struct launcher *l, det_err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals < 0 ? fs_fail(err, "watch", "signals") : 0;
}

static void launcher_done(struct launcher *l)
{
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < N_STREAMS; k++) {
            if (l->child[i].pipe[k] >= 0) close(l->child[i].pipe[k]);
            buf_done(&l->child[i].line[k]);
        }
    if (l->signals >= 0) close(l->signals);
    free(l->child);
}

// For programs that use one; those of det do not. A task was given one by its shim.
static int choose_port(struct port *out, det_err *err)
{
    const char *given = getenv("MASTER_PORT"), *of_task = getenv("C10D_PORT");
    if (given) return 0;
    if (of_task) {
        setenv("MASTER_PORT", of_task, 1);
        return 0;
    }
    int rc = port_take(out, err);
    if (!rc) set_int("MASTER_PORT", out->number);
    return rc;
}

// On a machine of several, as many processes as the master has counted: others rely on it.
static int find_place(struct launcher *l, det_err *err)
{
    struct arena arena = ARENA_INIT;
    det_rendezvous r;
    int rc = client_rendezvous(&arena, l->n, &r, err);
    if (!rc && r.size > 1 && r.slots[r.rank] != l->n)
        rc = det_fail(err, DET_EINVAL, "this machine has %d slots of the task, not %d",
                      r.slots[r.rank], l->n);
    if (!rc) {
        l->place = (struct place){.machine = r.rank, .machines = r.size};
        for (int i = 0; i < r.size; i++) {
            if (i == r.rank) l->place.first = l->place.size;
            l->place.size += i == r.rank ? l->n : r.slots[i];
        }
        snprintf(l->place.chief, sizeof l->place.chief, "%s", r.addresses[0]);
    }
    arena_done(&arena);
    return rc;
}

int slots_start(int n, enum slots_signals signals, struct slots *out, det_err *err)
{
    struct launcher l = {.n = n, .culprit = -1, .signals = -1, .to = signals};
    struct port port = PORT_NONE;
    l.child = xcalloc((size_t)n, sizeof *l.child);
    for (int i = 0; i < n; i++)
        l.child[i] = (struct child){.pipe = {-1, -1},
                                    .line = {BUF_INIT(LINE_MAX_BYTES), BUF_INIT(LINE_MAX_BYTES)}};
    *out = (struct slots){0};
    fflush(NULL); // or every rank would print what is left
    int rc = find_place(&l, err);
    if (!rc) rc = choose_port(&port, err);
    if (!rc) rc = make_key(err);
    if (!rc) rc = watch_signals(&l, err);
    for (int i = 0; !rc && !out->is_rank && i < n; i++) {
        out->rank = i;
        rc = start_one(&l, i, MAX(cpu_count() / n, 1), &out->is_rank, err);
    }
    if (rc) signal_all(&l, SIGKILL);
    if (!out->is_rank) out->status = look_after(&l);
    launcher_done(&l);
    port_return(&port);
    return rc;
}
