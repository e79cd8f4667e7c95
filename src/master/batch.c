// Unit batch.c: metric reports of one request: whether they can be taken, and what they change.
#include "master/batch.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/events.h"
#include <math.h>

enum { MAX_GROUPS = 1000, SLICE = 1000 };

static const char validation[] = "validation";

// A group of the batch.
struct batch_group {
    const char *name;
    const struct metric_report *first; // of those to be taken, if it is the first of the run
    struct reported *reported;         // what the trial has of it; NULL: nothing in this run
    size_t n_taken;
};

struct batch {
    const struct metric_report *all;
    size_t n;
    struct batch_group *groups;
    size_t *group_of; // each report's
    size_t n_groups;
    struct db_tx *tx; // changes of the database: those from n_encoded on
    size_t n_encoded;
    bool *repeated;  // reports of a step that was there before: have their names to be compared
    bool rolls_back; // reports of earlier runs do not count any more
    bool asked, is_read;
    uint64_t n_reports; // of the trial, when it was asked
    // For batch_read().
    char *metric;
    bool smaller_is_better;
    struct validations past;
};

// --- what the reports alone say

static int check_report(const struct metric_report *r, det_err *err)
{
    if (!*r->group || strchr(r->group, '.'))
        return det_fail(err, DET_EINVAL, "a group has a name without '.', found '%.40s'", r->group);
    for (const struct doc *d = r->metrics->first; d; d = d->next)
        if (d->kind == DOC_LIST || d->kind == DOC_MAP)
            return det_fail(err, DET_EINVAL, "metric '%.60s' must be a number or a text",
                            d->key.ptr);
    return 0;
}

// A metric of a batch, to be sorted.
struct reported_name {
    struct str group, name; // name "": of the report itself
    int64_t steps;
    size_t report;
};

static int by_place(const void *a, const void *b)
{
    const struct reported_name *x = a, *y = b;
    int order = str_order(x->group, y->group);
    if (!order) order = (x->steps > y->steps) - (x->steps < y->steps);
    return order ? order : str_order(x->name, y->name);
}

static struct reported_name *sort_names(const struct batch *b, struct arena *arena, size_t *n_names)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < b->n; i++, count++)
        for (const struct doc *d = b->all[i].metrics->first; d; d = d->next)
            count++;
    struct reported_name *names = arena_array(arena, count, sizeof *names);
    for (size_t i = 0; i < b->n; i++) {
        const struct metric_report *r = &b->all[i];
        struct reported_name of = {str_from(r->group), STR(""), r->steps_completed, i};
        names[at++] = of;
        for (const struct doc *d = r->metrics->first; d; d = d->next) {
            of.name = d->key;
            names[at++] = of;
        }
    }
    if (count) qsort(names, count, sizeof *names, by_place);
    *n_names = count;
    return names;
}

static int fail_twice(const char *name, const char *group, int64_t steps, det_err *err)
{
    return det_fail(err, DET_ESTATE, "metric '%.60s' of '%.40s' was reported for step %lld before",
                    name, group, (long long)steps);
}

// Numbers the groups; refuses a name that comes twice at one step.
static int find_groups(struct batch *b, struct arena *scratch, det_err *err)
{
    size_t n_names;
    const struct reported_name *names = sort_names(b, scratch, &n_names);
    for (size_t i = 0; i < n_names; i++) {
        const struct reported_name *x = &names[i], *before = i ? x - 1 : NULL;
        if (!before || !str_eq(x->group, before->group))
            b->groups[b->n_groups++].name = x->group.ptr;
        else if (x->name.len && !by_place(x, before))
            return fail_twice(x->name.ptr, x->group.ptr, x->steps, err);
        b->group_of[x->report] = b->n_groups - 1;
    }
    return 0;
}

int batch_prepare(struct http_request *req, const struct metric_report *all, size_t n,
                  struct batch **out, det_err *err)
{
    struct arena scratch = ARENA_INIT;
    struct batch *b = arena_alloc(req->arena, sizeof *b);
    int rc = 0;
    if (n > BATCH_MAX_REPORTS)
        return det_fail(err, DET_ELIMIT, "a request has at most %d reports, found %zu",
                        BATCH_MAX_REPORTS, n);
    b->all = all;
    b->n = n;
    b->groups = arena_array(req->arena, n + 1, sizeof *b->groups);
    b->group_of = arena_array(req->arena, n + 1, sizeof *b->group_of);
    b->repeated = arena_array(req->arena, n + 1, sizeof *b->repeated);
    for (size_t i = 0; !rc && i < n; i++)
        rc = check_report(&all[i], err);
    if (!rc) rc = find_groups(b, &scratch, err);
    arena_done(&scratch);
    if (!rc) *out = b;
    return rc;
}

void batch_free(void *batch)
{
    struct batch *b = batch;
    db_tx_free(b->tx);
    b->tx = NULL;
}

bool batch_is_encoded(const struct batch *b, size_t n_done)
{
    return b->tx && b->n_encoded == n_done;
}

void batch_encode(struct batch *b, struct db *db, size_t n_done)
{
    db_tx_free(b->tx);
    b->tx = db_tx_new(db);
    b->n_encoded = n_done;
    for (size_t i = n_done; i < b->n; i++)
        db_metrics_add(b->tx, &b->all[i]);
}

// --- what is in memory

static int check_run(const struct batch *b, const struct live_trial *t, det_err *err)
{
    int64_t run = b->n ? b->all[0].run_id : t->row.run_id;
    if (run == t->row.run_id) return 0;
    return det_fail(err, DET_ESTATE, "run %lld was replaced by run %lld", (long long)run,
                    (long long)t->row.run_id);
}

static int match_groups(struct batch *b, struct live_trial *t, det_err *err)
{
    size_t n = 0;
    for (const struct reported *r = t->reported_run == t->row.run_id ? t->reported : NULL; r;
         r = r->next)
        n++;
    for (size_t i = 0; i < b->n_groups; i++) {
        b->groups[i].first = NULL;
        b->groups[i].reported = report_find_group(t, b->groups[i].name);
        n += !b->groups[i].reported;
    }
    if (n <= MAX_GROUPS) return 0;
    return det_fail(err, DET_ELIMIT, "a run reports metrics of more than %d groups", MAX_GROUPS);
}

bool batch_may_read(const struct batch *b, const struct live_trial *t)
{
    return b->asked && b->n_reports == t->n_reports;
}

int batch_check(struct batch *b, struct live_trial *t, size_t n_done, bool *must_read, det_err *err)
{
    int rc = check_run(b, t, err);
    if (!rc) rc = match_groups(b, t, err);
    if (rc) return rc;
    bool any_repeated = false;
    b->rolls_back = false;
    for (size_t i = n_done; i < b->n; i++) {
        struct batch_group *g = &b->groups[b->group_of[i]];
        b->repeated[i] = g->reported && b->all[i].steps_completed <= g->reported->steps;
        any_repeated = any_repeated || b->repeated[i];
        if (g->reported || g->first) continue;
        g->first = &b->all[i];
        b->rolls_back = t->row.run_id > 1;
    }
    b->asked = batch_may_read(b, t);
    b->is_read = b->is_read && b->asked;
    *must_read = (any_repeated || b->rolls_back) && !b->is_read;
    return 0;
}

void batch_ask(struct batch *b, const struct live_trial *t, struct arena *arena)
{
    const struct experiment *e = &t->experiment->row;
    b->asked = true;
    b->n_reports = t->n_reports;
    b->metric = e->searcher_metric ? arena_strdup(arena, e->searcher_metric) : NULL;
    b->smaller_is_better = e->smaller_is_better;
}

// --- what is on disk

// Reports of the same step are joined; that works only if their names differ.
static int check_names(struct db_reader *r, const struct metric_report *report, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_metrics_list(r, report->trial_id, report->group, report->steps_completed - 1, 1,
                             &arena, &list, err);
    const struct metric_report *old = list.items;
    bool same = !rc && list.n && old->steps_completed == report->steps_completed;
    for (const struct doc *d = report->metrics->first; same && !rc && d; d = d->next)
        if (doc_find(old->metrics, d->key.ptr))
            rc = fail_twice(d->key.ptr, report->group, report->steps_completed, err);
    arena_done(&arena);
    return rc;
}

// What earlier runs reported beyond the point where this one goes on no longer counts. Each group
// goes on at a point of its own: a run that was killed between its validation and its checkpoint is
// followed by one that trains, and then validates, at the same steps again.
static bool still_counts(const struct batch *b, const struct metric_report *old)
{
    if (old->run_id == b->all[0].run_id) return true;
    for (size_t i = 0; i < b->n_groups; i++) {
        const struct metric_report *first = b->groups[i].first;
        if (!first) continue;
        bool same_group = str_eqz(str_from(first->group), validation);
        if (old->steps_completed > first->steps_completed ||
            (same_group && old->steps_completed == first->steps_completed))
            return false;
    }
    return true;
}

struct places {
    int64_t best, latest; // steps; -1: none
    double metric;
};

static int read_slice(struct batch *b, struct db_reader *r, struct db_metrics *from,
                      struct places *p, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_metrics_page(r, from, SLICE, &arena, &list, err);
    const struct metric_report *old = list.items;
    for (size_t i = 0; !rc && i < list.n; i++) {
        if (!still_counts(b, &old[i])) continue;
        double metric = report_value(old[i].metrics, b->metric);
        p->latest = old[i].steps_completed;
        if (!is_better(b->smaller_is_better, metric, p->metric)) continue;
        p->best = old[i].steps_completed;
        p->metric = metric;
    }
    arena_done(&arena);
    return rc;
}

static int read_validation(struct batch *b, struct db_reader *r, int64_t steps, struct arena *arena,
                           const struct doc **out, det_err *err)
{
    struct db_list list = {0};
    if (steps < 0) return 0;
    int rc = db_metrics_list(r, b->all[0].trial_id, validation, steps - 1, 1, arena, &list, err);
    if (!rc && list.n) *out = report_describe(list.items, arena);
    return rc;
}

static int read_past(struct batch *b, struct db_reader *r, struct arena *arena, det_err *err)
{
    struct places p = {-1, -1, NAN};
    struct db_metrics from = {
        .trial_id = b->all[0].trial_id, .group = validation, .after = -1, .arena = arena};
    int rc;
    do {
        rc = read_slice(b, r, &from, &p, err);
    } while (!rc && from.has_more);
    b->past = (struct validations){.metric = p.metric};
    if (!rc) rc = read_validation(b, r, p.best, arena, &b->past.best, err);
    if (!rc) rc = read_validation(b, r, p.latest, arena, &b->past.latest, err);
    return rc;
}

int batch_read(struct batch *b, struct db_reader *r, struct arena *arena, det_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < b->n; i++)
        if (b->repeated[i]) rc = check_names(r, &b->all[i], err);
    if (!rc && b->rolls_back) rc = read_past(b, r, arena, err);
    b->is_read = !rc;
    return rc;
}

// --- taking

static void begin_groups(struct batch *b, struct live_trial *t, size_t n_done)
{
    if (t->reported_run != t->row.run_id && n_done < b->n) {
        trial_forget_reports(t);
        t->reported_run = t->row.run_id;
        if (t->row.run_id > 1) t->row.total_batches = b->all[n_done].steps_completed;
    }
    for (size_t i = 0; i < b->n_groups; i++) {
        const struct metric_report *first = b->groups[i].first;
        if (first) b->groups[i].reported = report_add_group(t, first->group);
        if (first && b->rolls_back)
            db_metrics_roll_back(b->tx, t->row.id, first->run_id, first->group,
                                 first->steps_completed);
    }
    if (b->rolls_back) report_replace_validations(t, &b->past);
}

struct db_tx *batch_take(struct batch *b, struct live_trial *t, size_t n_done)
{
    struct db_tx *tx = b->tx;
    bool save = false, validates = false;
    ASSERT(batch_is_encoded(b, n_done));
    begin_groups(b, t, n_done);
    for (size_t i = 0; i < b->n_groups; i++)
        save = save || b->groups[i].first;
    for (size_t i = n_done; i < b->n; i++) {
        const struct metric_report *r = &b->all[i];
        struct reported *g = b->groups[b->group_of[i]].reported;
        g->steps = MAX(g->steps, r->steps_completed);
        b->groups[b->group_of[i]].n_taken++;
        t->row.total_batches = MAX(t->row.total_batches, r->steps_completed);
        if (!str_eqz(str_from(r->group), validation)) continue;
        report_validation(t, r, tx);
        validates = true;
    }
    t->n_reports++;
    for (size_t i = 0; i < b->n_groups; i++)
        if (b->groups[i].n_taken)
            events_mark(t->experiment->master,
                        &(struct event_mark){EVENT_METRICS, t->row.experiment_id, t->row.id,
                                             b->groups[i].reported->steps, b->groups[i].name});
    if (validates) experiment_save(t->experiment, tx);
    if (save || validates) trial_save(t, tx);
    db_trial_advance(tx, t->row.id, t->row.total_batches);
    b->tx = NULL;
    return tx;
}
