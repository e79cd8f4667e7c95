// Unit watch.c: is it better than before? Called by early_stopping.c, patience.c and the accelerated
// trainer.
#include "callbacks/callbacks.h"

#include "base/mem.h"
#include <math.h>

void watch_init(struct watch *w, const char *metric, const char *fallback, bool greater_is_better)
{
    *w = (struct watch){.metric = xstrdup(metric ? metric : fallback),
                        .greater_is_better = greater_is_better};
}

void watch_done(struct watch *w)
{
    free(w->metric);
}

void watch_run_start(struct watch *w)
{
    if (!w->keep) w->has_best = false;
}

static bool is_better(const struct watch *w, double value, double threshold)
{
    if (isnan(value)) return false;
    if (isnan(w->best)) return true;
    double gain = w->greater_is_better ? value - w->best : w->best - value;
    return gain > threshold;
}

bool watch_is_best(const struct watch *w, double value, double threshold)
{
    return !w->has_best || is_better(w, value, threshold);
}

void watch_take(struct watch *w, double value, int64_t epoch)
{
    w->has_best = true;
    w->best = value;
    w->best_epoch = epoch;
}

det_value *watch_state(const struct watch *w)
{
    det_value *dict = det_value_dict();
    if (!w->has_best) return dict;
    det_value_set(dict, "best", det_value_float(w->best));
    det_value_set(dict, "best_epoch", det_value_int(w->best_epoch));
    return dict;
}

int watch_load(struct watch *w, const det_value *state, det_err *err)
{
    double best;
    int64_t epoch;
    w->has_best = false;
    if (!det_value_get(state, "best")) return det_ok(err);
    int rc = det_value_as_float(det_value_get(state, "best"), &best, err);
    if (!rc) rc = det_value_as_int(det_value_get(state, "best_epoch"), &epoch, err);
    if (!rc) watch_take(w, best, epoch);
    return rc;
}
