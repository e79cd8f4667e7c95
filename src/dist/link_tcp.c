// Unit link_tcp.c: nodes connected by TCP. Called by link.c.
//
// Each node listens at its own address for the one above it. Both show that they know the key
// before anything else is said: strangers can do no more than connect.
#include "dist/link.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/fs.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VERSION = 1, PAUSE_MS = 50, GREETING_MS = 2000, HOST_BYTES = 256, NO_MORE_S = 40 };

// What has to wait until the other side takes it.
struct queue {
    char *bytes;
    size_t n, cap, sent;
};

struct tcp {
    struct wire wire;
    int fd[LINK_N_SIDE];
    struct queue queue[LINK_N_SIDE];
};

static struct tcp *tcp_of(struct wire *w)
{
    return (struct tcp *)w;
}

// --- bytes

static int fail_side(const char *what, det_err *err)
{
    return det_fail(err, DET_EUNREACHABLE, "%s: %s", what, strerror(errno));
}

static void keep(struct queue *q, const char *bytes, size_t n)
{
    if (q->sent == q->n) q->n = q->sent = 0;
    if (q->n + n > q->cap) {
        q->cap = 2 * (q->n + n);
        q->bytes = xrealloc(q->bytes, q->cap);
    }
    memcpy(q->bytes + q->n, bytes, n);
    q->n += n;
}

// As much as goes now; *n becomes how much that was.
static int send_some(int fd, const char *bytes, size_t *n, det_err *err)
{
    ssize_t sent = send(fd, bytes, *n, MSG_NOSIGNAL | MSG_DONTWAIT);
    bool is_full = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (sent < 0 && !is_full) return fail_side("nothing can be sent", err);
    *n = sent < 0 ? 0 : (size_t)sent;
    return 0;
}

static int send_queued(struct tcp *t, enum link_side to, det_err *err)
{
    struct queue *q = &t->queue[to];
    size_t n = q->n - q->sent;
    int rc = n ? send_some(t->fd[to], q->bytes + q->sent, &n, err) : 0;
    if (rc)
        q->n = q->sent = 0; // nobody is there for it
    else
        q->sent += n;
    return rc;
}

static int tcp_send(struct wire *w, enum link_side to, const void *bytes, size_t n, det_err *err)
{
    struct tcp *t = tcp_of(w);
    struct queue *q = &t->queue[to];
    size_t now = n;
    int rc = send_queued(t, to, err);
    if (rc) return rc;
    if (q->sent < q->n)
        now = 0;
    else
        rc = send_some(t->fd[to], bytes, &now, err);
    if (!rc) keep(q, (const char *)bytes + now, n - now);
    return rc;
}

static int tcp_receive(struct wire *w, enum link_side from, void *bytes, size_t n, size_t *done,
                       det_err *err)
{
    ssize_t came = recv(tcp_of(w)->fd[from], bytes, n, MSG_DONTWAIT);
    if (came > 0) *done += (size_t)came;
    if (came == 0) return det_fail(err, DET_EUNREACHABLE, "the connection was closed");
    if (came > 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
    return fail_side("nothing can be received", err);
}

static bool tcp_is_sending(const struct wire *w)
{
    const struct tcp *t = (const struct tcp *)w;
    return t->queue[LINK_BELOW].sent < t->queue[LINK_BELOW].n ||
           t->queue[LINK_ABOVE].sent < t->queue[LINK_ABOVE].n;
}

static void tcp_wait(struct wire *w, int timeout_ms)
{
    struct tcp *t = tcp_of(w);
    struct pollfd p[LINK_N_SIDE];
    for (int i = 0; i < LINK_N_SIDE; i++) {
        bool sends = t->queue[i].sent < t->queue[i].n;
        p[i] = (struct pollfd){.fd = t->fd[i], .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
    }
    poll(p, LINK_N_SIDE, timeout_ms);
    for (enum link_side i = 0; i < LINK_N_SIDE; i++)
        if (t->fd[i] >= 0) send_queued(t, i, NULL);
}

static void tcp_close(struct wire *w)
{
    struct tcp *t = tcp_of(w);
    for (int i = 0; i < LINK_N_SIDE; i++) {
        if (t->fd[i] >= 0) close(t->fd[i]);
        free(t->queue[i].bytes);
    }
    free(t);
}

static const struct wire_ops tcp_ops = {.send = tcp_send,
                                        .receive = tcp_receive,
                                        .is_sending = tcp_is_sending,
                                        .wait = tcp_wait,
                                        .close = tcp_close};

// --- who is there

// Each side chooses a number and shows that it knows the key by what it makes of both.
struct greeting {
    uint32_t version;
    int32_t node, n_nodes, first, size, world;
    uint64_t number, proof; // proof: of the one that connects, in its second greeting
};

static uint64_t prove(const char *key, const struct greeting *mine, const struct greeting *other)
{
    static const struct hash_key first = {{1, 0}}, second = {{2, 0}};
    const struct hash_key secret = {
        {hash_bytes(&first, key, strlen(key)), hash_bytes(&second, key, strlen(key))}};
    const uint64_t both[] = {mine->number, other->number, (uint64_t)mine->node,
                             (uint64_t)other->node};
    return hash_bytes(&secret, both, sizeof both);
}

static bool send_all(int fd, const void *bytes, size_t n)
{
    return send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static bool receive_all(int fd, void *bytes, size_t n)
{
    return recv(fd, bytes, n, MSG_WAITALL) == (ssize_t)n;
}

static struct greeting greet(const struct dist *d)
{
    struct greeting g = {.version = VERSION,
                         .node = d->node,
                         .n_nodes = d->n_nodes,
                         .first = d->first,
                         .size = d->size,
                         .world = d->world};
    entropy_read(&g.number, sizeof g.number, NULL);
    return g;
}

static void set_options(int fd)
{
    int on = 1, idle_s = 10, pause_s = 5, tries = 6;
    unsigned ms = NO_MORE_S * 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on); // a cable may have been pulled
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof pause_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static void set_patience(int fd, int ms)
{
    const struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

static int check_neighbour(const struct dist *d, const struct greeting *g, int node, det_err *err)
{
    bool below = node < d->node;
    bool follows = below ? g->first + g->size == d->first : g->first == d->first + d->size;
    if (g->version != VERSION)
        return det_fail(err, DET_EINVAL, "the nodes have different versions of det");
    if (g->node == node && g->n_nodes == d->n_nodes && g->world == d->world && follows) return 0;
    return det_fail(err, DET_EINVAL,
                    "nodes do not agree: node %d has ranks %d to %d of %d, node %d has %d to %d of "
                    "%d",
                    d->node, d->first, d->first + d->size - 1, d->world, g->node, g->first,
                    g->first + g->size - 1, g->world);
}

// --- the node below: it listens, we connect

// The n-th of "host:port,host:port".
static int find_address(const char *nodes, int n, char host[HOST_BYTES], int *port, det_err *err)
{
    struct str rest = str_from(nodes), one = {0};
    int64_t number;
    for (int i = 0; i <= n && rest.ptr; i++)
        one = str_cut(&rest, ',');
    const char *colon = one.len ? memrchr(one.ptr, ':', one.len) : NULL;
    struct str name = {one.ptr, colon ? (size_t)(colon - one.ptr) : 0};
    struct str digits = {colon ? colon + 1 : NULL, colon ? one.len - name.len - 1 : 0};
    if (name.len > 1 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']')
        name = (struct str){name.ptr + 1, name.len - 2}; // of IPv6
    bool good = name.len && name.len < HOST_BYTES && number_to_int(digits, 10, &number) &&
                number > 0 && number < 65536;
    if (!good)
        return det_fail(err, DET_EINVAL,
                        "DET_RANKS_NODES must be HOST:PORT of each node, with commas between them; "
                        "of node %d it says '%.*s'",
                        n, (int)MIN(one.len, 200), one.ptr ? one.ptr : "");
    snprintf(host, HOST_BYTES, "%.*s", (int)name.len, name.ptr);
    *port = (int)number;
    return 0;
}

static int try_connect(const char *host, int port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    char service[16];
    int fd = -1;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &all)) return -1;
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        set_patience(fd, GREETING_MS);
        if (!connect(fd, a->ai_addr, a->ai_addrlen)) break;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(all);
    return fd;
}

// It listens before it has met the node below it, and answers afterwards.
static int await_answer(struct dist *d, int fd, int64_t end_us, det_err *err)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, PAUSE_MS) == 0) {
        int rc = shared_check(d, err);
        if (rc) return rc;
        if (clock_mono_us() >= end_us) break;
    }
    return 0;
}

static int greet_below(struct dist *d, const char *key, int fd, int64_t end_us, det_err *err)
{
    struct greeting mine = greet(d), other;
    if (!send_all(fd, &mine, sizeof mine)) return DET_EUNREACHABLE;
    int rc = await_answer(d, fd, end_us, err);
    if (rc) return rc;
    if (!receive_all(fd, &other, sizeof other)) return DET_EUNREACHABLE;
    if (other.proof != prove(key, &other, &mine))
        return det_fail(err, DET_EDENIED, "node %d does not know the key of the ranks",
                        d->node - 1);
    mine.proof = prove(key, &mine, &other);
    if (!send_all(fd, &mine, sizeof mine)) return DET_EUNREACHABLE;
    return check_neighbour(d, &other, d->node - 1, err);
}

static int connect_below(struct dist *d, const struct link_opts *opts, int *out, det_err *err)
{
    char host[HOST_BYTES];
    int port, rc = find_address(opts->nodes, d->node - 1, host, &port, err);
    while (!rc) {
        int fd = try_connect(host, port);
        rc = fd < 0 ? DET_EUNREACHABLE : greet_below(d, opts->key, fd, opts->end_us, err);
        if (!rc) {
            *out = fd;
            return 0;
        }
        if (fd >= 0) close(fd);
        if (rc != DET_EUNREACHABLE) return rc;
        if (clock_mono_us() >= opts->end_us)
            return det_fail(err, DET_ETIMEOUT, "node %d does not answer at %s:%d", d->node - 1,
                            host, port);
        rc = shared_check(d, err);
        poll(NULL, 0, PAUSE_MS);
    }
    return rc;
}

// --- the node above: we listen

static int open_listener(int port, int *out, det_err *err)
{
    struct sockaddr_in6 both = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int off = 0, on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool has_six = fd >= 0 && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd >= 0 && !has_six) close(fd);
    if (!has_six) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int bound = fd < 0    ? -1
                : has_six ? bind(fd, (struct sockaddr *)&both, sizeof both)
                          : bind(fd, (struct sockaddr *)&four, sizeof four);
    if (bound < 0 || listen(fd, 16) < 0) {
        int rc = det_fail(err, DET_EIO, "cannot listen at port %d for the next node: %s", port,
                          strerror(errno));
        if (fd >= 0) close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

// Those who do not know the key are not talked to any more.
static int greet_above(const struct dist *d, const char *key, int fd, det_err *err)
{
    struct greeting mine = greet(d), other, again;
    set_patience(fd, GREETING_MS);
    if (!receive_all(fd, &other, sizeof other)) return DET_EUNREACHABLE;
    mine.proof = prove(key, &mine, &other);
    if (!send_all(fd, &mine, sizeof mine) || !receive_all(fd, &again, sizeof again))
        return DET_EUNREACHABLE;
    if (again.number != other.number || again.proof != prove(key, &other, &mine))
        return DET_EUNREACHABLE;
    return check_neighbour(d, &other, d->node + 1, err);
}

static int accept_above(struct dist *d, const struct link_opts *opts, int listener, int *out,
                        det_err *err)
{
    int rc = 0;
    while (!rc) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        int fd = poll(&p, 1, PAUSE_MS) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        rc = fd < 0 ? DET_EUNREACHABLE : greet_above(d, opts->key, fd, err);
        if (!rc) {
            *out = fd;
            return 0;
        }
        if (fd >= 0) close(fd);
        if (rc != DET_EUNREACHABLE) return rc;
        if (clock_mono_us() >= opts->end_us)
            return det_fail(err, DET_ETIMEOUT, "node %d did not come", d->node + 1);
        rc = shared_check(d, err);
    }
    return rc;
}

// The listener is there before anything is waited for, so that all nodes can meet in any order.
int wire_tcp_open(struct dist *d, const struct link_opts *opts, struct wire **out, det_err *err)
{
    struct tcp *t = xcalloc(1, sizeof *t);
    char host[HOST_BYTES];
    int listener = -1, port, rc = 0;
    t->wire.ops = &tcp_ops;
    t->fd[LINK_BELOW] = t->fd[LINK_ABOVE] = -1;
    if (link_has(d, LINK_ABOVE)) rc = find_address(opts->nodes, d->node, host, &port, err);
    if (!rc && link_has(d, LINK_ABOVE)) rc = open_listener(port, &listener, err);
    if (!rc && link_has(d, LINK_BELOW)) rc = connect_below(d, opts, &t->fd[LINK_BELOW], err);
    if (!rc && listener >= 0) rc = accept_above(d, opts, listener, &t->fd[LINK_ABOVE], err);
    if (listener >= 0) close(listener);
    if (rc) {
        tcp_close(&t->wire);
        return rc;
    }
    for (int i = 0; i < LINK_N_SIDE; i++)
        if (t->fd[i] >= 0) set_options(t->fd[i]);
    *out = &t->wire;
    return 0;
}
