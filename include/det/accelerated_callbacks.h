// det/accelerated_callbacks.h: the callbacks that come with the trainer.
//
//     det_accel_new(model, det_cross_entropy_with, optimizer,
//                   .callbacks = DET_ACCEL_CALLBACKS(DET_ACCEL_DEFAULT_CALLBACKS,
//                                              det_accel_callback_early_stopping(.patience = 2)));
//
// Paths and names are copied; NULL is the default in the comment.
#pragma once

#include "det/accelerated.h"

// What a trainer has unless told otherwise: DET_ACCEL_CALLBACKS(DET_ACCEL_DEFAULT_CALLBACKS, mine).
#define DET_ACCEL_DEFAULT_CALLBACKS                                             \
    det_accel_callback_terminate_on_nan(), det_accel_callback_print_progress(), \
        det_accel_callback_progress_bar(), det_accel_callback_print_metrics()

DET_API det_accel_callback *det_accel_callback_terminate_on_nan(void);
DET_API det_accel_callback *det_accel_callback_print_progress(void);
DET_API det_accel_callback *det_accel_callback_progress_bar(void); // on terminals only
DET_API det_accel_callback *det_accel_callback_print_metrics(void);

typedef struct det_accel_save_best_opts {
    const char *save_path;    // "best_model.pt"
    const char *watch_metric; // "eval_loss_epoch"
    bool greater_is_better;
    bool keep_best;            // from one training run to the next
    bool optimizer, scheduler; // true: they are saved, too
    bool load;                 // true: the best is loaded at the end of the run
} det_accel_save_best_opts;
#define det_accel_callback_save_best_model(...)                                                   \
    det_accel_callback_save_best_model_with(DET_OPTS(det_accel_save_best_opts, .optimizer = true, \
                                                     .scheduler = true, .load = true,             \
                                                     __VA_ARGS__))
DET_API det_accel_callback *det_accel_callback_save_best_model_with(det_accel_save_best_opts opts);

typedef struct det_accel_early_stopping_opts {
    int64_t patience;         // 1: so many evaluations in a row without improvement end the run
    double threshold;         // 0.01: a smaller change is none
    const char *watch_metric; // "eval_loss_epoch"
    bool greater_is_better;
    bool keep_best; // from one training run to the next
} det_accel_early_stopping_opts;
#define det_accel_callback_early_stopping(...) \
    det_accel_callback_early_stopping_with(    \
        DET_OPTS(det_accel_early_stopping_opts, .patience = 1, .threshold = 0.01, __VA_ARGS__))
DET_API det_accel_callback *det_accel_callback_early_stopping_with(
    det_accel_early_stopping_opts opts);

// At most n batches of each epoch. Also added, as the first one, if PT_ACC_LIMIT_BATCHES is set
// (and not "none"). Schedules still see the whole length.
DET_API det_accel_callback *det_accel_callback_limit_batches(int64_t n);
// At most n batches of an evaluation, all processes together; every one, or intermediate ones only.
DET_API det_accel_callback *det_accel_callback_limit_eval_steps(int64_t n, bool every_one);
// An evaluation every n batches; its metrics are printed, not kept.
DET_API det_accel_callback *det_accel_callback_step_based_evaluation(int64_t n);

typedef struct det_accel_ema_opts {
    double decay;             // 0.99
    bool evaluate;            // true; without it the latest is saved instead of the best
    const char *save_path;    // "ema_model.pt"
    const char *watch_metric; // "ema_model_eval_loss_epoch"
    bool greater_is_better;
    det_accel_callbacks callbacks; // during the evaluation of the average
} det_accel_ema_opts;
// A moving average of the weights, taken after each update, evaluated after each evaluation.
#define det_accel_callback_model_ema(...) \
    det_accel_callback_model_ema_with(    \
        DET_OPTS(det_accel_ema_opts, .decay = 0.99, .evaluate = true, __VA_ARGS__))
DET_API det_accel_callback *det_accel_callback_model_ema_with(det_accel_ema_opts opts);

typedef struct det_accel_training_state_opts {
    const char *save_dir;    // "training_states"
    int64_t every_n_epochs;  // negative, the default: never
    int64_t every_n_steps;   // the same; while gradients are accumulated, with the next update
    bool at_end;             // true
    int64_t max_checkpoints; // older ones are removed; negative, the default: all are kept
} det_accel_training_state_opts;
// Files epoch_<e>.pth, step_<s>.pth and final.pth, for .resume_from.
#define det_accel_callback_save_training_state(...)                                        \
    det_accel_callback_save_training_state_with(                                           \
        DET_OPTS(det_accel_training_state_opts, .every_n_epochs = -1, .every_n_steps = -1, \
                 .at_end = true, .max_checkpoints = -1, __VA_ARGS__))
DET_API det_accel_callback *det_accel_callback_save_training_state_with(
    det_accel_training_state_opts opts);
// With det_lr_wsd: training states before each decay (checkpoint_<n>_wsd_pre_decay.pth),
// checkpoints after it (checkpoint_<n>_wsd_post_decay.pth).
DET_API det_accel_callback *det_accel_callback_wsd_checkpoint(const char *save_dir);
