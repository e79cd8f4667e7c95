// Unit attention_f64.c: attention in f64, row by row. Called by op_attention.c; not meant to be
// fast.
#include "tensor/attention.h"

#include <math.h>

// Rows of one batch item.
struct item {
    const struct attention *a;
    int64_t batch;
    double *weight, *grad; // (keys)
    float *factor;         // (keys): of dropout
};

static double *row_of(const struct item *it, const det_tensor *t, int64_t row)
{
    return (double *)t->data + attention_offset(it->a, t, it->batch) + row * t->stride[t->ndim - 2];
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static bool seen(const struct item *it, int64_t query, int64_t key, double *bias)
{
    const struct attention *a = it->a;
    *bias = 0;
    if (a->attr->causal && key > query) return false;
    if (!a->mask) return true;
    int64_t at = attention_offset(a, a->mask, it->batch) + query * attention_mask_stride(a) + key;
    if (a->mask->dtype == DET_BOOL) return ((const uint8_t *)a->mask->data)[at];
    *bias = ((const double *)a->mask->data)[at];
    return true;
}

// Weights of one query and the factors that dropout puts on them. Returns whether the query sees a
// key (NaN among the scores counts).
static bool softmax_row(const struct item *it, int64_t query)
{
    const struct attention *a = it->a;
    const double *q = row_of(it, a->q, query);
    double most = -INFINITY, sum = 0, bias;
    bool nothing = true;
    for (int64_t j = 0; j < a->keys; j++) {
        bool is_seen = seen(it, query, j, &bias);
        it->weight[j] =
            is_seen ? dot(q, row_of(it, a->k, j), a->d) * a->attr->scale + bias : -INFINITY;
        most = fmax(most, it->weight[j]);
        nothing = nothing && it->weight[j] == -INFINITY;
        it->factor[j] = 1;
    }
    for (int64_t j = 0; j < a->keys; j++)
        sum += it->weight[j] = exp(it->weight[j] - most);
    for (int64_t j = 0; j < a->keys; j++)
        it->weight[j] /= sum;
    struct attention_dropout d = attention_dropout_of(a);
    if (d.p > 0) kernels->attention_drop(&d, it->batch * a->queries + query, it->factor, a->keys);
    return !nothing;
}

static bool item_init(struct item *it, const struct attention *a)
{
    it->a = a;
    it->weight = scratch(SCRATCH_C, (size_t)a->keys * 20);
    it->grad = it->weight + a->keys;
    it->factor = (float *)(void *)(it->grad + a->keys);
    return it->weight;
}

int attention_forward_f64(const struct attention *a)
{
    struct item it;
    if (!item_init(&it, a)) return DET_ENOMEM;
    for (it.batch = 0; it.batch < a->n_batch; it.batch++)
        for (int64_t i = 0; i < a->queries; i++) {
            double *out = row_of(&it, a->out, i);
            softmax_row(&it, i);
            memset(out, 0, (size_t)a->e * sizeof *out);
            for (int64_t j = 0; j < a->keys; j++) {
                const double *v = row_of(&it, a->v, j), w = it.weight[j] * (double)it.factor[j];
                for (int64_t e = 0; e < a->e; e++)
                    out[e] += w * v[e];
            }
        }
    return 0;
}

static void backward_row(const struct item *it, int64_t query)
{
    const struct attention *a = it->a;
    const double *g = row_of(it, a->g, query), *q = row_of(it, a->q, query);
    double *gq = row_of(it, a->gq, query), mean = 0, *g_mask = NULL;
    if (a->g_mask) g_mask = (double *)a->g_mask->data + (it->batch * a->queries + query) * a->keys;
    if (!softmax_row(it, query)) {
        if (g_mask) memset(g_mask, 0, (size_t)a->keys * sizeof *g_mask);
        return;
    }
    for (int64_t j = 0; j < a->keys; j++) {
        it->grad[j] = dot(g, row_of(it, a->v, j), a->e) * (double)it->factor[j];
        mean += it->weight[j] * it->grad[j];
    }
    for (int64_t j = 0; j < a->keys; j++) {
        double gs = it->weight[j] * (it->grad[j] - mean), *gk = row_of(it, a->gk, j);
        double *gv = row_of(it, a->gv, j), *k = row_of(it, a->k, j);
        if (g_mask) g_mask[j] = gs;
        for (int64_t e = 0; e < a->e; e++)
            gv[e] += it->weight[j] * (double)it->factor[j] * g[e];
        for (int64_t d = 0; d < a->d; d++) {
            gk[d] += gs * a->attr->scale * q[d];
            gq[d] += gs * a->attr->scale * k[d];
        }
    }
}

int attention_backward_f64(const struct attention *a)
{
    struct item it;
    if (!item_init(&it, a)) return DET_ENOMEM;
    for (it.batch = 0; it.batch < a->n_batch; it.batch++)
        for (int64_t i = 0; i < a->queries; i++)
            backward_row(&it, i);
    return 0;
}
