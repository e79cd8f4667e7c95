// Unit keep.c: which checkpoints are kept. Knows nothing of files.
#include "storage/storage.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>

// One way to rank: in every trial, or all together; by steps, or by the metric.
struct ranking {
    const struct keep_item *items;
    bool by_trial, by_metric, larger_is_better;
};

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

static double cost_of(const struct ranking *r, const struct keep_item *item)
{
    if (!r->by_metric) return -(double)item->steps_completed;
    if (isnan(item->metric)) return INFINITY;
    return r->larger_is_better ? -item->metric : item->metric;
}

static int compare(const void *a, const void *b, void *ctx)
{
    const struct ranking *r = ctx;
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const struct keep_item *x = &r->items[i], *y = &r->items[j];
    if (r->by_trial && x->trial_id != y->trial_id) return COMPARE(x->trial_id, y->trial_id);
    double cost_x = cost_of(r, x), cost_y = cost_of(r, y);
    return cost_x != cost_y ? COMPARE(cost_x, cost_y) : COMPARE(i, j);
}

// Marks the first `limit` of each group. index has room for n.
static void keep_first(struct ranking r, size_t n, int64_t limit, size_t *index, bool *keep)
{
    size_t n_ranked = 0;
    for (size_t i = 0; i < n; i++)
        if (!r.by_metric || r.items[i].has_metric) index[n_ranked++] = i;
    if (n_ranked) qsort_r(index, n_ranked, sizeof *index, compare, &r);
    int64_t rank = 0;
    for (size_t i = 0; i < n_ranked; i++) {
        bool same_group =
            i && (!r.by_trial || r.items[index[i]].trial_id == r.items[index[i - 1]].trial_id);
        rank = same_group ? rank + 1 : 1;
        if (rank <= limit) keep[index[i]] = true;
    }
}

void keep_choose(const struct keep_item *items, size_t n, const struct keep_policy *policy,
                 bool *keep)
{
    size_t *index = xcalloc(n + 1, sizeof *index);
    struct ranking best = {
        .items = items, .by_metric = true, .larger_is_better = policy->larger_is_better};
    struct ranking best_of_trial = best, latest = {.items = items, .by_trial = true};
    best_of_trial.by_trial = true;
    for (size_t i = 0; i < n; i++)
        keep[i] = items[i].pinned;
    keep_first(best, n, policy->experiment_best, index, keep);
    keep_first(best_of_trial, n, policy->trial_best, index, keep);
    keep_first(latest, n, policy->trial_latest, index, keep);
    free(index);
}
