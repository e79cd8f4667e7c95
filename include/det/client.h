// det/client.h: the Generic API: any training program, with metrics, checkpoints, hyperparameter
// search, pause and resume.
//
//     det_err err;
//     det_core *core = det_core_init(&err);           // on a cluster, or here on its own
//     double lr = 0.1;
//     det_core_get_double(core, "hparams.learning_rate", &lr, &err);
//
//     const char *path;
//     if (det_core_latest_checkpoint(core, &path, &err) == 1) load(path);
//
//     det_search_op *op;
//     if (det_core_next_search_op(core, &op, &err) == 1) {
//         int64_t epochs = 0;
//         double loss = 0;
//         det_search_op_epochs(op, &epochs, &err);
//         for (; epoch < epochs && !det_core_should_preempt(core); epoch++) {
//             loss = train_one_epoch();
//             det_core_report_validation_metrics(core, ++batches, DET_METRICS({"loss", loss}), &err);
//             det_search_op_report_progress(op, epoch + 1, &err);
//             det_checkpoint *c;
//             if ((path = det_checkpoint_begin(core, &c, &err))) {
//                 save(path);
//                 det_checkpoint_commit(c, NULL, &err);
//             }
//         }
//         if (epoch == epochs) det_search_op_complete(op, loss, &err);
//     }
//     det_core_close(core, &err);
//
// The same program runs on a cluster (the environment says so: DET_MASTER and others, see
// docs/protocol.md) and alone; then metrics and checkpoints are files below the user's data folder.
//
// Reports are written to a journal and are durable when the call returns; a thread sends them to
// the master, in order, each exactly once, also after the master was away. What could not be
// delivered at all is the error of the next report, or of det_core_close(). (Progress is only
// written: it is told again.)
//
// A det_core belongs to one thread, except det_core_should_preempt().
#pragma once

#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct det_core det_core;

// For a run without a cluster; on one, all of it is the master's to say. Zero: the default.
typedef struct det_core_opts {
    const char *hparams;              // a JSON object; NULL: {}
    const char *config;               // experiment configuration, a JSON object; NULL: {}
    const char *folder;               // for metrics and checkpoints; NULL: a new one, in det's data
    int64_t trial_seed;               //
    int64_t epochs, batches, records; // how long to train; the first that is set. NULL: 1 epoch,
                                      // unless the configuration has searcher.max_length
    int64_t patience_ms;              // how long close waits for the master; 0: one minute
} det_core_opts;

DET_API det_core *det_core_init(det_err *err);
DET_API det_core *det_core_init_with(const det_core_opts *opts, det_err *err);

// Delivers what was reported and frees core. What the master did not take in time stays in the
// journal, and is delivered by whoever started the program. Programs that end without it are closed
// at exit.
DET_API int det_core_close(det_core *core, det_err *err);

typedef struct det_core_info {
    bool is_local;                           // no master
    int64_t trial_id, experiment_id, run_id; // 0: none
    int64_t trial_seed;
    int rank, size;     // of this process, of all of them; only rank 0 reports
    const char *folder; // where the journal is
} det_core_info;

DET_API const det_core_info *det_core_get_info(const det_core *core);

// --- what was configured

// Values by their path: "hparams.optimizer.lr", "data.url", "config.searcher.metric". An integer is
// a double, too. DET_ENOTFOUND if it is not there, DET_EINVAL if it is of another type; *out is
// left alone then, so it can hold a default. Texts live as long as core.
DET_API int det_core_get_int(const det_core *core, const char *path, int64_t *out, det_err *err);
DET_API int det_core_get_double(const det_core *core, const char *path, double *out, det_err *err);
DET_API int det_core_get_bool(const det_core *core, const char *path, bool *out, det_err *err);
DET_API int det_core_get_str(const det_core *core, const char *path, const char **out,
                             det_err *err);

// Any of them, also "hparams" as a whole, as JSON text that lives as long as core. NULL if it is
// not there.
DET_API const char *det_core_get_json(det_core *core, const char *path);

// --- metrics

typedef struct det_metric_value {
    const char *name;
    double value; // NaN and infinities are values like others
} det_metric_value;

// DET_METRICS({"loss", loss}, {"accuracy", accuracy})
#define DET_METRICS(...)                     \
    (const det_metric_value[]){__VA_ARGS__}, \
        (int)(sizeof((det_metric_value[]){__VA_ARGS__}) / sizeof(det_metric_value))

DET_API int det_core_report_training_metrics(det_core *core, int64_t batches_trained,
                                             const det_metric_value *metrics, int n, det_err *err);
DET_API int det_core_report_validation_metrics(det_core *core, int64_t batches_trained,
                                               const det_metric_value *metrics, int n,
                                               det_err *err);

// Metrics of any kind, as a JSON object, in any group ("training", "validation", "inference").
DET_API int det_core_report_metrics(det_core *core, const char *group, int64_t batches_trained,
                                    const char *json, det_err *err);

// What the trial is doing, for people: "training", "validating".
DET_API int det_core_set_status(det_core *core, const char *text, det_err *err);

// These hyperparameters cannot work: the searcher chooses others. The program should end now.
DET_API int det_core_report_invalid_hparams(det_core *core, det_err *err);

// The best value of the searcher's metric in the whole experiment. 1: *out is filled; 0: there is
// none yet; or a negative code.
DET_API int det_core_best_validation(det_core *core, double *out, det_err *err);

// --- checkpoints

typedef struct det_checkpoint det_checkpoint;

// A new, empty folder to save anything into. NULL with err. The folder's name lives as long as
// *out.
DET_API const char *det_checkpoint_begin(det_core *core, det_checkpoint **out, det_err *err);
DET_API const char *det_checkpoint_uuid(const det_checkpoint *checkpoint);

// From now on it is durable, has a checksum for each file, and is what a restart begins with.
// metadata is a JSON object, kept beside it and shown to people; NULL: none. Frees it in any case.
DET_API int det_checkpoint_commit(det_checkpoint *checkpoint, const char *metadata, det_err *err);
DET_API void det_checkpoint_abort(det_checkpoint *checkpoint); // as if it had never been begun

// Where the trial should go on from. 1: *path is the folder, whole and checked, to be read only;
// 0: there is none, this is the first run; or a negative code. Lives as long as core.
DET_API int det_core_latest_checkpoint(det_core *core, const char **path, det_err *err);

// --- search: operations say how long to train, in total, since the trial's first batch

typedef struct det_search_op det_search_op;

// The operation to do now. 1: *out, valid until the next call; 0: there is nothing (more) to do,
// the program should end; or a negative code. Waits for the master. For a basic search one
// operation is enough. One that asks again, after having completed what it got, saves the searcher
// a restart: lengths grow, training goes on.
DET_API int det_core_next_search_op(det_core *core, det_search_op **out, det_err *err);

// The length in one unit; fails if it was configured in another one.
DET_API int det_search_op_epochs(const det_search_op *op, int64_t *out, det_err *err);
DET_API int det_search_op_batches(const det_search_op *op, int64_t *out, det_err *err);
DET_API int det_search_op_records(const det_search_op *op, int64_t *out, det_err *err);
DET_API int64_t det_search_op_length(const det_search_op *op); // whatever the unit is
DET_API const char *det_search_op_unit(
    const det_search_op *op); // "epochs", "batches", "records" or "units"

// How much has been trained so far, in the same unit.
DET_API int det_search_op_report_progress(det_search_op *op, double units, det_err *err);

// The length is reached, with this value of the metric. Once.
DET_API int det_search_op_complete(det_search_op *op, double metric, det_err *err);

// --- pause

// Whether to save a checkpoint and end now; an atomic load, cheap enough for every batch. Any
// thread.
DET_API bool det_core_should_preempt(det_core *core);

// The same, but waits until the master has been asked at least once.
DET_API int det_core_wait_preempt(det_core *core, bool *out, det_err *err);

// --- many machines

// Which machines an allocation has: for launch layers, which start processes that talk to each
// other.
typedef struct det_rendezvous {
    int rank, size;               // of this machine's share, of all of them
    const char *const *addresses; // size of them, in order of rank; [0] is the chief's
    const int *slots;             // on each
} det_rendezvous;

// What DET_RENDEZVOUS_INFO says; in a program that no master has started, this machine alone. Lives
// as long as core.
DET_API int det_core_rendezvous(det_core *core, const det_rendezvous **out, det_err *err);
