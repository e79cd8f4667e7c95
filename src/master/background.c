// Unit background.c: what concerns all trials of an experiment: it creates them, is paused, killed.
// That is done for some of them at a time, each time in a transaction of its own, and the next time
// when that one is durable: so a hundred thousand trials neither keep everybody else waiting nor
// pile up in memory. A restarted master goes on where the last transaction was.
#include "master/state.h"

#include "base/mem.h"
#include "sys/log.h"

enum { RETRY_US = 1000000 };

static bool is_linked(const struct live_experiment *e)
{
    return set_find(&e->master->experiments, e->row.id) == e;
}

static bool wants_to_create(const struct live_experiment *e)
{
    return search_has_more(e->search) && !exp_state_is_stopping(e->row.state);
}

struct portion {
    struct master *master;
    int64_t experiment_id; // it may have ended meanwhile
};

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct portion *c = ctx;
    struct live_experiment *e = set_find(&c->master->experiments, c->experiment_id);
    if (code) log_warn("experiment %lld: %s", (long long)c->experiment_id, err->msg);
    if (e) {
        e->background_waits = false;
        background_begin(e);
    }
    free(c);
}

static void do_some(void *ctx)
{
    struct live_experiment *e = ctx;
    struct master *m = e->master;
    if (db_refuses(m->db, NULL)) {
        loop_timer_set(m->loop, &e->background, RETRY_US);
        return;
    }
    struct db_tx *tx = db_tx_new(m->db);
    struct portion *c = xmalloc(sizeof *c);
    *c = (struct portion){m, e->row.id};
    e->background_waits = true;
    if (e->untold)
        experiment_tell_trials(e, tx);
    else if (wants_to_create(e))
        experiment_tell(e, &(struct search_event){.kind = SEARCH_GO_ON}, tx, NULL);
    experiment_end_if_drained(e);
    db_tx_submit_must(tx, on_durable, c);
}

void background_open(struct live_experiment *e)
{
    e->background = (struct loop_timer){.fn = do_some, .ctx = e};
}

void background_close(struct live_experiment *e)
{
    loop_timer_clear(e->master->loop, &e->background);
}

void background_begin(struct live_experiment *e)
{
    if (e->background_waits || !(e->untold || wants_to_create(e)) || !is_linked(e)) return;
    loop_timer_set(e->master->loop, &e->background, 0);
}
