// det/trainer.h: trains a trial (det/trial.h) from a program of one's own.
//
//     int main(void)
//     {
//         det_trainer *trainer = det_init(.hparams = "{learning_rate: 0.001, batch: 32}");
//         int64_t batch = det_shard_batch_size(trainer, det_hparam_int(trainer, "batch"));
//         det_trial *trial = det_build_trial(trainer, &OneVar);
//         const det_result *result = det_train(trainer, trial,
//             det_loader_new(ones(), .batch_size = batch), det_loader_new(ones(), .batch_size = 64),
//             .min_validation_period = det_epochs(1), .max_length = det_epochs(10));
//         if (result) printf("loss %g\n", det_metrics_get(result->validation, "loss"));
//         det_err err;
//         int rc = det_check(&err);
//         if (rc) fprintf(stderr, "%s\n", err.msg);
//         det_trainer_free(trainer);
//         return rc ? 1 : 0;
//     }
//
// The same program runs by itself and as a task of a cluster: det_init finds out. It also finds the
// other processes if several train one trial (det-launch, det-run --slots); then gradients,
// metrics, decisions and predictions are those of all, and only rank 0 reports and writes. Failures
// set the sticky error and return NULL, and NULL is accepted everywhere, so one det_check at the
// end is enough.
#pragma once

#include <stdio.h>

#include "det/trial.h"

// --- lengths

typedef enum det_unit {
    DET_UNIT_UNSET,
    DET_UNIT_BATCHES,
    DET_UNIT_RECORDS,
    DET_UNIT_EPOCHS,
    DET_UNIT_NEVER
} det_unit;

typedef struct det_length {
    det_unit unit; // DET_UNIT_UNSET: the default
    int64_t amount;
    const int64_t *at; // as a period: due at exactly these counts, instead of multiples of amount
    int n_at;
} det_length;

static inline det_length det_batches(int64_t n)
{
    return (det_length){DET_UNIT_BATCHES, n, NULL, 0};
}
static inline det_length det_records(int64_t n)
{
    return (det_length){DET_UNIT_RECORDS, n, NULL, 0};
}
static inline det_length det_epochs(int64_t n)
{
    return (det_length){DET_UNIT_EPOCHS, n, NULL, 0};
}

// --- what happened

typedef enum det_report_kind {
    DET_REPORT_BATCH,      // a batch was trained: cheap to ignore
    DET_REPORT_TRAINING,   // averages of a workload
    DET_REPORT_VALIDATION, // validation metrics
    DET_REPORT_CHECKPOINT, // a checkpoint is complete
    DET_REPORT_WARNING,    // text
} det_report_kind;

typedef struct det_report {
    det_report_kind kind;
    int64_t batches, epochs;      // trained so far
    double progress;              // of the whole length: 0 .. 1
    const det_metrics *metrics;   // TRAINING, VALIDATION
    int64_t n_batches, n_records; // TRAINING, VALIDATION: processed for it
    double seconds;               // TRAINING, VALIDATION: how long that took
    const char *text;             // CHECKPOINT: its directory; WARNING: what about
    const char *uuid;             // CHECKPOINT
    int is_best;                  // CHECKPOINT: no validation was better than the one before it
} det_report;

typedef void (*det_report_fn)(const det_report *report, void *user);

typedef enum det_stop_reason {
    DET_STOP_LENGTH,    // trained to the end
    DET_STOP_REQUESTED, // det_context_set_stop_requested, or the stop flag
    DET_STOP_PREEMPTED, // the cluster wants the slots back
} det_stop_reason;

typedef struct det_result {
    const det_metrics *training;        // averages of the last workload
    const det_metrics *validation;      // the last validation; NULL: none
    const det_metrics *best_validation; // by the metric; NULL: none, or no metric is known
    int64_t batches, epochs;            // trained, those before a resume included
    int64_t best_batches;               // trained when best_validation was measured
    det_stop_reason stop_reason;
    const char *checkpoint; // directory of the last one; NULL: none
    uint64_t seed;
} det_result;

// --- the trainer

typedef struct det_trial det_trial;   // built: operations, their state, a context
typedef struct det_engine det_engine; // what computes: it knows what is behind det/handles.h

typedef struct det_init_opts {
    // YAML or JSON text; above those of the configuration, below those that a searcher chose.
    const char *hparams;
    // File with the configuration of an experiment, or of a job (no hyperparameters and no
    // searcher, but data); NULL: that of the task, or none. A trial of a cluster has its own.
    const char *config;
    int64_t seed; // negative, the default: that of the task or the configuration, or a new one
    const det_engine *engine; // NULL: that of this library
} det_init_opts;

// Finds out where it runs, reads hyperparameters and configuration, seeds the random numbers.
#define det_init(...) det_init_with(DET_OPTS(det_init_opts, .seed = -1, __VA_ARGS__))
DET_API det_trainer *det_init_with(det_init_opts opts);
DET_API void det_trainer_free(det_trainer *trainer); // and its trials

DET_API uint64_t det_trainer_seed(const det_trainer *trainer);
DET_API int det_trainer_rank(const det_trainer *trainer);
DET_API int det_trainer_size(const det_trainer *trainer);

// The share of this rank of a global batch: rounded down, an error if nothing is left.
DET_API int64_t det_shard_batch_size(const det_trainer *trainer, int64_t global_batch_size);

// Makes a trial; it belongs to the trainer.
typedef struct det_trial_opts {
    const char *name; // for messages and checkpoints, copied; NULL: that given to DET_TRIAL
    void *arg;        // for the operations: det_context_arg
} det_trial_opts;
#define det_build_trial(trainer, ops, ...) \
    det_build_trial_with(trainer, ops, (det_trial_opts){__VA_ARGS__})
DET_API det_trial *det_build_trial_with(det_trainer *trainer, const det_trial_ops *ops,
                                        det_trial_opts opts);

// Which checkpoint: one of these.
typedef struct det_checkpoint_source {
    const char *directory; // that it is in
    // In a job of a cluster, through the master: the best checkpoint of a trial by the searcher's
    // metric, the latest if it has none. The trial must belong to the user whose job it is.
    int64_t trial_id;
    const char *uuid; // the same for exactly this checkpoint
    det_trial_opts trial;
} det_checkpoint_source;

// The same from a checkpoint: hyperparameters and configuration are those it was trained with (data
// settings of the trainer come before them), models have its weights.
//     det_load_checkpoint_trial(trainer, &OneVar, .trial_id = 777);
//     det_load_checkpoint_trial(trainer, &OneVar, .directory = "checkpoints/newest");
#define det_load_checkpoint_trial(trainer, ops, ...) \
    det_load_checkpoint_trial_with(trainer, ops, (det_checkpoint_source){__VA_ARGS__})
DET_API det_trial *det_load_checkpoint_trial_with(det_trainer *trainer, const det_trial_ops *ops,
                                                  det_checkpoint_source source);

typedef enum det_checkpoint_policy {
    DET_CHECKPOINT_BEST, // after a validation that is the best so far (or if no metric is known)
    DET_CHECKPOINT_ALL,  // after each
    DET_CHECKPOINT_NONE, // never because of a validation
} det_checkpoint_policy;

typedef struct det_train_opts {
    // Instead of those of the trial. They belong to the trial from then on; they may be given
    // again.
    det_loader *training, *validation;
    det_length min_validation_period; // unset: only at the end, unless the configuration has one
    det_length min_checkpoint_period; // the same
    det_length max_length;            // on a cluster the searcher decides
    det_length reporting_period;      // of training metrics; unset: 100 batches
    int64_t aggregation_frequency; // batches per optimizer step; unset: that of the configuration
    const char *metric;            // validation metric that tells what is best
    bool larger_is_better;
    det_checkpoint_policy checkpoint_policy;
    bool initial_validation; // one before the first batch
    // To try things out: so many batches of each epoch, and of each validation with evaluate_batch, on
    // each rank; 0: all.
    int64_t limit_batches;
    // One batch of training, one of validation, a checkpoint that is saved, loaded and removed (on
    // a cluster it stays).
    bool test_mode;
    // Where checkpoints go. NULL: ~/.local/share/det/checkpoints ($XDG_DATA_HOME) if there is a
    // min_checkpoint_period, and else none are written.
    const char *checkpoint_dir;
    const char *code_dir;     // of the trial; checkpoints get a copy; NULL: none
    const char *resume;       // directory of a checkpoint to go on from
    bool resume_newest;       // or the newest in checkpoint_dir that is whole, if there is one
    FILE *progress;           // shows how it goes: a bar on a terminal, lines elsewhere; NULL: not
    const char *metrics_file; // training and validation metrics are appended as lines of JSON
    det_report_fn on_report;
    void *report_user;
    const volatile int *stop; // when not 0: leaves after this batch, with a checkpoint
} det_train_opts;

// Trains. The result belongs to the trainer and is valid until its next training. NULL on failure.
#define det_train(trainer, trial, ...) det_train_with(trainer, trial, (det_train_opts){__VA_ARGS__})
#define det_fit det_train // its other name
DET_API const det_result *det_train_with(det_trainer *trainer, det_trial *trial,
                                         det_train_opts opts);

// Predictions for all samples of a loader, in the order of its dataset: (samples, ...). The
// caller's (det_unref, in the engine of this library). Takes the loader. Several ranks share the samples; each gets all
// predictions.
DET_API det_tensor *det_predict(det_trainer *trainer, det_trial *trial, det_loader *loader);
