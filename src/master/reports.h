// master/reports.h: what trials report about their training. Private to the layer.
#pragma once

#include "master/state.h"

// Whether a report can be taken. *again: that is not known until all reports before it are durable;
// ask again then, and say so.
int report_check(struct live_trial *t, const struct metric_report *r, bool all_durable, bool *again,
                 det_err *err);
// The same for what a batch of them has in common.
int report_check_batch(struct live_trial *t, const struct metric_report *all, size_t n,
                       det_err *err);
// Takes one that was checked.
int report_metrics(struct live_trial *t, const struct metric_report *r, struct db_tx *tx,
                   det_err *err);

// The operation is complete; the searcher decides what comes next.
int report_completed(struct live_trial *t, int64_t length, double metric, struct db_tx *tx,
                     det_err *err);

int report_checkpoint(struct live_trial *t, struct checkpoint *c, struct db_tx *tx, det_err *err);
