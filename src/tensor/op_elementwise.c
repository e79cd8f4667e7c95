// Unit op_elementwise.c: operations that treat every element alone: functions of one and two
// arguments, comparison, selection, conversion. Adding a function of one argument is one line in
// kernels/unary.def.
#include "tensor/elementwise.h"
#include "tensor/ops.h"

#include <math.h>

// --- one argument

struct unary_attr {
    double a, b;
    enum unary_id id;
};

static const struct attr_field unary_attrs[] = {
    {"a", ATTR_REAL, offsetof(struct unary_attr, a)},
    {"b", ATTR_REAL, offsetof(struct unary_attr, b)},
    {NULL, 0, 0},
};

static int unary_infer(struct node *n)
{
    return node_out_like(n, (det_dtype)n->in[0]->dtype, n->in[0]);
}

static int unary_forward_as(struct node *n, enum unary_id id)
{
    const struct unary_attr *a = NODE_ATTR(n, struct unary_attr);
    ew_fn fn = ew_unary(id, (det_dtype)n->in[0]->dtype);
    if (!fn)
        return node_fail(n, DET_EDTYPE, "not for %s", det_dtype_name((det_dtype)n->in[0]->dtype));
    ew_run(fn, (det_tensor *const[]){n->out[0], n->in[0]}, 2, &a->a);
    return 0;
}

enum unary_saves { SAVES_NONE, SAVES_X, SAVES_Y };

static int unary_backward_as(struct node *n, enum unary_id id, enum unary_saves saves)
{
    const struct unary_attr *a = NODE_ATTR(n, struct unary_attr);
    det_tensor *g = out_grad(n, 0), *saved = saves == SAVES_NONE ? g
                                             : saves == SAVES_X  ? n->in[0]
                                                                 : n->out[0];
    det_tensor *gx = tensor_new_like(n->out[0]);
    if (!gx) return DET_ENOMEM;
    ew_run(ew_unary_grad(id, (det_dtype)g->dtype), (det_tensor *const[]){gx, g, saved}, 3, &a->a);
    give_grad(n, 0, gx);
    return 0;
}

// For each line: its forward, its backward, its test input and its row.
#define UNARY_INPUT_f "x:f[a,b,c]"
#define UNARY_INPUT_p "x:p[a,b,c]"
#define UNARY_INPUT_u "x:u[a,b,c]"
#define UNARY_INPUT_o "x:o[a,b,c]"
#define UNARY_INPUT_d "x:d[a,b,c]"
#define UNARY(fn, test, torch, saved, value, grad)                                              \
    static int fn##_forward(struct node *n)                                                     \
    {                                                                                           \
        return unary_forward_as(n, UNARY_##fn);                                                 \
    }                                                                                           \
    static int fn##_backward(struct node *n)                                                    \
    {                                                                                           \
        return unary_backward_as(n, UNARY_##fn, SAVES_##saved);                                 \
    }                                                                                           \
    static const char *const fn##_cases[] = {UNARY_INPUT_##test "; a=0.5 b=1.5; " torch, NULL}; \
    const struct op op_##fn = {.name = #fn,                                                     \
                               .min_in = 1,                                                     \
                               .max_in = 1,                                                     \
                               .saves_in = SAVES_##saved == SAVES_X,                            \
                               .saves_out = SAVES_##saved == SAVES_Y,                           \
                               .infer = unary_infer,                                            \
                               .forward = fn##_forward,                                         \
                               .backward = fn##_backward,                                       \
                               .attrs = unary_attrs,                                            \
                               .cases = fn##_cases};
#include "tensor/kernels/unary.def"
#undef UNARY

// As in torch: activations are for floats, some functions for numbers, that is, not for bool. All
// others make f32 of integers that they have no loop for.
static bool refuses(enum unary_id id, det_dtype dtype)
{
    static const bool floats_only[N_UNARY] = {
        [UNARY_selu] = true,       [UNARY_silu] = true,      [UNARY_mish] = true,
        [UNARY_gelu] = true,       [UNARY_gelu_tanh] = true, [UNARY_hardsigmoid] = true,
        [UNARY_hardswish] = true,  [UNARY_elu] = true,       [UNARY_softplus] = true,
        [UNARY_leaky_relu] = true, [UNARY_logsigmoid] = true};
    static const bool numbers_only[N_UNARY] = {
        [UNARY_neg] = true,   [UNARY_abs] = true,   [UNARY_floor] = true, [UNARY_ceil] = true,
        [UNARY_round] = true, [UNARY_trunc] = true, [UNARY_relu] = true,  [UNARY_softsign] = true};
    if (dtype_is_float(dtype)) return false;
    return floats_only[id] || (dtype == DET_BOOL && numbers_only[id]);
}

static det_tensor *unary_call(const struct op *op, enum unary_id id, det_tensor *x, double a,
                              double b)
{
    if (x && refuses(id, (det_dtype)x->dtype)) {
        det_raise(DET_EDTYPE, "%s: not for %s", op->name, det_dtype_name((det_dtype)x->dtype));
        return NULL;
    }
    if (x && !ew_unary(id, (det_dtype)x->dtype)) x = det_to(x, DET_F32); // integers, as torch
    struct unary_attr attr = {.a = a, .b = b};
    return OP_APPLY(op, attr, x);
}

#define UNARY_PUBLIC(fn)                                  \
    det_tensor *det_##fn(det_tensor *x)                   \
    {                                                     \
        return unary_call(&op_##fn, UNARY_##fn, x, 0, 0); \
    }
UNARY_PUBLIC(neg)
UNARY_PUBLIC(abs)
UNARY_PUBLIC(sign)
UNARY_PUBLIC(exp)
UNARY_PUBLIC(expm1)
UNARY_PUBLIC(log)
UNARY_PUBLIC(log1p)
UNARY_PUBLIC(log2)
UNARY_PUBLIC(sqrt)
UNARY_PUBLIC(rsqrt)
UNARY_PUBLIC(reciprocal)
UNARY_PUBLIC(sin)
UNARY_PUBLIC(cos)
UNARY_PUBLIC(tan)
UNARY_PUBLIC(asin)
UNARY_PUBLIC(acos)
UNARY_PUBLIC(atan)
UNARY_PUBLIC(sinh)
UNARY_PUBLIC(cosh)
UNARY_PUBLIC(asinh)
UNARY_PUBLIC(acosh)
UNARY_PUBLIC(atanh)
UNARY_PUBLIC(tanh)
UNARY_PUBLIC(sigmoid)
UNARY_PUBLIC(erf)
UNARY_PUBLIC(relu)
UNARY_PUBLIC(selu)
UNARY_PUBLIC(silu)
UNARY_PUBLIC(mish)
UNARY_PUBLIC(hardsigmoid)
UNARY_PUBLIC(hardswish)
UNARY_PUBLIC(logsigmoid)
UNARY_PUBLIC(softsign)
UNARY_PUBLIC(floor)
UNARY_PUBLIC(ceil)
UNARY_PUBLIC(round)
UNARY_PUBLIC(trunc)
UNARY_PUBLIC(gelu)
UNARY_PUBLIC(gelu_tanh)

det_tensor *det_leaky_relu(det_tensor *x, double negative_slope)
{
    return unary_call(&op_leaky_relu, UNARY_leaky_relu, x, negative_slope, 0);
}

det_tensor *det_elu(det_tensor *x, double alpha)
{
    return unary_call(&op_elu, UNARY_elu, x, alpha, 0);
}

det_tensor *det_softplus(det_tensor *x, double beta, double threshold)
{
    return unary_call(&op_softplus, UNARY_softplus, x, beta, threshold);
}

det_tensor *det_square(det_tensor *x)
{
    if (x && x->dtype == DET_BOOL) x = det_to(x, DET_I64);
    return unary_call(&op_square, UNARY_square, x, 0, 0);
}

// Of integers: exact, in their own type, unless a bound is a fraction.
static det_tensor *clamp_integers(det_tensor *x, double min, double max)
{
    det_dtype dtype = x->dtype == DET_BOOL ? DET_I64 : (det_dtype)x->dtype;
    if (min != trunc(min) || max != trunc(max)) return det_clamp(det_to(x, DET_F32), min, max);
    det_tensor *wide = det_to(x, DET_I64);
    if (min > -0x1p63) wide = det_maximum_scalar(wide, min);
    if (max < 0x1p63) wide = det_minimum_scalar(wide, max);
    return det_to(wide, dtype);
}

// hardtanh and relu6. Of integers: in their own type, always.
static det_tensor *limited(const struct op *op, enum unary_id id, det_tensor *x, double min,
                           double max)
{
    if (!x || dtype_is_float((det_dtype)x->dtype)) return unary_call(op, id, x, min, max);
    bool is_signed = x->dtype == DET_I64 || x->dtype == DET_I32;
    if (x->dtype == DET_BOOL || (!is_signed && (min < 0 || max < 0))) {
        det_raise(DET_EDTYPE, "%s: not for %s between %g and %g", op->name,
                  det_dtype_name((det_dtype)x->dtype), min, max);
        return NULL;
    }
    return clamp_integers(x, trunc(min), trunc(max));
}

det_tensor *det_relu6(det_tensor *x)
{
    return limited(&op_relu6, UNARY_relu6, x, 0, 6);
}

det_tensor *det_hardtanh(det_tensor *x, double min, double max)
{
    return limited(&op_hardtanh, UNARY_hardtanh, x, min, max);
}

det_tensor *det_clamp(det_tensor *x, double min, double max)
{
    if (x && !dtype_is_float((det_dtype)x->dtype)) return clamp_integers(x, min, max);
    return unary_call(&op_clamp, UNARY_clamp, x, min, max);
}

// --- questions

static int predicate_infer(struct node *n)
{
    return node_out_like(n, DET_BOOL, n->in[0]);
}

#define PREDICATE(fn, torch, value)                                                                \
    static int fn##_forward(struct node *n)                                                        \
    {                                                                                              \
        ew_fn loop = ew_predicate(PREDICATE_##fn, (det_dtype)n->in[0]->dtype);                     \
        if (!loop) return node_fail(n, DET_EDTYPE, "not for %s", det_dtype_name(n->in[0]->dtype)); \
        ew_run(loop, (det_tensor *const[]){n->out[0], n->in[0]}, 2, NULL);                         \
        return 0;                                                                                  \
    }                                                                                              \
    static const char *const fn##_cases[] = {"x:n[a,b,c]; ; " torch, "x:i4[a,b]; ; " torch, NULL}; \
    const struct op op_##fn = {.name = #fn,                                                        \
                               .min_in = 1,                                                        \
                               .max_in = 1,                                                        \
                               .infer = predicate_infer,                                           \
                               .forward = fn##_forward,                                            \
                               .cases = fn##_cases};                                               \
    det_tensor *det_##fn(det_tensor *x)                                                            \
    {                                                                                              \
        return OP_APPLY0(&op_##fn, x);                                                             \
    }
#include "tensor/kernels/predicate.def"
#undef PREDICATE

// --- two arguments

int node_broadcast(struct node *n, int n_in, int64_t *shape, int *ndim)
{
    *ndim = 0;
    if (n_in == 2 && n->in[0] && n->in[1] && same_shape(n->in[0], n->in[1])) {
        *ndim = n->in[0]->ndim;
        for (int d = 0; d < *ndim; d++)
            shape[d] = n->in[0]->shape[d];
        return 0;
    }
    for (int k = 0; k < n_in; k++)
        if (n->in[k]) *ndim = MAX(*ndim, n->in[k]->ndim);
    for (int d = 0; d < *ndim; d++) {
        int64_t size = 1;
        for (int k = 0; k < n_in; k++) {
            if (!n->in[k]) continue;
            int dk = d - (*ndim - n->in[k]->ndim);
            int64_t s = dk < 0 ? 1 : n->in[k]->shape[dk];
            if (s == 1 || s == size) continue;
            if (size != 1)
                return node_fail(n, DET_ESHAPE, "%s and %s do not broadcast", TENSOR_TEXT(n->in[0]),
                                 TENSOR_TEXT(n->in[k]));
            size = s;
        }
        shape[d] = size;
    }
    return 0;
}

// The result takes the order of strides of an input that already has the full shape.
static int broadcast_out(struct node *n, det_dtype dtype, int n_in)
{
    int64_t shape[DET_MAX_DIMS];
    int ndim, rc = node_broadcast(n, n_in, shape, &ndim);
    if (rc) return rc;
    for (int k = 0; k < n_in; k++) {
        const det_tensor *t = n->in[k];
        if (t->ndim == ndim && !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape))
            return node_out_like(n, dtype, t);
    }
    return node_out(n, dtype, shape, ndim);
}

static int binary_infer(struct node *n)
{
    return broadcast_out(n, (det_dtype)n->in[0]->dtype, 2);
}

static int compare_infer(struct node *n)
{
    return broadcast_out(n, DET_BOOL, 2);
}

static bool has_zero(det_tensor *t)
{
    static const char zero[8];
    det_tensor *dense = tensor_row_major(t);
    size_t size = dtype_size((det_dtype)t->dtype);
    bool found = false;
    for (int64_t i = 0; dense && i < t->numel && !found; i++)
        found = !memcmp((const char *)dense->data + (size_t)i * size, zero, size);
    tensor_release(dense);
    return found;
}

static int binary_forward_as(struct node *n, enum binary_id id)
{
    det_dtype dtype = (det_dtype)n->in[0]->dtype;
    ew_fn fn = ew_binary(id, dtype);
    if (!fn) return node_fail(n, DET_EDTYPE, "not for %s", det_dtype_name(dtype));
    bool divides = id == BINARY_fmod || id == BINARY_remainder;
    if (divides && !dtype_is_float(dtype) && n->out[0]->numel && has_zero(n->in[1]))
        return node_fail(n, DET_EINVAL, "division of %s by zero", det_dtype_name(dtype));
    ew_run(fn, (det_tensor *const[]){n->out[0], n->in[0], n->in[1]}, 3, NULL);
    return 0;
}

det_tensor *sum_to_shape(det_tensor *g, const det_tensor *like)
{
    if (!g || same_shape(g, like)) return g;
    int64_t dims[DET_MAX_DIMS];
    int n = 0, extra = g->ndim - like->ndim;
    for (int d = 0; d < g->ndim; d++)
        if (d < extra || (like->shape[d - extra] == 1 && g->shape[d] != 1)) dims[n++] = d;
    det_tensor *sum = det_reshape(det_sum_over(g, dims, n, true), like->shape, like->ndim);
    tensor_release(g);
    return tensor_ref(sum);
}

// Gives input i the gradient g (of this scope), summed over what was broadcast.
static void give_broadcast(struct node *n, int i, det_tensor *g)
{
    if (wants_grad(n, i)) give_grad(n, i, sum_to_shape(tensor_ref(g), n->in[i]));
}

static int add_backward(struct node *n)
{
    give_broadcast(n, 0, out_grad(n, 0));
    give_broadcast(n, 1, out_grad(n, 0));
    return 0;
}

static int sub_backward(struct node *n)
{
    give_broadcast(n, 0, out_grad(n, 0));
    if (wants_grad(n, 1)) give_broadcast(n, 1, det_neg(out_grad(n, 0)));
    return 0;
}

static int mul_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0);
    if (wants_grad(n, 0)) give_broadcast(n, 0, det_mul(g, n->in[1]));
    if (wants_grad(n, 1)) give_broadcast(n, 1, det_mul(g, n->in[0]));
    return 0;
}

static int div_backward(struct node *n)
{
    det_tensor *ga = det_div(out_grad(n, 0), n->in[1]);
    give_broadcast(n, 0, ga);
    if (wants_grad(n, 1)) {
        det_tensor *b = n->in[1], *quotient = det_div(det_div(n->in[0], b), b);
        give_broadcast(n, 1, det_neg(det_mul(out_grad(n, 0), quotient)));
    }
    return 0;
}

static int pow_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0), *a = n->in[0], *b = n->in[1];
    if (wants_grad(n, 0)) {
        det_tensor *d = det_mul(b, det_pow(a, det_sub_scalar(b, 1)));
        det_tensor *zero = det_eq_scalar(b, 0); // 0 * inf where a is 0 too
        give_broadcast(n, 0, det_mul(g, det_masked_fill(d, zero, 0)));
    }
    if (wants_grad(n, 1)) {
        det_tensor *d = det_mul(n->out[0], det_log(a));
        det_tensor *zero = det_logical_and(det_eq_scalar(a, 0), det_ge_scalar(b, 0));
        give_broadcast(n, 1, det_mul(g, det_masked_fill(d, zero, 0)));
    }
    return 0;
}

// The smaller one gets nothing; ties give half to each side; next to a NaN both get all, as torch.
static int extreme_backward(struct node *n, det_tensor *(*loses)(det_tensor *a, det_tensor *b))
{
    det_tensor *g = out_grad(n, 0), *half = det_mul_scalar(g, 0.5), *zero = det_mul_scalar(g, 0);
    det_tensor *tie = det_eq(n->in[0], n->in[1]);
    for (int i = 0; i < 2; i++) {
        if (!wants_grad(n, i)) continue;
        det_tensor *lost = loses(n->in[i], n->in[1 - i]);
        give_broadcast(n, i, det_where(tie, half, det_where(lost, zero, g)));
    }
    return 0;
}

static int maximum_backward(struct node *n)
{
    return extreme_backward(n, det_lt);
}

static int minimum_backward(struct node *n)
{
    return extreme_backward(n, det_gt);
}

static int fmod_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0);
    give_broadcast(n, 0, g);
    if (wants_grad(n, 1))
        give_broadcast(n, 1, det_neg(det_mul(g, det_trunc(det_div(n->in[0], n->in[1])))));
    return 0;
}

// a / b rounded down, exactly: floor(a / b) is 0 for -5 / infinity, where -1 is right, and 75 for
// 7.5f / 0.1f, where 74 is.
static det_tensor *floor_divide(det_tensor *a, det_tensor *b)
{
    det_tensor *rest = det_fmod(a, b), *down = det_ne(det_remainder(a, b), rest);
    down = det_to(down, (det_dtype)a->dtype);
    det_tensor *q = det_sub(det_round(det_div(det_sub(a, rest), b)), down);
    return det_where(det_eq_scalar(b, 0), det_div(a, b), q);
}

static int remainder_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0);
    give_broadcast(n, 0, g);
    if (wants_grad(n, 1))
        give_broadcast(n, 1, det_neg(det_mul(g, floor_divide(n->in[0], n->in[1]))));
    return 0;
}

static int atan2_backward(struct node *n)
{
    det_tensor *y = n->in[0], *x = n->in[1];
    det_tensor *scaled = det_div(out_grad(n, 0), det_add(det_square(x), det_square(y)));
    if (wants_grad(n, 0)) give_broadcast(n, 0, det_mul(scaled, x));
    if (wants_grad(n, 1)) give_broadcast(n, 1, det_neg(det_mul(scaled, y)));
    return 0;
}

#define BINARY_ROW(fn, row_flags, row_infer, saves_for_a, saves_for_b, row_backward, ...) \
    static int fn##_forward(struct node *n)                                               \
    {                                                                                     \
        return binary_forward_as(n, BINARY_##fn);                                         \
    }                                                                                     \
    static const char *const fn##_cases[] = {__VA_ARGS__, NULL};                          \
    const struct op op_##fn = {.name = #fn,                                               \
                               .min_in = 2,                                               \
                               .max_in = 2,                                               \
                               .flags = row_flags,                                        \
                               .saves_for = {saves_for_a, saves_for_b},                   \
                               .infer = row_infer,                                        \
                               .forward = fn##_forward,                                   \
                               .backward = row_backward,                                  \
                               .cases = fn##_cases};                                      \
    det_tensor *det_##fn(det_tensor *a, det_tensor *b)                                    \
    {                                                                                     \
        return OP_APPLY0(&op_##fn, a, b);                                                 \
    }
enum { SAVES_A = 1, SAVES_B = 2, SAVES_BOTH = 3 };
BINARY_ROW(add, OP_PROMOTE, binary_infer, 0, 0, add_backward, "x:f[a,b,c] y:f[a,b,c]; ; x + y",
           "x:f[a,1,c] y:f[b,1]; ; x + y", "x:i9[a,b] y:i9[b]; ; x + y")
BINARY_ROW(sub, OP_PROMOTE | OP_NUMBERS, binary_infer, 0, 0, sub_backward,
           "x:f[a,b,c] y:f[a,b,c]; ; x - y", "x:f[b] y:f[a,b]; ; x - y")
BINARY_ROW(mul, OP_PROMOTE, binary_infer, SAVES_B, SAVES_A, mul_backward,
           "x:f[a,b,c] y:f[a,b,c]; ; x * y", "x:f[a,1,c] y:f[b,1]; ; x * y",
           "x:f[a] y:f[]; ; x * y")
BINARY_ROW(div, OP_PROMOTE | OP_FLOAT, binary_infer, SAVES_B, SAVES_BOTH, div_backward,
           "x:f[a,b,c] y:p[a,b,c]; ; x / y", "x:f[a,b] y:p[b]; ; x / y")
BINARY_ROW(pow, OP_PROMOTE, binary_infer, SAVES_BOTH, SAVES_A | SAVES_OUT, pow_backward,
           "x:p[a,b] y:f[a,b]; ; torch.pow(x, y)", "x:i5[a,b] y:i5[b]; ; torch.pow(x, y)")
BINARY_ROW(maximum, OP_PROMOTE, binary_infer, SAVES_BOTH, SAVES_BOTH, maximum_backward,
           "x:f[a,b,c] y:f[b,c]; ; torch.maximum(x, y)", "x:i3[a,b] y:i3[b]; ; torch.maximum(x, y)")
BINARY_ROW(minimum, OP_PROMOTE, binary_infer, SAVES_BOTH, SAVES_BOTH, minimum_backward,
           "x:f[a,b,c] y:f[b,c]; ; torch.minimum(x, y)")
BINARY_ROW(fmod, OP_PROMOTE, binary_infer, 0, SAVES_BOTH, fmod_backward,
           "x:f[a,b] y:p[b]; ; torch.fmod(x, y)")
BINARY_ROW(remainder, OP_PROMOTE, binary_infer, 0, SAVES_BOTH, remainder_backward,
           "x:f[a,b] y:p[b]; ; torch.remainder(x, y)")
BINARY_ROW(atan2, OP_PROMOTE | OP_FLOAT, binary_infer, SAVES_BOTH, SAVES_BOTH, atan2_backward,
           "x:f[a,b] y:f[b]; ; torch.atan2(x, y)")
BINARY_ROW(eq, OP_PROMOTE, compare_infer, 0, 0, NULL, "x:i4[a,b] y:i4[b]; ; torch.eq(x, y)")
BINARY_ROW(ne, OP_PROMOTE, compare_infer, 0, 0, NULL, "x:i4[a,b] y:i4[b]; ; torch.ne(x, y)")
BINARY_ROW(lt, OP_PROMOTE, compare_infer, 0, 0, NULL, "x:f[a,b] y:f[b]; ; torch.lt(x, y)")
BINARY_ROW(le, OP_PROMOTE, compare_infer, 0, 0, NULL, "x:i4[a,b] y:i4[b]; ; torch.le(x, y)")
BINARY_ROW(gt, OP_PROMOTE, compare_infer, 0, 0, NULL, "x:f[a,b] y:f[b]; ; torch.gt(x, y)")
BINARY_ROW(ge, OP_PROMOTE, compare_infer, 0, 0, NULL, "x:i4[a,b] y:i4[b]; ; torch.ge(x, y)")
BINARY_ROW(logical_and, OP_PROMOTE, compare_infer, 0, 0, NULL,
           "x:i2[a,b] y:i2[b]; ; torch.logical_and(x, y)")
BINARY_ROW(logical_or, OP_PROMOTE, compare_infer, 0, 0, NULL,
           "x:i2[a,b] y:i2[b]; ; torch.logical_or(x, y)")
BINARY_ROW(logical_xor, OP_PROMOTE, compare_infer, 0, 0, NULL,
           "x:i2[a,b] y:i2[b]; ; torch.logical_xor(x, y)")
BINARY_ROW(bitwise_and, OP_PROMOTE, binary_infer, 0, 0, NULL,
           "x:i9[a,b] y:i9[b]; ; torch.bitwise_and(x, y)")
BINARY_ROW(bitwise_or, OP_PROMOTE, binary_infer, 0, 0, NULL,
           "x:i9[a,b] y:i9[b]; ; torch.bitwise_or(x, y)")
BINARY_ROW(bitwise_xor, OP_PROMOTE, binary_infer, 0, 0, NULL,
           "x:i9[a,b] y:i9[b]; ; torch.bitwise_xor(x, y)")
BINARY_ROW(bitwise_left_shift, OP_PROMOTE, binary_infer, 0, 0, NULL,
           "x:i9[a,b] y:i9[b]; ; torch.bitwise_left_shift(x, y)")
BINARY_ROW(bitwise_right_shift, OP_PROMOTE, binary_infer, 0, 0, NULL,
           "x:i9[a,b] y:i9[b]; ; torch.bitwise_right_shift(x, y)")

// A number as the second argument: the type of a decides, except that a fraction, or what no
// integer can hold, makes floats of integers.
static det_tensor *number_like(det_tensor *a, double b)
{
    if (!a) return NULL;
    bool whole = b == trunc(b) && fabs(b) < 0x1p63;
    det_dtype dtype = dtype_is_float((det_dtype)a->dtype) ? (det_dtype)a->dtype
                      : whole && a->dtype != DET_BOOL     ? (det_dtype)a->dtype
                      : whole                             ? DET_I64
                                                          : DET_F32;
    return det_full(dtype, DET_SCALAR, b);
}

// For operations whose result is never an integer.
static det_tensor *float_like(det_tensor *a, double b)
{
    if (!a) return NULL;
    bool is_float = dtype_is_float((det_dtype)a->dtype);
    return det_full(is_float ? (det_dtype)a->dtype : DET_F32, DET_SCALAR, b);
}

#define SCALAR_BY_TENSOR(fn)                               \
    det_tensor *det_##fn##_scalar(det_tensor *a, double b) \
    {                                                      \
        return det_##fn(a, number_like(a, b));             \
    }
#define SCALAR_BY_UNARY(fn)                                                     \
    det_tensor *det_##fn##_scalar(det_tensor *a, double b)                      \
    {                                                                           \
        if (a && dtype_is_float((det_dtype)a->dtype))                           \
            return unary_call(&op_##fn##_scalar, UNARY_##fn##_scalar, a, b, 0); \
        return det_##fn(a, number_like(a, b));                                  \
    }
SCALAR_BY_UNARY(add)
SCALAR_BY_UNARY(sub)
SCALAR_BY_UNARY(mul)
SCALAR_BY_TENSOR(maximum)
SCALAR_BY_TENSOR(minimum)
SCALAR_BY_TENSOR(fmod)
SCALAR_BY_TENSOR(remainder)
SCALAR_BY_TENSOR(eq)
SCALAR_BY_TENSOR(ne)
SCALAR_BY_TENSOR(lt)
SCALAR_BY_TENSOR(le)
SCALAR_BY_TENSOR(gt)
SCALAR_BY_TENSOR(ge)
SCALAR_BY_TENSOR(logical_and)
SCALAR_BY_TENSOR(logical_or)
SCALAR_BY_TENSOR(logical_xor)
SCALAR_BY_TENSOR(bitwise_and)
SCALAR_BY_TENSOR(bitwise_or)
SCALAR_BY_TENSOR(bitwise_xor)
SCALAR_BY_TENSOR(bitwise_left_shift)
SCALAR_BY_TENSOR(bitwise_right_shift)

// -1 has all bits set; of a bool there is one.
det_tensor *det_bitwise_not(det_tensor *x)
{
    if (x && x->dtype == DET_BOOL) return det_logical_not(x);
    return det_bitwise_xor_scalar(x, x && x->dtype == DET_U8 ? UINT8_MAX : -1);
}

det_tensor *det_div_scalar(det_tensor *a, double b)
{
    if (a && dtype_is_float((det_dtype)a->dtype))
        return unary_call(&op_div_scalar, UNARY_div_scalar, a, b, 0);
    return det_div(a, float_like(a, b));
}

det_tensor *det_atan2_scalar(det_tensor *a, double b)
{
    return det_atan2(a, float_like(a, b));
}

det_tensor *det_pow_scalar(det_tensor *a, double b)
{
    if (a && dtype_is_float((det_dtype)a->dtype)) {
        if (b == 2) return det_square(a);
        return unary_call(&op_pow_scalar, UNARY_pow_scalar, a, b, 0);
    }
    if (a && b < 0 && b > -0x1p63 && b == trunc(b)) {
        det_raise(DET_EINVAL, "pow: %s to the power of %g; negative powers are for floats",
                  det_dtype_name((det_dtype)a->dtype), b);
        return NULL;
    }
    return det_pow(a, number_like(a, b));
}

// --- selection

static int where_infer(struct node *n)
{
    if (n->in[0]->dtype != DET_BOOL)
        return node_fail(n, DET_EDTYPE, "the condition is %s, wants bool",
                         det_dtype_name((det_dtype)n->in[0]->dtype));
    if (n->in[1]->dtype != n->in[2]->dtype)
        return node_fail(n, DET_EDTYPE, "%s and %s; both must be of one type",
                         det_dtype_name((det_dtype)n->in[1]->dtype),
                         det_dtype_name((det_dtype)n->in[2]->dtype));
    int64_t shape[DET_MAX_DIMS];
    int ndim, rc = node_broadcast(n, 3, shape, &ndim);
    return rc ? rc : node_out(n, (det_dtype)n->in[1]->dtype, shape, ndim);
}

static int where_forward(struct node *n)
{
    ew_run(ew_where((det_dtype)n->out[0]->dtype),
           (det_tensor *const[]){n->out[0], n->in[0], n->in[1], n->in[2]}, 4, NULL);
    return 0;
}

static int where_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0), *zero = det_full((det_dtype)g->dtype, DET_SCALAR, 0);
    if (wants_grad(n, 1)) give_broadcast(n, 1, det_where(n->in[0], g, zero));
    if (wants_grad(n, 2)) give_broadcast(n, 2, det_where(n->in[0], zero, g));
    return 0;
}

static const char *const where_cases[] = {"c:b[a,b] x:f[a,b] y:f[b]; ; torch.where(c, x, y)",
                                          "c:b[b] x:f[a,1] y:f[]; ; torch.where(c, x, y)", NULL};
const struct op op_where = {.name = "where",
                            .min_in = 3,
                            .max_in = 3,
                            .saves_in = 1,
                            .infer = where_infer,
                            .forward = where_forward,
                            .backward = where_backward,
                            .cases = where_cases};

det_tensor *det_where(det_tensor *condition, det_tensor *a, det_tensor *b)
{
    if (a && b && a->dtype != b->dtype) {
        det_dtype dtype = common_type((det_tensor *const[]){a, b}, 2);
        a = det_to(a, dtype);
        b = det_to(b, dtype);
    }
    return OP_APPLY0(&op_where, condition, a, b);
}

det_tensor *det_masked_fill(det_tensor *x, det_tensor *mask, double value)
{
    if (x && !dtype_holds((det_dtype)x->dtype, value))
        det_raise(DET_EINVAL, "masked_fill: %g is no %s", value,
                  det_dtype_name((det_dtype)x->dtype));
    det_tensor *fill = x ? det_full((det_dtype)x->dtype, DET_SCALAR, value) : NULL;
    return det_where(mask, fill, x);
}

// --- conversion

struct to_attr {
    int64_t dtype;
};

static const struct attr_field to_attrs[] = {{"dtype", ATTR_INT, offsetof(struct to_attr, dtype)},
                                             {NULL, 0, 0}};

static int to_infer(struct node *n)
{
    int64_t dtype = NODE_ATTR(n, struct to_attr)->dtype;
    if (dtype < 0 || dtype >= DET_N_DTYPES)
        return node_fail(n, DET_EDTYPE, "unknown dtype %lld", (long long)dtype);
    return node_out_like(n, (det_dtype)dtype, n->in[0]);
}

static int copy_forward(struct node *n)
{
    ew_copy(n->out[0], n->in[0]);
    return 0;
}

static int copy_backward(struct node *n)
{
    give_grad(n, 0, tensor_ref(out_grad(n, 0))); // give_grad converts
    return 0;
}

static const char *const to_cases[] = {"x:f[a,b]; dtype=1; x.double()",
                                       "x:f[a,b]; dtype=3; x.long()",
                                       "x:i5[a,b]; dtype=0; x.float()", NULL};
const struct op op_to = {.name = "to",
                         .min_in = 1,
                         .max_in = 1,
                         .flags = OP_STORED,
                         .infer = to_infer,
                         .forward = copy_forward,
                         .backward = copy_backward,
                         .attrs = to_attrs,
                         .cases = to_cases};

det_tensor *det_to(det_tensor *x, det_dtype dtype)
{
    if (x && x->dtype == dtype) return x;
    struct to_attr a = {.dtype = dtype};
    return OP_APPLY(&op_to, a, x);
}

static int clone_infer(struct node *n)
{
    return node_out_like(n, (det_dtype)n->in[0]->dtype, n->in[0]);
}

static int contiguous_infer(struct node *n)
{
    return node_out(n, (det_dtype)n->in[0]->dtype, n->in[0]->shape, n->in[0]->ndim);
}

static const char *const clone_cases[] = {"x:f[a,b,c]; ; x.clone()", NULL};
const struct op op_clone = {.name = "clone",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = OP_STORED,
                            .infer = clone_infer,
                            .forward = copy_forward,
                            .backward = copy_backward,
                            .cases = clone_cases};

static const char *const contiguous_cases[] = {"x:f[a,b,c]; ; x.contiguous()", NULL};
const struct op op_contiguous = {.name = "contiguous",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .flags = OP_STORED,
                                 .infer = contiguous_infer,
                                 .forward = copy_forward,
                                 .backward = copy_backward,
                                 .cases = contiguous_cases};

det_tensor *det_clone(det_tensor *x)
{
    return OP_APPLY0(&op_clone, x);
}

det_tensor *det_contiguous(det_tensor *x)
{
    if (x && tensor_is_row_major(x)) return x;
    return OP_APPLY0(&op_contiguous, x);
}
