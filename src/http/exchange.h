// http/exchange.h: one request and its answer inside of the http layer. The transport (server.c)
// feeds it and sends what it became; nothing here knows libmicrohttpd.
#pragma once

#include "http/http.h"
#include "http/peer.h"

enum { EXCHANGE_MAX_PARAMS = 8 };

enum exchange_state {
    EXCHANGE_OPEN,     // no answer yet
    EXCHANGE_LATER,    // a handler has kept it
    EXCHANGE_ANSWERED, // reply is complete, or the stream has begun
};

struct pair {
    const char *name, *value;
    struct pair *next;
};

struct pairs {
    struct pair *first, *last;
};

// What is to be sent: bytes, a file or a stream.
struct reply {
    int status;
    const char *content_type;
    struct pairs headers;
    struct str bytes;
    char *owned; // the memory of bytes, if it is ours
    int fd;      // -1: no file
    uint64_t n_file_bytes;
    struct http_stream *stream;
};

struct exchange {
    struct http_request req; // the part that handlers see; first, so that one is the other
    struct arena arena;
    const struct http_server_opts *opts;
    struct loop *loop;
    enum exchange_state state;
    struct pairs query, headers;
    struct str params[EXCHANGE_MAX_PARAMS]; // in the order of the route's path
    const struct peer *peer;
    struct buf body;
    size_t n_body;     // bytes that came; more than body has if they were too many
    bool needs_host;   // as HTTP/1.1 does
    bool reads_on;     // the answer is known, but goes out when the (short) body has been read
    bool elsewhere;    // another thread has it
    bool has_answer;   // and has given it
    http_handler read; // what that thread calls; NULL: nothing
    struct reply reply;
    // The transport's part.
    void (*answered)(struct exchange *x); // an answer came after EXCHANGE_LATER
    int (*claim)(struct exchange *x, int64_t user, bool unlimited, det_err *err); // http_claim()
    void *transport;
};

static inline struct exchange *exchange_of(struct http_request *req)
{
    return (struct exchange *)req;
}

struct exchange *exchange_new(const struct http_server_opts *opts, struct loop *loop);
void exchange_free(struct exchange *x);

void pairs_add(struct pairs *pairs, struct arena *arena, const char *name, const char *value);
const char *pairs_find(const struct pairs *pairs, const char *name); // names in any case

// The head is complete: framing, host, route, rights. May answer at once (then the body is not
// read). target is the path as it came, without the query.
void exchange_begin(struct exchange *x, const char *method, const char *target);

// A piece of the body. False: the client sends far more than it may and is not worth an answer.
bool exchange_add_body(struct exchange *x, const char *bytes, size_t n);

// The request is complete: input, handler.
void exchange_run(struct exchange *x);

bool read_length(const char *text, int64_t *out); // the value of a Content-Length

bool host_is_local(const char *host); // an address, or NULL for the default: the loopback interface

// --- route.c

enum route_result { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD, ROUTE_BAD_TEXT };

// Fills req.route and params. With ROUTE_NO_METHOD, *allow has the methods that exist.
enum route_result route_find(struct exchange *x, int method, const char *target,
                             const char **allow);

// %XX decoded; NULL if that is damaged, not UTF-8, or has a NUL.
const char *percent_decode(struct arena *arena, struct str text);

// --- input.c: fills req.query and req.input. On failure the answer has been given.
bool input_read_query(struct exchange *x);
bool input_read_body(struct exchange *x);

// --- reply.c
void reply_problem(struct exchange *x, int status, const char *title, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void reply_invalid(struct exchange *x, const char *what, const struct diag_list *diags);
void reply_done(struct reply *reply);
void reply_mark_answered(struct exchange *x); // wakes the transport if it waits

// --- stream.c: the transport's side of a stream
enum stream_read { STREAM_BYTES, STREAM_WAIT, STREAM_END, STREAM_BROKEN };

// Copies up to max bytes. STREAM_WAIT: nothing now; the stream calls wake() when there is.
enum stream_read stream_read(struct http_stream *stream, char *to, size_t max, size_t *n);
void stream_on_wake(struct http_stream *stream, void (*wake)(void *transport), void *transport);
void stream_free(struct http_stream *stream);
