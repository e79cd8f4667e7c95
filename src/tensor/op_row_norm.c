// Unit op_row_norm.c: layer_norm and rms_norm: rows brought to mean 0 and variance 1 (rms_norm: to
// mean square 1), then scaled and shifted.
#include "tensor/ops.h"

#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include <math.h>

enum {
    PIECE = 16 << 10, // elements
    PIECE_ROWS = 32,  // at least: each piece sums the gradients of weight and bias on its own
};

struct row_attr {
    int64_t n_dims;
    double eps;
};

enum { IN_X, IN_WEIGHT, IN_BIAS };
enum { AUX_STATS, AUX_X }; // (rows, 2): mean and 1 / sqrt(variance + eps); x, row-major

struct row_job {
    struct row_norm k; // of all rows
    int64_t piece_rows;
    int n_pieces;
    float *partial; // (pieces, 2, d): gradients of weight and bias
};

static bool is_rms(const struct node *n)
{
    return n->op == &op_rms_norm;
}

// Elements of a row.
static int64_t row_size(const struct node *n)
{
    int64_t d = 1;
    for (int i = 1; i <= NODE_ATTR(n, struct row_attr)->n_dims; i++)
        d *= n->in[IN_X]->shape[n->in[IN_X]->ndim - i];
    return d;
}

static det_tensor *input_rows(struct node *n)
{
    if (!n->aux[AUX_X]) n->aux[AUX_X] = tensor_row_major(n->in[IN_X]);
    return n->aux[AUX_X];
}

// Weight or bias in the type that kernels want, or as many times `missing`. Release it.
static det_tensor *row_values(const struct node *n, int i, int64_t d, det_dtype dtype,
                              double missing)
{
    if (node_in(n, i)) return tensor_converted(n->in[i], dtype, ROW_MAJOR);
    return tensor_ref(det_full(dtype, &d, 1, missing));
}

// --- f64

struct row_f64 {
    int64_t rows, d;
    bool rms;
    double eps;
    const double *x, *weight, *bias, *g;
    double *y, *stats, *gx, *g_weight, *g_bias;
};

static void forward_f64(const struct row_f64 *k)
{
    for (int64_t r = 0; r < k->rows; r++) {
        const double *x = k->x + r * k->d;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < k->d && !k->rms; i++)
            mean += x[i];
        mean /= (double)k->d;
        for (int64_t i = 0; i < k->d; i++)
            var += (x[i] - mean) * (x[i] - mean);
        double rstd = 1 / sqrt(var / (double)k->d + k->eps);
        k->stats[2 * r] = mean;
        k->stats[2 * r + 1] = rstd;
        for (int64_t i = 0; i < k->d; i++)
            k->y[r * k->d + i] = (x[i] - mean) * rstd * k->weight[i] + k->bias[i];
    }
}

static void backward_f64(const struct row_f64 *k)
{
    for (int64_t r = 0; r < k->rows; r++) {
        const double *x = k->x + r * k->d, *g = k->g + r * k->d;
        double mean = k->stats[2 * r], rstd = k->stats[2 * r + 1], shift = 0, slope = 0;
        for (int64_t i = 0; i < k->d; i++) {
            double h = (x[i] - mean) * rstd, gw = g[i] * k->weight[i];
            k->g_weight[i] += g[i] * h;
            k->g_bias[i] += g[i];
            shift += k->rms ? 0 : gw;
            slope += gw * h;
        }
        shift /= (double)k->d;
        slope /= (double)k->d;
        for (int64_t i = 0; i < k->d && k->gx; i++)
            k->gx[r * k->d + i] =
                (g[i] * k->weight[i] - shift - (x[i] - mean) * rstd * slope) * rstd;
    }
}

// --- f32 and bf16

static const void *skip_elements(const void *p, bool bf16, int64_t n)
{
    return p ? (const char *)p + n * (bf16 ? 2 : 4) : NULL;
}

static struct row_norm piece_of(const struct row_job *j, int piece)
{
    struct row_norm k = j->k;
    int64_t row = piece * j->piece_rows, at = row * k.d;
    k.rows = MIN(j->piece_rows, k.rows - row);
    k.x = skip_elements(k.x, k.bf16, at);
    k.y = (void *)(uintptr_t)skip_elements(k.y, k.bf16, at);
    k.g = skip_elements(k.g, k.bf16, at);
    k.gx = (void *)(uintptr_t)skip_elements(k.gx, k.bf16, at);
    k.stats += 2 * row;
    return k;
}

static void forward_piece(void *ctx, int piece)
{
    struct row_norm k = piece_of(ctx, piece);
    kernels->row_norm_forward(&k);
}

static void backward_piece(void *ctx, int piece)
{
    const struct row_job *j = ctx;
    struct row_norm k = piece_of(j, piece);
    k.g_weight = j->partial + (int64_t)piece * 2 * k.d;
    k.g_bias = k.g_weight + k.d;
    memset(k.g_weight, 0, (size_t)(2 * k.d) * sizeof *k.g_weight);
    kernels->row_norm_backward(&k);
}

static void run_pieces(struct row_job *j, pool_fn fn)
{
    if (j->k.rows * j->k.d >= 2 * PIECE)
        pool_run(j->n_pieces, fn, j);
    else
        for (int i = 0; i < j->n_pieces; i++)
            fn(j, i);
}

static struct row_job job_new(struct node *n, const det_tensor *x, const det_tensor *weight)
{
    int64_t d = row_size(n);
    struct row_job j = {.piece_rows = MAX((int64_t)PIECE_ROWS, PIECE / d)};
    j.k = (struct row_norm){.rows = x->numel / d,
                            .d = d,
                            .bf16 = x->dtype == DET_BF16,
                            .rms = is_rms(n),
                            .eps = (float)NODE_ATTR(n, struct row_attr)->eps,
                            .weight = weight->data,
                            .x = x->data,
                            .stats = n->aux[AUX_STATS]->data};
    j.n_pieces = (int)divide_up(j.k.rows, j.piece_rows);
    return j;
}

// --- the operation

static int row_infer(struct node *n)
{
    const det_tensor *x = n->in[IN_X];
    struct row_attr *a = NODE_ATTR(n, struct row_attr);
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    if (a->n_dims < 1 || a->n_dims > x->ndim)
        return node_fail(n, DET_ESHAPE, "over %lld dims of %s", (long long)a->n_dims,
                         TENSOR_TEXT(x));
    const int64_t *row_shape = x->shape + x->ndim - a->n_dims;
    for (int i = IN_WEIGHT; i < n->n_in; i++) {
        const det_tensor *t = n->in[i];
        if (!t) continue;
        if (t->ndim != a->n_dims || !dtype_is_float((det_dtype)t->dtype) ||
            memcmp(t->shape, row_shape, (size_t)a->n_dims * sizeof *row_shape) != 0)
            return node_fail(
                n, DET_ESHAPE, "%s is %s %s, wants floats for the last %lld dims of %s",
                i == IN_WEIGHT ? "weight" : "bias", TENSOR_TEXT(t),
                det_dtype_name((det_dtype)t->dtype), (long long)a->n_dims, TENSOR_TEXT(x));
    }
    if (row_size(n) > INT32_MAX)
        return node_fail(n, DET_ESHAPE, "rows of %lld elements", (long long)row_size(n));
    if (!a->eps) a->eps = 1e-5;
    return node_out(n, (det_dtype)x->dtype, x->shape, x->ndim);
}

static det_dtype stats_type(const det_tensor *x)
{
    return x->dtype == DET_F64 ? DET_F64 : DET_F32;
}

static int row_forward(struct node *n)
{
    det_tensor *x = input_rows(n), *y = n->out[0];
    if (!x) return DET_ENOMEM;
    if (!y->numel) return 0;
    int64_t d = row_size(n), rows = x->numel / d;
    det_dtype type = stats_type(x);
    det_tensor *w = row_values(n, IN_WEIGHT, d, type, 1), *b = row_values(n, IN_BIAS, d, type, 0);
    n->aux[AUX_STATS] = tensor_new(type, (const int64_t[]){rows, 2}, 2);
    bool ok = w && b && n->aux[AUX_STATS];
    if (ok && type == DET_F64) {
        forward_f64(&(struct row_f64){.rows = rows,
                                      .d = d,
                                      .rms = is_rms(n),
                                      .eps = NODE_ATTR(n, struct row_attr)->eps,
                                      .x = x->data,
                                      .weight = w->data,
                                      .bias = b->data,
                                      .y = y->data,
                                      .stats = n->aux[AUX_STATS]->data});
    } else if (ok) {
        struct row_job j = job_new(n, x, w);
        j.k.bias = b->data;
        j.k.y = y->data;
        run_pieces(&j, forward_piece);
    }
    tensor_release(w);
    tensor_release(b);
    return ok ? 0 : DET_ENOMEM;
}

struct row_grads {
    det_tensor *g, *w, *gx, *gw, *gb; // gw, gb: rows of their own shape
};

static void sum_pieces(const struct row_job *j, const float *partial, float *out)
{
    int64_t d = j->k.d;
    memset(out, 0, (size_t)d * sizeof *out);
    struct fold_block b = {
        .src = partial, .rows = j->n_pieces, .width = d, .ld = 2 * d, .out = out};
    kernels->fold_columns(FOLD_sum, false, &b);
}

static int backward_hot(struct node *n, const det_tensor *x, const struct row_grads *r)
{
    struct row_job j = job_new(n, x, r->w);
    int64_t d = j.k.d;
    j.partial = scratch(SCRATCH_C, (size_t)(2 * d * j.n_pieces) * sizeof *j.partial);
    if (!j.partial) return DET_ENOMEM;
    j.k.g = r->g->data;
    j.k.gx = r->gx ? r->gx->data : NULL;
    run_pieces(&j, backward_piece);
    sum_pieces(&j, j.partial, r->gw->data);
    sum_pieces(&j, j.partial + d, r->gb->data);
    return 0;
}

static void backward_slow(struct node *n, const det_tensor *x, const struct row_grads *r)
{
    int64_t d = row_size(n);
    memset(r->gw->data, 0, (size_t)d * sizeof(double));
    memset(r->gb->data, 0, (size_t)d * sizeof(double));
    backward_f64(&(struct row_f64){.rows = x->numel / d,
                                   .d = d,
                                   .rms = is_rms(n),
                                   .x = x->data,
                                   .weight = r->w->data,
                                   .g = r->g->data,
                                   .stats = n->aux[AUX_STATS]->data,
                                   .gx = r->gx ? r->gx->data : NULL,
                                   .g_weight = r->gw->data,
                                   .g_bias = r->gb->data});
}

static int row_backward(struct node *n)
{
    det_tensor *x = input_rows(n);
    if (!x) return DET_ENOMEM;
    int dims = (int)NODE_ATTR(n, struct row_attr)->n_dims;
    const int64_t *row_shape = x->shape + x->ndim - dims;
    det_dtype type = stats_type(x);
    struct row_grads r = {.g = tensor_row_major(out_grad(n, 0)),
                          .w = row_values(n, IN_WEIGHT, row_size(n), type, 1),
                          .gw = tensor_new(type, row_shape, dims),
                          .gb = tensor_new(type, row_shape, dims)};
    if (wants_grad(n, IN_X)) r.gx = tensor_new((det_dtype)x->dtype, x->shape, x->ndim);
    int rc = r.g && r.w && r.gw && r.gb && !sticky_failed() ? 0 : DET_ENOMEM;
    if (!rc && type == DET_F64)
        backward_slow(n, x, &r);
    else if (!rc)
        rc = backward_hot(n, x, &r);
    if (!rc) {
        if (wants_grad(n, IN_X)) give_grad(n, IN_X, tensor_ref(r.gx));
        if (wants_grad(n, IN_WEIGHT)) give_grad(n, IN_WEIGHT, tensor_ref(r.gw));
        if (wants_grad(n, IN_BIAS)) give_grad(n, IN_BIAS, tensor_ref(r.gb));
    }
    tensor_release(r.g);
    tensor_release(r.w);
    tensor_release(r.gx);
    tensor_release(r.gw);
    tensor_release(r.gb);
    return rc;
}

static const struct attr_field row_attrs[] = {
    {"n_dims", ATTR_INT, offsetof(struct row_attr, n_dims)},
    {"eps", ATTR_REAL, offsetof(struct row_attr, eps)},
    {NULL, 0, 0},
};

static const char *const layer_norm_cases[] = {
    "x:f[a,b,C] w:f[C] b:f[C]; n_dims=1 eps=0.001; F.layer_norm(x, w.shape, w, b, eps)",
    "x:f[0,C] w:f[C] b:f[C]; n_dims=1; F.layer_norm(x, w.shape, w, b)",
    "x:f[a,b,C] w:f[b,C] b:f[b,C]; n_dims=2 eps=0.001; F.layer_norm(x, w.shape, w, b, eps)",
    "x:f[A,70] w:f[70] -; n_dims=1; F.layer_norm(x, (70,), w)",
    "x:f[a,3] - -; n_dims=1; F.layer_norm(x, (3,))",
    "x:f[3,50,300] w:f[300] b:f[300]; n_dims=1; F.layer_norm(x, (300,), w, b)",
    NULL};
const struct op op_layer_norm = {.name = "layer_norm",
                                 .min_in = 1,
                                 .max_in = 3,
                                 .saves_in = 1 << IN_X | 1 << IN_WEIGHT,
                                 .infer = row_infer,
                                 .forward = row_forward,
                                 .backward = row_backward,
                                 .attrs = row_attrs,
                                 .cases = layer_norm_cases};

#define RMS(dims) "x * torch.rsqrt(x.pow(2).mean(" dims ", keepdim=True) + eps)"
static const char *const rms_norm_cases[] = {
    "x:f[a,b,C] w:f[C]; n_dims=1 eps=0.001; w * " RMS("-1"),
    "x:f[a,b,C] -; n_dims=2 eps=0.001; " RMS("(-2,-1)"),
    "x:f[3,50,300] w:f[300]; n_dims=1 eps=0.001; w * " RMS("-1"), NULL};
const struct op op_rms_norm = {.name = "rms_norm",
                               .min_in = 1,
                               .max_in = 2,
                               .saves_in = 1 << IN_X | 1 << IN_WEIGHT,
                               .infer = row_infer,
                               .forward = row_forward,
                               .backward = row_backward,
                               .attrs = row_attrs,
                               .cases = rms_norm_cases};

det_tensor *det_layer_norm(det_tensor *x, int n_dims, det_tensor *weight, det_tensor *bias,
                           double eps)
{
    struct row_attr a = {.n_dims = n_dims, .eps = eps};
    return OP_APPLY(&op_layer_norm, a, x, weight, bias);
}

det_tensor *det_rms_norm(det_tensor *x, int n_dims, det_tensor *weight, double eps)
{
    struct row_attr a = {.n_dims = n_dims, .eps = eps};
    return OP_APPLY(&op_rms_norm, a, x, weight);
}
