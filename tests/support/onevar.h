// tests/support/onevar.h: the trial of examples/onevar, for any engine: one weight w that learns to
// multiply by 1. Its course is known exactly: w after n batches is 1 - (1 - 2 r)^n.
#pragma once

#include "support/lab.h"

struct onevar {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

static inline det_loader *onevar_data(void *self)
{
    struct onevar *m = self;
    return lab_ones(det_context_per_slot_batch_size(m->ctx));
}

static inline int onevar_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    m->ctx = ctx;
    m->model = det_wrap_model(ctx, lab_model((struct lab_model){.features = 1}));
    m->opt = det_wrap_optimizer(ctx, lab_sgd(m->model, det_hparam_double(ctx, "learning_rate"), 0));
    return det_check(err);
}

static inline int onevar_train_batch(void *self, const det_step *step, det_metrics *out,
                                     det_err *err)
{
    struct onevar *m = self;
    det_tensor *loss = lab_loss(m->model, step->batch);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt);
    det_metric(out, "loss", loss);
    det_metric(out, "weight", lab_weight_tensor(m->model));
    return det_check(err);
}

static inline int onevar_evaluate_batch(void *self, const det_step *step, det_metrics *out,
                                        det_err *err)
{
    struct onevar *m = self;
    det_metric(out, "loss", lab_loss(m->model, step->batch));
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
