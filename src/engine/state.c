// Unit state.c: gradients, random numbers and snapshots as trees of values. Called by the loop, by
// way of engine_det.
#include "engine/state.h"

#include "det/nn.h"
#include "tensor/tensor.h"

// --- gradients

det_value *state_grads(const det_module *model)
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

int state_load_grads(det_module *model, const det_value *state, det_err *err)
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

det_value *state_rng(void)
{
    det_rng_state rng = det_get_rng_state();
    det_value *dict = det_value_dict();
    det_value_set(dict, "seed", det_value_int((int64_t)rng.seed));
    det_value_set(dict, "step", det_value_int((int64_t)rng.step));
    det_value_set(dict, "op", det_value_int((int64_t)rng.op));
    return dict;
}

int state_load_rng(const det_value *state, det_err *err)
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

det_value *state_snapshot(const det_value *state, det_err *err)
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
