// tests/support/serve.h: a server with its loop in a thread of its own, and raw connections to it.
#pragma once

#include "support/files.h"

#include "base/buf.h"
#include "http/http.h"
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

struct serve {
    struct loop *loop;
    struct http_server *server;
    int port;
    pthread_t thread;
};

static inline void *serve_main(void *arg)
{
    struct serve *s = arg;
    loop_run(s->loop);
    http_server_free(s->server);
    return NULL;
}

// port 0 in opts: any; see s->port.
static inline void serve_start(struct serve *s, const struct http_server_opts *opts)
{
    det_err err = {0};
    s->loop = loop_new(&err);
    s->server = s->loop ? http_server_new(s->loop, opts, &err) : NULL;
    if (!s->server) fail_msg("cannot serve: %s", err.msg);
    s->port = http_server_port(s->server);
    pthread_create(&s->thread, NULL, serve_main, s);
}

static inline void serve_quit(void *loop)
{
    loop_stop(loop);
}

static inline void serve_stop(struct serve *s)
{
    loop_post(s->loop, serve_quit, s->loop);
    pthread_join(s->thread, NULL);
    loop_free(s->loop);
}

// Runs fn in the server's thread and waits for it.
struct serve_call {
    void (*fn)(void *ctx);
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
};

static inline void serve_run_call(void *arg)
{
    struct serve_call *call = arg;
    call->fn(call->ctx);
    pthread_mutex_lock(&call->lock);
    call->is_done = true;
    pthread_cond_signal(&call->done);
    pthread_mutex_unlock(&call->lock);
}

static inline void serve_call(struct serve *s, void (*fn)(void *ctx), void *ctx)
{
    struct serve_call call = {
        .fn = fn, .ctx = ctx, .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
    loop_post(s->loop, serve_run_call, &call);
    pthread_mutex_lock(&call.lock);
    while (!call.is_done)
        pthread_cond_wait(&call.done, &call.lock);
    pthread_mutex_unlock(&call.lock);
}

// --- raw clients

static inline int dial(const struct serve *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 30}; // a test that waits for nothing fails
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail_msg("cannot connect");
    return fd;
}

static inline void say(int fd, const char *text)
{
    size_t n = strlen(text);
    if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n) fail_msg("cannot send");
}

// All that comes until the server closes the connection.
static inline const char *hear_all(int fd, struct buf *out)
{
    char piece[4096];
    ssize_t n;
    while ((n = recv(fd, piece, sizeof piece, 0)) > 0)
        buf_add(out, piece, (size_t)n);
    if (n < 0 && errno != ECONNRESET) fail_msg("the server did not close the connection");
    close(fd);
    return buf_str(out).ptr;
}

// Reads until text has come.
static inline const char *hear_until(int fd, struct buf *out, const char *text)
{
    char c;
    while (!out->ptr || !strstr(out->ptr, text)) {
        if (recv(fd, &c, 1, 0) != 1) fail_msg("no '%s' came, but '%s'", text, buf_str(out).ptr);
        buf_addc(out, c);
    }
    return out->ptr;
}

static inline int status_of(const char *response)
{
    int status = 0;
    sscanf(response, "HTTP/1.1 %d", &status);
    return status;
}

static inline const char *body_of(const char *response)
{
    const char *end = strstr(response, "\r\n\r\n");
    return end ? end + 4 : "";
}

// Waits until something is true in the server's thread, which looks every few milliseconds.
struct serve_wait {
    struct serve *serve;
    bool (*is_so)(const struct http_stats *stats);
    struct loop_timer timer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static inline void serve_wait_look(void *arg)
{
    struct serve_wait *w = arg;
    if (!w->is_so(http_server_stats(w->serve->server))) {
        loop_timer_set(w->serve->loop, &w->timer, 5000);
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static inline void serve_wait(struct serve *s, bool (*is_so)(const struct http_stats *stats))
{
    struct serve_wait w = {.serve = s,
                           .is_so = is_so,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER};
    w.timer = (struct loop_timer){.fn = serve_wait_look, .ctx = &w};
    loop_post(s->loop, serve_wait_look, &w);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
}
