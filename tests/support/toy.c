// Unit toy.c: the tensors, models and data of the toy engine, and its table.
#include "support/toy.h"

#include "base/mem.h"
#include "base/rng.h"
#include "support/toy_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct toy_counts toy_counts;

// --- steps and random numbers

static struct toy_rng rng;
static bool grad_off;
static det_tensor *of_batch; // those that end with it
static det_warning_handler warning;

struct toy_rng *toy_rng(void)
{
    return &rng;
}

double toy_draw(void)
{
    return rng_unit(rng.seed, rng.step, rng.op++);
}

static void seed(uint64_t value)
{
    rng = (struct toy_rng){.seed = value};
}

static void begin(uint64_t step)
{
    rng.step = step;
    rng.op = 0;
}

static void tensor_unref(det_tensor *t)
{
    if (!t || --t->refs) return;
    toy_counts.tensors--;
    free(t->value);
    free(t->slope);
    free(t);
}

static void end(void)
{
    while (of_batch) {
        det_tensor *t = of_batch;
        of_batch = t->next;
        tensor_unref(t);
    }
}

static bool set_grad_enabled(bool on)
{
    bool before = !grad_off;
    grad_off = !on;
    return before;
}

bool toy_grad_enabled(void)
{
    return !grad_off;
}

static det_warning_handler set_warning_handler(det_warning_handler handler)
{
    det_warning_handler before = warning;
    warning = handler;
    return before;
}

// --- tensors

static det_tensor *tensor_new(int n, det_module *model)
{
    det_tensor *t = xcalloc(1, sizeof *t);
    t->refs = 1;
    t->n = n;
    t->value = xcalloc((size_t)n + 1, sizeof *t->value);
    t->model = grad_off ? NULL : model;
    if (t->model) t->slope = xcalloc((size_t)model->n, sizeof *t->slope);
    toy_counts.tensors++;
    return t;
}

det_tensor *toy_tensor(int n, det_module *model)
{
    if (sticky_failed()) return NULL;
    det_tensor *t = tensor_new(n, model);
    t->next = of_batch;
    return of_batch = t;
}

static void backward(det_tensor *loss, det_backward_opts opts)
{
    (void)opts;
    if (sticky_failed()) return;
    if (!loss || !loss->model) {
        det_raise(DET_EINVAL, "backward: this has no gradient");
        return;
    }
    loss->model->has_grad = true;
    for (int i = 0; i < loss->model->n; i++)
        loss->model->grad[i] += loss->slope[i];
}

// --- metrics

static int scalar(det_tensor *value, double *number, det_tensor **kept, det_err *err)
{
    (void)number;
    if (value->n != 1)
        return det_fail(err, DET_ESHAPE, "has %d values, not a single number", value->n);
    *kept = tensor_new(1, NULL);
    (*kept)->value[0] = value->value[0];
    toy_counts.kept++;
    return 0;
}

static int read_kept(det_tensor *const *kept, int64_t n, double *out, det_err *err)
{
    toy_counts.read_calls++;
    for (int64_t i = 0; i < n; i++)
        out[i] = kept[i]->value[0];
    return det_ok(err);
}

// --- data

static double sample(const det_loader *l, int64_t index, int column)
{
    return l->is_ones ? 1 : rng_unit(99, (uint64_t)index, (uint64_t)column) * 2 - 1;
}

struct det_iter {
    const det_loader *loader;
    det_iter_opts opts;
    int64_t at; // batches given out
    det_value *batch;
};

static int64_t loader_length(const det_loader *l)
{
    return (l->samples + l->batch - 1) / l->batch;
}

static int64_t loader_batch_size(const det_loader *l)
{
    return l->batch;
}

static void loader_seed(det_loader *l, uint64_t value)
{
    if (!l->seed) l->seed = value;
}

static void loader_free(det_loader *l)
{
    toy_counts.loaders--;
    free(l);
}

static det_iter *iter_open(det_loader *loader, det_iter_opts opts)
{
    det_iter *it = xcalloc(1, sizeof *it);
    it->loader = loader;
    it->opts = opts;
    if (!it->opts.replicas) it->opts.replicas = 1;
    it->at = opts.skip;
    toy_counts.iterators++;
    return it;
}

static void iter_close(det_iter *it)
{
    if (!it) return;
    toy_counts.iterators--;
    det_value_free(it->batch);
    free(it);
}

// An order that is a function of seed, epoch and place: each place is exchanged with an earlier
// one.
static int64_t sample_at(const det_loader *l, uint64_t epoch, int64_t place)
{
    if (!l->shuffle) return place;
    int64_t *order = xcalloc((size_t)l->samples, sizeof *order);
    for (int64_t i = 0; i < l->samples; i++) {
        int64_t j = (int64_t)rng_below(l->seed, epoch, (uint64_t)i, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    int64_t found = order[place];
    free(order);
    return found;
}

static void batch_free(void *object)
{
    struct toy_batch *b = object;
    free(b->x);
    free(b->y);
    free(b->number);
    free(b);
}

static void batch_keep(void *object)
{
    (void)object;
    abort(); // batches are not kept
}

static const struct object_type batch_type = {"toy batch", DET_KIND_OBJECT, batch_keep, batch_free};

const struct toy_batch *toy_batch_of(const det_value *batch)
{
    return value_as_object(batch, &batch_type);
}

static struct toy_batch *batch_new(const det_loader *l, uint64_t epoch, int64_t first, int64_t n)
{
    struct toy_batch *b = xcalloc(1, sizeof *b);
    size_t f = (size_t)l->features;
    b->n = n;
    b->features = l->features;
    b->x = xcalloc((size_t)n * f, sizeof *b->x);
    b->y = xcalloc((size_t)n, sizeof *b->y);
    b->number = xcalloc((size_t)n, sizeof *b->number);
    for (int64_t i = 0; i < n; i++) {
        int64_t index = sample_at(l, epoch, first + i);
        b->number[i] = index;
        b->y[i] = sample(l, index, l->features);
        for (int k = 0; k < l->features; k++)
            b->x[(size_t)i * f + (size_t)k] = sample(l, index, k);
    }
    return b;
}

// Batches of all ranks follow each other; those of a rank are every replicas-th.
static const det_value *iter_next(det_iter *it, det_err *err)
{
    const det_loader *l = it->loader;
    int64_t n_batches = loader_length(l), limit = it->opts.limit * it->opts.replicas;
    if (limit && limit < n_batches) n_batches = limit;
    int64_t at = it->at++ * it->opts.replicas + it->opts.rank;
    det_ok(err);
    det_value_free(it->batch);
    it->batch = NULL;
    if (at >= n_batches && !it->opts.repeat) return NULL;
    int64_t first = at % n_batches * l->batch, left = l->samples - first;
    struct toy_batch *b = batch_new(l, it->opts.epoch + (uint64_t)(at / n_batches), first,
                                    left < l->batch ? left : l->batch);
    return it->batch = value_object_take(&batch_type, b);
}

static int64_t batch_length(const det_value *batch, det_err *err)
{
    (void)err;
    return toy_batch_of(batch)->n;
}

// --- models

static void model_train(det_module *model, bool training)
{
    model->training = training;
}

static void model_autocast(det_module *model, bool on)
{
    model->low_precision = on;
}

static void model_describe(const det_module *model, struct buf *out)
{
    buf_printf(out, "Toy: %d parameters\n", model->n);
}

static void model_free(det_module *model)
{
    if (!model) return;
    toy_counts.models--;
    free(model->weight);
    free(model->grad);
    free(model);
}

// --- gradients

// Calls change for each gradient of an optimizer.
static void for_each_grad(det_optimizer *opt, void (*change)(double *grad, double arg), double arg)
{
    for (int k = 0; k < opt->n_models; k++)
        for (int i = 0; i < opt->model[k]->n; i++)
            change(&opt->model[k]->grad[i], arg);
}

static void multiply(double *grad, double factor)
{
    *grad *= factor;
}

static void cut(double *grad, double limit)
{
    *grad = fmax(-limit, fmin(limit, *grad));
}

static void scale_grads(det_optimizer *opt, double factor)
{
    for_each_grad(opt, multiply, factor);
}

static double clip_norm(det_optimizer *opt, double max_norm)
{
    double sum = 0;
    for (int k = 0; k < opt->n_models; k++)
        for (int i = 0; i < opt->model[k]->n; i++)
            sum += opt->model[k]->grad[i] * opt->model[k]->grad[i];
    double norm = sqrt(sum);
    scale_grads(opt, fmin(1, max_norm / (norm + 1e-6)));
    return norm;
}

static void clip_value(det_optimizer *opt, double limit)
{
    for_each_grad(opt, cut, limit);
}

static void zero_grad(det_optimizer *opt)
{
    for (int k = 0; k < opt->n_models; k++) {
        memset(opt->model[k]->grad, 0, (size_t)opt->model[k]->n * sizeof(double));
        opt->model[k]->has_grad = false;
    }
}

static int n_params_outside(const det_optimizer *opt, det_module *const *models, int n_models)
{
    int n = 0;
    for (int k = 0; k < opt->n_models; k++) {
        bool found = false;
        for (int i = 0; i < n_models; i++)
            found |= models[i] == opt->model[k];
        if (!found) n += opt->model[k]->n;
    }
    return n;
}

// --- scaling

static det_scaler *scaler_new(void)
{
    det_scaler *s = xcalloc(1, sizeof *s);
    *s = (det_scaler){.scale = 65536, .interval = 2000};
    return s;
}

static void scaler_free(det_scaler *s)
{
    free(s);
}

static det_tensor *scale_loss(det_scaler *s, det_tensor *loss)
{
    det_tensor *t = loss ? toy_tensor(1, loss->model) : NULL;
    if (!t) return NULL;
    t->value[0] = loss->value[0] * s->scale;
    for (int i = 0; t->slope && i < loss->model->n; i++)
        t->slope[i] = (double)(float)(loss->slope[i] * s->scale); // floats can be infinite
    return t;
}

static void unscale_grads(det_scaler *s, det_optimizer *opt)
{
    if (!s || opt->unscaled) return;
    scale_grads(opt, 1 / s->scale);
    opt->unscaled = true;
    opt->overflowed = false;
    for (int k = 0; k < opt->n_models; k++)
        for (int i = 0; i < opt->model[k]->n; i++)
            opt->overflowed |= !isfinite(opt->model[k]->grad[i]);
}

static void scaler_again(det_scaler *s, const det_optimizer *opt)
{
    (void)s;
    ((det_optimizer *)(uintptr_t)opt)->unscaled = false;
}

static void scaler_update(det_scaler *s)
{
    if (s->overflowed) {
        s->scale /= 2;
        s->n_good = 0;
    } else if (++s->n_good == s->interval) {
        s->scale *= 2;
        s->n_good = 0;
    }
    s->overflowed = false;
}

// --- steps

static void warn(const char *text)
{
    if (warning.fn) warning.fn(text, warning.user);
}

static void step_model(det_optimizer *opt, det_module *model, double *velocity)
{
    for (int i = 0; i < model->n; i++) {
        double g = model->grad[i];
        if (velocity) g = velocity[i] = opt->momentum * velocity[i] + g;
        model->weight[i] -= opt->lr * g;
    }
}

static bool optim_step(det_scaler *s, det_optimizer *opt)
{
    if (sticky_failed()) return false;
    if (s) {
        unscale_grads(s, opt);
        opt->unscaled = false;
        s->overflowed |= opt->overflowed;
        if (opt->overflowed) return false;
    }
    bool any = false;
    for (int k = 0; k < opt->n_models; k++) {
        any |= opt->model[k]->has_grad;
        step_model(opt, opt->model[k], k ? NULL : opt->velocity);
    }
    if (!any && !opt->warned) warn("a step of SGD changes nothing: nothing has a gradient");
    opt->warned |= !any;
    return true;
}

static void optim_free(det_optimizer *opt)
{
    if (!opt) return;
    toy_counts.optimizers--;
    free(opt->velocity);
    free(opt);
}

static void lr_step(det_lr_scheduler *s)
{
    s->step++;
    s->opt->lr = s->rate(s);
}

static bool lr_wants_metric(const det_lr_scheduler *s)
{
    return !s->rate;
}

static det_optimizer *lr_optimizer(const det_lr_scheduler *s)
{
    return s->opt;
}

static void lr_free(det_lr_scheduler *s)
{
    free(s);
}

// --- predictions

static det_tensor *forward(det_module *model, const det_value *batch)
{
    return toy_forward(model, toy_batch_of(batch));
}

det_tensor *toy_forward(det_module *model, const struct toy_batch *b)
{
    det_tensor *t = toy_tensor((int)b->n, NULL);
    for (int64_t i = 0; t && i < b->n; i++)
        for (int k = 0; k < model->n; k++)
            t->value[i] += model->weight[k] * b->x[i * b->features + k];
    return t;
}

static det_value *prediction_keep(det_tensor *t)
{
    return t ? toy_block_value(t->value, t->n) : NULL;
}

static det_tensor *prediction_join(const det_value *parts)
{
    int n = 0;
    for (int i = 0; i < det_value_len(parts); i++)
        n += toy_block_of(det_value_at(parts, i))->n;
    det_tensor *all = tensor_new(n, NULL);
    n = 0;
    for (int i = 0; i < det_value_len(parts); i++) {
        const struct toy_block *b = toy_block_of(det_value_at(parts, i));
        memcpy(all->value + n, b->value, (size_t)b->n * sizeof *b->value);
        n += b->n;
    }
    return all;
}

// --- ranks

static int mean_grads(det_optimizer *opt, struct dist *ranks, det_err *err)
{
    if (sticky_failed()) return 0;
    det_module *m = opt->model[0];
    return dist_all_reduce(ranks, "gradients", m->grad, (size_t)m->n, DIST_F64, DIST_MEAN, err);
}

static int share_model(det_module *m, bool buffers_only, struct dist *ranks, det_err *err)
{
    int rc = dist_broadcast(ranks, "buffer", 0, &m->n_seen, sizeof m->n_seen, err);
    if (rc || buffers_only) return rc;
    return dist_broadcast(ranks, "model", 0, m->weight, (size_t)m->n * sizeof *m->weight, err);
}

const det_engine toy_engine = {
    .name = "toy",
    .seed = seed,
    .begin = begin,
    .end = end,
    .set_grad_enabled = set_grad_enabled,
    .set_warning_handler = set_warning_handler,
    .loader_length = loader_length,
    .loader_batch_size = loader_batch_size,
    .loader_seed = loader_seed,
    .loader_free = loader_free,
    .iter_open = iter_open,
    .iter_next = iter_next,
    .iter_close = iter_close,
    .batch_length = batch_length,
    .model_train = model_train,
    .model_autocast = model_autocast,
    .model_describe = model_describe,
    .model_free = model_free,
    .backward = backward,
    .scaler_new = scaler_new,
    .scale_loss = scale_loss,
    .unscale_grads = unscale_grads,
    .scaler_again = scaler_again,
    .scaler_update = scaler_update,
    .scaler_free = scaler_free,
    .scale_grads = scale_grads,
    .n_params_outside = n_params_outside,
    .clip_norm = clip_norm,
    .clip_value = clip_value,
    .optim_step = optim_step,
    .zero_grad = zero_grad,
    .optim_free = optim_free,
    .lr_step = lr_step,
    .lr_wants_metric = lr_wants_metric,
    .lr_optimizer = lr_optimizer,
    .lr_free = lr_free,
    .scalar = scalar,
    .read_kept = read_kept,
    .kept_free = tensor_unref,
    .forward = forward,
    .prediction_keep = prediction_keep,
    .prediction_join = prediction_join,
    .model_state = toy_model_state,
    .model_load = toy_model_load,
    .grads_state = toy_grads_state,
    .grads_load = toy_grads_load,
    .optim_state = toy_optim_state,
    .optim_load = toy_optim_load,
    .lr_state = toy_lr_state,
    .lr_load = toy_lr_load,
    .scaler_state = toy_scaler_state,
    .scaler_load = toy_scaler_load,
    .rng_state = toy_rng_state,
    .rng_load = toy_rng_load,
    .snapshot = toy_snapshot,
    .save = toy_save,
    .load = toy_load,
    .mean_grads = mean_grads,
    .share_model = share_model,
    .pack = toy_pack,
    .unpack = toy_unpack,
};
