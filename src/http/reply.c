// Unit reply.c: answers that are complete: bytes, JSON, files, problems. Streams are in stream.c.
#include "http/exchange.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_REPLY_BYTES = 256 << 20, MAX_PROBLEM_BYTES = 64 << 10 };

static const char *const content_types[HTTP_N_CONTENTS] = {
    [HTTP_JSON] = "application/json",          [HTTP_EVENTS] = "text/event-stream",
    [HTTP_LINES] = "application/x-ndjson",     [HTTP_TEXT] = "text/plain; charset=utf-8",
    [HTTP_BYTES] = "application/octet-stream",
};

const char *http_content_type(enum http_content content)
{
    return content_types[content];
}

void reply_done(struct reply *reply)
{
    free(reply->owned);
    reply->owned = NULL;
    if (reply->fd >= 0) close(reply->fd);
    reply->fd = -1;
}

void reply_mark_answered(struct exchange *x)
{
    ASSERT(x->state != EXCHANGE_ANSWERED && !x->has_answer);
    if (x->elsewhere) { // the transport must not look at it before it is back
        x->has_answer = true;
        return;
    }
    bool waits = x->state == EXCHANGE_LATER;
    x->state = EXCHANGE_ANSWERED;
    if (waits) x->answered(x);
}

int http_later(struct http_request *req)
{
    struct exchange *x = exchange_of(req);
    ASSERT(x->state == EXCHANGE_OPEN);
    x->state = EXCHANGE_LATER;
    return 0;
}

void http_set_header(struct http_request *req, const char *name, const char *value)
{
    pairs_add(&exchange_of(req)->reply.headers, req->arena, name, value);
}

static void answer(struct exchange *x, int status, const char *content_type, struct str bytes,
                   char *owned)
{
    x->reply.status = status;
    x->reply.content_type = arena_strdup(&x->arena, content_type);
    x->reply.bytes = bytes;
    x->reply.owned = owned;
    reply_mark_answered(x);
}

void http_reply(struct http_request *req, int status, const char *content_type, struct str body)
{
    char *copy = xmalloc(body.len + 1);
    if (body.len) memcpy(copy, body.ptr, body.len);
    answer(exchange_of(req), status, content_type, (struct str){copy, body.len}, copy);
}

void http_reply_static(struct http_request *req, int status, const char *content_type,
                       struct str body)
{
    answer(exchange_of(req), status, content_type, body, NULL);
}

void http_reply_json(struct http_request *req, int status, struct buf *json)
{
    struct exchange *x = exchange_of(req);
    if (!buf_ok(json)) {
        buf_done(json);
        reply_problem(x, 500, "answer too large", "the answer is larger than %zu bytes", json->max);
        return;
    }
    size_t n = json->len;
    char *text = buf_take(json);
    http_set_header(req, "Cache-Control", "no-store");
    answer(x, status, content_types[HTTP_JSON], (struct str){text, n}, text);
}

void http_reply_output(struct http_request *req, const void *output)
{
    struct buf json = BUF_INIT(MAX_REPLY_BYTES);
    struct json_writer w;
    ASSERT(req->route->output);
    json_init(&w, &json, 0);
    json_put_doc(&w, field_write(req->arena, req->route->output, output, true));
    http_reply_json(req, 200, &json);
}

void http_reply_empty(struct http_request *req)
{
    http_set_header(req, "Cache-Control", "no-store");
    http_reply_static(req, 200, content_types[HTTP_JSON], STR("{}"));
}

// --- problems: RFC 9457, and the error object that older clients look for

struct problem {
    int status;
    const char *title, *detail, *code;
    const struct diag_list *diags;
};

static void put_str(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, key);
    json_put_str(w, value);
}

static void put_diags(struct json_writer *w, const struct diag_list *diags)
{
    json_key(w, "errors");
    json_open_list(w);
    for (const struct diag *d = diags->first; d; d = d->next) {
        if (d->level != DIAG_ERROR) continue;
        json_open_map(w);
        put_str(w, "path", d->path);
        put_str(w, "detail", d->text);
        json_close(w);
    }
    json_close(w);
}

static void reply_with(struct exchange *x, const struct problem *p)
{
    struct buf json = BUF_INIT(MAX_PROBLEM_BYTES);
    struct json_writer w;
    json_init(&w, &json, 0);
    json_open_map(&w);
    put_str(&w, "type", "about:blank");
    put_str(&w, "title", p->title);
    json_key(&w, "status");
    json_put_int(&w, p->status);
    put_str(&w, "detail", p->detail);
    if (p->code) put_str(&w, "code", p->code);
    if (p->diags) put_diags(&w, p->diags);
    put_str(&w, "message", p->detail);
    json_key(&w, "error");
    json_open_map(&w);
    json_key(&w, "code");
    json_put_int(&w, p->status);
    put_str(&w, "reason", p->title);
    put_str(&w, "error", p->detail);
    json_close(&w);
    json_close(&w);
    ASSERT(buf_ok(&json));
    size_t n = json.len;
    char *text = buf_take(&json);
    pairs_add(&x->reply.headers, &x->arena, "Cache-Control", "no-store");
    answer(x, p->status, "application/problem+json", (struct str){text, n}, text);
}

void reply_problem(struct exchange *x, int status, const char *title, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *detail = arena_vprintf(&x->arena, fmt, args);
    va_end(args);
    reply_with(x, &(struct problem){.status = status, .title = title, .detail = detail});
}

void reply_invalid(struct exchange *x, const char *what, const struct diag_list *diags)
{
    det_err err = {0};
    diag_fail(diags, &err);
    reply_with(x, &(struct problem){.status = 400,
                                    .title = det_err_text(DET_EINVAL),
                                    .detail = arena_printf(&x->arena, "%s%s%s", what ? what : "",
                                                           what ? ": " : "", err.msg),
                                    .code = det_err_name(DET_EINVAL),
                                    .diags = diags});
}

void http_reply_error(struct http_request *req, const det_err *err)
{
    struct exchange *x = exchange_of(req);
    if (err->code == DET_EAUTH) http_set_header(req, "WWW-Authenticate", "Bearer");
    reply_with(x, &(struct problem){.status = det_err_http(err->code),
                                    .title = det_err_text(err->code),
                                    .detail = arena_strdup(&x->arena, err->msg),
                                    .code = det_err_name(err->code)});
}

// --- files

static const char *disposition(struct arena *arena, const char *name)
{
    char *safe = arena_strdup(arena, name);
    for (char *c = safe; *c; c++)
        if ((unsigned char)*c < ' ' || strchr("\"\\/\x7f", *c)) *c = '_';
    return arena_printf(arena, "attachment; filename=\"%s\"", safe);
}

int http_reply_file(struct http_request *req, const char *path, const char *content_type,
                    const char *name, det_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not make us wait
    if (fd < 0)
        return det_fail(err, errno == ENOENT ? DET_ENOTFOUND : DET_EIO, "cannot open '%s': %s",
                        path, strerror(errno));
    return http_reply_open_file(req, fd, content_type, name, err);
}

int http_reply_open_file(struct http_request *req, int fd, const char *content_type,
                         const char *name, det_err *err)
{
    struct exchange *x = exchange_of(req);
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return det_fail(err, DET_EIO, "what was asked for is not a regular file");
    }
    if (name) http_set_header(req, "Content-Disposition", disposition(req->arena, name));
    x->reply.fd = fd;
    x->reply.n_file_bytes = (uint64_t)st.st_size;
    answer(x, 200, content_type, STR(""), NULL);
    return 0;
}
