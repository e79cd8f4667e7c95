// Unit keys.c: which requests were done before. Called by api.c.
#include "master/keys.h"

#include "base/assert.h"
#include "base/number.h"
#include "sys/clock.h"

enum { MAX_KEY_BYTES = 128 };

// A place in a journal; number 0: the key is just a text.
struct place {
    char journal[UUID_TEXT_BYTES];
    int64_t number;
};

static struct place place_of(const char *key)
{
    struct place p = {.number = 0};
    struct str rest = str_from(key), name = str_cut(&rest, ':');
    struct uuid id;
    if (!rest.ptr || name.len != sizeof p.journal - 1) return p;
    memcpy(p.journal, name.ptr, name.len);
    if (uuid_parse(p.journal, &id, NULL) || !number_to_int(rest, 10, &p.number) || p.number < 0)
        p.number = 0;
    return p;
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

int key_is_used(struct http_request *req, const char *key, bool *out, det_err *err)
{
    struct master *m = req->user;
    const struct place p = place_of(key);
    int64_t last = 0;
    if (strlen(key) > MAX_KEY_BYTES || !*key)
        return det_fail(err, DET_EINVAL, "an Idempotency-Key has 1 to %d bytes", MAX_KEY_BYTES);
    if (!p.number) return db_key_find(m->reader, key, out, err);
    int rc = find_last(req, &p, &last, err);
    *out = p.number <= last;
    return rc;
}

void key_use(const char *key, struct db_tx *tx)
{
    const struct place p = place_of(key);
    if (p.number)
        db_journal_use(tx, p.journal, p.number, clock_unix_us());
    else
        db_key_use(tx, key, clock_unix_us());
}

void key_settled(struct master *m, int64_t allocation_token, const char *key, int code)
{
    const struct place p = place_of(key);
    struct live_allocation *a = set_find(&m->allocations, allocation_token);
    if (!p.number || !is_known(a, &p)) return;
    if (code)
        a->journal[0] = 0; // it may be done later, or not: the database will know
    else
        a->journal_last = MAX(a->journal_last, p.number);
}
