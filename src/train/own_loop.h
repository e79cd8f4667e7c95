// train/own_loop.h: for trainers whose order of steps is not that of training.c: how long to train,
// reports, checkpoints, pause and the other ranks are the same for them.
//   own_loop_train  own_position  own_next_length  own_batch_end  own_epoch_start  own_epoch_end
//   own_report_training  own_report_validation  own_reached  own_should_leave
//   own_decide_to_leave  own_leave  own_checkpoint
//
//     static int run(void *self, struct training *run, det_err *err)
//     {
//         det_length length;
//         int rc, more;
//         while ((more = own_next_length(run, det_epochs(10), &length, err)) == 1) {
//             ... for each epoch up to length.amount:
//                 own_epoch_start(run, err);
//                 ... for each batch: train it; own_batch_end(run, err); if (own_should_leave(run)) ...
//                 own_epoch_end(run, err);
//                 own_report_training(run, &metrics, err);
//                 ... evaluate
//                 own_report_validation(run, &metrics, err);
//                 own_checkpoint(run, false, err);
//         }
//         return more;
//     }
//
// Positions are absolute: batches and epochs since the first one ever trained, those before a
// resume included. All ranks call the same functions in the same order; metrics are those of rank
// 0. What a loop must remember belongs into a callback with state (det_add_callback).
#pragma once

#include "det/client.h"
#include "det/trainer.h"

struct dist;
struct training;

struct own_data {
    det_loader *training;
    int64_t epoch_length; // batches of an epoch on this rank
};

struct own_loop {
    const char *name; // of the trial, in messages and checkpoints
    void *self;
    int64_t
        seed; // negative: that of the trainer. A run that goes on has the one that it began with
    // Makes what there is to train and wraps it; it stays its owner's, and must be there until the
    // training has ended.
    int (*build)(void *self, det_context *ctx, const det_train_opts *opts, struct own_data *out,
                 det_err *err);
    // Everything is loaded: trains. May fail by the sticky error.
    int (*run)(void *self, struct training *run, det_err *err);
};

// A trainer that is no task and has no other ranks, whatever the environment says.
det_trainer *own_trainer_new(uint64_t seed);
struct dist *own_trainer_ranks(const det_trainer *t); // NULL: alone
const det_engine *own_trainer_engine(const det_trainer *t);
bool own_trainer_is_task(
    const det_trainer *t); // of a cluster, whose searcher decides about lengths

// Trains. A length, loaders and metrics of opts are the loop's business; all else is obeyed.
int own_loop_train(det_trainer *t, const struct own_loop *loop, const det_train_opts *opts,
                   const det_result **out, det_err *err);

// --- inside of run

// Where a run begins that goes on from a file of its own. Checkpoints have the position in them.
void own_position(struct training *run, int64_t batches, int64_t epochs);

// The absolute length to train to next, in batches or epochs. otherwise: if nobody says how long.
// 1: *out is filled; 0: that was all; or a negative code.
int own_next_length(struct training *run, det_length otherwise, det_length *out, det_err *err);

// A batch was trained.
int own_batch_end(struct training *run, det_err *err);
int own_epoch_start(struct training *run, det_err *err);
int own_epoch_end(struct training *run, det_err *err); // after its last batch
bool own_reports_now(const struct training *run);      // a period of training metrics has ended

struct own_metrics {
    const det_metric_value *value;
    int n;
    int64_t n_batches, n_records; // that they are of
    double seconds;
};

int own_report_training(struct training *run, const struct own_metrics *m, det_err *err);
// If the length is reached, that is told as well, with the metric that decides.
int own_report_validation(struct training *run, const struct own_metrics *m, det_err *err);
// The length is reached, and there was a validation before, or there is none.
bool own_needs_validation(const struct training *run); // to tell with what result
int own_reached(struct training *run, det_err *err);

// The host wants the training to end here, with a checkpoint. Cheap enough for every batch.
bool own_should_leave(struct training *run);
// The host or a callback of any rank does. Between epochs.
int own_decide_to_leave(struct training *run, bool *out, det_err *err);
void own_leave(struct training *run, det_stop_reason why);
// Saves if a period or the policy wants it, or if asked for.
bool own_wants_checkpoint(const struct training *run);
int own_checkpoint(struct training *run, bool asked, det_err *err);
