// callbacks/callbacks.h: the best value of a metric, for all that watches one.
//   watch_init  watch_done  watch_run_start  watch_is_best  watch_take  watch_state  watch_load
#pragma once

#include "det/callbacks.h"

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
// Whether value is better than the best so far by more than threshold; the first one always is. NaN
// never is, and anything is better than NaN.
bool watch_is_best(const struct watch *w, double value, double threshold);
void watch_take(struct watch *w, double value, int64_t epoch);

det_value *watch_state(const struct watch *w);
int watch_load(struct watch *w, const det_value *state, det_err *err);

// Counts values without improvement. True: so many in a row that it is enough.
struct patience {
    struct watch watch;
    int64_t patience, n_bad;
    double threshold;
};

bool patience_take(struct patience *p, double value, int64_t epoch);
det_value *patience_state(const struct patience *p);
int patience_load(struct patience *p, const det_value *state, det_err *err);
