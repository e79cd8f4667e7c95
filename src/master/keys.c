// Unit keys.c: which requests were done before. Called by api.c.
#include "master/keys.h"

#include "base/assert.h"
#include "master/api.h"
#include "base/number.h"
#include "sys/clock.h"

enum { MAX_KEY_BYTES = 128 };

// A place in a journal; last 0: the key is just a text.
struct place {
    char journal[UUID_TEXT_BYTES];
    int64_t first, last;
};

// "7" or "7-9".
static bool read_numbers(struct str text, struct place *p)
{
    struct str rest = text, first = str_cut(&rest, '-');
    if (!number_to_int(first, 10, &p->first) || p->first <= 0) return false;
    p->last = p->first;
    return !rest.ptr || (number_to_int(rest, 10, &p->last) && p->last >= p->first);
}

static struct place place_of(const char *key)
{
    struct place p = {.last = 0};
    struct str rest = str_from(key), name = str_cut(&rest, ':');
    struct uuid id;
    if (!rest.ptr || name.len != sizeof p.journal - 1) return p;
    memcpy(p.journal, name.ptr, name.len);
    if (uuid_parse(p.journal, &id, NULL) || !read_numbers(rest, &p)) p.last = 0;
    return p;
}

struct str key_scope(const char *key)
{
    return (struct str){key, place_of(key).last ? UUID_TEXT_BYTES - 1 : strlen(key)};
}

static int64_t key_record_id(const struct master *m, const char *key)
{
    return api_hash(m, key_scope(key));
}

static bool is_known(const struct live_allocation *a, const struct place *p)
{
    return a && str_eqz(str_from(a->journal), p->journal);
}

int key_read(struct http_request *req, det_err *err)
{
    struct key_read *found = &identity_of(req)->key;
    const char *key = http_header(req, "Idempotency-Key");
    const struct place p = place_of(key);
    *found = (struct key_read){.is_read = true, .at = record_writes_now(req->user)};
    return p.last ? db_journal_find(req->reader, p.journal, &found->last, err)
                  : db_key_find(req->reader, key, &found->used, err);
}

static bool is_read(const struct http_request *req, const char *key)
{
    const struct key_read *found = &identity_of(req)->key;
    const struct master *m = req->user;
    return found->is_read && !record_is_stale(m, RECORD_KEY, key_record_id(m, key), found->at);
}

// The last number of the journal that is durable. False: it has to be read.
static bool find_last(struct http_request *req, const char *key, const struct place *p,
                      int64_t *out)
{
    const struct identity *who = identity_of(req);
    struct live_allocation *a = who->allocation;
    if (!is_known(a, p)) {
        if (!is_read(req, key)) return false;
        *out = who->key.last;
        if (!a) return true;
        memcpy(a->journal, p->journal, sizeof a->journal);
        a->journal_last = *out;
    }
    *out = a->journal_last;
    return true;
}

int key_find(struct http_request *req, const char *key, size_t n_items, struct key_found *out,
             det_err *err)
{
    const struct place p = place_of(key);
    int64_t last = 0, n = p.last - p.first + 1;
    *out = (struct key_found){.used = false};
    if (strlen(key) > MAX_KEY_BYTES || !*key)
        return det_fail(err, DET_EINVAL, "an Idempotency-Key has 1 to %d bytes", MAX_KEY_BYTES);
    if (!p.last) {
        out->must_read = !is_read(req, key);
        out->used = identity_of(req)->key.used;
        return 0;
    }
    if (p.last > p.first && (uint64_t)n != n_items)
        return det_fail(err, DET_EINVAL, "the Idempotency-Key is of %lld reports, the body has %zu",
                        (long long)n, n_items);
    out->must_read = !find_last(req, key, &p, &last);
    out->used = p.last <= last;
    if (p.first <= last) out->n_done = (size_t)(last - p.first + 1);
    return 0;
}

void key_use(const char *key, struct db_tx *tx)
{
    const struct place p = place_of(key);
    if (p.last)
        db_journal_use(tx, p.journal, p.last, clock_unix_us());
    else
        db_key_use(tx, key, clock_unix_us());
}

void key_written(struct master *m, int64_t allocation_token, const char *key, int code)
{
    const struct place p = place_of(key);
    struct live_allocation *a = set_find(&m->allocations, allocation_token);
    record_write_mark(m, RECORD_KEY, key_record_id(m, key));
    if (!p.last || !is_known(a, &p)) return;
    if (code)
        a->journal[0] = 0; // it may be done later, or not: the database will know
    else
        a->journal_last = MAX(a->journal_last, p.last);
}
