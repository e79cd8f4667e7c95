// Unit engine_det.c: the engine of this library, as the loop sees it.
#include "train/engine.h"

#include "format/format.h"
#include "optim/optim.h"
#include "tensor/tensor.h"
#include "train/engine_ranks.h"

static void begin(uint64_t step)
{
    det_scope_begin();
    det_rng_set_step(step);
}

static void loader_seed(det_loader *loader, uint64_t seed)
{
    if (!det_loader_seed(loader)) det_loader_set_seed(loader, seed);
}

static det_scaler *scaler_new(void)
{
    return det_scaler_new();
}

static int model_load(det_module *model, const det_value *state, det_err *err)
{
    return det_module_load_state_dict(model, state, true, err);
}

// --- gradients that were accumulated, but not used yet

// A list with one entry per parameter: its gradient, or None.
static det_value *grads_state(const det_module *model)
{
    det_value *list = det_value_list();
    bool any = false;
    for (int i = 0; i < det_module_n_params(model); i++) {
        det_tensor *grad = det_grad(det_module_param(model, i));
        det_value_push(list, grad ? det_value_tensor(grad) : det_value_none());
        any |= grad != NULL;
    }
    if (any) return list;
    det_value_free(list);
    return NULL;
}

// Gradients can only be added, by going backward: through a view, which passes them on unchanged.
static void grad_set(det_tensor *param, det_tensor *grad)
{
    det_zero_grad(param);
    if (!grad) return;
    det_tensor *same = det_view(param, det_shape(param), det_ndim(param));
    det_backward(same, .grad = grad);
}

static int grads_load(det_module *model, const det_value *state, det_err *err)
{
    int n = det_module_n_params(model);
    if (det_value_len(state) != n)
        return det_fail(err, DET_EINVAL, "gradients of %d parameters saved, %d here",
                        det_value_len(state), n);
    bool grad_before = det_set_grad_enabled(true);
    det_scope_begin();
    for (int i = 0; i < n; i++)
        grad_set(det_module_param(model, i), det_value_as_tensor(det_value_at(state, i)));
    int rc = det_check(err);
    det_scope_end();
    det_set_grad_enabled(grad_before);
    return rc ? det_wrap(err, "gradients") : 0;
}

// --- random numbers: three integers. They are saved as their bits, since integers have a sign.

static det_value *rng_state(void)
{
    det_rng_state rng = det_get_rng_state();
    det_value *dict = det_value_dict();
    det_value_set(dict, "seed", det_value_int((int64_t)rng.seed));
    det_value_set(dict, "step", det_value_int((int64_t)rng.step));
    det_value_set(dict, "op", det_value_int((int64_t)rng.op));
    return dict;
}

static int rng_load(const det_value *state, det_err *err)
{
    int64_t seed, step, op;
    int rc = det_value_as_int(det_value_get(state, "seed"), &seed, err);
    if (!rc) rc = det_value_as_int(det_value_get(state, "step"), &step, err);
    if (!rc) rc = det_value_as_int(det_value_get(state, "op"), &op, err);
    if (rc) return det_wrap(err, "random numbers");
    det_set_rng_state((det_rng_state){(uint64_t)seed, (uint64_t)step, (uint64_t)op});
    return 0;
}

// --- snapshots

// The copies are in no scope and of no history, so that another thread may have them.
static det_value *snapshot(const det_value *state, det_err *err)
{
    bool grad_before = det_set_grad_enabled(false);
    det_scope_begin();
    det_value *copy = value_clone(state);
    int rc = det_check(err);
    det_scope_end();
    det_set_grad_enabled(grad_before);
    if (!rc) return copy;
    det_value_free(copy);
    return NULL;
}

const struct engine_ops engine_det = {
    .seed = det_manual_seed,
    .begin = begin,
    .end = det_scope_end,
    .check = det_check,
    .set_grad_enabled = det_set_grad_enabled,

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
    .model_free = det_module_free,

    .backward = det_backward_with,
    .scaler_new = scaler_new,
    .scale_loss = det_scaler_scale,
    .unscale_grads = scaler_unscale_once,
    .scaler_again = scaler_again,
    .n_params_outside = optim_n_params_outside,
    .scaler_update = det_scaler_update,
    .scaler_free = det_scaler_free,
    .scale_grads = det_optim_scale_grads,
    .clip_norm = det_optim_clip_grad_norm,
    .clip_value = det_optim_clip_grad_value,
    .optim_step = det_scaler_step,
    .zero_grad = det_optim_zero_grad,
    .optim_free = det_optim_free,
    .lr_step = det_lr_scheduler_step,
    .lr_wants_metric = det_lr_scheduler_wants_metric,
    .lr_optimizer = det_lr_scheduler_optimizer,
    .lr_free = det_lr_scheduler_free,

    .model_state = det_module_state_dict,
    .model_load = model_load,
    .grads_state = grads_state,
    .grads_load = grads_load,
    .optim_state = det_optim_state_dict,
    .optim_load = det_optim_load_state_dict,
    .lr_state = det_lr_scheduler_state_dict,
    .lr_load = det_lr_scheduler_load_state_dict,
    .scaler_state = det_scaler_state_dict,
    .scaler_load = det_scaler_load_state_dict,
    .rng_state = rng_state,
    .rng_load = rng_load,
    .snapshot = snapshot,
    .save = det_pth_save,
    .load = det_pth_load,

    .mean_grads = ranks_mean_grads,
    .share_model = ranks_share_model,
    .pack = pth_write,
    .unpack = pth_parse,
};
