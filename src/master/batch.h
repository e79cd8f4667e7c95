// master/batch.h: the metric reports of one request. Private to the layer.
//
// What depends on the request alone is done by any thread (batch_prepare), what has to be looked up
// by one that reads (batch_read), and the rest on the loop: batch_check() compares the reports with
// what is in memory, and batch_take() puts them there.
#pragma once

#include "master/reports.h"

enum { BATCH_MAX_REPORTS = 10000, BATCH_SMALL = 20 };

struct batch;

// Reports of trial in the order in which they came; the array must live as long as the request.
// DET_EINVAL, DET_ESTATE: one of them can never be taken. DET_ELIMIT: too many.
int batch_prepare(struct http_request *req, const struct metric_report *all, size_t n,
                  struct batch **out, det_err *err);
void batch_free(void *batch);

// Makes the reports from the n_done-th on into changes of the database. Takes a while if they are
// many; any thread may do it.
void batch_encode(struct batch *b, struct db *db, size_t n_done);
bool batch_is_encoded(const struct batch *b, size_t n_done);

// Whether the reports from the n_done-th on can be taken. *must_read: that is not known yet. Then
// wait until all reports of the trial are durable (api_again), have batch_read() called by a thread
// that reads, and ask again.
int batch_check(struct batch *b, struct live_trial *t, size_t n_done, bool *must_read,
                det_err *err);
// Call batch_ask() before waiting; afterwards batch_may_read() is false if more reports have come.
void batch_ask(struct batch *b, const struct live_trial *t, struct arena *arena);
bool batch_may_read(const struct batch *b, const struct live_trial *t);
int batch_read(struct batch *b, struct db_reader *r, struct arena *arena, det_err *err);

// What was checked and encoded. Returns the transaction with all changes.
struct db_tx *batch_take(struct batch *b, struct live_trial *t, size_t n_done);
