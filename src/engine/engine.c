// Unit engine.c: the engine of this library, as the loop sees it.
#include "engine/engine.h"

#include "det/data.h"
#include "engine/predict.h"
#include "engine/ranks.h"
#include "engine/state.h"
#include "format/format.h"
#include "optim/optim.h"
#include "tensor/tensor.h"

static void begin(uint64_t step)
{
    det_scope_begin();
    det_rng_set_step(step);
}

static void loader_seed(det_loader *loader, uint64_t seed)
{
    if (!det_loader_seed(loader)) det_loader_set_seed(loader, seed);
}

static void model_describe(const det_module *model, struct buf *out)
{
    char *text = det_module_describe(model);
    buf_addz(out, text ? text : "");
    free(text);
}

static int model_load(det_module *model, const det_value *state, det_err *err)
{
    return det_module_load_state_dict(model, state, true, err);
}

static det_scaler *scaler_new(void)
{
    return det_scaler_new();
}

// --- metrics: operations of this machine have computed their results already, and a tensor may
// change until the end of the workload, so numbers are read at once

static int scalar(det_tensor *value, double *number, det_tensor **kept, det_err *err)
{
    char text[96];
    *kept = NULL;
    if (det_numel(value) != 1)
        return det_fail(err, DET_ESHAPE, "is %s, not a single number",
                        det_describe(value, text, sizeof text));
    *number = det_item(value);
    return 0;
}

const det_engine engine_det = {
    .name = "det",

    .seed = det_manual_seed,
    .begin = begin,
    .end = det_scope_end,
    .set_grad_enabled = det_set_grad_enabled,
    .set_warning_handler = det_set_warning_handler,

    .loader_length = det_loader_length,
    .loader_batch_size = det_loader_batch_size,
    .loader_seed = loader_seed,
    .loader_free = det_loader_free,
    .iter_open = det_loader_iter_with,
    .iter_next = det_iter_next,
    .iter_close = det_iter_free,
    .batch_length = det_batch_length,

    .model_train = det_module_train,
    .model_autocast = det_module_autocast,
    .model_describe = model_describe,
    .model_free = det_module_free,

    .backward = det_backward_with,
    .scaler_new = scaler_new,
    .scale_loss = det_scaler_scale,
    .unscale_grads = scaler_unscale_once,
    .scaler_again = scaler_again,
    .scaler_update = det_scaler_update,
    .scaler_free = det_scaler_free,
    .scale_grads = det_optim_scale_grads,
    .n_params_outside = optim_n_params_outside,
    .clip_norm = det_optim_clip_grad_norm,
    .clip_value = det_optim_clip_grad_value,
    .optim_step = det_scaler_step,
    .zero_grad = det_optim_zero_grad,
    .optim_free = det_optim_free,
    .lr_step = det_lr_scheduler_step,
    .lr_wants_metric = det_lr_scheduler_wants_metric,
    .lr_optimizer = det_lr_scheduler_optimizer,
    .lr_free = det_lr_scheduler_free,

    .scalar = scalar,

    .forward = predict_forward,
    .prediction_keep = predict_keep,
    .prediction_join = predict_join,

    .model_state = det_module_state_dict,
    .model_load = model_load,
    .grads_state = state_grads,
    .grads_load = state_load_grads,
    .optim_state = det_optim_state_dict,
    .optim_load = det_optim_load_state_dict,
    .lr_state = det_lr_scheduler_state_dict,
    .lr_load = det_lr_scheduler_load_state_dict,
    .scaler_state = det_scaler_state_dict,
    .scaler_load = det_scaler_load_state_dict,
    .rng_state = state_rng,
    .rng_load = state_load_rng,
    .snapshot = state_snapshot,
    .save = det_pth_save,
    .load = det_pth_load,

    .mean_grads = ranks_mean_grads,
    .share_model = ranks_share_model,
    .pack = pth_write,
    .unpack = pth_parse,
};

__attribute__((constructor)) static void become_default(void)
{
    if (!engine_default) engine_default = &engine_det;
}
