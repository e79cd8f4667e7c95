// Unit restore.c: after a restart everything that had not ended is found again: experiments with
// their searchers, trials, and allocations whose processes may have gone on without us.
#include "master/create.h"
#include "master/state.h"

#include "doc/json.h"
#include "base/mem.h"
#include "master/policy.h"
#include "master/pool.h"
#include "sys/clock.h"
#include "sys/log.h"

static void restore_allocation(struct live_trial *t, const struct allocation *row)
{
    struct live_allocation *a = allocation_new(t);
    a->row = *row;
    a->row.id = arena_strdup(&a->arena, row->id);
    a->row.task_id = t->row.task_id;
    a->row.reason = NULL;
    a->workdir = launch_workdir(t->experiment->master, row->token);
    t->allocation = a;
}

// Runs that had not ended, by trial: there is never more than one.
static int find_runs(struct db_reader *r, struct arena *arena, struct set *out, det_err *err)
{
    const struct db_filter live = {.unfinished = true};
    struct db_list list;
    int rc = db_allocations_list(r, &live, NULL, arena, &list, err);
    for (size_t i = 0; !rc && i < list.n; i++) {
        struct allocation *run = &((struct allocation *)list.items)[i];
        if (!set_find(out, run->trial_id)) set_add(out, run->trial_id, run);
    }
    return rc;
}

static int restore_trials(struct live_experiment *e, struct db_reader *r, const struct set *runs,
                          struct arena *arena, det_err *err)
{
    const struct db_filter live = {.experiment_id = e->row.id, .unfinished = true};
    struct db_list trials;
    int rc = db_trials_list(r, &live, NULL, arena, &trials, err);
    for (size_t i = 0; !rc && i < trials.n; i++) {
        const struct trial *row = &((const struct trial *)trials.items)[i];
        if (!row->hparams)
            return det_fail(err, DET_ECORRUPT, "the hyperparameters of trial %lld are lost",
                            (long long)row->id);
        struct live_trial *t = trial_restore(e, r, row);
        set_add(&e->trials, t->row.number, t);
        const struct allocation *run = set_find(runs, t->row.id);
        if (run) restore_allocation(t, run);
    }
    return rc;
}

static int restore_experiment(struct live_experiment *e, struct db_reader *r,
                              const struct set *runs, struct arena *arena, det_err *err)
{
    struct str complete, original, snapshot;
    int rc = db_config_find(r, e->row.id, arena, &complete, &original, err);
    if (!rc) rc = create_read_stored(e, r, complete, err);
    if (!rc) rc = db_job_find(r, e->row.job_id, &e->arena, &e->job, err);
    if (!rc) rc = db_searcher_find(r, e->row.id, arena, &snapshot, err);
    if (!rc) {
        e->search = search_restore(&e->cfg, snapshot, err);
        rc = e->search ? 0 : DET_ECORRUPT;
    }
    if (!rc) search_set_pace(e->search, BACKGROUND_TRIALS);
    if (!rc) rc = restore_trials(e, r, runs, arena, err);
    if (!rc) pool_restore(e);
    if (!rc && e->row.n_trials > search_n_trials(e->search)) rc = continue_find_earlier(e, r, err);
    return rc;
}

static void end_run(const struct allocation *run, const char *reason, struct db_tx *tx)
{
    struct allocation lost = *run;
    allocation_step(lost.state, ALLOCATION_EXIT, &lost.state, NULL);
    lost.exit = EXIT_RESTORE_FAILED;
    lost.exit_status = 1;
    lost.reason = reason;
    lost.end_us = clock_unix_us();
    db_allocation_save(tx, &lost);
    db_sessions_delete_of_allocation(tx, lost.id);
}

// Nothing of it stays behind as if it went on; its processes are killed with those of others that
// nobody knows.
static void give_up_trials(struct db_reader *r, int64_t experiment_id, const struct set *runs,
                           const char *reason, struct db_tx *tx)
{
    const struct db_filter live = {.experiment_id = experiment_id, .unfinished = true};
    struct arena arena = ARENA_INIT;
    struct db_list trials = {0};
    det_err err;
    if (db_trials_list(r, &live, NULL, &arena, &trials, &err))
        log_error("trials of experiment %lld: %s", (long long)experiment_id, err.msg);
    for (size_t i = 0; i < trials.n; i++) {
        struct trial lost = ((const struct trial *)trials.items)[i];
        const struct allocation *run = set_find(runs, lost.id);
        lost.state = trial_step(trial_step(lost.state, TRIAL_FAIL), TRIAL_DRAINED);
        lost.reason = reason;
        lost.end_us = clock_unix_us();
        db_trial_save(tx, &lost);
        if (run) end_run(run, reason, tx);
    }
    arena_done(&arena);
}

// What cannot be read may have been damaged, and may come back from a backup: it is left as it is.
// What is not there at all is the end of the experiment.
static void give_up(struct master *m, struct db_reader *r, const struct experiment *row,
                    const struct set *runs, const det_err *why)
{
    log_error("experiment %lld cannot be restored: %s", (long long)row->id, why->msg);
    if (why->code != DET_ENOTFOUND) {
        log_error("experiment %lld is left as it is: if the database was damaged, stop the master, "
                  "and 'det master --recover' brings back what a backup has",
                  (long long)row->id);
        return;
    }
    struct experiment lost = *row;
    struct db_tx *tx = db_tx_new(m->db);
    experiment_step(lost.state, EXPERIMENT_ABANDON, &lost.state, NULL);
    lost.reason = why->msg;
    lost.end_us = m->start_us;
    db_experiment_save(tx, &lost);
    give_up_trials(r, row->id, runs, why->msg, tx);
    db_tx_submit_must(tx, NULL, NULL);
}

// Tasks of experiments that could not be restored, or that the database does not know (it may be an
// older copy): they would run on, unseen, on slots that others get.
static void kill_unknown(struct master *m)
{
    det_err err;
    for (size_t i = 0; i < rm_count(m->rm); i++) {
        const struct rm_alloc *a = rm_at(m->rm, i);
        if (!a->running || set_find(&m->allocations, a->token)) continue;
        log_warn("allocation %lld belongs to no experiment that is live; its processes are killed",
                 (long long)a->token);
        if (rm_kill(m->rm, a->token, RM_DESTROY, &err))
            log_warn("allocation %lld: %s", (long long)a->token, err.msg);
    }
}

// Trials whose processes are still there go on; the others need a new allocation. Signals that were
// under way are given again.
static void resume(struct live_experiment *e)
{
    struct master *m = e->master;
    for (size_t i = 0; i < e->trials.n; i++) {
        struct live_trial *t = e->trials.items[i].value;
        if (t->allocation && rm_find(m->rm, t->allocation->row.token))
            allocation_resume(t->allocation);
    }
}

struct lost {
    struct live_allocation **items;
    size_t n;
};

// Ending an allocation can end its trial and its experiment, so nothing is walked through
// meanwhile.
static void end_lost(struct master *m)
{
    struct lost lost = {xcalloc(m->trials.n + 1, sizeof(struct live_allocation *)), 0};
    for (size_t i = 0; i < m->trials.n; i++) {
        struct live_trial *t = m->trials.items[i].value;
        if (t->allocation && !t->allocation->started) lost.items[lost.n++] = t->allocation;
    }
    for (size_t i = 0; i < lost.n; i++)
        allocation_abandon(lost.items[i], EXIT_RESTORE_FAILED,
                           "the master restarted before its processes were started");
    free(lost.items);
}

int master_restore(struct master *m, struct db_reader *r, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const struct db_filter live = {.unfinished = true};
    struct db_list list;
    struct set runs = {0};
    det_err why;
    int rc = find_runs(r, &arena, &runs, err);
    if (!rc) rc = db_experiments_list(r, &live, NULL, &arena, &list, err);
    for (size_t i = 0; !rc && i < list.n; i++) {
        const struct experiment *row = &((const struct experiment *)list.items)[i];
        struct live_experiment *e = experiment_new(m);
        create_copy_row(e, row);
        if (restore_experiment(e, r, &runs, &arena, &why)) {
            give_up(m, r, row, &runs, &why);
            experiment_free(e);
        } else {
            e->untold = 1; // states that call for something are acted upon: slots, signals, ends
            experiment_link(e);
            resume(e);
        }
    }
    set_done(&runs);
    arena_done(&arena);
    if (!rc) rc = policies_restore(m, r, err);
    if (rc) return rc;
    log_info("%zu experiments and %zu trials are live", m->experiments.n, m->trials.n);
    end_lost(m);
    kill_unknown(m);
    schedule_soon(m);
    return 0;
}
