// tests/support/fake_master.h: a master that writes down what a trial says, each thing once, and
// can be taken away, be slow to answer, or refuse.
#pragma once

#include "support/files.h"
#include "support/serve.h"

#include "doc/json.h"
#include "base/mem.h"

enum { FAKE_MAX = 4096 };

struct fake_master {
    struct serve serve;
    int port;
    // Below: for the server's thread, and for the test while it is stopped or inside serve_call().
    struct {
        char *path, *key, *body;
    } heard[FAKE_MAX]; // each key once
    int n_heard;
    int n_doubles;     // keys that came again
    int n_batches;     // requests with several reports
    int n_fail;        // so many requests are answered 503
    int n_mute;        // so many new ones are carried out, but the answer never comes
    int refuse_status; // of requests for refuse_path
    const char *refuse_path;
    const char *refuse_text; // and a body that has this; NULL: any
    const char *operation;   // answer to searcher/operation
    bool one_operation;      // there is no other when it was completed
    bool has_completed;
    const char *best;
    bool preempt;
    struct http_request *polls[16];
    int n_polls;
    pthread_mutex_t lock; // of the next two
    pthread_cond_t changed;
    int n_seen; // requests that were written down
};

static struct fake_master fake;

// False if it was heard before.
static inline bool fake_note_one(const char *path, const char *key, const char *body, size_t n)
{
    for (int i = 0; i < fake.n_heard; i++) {
        if (strcmp(fake.heard[i].key, key)) continue;
        fake.n_doubles++;
        return false;
    }
    if (fake.n_heard == FAKE_MAX) fail_msg("the trial talks too much");
    fake.heard[fake.n_heard].path = xstrdup(path);
    fake.heard[fake.n_heard].key = xstrdup(key);
    fake.heard[fake.n_heard].body = xstrndup(body, n);
    fake.n_heard++;
    pthread_mutex_lock(&fake.lock);
    fake.n_seen++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    return true;
}

// A batch, "<journal>:<first>-<last>", as if its reports had come one by one.
static inline bool fake_note_batch(struct str body, const char *path, const char *key)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const char *numbers = strchr(key, ':') + 1;
    long long number = strtoll(numbers, NULL, 10),
              last = strtoll(strchr(numbers, '-') + 1, NULL, 10);
    const struct doc *all = json_parse(&arena, body, NULL, &diags);
    bool is_new = false;
    assert_non_null(all);
    for (const struct doc *r = doc_find(all, "reports")->first; r; r = r->next, number++) {
        struct buf one = BUF_INIT(1 << 20);
        struct json_writer w;
        const char *own = arena_printf(&arena, "%.*s%lld", (int)(numbers - key), key, number);
        buf_printf(&one, "{\"trialRunId\":%lld,\"reports\":[",
                   (long long)doc_find(all, "trialRunId")->integer);
        json_init(&w, &one, 0);
        json_put_doc(&w, r);
        buf_addz(&one, "]}");
        is_new = fake_note_one(path, own, one.ptr, one.len) || is_new;
        buf_done(&one);
    }
    assert_int_equal(number, last + 1);
    fake.n_batches++;
    arena_done(&arena);
    return is_new;
}

// False if all of it was heard before.
static inline bool fake_note(struct http_request *req, const char *path)
{
    const char *key = http_header(req, "Idempotency-Key"), *numbers = strchr(key, ':');
    if (numbers && strchr(numbers, '-')) return fake_note_batch(req->body, path, key);
    return fake_note_one(path, key, req->body.ptr, req->body.len);
}

static inline int fake_post(struct http_request *req, det_err *err)
{
    struct str rest = http_param(req, "path");
    if (fake.n_fail && fake.n_fail--) return det_fail(err, DET_EUNREACHABLE, "not now");
    if (fake.refuse_path && strstr(rest.ptr, fake.refuse_path) &&
        (!fake.refuse_text ||
         memmem(req->body.ptr, req->body.len, fake.refuse_text, strlen(fake.refuse_text)))) {
        http_reply(req, fake.refuse_status, "application/json", STR("{\"detail\":\"no way\"}"));
        return 0;
    }
    bool is_new = fake_note(req, rest.ptr);
    if (strstr(rest.ptr, "completed_operation")) fake.has_completed = true;
    if (is_new && fake.n_mute && fake.n_mute--) return http_later(req);
    http_reply_empty(req);
    return 0;
}

static inline int fake_operation(struct http_request *req, det_err *err)
{
    if (fake.n_fail && fake.n_fail--) return det_fail(err, DET_EUNREACHABLE, "not now");
    bool is_done = fake.one_operation && fake.has_completed;
    http_reply(req, 200, "application/json",
               str_from(is_done ? "{\"completed\":true}" : fake.operation));
    return 0;
}

static inline int fake_best(struct http_request *req, det_err *err)
{
    if (!fake.best) return det_fail(err, DET_ENOTFOUND, "none yet");
    http_reply(req, 200, "application/json", str_from(fake.best));
    return 0;
}

static inline void fake_answer_poll(struct http_request *req)
{
    http_reply(req, 200, "application/json",
               fake.preempt ? STR("{\"preempt\":true}") : STR("{\"preempt\":false}"));
}

static inline int fake_preemption(struct http_request *req, det_err *err)
{
    (void)err;
    const char *wait = http_query(req, "timeout_seconds");
    if (fake.preempt || !wait || !strcmp(wait, "0")) {
        fake_answer_poll(req);
        return 0;
    }
    if (fake.n_polls == 16) fail_msg("too many polls");
    fake.polls[fake.n_polls++] = req;
    return http_later(req);
}

static inline int fake_authenticate(struct http_request *req, enum http_auth needed, det_err *err)
{
    (void)needed;
    const char *token = http_token(req);
    return token && !strcmp(token, "alloc-token") ? 0 : det_fail(err, DET_EAUTH, "who are you?");
}

static inline void fake_start(void)
{
    // clang-format off
    static const struct http_route routes[] = {
        {HTTP_GET, "/api/v1/trials/7/searcher/operation", .handle = fake_operation},
        {HTTP_GET, "/api/v1/experiments/3/searcher/best_searcher_validation_metric", .handle = fake_best},
        {HTTP_GET, "/api/v1/allocations/{a}/signals/preemption", .handle = fake_preemption},
        {HTTP_POST, "/api/v1/{path*}", .handle = fake_post, .raw = true},
    };
    // clang-format on
    static const struct http_table tables[] = {HTTP_TABLE(routes)};
    fake.n_polls = 0;
    serve_start(&fake.serve, &(struct http_server_opts){.tables = tables,
                                                        .n_tables = 1,
                                                        .port = fake.port,
                                                        .authenticate = fake_authenticate});
    fake.port = fake.serve.port;
}

static inline void fake_stop(void)
{
    serve_stop(&fake.serve);
}

static inline void fake_forget(void)
{
    for (int i = 0; i < fake.n_heard; i++) {
        free(fake.heard[i].path);
        free(fake.heard[i].key);
        free(fake.heard[i].body);
    }
    fake.n_heard = 0;
}

static inline void fake_reset(void)
{
    fake_forget();
    fake = (struct fake_master){.lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER,
                                .operation = "{\"completed\":true}"};
}

// What a task of it is given; run is the number of its run.
static inline void fake_environment(const char *run)
{
    char master[64];
    snprintf(master, sizeof master, "http://127.0.0.1:%d", fake.port);
    setenv("DET_MASTER", master, 1);
    setenv("DET_ALLOCATION_ID", "3.ab.1", 1);
    setenv("DET_SESSION_TOKEN", "alloc-token", 1);
    setenv("DET_TRIAL_ID", "7", 1);
    setenv("DET_EXPERIMENT_ID", "3", 1);
    setenv("DET_TRIAL_RUN_ID", run, 1);
    setenv("DET_RUN_DIR", temp_path("run"), 1);
    setenv("DET_CHECKPOINT_STORAGE", temp_path("ckpt"), 1);
    unsetenv("DET_LATEST_CHECKPOINT");
}

// What was heard below this path, in order; the n-th of them. For the test while it is stopped.
static inline const char *fake_heard(const char *path, int n)
{
    for (int i = 0; i < fake.n_heard; i++)
        if (strstr(fake.heard[i].path, path) && n-- == 0) return fake.heard[i].body;
    return NULL;
}

static inline void fake_wait_for(int n_seen)
{
    pthread_mutex_lock(&fake.lock);
    while (fake.n_seen < n_seen)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

static inline void fake_preempt_now(void *ctx)
{
    (void)ctx;
    fake.preempt = true;
    for (int i = 0; i < fake.n_polls; i++)
        fake_answer_poll(fake.polls[i]);
    fake.n_polls = 0;
}
