// Unit continue.c: experiments that have ended go on.
//
//   single          its trial goes on, for longer if the configuration says so
//   random, grid    the search is run again from its first event: the same seed gives the same
//                   trials. Those that are complete count as such, others go on where they were.
//   all others      what they do depends on what they were told and when. They go on if a person
//                   has stopped them: then what the searcher knows is still there (end() of
//                   experiment.c keeps it).
#include "master/create.h"

#include "doc/json.h"
#include "base/mem.h"
#include "sys/clock.h"
#include <math.h>

enum { TRIALS_AT_ONCE = 1000 };

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

// The latest run of a trial found out that its hyperparameters cannot be used.
static int find_invalid(struct db_reader *r, struct live_trial *t, det_err *err)
{
    const struct db_filter filter = {.trial_id = t->row.id};
    const struct db_page latest = {.limit = 1, .sort = "runId", .descending = true};
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_allocations_list(r, &filter, &latest, &arena, &list, err);
    const struct allocation *run = list.items;
    t->was_invalid = !rc && list.n && run->run_id == t->row.run_id && run->invalid_hp;
    arena_done(&arena);
    return rc;
}

static int add_earlier(struct live_experiment *e, struct db_reader *r, const struct trial *row,
                       det_err *err)
{
    if (e->search && row->number <= search_n_trials(e->search)) return 0;
    struct live_trial *t = trial_restore(e, r, row);
    set_add(&e->earlier, t->row.number, t);
    bool told = t->row.state == EXP_COMPLETED && isnan(t->row.searcher_metric);
    return told ? find_invalid(r, t, err) : 0;
}

int continue_find_earlier(struct live_experiment *e, struct db_reader *r, det_err *err)
{
    const struct db_filter filter = {.experiment_id = e->row.id};
    struct db_cursor cursor = {.is_set = false};
    const struct db_page some = {.limit = TRIALS_AT_ONCE, .cursor = &cursor};
    struct db_list list = {.n = TRIALS_AT_ONCE};
    int rc = 0;
    while (!rc && list.n == TRIALS_AT_ONCE) {
        struct arena arena = ARENA_INIT;
        rc = db_trials_list(r, &filter, &some, &arena, &list, err);
        const struct trial *rows = list.items;
        for (size_t i = 0; !rc && i < list.n; i++)
            rc = add_earlier(e, r, &rows[i], err);
        arena_done(&arena);
    }
    return rc;
}

// --- from the first event

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
        event.reason = t->was_invalid ? SEARCH_INVALID_HP : SEARCH_STOPPED;
    }
    experiment_tell(e, &event, tx, &ignored);
    event.kind = SEARCH_CLOSED;
    experiment_tell(e, &event, tx, &ignored);
}

// A longer search has nothing that is complete.
static void reopen_all(struct live_experiment *e)
{
    for (size_t i = 0; i < e->earlier.n; i++)
        ((struct live_trial *)e->earlier.items[i].value)->row.state = EXP_CANCELED;
}

static void begin_flat(struct live_experiment *e, const struct doc *before, const struct doc *now)
{
    const struct doc *a = before ? doc_find(before, "searcher") : NULL;
    const struct doc *b = now ? doc_find(now, "searcher") : NULL;
    bool single = e->cfg.searcher.kind == SEARCHER_SINGLE;
    if (single || !a || !b || !is_same(a, b, "max_length")) reopen_all(e);
    e->search = search_new(&e->cfg);
}

// Those that the search creates are taken from e->earlier; complete ones stay there.
static int run_again(struct live_experiment *e, struct db_tx *tx, det_err *err)
{
    int rc = experiment_tell(e, &(struct search_event){.kind = SEARCH_START}, tx, err);
    if (!rc && !e->trials.n && !search_has_more(e->search))
        rc = det_fail(err, DET_ESTATE,
                      "every trial of it is complete; continue it with more trials or a greater "
                      "length, or fork it");
    return rc;
}

// --- from where a person has stopped it

// It is not scheduled before the experiment's trials are told its state (background.c).
static void take_up(struct live_experiment *e, struct live_trial *t, struct db_tx *tx)
{
    set_remove(&e->earlier, t->row.number);
    t->row.state = EXP_ACTIVE;
    t->row.restarts = 0;
    t->row.end_us = 0;
    t->row.reason = NULL;
    if (t->row.closing && !trial_has_work(t)) t->row.state = trial_step(EXP_ACTIVE, TRIAL_CLOSE);
    set_add(&e->trials, t->row.number, t);
    db_trial_save(tx, &t->row);
}

static int take_up_open(struct draft *d, struct db_reader *r, det_err *err)
{
    struct live_experiment *e = d->e;
    struct str snapshot = STR("");
    int rc = e->row.state == EXP_CANCELED
                 ? db_searcher_find(r, e->row.id, &e->arena, &snapshot, err)
                 : DET_ESTATE;
    if (rc)
        return det_fail(err, DET_EUNSUPPORTED,
                        "a search by '%s' goes on only if it was canceled before its end; fork it",
                        e->row.searcher_type);
    e->search = search_restore(&e->cfg, snapshot, err);
    if (!e->search) return err->code;
    d->has_search = true;
    d->tx = db_tx_new(e->master->db);
    for (size_t i = e->earlier.n; i-- > 0;) {
        struct live_trial *t = e->earlier.items[i].value;
        if (search_has_open(e->search, t->row.number)) take_up(e, t, d->tx);
    }
    return 0;
}

// --- both

// What it was and what it is to be, into d->e.
static int read_both(struct draft *d, struct db_reader *r, struct str changes, det_err *err)
{
    struct live_experiment *e = d->e;
    struct str stored = STR("");
    int rc = db_config_find(r, e->row.id, &e->arena, &stored, &d->original, err);
    const struct config_text below = {.source = "stored configuration", .text = stored};
    const struct config_opts opts = {.source = "overrideConfig", .below = &below, .n_below = 1};
    if (!rc) rc = create_read_config(e, changes, &opts, false, &d->diags, err);
    const struct doc *before = rc ? NULL : read_json(d->arena, stored);
    const struct doc *now = rc ? NULL : read_json(d->arena, str_from(e->config_json));
    if (!rc) rc = check_changes(e, before, now, err);
    if (!rc) rc = db_job_find(r, e->row.job_id, &e->arena, &e->job, err);
    if (!rc) rc = continue_find_earlier(e, r, err);
    if (rc) return rc;
    if (!can_run_again(e->cfg.searcher.kind)) return take_up_open(d, r, err);
    begin_flat(e, before, now);
    return 0;
}

int draft_continue(struct master *m, struct db_reader *r, int64_t experiment_id, struct str changes,
                   struct draft *d, det_err *err)
{
    struct experiment row;
    d->read_at = record_writes_now(m);
    int rc = db_experiment_find(r, experiment_id, d->arena, &row, err);
    if (rc) return rc;
    d->e = experiment_new(m);
    create_copy_row(d->e, &row);
    rc = read_both(d, r, changes, err);
    if (rc)
        draft_free(d);
    else
        search_set_pace(d->e->search, BACKGROUND_TRIALS);
    return rc;
}

struct live_experiment *draft_go_on(struct draft *d, struct db_tx **tx, det_err *err)
{
    struct live_experiment *e = d->e;
    if (continue_row(e, err)) return NULL;
    if (d->tx) {
        db_tx_free(*tx);
        *tx = d->tx;
        d->tx = NULL;
    }
    if (d->has_search)
        experiment_save(e, *tx);
    else if (run_again(e, *tx, err))
        return NULL;
    db_config_save(*tx, e->row.id, str_from(e->config_json), d->original);
    db_job_save(*tx, &e->job);
    e->untold = d->has_search; // its trials want slots, or have come to their end
    d->e = NULL;
    return e;
}
