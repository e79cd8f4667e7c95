// The smallest trial: one weight w that learns to multiply by 1.
//
// Every sample is (1, 1) and the loss is (w - 1)^2, so the course of training is known exactly:
// w after n batches is 1 - (1 - 2 r)^n for a learning rate r, starting at w = 0.
#include <det/det.h>

struct onevar {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

// --- data: 64 times ([1], [1])

static int64_t ones_length(void *self)
{
    (void)self;
    return 64;
}

static det_value *ones_item(void *self, int64_t index, const det_draw *draw, det_err *err)
{
    (void)self, (void)index, (void)draw, (void)err;
    det_value *sample = det_value_tuple();
    det_value_push(sample, det_value_tensor(det_ones(DET_F32, DET_DIMS(1))));
    det_value_push(sample, det_value_tensor(det_ones(DET_F32, DET_DIMS(1))));
    return sample;
}

static const det_dataset_ops ones = {.length = ones_length, .item = ones_item};

static det_loader *onevar_data(void *self)
{
    struct onevar *m = self;
    return det_loader_new(det_dataset_new(&ones, NULL),
                          .batch_size = det_context_per_slot_batch_size(m->ctx));
}

// --- model

static int onevar_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    m->ctx = ctx;
    m->model = det_wrap_model(ctx, det_nn_linear(1, 1, .no_bias = true));
    det_init_constant(det_module_find_param(m->model, "weight"), 0);
    m->opt = det_wrap_optimizer(
        ctx, det_optim_sgd(m->model, .lr = det_hparam_double(ctx, "learning_rate")));
    return det_check(err);
}

static det_tensor *onevar_loss(struct onevar *m, const det_value *batch)
{
    det_tensor *data = det_batch_at(batch, 0), *labels = det_batch_at(batch, 1);
    return det_mse_loss(det_forward(m->model, data), labels);
}

static int onevar_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    det_tensor *loss = onevar_loss(m, step->batch);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt);
    det_metric(out, "loss", loss);
    det_metric(out, "weight", det_module_find_param(m->model, "weight"));
    return det_check(err);
}

static int onevar_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    det_metric(out, "loss", onevar_loss(self, step->batch));
    return det_check(err);
}

DET_TRIAL(OneVarTrial) = {
    .size = sizeof(struct onevar),
    .init = onevar_init,
    .train_batch = onevar_train_batch,
    .evaluate_batch = onevar_evaluate_batch,
    .build_training_data_loader = onevar_data,
    .build_validation_data_loader = onevar_data,
};
