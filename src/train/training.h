// train/training.h: a trial that was built, and the state of training it. Private to the layer.
//
//        startup --> workload --> boundaries --> workload --> ... --> end --> shutdown
//                    (batches)    report, validate,                   validate,
//                                 checkpoint, stop?                   checkpoint
//
// A workload is the batches up to the next boundary: the end, or a period of validation,
// checkpoint or report. All positions are absolute counts since the first batch ever trained, so a
// resumed run has the same boundaries.
#pragma once

#include "base/buf.h"
#include "train/context.h"
#include "train/host.h"
#include "train/own_loop.h"

struct det_trial {
    const det_trial_ops *ops;
    char *name;
    void *self;
    det_context *ctx;
    const struct own_loop
        *own; // it has a loop of its own, and no ops; NULL: training.c is its loop
    det_loader *training, *validation; // in use
    det_loader **loaders;              // all that belong to the trial
    int n_loaders;
    struct det_trial *next; // of the same trainer
};

// The engine of a trainer; NULL: that which the last trainer of this thread was to have.
const det_engine *trainer_engine(const det_trainer *trainer);

// Makes self, runs init and what follows it. NULL on failure.
det_trial *trial_new(const det_trial_ops *ops, det_trial_opts opts,
                     const struct context_setup *setup, det_err *err);
void trial_free(det_trial *t);
// One with a loop of its own, which must outlive it: what it wraps stays its owner's.
det_trial *trial_new_own(const struct own_loop *loop, const struct context_setup *setup);
// Makes what there is to train, and goes through the loop (own_loop.c).
int own_loop_open(struct training *run, det_err *err);
int own_loop_run(struct training *run, det_err *err);

// The loader belongs to the trial from now on; NULL and known ones are ignored.
void trial_adopt(det_trial *t, det_loader *loader);

// The loaders to use: those given, or else those of before, or else those that the trial builds.
int trial_set_loaders(det_trial *t, det_loader *training, det_loader *validation, det_err *err);

enum boundary {
    BOUNDARY_TRAIN,
    BOUNDARY_VALIDATE,
    BOUNDARY_CHECKPOINT,
    BOUNDARY_REPORT,
    N_BOUNDARIES
};

// What a checkpoint knows about the loop.
struct training_state {
    int64_t trial_id;
    int64_t seed;                             // the bits of the trial's
    int64_t batches, epochs;                  // trained
    int64_t last_checkpoint, last_validation; // batches trained at that time
    bool has_best;
    double best_metric;
    int64_t best_batches;
    // To notice that they changed.
    int64_t epoch_length, batch_size, slots, aggregation_frequency;
};

// As text, for CKPT_LOOP (position.c).
void training_state_encode(const struct training_state *state, struct buf *out);
int training_state_parse(struct str text, struct training_state *out, det_err *err);

struct training {
    det_trial *trial;
    det_context *ctx;
    const det_engine *engine;
    struct host *host;
    struct saver *saver; // NULL: checkpoints are not written
    struct code *code;   // of the trial; NULL: none
    const det_train_opts *opts;

    det_length period[N_BOUNDARIES]; // BOUNDARY_TRAIN: the length to train to. No records left
    struct training_state state;
    det_iter *iter;
    bool has_nan;     // the world was told so
    unsigned due;     // bits of boundaries that are reached
    bool epoch_ended; // with the last batch
    bool leaving;
    det_stop_reason stop_reason;

    det_metrics *batch_rows, *training;        // of the present workload: by batch, averages
    det_metrics *validation_rows, *validation; // of the last validation
    det_metrics *best;
    int64_t n_records; // of the present workload
    int64_t workload_start_us;
    char *resume;     // directory of the checkpoint to go on from; NULL: none
    char *checkpoint; // directory of the last one
};

void training_init(struct training *run, det_trial *trial, struct host *host,
                   const det_train_opts *opts);
void training_done(struct training *run);
int training_run(struct training *run, det_err *err);
void training_close(struct training *run); // what is in use, but not what came out

// Marks the boundaries that are reached with the batches trained.
void training_mark_boundaries(struct training *run);
// Whether to end here, with a checkpoint: it is enough that one rank wants to.
int training_decide_to_leave(struct training *run, det_err *err);
// A batch was trained: the world hears of it.
int training_report_batch(struct training *run, det_err *err);
// Averages are in run->training.
int training_report_workload(struct training *run, int64_t n_batches, double seconds, det_err *err);
// A length in records becomes one in batches.
int training_resolve(const struct training *run, det_length *length, det_err *err);

// Records of a batch, 0 if they cannot be counted.
int64_t training_records(const struct training *run, const det_value *batch);

// The part of the length that was trained: 0 .. 1.
double training_progress(const struct training *run);
// Batches or epochs still to train.
int64_t training_remaining(const struct training *run);

// Validates and reports (validate.c).
int training_validate(struct training *run, det_err *err);
// What came out of a validation is in run->validation: finds out whether it is the best, and reports
// it. *wanted: the policy wants a checkpoint.
int training_take_validation(struct training *run, int64_t n_records, double seconds, bool *wanted,
                             det_err *err);
// The length was reached before: the host hears what came out, if it wants to.
int training_conclude(struct training *run, det_err *err);

// Saves the present state, unless that is done already (checkpoint.c). The files are written while
// training goes on; training_poll tells the world when that is done, training_flush waits for it.
int training_checkpoint(struct training *run, det_err *err);
int training_poll(struct training *run, det_err *err);
int training_flush(struct training *run, det_err *err);
int training_open_store(struct training *run, det_err *err);

// A checkpoint of a store must be whole. What has another name than a store gives is used as it is.
int checkpoint_verify(const char *dir, det_err *err);

// To go on from run->resume: first the position, later everything that was wrapped (resume.c).
int training_read_state(struct training *run, det_err *err);
int training_resume(struct training *run, det_err *err);
// Loads the last checkpoint, to see whether that works.
int training_reload(struct training *run, det_err *err);

// What was wrapped, as the tree of CKPT_STATE (objects.c).
det_value *objects_collect(det_context *ctx, det_err *err);
// Adds the random numbers and waiting gradients of all ranks.
int objects_gather(const det_context *ctx, det_value *state, det_err *err);
int objects_load(struct training *run, det_value *state, det_err *err);
int objects_load_models(det_context *ctx, const det_value *state, det_err *err);
// Reads that file of a checkpoint, whatever its name was in its time.
det_value *objects_read(const det_engine *engine, const char *dir, det_err *err);

// Warn of what is rarely meant, before the first batch, after each workload and after each
// validation (hints.c).
void training_hint_start(struct training *run);
void training_hint_workload(struct training *run);
void training_hint_validation(struct training *run);
void training_warn(struct training *run, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
