// db/series_write.h: metrics as series, kept by the writer thread beside the reports. Private to
// the layer.
//
// Reports lie in the table metrics, by trial, group and step. Beside them, the reports of a group
// are cut into spans of some hundred: a span reaches from the end of the one before to its own last
// step, and for each metric in it there is a chunk: its points, packed, and what they come to (how
// many, least, greatest, last). A chart reads chunks instead of reports, and a chart of very many
// points reads only what they come to. The latest reports of a group are in no span yet; they are
// read as they are.
//
//     metrics        1 2 3 ... 256 | 257 ... 512 | 513 ... 600
//     metric_spans         256           512
//     metric_chunks  loss  =====         =====
//                    error =====         =====
//
// Groups that have enough reports for a span are noted in metric_due, and seen to between the
// transactions of others (tidy.c). So are groups of trials that have ended, which get all of their
// reports into spans, and those of a database of before there were spans.
#pragma once

#include "base/hash.h"
#include "db/points.h"
#include "db/tx.h"

enum {
    SPAN_REPORTS = 256,
    SPAN_DUE = SPAN_REPORTS + 32, // reports behind the last span: the oldest of them are due
    SPAN_FEWEST = 64,             // of a trial that has ended: fewer are read as they are
    MAX_REPORT_BYTES = 64 << 20,
};

struct series_group {
    int64_t trial_id;
    struct str name;
};

// Looks what there is to do, for tidy.c.
int series_start(struct db *db, bool *is_due, det_err *err);
// What is remembered may be wrong after a transaction that failed.
void series_forget(struct db *db);

// What the ops of db_metrics_add(), db_metrics_roll_back() and db_trial_save() do.
int series_add_report(struct db *db, const struct op *op, det_err *err);
int series_roll_back(struct db *db, const struct op *op, det_err *err);
int series_end_trial(struct db *db, const struct op *op, det_err *err);

// Some of what is due, for a few milliseconds, in the caller's transaction. *is_due: there is more.
int series_slice(struct db *db, bool *is_due, det_err *err);

// --- series_seal.c

// The metrics of some reports, each with its points.
struct series_column {
    struct str name;
    struct points points;
    struct series_column *next, *next_in_bucket;
};

struct series_columns {
    struct arena arena;
    const struct hash_key *key;
    struct series_column *first, **last, **buckets;
    size_t n, n_buckets;
};

void columns_init(struct series_columns *c, const struct db *db);
void columns_done(struct series_columns *c);
// The numbers of a report (JSON). What makes no sense is passed over.
void columns_add(struct series_columns *c, struct str metrics, int64_t steps, int64_t time_us);

// The last step that is in a span; -1: there is none.
int series_mark(struct db *db, const struct series_group *g, int64_t *out, det_err *err);

// Makes a span of the oldest reports behind `after` and not behind `last`. *end is its last step;
// `after` if there are none.
int series_seal(struct db *db, const struct series_group *g, int64_t after, int64_t last,
                int64_t *end, det_err *err);

int series_put_chunk(struct db *db, const struct series_group *g, struct str name, int64_t span,
                     const struct points *points, det_err *err);

// The summaries of a trial anew, from what counts of all its groups.
int series_summarize(struct db *db, int64_t trial_id, const struct series_group *groups, size_t n,
                     det_err *err);
