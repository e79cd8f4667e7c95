// Unit batch.c: the batches of client/batch.h. Called by shipper.c.
//
// The body of a report of metrics is {"trialRunId":7,"reports":[...]}, as metrics.c writes it:
// those with the same beginning are put together without being read.
#include "client/batch.h"

static const char list_begin[] = "\"reports\":[", list_end[] = "]}";

void batch_done(struct batch *b)
{
    buf_done(&b->path);
    buf_done(&b->body);
}

// The parts of a body before and inside of its list. False: it has none, and goes alone.
static bool split(const struct journal_entry *e, struct str *head, struct str *list)
{
    if (!str_ends(str_from(e->path), STR("/metrics")) || !str_ends(e->body, str_from(list_end)))
        return false;
    const char *found = memmem(e->body.ptr, e->body.len, list_begin, strlen(list_begin));
    if (!found) return false;
    head->ptr = e->body.ptr;
    head->len = (size_t)(found - e->body.ptr) + strlen(list_begin);
    *list = (struct str){e->body.ptr + head->len, e->body.len - head->len - strlen(list_end)};
    return list->len > 0;
}

static bool fits(const struct batch *b, size_t n_head, const struct journal_entry *e,
                 struct str *list)
{
    struct str head;
    return e->number == b->last + 1 && str_eqz(buf_str(&b->path), e->path) &&
           split(e, &head, list) && head.len == n_head && !memcmp(head.ptr, b->body.ptr, n_head) &&
           b->body.len + list->len + 3 <= BATCH_MAX_BYTES;
}

static void add_more(struct batch *b, size_t n_head, struct journal *j)
{
    struct journal_entry e;
    struct str list;
    b->body.len -= strlen(list_end);
    // What is wrong with the journal shows itself when it is the next entry's turn.
    while (b->n < BATCH_MAX_REPORTS && journal_more(j, &e, NULL) == 1 &&
           fits(b, n_head, &e, &list)) {
        buf_addc(&b->body, ',');
        buf_add(&b->body, list.ptr, list.len);
        b->last = e.number;
        b->n++;
    }
    buf_addz(&b->body, list_end);
}

int batch_next(struct batch *b, struct journal *j, int64_t alone_until, det_err *err)
{
    struct journal_entry e;
    struct str head, list;
    int rc = journal_next(j, &e, err);
    if (rc <= 0) return rc;
    buf_clear(&b->path);
    buf_clear(&b->body);
    buf_addz(&b->path, e.path);
    buf_add(&b->body, e.body.ptr, e.body.len);
    b->last = e.number;
    b->n = 1;
    if (e.number > alone_until && split(&e, &head, &list)) add_more(b, head.len, j);
    if (b->n > 1)
        snprintf(b->key, sizeof b->key, "%s-%lld", e.key, (long long)b->last);
    else
        snprintf(b->key, sizeof b->key, "%s", e.key);
    return 1;
}
