// accel/watch.h: a metric that is watched for its best value. Private to the layer.
#pragma once

#include "accel/accel.h"

struct watch {
    char *metric;
    bool greater_is_better, keep; // keep: from one run to the next
    bool has_best;
    double best;
    int64_t best_epoch;
};

void watch_init(struct watch *w, const char *metric, const char *fallback, bool greater_is_better);
void watch_done(struct watch *w);
void watch_run_start(struct watch *w);
// Whether value is better than the best so far by more than threshold. NaN never is, and anything
// is better than NaN.
bool watch_is_better(const struct watch *w, double value, double threshold);
void watch_take(struct watch *w, double value, int64_t epoch);

det_value *watch_state(const struct watch *w);
int watch_load(struct watch *w, const det_value *state, det_err *err);
