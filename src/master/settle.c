// Unit settle.c: which records are being written that are not in memory.
//
// The record of a user, or of an experiment that has ended, is changed by reading it, changing it
// and writing all of it. It can be read only when what was written before is durable; until then
// whoever wants to change it has to wait (api_again), or would undo that.
#include "master/state.h"

#include "base/mem.h"

struct unsettled {
    struct unsettled *next;
    struct master *master;
    enum settle_noun noun;
    int64_t id;
    struct loop_timer timer;
};

static void forget(struct unsettled *u)
{
    struct unsettled **at = &u->master->unsettled;
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    free(u);
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    (void)code, (void)err;
    forget(ctx);
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

void settle_close(struct master *m)
{
    for (struct unsettled *u = m->unsettled, *next; u; u = next) {
        next = u->next;
        free(u);
    }
    m->unsettled = NULL;
}
