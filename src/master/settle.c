// Unit settle.c: which records that are not in memory are being written, and which were lately.
//
// The record of an experiment that has ended is changed by reading it, changing it and writing all
// of it. What was read counts only if nobody has begun to write the record since: else that would
// be undone. Who finds that out reads again when all is durable (api_again).
//
//     settle_begin --> pending --durable--> settled: the counter goes up, the record's bucket has
//     it
//
// A read notes the counter before it begins (settle_now). It is stale if a write of the record is
// pending, or if its bucket has a greater number. Several records share a bucket; who is taken for
// stale without reason only reads once more.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"

struct unsettled {
    struct unsettled *next;
    struct master *master;
    enum settle_noun noun;
    int64_t id;
    struct loop_timer timer;
};

static uint64_t *bucket_of(const struct master *m, enum settle_noun noun, int64_t id)
{
    uint64_t mixed = ((uint64_t)id * N_SETTLE + noun) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint64_t *)(uintptr_t)&m->settled[mixed >> 54]; // of 1024
}

uint64_t settle_now(const struct master *m)
{
    return atomic_load(&m->n_settled);
}

void settle_mark(struct master *m, enum settle_noun noun, int64_t id)
{
    *bucket_of(m, noun, id) = atomic_fetch_add(&m->n_settled, 1) + 1;
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct unsettled *u = ctx, **at = &u->master->unsettled;
    (void)code, (void)err;
    settle_mark(u->master, u->noun, u->id);
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    free(u);
}

// The transaction with the record has been submitted: one behind it ends later.
static void on_submitted(void *ctx)
{
    struct unsettled *u = ctx;
    db_tx_submit_must(db_tx_new(u->master->db), on_durable, u);
}

void settle_begin(struct master *m, enum settle_noun noun, int64_t id)
{
    struct unsettled *u = xcalloc(1, sizeof *u);
    *u = (struct unsettled){.next = m->unsettled,
                            .master = m,
                            .noun = noun,
                            .id = id,
                            .timer = {.fn = on_submitted, .ctx = u}};
    m->unsettled = u;
    loop_timer_set(m->loop, &u->timer, 0);
}

bool settle_is_pending(const struct master *m, enum settle_noun noun, int64_t id)
{
    for (const struct unsettled *u = m->unsettled; u; u = u->next)
        if (u->noun == noun && u->id == id) return true;
    return false;
}

bool settle_is_stale(const struct master *m, enum settle_noun noun, int64_t id, uint64_t read_at)
{
    return settle_is_pending(m, noun, id) || *bucket_of(m, noun, id) > read_at;
}

void settle_close(struct master *m)
{
    for (struct unsettled *u = m->unsettled, *next; u; u = next) {
        next = u->next;
        loop_timer_clear(m->loop, &u->timer);
        free(u);
    }
    m->unsettled = NULL;
}
