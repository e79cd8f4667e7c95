// Unit experiment.c: live experiments: what the searcher wants is carried out, what people want is
// passed on to the trials.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/events.h"
#include "master/policy.h"
#include "sys/clock.h"
#include "sys/log.h"
#include <math.h>

struct live_experiment *experiment_new(struct master *m)
{
    struct live_experiment *e = xcalloc(1, sizeof *e);
    e->master = m;
    e->row.progress = e->row.best_metric = NAN;
    background_open(e);
    return e;
}

static void free_ended(struct live_experiment *e)
{
    for (struct live_trial *t = e->ended, *next; t; t = next) {
        next = t->next_ended;
        trial_free(t);
    }
    e->ended = NULL;
}

void experiment_free(struct live_experiment *e)
{
    if (!e) return;
    background_close(e);
    free_ended(e);
    for (size_t i = 0; i < e->trials.n; i++)
        trial_free(e->trials.items[i].value);
    set_done(&e->trials);
    for (size_t i = 0; i < e->earlier.n; i++)
        trial_free(e->earlier.items[i].value);
    set_done(&e->earlier);
    search_free(e->search);
    policies_close(e);
    free(e->events);
    arena_done(&e->arena);
    free(e);
}

static void free_elsewhere(void *e, void *own)
{
    (void)own;
    experiment_free(e);
}

static void on_freed(void *e)
{
    (void)e;
}

void experiment_discard(struct live_experiment *e)
{
    if (!e) return;
    background_close(e);
    worker_run(e->master->workers[WORK_FILES], &(struct work){free_elsewhere, on_freed, e, 0});
}

void experiment_link(struct live_experiment *e)
{
    struct master *m = e->master;
    set_add(&m->experiments, e->row.id, e);
    for (size_t i = 0; i < e->trials.n; i++) {
        struct live_trial *t = e->trials.items[i].value;
        set_add(&m->trials, t->row.id, t);
    }
    background_begin(e);
    schedule_soon(m);
}

void experiment_save(struct live_experiment *e, struct db_tx *tx)
{
    db_experiment_save(tx, &e->row);
    events_mark(e->master,
                &(struct event_mark){.kind = EVENT_EXPERIMENT, .experiment_id = e->row.id});
}

// --- the searcher. Whoever has an operation carried out saves the trial.

static void close_trial(struct live_trial *t, struct db_tx *tx)
{
    t->row.closing = true;
    if (!t->row.operation.is_set) trial_do(t, TRIAL_CLOSE, tx);
}

static void give_operation(struct live_trial *t, int64_t length, struct db_tx *tx)
{
    t->row.operation = (struct opt_int){true, length};
    trial_react(t, tx);
}

// In the words of the trial that ended last.
static const char *explain_failure(const struct live_experiment *e, struct arena *arena)
{
    const char *why = e->ended ? e->ended->row.reason : NULL;
    if (!why) return "every trial failed";
    if (e->ended->row.number == 1 && !e->trials.n) return why;
    return arena_printf(arena, "every trial failed, the last one: %s", why);
}

static void shut_down(struct live_experiment *e, enum search_outcome outcome, struct db_tx *tx)
{
    static const enum experiment_event events[] = {
        [SEARCH_COMPLETED] = EXPERIMENT_SEARCH_DONE,
        [SEARCH_ALL_CANCELED] = EXPERIMENT_SEARCH_CANCELED,
        [SEARCH_ALL_FAILED] = EXPERIMENT_FAIL,
    };
    struct arena arena = ARENA_INIT;
    const char *reason = outcome == SEARCH_ALL_FAILED     ? explain_failure(e, &arena)
                         : outcome == SEARCH_ALL_CANCELED ? "every trial was canceled"
                                                          : NULL;
    experiment_do(e, events[outcome], reason, tx, NULL);
    arena_done(&arena);
}

static void carry_out(struct live_experiment *e, const struct search_op *op, struct db_tx *tx)
{
    struct live_trial *t = set_find(&e->trials, op->trial);
    switch (op->kind) {
    case SEARCH_CREATE:
        trial_create(e, op, tx);
        break;
    case SEARCH_VALIDATE_AFTER: // a trial may have ended before the searcher heard of it
        if (t) give_operation(t, op->length, tx);
        break;
    case SEARCH_CLOSE:
        if (t) close_trial(t, tx);
        break;
    case SEARCH_SHUTDOWN:
        shut_down(e, op->outcome, tx);
        break;
    }
}

static int tell_one(struct live_experiment *e, const struct search_event *event, struct db_tx *tx,
                    det_err *err)
{
    struct search_ops ops;
    int rc = search_tell(e->search, event, &ops, err);
    for (size_t i = 0; !rc && i < ops.n; i++) {
        int64_t number = ops.items[i].trial;
        carry_out(e, &ops.items[i], tx);
        if (i + 1 < ops.n && ops.items[i + 1].trial == number) continue; // once for all of them
        struct live_trial *t = set_find(&e->trials, number);
        if (t) trial_save(t, tx);
    }
    return rc;
}

static void put_off(struct live_experiment *e, const struct search_event *event)
{
    if (e->n_events == e->cap_events) {
        e->cap_events = e->cap_events ? 2 * e->cap_events : 8;
        e->events = xrealloc(e->events, e->cap_events * sizeof *e->events);
    }
    e->events[e->n_events++] = *event;
}

static void save_search(struct live_experiment *e, struct db_tx *tx)
{
    struct buf snapshot = BUF_INIT(256 << 20);
    search_snapshot(e->search, &snapshot);
    db_searcher_save(tx, e->row.id, buf_str(&snapshot));
    buf_done(&snapshot);
    e->row.progress = search_progress(e->search);
    experiment_save(e, tx);
}

// Operations are valid until the next event is told, and carrying one out can cause events: those
// wait until all operations of this one are done.
int experiment_tell(struct live_experiment *e, const struct search_event *event, struct db_tx *tx,
                    det_err *err)
{
    det_err ignored;
    if (exp_state_is_stopping(e->row.state)) return 0; // it is asked no more
    if (e->telling) {
        put_off(e, event);
        return 0;
    }
    e->telling = true;
    int rc = tell_one(e, event, tx, err);
    for (size_t i = 0; i < e->n_events; i++) {
        const struct search_event later = e->events[i];
        if (!exp_state_is_stopping(e->row.state) && tell_one(e, &later, tx, &ignored))
            log_warn("experiment %lld: the searcher refused an event: %s", (long long)e->row.id,
                     ignored.msg);
    }
    e->n_events = 0;
    e->telling = false;
    if (!rc) save_search(e, tx);
    background_begin(e);
    return rc;
}

// --- what people, the searcher and the system want of the whole

static enum trial_event event_for_trials(enum exp_state state)
{
    switch (state) {
    case EXP_PAUSED:
        return TRIAL_PAUSE;
    case EXP_ACTIVE:
        return TRIAL_ACTIVATE;
    case EXP_STOPPING_COMPLETED:
        return TRIAL_CLOSE;
    case EXP_STOPPING_CANCELED:
        return TRIAL_CANCEL;
    case EXP_STOPPING_ERROR:
        return TRIAL_FAIL;
    default:
        return TRIAL_KILL;
    }
}

// Trials may end, and so leave the set, while they are told.
void experiment_tell_trials(struct live_experiment *e, struct db_tx *tx)
{
    enum trial_event event = event_for_trials(e->row.state);
    size_t first = set_place(&e->trials, e->untold),
           n = MIN(e->trials.n - first, BACKGROUND_TRIALS);
    struct live_trial *some[BACKGROUND_TRIALS];
    if (!e->untold) return;
    for (size_t i = 0; i < n; i++)
        some[i] = e->trials.items[first + i].value;
    e->untold = n < BACKGROUND_TRIALS ? 0 : some[n - 1]->row.number + 1;
    for (size_t i = 0; i < n; i++)
        trial_do(some[i], event, tx);
}

int experiment_do(struct live_experiment *e, enum experiment_event event, const char *reason,
                  struct db_tx *tx, det_err *err)
{
    enum exp_state next;
    int rc = experiment_step(e->row.state, event, &next, err);
    if (rc || next == e->row.state) return rc;
    e->row.state = next;
    if (reason) e->row.reason = arena_strdup(&e->arena, reason);
    experiment_save(e, tx);
    e->untold = 1;
    experiment_tell_trials(e, tx);
    background_begin(e);
    schedule_soon(e->master);
    return 0;
}

struct end_waiter {
    struct http_request *req;
    struct end_waiter *next;
};

void experiment_await_end(struct live_experiment *e, struct http_request *req)
{
    struct end_waiter *w = arena_alloc(req->arena, sizeof *w);
    *w = (struct end_waiter){req, e->end_waiters};
    e->end_waiters = w;
}

static void answer_all(void *ctx, int code, const det_err *err)
{
    for (struct end_waiter *w = ctx, *next; w; w = next) {
        next = w->next; // it lives in the request
        if (code)
            http_reply_error(w->req, err);
        else
            http_reply_empty(w->req);
    }
}

void experiment_end(struct live_experiment *e)
{
    struct master *m = e->master;
    struct db_tx *tx = db_tx_new(m->db);
    experiment_step(e->row.state, EXPERIMENT_DRAINED, &e->row.state, NULL);
    job_step(e->job.state, JOB_END, &e->job.state, NULL);
    e->row.end_us = clock_unix_us();
    if (e->row.state == EXP_COMPLETED) e->row.progress = 1;
    experiment_save(e, tx);
    db_job_save(tx, &e->job);
    // What was canceled may go on (see continue.c); rungs are looked at afterwards, too.
    if (e->row.state != EXP_CANCELED && !search_has_rungs(&e->cfg))
        db_searcher_delete(tx, e->row.id);
    log_info("experiment %lld: %s%s%s", (long long)e->row.id, exp_state_names[e->row.state],
             e->row.reason ? ": " : "", e->row.reason ? e->row.reason : "");
    record_write_begin(m, RECORD_EXPERIMENT, e->row.id);
    db_tx_submit_must(tx, answer_all, e->end_waiters);
    set_remove(&m->experiments, e->row.id);
    experiment_discard(e);
}

void experiment_end_if_drained(struct live_experiment *e)
{
    free_ended(e);
    if (!exp_state_is_stopping(e->row.state) || e->trials.n || e->ends) return;
    e->ends = true;
    retention_apply(e);
}
