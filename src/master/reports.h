// master/reports.h: what trials report about their training. Private to the layer.
#pragma once

#include "master/state.h"

// --- for batch.c

// What the trial's present run has reported of a group. NULL: nothing.
struct reported *report_find_group(const struct live_trial *t, const char *group);
struct reported *report_add_group(struct live_trial *t, const char *group);

bool is_better(bool smaller_is_better, double a, double b);       // NaN is worse than anything
double report_value(const struct doc *metrics, const char *name); // NAN: there is none
const struct doc *report_describe(const struct metric_report *r, struct arena *arena);

// The best and the latest validation of a trial.
struct validations {
    const struct doc *best, *latest; // as they are in its record; NULL: none
    double metric;                   // of the best
};
void report_replace_validations(struct live_trial *t, const struct validations *v);

// The report is a validation. The trial and the experiment are to be saved by the caller.
void report_validation(struct live_trial *t, const struct metric_report *r, struct db_tx *tx);

// --- what else trials report

// The operation is complete; the searcher decides what comes next.
int report_completed(struct live_trial *t, int64_t length, double metric, struct db_tx *tx,
                     det_err *err);

int report_checkpoint(struct live_trial *t, struct checkpoint *c, struct db_tx *tx, det_err *err);
