// tests/support/training.h: trains trials inside of tests and remembers what was reported.
#pragma once

#include "support/errors.h"

#include "det/trainer.h"

enum { LOG_MAX = 512 };

// All reports of a training, as numbers.
struct training_log {
    int n_batch, n_training, n_validation, n_checkpoint, n_warning;
    double loss[LOG_MAX], weight[LOG_MAX]; // of training reports
    double progress[LOG_MAX];
    double validation_loss[LOG_MAX];
    char checkpoint[256], warning[256]; // the last ones
    char checkpoints[LOG_MAX][128];
    int64_t checkpoint_batches[LOG_MAX];
};

static inline void training_logged(const det_report *r, void *user)
{
    struct training_log *log = user;
    switch (r->kind) {
    case DET_REPORT_BATCH:
        log->n_batch++;
        break;
    case DET_REPORT_TRAINING:
        log->loss[log->n_training] = det_metrics_get(r->metrics, "loss");
        log->weight[log->n_training] = det_metrics_get(r->metrics, "weight");
        log->progress[log->n_training++] = r->progress;
        break;
    case DET_REPORT_VALIDATION:
        log->validation_loss[log->n_validation++] = det_metrics_get(r->metrics, "loss");
        break;
    case DET_REPORT_CHECKPOINT:
        snprintf(log->checkpoint, sizeof log->checkpoint, "%s", r->text);
        snprintf(log->checkpoints[log->n_checkpoint], 128, "%s", r->text);
        log->checkpoint_batches[log->n_checkpoint++] = r->batches;
        break;
    case DET_REPORT_WARNING:
        snprintf(log->warning, sizeof log->warning, "%s", r->text);
        log->n_warning++;
        break;
    }
}

#define LOG_TO(log) .on_report = training_logged, .report_user = (log)

// A training that must succeed.
#define train_ok(trainer, trial, ...) train_ok_with(trainer, trial, (det_train_opts){__VA_ARGS__})

static inline const det_result *train_ok_with(det_trainer *trainer, det_trial *trial,
                                              det_train_opts opts)
{
    const det_result *result = det_train_with(trainer, trial, opts);
    assert_fine();
    assert_non_null(result);
    return result;
}
