// det/tracking.h: what is remembered of a run: the history of its metrics, and counts of right and
// wrong answers.
#pragma once

#include "det/tensor.h"

// --- run history: the values of each metric, by name, in order

typedef struct det_accel_history det_accel_history;

DET_API det_accel_history *det_accel_history_new(void);
DET_API void det_accel_history_free(det_accel_history *h);
DET_API void det_accel_history_update(det_accel_history *h, const char *name, double value);
DET_API int det_accel_history_n_metrics(const det_accel_history *h);
// In the order of their first values; NULL beyond the end.
DET_API const char *det_accel_history_name(const det_accel_history *h, int index);
// Borrowed until the next update; NULL and 0 if there is no such metric.
DET_API const double *det_accel_history_values(const det_accel_history *h, const char *name,
                                               int *n);
// NaN and the sticky error, which lists the names, if there is no such metric.
DET_API double det_accel_history_latest(const det_accel_history *h, const char *name);
DET_API void det_accel_history_delete(det_accel_history *h, const char *name);
DET_API int64_t det_accel_history_current_epoch(const det_accel_history *h); // from 1
DET_API void det_accel_history_set_epoch(det_accel_history *h, int64_t epoch);
// Put before the names of metrics recorded from now on (not copied). NULL: nothing. Returns the one
// before.
DET_API const char *det_accel_history_set_prefix(det_accel_history *h, const char *prefix);
DET_API void det_accel_history_reset(det_accel_history *h); // no metrics, epoch 1

// --- confusion: how often each class was taken for each other one
//
//     det_confusion *c = det_confusion_new(10);
//     det_confusion_update(c, det_argmax(outputs, -1, false), targets);      // for each batch
//     det_confusion_accuracy(c), det_confusion_precision(c, DET_AVERAGE_MACRO), det_confusion_reset(c);

typedef struct det_confusion det_confusion;

// How the classes become one number: all answers counted alike, or the mean over the classes that
// were predicted or present. For one label per sample every micro average is the accuracy.
typedef enum det_average { DET_AVERAGE_MICRO, DET_AVERAGE_MACRO } det_average;

DET_API det_confusion *det_confusion_new(int64_t n_classes);
DET_API void det_confusion_free(det_confusion *c);
// i64 tensors of one shape; classes out of range are a sticky error.
DET_API void det_confusion_update(det_confusion *c, det_tensor *predictions, det_tensor *targets);
DET_API int64_t det_confusion_count(const det_confusion *c, int64_t prediction, int64_t target);
DET_API double det_confusion_accuracy(const det_confusion *c); // NaN before the first update
DET_API double det_confusion_precision(const det_confusion *c, det_average average);
DET_API double det_confusion_recall(const det_confusion *c, det_average average);
DET_API void det_confusion_reset(det_confusion *c);
