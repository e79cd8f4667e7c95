// Unit server.c: libmicrohttpd on our loop. It owns the connections and calls back with heads and
// bodies; what they mean is decided in exchange.c.
#include "http/exchange.h"
#include "http/guest.h"
#include "http/listen.h"
#include "http/tls.h"

#include "base/assert.h"
#include "base/mem.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTION_BYTES = 16 << 10, // half of it is for the request line and the headers
    STREAM_BLOCK_BYTES = 1024,
    CLOSING_CONNECTIONS = 64, // that have been shown the door, beyond the limit
};

struct http_server {
    struct http_server_opts opts;
    struct loop *loop;
    struct MHD_Daemon *daemon;
    struct loop_watch watch; // the daemon's own epoll descriptor
    struct loop_timer timer; // when the daemon wants to run without an event
    struct guests guests;
    struct link *first; // requests that are not complete
    struct http_stats stats;
    struct tls_identity *identity; // NULL: the one it was started with
    int port;
    bool has_closed; // a connection, in this run
    bool closing;
};

// An exchange and the connection it came by.
struct link {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct guest *guest;
    struct exchange *x;
    bool suspended;
    struct link *prev, *next;
};

// --- running the daemon

static void run(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    do { // after a connection was closed there is room, but only the next run accepts another
        server->has_closed = false;
        MHD_run(server->daemon);
    } while (server->has_closed);
    if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES)
        loop_timer_set(server->loop, &server->timer, (int64_t)wait_ms * 1000);
    else
        loop_timer_clear(server->loop, &server->timer);
}

static void on_events(void *ctx, uint32_t events)
{
    (void)events;
    run(ctx);
}

static void on_timer(void *ctx)
{
    run(ctx);
}

static void suspend(struct link *link)
{
    link->suspended = true;
    link->server->stats.n_waiting++;
    MHD_suspend_connection(link->connection);
}

static void resume(void *ctx)
{
    struct link *link = ctx;
    if (!link->suspended) return;
    link->suspended = false;
    link->server->stats.n_waiting--;
    MHD_resume_connection(link->connection);
    loop_timer_set(link->server->loop, &link->server->timer, 0); // it goes on in the next run
}

static void on_answered(struct exchange *x)
{
    const struct link *link = x->transport;
    crowd_set_busy(&link->server->guests.crowd, &link->guest->seat, false);
    resume(x->transport);
}

// --- answers

static ssize_t read_stream(void *ctx, uint64_t pos, char *to, size_t max)
{
    (void)pos;
    struct link *link = ctx;
    size_t n = 0;
    if (link->server->closing) return MHD_CONTENT_READER_END_WITH_ERROR;
    switch (stream_read(link->x->reply.stream, to, max, &n)) {
    case STREAM_BYTES:
        return (ssize_t)n;
    case STREAM_WAIT:
        suspend(link);
        return 0;
    case STREAM_END:
        return MHD_CONTENT_READER_END_OF_STREAM;
    case STREAM_BROKEN:
        break;
    }
    link->server->stats.n_dropped++;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static struct MHD_Response *make_response(struct link *link)
{
    struct reply *r = &link->x->reply;
    if (r->stream) {
        stream_on_wake(r->stream, resume, link);
        slow_pause(&link->guest->slow); // it may be quiet; the queue's limit ends laggards
        link->server->stats.n_streams++;
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream,
                                                 link, NULL);
    }
    if (r->fd >= 0) {
        int fd = r->fd;
        r->fd = -1; // the response closes it
        slow_begin(&link->server->guests.slow, &link->guest->slow, r->n_file_bytes);
        return MHD_create_response_from_fd64(r->n_file_bytes, fd);
    }
    slow_begin(&link->server->guests.slow, &link->guest->slow, r->bytes.len);
    return MHD_create_response_from_buffer(r->bytes.len, (void *)(uintptr_t)r->bytes.ptr,
                                           MHD_RESPMEM_PERSISTENT); // lives as long as the exchange
}

// What browsers are told about every answer: to take it for what it says it is, to show it in no
// frame, to run nothing in it, to give it to no other site. A handler may say something else.
static void add_guards(struct MHD_Response *response, const struct reply *r)
{
    static const char *const guards[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    for (size_t i = 0; i < STATIC_LEN(guards); i++)
        if (!pairs_find(&r->headers, guards[i][0]))
            MHD_add_response_header(response, guards[i][0], guards[i][1]);
}

static enum MHD_Result send_answer(struct link *link)
{
    struct reply *r = &link->x->reply;
    struct MHD_Response *response = make_response(link);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", r->content_type);
    add_guards(response, r);
    for (const struct pair *p = r->headers.first; p; p = p->next)
        MHD_add_response_header(response, p->name, p->value);
    enum MHD_Result queued = MHD_queue_response(link->connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    link->server->stats.n_status[MIN(r->status / 100, 5)]++;
    return queued;
}

// --- requests

// A parameter that is not proper text is not there.
static enum MHD_Result add_query(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    (void)kind;
    struct exchange *x = ctx;
    const char *key = percent_decode(&x->arena, str_from(name));
    const char *text = percent_decode(&x->arena, str_from(value ? value : ""));
    if (key && text) pairs_add(&x->query, &x->arena, key, text);
    return MHD_YES;
}

static struct guest *guest_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static int claim(struct exchange *x, int64_t user, bool unlimited, det_err *err)
{
    const struct link *link = x->transport;
    return crowd_claim(&link->server->guests.crowd, &link->guest->seat, user, unlimited, err);
}

static struct link *link_new(struct http_server *server, struct MHD_Connection *connection)
{
    struct link *link = xcalloc(1, sizeof *link);
    struct exchange *x = exchange_new(&server->opts, server->loop);
    *link = (struct link){.server = server, .connection = connection, .x = x};
    link->guest = guest_of(connection);
    guest_end_head(&server->guests, link->guest);
    x->transport = link;
    x->answered = on_answered;
    x->claim = claim;
    x->peer = &link->guest->peer;
    guest_read_headers(link->guest, x);
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_query, x);
    link->next = server->first;
    if (link->next) link->next->prev = link;
    server->first = link;
    server->stats.n_requests++;
    return link;
}

static enum MHD_Result begin(struct link *link, const char *method, const char *target)
{
    struct exchange *x = link->x;
    slow_begin(&link->server->guests.slow, &link->guest->slow, 0);
    exchange_begin(x, method, target);
    return x->state == EXCHANGE_ANSWERED && !x->reads_on ? send_answer(link) : MHD_YES;
}

static enum MHD_Result finish(struct link *link)
{
    struct exchange *x = link->x;
    slow_pause(&link->guest->slow);
    if (x->state == EXCHANGE_OPEN) exchange_run(x);
    if (x->state == EXCHANGE_ANSWERED) return send_answer(link);
    crowd_set_busy(&link->server->guests.crowd, &link->guest->seat, true);
    suspend(link); // called again when the answer is there
    return MHD_YES;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *target,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *n_bytes, void **state)
{
    struct http_server *server = ctx;
    struct link *link = *state;
    if (server->closing) return MHD_NO;
    if (!link) {
        *state = link = link_new(server, connection);
        link->x->needs_host = strcmp(version, MHD_HTTP_VERSION_1_0) != 0;
        return begin(link, method, target);
    }
    if (!*n_bytes) return finish(link);
    bool bearable = exchange_add_body(link->x, bytes, *n_bytes);
    server->stats.n_bytes_in += *n_bytes;
    slow_earn(&server->guests.slow, &link->guest->slow, *n_bytes);
    *n_bytes = 0;
    return bearable ? MHD_YES : MHD_NO;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)connection, (void)code;
    struct http_server *server = ctx;
    struct link *link = *state;
    if (!link) return;
    *state = NULL;
    slow_idle(&server->guests.slow, &link->guest->slow);
    crowd_set_busy(&server->guests.crowd, &link->guest->seat, false);
    if (link->x->reply.stream) server->stats.n_streams--;
    if (link->next) link->next->prev = link->prev;
    if (link->prev)
        link->prev->next = link->next;
    else
        server->first = link->next;
    exchange_free(link->x);
    free(link);
}

// --- connections

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = ctx;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (server->opts.tls_cert) tls_greet(connection, server->identity);
        *socket_context = guest_new(&server->guests, connection);
        server->stats.n_connections++;
    } else {
        guest_free(&server->guests, *socket_context);
        server->stats.n_connections--;
        server->has_closed = true;
    }
}

static void *on_request_line(void *ctx, const char *target, struct MHD_Connection *connection)
{
    struct http_server *server = ctx;
    (void)target;
    guest_begin_head(&server->guests, guest_of(connection));
    return NULL;
}

// What libmicrohttpd has to say is of no use to people; but see guests_refuse_bad_lengths().
static void on_complaint(void *ctx, const char *fmt, va_list args)
{
    struct http_server *server = ctx;
    (void)args;
    if (strstr(fmt, MHD_HTTP_HEADER_CONTENT_LENGTH)) guests_refuse_bad_lengths(&server->guests);
}

// We decode after having split; see route.c.
static size_t leave_encoded(void *ctx, struct MHD_Connection *connection, char *text)
{
    (void)ctx, (void)connection;
    return strlen(text);
}

// --- life

static void start(struct http_server *server, int listen_fd, const char *cert, const char *key)
{
    int max = server->guests.crowd.limits.connections + CLOSING_CONNECTIONS;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (cert) flags |= MHD_USE_TLS;
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_complaint, server,
        MHD_OPTION_URI_LOG_CALLBACK, on_request_line, server, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_UNESCAPE_CALLBACK, leave_encoded, NULL,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((server->guests.slow.idle_us + 999999) / 1000000), MHD_OPTION_ARRAY,
        cert ? tls : none, MHD_OPTION_END);
}

static int start_with_keys(struct http_server *server, int listen_fd, det_err *err)
{
    const struct http_server_opts *o = &server->opts;
    struct buf cert = BUF_INIT(TLS_MAX_PEM_BYTES), key = BUF_INIT(TLS_MAX_PEM_BYTES);
    int rc = o->tls_cert ? tls_read(o->tls_cert, o->tls_key, &cert, &key, err) : 0;
    if (!rc) start(server, listen_fd, o->tls_cert ? buf_str(&cert).ptr : NULL, buf_str(&key).ptr);
    if (!rc && !server->daemon) rc = det_fail(err, DET_EIO, "cannot start the HTTP server");
    if (key.ptr) explicit_bzero(key.ptr, key.len);
    buf_done(&cert);
    buf_done(&key);
    return rc;
}

static int check_opts(const struct http_server_opts *o, det_err *err)
{
    if (!o->tls_cert != !o->tls_key)
        return det_fail(err, DET_EINVAL, "TLS needs both a certificate and a key");
    if (!o->tls_cert && !o->insecure && !host_is_local(o->host))
        return det_fail(err, DET_EINVAL,
                        "listening on %s without TLS would show passwords and tokens to the "
                        "network; use --tls (or --tls-cert and --tls-key), or --insecure if "
                        "nobody else is on this network",
                        o->host);
    return 0;
}

static int open_server(struct http_server *server, det_err *err)
{
    const struct http_server_opts *o = &server->opts;
    int fd = -1;
    int rc = check_opts(o, err);
    if (!rc) rc = listen_open(o->host ? o->host : "127.0.0.1", o->port, &fd, &server->port, err);
    if (rc) return rc;
    rc = start_with_keys(server, fd, err);
    if (rc) {
        close(fd);
        return rc;
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    server->watch = (struct loop_watch){.fn = on_events, .ctx = server, .fd = info->epoll_fd};
    return loop_watch(server->loop, &server->watch, EPOLLIN, err);
}

struct http_server *http_server_new(struct loop *loop, const struct http_server_opts *opts,
                                    det_err *err)
{
    struct http_server *server = xcalloc(1, sizeof *server);
    server->opts = *opts;
    server->loop = loop;
    server->watch.fd = -1;
    server->timer = (struct loop_timer){.fn = on_timer, .ctx = server};
    if (!guests_init(&server->guests, loop, &server->opts, err) && !open_server(server, err))
        return server;
    http_server_free(server);
    return NULL;
}

void http_server_free(struct http_server *server)
{
    if (!server) return;
    server->closing = true;
    for (struct link *link = server->first; link; link = link->next)
        resume(link); // libmicrohttpd cannot stop with suspended connections
    if (server->watch.fd >= 0) loop_unwatch(server->loop, &server->watch);
    loop_timer_clear(server->loop, &server->timer);
    if (server->daemon) MHD_stop_daemon(server->daemon);
    ASSERT(!server->first);
    guests_done(&server->guests);
    tls_forget(server->identity);
    free(server);
}

int http_server_renew(struct http_server *server, det_err *err)
{
    const struct http_server_opts *o = &server->opts;
    if (!o->tls_cert) return det_fail(err, DET_ESTATE, "the server does not speak TLS");
    return tls_renew(&server->identity, o->tls_cert, o->tls_key, err);
}

void http_server_set_limits(struct http_server *server, const struct http_limits *limits)
{
    guests_set_limits(&server->guests, limits);
}

int http_server_port(const struct http_server *server)
{
    return server->port;
}

int http_server_adopt(struct http_server *server, int fd, det_err *err)
{
    // Whoever could connect was let in by other means; to the daemon it is a local client.
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (MHD_add_connection(server->daemon, fd, (struct sockaddr *)&local, sizeof local) != MHD_YES)
        return det_fail(err, DET_EBUSY, "cannot take the connection: there are too many");
    run(server);
    return 0;
}

const struct http_stats *http_server_stats(struct http_server *server)
{
    server->stats.n_crowded = server->guests.n_crowded;
    return &server->stats;
}
