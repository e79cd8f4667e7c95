// Unit context.c: wrapped objects and how a batch uses them: backward, step, schedules. Called by
// trials and by the loop.
#include "train/context.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/str.h"
#include "value/value.h"

#define GROW(array, n) ((array) = xrealloc((array), (size_t)((n) + 1) * sizeof *(array)))

det_context *context_new(const struct context_setup *setup)
{
    det_context *ctx = xcalloc(1, sizeof *ctx);
    ctx->setup = *setup;
    ctx->hparams = settings_hparams(setup->hparams);
    ctx->data = settings_data(setup->data);
    ctx->experiment = settings_experiment(setup->experiment);
    ctx->batch_idx = -1;
    return ctx;
}

static void callback_done(struct callback *cb)
{
    if (cb->ops->free) cb->ops->free(cb->self);
    free(cb->name);
}

void context_free(det_context *ctx)
{
    if (!ctx) return;
    const det_engine *engine = ctx->setup.engine;
    for (int i = 0; !ctx->setup.lent && i < ctx->n_schedules; i++)
        engine->lr_free(ctx->schedules[i].schedule);
    for (int i = 0; !ctx->setup.lent && i < ctx->n_optimizers; i++)
        engine->optim_free(ctx->optimizers[i].opt);
    for (int i = 0; !ctx->setup.lent && i < ctx->n_models; i++)
        engine->model_free(ctx->models[i]);
    for (int i = 0; i < ctx->n_reducers; i++)
        reducer_free(ctx->reducers[i]);
    for (int i = 0; i < ctx->n_callbacks; i++)
        callback_done(&ctx->callbacks[i]);
    engine->scaler_free(ctx->scaler);
    det_value_free(ctx->metadata);
    free(ctx->models);
    free(ctx->optimizers);
    free(ctx->schedules);
    free(ctx->reducers);
    free(ctx->callbacks);
    free(ctx);
}

// --- wrapping

// What is handed over outside of init is kept (and freed in the end) all the same: the error ends
// the trial anyway.
static bool may_wrap(const det_context *ctx, const char *function)
{
    if (!ctx)
        det_raise(DET_EINVAL, "%s: the context is NULL", function);
    else if (ctx->phase != PHASE_INIT)
        det_raise(DET_ESTATE, "%s: only while the trial is made (init)", function);
    return ctx != NULL;
}

det_module *det_wrap_model(det_context *ctx, det_module *model)
{
    if (!model) return NULL;
    if (!may_wrap(ctx, "det_wrap_model")) return model;
    for (int i = 0; i < ctx->n_models; i++)
        if (ctx->models[i] == model) {
            det_raise(DET_ESTATE, "det_wrap_model: this model is wrapped already");
            return model;
        }
    GROW(ctx->models, ctx->n_models)[ctx->n_models] = model;
    ctx->n_models++;
    if (ctx->amp) ctx->setup.engine->model_autocast(model, true);
    return model;
}

static struct wrapped_optimizer *find_optimizer(const det_context *ctx, const det_optimizer *opt)
{
    for (int i = 0; i < ctx->n_optimizers; i++)
        if (ctx->optimizers[i].opt == opt) return &ctx->optimizers[i];
    return NULL;
}

det_optimizer *det_wrap_optimizer_with(det_context *ctx, det_optimizer *opt, det_wrap_opts opts)
{
    if (!opt) return NULL;
    if (!may_wrap(ctx, "det_wrap_optimizer")) return opt;
    if (find_optimizer(ctx, opt)) {
        det_raise(DET_ESTATE, "det_wrap_optimizer: this optimizer is wrapped already");
        return opt;
    }
    bool average = opts.average_aggregated_gradients && !ctx->setup.sum_aggregated_gradients;
    GROW(ctx->optimizers, ctx->n_optimizers);
    ctx->optimizers[ctx->n_optimizers++] =
        (struct wrapped_optimizer){.opt = opt, .average = average};
    return opt;
}

det_lr_scheduler *det_wrap_lr_scheduler(det_context *ctx, det_lr_scheduler *schedule,
                                        det_step_mode mode, int64_t frequency)
{
    if (!schedule) return NULL;
    if (!may_wrap(ctx, "det_wrap_lr_scheduler")) return schedule;
    const det_engine *engine = ctx->setup.engine;
    GROW(ctx->schedules, ctx->n_schedules);
    ctx->schedules[ctx->n_schedules++] =
        (struct wrapped_schedule){schedule, mode, MAX(frequency, 1)};
    if (frequency < 1)
        det_raise(DET_EINVAL, "det_wrap_lr_scheduler: the frequency must be >= 1, got %lld",
                  (long long)frequency);
    else if (!find_optimizer(ctx, engine->lr_optimizer(schedule)))
        det_raise(DET_ESTATE, "det_wrap_lr_scheduler: wrap its optimizer first "
                              "(det_wrap_optimizer)");
    else if (mode != DET_STEP_MANUAL && engine->lr_wants_metric(schedule))
        det_raise(DET_EINVAL, "det_wrap_lr_scheduler: a schedule that wants a metric needs "
                              "DET_STEP_MANUAL and det_lr_scheduler_step_metric");
    return schedule;
}

det_scaler *det_wrap_scaler(det_context *ctx, det_scaler *scaler)
{
    if (!scaler) return NULL;
    if (!may_wrap(ctx, "det_wrap_scaler")) return scaler;
    if (ctx->scaler) {
        det_raise(DET_ESTATE, "det_wrap_scaler: there is a scaler already");
        ctx->setup.engine->scaler_free(scaler);
        return ctx->scaler;
    }
    if (ctx->n_models)
        det_raise(DET_ESTATE, "det_wrap_scaler, det_use_amp: only before det_wrap_model");
    return ctx->scaler = scaler;
}

void det_use_amp(det_context *ctx)
{
    if (!may_wrap(ctx, "det_use_amp")) return;
    det_wrap_scaler(ctx, ctx->setup.engine->scaler_new());
    ctx->amp = true;
}

static bool has_callback(const det_context *ctx, const char *name)
{
    for (int i = 0; i < ctx->n_callbacks; i++)
        if (str_eq(str_from(ctx->callbacks[i].name), str_from(name))) return true;
    return false;
}

void det_add_callback(det_context *ctx, const char *name, const det_callback_ops *ops, void *self)
{
    if (!ctx || !name || !ops)
        det_raise(DET_EINVAL, "det_add_callback: context, name and operations must be given");
    else if (has_callback(ctx, name))
        det_raise(DET_EINVAL, "det_add_callback: there is a callback '%s' already", name);
    if (sticky_failed()) {
        if (ops && ops->free) ops->free(self);
        return;
    }
    GROW(ctx->callbacks, ctx->n_callbacks);
    ctx->callbacks[ctx->n_callbacks++] =
        (struct callback){.name = xstrdup(name), .ops = ops, .self = self};
}

int user_result(int rc, det_err *err)
{
    det_err raised;
    int raised_rc = det_check(&raised);
    if (!rc && !raised_rc) return det_ok(err); // what it failed at, it has coped with
    if (rc && err->code) return err->code;
    if (!raised_rc)
        return det_fail(err, DET_EINVAL, "it returned %d, and no reason (det_fail)", rc);
    *err = raised;
    return raised_rc;
}

int callback_result(int rc, const char *name, const char *member, det_err *err)
{
    det_err own = {0};
    if (!err) err = &own;
    rc = user_result(rc, err);
    return rc ? det_wrap(err, "callback '%s', %s", name, member) : 0;
}

// --- one batch

static bool is_update(const det_context *ctx)
{
    return (ctx->batch_idx + 1) % ctx->setup.aggregation_frequency == 0;
}

static bool is_training(const det_context *ctx, const char *function)
{
    if (ctx && ctx->phase == PHASE_TRAINING) return true;
    det_raise(ctx ? DET_ESTATE : DET_EINVAL, "%s: %s", function,
              ctx ? "only in train_batch" : "the context is NULL");
    return false;
}

bool det_context_is_update(const det_context *ctx)
{
    return is_training(ctx, "det_context_is_update") && is_update(ctx);
}

void det_backward_loss_with(det_context *ctx, det_tensor *loss, det_backward_opts opts)
{
    if (!is_training(ctx, "det_backward_loss")) return;
    const det_engine *engine = ctx->setup.engine;
    engine->backward(ctx->amp ? engine->scale_loss(ctx->scaler, loss) : loss, opts);
}

static void clip(const det_context *ctx, det_optimizer *opt, det_scaler *scaler,
                 const det_step_opts *opts)
{
    const det_engine *engine = ctx->setup.engine;
    if (!opts->clip && isinf(opts->clip_norm) && isinf(opts->clip_value)) return;
    engine->unscale_grads(scaler, opt);
    if (opts->clip) opts->clip(opt, opts->clip_user);
    if (!isinf(opts->clip_norm)) engine->clip_norm(opt, opts->clip_norm);
    if (!isinf(opts->clip_value)) engine->clip_value(opt, opts->clip_value);
}

// Over the ranks, and over the batches since the last step.
static void average_grads(const det_context *ctx, const struct wrapped_optimizer *wrapped)
{
    const struct context_setup *s = &ctx->setup;
    int64_t n = s->aggregation_frequency;
    det_err err;
    if (s->ranks && s->engine->mean_grads(wrapped->opt, s->ranks, &err))
        det_raise(err.code, "%s", err.msg);
    if (n > 1 && wrapped->average) s->engine->scale_grads(wrapped->opt, 1.0 / (double)n);
}

void det_step_optimizer_with(det_context *ctx, det_optimizer *opt, det_step_opts opts)
{
    if (!opt || !is_training(ctx, "det_step_optimizer")) return;
    const det_engine *engine = ctx->setup.engine;
    struct wrapped_optimizer *wrapped = find_optimizer(ctx, opt);
    int64_t n = ctx->setup.aggregation_frequency;
    if (!wrapped) {
        det_raise(DET_ESTATE, "det_step_optimizer: this optimizer is not wrapped "
                              "(det_wrap_optimizer in init)");
        return;
    }
    if (!opts.zero_grads && n > 1) {
        det_raise(
            DET_EINVAL,
            "det_step_optimizer: zero_grads = false does not go with aggregation_frequency %lld",
            (long long)n);
        return;
    }
    if (!is_update(ctx)) return;
    det_scaler *scaler = opts.scaler ? opts.scaler : ctx->amp ? ctx->scaler : NULL;
    average_grads(ctx, wrapped);
    clip(ctx, opt, scaler, &opts);
    engine->optim_step(scaler, opt);
    if (ctx->amp) engine->scaler_again(scaler, opt); // a batch may have several steps
    ctx->scaler_was_used |= scaler == ctx->scaler;
    if (opts.zero_grads) engine->zero_grad(opt);
}

// How often a schedule steps after batch b, which is an update batch.
static int64_t steps_due(const det_context *ctx, const struct wrapped_schedule *s)
{
    int64_t b = ctx->batch_idx, n = ctx->setup.aggregation_frequency, f = s->frequency;
    int64_t length = ctx->epoch_length;
    switch (s->mode) {
    case DET_STEP_EVERY_BATCH: // counts those since the last update
        return (b + 1) / f - (b + 1 - n) / f;
    case DET_STEP_EVERY_OPTIMIZER_STEP:
        return (b + 1) / n % f == 0;
    case DET_STEP_EVERY_EPOCH: // at the last update of the epoch, even if it has batches left
        return (b + n) / length / f - b / length / f;
    default:
        return 0;
    }
}

void context_batch_end(det_context *ctx)
{
    if (!is_update(ctx)) return;
    const det_engine *engine = ctx->setup.engine;
    if (ctx->amp && ctx->scaler_was_used) engine->scaler_update(ctx->scaler);
    ctx->scaler_was_used = false;
    for (int i = 0; i < ctx->n_schedules; i++)
        for (int64_t k = steps_due(ctx, &ctx->schedules[i]); k > 0; k--)
            engine->lr_step(ctx->schedules[i].schedule);
}

void context_train_mode(det_context *ctx, bool training)
{
    for (int i = 0; i < ctx->n_models; i++)
        ctx->setup.engine->model_train(ctx->models[i], training);
}
