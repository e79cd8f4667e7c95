// Unit reports.c: metrics, completed operations and checkpoints of live trials.
#include "master/reports.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/log.h"
#include <math.h>

enum { MAX_GROUPS = 1000 }; // of a run; they are searched one by one

static const char validation[] = "validation";

void trial_forget_reports(struct live_trial *t)
{
    for (struct reported *r = t->reported, *next; r; r = next) {
        next = r->next;
        free(r->group);
        free(r);
    }
    t->reported = NULL;
}

static bool has_group(const struct live_trial *t, int64_t run, const char *group)
{
    const struct reported *r = t->reported_run == run ? t->reported : NULL;
    while (r && !str_eqz(str_from(r->group), group))
        r = r->next;
    return r;
}

static struct reported *find_group(struct live_trial *t, const char *group)
{
    for (struct reported *r = t->reported; r; r = r->next)
        if (str_eqz(str_from(r->group), group)) return r;
    struct reported *r = xcalloc(1, sizeof *r);
    r->group = xstrdup(group);
    r->steps = -1;
    r->next = t->reported;
    t->reported = r;
    return r;
}

// --- the best so far

static bool is_better(const struct live_experiment *e, double a, double b)
{
    if (isnan(a)) return false;
    if (isnan(b)) return true;
    return e->row.smaller_is_better ? a < b : a > b;
}

static const struct doc *describe(const struct metric_report *r, struct arena *arena)
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

static double value_in(const struct doc *metrics, const char *name)
{
    double x = NAN;
    const struct doc *d = name ? doc_find(metrics, name) : NULL;
    return d && doc_number(d, &x) ? x : NAN;
}

static void note_best_of_all(struct live_trial *t, double metric)
{
    struct live_experiment *e = t->experiment;
    if (!is_better(e, metric, e->row.best_metric)) return;
    e->row.best_metric = metric;
    e->row.best_trial_id = (struct opt_int){true, t->row.id};
}

static void note_validation(struct live_trial *t, const struct metric_report *r)
{
    double metric = value_in(r->metrics, t->experiment->row.searcher_metric);
    arena_done(&t->latest);
    t->row.latest_validation = describe(r, &t->latest);
    if (!is_better(t->experiment, metric, t->row.searcher_metric)) return;
    arena_done(&t->best);
    t->row.best_validation = describe(r, &t->best);
    t->row.searcher_metric = metric;
    note_best_of_all(t, metric);
}

// --- a new run

// What earlier runs reported beyond the point where this one goes on no longer counts. Each group
// goes on at a point of its own: a run that was killed between its validation and its checkpoint is
// followed by one that trains, and then validates, at the same steps again.
static int roll_back(struct live_trial *t, const struct metric_report *first, struct db_tx *tx,
                     det_err *err)
{
    struct master *m = t->experiment->master;
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    bool same_group = str_eqz(str_from(first->group), validation);
    int rc = db_metrics_list(m->reader, t->row.id, validation, -1, 0, &arena, &list, err);
    if (rc) goto out;
    const struct metric_report *all = list.items;
    arena_done(&t->best);
    arena_done(&t->latest);
    t->row.best_validation = t->row.latest_validation = NULL;
    t->row.searcher_metric = NAN;
    if (t->reported_run != first->run_id) t->row.total_batches = first->steps_completed;
    for (size_t i = 0; i < list.n && all[i].steps_completed <= first->steps_completed; i++)
        if (!same_group || all[i].steps_completed < first->steps_completed)
            note_validation(t, &all[i]);
    db_metrics_roll_back(tx, t->row.id, first->run_id, first->group, first->steps_completed);
out:
    arena_done(&arena);
    return rc;
}

// The first report of a group in this run.
static int begin_group(struct live_trial *t, const struct metric_report *first, struct db_tx *tx,
                       det_err *err)
{
    int rc = first->run_id > 1 ? roll_back(t, first, tx, err) : 0;
    if (rc || t->reported_run == first->run_id) return rc;
    trial_forget_reports(t);
    t->reported_run = first->run_id;
    return 0;
}

// --- metrics

static int check_report(const struct live_trial *t, const struct metric_report *r, det_err *err)
{
    if (r->run_id != t->row.run_id)
        return det_fail(err, DET_ESTATE, "run %lld was replaced by run %lld", (long long)r->run_id,
                        (long long)t->row.run_id);
    if (!*r->group || strchr(r->group, '.'))
        return det_fail(err, DET_EINVAL, "a group has a name without '.', found '%.40s'", r->group);
    for (const struct doc *d = r->metrics->first; d; d = d->next)
        if (d->kind == DOC_LIST || d->kind == DOC_MAP)
            return det_fail(err, DET_EINVAL, "metric '%.60s' must be a number or a text",
                            d->key.ptr);
    return 0;
}

static int fail_twice(const char *name, const char *group, int64_t steps, det_err *err)
{
    return det_fail(err, DET_ESTATE, "metric '%.60s' of '%.40s' was reported for step %lld before",
                    name, group, (long long)steps);
}

// Reports of the same step are joined; that works only if their names differ.
static int check_names(struct live_trial *t, const struct metric_report *r, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    struct master *m = t->experiment->master;
    int rc = db_metrics_list(m->reader, t->row.id, r->group, r->steps_completed - 1, 1, &arena,
                             &list, err);
    const struct metric_report *old = list.items;
    bool same = !rc && list.n && old->steps_completed == r->steps_completed;
    for (const struct doc *d = r->metrics->first; same && !rc && d; d = d->next)
        if (doc_find(old->metrics, d->key.ptr))
            rc = fail_twice(d->key.ptr, r->group, r->steps_completed, err);
    arena_done(&arena);
    return rc;
}

int report_check(struct live_trial *t, const struct metric_report *r, bool all_durable, bool *again,
                 det_err *err)
{
    int rc = check_report(t, r, err);
    *again = false;
    if (rc || t->reported_run != r->run_id || r->steps_completed > find_group(t, r->group)->steps)
        return rc;
    *again = !all_durable;
    return all_durable ? check_names(t, r, err) : 0;
}

// --- batches

// A metric of a batch, to be sorted.
struct reported_name {
    struct str group, name; // name "": of the report itself
    int64_t steps;
};

static int by_place(const void *a, const void *b)
{
    const struct reported_name *x = a, *y = b;
    int order = str_order(x->group, y->group);
    if (!order) order = (x->steps > y->steps) - (x->steps < y->steps);
    return order ? order : str_order(x->name, y->name);
}

static struct reported_name *sort_names(const struct metric_report *all, size_t n,
                                        struct arena *arena, size_t *n_names)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < n; i++, count++)
        for (const struct doc *d = all[i].metrics->first; d; d = d->next)
            count++;
    struct reported_name *names = arena_array(arena, count, sizeof *names);
    for (size_t i = 0; i < n; i++) {
        struct reported_name of = {str_from(all[i].group), STR(""), all[i].steps_completed};
        names[at++] = of;
        for (const struct doc *d = all[i].metrics->first; d; d = d->next) {
            of.name = d->key;
            names[at++] = of;
        }
    }
    if (count) qsort(names, count, sizeof *names, by_place);
    *n_names = count;
    return names;
}

int report_check_batch(struct live_trial *t, const struct metric_report *all, size_t n,
                       det_err *err)
{
    struct arena arena = ARENA_INIT;
    size_t n_names, n_groups = 0;
    const struct reported_name *names = sort_names(all, n, &arena, &n_names);
    int rc = 0;
    for (const struct reported *r = t->reported; n && r; r = r->next)
        n_groups += t->reported_run == all[0].run_id;
    for (size_t i = 0; !rc && i < n_names; i++) {
        const struct reported_name *x = &names[i], *before = i ? x - 1 : NULL;
        if (!before || !str_eq(x->group, before->group))
            n_groups += !has_group(t, all[0].run_id, x->group.ptr);
        else if (x->name.len && !by_place(x, before))
            rc = fail_twice(x->name.ptr, x->group.ptr, x->steps, err);
    }
    if (!rc && n_groups > MAX_GROUPS)
        rc = det_fail(err, DET_ELIMIT, "a run reports metrics of more than %d groups", MAX_GROUPS);
    arena_done(&arena);
    return rc;
}

// --- what a validation does

// A search that goes by a metric such as seconds or epochs watches the validations themselves: an
// operation is complete when a report is as far.
static void watch_time(struct live_trial *t, const struct metric_report *r, double metric,
                       struct db_tx *tx)
{
    struct live_experiment *e = t->experiment;
    double time = value_in(r->metrics, e->cfg.searcher.time_metric);
    det_err err;
    if (isnan(time) || !t->row.operation.is_set || time < (double)t->row.operation.value) return;
    if (report_completed(t, (int64_t)time, metric, tx, &err))
        log_warn("trial %lld: the searcher refused a validation: %s", (long long)t->row.id,
                 err.msg);
}

static void take_validation(struct live_trial *t, const struct metric_report *r, struct db_tx *tx)
{
    double metric = value_in(r->metrics, t->experiment->row.searcher_metric);
    note_validation(t, r);
    db_checkpoint_rate(tx, t->row.id, r->steps_completed, metric);
    experiment_save(t->experiment, tx);
    watch_time(t, r, metric, tx);
}

int report_metrics(struct live_trial *t, const struct metric_report *r, struct db_tx *tx,
                   det_err *err)
{
    bool first = t->reported_run != r->run_id, validates = str_eqz(str_from(r->group), validation);
    bool first_of_group = first || find_group(t, r->group)->steps < 0;
    int rc = first_of_group ? begin_group(t, r, tx, err) : 0;
    if (rc) return rc;
    struct reported *g = find_group(t, r->group);
    g->steps = MAX(g->steps, r->steps_completed);
    t->row.total_batches = MAX(t->row.total_batches, r->steps_completed);
    db_metrics_add(tx, r);
    if (validates) take_validation(t, r, tx);
    if (first_of_group || validates) trial_save(t, tx);
    return 0;
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
    if (!e->row.searcher_metric && is_better(e, metric, t->row.searcher_metric)) {
        t->row.searcher_metric = metric;
        note_best_of_all(t, metric);
        experiment_save(e, tx);
    }
    if (t->row.closing && !t->row.operation.is_set) trial_do(t, TRIAL_CLOSE, tx);
    if (!run_state_is_terminal(t->row.state)) trial_save(t, tx);
    return 0;
}

// --- checkpoints

static double metric_at(struct live_trial *t, int64_t steps)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    const struct metric_report *r;
    double metric = NAN;
    if (!db_metrics_list(t->experiment->master->reader, t->row.id, validation, steps - 1, 1, &arena,
                         &list, NULL) &&
        list.n && (r = list.items)->steps_completed == steps)
        metric = value_in(r->metrics, t->experiment->row.searcher_metric);
    arena_done(&arena);
    return metric;
}

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
    c->searcher_metric = metric_at(t, c->steps_completed);
    db_checkpoint_save(tx, c);
    t->row.latest_checkpoint = arena_strdup(&t->arena, c->uuid);
    t->checkpoint_steps = c->steps_completed;
    t->row.total_batches = MAX(t->row.total_batches, c->steps_completed);
    trial_save(t, tx);
    return 0;
}
