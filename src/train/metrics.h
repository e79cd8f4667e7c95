// train/metrics.h: the inside of det_metrics: a table that rows are added to.
//   metrics_new  metrics_free  metrics_clear  metrics_begin_row  metrics_end_row  metrics_read
//   metrics_reduce  metrics_add_all  metrics_find
//
// What a batch reports may be a number that the engine keeps for later (det_engine.scalar). Then
// its place is empty (NaN) until metrics_read, once for all rows, fills it.
#pragma once

#include "train/engine.h"

det_metrics *metrics_new(const det_engine *engine);
void metrics_free(det_metrics *m);
void metrics_clear(det_metrics *m); // no names, no rows

// Between these two, det_metric() fills a row. The first row decides about the names; a later one
// with other names is an error, and batch_idx is for its message.
void metrics_begin_row(det_metrics *m);
int metrics_end_row(det_metrics *m, int64_t batch_idx, det_err *err);

// Fills the places of numbers that were kept.
int metrics_read(det_metrics *m, det_err *err);

// The tensor that the row being filled, or the last one, reported as "loss"; NULL: none.
det_tensor *metrics_loss(const det_metrics *m);

// The index of a name; -1: none.
int metrics_find(const det_metrics *m, const char *name);

// Out becomes one row: of each column its reduction, as kind_of says; NULL: averages.
typedef det_combine (*metrics_kind_fn)(void *user, const char *name);
void metrics_reduce(const det_metrics *m, metrics_kind_fn kind_of, void *user, det_metrics *out);

// Adds the columns of from to a table of one row; those of the same name are replaced.
void metrics_add_all(det_metrics *m, const det_metrics *from);

// The first row with a NaN, and its column; -1: none.
int64_t metrics_find_nan(const det_metrics *m, int *column);

// One value from several: averages are weighted. weights NULL: all 1.
double reduce_values(det_combine kind, const double *values, const double *weights, int64_t n,
                     int64_t stride);
