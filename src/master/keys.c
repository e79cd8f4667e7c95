// Unit keys.c: which requests were done before. Called by api.c.
#include "master/keys.h"

#include "base/assert.h"
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

static bool is_known(const struct live_allocation *a, const struct place *p)
{
    return a && str_eqz(str_from(a->journal), p->journal);
}

static int find_last(struct http_request *req, const struct place *p, int64_t *out, det_err *err)
{
    struct master *m = req->user;
    struct live_allocation *a = identity_of(req)->allocation;
    if (is_known(a, p)) {
        *out = a->journal_last;
        return 0;
    }
    int rc = db_journal_find(m->reader, p->journal, out, err);
    if (rc || !a) return rc;
    memcpy(a->journal, p->journal, sizeof a->journal);
    a->journal_last = *out;
    return 0;
}

int key_find(struct http_request *req, const char *key, size_t n_items, struct key_found *out,
             det_err *err)
{
    struct master *m = req->user;
    const struct place p = place_of(key);
    int64_t last = 0, n = p.last - p.first + 1;
    *out = (struct key_found){false, 0};
    if (strlen(key) > MAX_KEY_BYTES || !*key)
        return det_fail(err, DET_EINVAL, "an Idempotency-Key has 1 to %d bytes", MAX_KEY_BYTES);
    if (!p.last) return db_key_find(m->reader, key, &out->used, err);
    if (p.last > p.first && (uint64_t)n != n_items)
        return det_fail(err, DET_EINVAL, "the Idempotency-Key is of %lld reports, the body has %zu",
                        (long long)n, n_items);
    int rc = find_last(req, &p, &last, err);
    if (rc) return rc;
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

void key_settled(struct master *m, int64_t allocation_token, const char *key, int code)
{
    const struct place p = place_of(key);
    struct live_allocation *a = set_find(&m->allocations, allocation_token);
    if (!p.last || !is_known(a, &p)) return;
    if (code)
        a->journal[0] = 0; // it may be done later, or not: the database will know
    else
        a->journal_last = MAX(a->journal_last, p.last);
}
