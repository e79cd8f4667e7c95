// Unit slots.c: starts the ranks of a run, shows what they print, and looks after them.
#include "run/slots.h"

#include "args/args.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/cpu.h"
#include "sys/entropy.h"
#include "sys/fs.h"
#include "sys/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 8191, KEY_BYTES = 16, GRACE_US = 5000000, N_STREAMS = 2 };

struct child {
    pid_t pid; // 0: has ended
    int status;
    int pipe[N_STREAMS]; // -1: none, or closed
    struct buf line[N_STREAMS];
};

struct launcher {
    int n, n_running;
    struct child *child;
    int signals; // signalfd
    enum slots_signals to;
    int n_stops; // signals to stop so far
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

static void show_line(int rank, int stream, struct buf *line)
{
    struct buf out = BUF_INIT(LINE_MAX_BYTES + 64);
    buf_printf(&out, "[rank=%d] ", rank);
    buf_add(&out, line->ptr, line->len);
    buf_addc(&out, '\n');
    write_all(stream ? STDERR_FILENO : STDOUT_FILENO, buf_str(&out));
    buf_done(&out);
    buf_clear(line);
}

// A carriage return ends a line too: a bar that is drawn again would hide what others say.
static void take_output(struct child *c, int rank, int stream, struct str text)
{
    struct buf *line = &c->line[stream];
    for (size_t i = 0; i < text.len; i++) {
        bool ends = text.ptr[i] == '\n' || text.ptr[i] == '\r';
        if (!ends && line->len < LINE_MAX_BYTES) buf_addc(line, text.ptr[i]);
        if (ends && line->len) show_line(rank, stream, line);
    }
}

static void read_output(struct child *c, int rank, int stream)
{
    char bytes[16 << 10];
    ssize_t n = read(c->pipe[stream], bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n > 0) {
        take_output(c, rank, stream, (struct str){bytes, (size_t)n});
        return;
    }
    if (c->line[stream].len) show_line(rank, stream, &c->line[stream]);
    close(c->pipe[stream]);
    c->pipe[stream] = -1;
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
    int64_t left_us = l->culprit < 0 ? -1000 : MAX(l->kill_at_us - clock_mono_us(), 0);
    poll(p, (nfds_t)n + 1, (int)(left_us / 1000));
    for (int i = 0; i < n; i++)
        if (p[i].revents) read_output(&l->child[i / N_STREAMS], i / N_STREAMS, i % N_STREAMS);
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
                read_output(&l->child[i], i, k);
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
    set_int("RANK", rank);
    set_int("LOCAL_RANK", rank);
    set_int("WORLD_SIZE", l->n);
    set_int("LOCAL_WORLD_SIZE", l->n);
    set_int("GROUP_RANK", 0);
    set_int("GROUP_WORLD_SIZE", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    pool_set_threads(n_threads);
}

static int open_pipes(struct child *c, int output[N_STREAMS], det_err *err)
{
    for (int i = 0; i < N_STREAMS; i++) {
        int ends[2];
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
    int rc = rank ? open_pipes(c, output, err) : 0;
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

// For programs that use one; those of det do not. Nobody can promise that it stays free.
static void choose_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    if (!bind(fd, (struct sockaddr *)&a, n) && !getsockname(fd, (struct sockaddr *)&a, &n))
        set_int("MASTER_PORT", ntohs(a.sin_port));
    close(fd);
}

int slots_start(int n, enum slots_signals signals, struct slots *out, det_err *err)
{
    struct launcher l = {.n = n, .culprit = -1, .signals = -1, .to = signals};
    l.child = xcalloc((size_t)n, sizeof *l.child);
    for (int i = 0; i < n; i++)
        l.child[i] = (struct child){.pipe = {-1, -1},
                                    .line = {BUF_INIT(LINE_MAX_BYTES), BUF_INIT(LINE_MAX_BYTES)}};
    *out = (struct slots){0};
    fflush(NULL); // or every rank would print what is left
    if (!getenv("MASTER_PORT")) choose_port();
    int rc = make_key(err);
    if (!rc) rc = watch_signals(&l, err);
    for (int i = 0; !rc && !out->is_rank && i < n; i++) {
        out->rank = i;
        rc = start_one(&l, i, MAX(cpu_count() / n, 1), &out->is_rank, err);
    }
    if (rc) signal_all(&l, SIGKILL);
    if (!out->is_rank) out->status = look_after(&l);
    launcher_done(&l);
    return rc;
}
