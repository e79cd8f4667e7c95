// Unit guest.c: connections between libmicrohttpd, which owns them, and those who count and watch
// them. Called by server.c.
#include "http/guest.h"

#include "base/assert.h"
#include "base/mem.h"
#include "http/exchange.h"
#include "http/tls.h"
#include <microhttpd.h>
#include <sys/socket.h>

enum {
    HEAD_TIMEOUT_US = 8 * 1000000,
    IDLE_TIMEOUT_US = 12 * 1000000,
    MIN_BYTES_PER_S = 16 << 10,
    MAX_CONNECTIONS = 10000,
    MAX_PER_ADDRESS = 256,
    MAX_PER_USER = 2000,
    // What one send can take. By itself it grows to megabytes, and a thousand clients that do not
    // read would have us copy gigabytes before anybody else's turn comes.
    SEND_BUFFER_BYTES = 128 << 10,
};

static struct http_limits complete(struct http_limits l)
{
    if (!l.connections) l.connections = MAX_CONNECTIONS;
    if (!l.per_address) l.per_address = MAX_PER_ADDRESS;
    if (!l.per_user) l.per_user = MAX_PER_USER;
    if (!l.reserve) l.reserve = l.connections / 10;
    l.reserve = MIN(l.reserve, l.connections / 2);
    return l;
}

int guests_init(struct guests *all, struct loop *loop, const struct http_server_opts *o,
                det_err *err)
{
    const struct http_limits limits = complete(o->limits);
    *all = (struct guests){.opts = o};
    slow_init(&all->slow, loop);
    all->slow.grace_us = o->head_timeout_us ? o->head_timeout_us : HEAD_TIMEOUT_US;
    all->slow.idle_us = o->idle_timeout_us ? o->idle_timeout_us : IDLE_TIMEOUT_US;
    all->slow.min_bytes_per_s = o->min_bytes_per_s ? o->min_bytes_per_s : MIN_BYTES_PER_S;
    return crowd_init(&all->crowd, &limits, err);
}

void guests_set_limits(struct guests *all, const struct http_limits *limits)
{
    struct http_limits new = *limits;
    new.connections = MIN(new.connections, all->crowd.limits.connections);
    all->crowd.limits = complete(new);
}

void guests_done(struct guests *all)
{
    slow_done(&all->slow);
}

// --- coming and going

static void show_out(struct guests *all, struct seat *seat)
{
    const struct guest *g = (struct guest *)((char *)seat - offsetof(struct guest, seat));
    shutdown(g->slow.fd, SHUT_RDWR); // libmicrohttpd sees the end and closes it
    all->n_crowded++;
}

struct guest *guest_new(struct guests *all, struct MHD_Connection *connection)
{
    const int n_bytes = SEND_BUFFER_BYTES;
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct guest *g = xcalloc(1, sizeof *g);
    g->connection = connection;
    peer_read(&g->peer, info ? info->client_addr : NULL);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n_bytes, sizeof n_bytes);
    slow_add(&all->slow, &g->slow, fd);
    struct seat *out = crowd_enter(&all->crowd, &g->seat, g->peer.network);
    if (out) show_out(all, out);
    return g;
}

void guest_free(struct guests *all, struct guest *g)
{
    slow_remove(&all->slow, &g->slow);
    crowd_leave(&all->crowd, &g->seat);
    guest_end_head(all, g);
    free(g);
}

void guest_begin_head(struct guests *all, struct guest *g)
{
    if (g->has_head) return;
    g->has_head = true;
    g->prev_head = NULL;
    g->next_head = all->heads;
    if (g->next_head) g->next_head->prev_head = g;
    all->heads = g;
}

void guest_end_head(struct guests *all, struct guest *g)
{
    if (!g->has_head) return;
    g->has_head = false;
    *(g->prev_head ? &g->prev_head->next_head : &all->heads) = g->next_head;
    if (g->next_head) g->next_head->prev_head = g->prev_head;
}

static enum MHD_Result add_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    (void)kind;
    struct exchange *x = ctx;
    pairs_add(&x->headers, &x->arena, name, value ? value : "");
    return MHD_YES;
}

void guest_read_headers(const struct guest *g, struct exchange *x)
{
    MHD_get_connection_values(g->connection, MHD_HEADER_KIND, add_header, x);
}

// --- what libmicrohttpd would answer by itself

// The head is complete, and yet nobody was told of it.
static bool has_bad_length(const struct guest *g)
{
    int64_t n;
    if (!MHD_get_connection_info(g->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE))
        return false;
    const char *text =
        MHD_lookup_connection_value(g->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text && !read_length(text, &n);
}

static void send_now(const struct guest *g, const struct guests *all, struct str text)
{
    char waste[4096];
    // What was not read when the connection is closed would make the answer get lost.
    while (recv(g->slow.fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
    if (all->opts->tls_cert)
        tls_send(g->connection, text);
    else
        send(g->slow.fd, text.ptr, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(g->slow.fd, SHUT_WR);
}

static void refuse(struct guests *all, struct guest *g)
{
    struct exchange *x = exchange_new(all->opts, all->slow.loop);
    struct buf text = BUF_INIT(64 << 10);
    guest_read_headers(g, x);
    exchange_begin(x, "GET", "/");
    const struct reply *r = &x->reply;
    buf_printf(&text, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", r->status,
               MHD_get_reason_phrase_for((unsigned)r->status), r->content_type, r->bytes.len);
    for (const struct pair *p = r->headers.first; p; p = p->next)
        buf_printf(&text, "%s: %s\r\n", p->name, p->value);
    buf_printf(&text, "\r\n%.*s", STR_ARG(r->bytes));
    send_now(g, all, buf_str(&text));
    guest_end_head(all, g);
    buf_done(&text);
    exchange_free(x);
}

void guests_refuse_bad_lengths(struct guests *all)
{
    for (struct guest *g = all->heads, *next; g; g = next) {
        next = g->next_head;
        if (has_bad_length(g)) refuse(all, g);
    }
}
