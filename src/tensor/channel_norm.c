// Unit channel_norm.c: statistics, forward and backward of normalisation per channel. Called by
// op_channel_norm.c. Everything per channel is f64 here; kernels get it rounded.
#include "tensor/channel_norm.h"

#include "tensor/elementwise.h"
#include <math.h>

static struct sets channel_sets(const struct node *n)
{
    const det_tensor *x = n->in[NORM_X];
    int64_t groups = NODE_ATTR(n, struct channel_attr)->n_groups, c = x->shape[1];
    struct sets s = {.n = groups ? x->shape[0] : 1, .c = c, .group = groups ? c / groups : 1};
    s.rows = c && s.n ? x->numel / (c * s.n) : 0;
    return s;
}

static int64_t pooled_line(const struct node *n)
{
    return NODE_ATTR(n, struct channel_attr)->pooled ? n->in[NORM_X]->shape[3] : 0;
}

static bool own_statistics(const struct node *n)
{
    const struct channel_attr *a = NODE_ATTR(n, struct channel_attr);
    return a->training || a->n_groups;
}

// x as rows; a copy is kept for backward.
static det_tensor *input_rows(struct node *n)
{
    if (!n->aux[NORM_AUX_X]) n->aux[NORM_AUX_X] = channel_rows(n->in[NORM_X]);
    return n->aux[NORM_AUX_X];
}

// --- statistics

// Mean and sum of squared distances from it of each channel of a set, from those of its blocks.
static void combine_moments(const struct channel_job *j, int64_t set, double *mean, double *m2)
{
    int64_t c = j->sets.c, first = set * j->n_blocks;
    memset(mean, 0, (size_t)c * sizeof *mean);
    memset(m2, 0, (size_t)c * sizeof *m2);
    for (int64_t b = 0; b < j->n_blocks; b++) {
        double share = (double)MIN(j->block_rows, j->sets.rows - b * j->block_rows);
        share /= (double)j->sets.rows;
        for (int64_t i = 0; i < c; i++)
            mean[i] += share * j->first[(first + b) * c + i];
    }
    for (int64_t b = 0; b < j->n_blocks; b++) {
        double rows = (double)MIN(j->block_rows, j->sets.rows - b * j->block_rows);
        for (int64_t i = 0; i < c; i++) {
            double d = j->first[(first + b) * c + i] - mean[i];
            m2[i] += j->second[(first + b) * c + i] + rows * d * d;
        }
    }
}

static void moments_f64(const double *x, const struct sets *s, double *mean, double *m2)
{
    for (int64_t i = 0; i < s->c; i++) {
        mean[i] = m2[i] = 0;
        for (int64_t r = 0; r < s->rows; r++)
            mean[i] += x[r * s->c + i] / (double)s->rows;
        for (int64_t r = 0; r < s->rows; r++)
            m2[i] += (x[r * s->c + i] - mean[i]) * (x[r * s->c + i] - mean[i]);
    }
}

// Statistics of the groups of one set; every channel gets those of its group.
static void store_stats(const struct sets *s, const double *mean, const double *m2, double eps,
                        double *group_mean, double *group_rstd)
{
    double rows = (double)s->rows, elements = rows * (double)s->group;
    for (int64_t first = 0; first < s->c; first += s->group) {
        double m = 0, total = 0;
        for (int64_t i = first; i < first + s->group; i++)
            m += mean[i] / (double)s->group;
        for (int64_t i = first; i < first + s->group; i++)
            total += m2[i] + rows * (mean[i] - m) * (mean[i] - m);
        for (int64_t i = first; i < first + s->group; i++) {
            group_mean[i] = m;
            group_rstd[i] = 1 / sqrt(total / elements + eps);
        }
    }
}

// running = (1 - momentum) * running + momentum * value * factor
static int update_running(struct node *n, int i, const double *value, double factor)
{
    double momentum = NODE_ATTR(n, struct channel_attr)->momentum;
    if (!node_in(n, i)) return 0;
    det_tensor *running = tensor_converted(n->in[i], DET_F64, ROW_MAJOR);
    if (!running) return DET_ENOMEM;
    bool is_copy = running != n->in[i];
    finish_readers(n, i);
    double *r = running->data;
    for (int64_t c = 0; c < running->numel; c++)
        r[c] = (1 - momentum) * r[c] + momentum * factor * value[c];
    if (is_copy) ew_copy(n->in[i], running);
    tensor_touch(n->in[i]);
    tensor_release(running);
    return 0;
}

static int compute_stats(struct node *n)
{
    struct sets s = channel_sets(n);
    det_tensor *x = input_rows(n);
    double *work = scratch(SCRATCH_D, (size_t)(2 * s.c) * sizeof *work);
    if (!x || !work) return DET_ENOMEM;
    double *m2 = work + s.c;
    double *mean = n->aux[NORM_AUX_STATS]->data, *rstd = mean + s.n * s.c;
    struct channel_job j = channel_job_new(&s, x->dtype == DET_BF16, 0);
    j.k.x = x->data;
    if (x->dtype != DET_F64) {
        if (!channel_job_alloc(&j)) return DET_ENOMEM;
        channel_job_stats(&j);
    }
    for (int64_t set = 0; set < s.n; set++) {
        if (x->dtype != DET_F64)
            combine_moments(&j, set, work, m2);
        else
            moments_f64((const double *)x->data + set * s.rows * s.c, &s, work, m2);
        store_stats(&s, work, m2, NODE_ATTR(n, struct channel_attr)->eps, mean + set * s.c,
                    rstd + set * s.c);
    }
    int rc = update_running(n, NORM_RUNNING_MEAN, work, 1);
    return rc ? rc : update_running(n, NORM_RUNNING_VAR, m2, 1 / (double)(s.rows - 1));
}

static int fixed_stats(struct node *n)
{
    det_tensor *mean = tensor_converted(n->in[NORM_RUNNING_MEAN], DET_F64, ROW_MAJOR);
    det_tensor *var = tensor_converted(n->in[NORM_RUNNING_VAR], DET_F64, ROW_MAJOR);
    if (mean && var) {
        double *out = n->aux[NORM_AUX_STATS]->data;
        memcpy(out, mean->data, (size_t)mean->numel * sizeof *out);
        for (int64_t i = 0; i < var->numel; i++)
            out[var->numel + i] =
                1 / sqrt(((const double *)var->data)[i] + NODE_ATTR(n, struct channel_attr)->eps);
    }
    tensor_release(mean);
    tensor_release(var);
    return mean && var ? 0 : DET_ENOMEM;
}

// What was read is in the node now; later changes of it do not matter.
static void forget_input(struct node *n, int i)
{
    if (!node_in(n, i)) return;
    tensor_release(n->in[i]);
    n->in[i] = NULL;
    n->in_wants[i] = false;
}

int channel_norm_prepare(struct node *n)
{
    struct sets s = channel_sets(n);
    n->aux[NORM_AUX_STATS] = tensor_new(DET_F64, (const int64_t[]){2, s.n, s.c}, 3);
    if (!n->aux[NORM_AUX_STATS]) return DET_ENOMEM;
    int rc = 0;
    if (own_statistics(n)) {
        tensor_finish(n->in[NORM_X]);
        if (sticky_failed()) return DET_ESTATE;
        if (n->in[NORM_X]->numel) rc = compute_stats(n);
    } else {
        rc = fixed_stats(n);
    }
    forget_input(n, NORM_RUNNING_MEAN);
    forget_input(n, NORM_RUNNING_VAR);
    return rc;
}

// --- forward

// What kernels want per (set, channel), from the f64 statistics.
struct channel_params {
    double *sum_g, *sum_gx;
    float *mean, *scale, *bias; // y = (x - mean) * scale + bias
    float *shift, *slope;
};

static bool params_init(const struct node *n, const struct sets *s, const double *weight,
                        const double *bias, struct channel_params *p)
{
    int64_t all = s->n * s->c;
    const double *mean = n->aux[NORM_AUX_STATS]->data, *rstd = mean + all;
    p->sum_g = scratch(SCRATCH_D, (size_t)all * (2 * sizeof(double) + 5 * sizeof(float)));
    if (!p->sum_g) return false;
    p->sum_gx = p->sum_g + all;
    p->mean = (float *)(void *)(p->sum_gx + all);
    p->scale = p->mean + all;
    p->bias = p->scale + all;
    p->shift = p->bias + all;
    p->slope = p->shift + all;
    for (int64_t i = 0; i < all; i++) {
        double scale = rstd[i] * (weight ? weight[i % s->c] : 1), b = bias ? bias[i % s->c] : 0;
        p->mean[i] = (float)mean[i];
        p->scale[i] = (float)scale;
        p->bias[i] = (float)(b + ((double)p->mean[i] - mean[i]) * scale); // what rounding took away
    }
    return true;
}

static void forward_f64(const struct node *n, const struct sets *s, const double *x,
                        const double *weight, const double *bias)
{
    const double *mean = n->aux[NORM_AUX_STATS]->data, *rstd = mean + s->n * s->c;
    double *y = n->out[0]->data;
    for (int64_t i = 0; i < n->out[0]->numel; i++) {
        int64_t c = i % s->c, at = i / (s->rows * s->c) * s->c + c;
        y[i] = (x[i] - mean[at]) * rstd[at] * (weight ? weight[c] : 1) + (bias ? bias[c] : 0);
    }
}

static const double *numbers(const det_tensor *t)
{
    return t ? t->data : NULL;
}

// Weight or bias as f64, NULL if there is none. Release it.
static det_tensor *channel_values(const struct node *n, int i)
{
    return node_in(n, i) ? tensor_converted(n->in[i], DET_F64, ROW_MAJOR) : NULL;
}

static det_tensor *winner_of(struct node *n)
{
    det_tensor **winner = &n->aux[NORM_AUX_WINNER];
    if (!*winner) *winner = tensor_new_ordered(DET_U8, n->out[0]->shape, 4, CHANNELS_LAST);
    return *winner;
}

int channel_norm_forward(struct node *n)
{
    const struct channel_attr *a = NODE_ATTR(n, struct channel_attr);
    struct sets s = channel_sets(n);
    if (!n->out[0]->numel) return 0;
    det_tensor *x = input_rows(n), *y = n->out[0], *skip = NULL;
    det_tensor *w = channel_values(n, NORM_WEIGHT), *b = channel_values(n, NORM_BIAS);
    struct channel_params p = {0};
    bool ok = x && !sticky_failed() && params_init(n, &s, numbers(w), numbers(b), &p);
    if (ok && node_in(n, NORM_SKIP)) ok = (skip = channel_rows(n->in[NORM_SKIP]));
    if (ok && a->pooled) ok = winner_of(n);
    if (ok && x->dtype == DET_F64) {
        forward_f64(n, &s, x->data, numbers(w), numbers(b));
    } else if (ok) {
        struct channel_job j = channel_job_new(&s, x->dtype == DET_BF16, pooled_line(n));
        j.k.relu = a->relu;
        j.k.winner = a->pooled ? winner_of(n)->data : NULL;
        j.k.x = x->data;
        j.k.skip = skip ? skip->data : NULL;
        j.k.y = y->data;
        j.k.mean = p.mean;
        j.k.scale = p.scale;
        j.k.bias = p.bias;
        channel_job_forward(&j);
    }
    tensor_release(skip);
    tensor_release(w);
    tensor_release(b);
    return ok ? 0 : DET_ENOMEM;
}

// --- backward

// What rounding added to the mean that kernels get.
static double mean_error(const struct node *n, const struct channel_params *p, int64_t i)
{
    return (double)p->mean[i] - ((const double *)n->aux[NORM_AUX_STATS]->data)[i];
}

static void combine_sums(const struct node *n, const struct channel_job *j,
                         const struct channel_params *p)
{
    double *sum_g = p->sum_g, *sum_gx = p->sum_gx;
    int64_t c = j->sets.c;
    memset(sum_g, 0, (size_t)(j->sets.n * c) * sizeof *sum_g);
    memset(sum_gx, 0, (size_t)(j->sets.n * c) * sizeof *sum_gx);
    for (int64_t b = 0; b < j->sets.n * j->n_blocks; b++)
        for (int64_t i = 0, at = b / j->n_blocks * c; i < c; i++) {
            sum_g[at + i] += j->first[b * c + i];
            sum_gx[at + i] += j->second[b * c + i];
        }
    for (int64_t i = 0; i < j->sets.n * c; i++)
        sum_gx[i] += mean_error(n, p, i) * sum_g[i];
}

static void sums_f64(const struct node *n, const struct sets *s, const double *x, const double *g,
                     const struct channel_params *p)
{
    const double *mean = n->aux[NORM_AUX_STATS]->data;
    memset(p->sum_g, 0, (size_t)(2 * s->n * s->c) * sizeof *p->sum_g);
    for (int64_t i = 0; i < n->out[0]->numel; i++) {
        int64_t at = i / (s->rows * s->c) * s->c + i % s->c;
        p->sum_g[at] += g[i];
        p->sum_gx[at] += g[i] * (x[i] - mean[at]);
    }
}

// Gradient of weight (from sums of g * (x - mean) and what these are multiplied by) or of bias.
static void give_channel_grad(struct node *n, int i, const struct sets *s, const double *sum,
                              const double *factor)
{
    if (!wants_grad(n, i)) return;
    det_tensor *g = tensor_new(DET_F64, &s->c, 1);
    if (!g) return;
    double *out = g->data;
    memset(out, 0, (size_t)s->c * sizeof *out);
    for (int64_t at = 0; at < s->n * s->c; at++)
        out[at % s->c] += sum[at] * (factor ? factor[at] : 1);
    give_grad(n, i, g);
}

// The statistics depend on x as well: sum_g and sum_gx become what is added to the gradient of x
// because of the mean (constant within a group) and of the variance (proportional to x - mean).
static void through_statistics(const struct node *n, const struct sets *s, const double *weight,
                               const struct channel_params *p)
{
    const double *rstd = (const double *)n->aux[NORM_AUX_STATS]->data + s->n * s->c;
    double elements = (double)s->rows * (double)s->group;
    bool constant = !own_statistics(n);
    for (int64_t first = 0; first < s->n * s->c; first += s->group) {
        double sum_g = 0, sum_gx = 0, r = rstd[first];
        for (int64_t i = first; i < first + s->group; i++) {
            double w = weight ? weight[i % s->c] : 1;
            sum_g += w * p->sum_g[i];
            sum_gx += w * p->sum_gx[i];
        }
        for (int64_t i = first; i < first + s->group; i++) {
            p->sum_g[i] = constant ? 0 : -r * sum_g / elements;
            p->sum_gx[i] = constant ? 0 : -r * r * r * sum_gx / elements;
            p->shift[i] = (float)(p->sum_g[i] + p->sum_gx[i] * mean_error(n, p, i));
            p->slope[i] = (float)p->sum_gx[i];
        }
    }
}

static void input_grad_f64(const struct node *n, const struct sets *s, const double *x,
                           const double *g, const double *weight, const struct channel_params *p,
                           double *gx)
{
    const double *mean = n->aux[NORM_AUX_STATS]->data, *rstd = mean + s->n * s->c;
    for (int64_t i = 0; i < n->out[0]->numel; i++) {
        int64_t c = i % s->c, at = i / (s->rows * s->c) * s->c + c;
        gx[i] = g[i] * rstd[at] * (weight ? weight[c] : 1) + p->sum_g[at];
        if (p->sum_gx[at] != 0) gx[i] += p->sum_gx[at] * (x[i] - mean[at]);
    }
}

struct channel_grads {
    struct sets sets;
    struct channel_params params;
    struct channel_job job;
    det_tensor *x, *g, *weight, *g_skip;
};

// Sums over rows, and with them the gradients of weight and bias.
static int parameter_grads(struct node *n, struct channel_grads *c)
{
    const double *rstd = (const double *)n->aux[NORM_AUX_STATS]->data + c->sets.n * c->sets.c;
    if (c->x->dtype == DET_F64) {
        sums_f64(n, &c->sets, c->x->data, c->g->data, &c->params);
    } else {
        if (!channel_job_alloc(&c->job)) return DET_ENOMEM;
        channel_job_sums(&c->job);
        combine_sums(n, &c->job, &c->params);
    }
    give_channel_grad(n, NORM_BIAS, &c->sets, c->params.sum_g, NULL);
    give_channel_grad(n, NORM_WEIGHT, &c->sets, c->params.sum_gx, rstd);
    return 0;
}

static int input_grad(struct node *n, struct channel_grads *c)
{
    if (!wants_grad(n, NORM_X)) return 0;
    det_tensor *gx = channel_rows_new(c->x);
    if (!gx) return DET_ENOMEM;
    through_statistics(n, &c->sets, numbers(c->weight), &c->params);
    if (c->x->dtype == DET_F64) {
        input_grad_f64(n, &c->sets, c->x->data, c->g->data, numbers(c->weight), &c->params,
                       gx->data);
    } else {
        c->job.k.gx = gx->data;
        c->job.k.shift = c->params.shift;
        c->job.k.slope = c->params.slope;
        if (c->g_skip) { // the relu is behind us
            c->job.k.g = c->g_skip->data;
            c->job.k.relu = false;
        }
        channel_job_backward(&c->job);
    }
    give_grad(n, NORM_X, gx);
    return 0;
}

static int grads_init(struct node *n, struct channel_grads *c)
{
    bool has_skip = node_in(n, NORM_SKIP);
    c->sets = channel_sets(n);
    c->x = input_rows(n);
    c->g = channel_rows(out_grad(n, 0));
    c->weight = channel_values(n, NORM_WEIGHT);
    det_tensor *bias = channel_values(n, NORM_BIAS);
    bool ok = c->x && c->g && !sticky_failed();
    ok = ok && params_init(n, &c->sets, numbers(c->weight), numbers(bias), &c->params);
    tensor_release(bias);
    if (!ok) return DET_ENOMEM;
    c->job = channel_job_new(&c->sets, c->x->dtype == DET_BF16, pooled_line(n));
    c->job.k.relu = NODE_ATTR(n, struct channel_attr)->relu;
    if (has_skip && c->job.k.relu && !(c->g_skip = channel_rows_new(c->x))) return DET_ENOMEM;
    c->job.k.x = c->x->data;
    c->job.k.y = n->out[0]->data;
    c->job.k.winner = c->job.k.pooled_line ? n->aux[NORM_AUX_WINNER]->data : NULL;
    c->job.k.g = c->g->data;
    c->job.k.g_skip = c->g_skip ? c->g_skip->data : NULL;
    c->job.k.mean = c->params.mean;
    c->job.k.scale = c->params.scale;
    c->job.k.bias = c->params.bias;
    return 0;
}

int channel_norm_backward(struct node *n)
{
    struct channel_grads c = {0};
    int rc = grads_init(n, &c);
    if (!rc) rc = parameter_grads(n, &c);
    if (!rc) rc = input_grad(n, &c);
    if (!rc && wants_grad(n, NORM_SKIP))
        give_grad(n, NORM_SKIP, tensor_ref(c.g_skip ? c.g_skip : c.g));
    tensor_release(c.g);
    tensor_release(c.weight);
    tensor_release(c.g_skip);
    return rc;
}
