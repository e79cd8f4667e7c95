// Unit continue.c: experiments that have ended go on.
//
//   single          its trial goes on, for longer if the configuration says so
//   random, grid    the search is run again from its first event: the same seed gives the same
//                   trials. Those that are complete count as such, others go on where they were.
//   all others      what they do depends on what they were told and when. They go on if a person
//                   has stopped them: then what the searcher knows is still there (end() of
//                   experiment.c keeps it).
#include "master/create.h"

#include "base/json.h"
#include "base/mem.h"
#include "sys/clock.h"
#include <math.h>

// --- what may be different

static const struct doc *read_json(struct arena *arena, struct str text)
{
    struct diag_list diags = DIAG_INIT(arena);
    return json_parse(arena, text, NULL, &diags);
}

static bool is_same(const struct doc *before, const struct doc *now, const char *section)
{
    const struct doc *a = before ? doc_find(before, section) : NULL;
    const struct doc *b = now ? doc_find(now, section) : NULL;
    return a && b ? doc_equal(a, b) : a == b;
}

static bool can_run_again(enum searcher_kind kind)
{
    return kind == SEARCHER_SINGLE || kind == SEARCHER_RANDOM || kind == SEARCHER_GRID;
}

static int check_changes(const struct live_experiment *e, const struct doc *before,
                         const struct doc *now, det_err *err)
{
    enum searcher_kind kind = e->cfg.searcher.kind;
    if (!str_eqz(str_from(searcher_kind_name(kind)), e->row.searcher_type))
        return det_fail(err, DET_EINVAL, "the searcher was '%s' and cannot become '%s'; fork it",
                        e->row.searcher_type, searcher_kind_name(kind));
    if (kind != SEARCHER_SINGLE && !is_same(before, now, "hyperparameters"))
        return det_fail(err, DET_EINVAL, "the hyperparameters of a search cannot change; fork it");
    if (can_run_again(kind)) return 0;
    if (!is_same(before, now, "searcher"))
        return det_fail(err, DET_EINVAL, "a search by '%s' cannot change; fork it",
                        e->row.searcher_type);
    return 0;
}

static int continue_row(struct live_experiment *e, det_err *err)
{
    int rc = experiment_step(e->row.state, EXPERIMENT_CONTINUE, &e->row.state, err);
    if (rc) return rc;
    e->row.end_us = 0;
    e->row.progress = 0;
    e->row.reason = NULL;
    e->job.state = JOB_QUEUED;
    e->job.submit_us = clock_unix_us();
    e->job.position = (double)e->job.submit_us;
    return 0;
}

int continue_find_earlier(struct live_experiment *e, det_err *err)
{
    const struct db_filter filter = {.experiment_id = e->row.id};
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_trials_list(e->master->reader, &filter, NULL, &arena, &list, err);
    const struct trial *rows = list.items;
    for (size_t i = 0; !rc && i < list.n; i++)
        if (!e->search || rows[i].number > search_n_trials(e->search))
            set_add(&e->earlier, rows[i].number, trial_restore(e, &rows[i]));
    arena_done(&arena);
    return rc;
}

// --- from the first event

static bool was_invalid(struct live_trial *t)
{
    const struct db_filter filter = {.trial_id = t->row.id};
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    bool invalid = false;
    if (!db_allocations_list(t->experiment->master->reader, &filter, NULL, &arena, &list, NULL)) {
        const struct allocation *runs = list.items;
        for (size_t i = 0; i < list.n; i++)
            if (runs[i].run_id == t->row.run_id) invalid = runs[i].invalid_hp;
    }
    arena_done(&arena);
    return invalid;
}

void continue_tell(struct live_trial *t, struct db_tx *tx)
{
    struct live_experiment *e = t->experiment;
    struct search_event event = {.kind = SEARCH_VALIDATED,
                                 .trial = t->row.number,
                                 .length = e->cfg.searcher.max_length.amount,
                                 .metric = t->row.searcher_metric};
    det_err ignored; // events are put off now, and logged if they are refused then
    if (isnan(t->row.searcher_metric)) {
        event.kind = SEARCH_EXITED;
        event.reason = was_invalid(t) ? SEARCH_INVALID_HP : SEARCH_STOPPED;
    }
    experiment_tell(e, &event, tx, &ignored);
    event.kind = SEARCH_CLOSED;
    experiment_tell(e, &event, tx, &ignored);
}

// Those that the search creates are taken from e->earlier; complete ones stay there.
static int run_again(struct live_experiment *e, struct db_tx *tx, det_err *err)
{
    e->search = search_new(&e->cfg);
    search_set_pace(e->search, CHORE_TRIALS);
    int rc = experiment_tell(e, &(struct search_event){.kind = SEARCH_START}, tx, err);
    if (!rc && !e->trials.n && !search_has_more(e->search))
        rc = det_fail(err, DET_ESTATE,
                      "every trial of it is complete; continue it with more trials or a greater "
                      "length, or fork it");
    return rc;
}

// A longer search has nothing that is complete.
static void reopen_all(struct live_experiment *e)
{
    for (size_t i = 0; i < e->earlier.n; i++)
        ((struct live_trial *)e->earlier.items[i].value)->row.state = RUN_CANCELED;
}

static int run_flat(struct live_experiment *e, const struct doc *before, const struct doc *now,
                    struct db_tx *tx, det_err *err)
{
    const struct doc *a = before ? doc_find(before, "searcher") : NULL;
    const struct doc *b = now ? doc_find(now, "searcher") : NULL;
    bool single = e->cfg.searcher.kind == SEARCHER_SINGLE;
    if (single || !a || !b || !is_same(a, b, "max_length")) reopen_all(e);
    return run_again(e, tx, err);
}

// --- from where a person has stopped it

static void take_up(struct live_experiment *e, struct live_trial *t, struct db_tx *tx)
{
    set_remove(&e->earlier, t->row.number);
    t->row.state = RUN_ACTIVE;
    t->row.restarts = 0;
    t->row.end_us = 0;
    t->row.reason = NULL;
    set_add(&e->trials, t->row.number, t);
    trial_save(t, tx);
}

static int go_on(struct live_experiment *e, struct arena *arena, struct db_tx *tx, det_err *err)
{
    struct str snapshot;
    int rc = db_searcher_find(e->master->reader, e->row.id, arena, &snapshot, err);
    if (rc)
        return det_fail(err, DET_EUNSUPPORTED,
                        "a search by '%s' goes on only if it was canceled before its end; fork it",
                        e->row.searcher_type);
    e->search = search_restore(&e->cfg, snapshot, err);
    if (!e->search) return err->code;
    search_set_pace(e->search, CHORE_TRIALS);
    for (size_t i = e->earlier.n; i-- > 0;) {
        struct live_trial *t = e->earlier.items[i].value;
        if (search_has_open(e->search, t->row.number)) take_up(e, t, tx);
    }
    experiment_save(e, tx);
    return 0;
}

// Wishes of those that were taken up: the search does not repeat what it has said.
static void react_all(struct live_experiment *e, struct db_tx *tx)
{
    size_t n = e->trials.n;
    struct live_trial **all = xcalloc(n + 1, sizeof(struct live_trial *));
    for (size_t i = 0; i < n; i++)
        all[i] = e->trials.items[i].value;
    for (size_t i = 0; i < n; i++) {
        if (all[i]->row.closing && !trial_has_work(all[i]))
            trial_do(all[i], TRIAL_CLOSE, tx);
        else
            trial_react(all[i], tx);
    }
    free(all);
}

struct live_experiment *create_continue(struct master *m, const struct experiment *row,
                                        struct str changes, struct diag_list *diags,
                                        struct db_tx *tx, det_err *err)
{
    struct live_experiment *e = experiment_new(m);
    struct arena arena = ARENA_INIT;
    struct str stored, original;
    create_copy_row(e, row);
    int rc = db_config_find(m->reader, row->id, &e->arena, &stored, &original, err);
    if (!rc) rc = create_read_changed(e, changes, stored, diags, err);
    const struct doc *before = rc ? NULL : read_json(&arena, stored);
    const struct doc *now = rc ? NULL : read_json(&arena, str_from(e->config_json));
    if (!rc) rc = check_changes(e, before, now, err);
    if (!rc) rc = db_job_find(m->reader, row->job_id, &e->arena, &e->job, err);
    if (!rc) rc = continue_row(e, err);
    if (!rc) rc = continue_find_earlier(e, err);
    if (!rc)
        rc = can_run_again(e->cfg.searcher.kind) ? run_flat(e, before, now, tx, err)
                                                 : go_on(e, &arena, tx, err);
    if (!rc) {
        db_config_save(tx, e->row.id, str_from(e->config_json), original);
        db_job_save(tx, &e->job);
        react_all(e, tx);
    }
    arena_done(&arena);
    if (!rc) return e;
    experiment_free(e);
    return NULL;
}
