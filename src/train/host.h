// train/host.h: whom the loop works for: it says how long to train and when to stop, and hears of
// everything. A host on one's own machine writes files and calls functions; one on a cluster talks
// to the master.
//
// Only the chief reports. Functions are called by the thread that trains.
#pragma once

#include "det/client.h"
#include "det/trainer.h"
#include "dist/dist.h"

enum host_exit { HOST_EXIT_DONE, HOST_EXIT_STOPPED, HOST_EXIT_INVALID_HPARAMS, HOST_EXIT_ERROR };

struct host;

struct host_ops {
    // The absolute length to train to next. 1: *out is filled; 0: that was all; or a negative code.
    int (*next_length)(struct host *h, det_length *out, det_err *err);
    // That length is reached, with this value of the metric (NaN if no metric is known). Comes
    // before the report of the validation that it is from, or once more if that is long ago; the
    // checkpoint is complete when the next length is asked for. May be NULL.
    int (*completed)(struct host *h, double metric, det_err *err);

    int (*report)(struct host *h, const det_report *r, det_err *err);

    // Asked after each batch, so it must be cheap.
    bool (*should_stop)(struct host *h, det_stop_reason *why);

    // The best validation known, of any trial that counts. NULL: the loop knows best.
    bool (*best_validation)(struct host *h, double *out);

    // The trial ends. text says why, for the last two reasons. May be NULL.
    void (*leave)(struct host *h, enum host_exit why, const char *text);
    void (*free)(struct host *h);
};

struct host {
    const struct host_ops *ops;
    const char *metric; // validation metric that decides; NULL: none
    bool larger_is_better;
    bool wants_batches; // report DET_REPORT_BATCH too
};

// Trains to opts->max_length, appends metrics to opts->metrics_file, calls opts->on_report, looks
// at opts->stop. opts must outlive it.
struct host *host_local_new(const det_train_opts *opts, det_err *err);
// Does the same but for the length, which is the master's to say, and tells the master everything.
// core must outlive it.
struct host *host_cluster_new(det_core *core, const det_train_opts *opts, det_err *err);
// The host of a rank: does what own does on rank 0. own and dist must outlive it.
struct host *host_ranks_new(struct host *own, struct dist *dist);
void host_free(struct host *h);
