// Unit api.c: what handlers have in common: transactions, keys, answers.
#include "master/api.h"

#include "base/assert.h"
#include "base/hash.h"
#include "master/keys.h"

#define RETRY_AFTER_S "5" // a large database is checked in some seconds

// A request that waits for its transaction. Lives in the request's arena.
struct pending_key {
    struct http_request *req;
    const char *key; // NULL: none
    int64_t allocation_token;
    struct buf json;
    bool has_json;
    db_done_fn done;
    void *ctx;
    struct pending_key *next; // among those with a key
};

static struct pending_key **bucket_of(struct master *m, const char *key)
{
    return &m->pending_keys[(uint64_t)api_hash(m, key_scope(key)) % PENDING_BUCKETS];
}

static bool is_pending(struct master *m, const char *key)
{
    for (const struct pending_key *p = *bucket_of(m, key); p; p = p->next)
        if (str_eq(key_scope(p->key), key_scope(key))) return true;
    return false;
}

static void begin_again(void *ctx, int code, const det_err *err)
{
    struct http_request *req = ctx;
    if (code)
        http_reply_error(req, err);
    else
        http_again(req);
}

void api_begin_again(struct http_request *req)
{
    struct master *m = req->user;
    db_tx_submit(db_tx_new(m->db), begin_again, req);
}

int api_again(struct http_request *req)
{
    api_begin_again(req);
    return http_later(req);
}

struct db_tx *api_begin_items(struct http_request *req, size_t n_items, size_t *n_done, int *rc,
                              det_err *err)
{
    struct master *m = req->user;
    const char *key = http_header(req, "Idempotency-Key");
    struct key_found found = {.used = false};
    *rc = db_refuses(m->db, err);
    if (*rc == DET_EUNREACHABLE) http_set_header(req, "Retry-After", RETRY_AFTER_S);
    if (!*rc && key) *rc = key_find(req, key, n_items, &found, err);
    if (*rc) return NULL;
    if (found.used && !found.must_read) {
        http_reply_empty(req);
    } else if (key && is_pending(m, key)) { // look again when the one before is through
        *rc = api_again(req);
    } else if (found.must_read) {
        *rc = http_read(req, key_read);
    } else {
        *n_done = found.n_done;
        return db_tx_new(m->db);
    }
    return NULL;
}

struct db_tx *api_begin(struct http_request *req, int *rc, det_err *err)
{
    size_t n_done;
    return api_begin_items(req, 1, &n_done, rc, err); // one is done, or it is not
}

static void remove_key(const struct pending_key *p)
{
    struct pending_key **at = bucket_of(p->req->user, p->key);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

static void answer(void *ctx, int code, const det_err *err)
{
    struct pending_key *p = ctx;
    if (p->key) {
        remove_key(p);
        key_written(p->req->user, p->allocation_token, p->key, code);
    }
    if (p->done)
        p->done(p->ctx, code, err);
    else if (code)
        http_reply_error(p->req, err);
    else if (p->has_json)
        http_reply_json(p->req, 200, &p->json);
    else
        http_reply_empty(p->req);
    if (code && p->has_json) buf_done(&p->json);
}

static struct pending_key *add_key(struct http_request *req, struct db_tx *tx)
{
    struct master *m = req->user;
    struct pending_key *p = arena_alloc(req->arena, sizeof *p);
    p->req = req;
    p->key = http_header(req, "Idempotency-Key");
    if (p->key) {
        struct pending_key **first = bucket_of(m, p->key);
        const struct live_allocation *a = identity_of(req)->allocation;
        key_use(p->key, tx);
        p->allocation_token = a ? a->row.token : 0;
        p->next = *first;
        *first = p;
    }
    return p;
}

int api_finish(struct http_request *req, struct db_tx *tx, int rc, struct buf *json)
{
    if (rc) {
        db_tx_free(tx);
        if (json) buf_done(json);
        return rc;
    }
    struct pending_key *p = add_key(req, tx);
    if (json) {
        p->has_json = true;
        p->json = *json;
    }
    db_tx_submit_must(tx, answer, p);
    return http_later(req);
}

int api_finish_later(struct http_request *req, struct db_tx *tx, db_done_fn done, void *ctx)
{
    struct pending_key *p = add_key(req, tx);
    p->done = done;
    p->ctx = ctx;
    db_tx_submit(tx, answer, p);
    return http_later(req);
}

int api_finish_must(struct http_request *req, struct db_tx *tx, db_done_fn done, void *ctx)
{
    struct pending_key *p = add_key(req, tx);
    p->done = done;
    p->ctx = ctx;
    db_tx_submit_must(tx, answer, p);
    return http_later(req);
}

int64_t api_hash(const struct master *m, struct str text)
{
    struct hash_key secret;
    memcpy(&secret, m->token_key, sizeof secret);
    return (int64_t)hash_bytes(&secret, text.ptr, text.len);
}

int64_t api_who(const struct http_request *req)
{
    const struct identity *who = identity_of(req);
    if (who) return who->session.user_id;
    int64_t peer = api_hash(req->user, str_from(http_peer(req)));
    return peer < 0 ? peer : -1 - peer; // no user has such a number
}

void api_work(struct http_request *req, const struct work *work)
{
    struct master *m = req->user;
    struct work own = *work;
    own.who = api_who(req);
    worker_run(m->workers[WORK_READ], &own);
}

void api_put_record(struct json_writer *w, struct arena *arena, const struct field_table *table,
                    const void *record)
{
    json_put_doc(w, field_write(arena, table, record, true));
}

void api_reply_record(struct http_request *req, const char *name, const struct field_table *table,
                      const void *record)
{
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, name);
    api_put_record(&w, req->arena, table, record);
    json_close(&w);
    http_reply_json(req, 200, &out);
}

void api_put_warnings(struct json_writer *w, const struct diag_list *diags)
{
    json_key(w, "warnings");
    json_open_list(w);
    for (const struct diag *d = diags->first; d; d = d->next) {
        struct buf line = BUF_INIT(4096);
        if (d->level != DIAG_WARNING) continue;
        buf_printf(&line, "%s%s%s", d->path ? d->path : "", d->path ? ": " : "", d->text);
        json_put_strn(w, buf_str(&line));
        buf_done(&line);
    }
    json_close(w);
}
