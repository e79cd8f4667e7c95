// Unit reports.c: metrics, completed operations and checkpoints of live trials.
#include "master/reports.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/events.h"
#include "sys/clock.h"
#include "sys/log.h"
#include <math.h>

void trial_forget_reports(struct live_trial *t)
{
    for (struct reported *r = t->reported, *next; r; r = next) {
        next = r->next;
        free(r->group);
        free(r);
    }
    t->reported = NULL;
}

struct reported *report_find_group(const struct live_trial *t, const char *group)
{
    struct reported *r = t->reported_run == t->row.run_id ? t->reported : NULL;
    while (r && !str_eqz(str_from(r->group), group))
        r = r->next;
    return r;
}

struct reported *report_add_group(struct live_trial *t, const char *group)
{
    struct reported *r = xcalloc(1, sizeof *r);
    r->group = xstrdup(group);
    r->steps = -1;
    r->next = t->reported;
    t->reported = r;
    return r;
}

// --- the best so far

bool is_better(bool smaller_is_better, double a, double b)
{
    if (isnan(a)) return false;
    if (isnan(b)) return true;
    return smaller_is_better ? a < b : a > b;
}

const struct doc *report_describe(const struct metric_report *r, struct arena *arena)
{
    char time[TIME_TEXT_BYTES];
    struct doc *map = doc_new(arena, DOC_MAP), *metrics = doc_new(arena, DOC_MAP);
    time_format(r->time_us, time);
    doc_set(map, STR("totalBatches"), doc_new_int(arena, r->steps_completed));
    doc_set(map, STR("endTime"), doc_new_str(arena, time));
    doc_set(metrics, STR("avgMetrics"), doc_copy(arena, r->metrics));
    doc_set(map, STR("metrics"), metrics);
    return map;
}

double report_value(const struct doc *metrics, const char *name)
{
    double x = NAN;
    const struct doc *d = name ? doc_find(metrics, name) : NULL;
    return d && doc_number(d, &x) ? x : NAN;
}

static void note_best_of_all(struct live_trial *t, double metric)
{
    struct live_experiment *e = t->experiment;
    if (!is_better(e->row.smaller_is_better, metric, e->row.best_metric)) return;
    e->row.best_metric = metric;
    e->row.best_trial_id = (struct opt_int){true, t->row.id};
}

static void note_validation(struct live_trial *t, const struct metric_report *r)
{
    double metric = report_value(r->metrics, t->experiment->row.searcher_metric);
    arena_done(&t->latest);
    t->row.latest_validation = report_describe(r, &t->latest);
    if (!is_better(t->experiment->row.smaller_is_better, metric, t->row.searcher_metric)) return;
    arena_done(&t->best);
    t->row.best_validation = report_describe(r, &t->best);
    t->row.searcher_metric = metric;
    note_best_of_all(t, metric);
}

static const struct doc *keep(const struct doc *validation_doc, struct arena *arena)
{
    arena_done(arena);
    return validation_doc ? doc_copy(arena, validation_doc) : NULL;
}

void report_replace_validations(struct live_trial *t, const struct validations *v)
{
    t->row.best_validation = keep(v->best, &t->best);
    t->row.latest_validation = keep(v->latest, &t->latest);
    t->row.searcher_metric = v->metric;
}

// --- what a validation does

// A search that goes by a metric such as seconds or epochs watches the validations themselves: an
// operation is complete when a report is as far.
static void watch_time(struct live_trial *t, const struct metric_report *r, double metric,
                       struct db_tx *tx)
{
    struct live_experiment *e = t->experiment;
    double time = report_value(r->metrics, e->cfg.searcher.time_metric);
    det_err err;
    if (isnan(time) || !t->row.operation.is_set || time < (double)t->row.operation.value) return;
    if (report_completed(t, (int64_t)time, metric, tx, &err))
        log_warn("trial %lld: the searcher refused a validation: %s", (long long)t->row.id,
                 err.msg);
}

void report_validation(struct live_trial *t, const struct metric_report *r, struct db_tx *tx)
{
    double metric = report_value(r->metrics, t->experiment->row.searcher_metric);
    note_validation(t, r);
    db_checkpoint_rate(tx, t->row.id, r->steps_completed, metric);
    watch_time(t, r, metric, tx);
}

// --- operations

int report_completed(struct live_trial *t, int64_t length, double metric, struct db_tx *tx,
                     det_err *err)
{
    struct live_experiment *e = t->experiment;
    const struct opt_int operation = t->row.operation;
    const struct search_event event = {
        .kind = SEARCH_VALIDATED, .trial = t->row.number, .length = length, .metric = metric};
    bool by_time = e->cfg.searcher.time_metric;
    if (!operation.is_set || (operation.value && operation.value != length && !by_time))
        return det_fail(err, DET_EINVAL, "length %lld is not the trial's current operation",
                        (long long)length);
    t->row.operation = (struct opt_int){false, 0};
    int rc = experiment_tell(e, &event, tx, err);
    if (rc) {
        t->row.operation = operation;
        return rc;
    }
    if (!e->row.searcher_metric &&
        is_better(e->row.smaller_is_better, metric, t->row.searcher_metric)) {
        t->row.searcher_metric = metric;
        note_best_of_all(t, metric);
        experiment_save(e, tx);
    }
    if (t->row.closing && !t->row.operation.is_set) trial_do(t, TRIAL_CLOSE, tx);
    if (!exp_state_is_terminal(t->row.state)) trial_save(t, tx);
    return 0;
}

// --- checkpoints

int report_checkpoint(struct live_trial *t, struct checkpoint *c, struct db_tx *tx, det_err *err)
{
    struct uuid id;
    int rc = uuid_parse(c->uuid, &id, err);
    if (rc) return rc;
    c->task_id = t->row.task_id;
    c->experiment_id = t->row.experiment_id;
    c->trial_id = t->row.id;
    c->state = CHECKPOINT_COMPLETED;
    c->time_us = clock_unix_us();
    c->searcher_metric = NAN;
    db_checkpoint_save(tx, c);
    db_checkpoint_rate_by(tx, c->uuid, t->experiment->row.searcher_metric);
    t->row.latest_checkpoint = arena_strdup(&t->arena, c->uuid);
    t->checkpoint_steps = c->steps_completed;
    t->row.total_batches = MAX(t->row.total_batches, c->steps_completed);
    trial_save(t, tx);
    events_mark(t->experiment->master,
                &(struct event_mark){EVENT_CHECKPOINT, c->experiment_id, c->trial_id, 0, c->uuid});
    return 0;
}
