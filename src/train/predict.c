// Unit predict.c: predictions for a whole dataset, each rank for its share.
#include "train/training.h"

#include "train/ranks.h"

static det_tensor *predict_batch(const det_trial *trial, const det_value *batch, int64_t batch_idx)
{
    const det_step step = {batch, 0, batch_idx, trial->ctx->models[0]};
    if (trial->ops->predict_batch) return trial->ops->predict_batch(trial->self, &step);
    return trial->ctx->setup.engine->forward(step.model, batch);
}

// Adds the prediction of each batch to out.
static int predict_all(det_trial *trial, det_iter *it, det_value *out, det_err *err)
{
    const struct context_setup *setup = &trial->ctx->setup;
    const det_engine *engine = setup->engine;
    int64_t batch_idx = 0;
    det_ok(err);
    for (const det_value *batch; (batch = engine->iter_next(it, err)); batch_idx++) {
        engine->begin((uint64_t)batch_idx * (uint64_t)setup->size + (uint64_t)setup->rank + 1);
        det_value *part = engine->prediction_keep(predict_batch(trial, batch, batch_idx));
        int rc = det_check(err);
        engine->end();
        if (!rc && !part) rc = det_fail(err, DET_EINVAL, "there is no prediction");
        det_value_push(out, part);
        if (rc)
            return det_wrap(err, "trial %s, predict_batch, batch %lld", trial->name,
                            (long long)batch_idx);
    }
    return err->code ? det_wrap(err, "data to predict") : 0;
}

// Those of all ranks in the order of the dataset: the first batch of each rank, the second of each,
// ... Takes mine; NULL on failure.
static det_value *gather(const det_trial *trial, det_value *mine, det_err *err)
{
    if (!trial->ctx->setup.ranks) return mine;
    det_value *all = ranks_gather(&trial->ctx->setup, "predictions", mine, err);
    if (!all) return NULL;
    det_value *parts = det_value_list();
    int longest = det_value_len(det_value_at(all, 0)); // no rank has more than rank 0
    for (int i = 0; i < longest; i++)
        for (int rank = 0; rank < det_value_len(all); rank++) {
            const det_value *part = det_value_at(det_value_at(all, rank), i);
            if (part) det_value_push(parts, det_value_copy(part));
        }
    det_value_free(all);
    return parts;
}

static det_tensor *join(const det_trial *trial, const det_value *parts, det_err *err)
{
    det_tensor *all = NULL;
    int rc = 0;
    if (det_value_len(parts)) {
        all = trial->ctx->setup.engine->prediction_join(parts);
        rc = det_check(err);
    } else {
        rc = det_fail(err, DET_EINVAL, "the data to predict has no batches");
    }
    return rc ? NULL : all;
}

static det_tensor *predict(det_trial *trial, det_loader *loader, det_err *err)
{
    const struct context_setup *setup = &trial->ctx->setup;
    const det_engine *engine = setup->engine;
    det_value *parts = det_value_list();
    det_iter *it =
        engine->iter_open(loader, (det_iter_opts){.replicas = setup->size, .rank = setup->rank});
    int rc = det_check(err);
    context_train_mode(trial->ctx, false);
    bool grad_before = engine->set_grad_enabled(false);
    if (!rc) rc = predict_all(trial, it, parts, err);
    if (!rc) parts = gather(trial, parts, err);
    det_tensor *all = rc || !parts ? NULL : join(trial, parts, err);
    engine->set_grad_enabled(grad_before);
    engine->iter_close(it);
    det_value_free(parts);
    return all;
}

det_tensor *det_predict(det_trainer *trainer, det_trial *trial, det_loader *loader)
{
    det_err err;
    const det_engine *engine = trainer_engine(trainer);
    det_tensor *all = NULL;
    if (trainer && trial && loader) {
        all = predict(trial, loader, &err);
        if (!all) {
            dist_fail(trial->ctx->setup.ranks, err.code, err.msg);
            det_raise(err.code, "%s", err.msg);
        }
    }
    if (engine && loader) engine->loader_free(loader);
    return all;
}
