// Unit predict.c: predictions for a whole dataset, each rank for its share.
#include "train/training.h"

#include "base/mem.h"
#include "train/ranks.h"

// The first tensor of a batch, however deep.
static det_tensor *first_tensor(const det_value *v)
{
    det_tensor *t = det_value_as_tensor(v);
    for (int i = 0; !t && i < det_value_len(v); i++)
        t = first_tensor(det_value_at(v, i));
    return t;
}

static det_tensor *predict_batch(const det_trial *trial, const det_value *batch, int64_t batch_idx)
{
    const det_step step = {batch, 0, batch_idx, trial->ctx->models[0]};
    if (trial->ops->predict_batch) return trial->ops->predict_batch(trial->self, &step);
    return det_forward(step.model, first_tensor(batch));
}

struct parts {
    det_tensor **part; // references
    int n, cap;
};

// A copy: what the prediction is a view of may be gone with the batch.
static void parts_add(struct parts *p, det_tensor *t)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->part = xrealloc(p->part, (size_t)p->cap * sizeof *p->part);
    }
    p->part[p->n] = det_ref(det_clone(t));
    if (p->part[p->n]) p->n++;
}

static void parts_done(struct parts *p)
{
    for (int i = 0; i < p->n; i++)
        det_unref(p->part[i]);
    free(p->part);
    *p = (struct parts){0};
}

static int predict_all(det_trial *trial, det_iter *it, struct parts *out, det_err *err)
{
    const struct context_setup *setup = &trial->ctx->setup;
    const struct engine_ops *engine = setup->engine;
    int64_t batch_idx = 0;
    det_ok(err);
    for (const det_value *batch; (batch = engine->iter_next(it, err)); batch_idx++) {
        engine->begin((uint64_t)batch_idx * (uint64_t)setup->size + (uint64_t)setup->rank + 1);
        parts_add(out, predict_batch(trial, batch, batch_idx));
        int rc = engine->check(err);
        engine->end();
        if (!rc && out->n != batch_idx + 1)
            rc = det_fail(err, DET_EINVAL, "there is no prediction");
        if (rc)
            return det_wrap(err, "trial %s, predict_batch, batch %lld", trial->name,
                            (long long)batch_idx);
    }
    return err->code ? det_wrap(err, "data to predict") : 0;
}

// The first batch of each rank, the second of each, ...: the order of the dataset.
static int gather(const det_trial *trial, struct parts *p, det_err *err)
{
    if (!trial->ctx->setup.ranks) return 0;
    det_value *mine = det_value_list();
    for (int i = 0; i < p->n; i++)
        det_value_push(mine, det_value_tensor(p->part[i]));
    det_value *all = ranks_gather(&trial->ctx->setup, "predictions", mine, err);
    if (!all) return err->code;
    int longest = det_value_len(det_value_at(all, 0)); // no rank has more than rank 0
    parts_done(p);
    det_scope_begin();
    for (int i = 0; i < longest; i++)
        for (int rank = 0; rank < det_value_len(all); rank++) {
            const det_value *part = det_value_at(det_value_at(all, rank), i);
            if (part) parts_add(p, det_value_as_tensor(part));
        }
    int rc = det_check(err);
    det_scope_end();
    det_value_free(all);
    return rc;
}

static det_tensor *join(const struct parts *p, det_err *err)
{
    if (!p->n) {
        det_fail(err, DET_EINVAL, "the data to predict has no batches");
        return NULL;
    }
    det_scope_begin();
    det_tensor *all = det_ref(det_concat(p->part, p->n, 0));
    int rc = det_check(err);
    det_scope_end();
    if (!rc) return all;
    det_unref(all);
    return NULL;
}

static det_tensor *predict(det_trial *trial, det_loader *loader, det_err *err)
{
    const struct context_setup *setup = &trial->ctx->setup;
    const struct engine_ops *engine = setup->engine;
    struct parts parts = {0};
    det_tensor *all = NULL;
    det_iter *it =
        engine->iter_open(loader, (det_iter_opts){.replicas = setup->size, .rank = setup->rank});
    int rc = engine->check(err);
    context_train_mode(trial->ctx, false);
    bool grad_before = engine->set_grad_enabled(false);
    if (!rc) rc = predict_all(trial, it, &parts, err);
    if (!rc) rc = gather(trial, &parts, err);
    if (!rc) all = join(&parts, err);
    engine->set_grad_enabled(grad_before);
    engine->iter_close(it);
    parts_done(&parts);
    return all;
}

det_tensor *det_predict(det_trainer *trainer, det_trial *trial, det_loader *loader)
{
    det_err err;
    det_tensor *all = NULL;
    if (trainer && trial && loader) {
        all = predict(trial, loader, &err);
        if (!all) {
            dist_fail(trial->ctx->setup.ranks, err.code, err.msg);
            det_raise(err.code, "%s", err.msg);
        }
    }
    det_loader_free(loader);
    return all;
}
