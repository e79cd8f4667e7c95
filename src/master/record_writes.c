// Unit record_writes.c: which records that are not in memory are being written, and which were lately.
//
// The record of an experiment that has ended is changed by reading it, changing it and writing all
// of it. What was read counts only if nobody has begun to write the record since: else that would
// be undone. Who finds that out reads again when all is durable (api_again).
//
//     record_write_begin --> pending --durable--> written: the counter goes up, the record's bucket has
//     it
//
// A read notes the counter before it begins (record_writes_now). It is stale if a write of the record is
// pending, or if its bucket has a greater number. Several records share a bucket; who is taken for
// stale without reason only reads once more.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"

struct pending_write {
    struct pending_write *next;
    struct master *master;
    enum record_noun noun;
    int64_t id;
    struct loop_timer timer;
};

static uint64_t *bucket_of(const struct master *m, enum record_noun noun, int64_t id)
{
    uint64_t mixed = ((uint64_t)id * N_RECORD_NOUN + noun) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint64_t *)(uintptr_t)&m->record_written[mixed >> 54]; // of 1024
}

uint64_t record_writes_now(const struct master *m)
{
    return atomic_load(&m->n_record_writes);
}

void record_write_mark(struct master *m, enum record_noun noun, int64_t id)
{
    *bucket_of(m, noun, id) = atomic_fetch_add(&m->n_record_writes, 1) + 1;
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct pending_write *u = ctx, **at = &u->master->pending_write;
    (void)code, (void)err;
    record_write_mark(u->master, u->noun, u->id);
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    free(u);
}

// The transaction with the record has been submitted: one behind it ends later.
static void on_submitted(void *ctx)
{
    struct pending_write *u = ctx;
    db_tx_submit_must(db_tx_new(u->master->db), on_durable, u);
}

void record_write_begin(struct master *m, enum record_noun noun, int64_t id)
{
    struct pending_write *u = xcalloc(1, sizeof *u);
    *u = (struct pending_write){.next = m->pending_write,
                                .master = m,
                                .noun = noun,
                                .id = id,
                                .timer = {.fn = on_submitted, .ctx = u}};
    m->pending_write = u;
    loop_timer_set(m->loop, &u->timer, 0);
}

bool record_write_is_pending(const struct master *m, enum record_noun noun, int64_t id)
{
    for (const struct pending_write *u = m->pending_write; u; u = u->next)
        if (u->noun == noun && u->id == id) return true;
    return false;
}

bool record_is_stale(const struct master *m, enum record_noun noun, int64_t id, uint64_t read_at)
{
    return record_write_is_pending(m, noun, id) || *bucket_of(m, noun, id) > read_at;
}

void record_writes_close(struct master *m)
{
    for (struct pending_write *u = m->pending_write, *next; u; u = next) {
        next = u->next;
        loop_timer_clear(m->loop, &u->timer);
        free(u);
    }
    m->pending_write = NULL;
}
