// Unit coprocess.c: a program on two pipes. Called by whoever runs a custom search.
#include "sys/coprocess.h"

#include "base/assert.h"
#include "sys/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *attr, int in, int out)
{
    sigset_t none, pipe;
    sigemptyset(&none);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    int rc = posix_spawn_file_actions_adddup2(files, in, STDIN_FILENO);
    if (!rc) rc = posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO);
    if (!rc) rc = posix_spawnattr_setsigmask(attr, &none);
    if (!rc) rc = posix_spawnattr_setsigdefault(attr, &pipe);
    if (!rc) rc = posix_spawnattr_setpgroup(attr, 0);
    const short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    return rc ? rc : posix_spawnattr_setflags(attr, flags);
}

static int spawn(pid_t *pid, const char *const *argv, int in, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&files);
    if (rc) return rc;
    rc = posix_spawnattr_init(&attr);
    if (!rc) {
        rc = set_up(&files, &attr, in, out);
        if (!rc) rc = posix_spawnp(pid, argv[0], &files, &attr, (char *const *)argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

// Sockets, not pipes: writing to one can be told not to raise SIGPIPE.
int coprocess_open(struct coprocess *p, const char *const *argv, det_err *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) ||
                     socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out)
                 ? errno
                 : spawn(&p->pid, argv, in[0], out[0]);
    if (in[0] >= 0) close(in[0]);
    if (out[0] >= 0) close(out[0]);
    p->to = in[1];
    p->from = out[1];
    if (!rc) return det_ok(err);
    p->pid = 0;
    coprocess_close(p);
    return det_fail(err, rc == ENOENT ? DET_ENOTFOUND : DET_EIO, "cannot start '%s': %s", argv[0],
                    strerror(rc));
}

// A program that does not listen may have answered all the same, so failures are not told.
static void send_all(struct coprocess *p, struct str text, int64_t timeout_us)
{
    const struct timeval patience = {timeout_us / 1000000, timeout_us % 1000000 + 1};
    setsockopt(p->to, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    while (text.len) {
        ssize_t n = send(p->to, text.ptr, text.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        text.ptr += n;
        text.len -= (size_t)n;
    }
}

// Moves the first line out of what was read; false if there is none.
static bool take_line(struct coprocess *p, struct buf *answer)
{
    struct str all = buf_str(&p->ahead);
    const char *end = all.len ? memchr(all.ptr, '\n', all.len) : NULL;
    if (!end) return false;
    size_t n = (size_t)(end - all.ptr), n_rest = all.len - n - 1;
    buf_clear(answer);
    buf_add(answer, all.ptr, n);
    memmove(p->ahead.ptr, end + 1, n_rest + 1);
    p->ahead.len = n_rest;
    return true;
}

static int read_more(struct coprocess *p, int64_t deadline_us, det_err *err)
{
    char bytes[1 << 16];
    int64_t left_us = deadline_us - clock_mono_us();
    struct pollfd poll_fd = {.fd = p->from, .events = POLLIN};
    int n_ready = left_us > 0 ? poll(&poll_fd, 1, (int)MIN(left_us / 1000 + 1, 1 << 30)) : 0;
    if (n_ready < 0 && errno == EINTR) return 0;
    if (n_ready == 0) return det_fail(err, DET_EIO, "the program does not answer");
    ssize_t n = read(p->from, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return 0;
    if (n <= 0) return det_fail(err, DET_EIO, "the program ended without an answer");
    buf_add(&p->ahead, bytes, (size_t)n);
    if (!buf_ok(&p->ahead))
        return det_fail(err, DET_ELIMIT, "the answer of the program is longer than %zu bytes",
                        p->ahead.max);
    return det_ok(err);
}

int coprocess_ask(struct coprocess *p, struct str line, int64_t timeout_us, struct buf *answer,
                  det_err *err)
{
    int64_t deadline_us = clock_mono_us() + timeout_us;
    p->ahead.max = answer->max;
    int rc = 0;
    send_all(p, line, timeout_us);
    while (!rc && !take_line(p, answer))
        rc = read_more(p, deadline_us, err);
    return rc;
}

void coprocess_close(struct coprocess *p)
{
    if (p->to >= 0) close(p->to);
    if (p->pid > 0) {
        // Its output ends when it does, unless a child of it lives on.
        struct pollfd poll_fd = {.fd = p->from, .events = POLLRDHUP};
        poll(&poll_fd, 1, 1000);
        kill(-p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (p->from >= 0) close(p->from);
    buf_done(&p->ahead);
    *p = COPROCESS_INIT;
}
