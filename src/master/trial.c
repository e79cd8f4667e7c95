// Unit trial.c: live trials: when they need slots, what the end of a run means for them, what the
// searcher hears of it.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/events.h"
#include "master/policy.h"
#include "sys/clock.h"
#include "sys/log.h"
#include <math.h>

struct live_trial *trial_new(struct live_experiment *e)
{
    struct live_trial *t = xcalloc(1, sizeof *t);
    t->experiment = e;
    t->row.searcher_metric = t->row.progress = NAN;
    return t;
}

void trial_free(struct live_trial *t)
{
    if (!t) return;
    allocation_free(t->allocation);
    trial_forget_reports(t);
    arena_done(&t->arena);
    arena_done(&t->best);
    arena_done(&t->latest);
    free(t);
}

static void copy_text(const char **text, struct arena *arena)
{
    if (*text) *text = arena_strdup(arena, *text);
}

static void restore_steps(struct live_trial *t, struct db_reader *r)
{
    struct arena arena = ARENA_INIT;
    struct checkpoint c;
    if (t->row.latest_checkpoint &&
        !db_checkpoint_find(r, t->row.latest_checkpoint, &arena, &c, NULL))
        t->checkpoint_steps = c.steps_completed;
    arena_done(&arena);
}

static const struct doc *keep_doc(const struct doc *doc, struct arena *arena)
{
    return doc ? doc_copy(arena, doc) : NULL;
}

struct live_trial *trial_restore(struct live_experiment *e, struct db_reader *r,
                                 const struct trial *row)
{
    struct live_trial *t = trial_new(e);
    t->row = *row;
    copy_text(&t->row.request_id, &t->arena);
    copy_text(&t->row.task_id, &t->arena);
    copy_text(&t->row.latest_checkpoint, &t->arena);
    copy_text(&t->row.warm_start_checkpoint, &t->arena);
    copy_text(&t->row.runner_state, &t->arena);
    copy_text(&t->row.reason, &t->arena);
    t->row.hparams = doc_copy(&t->arena, row->hparams);
    t->row.best_validation = keep_doc(row->best_validation, &t->best);
    t->row.latest_validation = keep_doc(row->latest_validation, &t->latest);
    restore_steps(t, r);
    return t;
}

void trial_save(struct live_trial *t, struct db_tx *tx)
{
    db_trial_save(tx, &t->row);
    events_mark(t->experiment->master, &(struct event_mark){.kind = EVENT_TRIAL,
                                                            .experiment_id = t->row.experiment_id,
                                                            .trial_id = t->row.id});
}

bool trial_has_work(const struct live_trial *t)
{
    return t->row.operation.is_set;
}

// Where a new trial begins: at the checkpoint of another one, or where the configuration says.
static const char *start_of(struct live_experiment *e, const struct search_op *op)
{
    const struct live_trial *source = set_find(&e->trials, op->source_trial);
    if (source && source->row.latest_checkpoint) return source->row.latest_checkpoint;
    return e->warm_start;
}

static struct live_trial *make(struct live_experiment *e, const struct search_op *op)
{
    struct live_trial *t = trial_new(e);
    char request[UUID_TEXT_BYTES];
    uuid_format(op->request_id, request);
    const char *start = start_of(e, op);
    t->row.id = e->master->next_trial++;
    t->row.experiment_id = e->row.id;
    t->row.number = op->trial;
    t->row.request_id = arena_strdup(&t->arena, request);
    t->row.task_id = arena_printf(&t->arena, "%lld.%s", (long long)e->row.id, request);
    t->row.start_us = clock_unix_us();
    if (start) t->row.warm_start_checkpoint = arena_strdup(&t->arena, start);
    e->row.n_trials++;
    return t;
}

// One that has ended, once more.
static void revive(struct live_experiment *e, struct live_trial *t)
{
    set_remove(&e->earlier, t->row.number);
    t->row.restarts = 0;
    t->row.end_us = 0;
    t->row.closing = false;
    t->row.operation = (struct opt_int){false, 0};
    t->row.reason = NULL;
}

// To be saved by the caller.
void trial_create(struct live_experiment *e, const struct search_op *op, struct db_tx *tx)
{
    struct master *m = e->master;
    struct live_trial *t = set_find(&e->earlier, op->trial);
    if (t && t->row.state == EXP_COMPLETED) {
        continue_tell(t, tx);
        return;
    }
    if (t)
        revive(e, t);
    else
        t = make(e, op);
    t->row.state = e->row.state == EXP_PAUSED ? EXP_PAUSED : EXP_ACTIVE;
    t->row.hparams = doc_copy(&t->arena, op->hparams);
    t->row.seed = op->trial_seed;
    set_add(&e->trials, t->row.number, t);
    if (set_find(&m->experiments, e->row.id) == e) set_add(&m->trials, t->row.id, t);
}

// --- the end

static void tell_searcher(struct live_trial *t, enum search_exit reason, struct db_tx *tx)
{
    struct live_experiment *e = t->experiment;
    struct search_event event = {.kind = SEARCH_EXITED, .trial = t->row.number, .reason = reason};
    bool finished = t->row.closing && !t->row.operation.is_set;
    det_err err;
    if (!finished && experiment_tell(e, &event, tx, &err))
        log_warn("trial %lld: the searcher refused its end: %s", (long long)t->row.id, err.msg);
    event.kind = SEARCH_CLOSED;
    if (experiment_tell(e, &event, tx, &err))
        log_warn("trial %lld: the searcher refused its end: %s", (long long)t->row.id, err.msg);
}

static void finish(struct live_trial *t, enum exp_state state, enum search_exit reason,
                   struct db_tx *tx)
{
    struct live_experiment *e = t->experiment;
    ASSERT(exp_state_is_terminal(state) && !t->allocation);
    t->row.state = state;
    t->row.end_us = clock_unix_us();
    trial_save(t, tx);
    policies_forget(t, tx);
    log_info("trial %lld: %s%s%s", (long long)t->row.id, exp_state_names[state],
             t->row.reason ? ": " : "", t->row.reason ? t->row.reason : "");
    set_remove(&e->trials, t->row.number);
    set_remove(&e->master->trials, t->row.id);
    t->next_ended = e->ended; // others of this event may still look at it
    e->ended = t;
    tell_searcher(t, reason, tx);
}

static enum search_exit exit_reason(enum exp_state state)
{
    return state == EXP_ERROR      ? SEARCH_ERRORED
           : state == EXP_CANCELED ? SEARCH_CANCELED
                                   : SEARCH_STOPPED;
}

static void finish_stopping(struct live_trial *t, struct db_tx *tx)
{
    enum exp_state end = trial_step(t->row.state, TRIAL_DRAINED);
    finish(t, end, exit_reason(end), tx);
}

// --- what its state calls for

void trial_react(struct live_trial *t, struct db_tx *tx)
{
    struct live_allocation *a = t->allocation;
    switch (trial_effect(t->row.state, a, trial_has_work(t))) {
    case TRIAL_LEAVE:
        break;
    case TRIAL_ALLOCATE:
        allocation_request(t);
        break;
    case TRIAL_TERMINATE:
        allocation_preempt(a, t->row.state == EXP_STOPPING_COMPLETED, tx);
        break;
    case TRIAL_DESTROY:
        allocation_kill(a, RM_KILL, tx);
        break;
    case TRIAL_END:
        finish_stopping(t, tx);
        break;
    }
}

void trial_do(struct live_trial *t, enum trial_event event, struct db_tx *tx)
{
    enum exp_state next = trial_step(t->row.state, event);
    if (next != t->row.state) {
        t->row.state = next;
        trial_save(t, tx);
    }
    trial_react(t, tx);
}

// --- the end of a run

// Two failures in a row that look alike, at the same point, without a report in between.
static bool is_same_failure(struct live_trial *t, const struct allocation *run)
{
    bool from_outside = run->exit_status == 128 + 9 || run->exit_status == 128 + 15;
    bool reported = t->reported_run == run->run_id;
    bool same = run->exit_status == t->last_failure_status && !reported &&
                t->row.total_batches == t->last_failure_steps && !from_outside;
    t->last_failure_status = reported ? 0 : run->exit_status;
    t->last_failure_steps = t->row.total_batches;
    return same;
}

static void restart(struct live_trial *t, const struct allocation *run, struct db_tx *tx)
{
    t->row.restarts++;
    trial_save(t, tx);
    logs_say(t, LOG_LEVEL_ERROR, tx, "run %lld failed: %s; restart %lld of %lld from %s",
             (long long)run->run_id, run->reason ? run->reason : "no reason is known",
             (long long)t->row.restarts, (long long)t->experiment->cfg.max_restarts,
             t->row.latest_checkpoint ? t->row.latest_checkpoint : "the beginning");
    trial_react(t, tx);
}

// What went as it should needs no reason.
static void explain_end(struct live_trial *t, const struct allocation *run, const char *why)
{
    const char *detail = exit_is_error(run->exit) && !run->invalid_hp ? run->reason : NULL;
    if (!detail && !run->invalid_hp && (exp_state_is_stopping(t->row.state) || !trial_has_work(t)))
        return;
    t->row.reason =
        arena_printf(&t->arena, "%s%s%s", detail ? detail : "", detail ? "; " : "", why);
}

void trial_exited(struct live_trial *t, const struct allocation *run, struct db_tx *tx)
{
    const struct trial_facts facts = {
        .state = t->row.state,
        .exit = run->exit,
        .searcher_done = t->row.closing && !t->row.operation.is_set,
        .retries_off = t->retries_off,
        .same_failure = run->exit == EXIT_TASK_FAILED && is_same_failure(t, run),
        .invalid_hp = run->invalid_hp,
        .has_work = trial_has_work(t),
        .restarts = t->row.restarts,
        .max_restarts = t->experiment->cfg.max_restarts,
    };
    const char *why;
    enum trial_verdict verdict = trial_judge(&facts, &why);
    if (verdict != TRIAL_GOES_ON && verdict != TRIAL_RESTARTS) explain_end(t, run, why);
    if (verdict == TRIAL_FAILS)
        logs_say(t, LOG_LEVEL_ERROR, tx, "the trial ends: %s", t->row.reason);
    switch (verdict) {
    case TRIAL_GOES_ON:
        trial_react(t, tx);
        break;
    case TRIAL_RESTARTS:
        restart(t, run, tx);
        break;
    case TRIAL_COMPLETES:
        finish(t, EXP_COMPLETED, SEARCH_STOPPED, tx);
        break;
    case TRIAL_IS_INVALID:
        finish(t, EXP_COMPLETED, SEARCH_INVALID_HP, tx);
        break;
    case TRIAL_STOPS:
        finish_stopping(t, tx);
        break;
    case TRIAL_FAILS:
        finish(t, EXP_ERROR, SEARCH_ERRORED, tx);
        break;
    }
}
