// Unit rendezvous.c: how ranks find each other, and how they part.
//
// Rank 0 makes the memory, and hands its descriptor to whoever connects to a socket in the abstract
// namespace, which is named after the job. Neither has a name in a file system, so there is nothing
// to remove, however the ranks end. Only processes of the same user that are in sight are talked
// to: one of another sandbox has no number here.
#include "dist/link.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    JOIN_TIMEOUT_US = 300000000,
    FIRST_PAUSE_US = 500,
    LONGEST_PAUSE_US = 50000,
    LOOK_AFTER_MS = 50,
};

struct hello {
    int32_t rank, size;
};

// What rank 0 answers; with the descriptor if there is no failure.
struct answer {
    det_err failure;
};

// --- sockets

// Nodes may be on one machine, as far as this tells them apart.
static socklen_t make_address(const char *key, int node, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    const struct hash_key plain = {{(uint64_t)node, 0}}; // keys may be longer than addresses
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "det-ranks-%016llx",
                     (unsigned long long)hash_bytes(&plain, key, strlen(key)));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_same_user(int fd, pid_t *pid)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid())
        return false;
    *pid = peer.pid;
    return peer.pid > 0;
}

union descriptor_space {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_answer(int to, const struct answer *answer, int fd)
{
    struct iovec piece = {(void *)(uintptr_t)answer, sizeof *answer};
    union descriptor_space space = {0};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    if (!answer->failure.code) {
        m.msg_control = space.bytes;
        m.msg_controllen = sizeof space.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(to, &m, MSG_NOSIGNAL) == sizeof *answer ? 0 : -1;
}

static int receive_answer(int from, int *fd, det_err *err)
{
    struct answer answer = {0};
    struct iovec piece = {&answer, sizeof answer};
    union descriptor_space space = {0};
    struct msghdr m = {.msg_iov = &piece,
                       .msg_iovlen = 1,
                       .msg_control = space.bytes,
                       .msg_controllen = sizeof space.bytes};
    ssize_t n;
    do
        n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != sizeof answer)
        return det_fail(err, DET_EUNREACHABLE, "rank 0 has ended before all ranks had come");
    if (answer.failure.code) {
        if (err) *err = answer.failure;
        return answer.failure.code;
    }
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_type != SCM_RIGHTS)
        return det_fail(err, DET_EINVAL, "rank 0 has given no memory to share");
    memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return 0;
}

// --- rank 0

static int make_memory(const struct dist *d, int *out, det_err *err)
{
    int fd = memfd_create("det-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // Sealed: nobody can take the ground from under the others.
    if (fd < 0 || ftruncate(fd, (off_t)shared_bytes(d)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        fs_fail(err, "make", "the memory that ranks share");
        if (fd >= 0) close(fd);
        return err ? err->code : DET_EIO;
    }
    *out = fd;
    return 0;
}

static int open_listener(const char *key, int node, int *out, det_err *err)
{
    struct sockaddr_un address;
    socklen_t n = make_address(key, node, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, n) < 0 || listen(fd, DIST_MAX_RANKS) < 0) {
        int rc = errno == EADDRINUSE
                     ? det_fail(err, DET_EBUSY, "there is a rank 0 of '%s' already", key)
                     : fs_fail(err, "listen to ranks of", key);
        if (fd >= 0) close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static int judge(const struct dist *d, const struct hello *h, det_err *err)
{
    if (h->size != d->size)
        return det_fail(err, DET_EINVAL,
                        "ranks do not agree: rank 0 expects %d of them, rank %d expects %d",
                        d->size, h->rank, h->size);
    if (h->rank < 1 || h->rank >= d->size)
        return det_fail(err, DET_EINVAL, "there is no rank %d of %d to come", h->rank, d->size);
    if (atomic_load(&d->shared->member[h->rank].state) != MEMBER_AWAY)
        return det_fail(err, DET_EINVAL, "two processes say that they are rank %d", h->rank);
    return 0;
}

// One that comes. Callers without the token, and those who say nothing, are ignored.
static int welcome(struct dist *d, int listener, int memory, bool *is_welcome, det_err *err)
{
    struct hello hello;
    struct answer answer = {0};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct timeval patience = {.tv_sec = 2};
    pid_t pid = 0;
    *is_welcome = false;
    if (fd < 0) return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    bool talks = is_same_user(fd, &pid) && recv(fd, &hello, sizeof hello, 0) == sizeof hello;
    int rc = talks ? judge(d, &hello, &answer.failure) : 0;
    if (talks && !rc) rc = shared_seat(d, hello.rank, pid, &answer.failure);
    if (talks) send_answer(fd, &answer, memory);
    close(fd);
    *is_welcome = talks;
    return rc ? shared_break(d, 0, &answer.failure, err) : 0;
}

static int fail_late(const struct dist *d, det_err *err)
{
    char text[256];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < d->size && n < sizeof text; i++)
        if (i != d->rank && atomic_load(&d->shared->member[i].state) == MEMBER_AWAY)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? ", " : "", d->first + i);
    return det_fail(err, DET_ETIMEOUT, "of %d ranks, these did not come: %s", d->size, text);
}

static int wait_for_all(struct dist *d, int listener, int memory, int64_t end_us, det_err *err)
{
    for (int n_here = 1; n_here < d->size;) {
        bool is_welcome = false;
        struct pollfd p = {.fd = listener, .events = POLLIN};
        int rc = poll(&p, 1, LOOK_AFTER_MS) == 1 ? welcome(d, listener, memory, &is_welcome, err)
                                                 : shared_check(d, err);
        if (rc) return rc;
        n_here += is_welcome;
        if (n_here < d->size && clock_mono_us() > end_us) return fail_late(d, err);
    }
    return 0;
}

static int lead(struct dist *d, const char *key, int64_t end_us, det_err *err)
{
    int memory = -1, listener = -1;
    int rc = make_memory(d, &memory, err);
    if (!rc) rc = shared_attach(d, memory, err);
    if (!rc) rc = shared_seat(d, 0, getpid(), err);
    if (!rc) rc = open_listener(key, d->node, &listener, err);
    if (!rc) rc = wait_for_all(d, listener, memory, end_us, err);
    if (listener >= 0) close(listener);
    if (memory >= 0) close(memory);
    return rc;
}

// --- the others

static void pause_us(int64_t us)
{
    const struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

// Rank 0 may be started later.
static int find_leader(const struct dist *d, const char *key, int64_t end_us, int *out,
                       det_err *err)
{
    struct sockaddr_un address;
    socklen_t n = make_address(key, d->node, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return fs_fail(err, "look for rank 0 of", key);
    int64_t delay_us = FIRST_PAUSE_US;
    while (connect(fd, (struct sockaddr *)&address, n) < 0) {
        bool absent = errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN || errno == EINTR;
        if (absent && clock_mono_us() < end_us) {
            pause_us(delay_us);
            delay_us = delay_us < LONGEST_PAUSE_US ? 2 * delay_us : delay_us;
            continue;
        }
        int rc = absent ? det_fail(err, DET_ETIMEOUT, "rank %d of %d found no rank 0 of '%s'",
                                   d->rank, d->size, key)
                        : fs_fail(err, "look for rank 0 of", key);
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static int follow(struct dist *d, const char *key, int64_t end_us, det_err *err)
{
    const struct hello hello = {d->rank, d->size};
    int socket_fd = -1, memory = -1;
    int rc = find_leader(d, key, end_us, &socket_fd, err);
    if (rc) return rc;
    pid_t pid;
    if (!is_same_user(socket_fd, &pid))
        rc = det_fail(err, DET_EDENIED, "rank 0 of '%s' belongs to another user or task", key);
    else if (send(socket_fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        rc = fs_fail(err, "talk to rank 0 of", key);
    else
        rc = receive_answer(socket_fd, &memory, err);
    if (!rc) rc = shared_attach(d, memory, err);
    if (memory >= 0) close(memory);
    close(socket_fd);
    return rc;
}

// --- joining and leaving

static int check_opts(const struct dist_opts *o, det_err *err)
{
    bool is_alone = !o->local_size || o->local_size == o->size;
    int local_size = o->local_size ? o->local_size : o->size;
    int local_rank = o->local_size ? o->local_rank : o->rank;
    if (o->rank < 0 || o->size < 1 || o->rank >= o->size || local_size > DIST_MAX_RANKS ||
        o->size > DIST_MAX_SIZE)
        return det_fail(err, DET_EINVAL, "rank %d of %d makes no sense (at most %d on a machine)",
                        o->rank, o->size, DIST_MAX_RANKS);
    if (local_rank < 0 || local_rank >= local_size || local_rank > o->rank ||
        local_size > o->size || o->node < 0)
        return det_fail(err, DET_EINVAL, "rank %d of %d is not rank %d of %d on machine %d",
                        o->rank, o->size, local_rank, local_size, o->node);
    if (is_alone || o->nodes) return det_ok(err);
    return det_fail(err, DET_EINVAL,
                    "of %d ranks %d are on this machine, but there is no DET_RANKS_NODES that says "
                    "where the others are",
                    o->size, local_size);
}

static int count_nodes(const char *nodes)
{
    int n = 1;
    for (const char *c = nodes; *c; c++)
        n += *c == ',';
    return n;
}

static struct dist *new_member(const struct dist_opts *o)
{
    struct dist *d = xcalloc(1, sizeof *d);
    *d = (struct dist){.rank = o->rank, .size = o->size, .world = o->size, .n_nodes = 1};
    if (o->local_size && o->local_size < o->size) {
        d->rank = o->local_rank;
        d->size = o->local_size;
        d->first = o->rank - o->local_rank;
        d->node = o->node;
        d->n_nodes = count_nodes(o->nodes);
    }
    d->pidfd = xcalloc((size_t)d->size, sizeof *d->pidfd);
    for (int i = 0; i < d->size; i++)
        d->pidfd[i] = -1;
    return d;
}

static int meet_here(struct dist *d, const char *key, int64_t end_us, det_err *err)
{
    if (d->rank) return follow(d, key, end_us, err);
    return lead(d, key, end_us, err);
}

static int meet_nodes(struct dist *d, const struct dist_opts *opts, int64_t end_us, det_err *err)
{
    const struct link_opts link = {opts->key, opts->nodes, d->node, d->n_nodes, end_us};
    bool is_first = !d->node, is_last = d->node + 1 == d->n_nodes;
    if (d->rank || d->n_nodes == 1) return 0;
    if (d->node < d->n_nodes && is_first == !d->first &&
        is_last == (d->first + d->size == d->world))
        return link_open(d, &link, err);
    return det_fail(
        err, DET_EINVAL,
        "ranks %d to %d of %d cannot be those of node %d: DET_RANKS_NODES names %d nodes", d->first,
        d->first + d->size - 1, d->world, d->node, d->n_nodes);
}

int dist_join(const struct dist_opts *opts, struct dist **out, det_err *err)
{
    det_err own;
    if (!err) err = &own;
    *out = NULL;
    int rc = check_opts(opts, err);
    if (rc || opts->size == 1) return rc;
    int64_t end_us = clock_mono_us() + (opts->timeout_us ? opts->timeout_us : JOIN_TIMEOUT_US);
    struct dist *d = new_member(opts);
    if (d->size > 1 || d->n_nodes > 1) rc = meet_here(d, opts->key, end_us, err);
    if (!rc) rc = meet_nodes(d, opts, end_us, err);
    if (!rc) rc = dist_barrier(d, "start", err);
    if (!rc) {
        *out = d;
        return det_ok(err);
    }
    dist_fail(d, rc, err->msg);
    dist_leave(d);
    return det_wrap(err, "joining the other ranks");
}

static int env_int(const char *name, int *out, det_err *err)
{
    int64_t value;
    const char *text = getenv(name);
    if (!text || !text[0]) return 0;
    if (!number_to_int(str_from(text), 10, &value) || value < 0 || value > DIST_MAX_SIZE)
        return det_fail(err, DET_EINVAL, "%s must be a number up to %d, found '%s'", name,
                        DIST_MAX_SIZE, text);
    *out = (int)value;
    return 0;
}

int dist_join_env(struct dist **out, det_err *err)
{
    struct dist_opts opts = {
        .key = getenv("DET_RANKS_KEY"), .size = 1, .nodes = getenv("DET_RANKS_NODES")};
    *out = NULL;
    int rc = env_int("RANK", &opts.rank, err);
    if (!rc) rc = env_int("WORLD_SIZE", &opts.size, err);
    if (!rc) rc = env_int("LOCAL_RANK", &opts.local_rank, err);
    if (!rc) rc = env_int("LOCAL_WORLD_SIZE", &opts.local_size, err);
    if (!rc) rc = env_int("GROUP_RANK", &opts.node, err);
    if (rc) return rc;
    if (opts.size <= 1 && !opts.rank) return det_ok(err);
    if (!opts.key)
        return det_fail(err, DET_EINVAL,
                        "WORLD_SIZE is %d, but there is no DET_RANKS_KEY by which ranks find each "
                        "other: start them with det-run --slots",
                        opts.size);
    return dist_join(&opts, out, err);
}

void dist_fail(struct dist *d, int code, const char *why)
{
    det_err failure;
    if (!d || !d->shared || d->broken) return;
    det_fail(&failure, code, "rank %d: %s", d->first + d->rank, why);
    shared_break(d, d->first + d->rank, &failure, NULL);
}

void dist_leave(struct dist *d)
{
    if (!d) return;
    link_close(d);
    shared_detach(d);
    free(d->pidfd);
    free(d);
}

bool dist_is_broken(const struct dist *d)
{
    return d && d->broken;
}

int dist_blame(const struct dist *d, det_err *err)
{
    if (!d || !d->broken || d->culprit == d->first + d->rank) return 0;
    if (err) *err = d->failure;
    return d->failure.code;
}

int dist_rank(const struct dist *d)
{
    return d ? d->first + d->rank : 0;
}

int dist_size(const struct dist *d)
{
    return d ? d->world : 1;
}

void dist_set_note(struct dist *d, uint64_t note)
{
    if (d) d->next_note = note;
}

uint64_t dist_note(const struct dist *d)
{
    return d ? d->note : 0;
}
