// Unit gc.c: which checkpoints of an experiment outlive it.
#include "entity/entity.h"

#include "base/mem.h"
#include <math.h>

static int compare_int(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

// Best first, those without a metric last; of equals, the one reported first.
static int by_metric(const struct gc_checkpoint *a, const struct gc_checkpoint *b, bool smaller)
{
    if (isnan(a->metric) || isnan(b->metric)) return isnan(a->metric) - isnan(b->metric);
    if (a->metric != b->metric) return (a->metric < b->metric) == smaller ? -1 : 1;
    return compare_int(a->order, b->order);
}

static int by_metric_in_experiment(const void *a, const void *b, void *smaller)
{
    return by_metric(*(struct gc_checkpoint *const *)a, *(struct gc_checkpoint *const *)b,
                     *(bool *)smaller);
}

static int by_metric_in_trial(const void *a, const void *b, void *smaller)
{
    const struct gc_checkpoint *x = *(struct gc_checkpoint *const *)a,
                               *y = *(struct gc_checkpoint *const *)b;
    int trial = compare_int(x->trial_id, y->trial_id);
    return trial ? trial : by_metric(x, y, *(bool *)smaller);
}

static int by_age_in_trial(const void *a, const void *b, void *unused)
{
    (void)unused;
    const struct gc_checkpoint *x = *(struct gc_checkpoint *const *)a,
                               *y = *(struct gc_checkpoint *const *)b;
    int trial = compare_int(x->trial_id, y->trial_id);
    int steps = compare_int(y->steps, x->steps);
    return trial ? trial : steps ? steps : compare_int(y->order, x->order);
}

// Keeps the first n_keep, of each trial or of all.
static void keep_first(struct gc_checkpoint **sorted, size_t n, int64_t n_keep, bool per_trial,
                       bool with_metric)
{
    int64_t rank = 0;
    for (size_t i = 0; i < n; i++, rank++) {
        if (per_trial && i && sorted[i]->trial_id != sorted[i - 1]->trial_id) rank = 0;
        bool counts = !with_metric || !isnan(sorted[i]->metric);
        if (counts && rank < n_keep) sorted[i]->keep = true;
    }
}

void gc_choose(struct gc_checkpoint *all, size_t n, const struct gc_policy *policy)
{
    struct gc_checkpoint **sorted = xcalloc(n + 1, sizeof *sorted);
    bool smaller = policy->smaller_is_better;
    for (size_t i = 0; i < n; i++) {
        all[i].keep = all[i].in_use;
        sorted[i] = &all[i];
    }
    qsort_r(sorted, n, sizeof *sorted, by_metric_in_experiment, &smaller);
    keep_first(sorted, n, policy->save_experiment_best, false, true);
    qsort_r(sorted, n, sizeof *sorted, by_metric_in_trial, &smaller);
    keep_first(sorted, n, policy->save_trial_best, true, true);
    qsort_r(sorted, n, sizeof *sorted, by_age_in_trial, NULL);
    keep_first(sorted, n, policy->save_trial_latest, true, false);
    free(sorted);
}
