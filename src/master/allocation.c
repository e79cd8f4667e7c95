// Unit allocation.c: live allocations, from the request for slots to the end of the processes.
//
//     request --scheduler--> assigned --durable--> files --> started --> exited --durable--> forgotten
//
// The database knows an allocation before anything of it runs, and the resource manager forgets it
// only after the database knows how it ended: so a master that dies at any point finds out.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/auth.h"
#include "master/events.h"
#include "master/logs.h"
#include "master/pull.h"
#include "sys/clock.h"
#include "sys/log.h"

// How long a way of killing may take, and which one follows: the shim has a grace of 30 s for who
// is asked to stop. Nothing is left to the goodwill of the task or of its shim.
static const struct {
    int64_t patience_us;
    enum rm_how next;
} escalation[] = {
    [RM_STOP] = {35 * 1000000, RM_KILL},
    [RM_KILL] = {5 * 1000000, RM_DESTROY},
    [RM_DESTROY] = {10 * 1000000, RM_DESTROY},
};

static void on_patience(void *ctx);

struct live_allocation *allocation_new(struct live_trial *t)
{
    struct master *m = t->experiment->master;
    struct live_allocation *a = xcalloc(1, sizeof *a);
    a->trial = t;
    a->request_id = m->next_request++;
    a->timer = (struct loop_timer){.fn = on_patience, .ctx = a};
    a->row.run_id = t->row.run_id + 1;
    a->row.id = arena_printf(&a->arena, "%s.%lld", t->row.task_id, (long long)a->row.run_id);
    a->row.task_id = t->row.task_id;
    a->row.trial_id = t->row.id;
    a->row.slots = t->experiment->cfg.resources.slots;
    a->row.start_us = clock_unix_us();
    return a;
}

// Of jobs and slots.
static void mark_queue(struct master *m)
{
    events_mark(m, &(struct event_mark){.kind = EVENT_QUEUE});
    schedule_soon(m);
}

void allocation_request(struct live_trial *t)
{
    struct live_experiment *e = t->experiment;
    struct live_allocation *a = allocation_new(t);
    a->before = e->last_request;
    *(e->last_request ? &e->last_request->next : &e->first_request) = a;
    e->last_request = a;
    e->n_requests++;
    t->allocation = a;
    mark_queue(e->master);
}

static void withdraw_request(struct live_allocation *a)
{
    struct live_experiment *e = a->trial->experiment;
    if (e->first_request != a && !a->before) return;
    *(a->before ? &a->before->next : &e->first_request) = a->next;
    *(a->next ? &a->next->before : &e->last_request) = a->before;
    a->next = a->before = NULL;
    e->n_requests--;
}

void allocation_free(struct live_allocation *a)
{
    if (!a) return;
    struct master *m = a->trial->experiment->master;
    withdraw_request(a);
    wake_waiters(a, true);
    loop_timer_clear(m->loop, &a->timer);
    if (a->row.token) set_remove(&m->allocations, a->row.token);
    auth_forget_session(m, a);
    arena_done(&a->arena);
    free(a->workdir);
    free(a);
}

void allocation_save(struct live_allocation *a, struct db_tx *tx)
{
    db_allocation_save(tx, &a->row);
}

static void step(struct live_allocation *a, enum allocation_event event)
{
    det_err err;
    if (allocation_step(a->row.state, event, &a->row.state, &err))
        log_warn("allocation %s: %s", a->row.id, err.msg);
}

// --- the end

struct epilogue {
    struct master *master;
    int64_t token, trial_id;
    char *workdir;
};

// Its directory goes to the trash, from where it is removed in the background.
static void forget_run(struct master *m, int64_t token)
{
    struct arena arena = ARENA_INIT;
    const char *aside = arena_printf(&arena, "%s/trash/%lld", m->data_dir, (long long)token);
    det_err err;
    if (rm_forget(m->rm, token, aside, &err))
        log_warn("allocation %lld: %s", (long long)token, err.msg);
    else
        launch_clean(m, aside);
    arena_done(&arena);
}

static void forget(void *ctx, int code, const det_err *why)
{
    struct epilogue *p = ctx;
    if (code) // it will be there later, and a later master will clean up
        log_warn("the end of allocation %lld is not on disk yet: %s", (long long)p->token,
                 why->msg);
    else if (rm_find(p->master->rm, p->token))
        forget_run(p->master, p->token);
    if (!code) launch_clean(p->master, p->workdir);
    logs_wake(p->master, p->trial_id);
    free(p->workdir);
    free(p);
}

// How far a run has come: one that has reported nothing is where it began.
static struct opt_int batches_of(const struct live_allocation *a)
{
    const struct live_trial *t = a->trial;
    if (!a->row.from_batch.is_set || t->reported_run == a->row.run_id)
        return (struct opt_int){a->row.from_batch.is_set, t->row.total_batches};
    return (struct opt_int){true, MAX(a->row.from_batch.value, t->checkpoint_steps)};
}

static void finish(struct live_allocation *a, struct db_tx *tx)
{
    struct live_trial *t = a->trial;
    struct live_experiment *e = t->experiment;
    struct master *m = e->master;
    struct epilogue *p = xmalloc(sizeof *p);
    *p = (struct epilogue){m, a->row.token, a->row.trial_id, a->workdir};
    a->workdir = NULL;
    step(a, ALLOCATION_EXIT);
    a->row.end_us = clock_unix_us();
    a->row.to_batch = batches_of(a);
    allocation_save(a, tx);
    db_sessions_delete_of_allocation(tx, a->row.id);
    t->allocation = NULL;
    trial_exited(t, &a->row, tx);
    allocation_free(a);
    experiment_end_if_drained(e);
    db_tx_submit_must(tx, forget, p);
    mark_queue(m);
}

// Ends one that has no processes, in a transaction of its own.
static void finish_unstarted(struct live_allocation *a, enum exit_kind system, const char *reason)
{
    struct master *m = a->trial->experiment->master;
    const struct exit_facts facts = {.killed_by_us = a->row.kill, .system = system, .status = 1};
    a->row.exit = exit_classify(&facts);
    a->row.exit_status = 1;
    a->row.reason = arena_strdup(&a->arena, reason);
    finish(a, db_tx_new(m->db));
}

void allocation_abandon(struct live_allocation *a, enum exit_kind system, const char *reason)
{
    finish_unstarted(a, system, reason);
}

static int64_t status_of(const struct task_exit *exit)
{
    switch (exit->end) {
    case TASK_SUCCEEDED:
        return 0;
    case TASK_FAILED:
        return exit->signal ? 128 + exit->signal : exit->code;
    default:
        return 127;
    }
}

// What a program printed is for those who may read its log, and a reason is for everybody.
static const char *explain_exit(struct live_allocation *a)
{
    const struct live_experiment *e = a->trial->experiment;
    const bool is_private = e->row.private || e->master->cfg->private;
    if (!a->exit.said || !a->exit.why || is_private) return a->exit.why;
    return arena_printf(&a->arena, "\"%s\", %s", a->exit.said, a->exit.why);
}

void allocation_exited(struct live_allocation *a)
{
    const struct task_exit *exit = &a->exit;
    const struct exit_facts facts = {
        .killed_by_us = a->row.kill,
        .preemption_acked = a->row.preemption_acked,
        .system = exit->end == TASK_LOST ? EXIT_NODE_FAILED : EXIT_NONE,
        .status = (int)status_of(exit),
    };
    a->row.exit = exit_classify(&facts);
    a->row.exit_status = facts.status;
    a->row.reason = explain_exit(a);
    log_info("allocation %s: %s%s%s", a->row.id, exit_kind_names[a->row.exit],
             exit->why ? ": " : "", exit->why ? exit->why : "");
    finish(a, db_tx_new(a->trial->experiment->master->db));
}

static void on_exited(struct live_allocation *a, const struct task_exit *exit)
{
    a->has_exited = true;
    a->exit = *exit;
    if (exit->why) a->exit.why = arena_strdup(&a->arena, exit->why);
    if (exit->said) a->exit.said = arena_strdup(&a->arena, exit->said);
    pull_output(a);
}

static void on_started(struct live_allocation *a)
{
    struct db_tx *tx = db_tx_new(a->trial->experiment->master->db);
    step(a, ALLOCATION_RUN);
    allocation_save(a, tx);
    db_tx_submit_must(tx, NULL, NULL);
}

void allocation_on_rm(struct master *m, const struct rm_event *event)
{
    struct live_allocation *a = set_find(&m->allocations, event->token);
    if (!a) { // its end is in the database; only the resource manager still remembers it
        if (event->kind == RM_EXITED) forget_run(m, event->token);
        return;
    }
    switch (event->kind) {
    case RM_STARTED:
        on_started(a);
        break;
    case RM_LOG:
        pull_output(a);
        break;
    case RM_EXITED:
        on_exited(a, &event->exit);
        break;
    }
}

// --- the beginning

static void on_assigned(void *ctx, int code, const det_err *err)
{
    struct live_allocation *a = ctx;
    if (code)
        finish_unstarted(a, EXIT_ABORTED, err->msg);
    else if (a->row.kill)
        finish_unstarted(a, EXIT_NONE, "it was killed before it began");
    else
        launch(a);
}

void allocation_assign(struct live_allocation *a, bool backfilled)
{
    struct live_trial *t = a->trial;
    struct master *m = t->experiment->master;
    struct db_tx *tx = db_tx_new(m->db);
    char next[32];
    withdraw_request(a);
    step(a, ALLOCATION_ASSIGN);
    events_mark(m, &(struct event_mark){.kind = EVENT_QUEUE});
    a->backfilled = backfilled;
    a->row.assigned_us = clock_unix_us();
    a->row.from_batch = (struct opt_int){true, t->row.latest_checkpoint ? t->checkpoint_steps : 0};
    a->row.token = m->next_token++;
    set_add(&m->allocations, a->row.token, a);
    t->row.run_id = a->row.run_id;
    a->session_token = auth_new_task_session(a, &a->arena, tx);
    snprintf(next, sizeof next, "%lld", (long long)m->next_token);
    db_setting_save(tx, "next_token", next);
    allocation_save(a, tx);
    trial_save(t, tx);
    db_tx_submit(tx, on_assigned, a);
}

// --- signals

// Nothing of it exists but the request for slots.
static void withdraw(struct live_allocation *a, struct db_tx *tx)
{
    struct live_trial *t = a->trial;
    t->allocation = NULL;
    allocation_free(a);
    trial_react(t, tx);
    schedule_soon(t->experiment->master);
}

void allocation_kill(struct live_allocation *a, enum rm_how how, struct db_tx *tx)
{
    struct master *m = a->trial->experiment->master;
    det_err err;
    if (a->row.state == ALLOCATION_PENDING) {
        withdraw(a, tx);
        return;
    }
    step(a, ALLOCATION_STOP);
    if (!a->row.kill) {
        a->row.kill = true;
        allocation_save(a, tx);
    }
    wake_waiters(a, true);
    a->killed = how;
    if (a->started && rm_kill(m->rm, a->row.token, how, &err))
        log_warn("allocation %s: %s", a->row.id, err.msg);
    loop_timer_set(m->loop, &a->timer, escalation[how].patience_us);
}

void allocation_preempt(struct live_allocation *a, bool spare, struct db_tx *tx)
{
    struct live_experiment *e = a->trial->experiment;
    if (a->row.state == ALLOCATION_PENDING) {
        withdraw(a, tx);
        return;
    }
    if (a->row.preempt || a->row.kill) return;
    if (!a->row.ready && !spare) {
        allocation_kill(a, RM_STOP, tx);
        return;
    }
    step(a, ALLOCATION_STOP);
    a->row.preempt = true;
    allocation_save(a, tx);
    wake_waiters(a, true);
    loop_timer_set(e->master->loop, &a->timer, e->cfg.preemption_timeout_s * 1000000);
}

static void on_patience(void *ctx)
{
    struct live_allocation *a = ctx;
    struct live_experiment *e = a->trial->experiment;
    struct db_tx *tx = db_tx_new(e->master->db);
    enum rm_how how = a->row.kill ? escalation[a->killed].next : RM_KILL;
    if (how == RM_KILL)
        logs_say(a->trial, LOG_LEVEL_WARNING, tx, "run %lld did not stop in time and is killed",
                 (long long)a->row.run_id);
    else if (a->killed != RM_DESTROY)
        logs_say(a->trial, LOG_LEVEL_WARNING, tx,
                 "run %lld did not end although it was killed; all of its processes, and the one "
                 "that watches over them, are killed now",
                 (long long)a->row.run_id);
    allocation_kill(a, how, tx);
    db_tx_submit_must(tx, NULL, NULL);
}

void allocation_resume(struct live_allocation *a)
{
    struct live_experiment *e = a->trial->experiment;
    struct master *m = e->master;
    det_err err;
    a->started = true;
    set_add(&m->allocations, a->row.token, a);
    a->killed = RM_KILL;
    if (a->row.kill && rm_kill(m->rm, a->row.token, RM_KILL, &err))
        log_warn("allocation %s: %s", a->row.id, err.msg);
    if (a->row.kill)
        loop_timer_set(m->loop, &a->timer, escalation[RM_KILL].patience_us);
    else if (a->row.preempt)
        loop_timer_set(m->loop, &a->timer, e->cfg.preemption_timeout_s * 1000000);
}
