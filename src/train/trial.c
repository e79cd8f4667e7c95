// Unit trial.c: makes a trial from its operations. Called by the trainer.
#include "train/training.h"

#include "base/mem.h"
#include "train/registry.h"

static int check_ops(const det_trial_ops *ops, const char *name, det_err *err)
{
    const char *missing = NULL;
    if (!ops->train_batch) missing = "train_batch";
    if (!ops->build_model && !ops->init) missing = "init or build_model";
    if (ops->build_model && !ops->optimizer) missing = "optimizer (it has build_model)";
    if (missing) return det_fail(err, DET_EINVAL, "trial %s has no %s", name, missing);
    if (!ops->evaluate_batch == !ops->evaluate_full_dataset)
        return det_fail(err, DET_EINVAL,
                        "trial %s must have exactly one of evaluate_batch and "
                        "evaluate_full_dataset, it has %s",
                        name, ops->evaluate_batch ? "both" : "none");
    return 0;
}

// Model, optimizer and schedule for a trial that leaves the steps to the loop.
static void build_parts(det_trial *t)
{
    det_module *model = det_wrap_model(t->ctx, t->ops->build_model(t->self));
    if (!model) return;
    det_optimizer *opt = det_wrap_optimizer(t->ctx, t->ops->optimizer(t->self, model));
    if (!opt || !t->ops->create_lr_scheduler) return;
    det_step_mode mode = DET_STEP_EVERY_EPOCH;
    det_lr_scheduler *schedule = t->ops->create_lr_scheduler(t->self, opt, &mode);
    det_wrap_lr_scheduler(t->ctx, schedule, mode, 1);
}

// Before init, which may calculate with it.
static int check_batch_size(const det_trial *t, det_err *err)
{
    const det_context *ctx = t->ctx;
    if (!det_config_has(&ctx->hparams, "global_batch_size")) return det_ok(err);
    int64_t global = det_context_global_batch_size(ctx);
    int rc = det_check(err);
    if (!rc && global < ctx->setup.size)
        rc = det_fail(err, DET_EHPARAM,
                      "hyperparameter 'global_batch_size' is %lld, but there %s %d slot%s",
                      (long long)global, ctx->setup.size == 1 ? "is" : "are", ctx->setup.size,
                      ctx->setup.size == 1 ? "" : "s");
    return rc ? det_wrap(err, "trial %s", t->name) : rc;
}

static int build(det_trial *t, det_err *err)
{
    int rc = check_batch_size(t, err);
    if (rc) return rc;
    if (t->ctx->setup.amp) det_use_amp(t->ctx);
    det_ok(err);
    rc = user_result(t->ops->init ? t->ops->init(t->self, t->ctx, err) : 0, err);
    if (rc) return det_wrap(err, "trial %s, init", t->name);
    if (t->ops->build_model) {
        build_parts(t);
        rc = det_check(err);
        if (rc) return det_wrap(err, "trial %s, build_model and optimizer", t->name);
    }
    if (!t->ctx->n_models)
        return det_fail(err, DET_ESTATE, "trial %s wraps no model (det_wrap_model)", t->name);
    if (!t->ctx->n_optimizers)
        return det_fail(err, DET_ESTATE, "trial %s wraps no optimizer (det_wrap_optimizer)",
                        t->name);
    t->ctx->phase = PHASE_READY;
    if (t->ops->build_callbacks) t->ops->build_callbacks(t->self, t->ctx);
    rc = det_check(err);
    return rc ? det_wrap(err, "trial %s, build_callbacks", t->name) : 0;
}

det_trial *trial_new(const det_trial_ops *ops, det_trial_opts opts,
                     const struct context_setup *setup, det_err *err)
{
    const char *name = opts.name ? opts.name : registry_name(ops);
    if (check_ops(ops, name, err)) return NULL;
    det_trial *t = xcalloc(1, sizeof *t);
    t->ops = ops;
    t->name = xstrdup(name);
    t->self = ops->size ? xcalloc(1, ops->size) : NULL;
    t->ctx = context_new(setup);
    t->ctx->arg = opts.arg;
    setup->engine->begin(0);
    int rc = build(t, err);
    setup->engine->end();
    if (!rc) return t;
    trial_free(t);
    return NULL;
}

det_trial *trial_new_own(const struct own_loop *loop, const struct context_setup *setup)
{
    det_trial *t = xcalloc(1, sizeof *t);
    struct context_setup lent = *setup;
    lent.lent = true;
    t->own = loop;
    t->name = xstrdup(loop->name);
    t->ctx = context_new(&lent);
    return t;
}

void trial_free(det_trial *t)
{
    if (!t) return;
    if (t->ops && t->ops->done) t->ops->done(t->self);
    for (int i = 0; i < t->n_loaders; i++)
        t->ctx->setup.engine->loader_free(t->loaders[i]);
    context_free(t->ctx);
    free(t->loaders);
    free(t->name);
    free(t->self);
    free(t);
}

// --- loaders

void trial_adopt(det_trial *t, det_loader *loader)
{
    if (!loader) return;
    for (int i = 0; i < t->n_loaders; i++)
        if (t->loaders[i] == loader) return;
    t->loaders = xrealloc(t->loaders, (size_t)(t->n_loaders + 1) * sizeof *t->loaders);
    t->loaders[t->n_loaders++] = loader;
}

static int choose(det_trial *t, bool training, det_loader *given, det_err *err)
{
    const char *which = training ? "training" : "validation";
    det_loader **slot = training ? &t->training : &t->validation;
    det_loader *(*make)(void *self) =
        training ? t->ops->build_training_data_loader : t->ops->build_validation_data_loader;
    if (!given && !*slot && make) {
        given = make(t->self);
        trial_adopt(t, given); // also if something failed on the way
        int rc = det_check(err);
        if (!rc && !given) rc = det_fail(err, DET_EINVAL, "it returned NULL");
        if (rc) return det_wrap(err, "trial %s, build_%s_data_loader", t->name, which);
    }
    trial_adopt(t, given);
    if (given) *slot = given;
    if (*slot) {
        t->ctx->setup.engine->loader_seed(*slot, t->ctx->setup.seed);
        return 0;
    }
    return det_fail(err, DET_EINVAL,
                    "no %s data: trial %s has no build_%s_data_loader, and no loader was given",
                    which, t->name, which);
}

int trial_set_loaders(det_trial *t, det_loader *training, det_loader *validation, det_err *err)
{
    int rc = choose(t, true, training, err);
    return rc ? rc : choose(t, false, validation, err);
}
