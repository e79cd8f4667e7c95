// det/finetuning.h: freezing parts of a model, and averaging its weights.
#pragma once

#include "det/nn.h"

// --- freezing
//
//     det_freezer *f = det_freezer_new(model, false);
//     det_freezer_freeze(f, 0, -2, false);                              // all groups but the last
//     ... train the head ...
//     det_value *more = det_freezer_unfreeze(f, -2, -1, true);          // the last two as well
//
// Layer groups are the model's children, layers the modules without children below it, in order.
// Groups are counted from 0, negative numbers from the end; from and to are included, in any order.

typedef struct det_freezer det_freezer;

// Unfreezes everything. The model must outlive it. Batch norms are never frozen unless asked.
DET_API det_freezer *det_freezer_new(det_module *model, bool freeze_batch_norms);
DET_API void det_freezer_free(det_freezer *f);

DET_API void det_freezer_freeze(det_freezer *f, int from, int to, bool set_modules_as_eval);
// Returns the parameters that were frozen before, by number of group, for det_optim_add_params:
// {2: {"params": [tensors]}}. To be freed by the caller.
DET_API det_value *det_freezer_unfreeze(det_freezer *f, int from, int to,
                                        bool set_modules_as_training);

DET_API int det_freezer_n_groups(const det_freezer *f);
DET_API det_module *det_freezer_group(const det_freezer *f, int index);
DET_API int det_freezer_n_layers(const det_freezer *f);
DET_API det_module *det_freezer_layer(const det_freezer *f, int index);
DET_API int det_freezer_n_trainable(const det_freezer *f); // parameters that require a gradient
DET_API det_tensor *det_freezer_trainable(const det_freezer *f, int index);

// --- averaging: ema = decay * ema + (1 - decay) * weight, for parameters and, unless told otherwise, buffers

typedef struct det_ema det_ema;

typedef struct det_ema_opts {
    double decay; // 0.9999
    bool buffers; // true: they are averaged, too; else they stay the model's
} det_ema_opts;
// Starts as a copy.
#define det_ema_new(model, ...) \
    det_ema_new_with(model, DET_OPTS(det_ema_opts, .decay = 0.9999, .buffers = true, __VA_ARGS__))
DET_API det_ema *det_ema_new_with(det_module *model, det_ema_opts opts);
DET_API void det_ema_free(det_ema *e);
DET_API void det_ema_update(det_ema *e); // once per update of the model
// Exchanges the model's values and the averages; done twice, everything is as before.
DET_API void det_ema_swap(det_ema *e);
// As det_module_state_dict and det_module_load_state_dict, of the averages.
DET_API det_value *det_ema_state_dict(const det_ema *e);
DET_API int det_ema_load_state_dict(det_ema *e, const det_value *state, det_err *err);
