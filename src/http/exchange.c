// Unit exchange.c: a request from its head to its handler. Called by server.c as parts arrive; each
// check stands before the work that it saves.
#include "http/exchange.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include <arpa/inet.h>
#include <strings.h>
#include <unistd.h>

enum { SHORT_BODY_BYTES = 64 << 10 }; // a longer one is parsed in another thread

struct exchange *exchange_new(const struct http_server_opts *opts, struct loop *loop)
{
    struct exchange *x = xcalloc(1, sizeof *x);
    x->opts = opts;
    x->loop = loop;
    x->req.arena = &x->arena;
    x->req.user = opts->user;
    x->reply.fd = -1;
    return x;
}

static void drop_found(struct exchange *x)
{
    if (x->req.drop && x->req.found) x->req.drop(x->req.found);
    x->req.found = NULL;
    x->req.drop = NULL;
}

void exchange_free(struct exchange *x)
{
    if (!x) return;
    drop_found(x);
    stream_free(x->reply.stream);
    reply_done(&x->reply);
    buf_done(&x->body);
    arena_done(&x->arena);
    free(x);
}

void pairs_add(struct pairs *pairs, struct arena *arena, const char *name, const char *value)
{
    struct pair *p = arena_alloc(arena, sizeof *p);
    p->name = arena_strdup(arena, name);
    p->value = arena_strdup(arena, value);
    if (pairs->last)
        pairs->last->next = p;
    else
        pairs->first = p;
    pairs->last = p;
}

const char *pairs_find(const struct pairs *pairs, const char *name)
{
    for (const struct pair *p = pairs->first; p; p = p->next)
        if (!strcasecmp(p->name, name)) return p->value;
    return NULL;
}

// --- framing: what two servers in a row could understand in two ways is refused

static bool is_token(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz";
    return *name && strspn(name, allowed) == strlen(name);
}

bool read_length(const char *text, int64_t *out)
{
    bool digits = *text && strspn(text, "0123456789") == strlen(text);
    return digits && number_to_int(str_from(text), 10, out);
}

struct framing {
    int n_lengths, n_encodings, n_hosts;
    bool is_good;
    int64_t n_bytes; // of the body, if it is said; else -1
};

static struct framing read_framing(const struct exchange *x)
{
    struct framing f = {.is_good = true, .n_bytes = -1};
    for (const struct pair *p = x->headers.first; p; p = p->next) {
        if (!is_token(p->name)) f.is_good = false;
        if (!strcasecmp(p->name, "Content-Length")) {
            f.n_lengths++;
            if (!read_length(p->value, &f.n_bytes)) f.is_good = false;
        } else if (!strcasecmp(p->name, "Transfer-Encoding")) {
            f.n_encodings++;
            if (strcasecmp(p->value, "chunked") != 0) f.is_good = false;
        }
        f.n_hosts += !strcasecmp(p->name, "Host");
    }
    if (f.n_lengths + f.n_encodings > 1 || f.n_hosts > 1) f.is_good = false;
    return f;
}

// --- the host: a web page of somebody else must not reach a server on this machine by giving its
// own name our address

// Nothing, or a colon and a port.
static bool is_port(const char *text)
{
    enum { MAX_DIGITS = 5 };
    if (!*text) return true;
    size_t n = strspn(text + 1, "0123456789");
    return text[0] == ':' && n <= MAX_DIGITS && !text[1 + n];
}

static bool is_local_name(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < STATIC_LEN(names); i++)
        if (!strncasecmp(host, names[i], strlen(names[i])) && is_port(host + strlen(names[i])))
            return true;
    return false;
}

bool host_is_local(const char *host)
{
    struct in_addr address;
    if (!host || !strcmp(host, "localhost") || !strcmp(host, "::1")) return true;
    return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool host_is_ours(const struct exchange *x)
{
    const char *host = pairs_find(&x->headers, "Host");
    if (x->opts->tls_cert) return true; // browsers look for the name of the page in it
    return !host || is_local_name(host) || !host_is_local(x->opts->host);
}

// --- head

static int method_of(const char *name)
{
    if (!strcmp(name, "HEAD")) return HTTP_GET;
    for (int i = 0; i < HTTP_N_METHODS; i++)
        if (!strcmp(name, http_method_name((enum http_method)i))) return i;
    return -1;
}

static bool find_route(struct exchange *x, const char *method, const char *target)
{
    const char *allow;
    switch (route_find(x, method_of(method), target, &allow)) {
    case ROUTE_FOUND:
        return true;
    case ROUTE_BAD_TEXT:
        reply_problem(x, 400, "bad request", "the path is not UTF-8 text without NULs");
        return false;
    case ROUTE_NO_METHOD:
        http_set_header(&x->req, "Allow", allow);
        reply_problem(x, 405, "method not allowed", "%.32s %.200s is not possible, but %s is",
                      method, target, allow);
        return false;
    case ROUTE_NO_PATH:
        break;
    }
    reply_problem(x, 404, "not found", "there is nothing at %.32s %.200s", method, target);
    return false;
}

static bool authenticate(struct exchange *x)
{
    det_err err = {0};
    enum http_auth needed = x->req.route->auth;
    if (needed == HTTP_AUTH_NONE) return true;
    int rc = x->opts->authenticate
                 ? x->opts->authenticate(&x->req, needed, &err)
                 : det_fail(&err, DET_EDENIED, "this server knows nobody who may do this");
    if (rc) http_reply_error(&x->req, &err);
    return !rc;
}

static void refuse_large(struct exchange *x)
{
    reply_problem(x, 413, "content too large", "the body may have at most %zu bytes", x->body.max);
}

static void check_head(struct exchange *x, const char *method, const char *target, int64_t n_bytes)
{
    if (x->needs_host && !pairs_find(&x->headers, "Host")) {
        reply_problem(x, 400, "bad request", "the header Host is missing");
        return;
    }
    if (!host_is_ours(x)) {
        reply_problem(x, 421, "misdirected request",
                      "this server is reached as localhost or 127.0.0.1 only");
        return;
    }
    if (!find_route(x, method, target)) return;
    size_t max = x->req.route->max_body;
    x->body.max = max ? max : HTTP_MAX_BODY;
    if (n_bytes > (int64_t)x->body.max)
        refuse_large(x);
    else if (authenticate(x))
        input_read_query(x);
}

void exchange_begin(struct exchange *x, const char *method, const char *target)
{
    struct framing framing = read_framing(x);
    if (!framing.is_good) {
        http_set_header(&x->req, "Connection", "close");
        reply_problem(x, 400, "bad request",
                      "the headers do not say clearly which host is meant and where the body ends");
        return;
    }
    check_head(x, method, target, framing.n_bytes);
    // Closing with a body unread may destroy the answer on its way, so a short one is read.
    x->reads_on = framing.n_bytes > 0 && framing.n_bytes <= SHORT_BODY_BYTES;
}

// --- body

bool exchange_add_body(struct exchange *x, const char *bytes, size_t n)
{
    if (x->state != EXCHANGE_OPEN) return true; // see reads_on
    // What is too much is thrown away, up to a point, so that the client hears why.
    x->n_body += n;
    if (x->n_body <= x->body.max)
        buf_add(&x->body, bytes, n);
    else
        buf_clear(&x->body);
    return x->n_body <= 2 * x->body.max + HTTP_MAX_BODY;
}

// --- from the complete request to its answer
//
//     OPEN --start--> (elsewhere: input, read) --back--> OPEN --handle--> LATER or ANSWERED
//       ^                                                                   |
//       +------------------------- http_read, http_again -------------------+

static void start(struct exchange *x);

static void handle(struct exchange *x)
{
    det_err err = {0};
    x->state = EXCHANGE_OPEN;
    if (!authenticate(x)) return;
    int rc = x->req.route->handle(&x->req, &err);
    if (rc) {
        ASSERT(x->state == EXCHANGE_OPEN);
        http_reply_error(&x->req, &err);
    }
    ASSERT(x->state != EXCHANGE_OPEN); // a handler answers, fails or says http_later()
}

static void wake(struct exchange *x)
{
    if (x->state == EXCHANGE_ANSWERED) x->answered(x);
}

// The transport waits from here on.
static void back(void *job)
{
    struct exchange *x = job;
    x->elsewhere = false;
    if (x->has_answer)
        x->state = EXCHANGE_ANSWERED;
    else
        handle(x);
    wake(x);
}

static void work_on(void *job, void *own)
{
    struct exchange *x = job;
    det_err err = {0};
    x->req.reader = own;
    bool good = x->req.input || input_read_body(x);
    if (good && x->read && x->read(&x->req, &err)) http_reply_error(&x->req, &err);
    x->req.reader = NULL;
}

static void go_elsewhere(struct exchange *x, http_handler read)
{
    const struct work work = {.run = work_on, .done = back, .job = x};
    x->state = EXCHANGE_LATER;
    x->elsewhere = true;
    x->read = read;
    if (x->opts->work) {
        x->opts->work(&x->req, &work);
    } else {
        work_on(x, NULL);
        back(x);
    }
}

static void start(struct exchange *x)
{
    bool is_long = x->req.route->input && x->req.body.len > SHORT_BODY_BYTES;
    if (x->req.route->read) drop_found(x); // it is read anew
    if (x->req.route->read || (is_long && !x->req.input))
        go_elsewhere(x, x->req.route->read);
    else if (x->req.input || input_read_body(x))
        handle(x);
}

int http_read(struct http_request *req, http_handler read)
{
    struct exchange *x = exchange_of(req);
    ASSERT(x->state == EXCHANGE_OPEN);
    go_elsewhere(x, read);
    return 0;
}

void http_again(struct http_request *req)
{
    struct exchange *x = exchange_of(req);
    ASSERT(x->state == EXCHANGE_LATER && !x->elsewhere);
    x->state = EXCHANGE_OPEN;
    if (authenticate(x)) start(x);
    wake(x);
}

void exchange_run(struct exchange *x)
{
    ASSERT(x->state == EXCHANGE_OPEN);
    x->req.body = buf_str(&x->body);
    if (x->n_body > x->body.max)
        refuse_large(x);
    else
        start(x);
}
