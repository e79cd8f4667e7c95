// http/http.h: HTTP for the master and for those who talk to it.
//
// A server is a table of routes on an event loop (sys/loop.h). A row says what a request must look
// like; the handler sees only requests that do:
//
//     static int handle_kill(struct http_request *req, det_err *err)
//     {
//         struct master *m = req->user;
//         int rc = trial_kill(m, http_param_int(req, "trial"), err);
//         if (!rc) http_reply_empty(req);
//         return rc;                        // a failure is answered with the error's HTTP status
//     }
//     static const struct http_route trial_routes[] = {
//         {HTTP_POST, "/api/v1/trials/{trial:int}/kill", .handle = handle_kill,
//          .summary = "Ends a trial at once."},
//     };
//     const struct http_table tables[] = {HTTP_TABLE(trial_routes)};
//     server = http_server_new(loop, &(struct http_server_opts){
//         .tables = tables, .n_tables = 1, .port = 8080, .authenticate = check_token}, &err);
//
// Everything of a server happens in the thread of its loop, except what takes long: a row's read(),
// which is called first, by another thread (http_server_opts.work), and may answer or leave what it
// has found for handle(). Slow or oversized requests, broken framing and unknown hosts are refused
// before any handler runs.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "doc/field.h"
#include "base/str.h"
#include "det/err.h"
#include "sys/worker.h"

// --- routes

enum http_method {
    HTTP_GET, // HEAD is answered as GET, without the body
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_N_METHODS
};

const char *http_method_name(enum http_method method);

// Who may call. The server's authenticate() decides; zero is the strictest that users can pass.
enum http_auth {
    HTTP_AUTH_USER,
    HTTP_AUTH_ADMIN,
    HTTP_AUTH_TASK, // with an allocation's token
    HTTP_AUTH_ANY,  // a user or a task
    HTTP_AUTH_JOB,  // the same, and jobs about what is not their own: the handler looks whose it is
    HTTP_AUTH_NONE, // everybody; authenticate() is not asked
};

enum http_content {
    HTTP_JSON,
    HTTP_EVENTS, // text/event-stream
    HTTP_LINES,  // application/x-ndjson: one JSON object a line
    HTTP_TEXT,
    HTTP_BYTES,
    HTTP_N_CONTENTS
};

const char *http_content_type(enum http_content content);

struct http_request;

// Answers the request (or starts a stream) and returns 0; or returns http_later() and answers when
// it can; or fails, and the error is the answer.
typedef int (*http_handler)(struct http_request *req, det_err *err);

struct http_route {
    enum http_method method;
    // "/trials/{trial:int}/logs": {name} is one segment, {name:int} one of digits only, {name*} (at
    // the end) all that follows, slashes included. The first row that matches is taken.
    const char *path;
    enum http_auth auth;
    http_handler read;   // in another thread, with req->reader; NULL: nothing takes long
    http_handler handle; // in the loop's thread, unless read has answered; NULL: read answers
    size_t max_body;     // bytes; 0: HTTP_MAX_BODY
    const struct field_table *query; // parameters after the '?'; NULL: taken as they are
    const struct field_table *input; // the JSON body; NULL: it has no fields, or is not JSON
    const struct field_table *output;
    bool raw;                  // the handler reads fields of the body by itself
    enum http_content content; // of the answer
    const char *summary;       // one sentence, for the reference
};

enum { HTTP_MAX_BODY = 1 << 20 };

struct http_table {
    const struct http_route *rows;
    size_t n;
};

#define HTTP_TABLE(array)                        \
    {                                            \
        (array), sizeof(array) / sizeof *(array) \
    }

// --- requests

// Lives until its answer is complete.
struct http_request {
    const struct http_route *route;
    struct arena *arena;       // as long as the request
    void *user;                // of http_server_opts
    void *identity;            // who calls, left here by authenticate()
    void *reader;              // of the thread that calls read; NULL in the loop's thread
    void *found;               // whatever read leaves for handle
    void (*drop)(void *found); // what to do with that when the request ends; NULL: nothing
    const void *query;         // the struct of route->query
    const void *input;         // the struct of route->input
    struct str body;           // as it came
};

// Parts of the path. The names must be in the route; the text is decoded, valid UTF-8 without NULs.
struct str http_param(const struct http_request *req, const char *name);
int64_t http_param_int(const struct http_request *req, const char *name); // of a {name:int}

// Decoded, NUL-terminated, the first of that name; NULL if it is not there.
const char *http_query(const struct http_request *req, const char *name);
const char *http_header(const struct http_request *req, const char *name); // any case
const char *http_cookie(struct http_request *req, const char *name);

// The token of "Authorization: Bearer ..." or of a task's "X-Allocation-Token: Bearer ..." (also
// with the prefix Grpc-Metadata-). NULL if there is none.
const char *http_token(struct http_request *req);

const char *http_peer(const struct http_request *req); // address of the client, without a port

// What one client can have many addresses of is one: the first half of an IPv6 address.
const char *http_peer_network(const struct http_request *req);

// Says whose connection this is from now on; authenticate() does. Unlimited: of a program without
// which nothing works. DET_EBUSY if the user has too many.
int http_claim(struct http_request *req, int64_t user, bool unlimited, det_err *err);

// --- answers: exactly one for each request

void http_set_header(struct http_request *req, const char *name, const char *value); // copied

void http_reply(struct http_request *req, int status, const char *content_type, struct str body);
void http_reply_static(struct http_request *req, int status, const char *content_type,
                       struct str body); // body is not copied and must outlive the server
void http_reply_json(struct http_request *req, int status, struct buf *json); // takes the content
void http_reply_output(struct http_request *req, const void *output); // 200, by route->output
void http_reply_empty(struct http_request *req);                      // 200, {}
void http_reply_error(struct http_request *req, const det_err *err);

// A regular file. name is what browsers save it as; NULL: shown, not saved.
int http_reply_file(struct http_request *req, const char *path, const char *content_type,
                    const char *name, det_err *err);

// The same of a file that is open for reading; takes the descriptor.
int http_reply_open_file(struct http_request *req, int fd, const char *content_type,
                         const char *name, det_err *err);

// For `return http_later(req)`: the request is kept, and one of the above is called by the loop's
// thread when the answer is known. Who waits must do so with a timer; clients that went away are
// only noticed then.
int http_later(struct http_request *req);

// For `return http_read(req, read)` in a handler: calls read as that of a row is called, and then,
// unless that has answered, handle again.
int http_read(struct http_request *req, http_handler read);

// The request that waits (http_later) is treated as if it had just come: rights, read, handle.
void http_again(struct http_request *req);

// --- streams: answers without a known end

struct http_stream;

struct http_stream_opts {
    const char *content_type; // NULL: that of the route
    // Called when the client can take more and nothing is queued: writes some, or ends the stream,
    // or does nothing and writes later. NULL: everything is pushed.
    void (*pull)(void *ctx, struct http_stream *stream);
    // Once, when the stream is over for whatever reason; the stream must not be used any more.
    void (*closed)(void *ctx);
    void *ctx;
    size_t max_queue; // a client that lags behind by more bytes is dropped; 0: HTTP_MAX_QUEUE
    // Of events that only say what has changed: a client that lags behind is not dropped but told,
    // by an event "resync", to read everything again. What it has missed is thrown away.
    bool resyncs;
};

enum { HTTP_MAX_QUEUE = (1 << 20) - 1 }; // with the NUL, 1 MiB

struct http_stream *http_stream_start(struct http_request *req,
                                      const struct http_stream_opts *opts);
void http_stream_write(struct http_stream *stream, struct str bytes); // copied
void http_stream_end(struct http_stream *stream);
void http_stream_break(struct http_stream *stream); // the client sees that something is missing
size_t http_stream_queued(const struct http_stream *stream); // bytes that the client has not taken

// Server-sent events. A stream of content type text/event-stream gets a comment every 15 s, by
// which a client that is gone is noticed. id and event may be NULL; lines of data are kept apart.
void http_send_event(struct http_stream *stream, const char *id, const char *event,
                     struct str data);
// The bytes of one, appended. By any thread.
void http_put_event(struct buf *out, const char *id, const char *event, struct str data);

// --- the server

struct http_server;

// How many connections there may be. Whoever has more than their share loses the oldest of them
// (of anonymous ones), or gets 429 for the newest (users).
struct http_limits {
    int connections; // 0: 10000
    int per_address; // that have not shown a token; 0: 256
    int per_user;    // of those http_claim() names; 0: 2000
    int reserve;     // that anonymous ones cannot have, and users neither; 0: a tenth; at most half
};

struct http_server_opts {
    const struct http_table *tables;
    size_t n_tables;
    // What answers a GET of a path that no table has, such as "/{path*}"; NULL: that is 404.
    const struct http_route *otherwise;
    const char *host;               // an address; NULL: 127.0.0.1
    int port;                       // 0: any
    const char *tls_cert, *tls_key; // PEM files: https instead of http; both or none
    bool insecure; // without TLS, beyond the loopback interface is refused unless this is set
    void *user;    // for handlers
    // Finds out who calls and whether they may; leaves req->identity. Fails with DET_EAUTH (who are
    // you) or DET_EDENIED (not you). Called when the head of a request is there, and again before
    // its handler: meanwhile the rights may be gone. NULL: nobody may call anything but
    // HTTP_AUTH_NONE.
    int (*authenticate)(struct http_request *req, enum http_auth needed, det_err *err);
    // Runs work->run in another thread. Reads of routes and long bodies come this way. NULL: all is
    // done in the loop's thread.
    void (*work)(struct http_request *req, const struct work *work);
    struct http_limits limits;
    // Limits for slow clients; 0: 8 s, 12 s, 16 KiB/s.
    int64_t head_timeout_us, idle_timeout_us;
    int64_t min_bytes_per_s;
};

struct http_server *http_server_new(struct loop *loop, const struct http_server_opts *opts,
                                    det_err *err);
// For connections that come from now on. Of all together there can be no more than when the server
// was made.
void http_server_set_limits(struct http_server *server, const struct http_limits *limits);

// Closes all connections. Requests that wait for an answer are gone; their streams are closed.
void http_server_free(struct http_server *server);

int http_server_port(const struct http_server *server);

// Reads the files of the certificate and the key again. New connections get the new ones; if they
// cannot be used, all stays as it was, and the error says why.
int http_server_renew(struct http_server *server, det_err *err);

// Where programs of this machine reach a server that listens on host.
const char *http_near_host(const char *host);

// Serves a connected stream socket as if it had been accepted; takes the descriptor.
int http_server_adopt(struct http_server *server, int fd, det_err *err);

struct http_stats {
    uint64_t n_requests;
    uint64_t n_status[6]; // by first digit: n_status[2] were answered 2xx
    uint64_t n_dropped;   // connections closed because they were too slow or lagged behind
    uint64_t n_crowded;   // connections closed to make room for others
    uint64_t n_bytes_in;  // of bodies
    int n_connections, n_streams, n_waiting;
};

const struct http_stats *http_server_stats(struct http_server *server);

// --- certificates

// Makes a key and a certificate (PEM) that no authority has signed, for this machine's names and
// host (NULL: no other). Both are readable by nobody else.
int http_make_certificate(const char *cert_file, const char *key_file, const char *host,
                          det_err *err);

bool http_certificate_is_valid(const char *file); // today

// Appends what clients who connect to host should look for: host if the certificate is for it, else
// a name that it is for.
void http_certificate_name(const char *file, const char *host, struct buf *out);

// --- the client

// Calls of one server, one at a time, over a connection that is kept. Everything blocks.
struct http_client;

struct http_client_opts {
    const char *url;     // "http://127.0.0.1:8080"; the scheme may be left out, and the port 8080.
                         // Several, with commas between: the first one that answers
    const char *token;   // NULL: none
    const char *ca_file; // PEM: the server's certificate, or whose signature it must have; NULL:
                         // whom the system trusts
    const char *cert_name; // what the certificate must be for; NULL or "": the host of the url
    const char *hint;      // what to do when nobody answers, e.g. HTTP_MASTER_HINT; NULL: nothing
    int64_t timeout_us;    // of a call, unless it has its own; 0: 30 s
};

#define HTTP_MASTER_HINT \
    "start a master with 'det up', or name another one with -m ADDRESS or DET_MASTER"

// The address that the environment names: DET_MASTER, else DETERMINED_MASTER. NULL: none.
const char *http_master_address(void);

// Whether that is this machine, by its loopback interface.
bool http_is_local(const char *url);

struct http_client *http_client_new(const struct http_client_opts *opts, det_err *err);
void http_client_free(struct http_client *client);

// Ends the call that is under way, and all later ones, with DET_ECANCELED. By any thread.
void http_client_cancel(struct http_client *client);

struct http_call {
    enum http_method method;
    const char *path; // with its query: "/api/v1/trials/7/logs?follow=true"; see http_encode()
    struct str body;
    const char *content_type;    // of the body; NULL: JSON
    const char *idempotency_key; // sent as Idempotency-Key, if not NULL
    const char *last_event_id;   // sent as Last-Event-ID, if not NULL
    int64_t timeout_us;          // for everything; 0: that of the client; negative: none
    size_t max_bytes;            // of the answer; 0: 64 MiB
};

struct http_answer {
    int status;
    int64_t retry_after_s; // 0: not said
    struct buf body;
};

void http_answer_done(struct http_answer *answer);

// 0 if the answer is 2xx. Otherwise the error has the server's message, and the code that has this
// status (det/err.h); DET_EUNREACHABLE if there was no answer, DET_ETIMEOUT if it did not come in
// time: then the call may or may not have been carried out. out may be NULL.
int http_call(struct http_client *client, const struct http_call *call, struct http_answer *out,
              det_err *err);

// The same, and reads the answer as JSON into the arena.
int http_call_json(struct http_client *client, const struct http_call *call, struct arena *arena,
                   struct doc **out, det_err *err);

// An answer that goes on: each line (without its end), or each event. False ends the call, which
// then returns 0. The strings live until the callback returns.
typedef bool (*http_line_fn)(void *ctx, struct str line);

struct http_event {
    const char *id, *type; // the last id that came, or ""; "message" unless it is named
    struct str data;
};
typedef bool (*http_event_fn)(void *ctx, const struct http_event *event);

// The same for an answer of any kind, piece by piece as it comes: it may be of any size. After a
// failure, pieces may have come.
int http_call_pieces(struct http_client *client, const struct http_call *call,
                     http_line_fn on_piece, void *ctx, det_err *err);

int http_call_lines(struct http_client *client, const struct http_call *call, http_line_fn on_line,
                    void *ctx, det_err *err);
int http_call_events(struct http_client *client, const struct http_call *call,
                     http_event_fn on_event, void *ctx, det_err *err);

// Appends text as one segment of a path, or one value of a query.
void http_encode(struct buf *out, struct str text);
void http_encode_path(struct buf *out, struct str path); // the same, but slashes stay

// --- what is generated from the table

// A record that answers are made of, by the name that readers of the document know it by.
struct http_schema {
    const char *name;
    const struct field_table *table;
};

struct http_api_info {
    const char *title, *version, *description;
    const struct http_schema *schemas;
    size_t n_schemas;
};

// The OpenAPI 3.0 document of the routes, as JSON.
void http_openapi(const struct http_table *tables, size_t n_tables,
                  const struct http_api_info *info, struct buf *out);

// --- Prometheus text

enum prom_type { PROM_COUNTER, PROM_GAUGE, PROM_HISTOGRAM };

// "# HELP det_x ...", then any number of samples. labels: "state=\"active\"" or NULL. A histogram x
// has samples x_bucket with the label le (the last one "+Inf"), x_sum and x_count.
void prom_family(struct buf *out, const char *name, enum prom_type type, const char *help);
void prom_sample(struct buf *out, const char *name, const char *labels, double value);
