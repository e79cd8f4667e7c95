// Unit ema.c: a moving average of a model's state. Called by callbacks and by users.
#include "det/finetuning.h"

#include "base/mem.h"
#include "tensor/tensor.h"

struct det_ema {
    double decay;
    det_value *state;   // the model's own tensors that are averaged, by name
    det_value *average; // by the same names, in the same order
};

static det_value *copy_of(const det_value *state)
{
    det_value *copy = det_value_dict();
    det_scope_begin();
    for (int i = 0; i < det_value_len(state); i++) {
        int64_t number;
        det_tensor *t = det_value_as_tensor(det_value_at(state, i));
        det_value_set(copy, det_value_key(state, i, &number),
                      det_value_tensor(det_clone(det_detach(t))));
    }
    det_scope_end();
    return copy;
}

static bool is_param(const det_module *model, const det_tensor *t)
{
    for (int i = 0; i < det_module_n_params(model); i++)
        if (det_module_param(model, i) == t) return true;
    return false;
}

static det_value *params_of(const det_module *model, det_value *state)
{
    det_value *params = det_value_dict();
    for (int i = 0; i < det_value_len(state); i++) {
        int64_t number;
        const det_value *t = det_value_at(state, i);
        if (is_param(model, det_value_as_tensor(t)))
            det_value_set(params, det_value_key(state, i, &number), det_value_copy(t));
    }
    det_value_free(state);
    return params;
}

det_ema *det_ema_new_with(det_module *model, det_ema_opts o)
{
    if (!model) det_raise(DET_EINVAL, "ema: the model is NULL");
    if (!(o.decay >= 0 && o.decay < 1))
        det_raise(DET_EINVAL, "ema: decay must be in 0 .. 1, got %g", o.decay);
    if (sticky_failed()) return NULL;
    det_ema *e = xcalloc(1, sizeof *e);
    e->decay = o.decay;
    e->state = det_module_state_dict(model);
    if (!o.buffers) e->state = params_of(model, e->state);
    e->average = copy_of(e->state);
    return e;
}

void det_ema_free(det_ema *e)
{
    if (!e) return;
    det_value_free(e->state);
    det_value_free(e->average);
    free(e);
}

// Calls change(average, value, decay) for each tensor, in a scope and without gradients.
static void for_each(det_ema *e, void (*change)(det_tensor *average, det_tensor *value, double d))
{
    if (!e) return;
    bool grads = det_set_grad_enabled(false);
    det_scope_begin();
    for (int i = 0; i < det_value_len(e->average); i++)
        change(det_value_as_tensor(det_value_at(e->average, i)),
               det_value_as_tensor(det_value_at(e->state, i)), e->decay);
    det_scope_end();
    det_set_grad_enabled(grads);
}

static void move_towards(det_tensor *average, det_tensor *value, double decay)
{
    if (!det_dtype_is_float(det_dtype_of(average))) { // counters
        det_copy_(average, value);
        return;
    }
    det_mul_(average, decay);
    det_add_(average, value, 1 - decay);
}

void det_ema_update(det_ema *e)
{
    for_each(e, move_towards);
}

static void exchange(det_tensor *average, det_tensor *value, double decay)
{
    (void)decay;
    det_tensor *kept = det_clone(value);
    det_copy_(value, average);
    det_copy_(average, kept);
}

void det_ema_swap(det_ema *e)
{
    for_each(e, exchange);
}

det_value *det_ema_state_dict(const det_ema *e)
{
    if (!e) return NULL;
    det_value *dict = det_value_dict();
    for (int i = 0; i < det_value_len(e->average); i++) {
        int64_t number;
        det_value_set(dict, det_value_key(e->average, i, &number),
                      det_value_tensor(det_value_as_tensor(det_value_at(e->average, i))));
    }
    return dict;
}

int det_ema_load_state_dict(det_ema *e, const det_value *state, det_err *err)
{
    if (!e) return det_fail(err, DET_EINVAL, "ema: it is NULL");
    for (int i = 0; i < det_value_len(e->average); i++) {
        int64_t number;
        const char *key = det_value_key(e->average, i, &number);
        const det_tensor *t = det_value_as_tensor(det_value_get(state, key)),
                         *here = det_value_as_tensor(det_value_at(e->average, i));
        if (!t || !same_shape(t, here))
            return det_fail(err, DET_EINVAL, "ema: '%s' is missing or of another shape", key);
    }
    for (int i = 0; i < det_value_len(e->average); i++) {
        int64_t number;
        const char *key = det_value_key(e->average, i, &number);
        det_copy_(det_value_as_tensor(det_value_at(e->average, i)),
                  det_value_as_tensor(det_value_get(state, key)));
    }
    return det_ok(err);
}
