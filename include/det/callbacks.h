// det/callbacks.h: callbacks that come with det, to be added in build_callbacks or init.
//
//     static void digits_callbacks(void *self, det_context *ctx)
//     {
//         struct digits *d = self;
//         det_add_save_best(ctx, d->model, "best.pth");
//         det_add_ema(ctx, d->model, .decay = 0.999);
//         det_add_early_stopping(ctx, .patience = 3);
//     }
//
// Their states are in checkpoints, so a run that goes on decides as one that was not interrupted.
// The metric they watch is that which decides what is best (det_train_opts.metric, searcher.metric)
// unless they are given another one; validation must report it. Callbacks are called in the order
// of adding: while one that was added after them shows averages, those before it see them, too.
#pragma once

#include "det/nn.h"
#include "det/trial.h"

typedef struct det_early_stopping_opts {
    int64_t patience;      // 3: so many validations in a row without improvement end training
    double threshold;      // 0: a smaller change is none
    const char *metric;    // NULL: the one that decides
    bool larger_is_better; // of a metric given here
} det_early_stopping_opts;
// Training ends after the validation that was one too many, with a checkpoint (DET_STOP_REQUESTED).
#define det_add_early_stopping(ctx, ...) \
    det_add_early_stopping_with(ctx, DET_OPTS(det_early_stopping_opts, .patience = 3, __VA_ARGS__))
DET_API void det_add_early_stopping_with(det_context *ctx, det_early_stopping_opts opts);

typedef struct det_save_best_opts {
    const char *metric; // NULL: the one that decides
    bool larger_is_better;
} det_save_best_opts;
// Writes the state dict of the model to a .pth file when a validation was the best so far:
// {"model_state_dict": ..., name of the metric: its value}. Ranks other than 0 write nothing.
#define det_add_save_best(ctx, model, path, ...) \
    det_add_save_best_with(ctx, model, path, (det_save_best_opts){__VA_ARGS__})
DET_API void det_add_save_best_with(det_context *ctx, det_module *model, const char *path,
                                    det_save_best_opts opts);

typedef struct det_add_ema_opts {
    double decay;  // 0.999: average = decay * average + (1 - decay) * weight
    bool evaluate; // true: validation is that of the averages
} det_add_ema_opts;
// A moving average of the model's parameters, taken after each optimizer step. Buffers (running
// statistics of norms) stay the model's. Checkpoints have the averages among the states of
// callbacks: callbacks.ema.
#define det_add_ema(ctx, model, ...) \
    det_add_ema_with(ctx, model,     \
                     DET_OPTS(det_add_ema_opts, .decay = 0.999, .evaluate = true, __VA_ARGS__))
DET_API void det_add_ema_with(det_context *ctx, det_module *model, det_add_ema_opts opts);
