// Unit kinds.c: the table of optimizers. A new one is a row here, a kernel, and its options in
// det/optim.h.
//
// Formulas, defaults and the keys of param_groups are those of torch 1.13. Lion: Chen et al.,
// "Symbolic discovery of optimization algorithms" (2023).
#include "optim/optimizer.h"

#include <math.h>

// The inside of a row { ... } of a table of settings.
#define AT(opts, member) .key = #member, .offset = offsetof(opts, member)
#define REAL(opts, member) AT(opts, member), .type = SETTING_REAL, .min = 0, .end = INFINITY
#define ANY_REAL(opts, member) AT(opts, member), .type = SETTING_REAL
#define FLAG(opts, member) AT(opts, member), .type = SETTING_BOOL
#define MAYBE(opts, member) AT(opts, member), .type = SETTING_MAYBE
#define BETA(opts, member)                                                                     \
    .key = betas, .name = #member, .offset = offsetof(opts, member), .type = SETTING_IN_TUPLE, \
    .min = 0, .end = 1
#define NONE(key_) .key = (key_), .type = SETTING_NONE
#define FALSE(key_) .key = (key_), .type = SETTING_FALSE

static const char betas[] = "betas";

static float sign_of(bool maximize)
{
    return maximize ? -1 : 1;
}

// --- SGD

static const struct setting sgd_settings[] = {
    {REAL(det_sgd_opts, lr)},
    {REAL(det_sgd_opts, momentum)},
    {ANY_REAL(det_sgd_opts, dampening)},
    {REAL(det_sgd_opts, weight_decay)},
    {FLAG(det_sgd_opts, nesterov)},
    {FLAG(det_sgd_opts, maximize)},
    {NONE("foreach")},
    {FALSE("differentiable")},
    {.key = NULL},
};

static int sgd_resolve(struct hyper *h, det_err *err)
{
    if (!h->sgd.nesterov || (h->sgd.momentum > 0 && h->sgd.dampening == 0)) return 0;
    return det_fail(err, DET_EINVAL, "SGD: nesterov needs momentum > 0 and dampening 0");
}

static unsigned sgd_uses(const struct hyper *h)
{
    return h->sgd.momentum != 0;
}

static update_fn sgd_prepare(const struct hyper *h, int64_t step, unsigned fresh, struct update *u)
{
    (void)step;
    u->sign = sign_of(h->sgd.maximize);
    u->decay = (float)h->sgd.weight_decay;
    u->lr = (float)h->lr;
    u->momentum = (float)h->sgd.momentum;
    u->beta1 = fresh ? 0 : (float)h->sgd.momentum; // the first gradient is the first buffer
    u->new_share = fresh ? 1 : (float)(1 - h->sgd.dampening);
    u->nesterov = h->sgd.nesterov;
    return h->sgd.momentum != 0 ? optim_kernels->sgd_momentum : optim_kernels->sgd;
}

static const struct optim_kind sgd = {
    .name = "SGD",
    .settings = sgd_settings,
    .state = {"momentum_buffer"},
    .step_form = STEP_NOT_SAVED,
    .saves_none = true,
    .uses = sgd_uses,
    .prepare = sgd_prepare,
    .resolve = sgd_resolve,
};

// --- Adam, AdamW

static const struct setting adam_settings[] = {
    {REAL(det_adam_opts, lr)},
    {BETA(det_adam_opts, beta1)},
    {BETA(det_adam_opts, beta2)},
    {REAL(det_adam_opts, eps)},
    {REAL(det_adam_opts, weight_decay)},
    {FLAG(det_adam_opts, amsgrad)},
    {FLAG(det_adam_opts, maximize)},
    {NONE("foreach")},
    {FALSE("capturable")},
    {FALSE("differentiable")},
    {FALSE("fused")},
    {.key = NULL},
};

static const struct setting adamw_settings[] = {
    {REAL(det_adam_opts, lr)},
    {BETA(det_adam_opts, beta1)},
    {BETA(det_adam_opts, beta2)},
    {REAL(det_adam_opts, eps)},
    {REAL(det_adam_opts, weight_decay)},
    {FLAG(det_adam_opts, amsgrad)},
    {NONE("foreach")},
    {FLAG(det_adam_opts, maximize)},
    {FALSE("capturable")},
    {.key = NULL},
};

enum { EXP_AVG = 1, EXP_AVG_SQ = 2, MAX_EXP_AVG_SQ = 4 };

static unsigned adam_uses(const struct hyper *h)
{
    return EXP_AVG | EXP_AVG_SQ | (h->adam.amsgrad ? MAX_EXP_AVG_SQ : 0);
}

// Both corrections are in lr and eps: an element then needs one division less.
static void adam_coefficients(const det_adam_opts *o, int64_t step, struct update *u)
{
    const double sqrt_correction = sqrt(1 - pow(o->beta2, (double)step));
    u->sign = sign_of(o->maximize);
    u->lr = (float)(o->lr * sqrt_correction / (1 - pow(o->beta1, (double)step)));
    u->eps = (float)(o->eps * sqrt_correction);
    u->beta1 = (float)o->beta1;
    u->beta2 = (float)o->beta2;
    u->new_share = (float)(1 - o->beta1);
    u->new_share2 = (float)(1 - o->beta2);
}

static update_fn adam_prepare(const struct hyper *h, int64_t step, unsigned fresh, struct update *u)
{
    (void)fresh;
    adam_coefficients(&h->adam, step, u);
    u->decay = (float)h->adam.weight_decay;
    u->shrink = 1;
    return optim_kernels->adam;
}

static update_fn adamw_prepare(const struct hyper *h, int64_t step, unsigned fresh,
                               struct update *u)
{
    (void)fresh;
    adam_coefficients(&h->adam, step, u);
    u->shrink = (float)(1 - h->lr * h->adam.weight_decay);
    return optim_kernels->adam;
}

static const struct optim_kind adam = {
    .name = "Adam",
    .settings = adam_settings,
    .state = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .step_form = STEP_AS_TENSOR,
    .uses = adam_uses,
    .prepare = adam_prepare,
};

static const struct optim_kind adamw = {
    .name = "AdamW",
    .settings = adamw_settings,
    .state = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .step_form = STEP_AS_TENSOR,
    .uses = adam_uses,
    .prepare = adamw_prepare,
};

// --- RMSprop

static const struct setting rmsprop_settings[] = {
    {REAL(det_rmsprop_opts, lr)},
    {REAL(det_rmsprop_opts, momentum)},
    {REAL(det_rmsprop_opts, alpha)},
    {REAL(det_rmsprop_opts, eps)},
    {FLAG(det_rmsprop_opts, centered)},
    {REAL(det_rmsprop_opts, weight_decay)},
    {NONE("foreach")},
    {FLAG(det_rmsprop_opts, maximize)},
    {FALSE("differentiable")},
    {.key = NULL},
};

enum { SQUARE_AVG = 1, MOMENTUM_BUFFER = 2, GRAD_AVG = 4 };

static unsigned rmsprop_uses(const struct hyper *h)
{
    return SQUARE_AVG | (h->rmsprop.momentum > 0 ? MOMENTUM_BUFFER : 0) |
           (h->rmsprop.centered ? GRAD_AVG : 0);
}

static update_fn rmsprop_prepare(const struct hyper *h, int64_t step, unsigned fresh,
                                 struct update *u)
{
    (void)step, (void)fresh;
    u->sign = sign_of(h->rmsprop.maximize);
    u->decay = (float)h->rmsprop.weight_decay;
    u->lr = (float)h->lr;
    u->momentum = (float)h->rmsprop.momentum;
    u->beta2 = (float)h->rmsprop.alpha;
    u->new_share2 = (float)(1 - h->rmsprop.alpha);
    u->eps = (float)h->rmsprop.eps;
    return optim_kernels->rmsprop;
}

static const struct optim_kind rmsprop = {
    .name = "RMSprop",
    .settings = rmsprop_settings,
    .state = {"square_avg", "momentum_buffer", "grad_avg"},
    .step_form = STEP_AS_INT,
    .uses = rmsprop_uses,
    .prepare = rmsprop_prepare,
};

// --- Adagrad

static const struct setting adagrad_settings[] = {
    {REAL(det_adagrad_opts, lr)},
    {REAL(det_adagrad_opts, lr_decay)},
    {REAL(det_adagrad_opts, eps)},
    {REAL(det_adagrad_opts, weight_decay)},
    {REAL(det_adagrad_opts, initial_accumulator_value)},
    {NONE("foreach")},
    {FLAG(det_adagrad_opts, maximize)},
    {.key = NULL},
};

static unsigned uses_first_only(const struct hyper *h)
{
    (void)h;
    return 1;
}

static double adagrad_initial_sum(const struct hyper *h)
{
    return h->adagrad.initial_accumulator_value;
}

static update_fn adagrad_prepare(const struct hyper *h, int64_t step, unsigned fresh,
                                 struct update *u)
{
    (void)fresh;
    u->sign = sign_of(h->adagrad.maximize);
    u->decay = (float)h->adagrad.weight_decay;
    u->lr = (float)(h->lr / (1 + (double)(step - 1) * h->adagrad.lr_decay));
    u->eps = (float)h->adagrad.eps;
    return optim_kernels->adagrad;
}

static const struct optim_kind adagrad = {
    .name = "Adagrad",
    .settings = adagrad_settings,
    .state = {"sum"},
    .step_form = STEP_AS_TENSOR,
    .eager = true,
    .uses = uses_first_only,
    .prepare = adagrad_prepare,
    .initial_state = adagrad_initial_sum,
};

// --- Lion

static const struct setting lion_settings[] = {
    {REAL(det_lion_opts, lr)},
    {BETA(det_lion_opts, beta1)},
    {BETA(det_lion_opts, beta2)},
    {REAL(det_lion_opts, weight_decay)},
    {.key = NULL},
};

static update_fn lion_prepare(const struct hyper *h, int64_t step, unsigned fresh, struct update *u)
{
    (void)step, (void)fresh;
    u->lr = (float)h->lr;
    u->shrink = (float)(1 - h->lr * h->lion.weight_decay);
    u->beta1 = (float)h->lion.beta1;
    u->beta2 = (float)h->lion.beta2;
    u->new_share = (float)(1 - h->lion.beta1);
    u->new_share2 = (float)(1 - h->lion.beta2);
    return optim_kernels->lion;
}

static const struct optim_kind lion = {
    .name = "Lion",
    .settings = lion_settings,
    .state = {"exp_avg"},
    .step_form = STEP_NOT_SAVED,
    .uses = uses_first_only,
    .prepare = lion_prepare,
};

// --- all kinds

const struct setting schedule_settings[] = {
    {MAYBE(struct hyper, initial_lr)},    {MAYBE(struct hyper, max_lr)},
    {MAYBE(struct hyper, min_lr)},        {MAYBE(struct hyper, max_momentum)},
    {MAYBE(struct hyper, base_momentum)}, {.key = NULL},
};

// --- making them

static det_optimizer *optimizer_from(const struct optim_kind *kind, det_module *module,
                                     struct hyper h)
{
    det_err err = {0};
    if (!module) det_raise(DET_EINVAL, "%s: the module is NULL", kind->name);
    if (sticky_failed()) return NULL;
    h.initial_lr = h.max_lr = h.min_lr = h.max_momentum = h.base_momentum = NAN;
    int rc = settings_check(kind->settings, kind->name, &h, &err);
    if (!rc && kind->resolve) rc = kind->resolve(&h, &err);
    if (!rc) return optimizer_new(kind, module, &h);
    det_raise(err.code, "%s", err.msg);
    return NULL;
}

det_optimizer *det_optim_sgd_with(det_module *module, det_sgd_opts opts)
{
    return optimizer_from(&sgd, module, (struct hyper){.sgd = opts});
}

det_optimizer *det_optim_adam_with(det_module *module, det_adam_opts opts)
{
    return optimizer_from(&adam, module, (struct hyper){.adam = opts});
}

det_optimizer *det_optim_adamw_with(det_module *module, det_adam_opts opts)
{
    return optimizer_from(&adamw, module, (struct hyper){.adam = opts});
}

det_optimizer *det_optim_rmsprop_with(det_module *module, det_rmsprop_opts opts)
{
    return optimizer_from(&rmsprop, module, (struct hyper){.rmsprop = opts});
}

det_optimizer *det_optim_adagrad_with(det_module *module, det_adagrad_opts opts)
{
    return optimizer_from(&adagrad, module, (struct hyper){.adagrad = opts});
}

det_optimizer *det_optim_lion_with(det_module *module, det_lion_opts opts)
{
    return optimizer_from(&lion, module, (struct hyper){.lion = opts});
}
