// Unit lab_det.c: the lab of the engine of this library.
#include "support/lab.h"

#include "det/data.h"
#include "det/nn.h"
#include "det/ops.h"
#include "det/optim.h"
#include "engine/engine.h"

const det_engine *const lab_engine = &engine_det;

// --- data

det_loader *lab_loader(struct lab_data d)
{
    det_rng_state before = det_get_rng_state();
    det_manual_seed(99);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(d.samples, d.features));
    det_tensor *y = det_randn(DET_F32, DET_DIMS(d.samples, 1));
    det_tensor *number = det_arange(DET_F32, 0, (double)d.samples, 1);
    det_set_rng_state(before);
    return det_loader_new(det_dataset_tensors((det_tensor *const[]){x, y, number}, 3),
                          .batch_size = d.batch, .shuffle = d.shuffle);
}

det_loader *lab_ones(int64_t batch)
{
    det_tensor *one = det_ones(DET_F32, DET_DIMS(64, 1));
    return det_loader_new(det_dataset_tensors((det_tensor *const[]){one, one}, 2),
                          .batch_size = batch);
}

int64_t lab_batch_length(const det_value *batch)
{
    return det_batch_length(batch, NULL);
}

int64_t lab_batch_number(const det_value *batch, int64_t i)
{
    return (int64_t)det_data_f32(det_batch_at(batch, 2))[i];
}

double lab_batch_sum(const det_value *batch)
{
    return det_item(det_sum(det_batch_at(batch, 1)));
}

// --- models: [linear, relu], [batch norm], [dropout], linear

det_module *lab_model(struct lab_model o)
{
    det_module *list[5];
    int n = 0;
    if (o.hidden) list[n++] = det_nn_linear(o.features, o.hidden);
    if (o.hidden) list[n++] = det_nn_relu();
    int64_t width = o.hidden ? o.hidden : o.features;
    if (o.has_buffer) list[n++] = det_nn_batch_norm1d(width);
    if (o.dropout > 0) list[n++] = det_nn_dropout(o.dropout);
    det_module *linear = list[n++] = det_nn_linear(width, 1, .no_bias = true);
    det_module *m = det_nn_sequential_of(list, n);
    if (!isnan(o.start)) det_init_constant(det_module_find_param(linear, "weight"), o.start);
    return m;
}

static det_tensor *weights(const det_module *m)
{
    return det_module_param(m, det_module_n_params(m) - 1);
}

double lab_weight(const det_module *m, int i)
{
    det_scope_begin();
    double w = (double)det_data_f32(weights(m))[i];
    det_scope_end();
    return w;
}

void lab_set_weight(det_module *m, int i, double value)
{
    bool before = det_set_grad_enabled(false);
    det_scope_begin();
    det_fill_(det_slice(weights(m), 1, i, i + 1, 1), value);
    det_scope_end();
    det_set_grad_enabled(before);
}

det_tensor *lab_weight_tensor(det_module *m)
{
    return det_slice(weights(m), 1, 0, 1, 1);
}

bool lab_is_training(const det_module *m)
{
    return det_module_training(m);
}

int lab_state(const det_module *m, float *out, int max)
{
    det_value *state = det_module_state_dict(m);
    int n = 0;
    det_scope_begin();
    for (int i = 0; i < det_value_len(state); i++) {
        det_tensor *t = det_value_as_tensor(det_value_at(state, i));
        if (det_dtype_of(t) == DET_F32) n += lab_values(t, out + n, max - n);
    }
    det_scope_end();
    det_value_free(state);
    return n;
}

det_tensor *lab_loss(det_module *m, const det_value *batch)
{
    return det_mse_loss(lab_output(m, batch), det_batch_at(batch, 1));
}

det_tensor *lab_output(det_module *m, const det_value *batch)
{
    return det_forward(m, det_batch_at(batch, 0));
}

det_tensor *lab_mean(det_tensor *t)
{
    return det_mean(t);
}

det_tensor *lab_times(det_tensor *t, double factor)
{
    return det_mul_scalar(t, factor);
}

double lab_item(det_tensor *t)
{
    return det_item(t);
}

int lab_values(det_tensor *t, float *out, int max)
{
    if (!t || det_numel(t) > max) return 0;
    det_scope_begin();
    memcpy(out, det_data_f32(t), (size_t)det_numel(t) * sizeof *out);
    det_scope_end();
    return (int)det_numel(t);
}

void lab_free(det_tensor *t)
{
    det_unref(t);
}

bool lab_grad_enabled(void)
{
    return det_grad_enabled();
}

double lab_draw(void)
{
    return det_item(det_rand(DET_F32, DET_DIMS(1)));
}

// --- optimizers, schedules, scalers

det_optimizer *lab_sgd(det_module *m, double lr, double momentum)
{
    return det_optim_sgd(m, .lr = lr, .momentum = momentum);
}

det_optimizer *lab_adam(det_module *m, double lr)
{
    return det_optim_adam(m, .lr = lr);
}

void lab_add_model(det_optimizer *opt, det_module *m)
{
    det_optim_add_group(opt, m);
}

double lab_lr(const det_optimizer *opt)
{
    return det_optim_lr(opt, 0);
}

static double step_number(int64_t step, int group, void *user)
{
    (void)group, (void)user;
    return (double)step;
}

det_lr_scheduler *lab_lr_counting(det_optimizer *opt)
{
    return det_lr_lambda(opt, step_number, NULL);
}

det_lr_scheduler *lab_lr_decaying(det_optimizer *opt, double factor)
{
    return det_lr_exponential(opt, factor);
}

det_lr_scheduler *lab_lr_plateau(det_optimizer *opt)
{
    return det_lr_plateau(opt);
}

det_scaler *lab_scaler(int64_t growth_interval)
{
    return det_scaler_new(.growth_interval = growth_interval);
}

double lab_scale(const det_scaler *s)
{
    return det_scaler_scale_value(s);
}
