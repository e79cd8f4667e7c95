// Unit op_reduce.c: many elements become one: sum, mean, max, min, prod, logsumexp, var, std, norm.
// Each is a few folds (reduce.h) and what is done to their results.
#include "base/bf16.h"
#include "tensor/elementwise.h"
#include "tensor/ops.h"
#include "tensor/reduce.h"

#include <math.h>

struct reduce_attr {
    struct dims dims; // none: all
    bool keepdim;
    double correction; // var, std
    double p;          // norm
    unsigned mask;     // bit d: dim d is reduced
    bool everything;   // no dims were given
};

static const struct attr_field reduce_attrs[] = {
    {"dims", ATTR_DIMS, offsetof(struct reduce_attr, dims)},
    {"keepdim", ATTR_BOOL, offsetof(struct reduce_attr, keepdim)},
    {"correction", ATTR_REAL, offsetof(struct reduce_attr, correction)},
    {"p", ATTR_REAL, offsetof(struct reduce_attr, p)},
    {NULL, 0, 0},
};

// --- what they share
// ----------------------------------------------------------------------------------

static int reduce_infer_as(struct node *n, det_dtype dtype)
{
    const det_tensor *x = n->in[0];
    struct reduce_attr *a = NODE_ATTR(n, struct reduce_attr);
    int64_t shape[DET_MAX_DIMS];
    int ndim = 0;
    a->everything = a->dims.n == 0;
    a->mask = a->everything ? (1u << x->ndim) - 1 : 0;
    for (int i = 0; i < a->dims.n; i++) {
        int d, rc = node_dim(n, a->dims.v[i], x->ndim, &d);
        if (rc) return rc;
        if (a->mask >> d & 1) return node_fail(n, DET_ESHAPE, "dim %d is named twice", d);
        a->mask |= 1u << d;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (!(a->mask >> d & 1))
            shape[ndim++] = x->shape[d];
        else if (a->keepdim)
            shape[ndim++] = 1;
    }
    return node_out(n, dtype, shape, ndim);
}

static int sum_infer(struct node *n)
{
    det_dtype dtype = (det_dtype)n->in[0]->dtype;
    return reduce_infer_as(n, dtype_is_float(dtype) ? dtype : DET_I64);
}

static int float_infer(struct node *n)
{
    det_dtype dtype = (det_dtype)n->in[0]->dtype;
    if (!dtype_is_float(dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats", det_dtype_name(dtype));
    return reduce_infer_as(n, dtype);
}

static int extreme_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    int rc = reduce_infer_as(n, (det_dtype)x->dtype);
    unsigned mask = NODE_ATTR(n, struct reduce_attr)->mask;
    for (int d = 0; !rc && d < x->ndim; d++)
        if ((mask >> d & 1) && !x->shape[d])
            rc = node_fail(n, DET_ESHAPE, "no elements to choose from in dim %d of %s", d,
                           TENSOR_TEXT(x));
    return rc;
}

typedef int (*fold_rule)(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc);

// Lets rule fill accumulators from x, which is the input or a copy: output 0 itself if it is of
// that type.
static int reduce_from(struct node *n, det_tensor *x, fold_rule rule)
{
    const struct reduce_attr *a = NODE_ATTR(n, struct reduce_attr);
    det_tensor *out = n->out[0], *acc = NULL;
    det_dtype dtype = fold_dtype((det_dtype)x->dtype);
    struct reduction r;
    int rc = reduction_init(&r, x, a->mask);
    if (rc) goto out;
    acc = out->dtype == dtype ? tensor_ref(out) : tensor_new(dtype, out->shape, out->ndim);
    rc = acc ? rule(a, &r, acc) : DET_ENOMEM;
    if (!rc && acc != out) ew_copy(out, acc);
out:
    tensor_release(acc);
    reduction_done(&r);
    return rc;
}

static int reduce_forward(struct node *n, fold_rule rule)
{
    return reduce_from(n, n->in[0], rule);
}

static void apply(enum unary_id id, det_tensor *t, double a)
{
    ew_run(ew_unary(id, (det_dtype)t->dtype), (det_tensor *const[]){t, t}, 2, (double[]){a, 0});
}

// A tensor shaped like the output, seen with the reduced dims as sizes of 1 (of this scope).
static det_tensor *with_reduced_dims(const struct node *n, det_tensor *t)
{
    const det_tensor *x = n->in[0];
    int64_t shape[DET_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = NODE_ATTR(n, struct reduce_attr)->mask >> d & 1 ? 1 : x->shape[d];
    return det_reshape(t, shape, x->ndim);
}

static int64_t reduced_count(const struct node *n)
{
    int64_t count = 1;
    for (int d = 0; d < n->in[0]->ndim; d++)
        if (NODE_ATTR(n, struct reduce_attr)->mask >> d & 1) count *= n->in[0]->shape[d];
    return count;
}

// Every element gets the gradient of the output that it went into.
static int give_repeated(struct node *n, det_tensor *g)
{
    det_tensor *gx = tensor_new_like(n->in[0]), *source = with_reduced_dims(n, g);
    if (gx && source) ew_copy(gx, source);
    give_grad(n, 0, gx);
    return 0;
}

static struct reduce_attr attr_of(const char *name, const int64_t *dims, int n, bool keepdim)
{
    struct reduce_attr a = {.keepdim = keepdim};
    if (n < 0 || n > DET_MAX_DIMS || (n && !dims))
        det_raise(DET_ESHAPE, "%s: %d dims; a tensor has 0 to %d", name, n, DET_MAX_DIMS);
    else if (n)
        memcpy(a.dims.v, dims, (size_t)(a.dims.n = n) * sizeof *dims);
    return a;
}

#define REDUCE_ROW(fn, row_flags, row_infer, saves_x, saves_y, ...) \
    static int fn##_forward(struct node *n)                         \
    {                                                               \
        return reduce_forward(n, fn##_rule);                        \
    }                                                               \
    ROW_OF(fn, row_flags, row_infer, saves_x, saves_y, __VA_ARGS__)
#define ROW_OF(fn, row_flags, row_infer, saves_x, saves_y, ...)  \
    static const char *const fn##_cases[] = {__VA_ARGS__, NULL}; \
    const struct op op_##fn = {.name = #fn,                      \
                               .min_in = 1,                      \
                               .max_in = 1,                      \
                               .flags = row_flags,               \
                               .saves_in = saves_x,              \
                               .saves_out = saves_y,             \
                               .infer = row_infer,               \
                               .forward = fn##_forward,          \
                               .backward = fn##_backward,        \
                               .attrs = reduce_attrs,            \
                               .cases = fn##_cases};
#define REDUCE_PUBLIC(fn)                                                                \
    det_tensor *det_##fn##_over(det_tensor *x, const int64_t *dims, int n, bool keepdim) \
    {                                                                                    \
        struct reduce_attr a = attr_of(#fn, dims, n, keepdim);                           \
        return OP_APPLY(&op_##fn, a, x);                                                 \
    }                                                                                    \
    det_tensor *det_##fn(det_tensor *x)                                                  \
    {                                                                                    \
        return det_##fn##_over(x, NULL, 0, false);                                       \
    }

// --- sum, mean, prod
// ------------------------------------------------------------------------------------

static int sum_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    (void)a;
    return reduce(r, FOLD_sum, NULL, acc->data);
}

static int sum_backward(struct node *n)
{
    return give_repeated(n, out_grad(n, 0));
}

REDUCE_ROW(sum, 0, sum_infer, 0, 0, "x:f[a,b,c]; dims=0,2; x.sum((0,2))",
           "x:f[a,b,c]; dims=1 keepdim=1; x.sum(1, keepdim=True)", "x:p[a,B,c]; ; x.sum()",
           "x:f[]; ; x.sum()", "x:f[a,b,C]; dims=-1; x.sum(-1)", "x:f[A,B]; dims=0; x.sum(0)",
           "x:f[2,3,4,B]; dims=1,2; x.sum((1,2))", "x:f[1,b,1]; dims=0,2; x.sum((0,2))",
           "x:f[0,b]; dims=0; x.sum(0)", "x:i9[a,b]; dims=1; x.sum(1)", "x:b[a,b]; ; x.sum()",
           "x:f[30,70]; dims=0; x.sum(0)", "x:f[3,200]; dims=1; x.sum(1)",
           "x:f[300,150]; dims=0; x.sum(0)", "x:f[7,9500]; dims=1; x.sum(1)",
           "x:n[a,B]; dims=1; x.sum(1)", "x:p[66000]; ; x.sum()")
REDUCE_PUBLIC(sum)

static int mean_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    (void)a;
    int rc = reduce(r, FOLD_sum, NULL, acc->data);
    if (!rc) apply(UNARY_div_scalar, acc, (double)r->n_reduced);
    return rc;
}

static int mean_backward(struct node *n)
{
    return give_repeated(n, det_div_scalar(out_grad(n, 0), (double)reduced_count(n)));
}

REDUCE_ROW(mean, 0, float_infer, 0, 0, "x:f[a,b,c]; dims=0,2; x.mean((0,2))",
           "x:f[a,b,c]; dims=-2 keepdim=1; x.mean(-2, keepdim=True)", "x:p[a,B,c]; ; x.mean()",
           "x:f[]; ; x.mean()", "x:f[B,A]; dims=0; x.mean(0)", "x:f[0,b]; dims=0; x.mean(0)")
REDUCE_PUBLIC(mean)

static int prod_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    (void)a;
    return reduce(r, FOLD_prod, NULL, acc->data);
}

// g times the product of all others, without dividing: x may be 0.
static void prod_grad_row(const double *x, double g, int64_t count, double *out)
{
    double before = g, after = 1;
    for (int64_t i = 0; i < count; before *= x[i++])
        out[i] = before;
    for (int64_t i = count; i-- > 0; after *= x[i])
        out[i] *= after;
}

static int prod_backward(struct node *n)
{
    det_tensor *x = n->in[0], *flat_x, *flat_g;
    int64_t order[DET_MAX_DIMS], back[DET_MAX_DIMS], count = reduced_count(n);
    int at = 0;
    for (int reduced = 0; reduced < 2; reduced++)
        for (int d = 0; d < x->ndim; d++)
            if ((int)(NODE_ATTR(n, struct reduce_attr)->mask >> d & 1) == reduced) order[at++] = d;
    for (int i = 0; i < at; i++)
        back[order[i]] = i;
    flat_x = det_contiguous(det_to(det_permute(x, order, at), DET_F64));
    flat_g = det_contiguous(det_to(out_grad(n, 0), DET_F64));
    det_tensor *gx = flat_x ? det_empty(DET_F64, flat_x->shape, at) : NULL;
    if (!gx || !flat_g) return DET_ENOMEM;
    for (int64_t i = 0; i < flat_g->numel && count; i++)
        prod_grad_row((double *)flat_x->data + i * count, ((double *)flat_g->data)[i], count,
                      (double *)gx->data + i * count);
    give_grad(n, 0, tensor_ref(det_permute(gx, back, at)));
    return 0;
}

REDUCE_ROW(prod, 0, sum_infer, 1, 0, "x:f[a,b,c]; dims=1; x.prod(1)",
           "x:f[a,b,c]; dims=-1 keepdim=1; x.prod(-1, keepdim=True)", "x:f[a,b]; ; x.prod()",
           "x:f[a,b,c]; dims=0,2; x.prod(2).prod(0)", "x:i3[a,b]; dims=1; x.prod(1)",
           "x:f[0,b]; dims=0; x.prod(0)", "x:n[a,b]; dims=1; x.prod(1)")
REDUCE_PUBLIC(prod)

// --- max, min
// ---------------------------------------------------------------------------------------------

static int max_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    (void)a;
    return reduce(r, FOLD_max, NULL, acc->data);
}

static int min_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    (void)a;
    return reduce(r, FOLD_min, NULL, acc->data);
}

// Elements equal to the result share the gradient. NaN equals nothing, which torch mends only when
// it reduces over everything; so do we.
static int max_backward(struct node *n)
{
    det_tensor *x = n->in[0], *y = with_reduced_dims(n, n->out[0]), *g = out_grad(n, 0);
    bool everything = NODE_ATTR(n, struct reduce_attr)->everything;
    det_tensor *chosen = everything && isnan(det_item(n->out[0])) ? det_isnan(x) : det_eq(x, y);
    det_tensor *share = det_to(chosen, (det_dtype)x->dtype);
    det_tensor *count = det_sum_over(share, NODE_ATTR(n, struct reduce_attr)->dims.v,
                                     NODE_ATTR(n, struct reduce_attr)->dims.n, true);
    share = det_div(det_mul(share, with_reduced_dims(n, g)), count);
    give_grad(n, 0, tensor_ref(share));
    return 0;
}

#define min_backward max_backward

REDUCE_ROW(max, 0, extreme_infer, 1, 1, "x:f[a,b,c]; dims=0,2; x.amax((0,2))",
           "x:f[a,b,c]; dims=1 keepdim=1; x.amax(1, keepdim=True)", "x:f[a,B]; ; x.max()",
           "x:n[a,B]; ; x.max()", "x:n[a,B]; dims=1; x.amax(1)", "x:n[A,b]; dims=0; x.amax(0)",
           "x:i9[a,b]; dims=0; x.amax(0)", "x:b[a,b]; dims=0; x.amax(0)",
           "x:f[7,300]; dims=1; x.amax(1)", "x:f[]; ; x.max()")
REDUCE_PUBLIC(max)
REDUCE_ROW(min, 0, extreme_infer, 1, 1, "x:f[a,b,c]; dims=0,2; x.amin((0,2))",
           "x:f[a,b,c]; dims=1 keepdim=1; x.amin(1, keepdim=True)", "x:f[a,B]; ; x.min()",
           "x:n[a,B]; ; x.min()", "x:n[a,B]; dims=1; x.amin(1)", "x:n[A,b]; dims=0; x.amin(0)",
           "x:i9[a,b]; dims=0; x.amin(0)", "x:f[7,300]; dims=1; x.amin(1)")
REDUCE_PUBLIC(min)

// --- logsumexp
// --------------------------------------------------------------------------------------------

static void infinities_to_zero(det_tensor *t)
{
    for (int64_t i = 0; i < t->numel; i++) {
        if (t->dtype == DET_F64 && isinf(((double *)t->data)[i])) ((double *)t->data)[i] = 0;
        if (t->dtype == DET_F32 && isinf(((float *)t->data)[i])) ((float *)t->data)[i] = 0;
    }
}

// log of the sum of exp(x - max), plus max: nothing overflows.
static int logsumexp_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    (void)a;
    det_tensor *max = tensor_new_like(acc);
    if (!max) return DET_ENOMEM;
    int rc = reduce(r, FOLD_max, NULL, max->data);
    infinities_to_zero(max); // inf - inf would be NaN
    if (!rc) rc = reduce(r, FOLD_sum_exp, &(struct fold_args){.centre = max->data}, acc->data);
    apply(UNARY_log, acc, 0);
    ew_run(ew_binary(BINARY_add, (det_dtype)acc->dtype), (det_tensor *const[]){acc, acc, max}, 3,
           NULL);
    tensor_release(max);
    return rc;
}

static int logsumexp_backward(struct node *n)
{
    det_tensor *y = with_reduced_dims(n, n->out[0]), *g = with_reduced_dims(n, out_grad(n, 0));
    give_grad(n, 0, tensor_ref(det_mul(g, det_exp(det_sub(n->in[0], y)))));
    return 0;
}

REDUCE_ROW(logsumexp, OP_FLOAT, float_infer, 1, 1, "x:f[a,b,c]; dims=0,2; x.logsumexp((0,2))",
           "x:f[a,b,c]; dims=1 keepdim=1; x.logsumexp(1, keepdim=True)",
           "x:f[a,B]; ; x.logsumexp((0,1))", "x:n[a,b]; dims=1; x.logsumexp(1)",
           "x:f[5,90]; dims=1; x.logsumexp(1)", "x:i3[a,b]; dims=1; x.double().logsumexp(1)")
REDUCE_PUBLIC(logsumexp)

// --- var, std
// -----------------------------------------------------------------------------------------------

static int var_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    det_tensor *mean = tensor_new_like(acc);
    if (!mean) return DET_ENOMEM;
    int rc = reduce(r, FOLD_sum, NULL, mean->data);
    apply(UNARY_div_scalar, mean, (double)r->n_reduced);
    if (!rc)
        rc = reduce(r, FOLD_sum_deviation, &(struct fold_args){.centre = mean->data}, acc->data);
    apply(UNARY_div_scalar, acc, MAX((double)r->n_reduced - a->correction, 0));
    tensor_release(mean);
    return rc;
}

static int std_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    int rc = var_rule(a, r, acc);
    if (!rc) apply(UNARY_sqrt, acc, 0);
    return rc;
}

static float value_at(const det_tensor *t, int64_t i)
{
    return t->dtype == DET_BF16 ? bf16_to_f32(((const uint16_t *)t->data)[i])
                                : ((const float *)t->data)[i];
}

// Squares of what f32 can hold may be too large or too small for it. Where a result is not finite,
// or below least, all are computed again, in f64.
static int spread_forward(struct node *n, fold_rule rule, float least)
{
    const det_tensor *out = n->out[0];
    int rc = reduce_forward(n, rule);
    if (rc || out->dtype == DET_F64) return rc;
    for (int64_t i = 0; i < out->numel; i++)
        if (!isfinite(value_at(out, i)) || value_at(out, i) < least) {
            det_tensor *x = tensor_converted(n->in[0], DET_F64, ROW_MAJOR);
            rc = x ? reduce_from(n, x, rule) : DET_ENOMEM;
            tensor_release(x);
            break;
        }
    return rc;
}

static int var_forward(struct node *n)
{
    return spread_forward(n, var_rule, 1e-28F); // of squares that have all of their digits
}

static int std_forward(struct node *n)
{
    return spread_forward(n, std_rule, 1e-14F);
}

// d var / dx = 2 (x - mean) / (count - correction)
static int var_backward_from(struct node *n, det_tensor *g)
{
    const struct reduce_attr *a = NODE_ATTR(n, struct reduce_attr);
    bool whole = a->everything || n->in[0]->ndim == 0;
    if (whole && (double)n->in[0]->numel == a->correction) // 0 / 0, for which torch says infinity
        return give_repeated(n, det_mul_scalar(g, INFINITY));
    det_tensor *mean = det_mean_over(n->in[0], a->dims.v, a->dims.n, true);
    det_tensor *scaled = det_mul_scalar(g, 2 / ((double)reduced_count(n) - a->correction));
    give_grad(n, 0, tensor_ref(det_mul(det_sub(n->in[0], mean), with_reduced_dims(n, scaled))));
    return 0;
}

static int var_backward(struct node *n)
{
    return var_backward_from(n, out_grad(n, 0));
}

static int std_backward(struct node *n)
{
    det_tensor *y = n->out[0], *g = det_div(out_grad(n, 0), det_mul_scalar(y, 2));
    return var_backward_from(n, det_masked_fill(g, det_eq_scalar(y, 0), 0));
}

ROW_OF(var, 0, float_infer, 1, 0, "x:f[A,b,c]; dims=0,2 correction=1; x.var((0,2), unbiased=True)",
       "x:f[a,B,c]; dims=1 correction=0 keepdim=1; x.var(1, unbiased=False, keepdim=True)",
       "x:f[a,B]; correction=1; x.var()", "x:f[1,b]; dims=0 correction=1; x.var(0)",
       "x:f[7,300]; dims=1 correction=1; x.var(1)", "x:n[a,B]; dims=1 correction=1; x.var(1)")
ROW_OF(std, 0, float_infer, 1, 1, "x:f[A,b,c]; dims=0,2 correction=1; x.std((0,2), unbiased=True)",
       "x:f[a,B,c]; dims=1 correction=0 keepdim=1; x.std(1, unbiased=False, keepdim=True)",
       "x:f[a,B]; correction=1; x.std()", "x:f[1,b]; dims=0 correction=0; x.std(0, unbiased=False)")

det_tensor *det_var_over(det_tensor *x, const int64_t *dims, int n, double correction, bool keepdim)
{
    struct reduce_attr a = attr_of("var", dims, n, keepdim);
    a.correction = correction;
    return OP_APPLY(&op_var, a, x);
}

det_tensor *det_var(det_tensor *x, double correction)
{
    return det_var_over(x, NULL, 0, correction, false);
}

det_tensor *det_std_over(det_tensor *x, const int64_t *dims, int n, double correction, bool keepdim)
{
    struct reduce_attr a = attr_of("std", dims, n, keepdim);
    a.correction = correction;
    return OP_APPLY(&op_std, a, x);
}

det_tensor *det_std(det_tensor *x, double correction)
{
    return det_std_over(x, NULL, 0, correction, false);
}

// --- norm
// -----------------------------------------------------------------------------------------------------

static int norm_infer(struct node *n)
{
    double p = NODE_ATTR(n, struct reduce_attr)->p;
    if (!(p > 0)) return node_fail(n, DET_EINVAL, "p is %g, wants more than 0", p);
    return float_infer(n);
}

static int norm_rule(const struct reduce_attr *a, const struct reduction *r, det_tensor *acc)
{
    enum fold_id id = a->p == 1     ? FOLD_sum_abs
                      : a->p == 2   ? FOLD_sum_square
                      : isinf(a->p) ? FOLD_max_abs
                                    : FOLD_sum_power;
    int rc = reduce(r, id, &(struct fold_args){.power = a->p}, acc->data);
    if (id == FOLD_sum_square) apply(UNARY_sqrt, acc, 0);
    if (id == FOLD_sum_power) apply(UNARY_pow_scalar, acc, 1 / a->p);
    return rc;
}

// d norm / dx = sign(x) (|x| / norm)^(p-1); 0 where the norm is 0, or where x is and the power
// negative.
static int norm_backward(struct node *n)
{
    const struct reduce_attr *a = NODE_ATTR(n, struct reduce_attr);
    det_tensor *x = n->in[0], *y = with_reduced_dims(n, n->out[0]), *size = det_abs(x), *share;
    det_tensor *g = with_reduced_dims(n, out_grad(n, 0));
    if (isinf(a->p)) {
        det_tensor *both_nan = det_logical_and(det_isnan(size), det_isnan(y));
        share = det_to(det_logical_or(det_eq(size, y), both_nan), (det_dtype)x->dtype);
        share = det_div(share, det_sum_over(share, a->dims.v, a->dims.n, true));
    } else {
        share = det_pow_scalar(det_div(size, y), a->p - 1);
        share = det_masked_fill(share, det_eq_scalar(a->p < 1 ? x : y, 0), 0);
    }
    give_grad(n, 0, tensor_ref(det_mul(g, det_mul(det_sign(x), share))));
    return 0;
}

REDUCE_ROW(norm, 0, norm_infer, 1, 1, "x:d[a,b,c]; dims=0,2 p=2; x.norm(2, dim=(0,2))",
           "x:d[a,b,c]; dims=1 keepdim=1 p=1; x.norm(1, dim=1, keepdim=True)",
           "x:d[a,B]; p=2; x.norm()", "x:d[a,B]; dims=1 p=3; x.norm(3, dim=1)",
           "x:d[a,B]; dims=0 p=1.5; x.norm(1.5, dim=0)",
           "x:d[a,B]; dims=0 p=0.5; x.norm(0.5, dim=0)",
           "x:d[a,B]; dims=1 p=9e999; x.norm(float('inf'), dim=1)",
           "x:d[a,B]; p=9e999; x.norm(float('inf'))", "x:n[a,B]; dims=1 p=2; x.norm(2, dim=1)")

det_tensor *det_norm_over(det_tensor *x, double p, const int64_t *dims, int n, bool keepdim)
{
    struct reduce_attr a = attr_of("norm", dims, n, keepdim);
    a.p = p;
    return OP_APPLY(&op_norm, a, x);
}

det_tensor *det_norm(det_tensor *x, double p)
{
    return det_norm_over(x, p, NULL, 0, false);
}
