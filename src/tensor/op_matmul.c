// Unit op_matmul.c: matrix products: linear (with the activation behind it) and matmul.
#include "tensor/fuse.h"
#include "tensor/gemm.h"
#include "tensor/ops.h"

#include "tensor/axes.h"
#include "tensor/elementwise.h"
#include "tensor/reduce.h"

static bool computes_in_bf16(const struct node *n)
{
    return det_autocast() && n->in[0]->dtype != DET_F64 && n->in[1]->dtype != DET_F64;
}

static int want_floats(const struct node *n, int n_in)
{
    for (int i = 0; i < n_in; i++)
        if (n->in[i] && !dtype_is_float((det_dtype)n->in[i]->dtype))
            return node_fail(n, DET_EDTYPE, "input %d is %s, wants floats", i,
                             det_dtype_name((det_dtype)n->in[i]->dtype));
    return 0;
}

static struct matrix matrix_of(const det_tensor *t, int64_t rs, int64_t cs)
{
    return (struct matrix){t->data, (det_dtype)t->dtype, rs, cs};
}

static int run_gemm(const struct node *n, const struct gemm *g)
{
    int rc = gemm(g);
    return rc ? node_fail(n, rc, "no memory to multiply (%lld x %lld) by (%lld x %lld)",
                          (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n)
              : 0;
}

// --- linear

struct linear_attr {
    int64_t act; // enum gemm_act
    bool bf16;
};

// Derivative of the activation, where the output does not tell; x as rows, if it had to be copied.
enum { LINEAR_AUX_SLOPE, LINEAR_AUX_X };

static int linear_infer(struct node *n)
{
    const det_tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    struct linear_attr *a = NODE_ATTR(n, struct linear_attr);
    int rc = want_floats(n, 3);
    if (rc) return rc;
    if (w->ndim != 2)
        return node_fail(n, DET_ESHAPE, "weight is %s, wants (out, in)", TENSOR_TEXT(w));
    if (x->ndim < 1 || x->shape[x->ndim - 1] != w->shape[1])
        return node_fail(n, DET_ESHAPE, "input is %s, weight wants %lld in its last dim",
                         TENSOR_TEXT(x), (long long)w->shape[1]);
    if (b && (b->ndim != 1 || b->shape[0] != w->shape[0]))
        return node_fail(n, DET_ESHAPE, "bias is %s, weight %s wants %lld", TENSOR_TEXT(b),
                         TENSOR_TEXT(w), (long long)w->shape[0]);
    if (a->act < GEMM_ACT_NONE || a->act > GEMM_ACT_GELU)
        return node_fail(n, DET_EINVAL, "no activation %lld", (long long)a->act);
    if (a->act && x->dtype == DET_F64) return node_fail(n, DET_EDTYPE, "not for f64");
    a->bf16 = computes_in_bf16(n);
    if (!a->bf16 && (x->dtype != w->dtype || (b && b->dtype != w->dtype)))
        return node_fail(n, DET_EDTYPE, "input is %s, weight %s%s%s; all must be of one type",
                         det_dtype_name((det_dtype)x->dtype), det_dtype_name((det_dtype)w->dtype),
                         b ? ", bias " : "", b ? det_dtype_name((det_dtype)b->dtype) : "");
    int64_t shape[DET_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = w->shape[0];
    return node_out(n, a->bf16 ? DET_BF16 : (det_dtype)x->dtype, shape, x->ndim);
}

// Whether x is rows a fixed distance apart, dense inside.
static bool as_rows(const det_tensor *x, int64_t *row_stride)
{
    int last = x->ndim - 1;
    bool dense = x->shape[last] <= 1 || x->stride[last] == 1;
    return dense && leading_dims_merge(x, last, row_stride);
}

static det_tensor *bias_as_f32(det_tensor *b)
{
    if (!b || b->dtype == DET_F64) return NULL;
    if (b->dtype == DET_F32 && b->stride[0] == 1) return tensor_ref(b);
    det_tensor *f = tensor_new(DET_F32, b->shape, 1);
    if (f) ew_copy(f, b);
    return f;
}

// x as a matrix of rows; a copy is kept for backward.
static const det_tensor *input_rows(struct node *n, int64_t *row_stride)
{
    if (as_rows(n->in[0], row_stride)) return n->in[0];
    if (!n->aux[LINEAR_AUX_X]) n->aux[LINEAR_AUX_X] = tensor_row_major(n->in[0]);
    *row_stride = n->in[0]->shape[n->in[0]->ndim - 1];
    return n->aux[LINEAR_AUX_X];
}

// Rows of the last dim, which may be empty.
static int64_t n_rows(const det_tensor *t)
{
    int64_t rows = 1;
    for (int d = 0; d < t->ndim - 1; d++)
        rows *= t->shape[d];
    return rows;
}

static int linear_forward(struct node *n)
{
    const struct linear_attr *a = NODE_ATTR(n, struct linear_attr);
    det_tensor *w = n->in[1], *y = n->out[0];
    int64_t rs, out = w->shape[0], in = w->shape[1], rows = n_rows(y);
    const det_tensor *x = input_rows(n, &rs);
    if (a->act == GEMM_ACT_GELU && n->tracked) n->aux[LINEAR_AUX_SLOPE] = tensor_new_like(y);
    det_tensor *bias = bias_as_f32(n->in[2]);
    if (sticky_failed()) return DET_ENOMEM;
    struct gemm g = {
        .m = rows,
        .n = out,
        .k = in,
        .a = matrix_of(x, rs, 1),
        .b = matrix_of(w, w->stride[1], w->stride[0]),
        .c = y->data,
        .ldc = out,
        .c_dtype = (det_dtype)y->dtype,
        .bf16 = a->bf16,
        .bias = bias ? bias->data : NULL,
        .act = (enum gemm_act)a->act,
        .slope = n->aux[LINEAR_AUX_SLOPE] ? n->aux[LINEAR_AUX_SLOPE]->data : NULL,
    };
    int rc = run_gemm(n, &g);
    tensor_release(bias);
    if (!rc && n->in[2] && !bias) // f64
        ew_run(ew_binary(BINARY_add, DET_F64), (det_tensor *const[]){y, y, n->in[2]}, 3, NULL);
    return rc;
}

static int linear_backward_from(struct node *n, det_tensor *g)
{
    const struct linear_attr *a = NODE_ATTR(n, struct linear_attr);
    det_tensor *x = n->in[0], *w = n->in[1];
    int64_t rs, out = w->shape[0], in = w->shape[1], rows = n_rows(x);
    const det_tensor *x_rows = input_rows(n, &rs);
    int rc = 0;
    give_sum(n, 2, g, (1u << (g->ndim - 1)) - 1);
    if (wants_grad(n, 1)) {
        struct gemm dw = {.m = out,
                          .n = in,
                          .k = rows,
                          .a = matrix_of(g, 1, out),
                          .b = matrix_of(x_rows, rs, 1),
                          .ldc = in,
                          .c_dtype = (det_dtype)w->dtype,
                          .bf16 = a->bf16};
        bool place_fits = w->dtype != DET_BF16 && tensor_is_row_major(w);
        det_tensor *gw = place_fits ? grad_target(n, 1, &dw.accumulate)
                                    : tensor_new((det_dtype)w->dtype, w->shape, 2);
        if (!gw) return DET_ENOMEM;
        dw.c = gw->data;
        rc = run_gemm(n, &dw);
        if (!place_fits) give_grad(n, 1, gw);
    }
    if (!rc && wants_grad(n, 0)) {
        det_tensor *gx = tensor_new((det_dtype)x->dtype, x->shape, x->ndim);
        if (!gx) return DET_ENOMEM;
        rc = run_gemm(n, &(struct gemm){.m = rows,
                                        .n = in,
                                        .k = out,
                                        .a = matrix_of(g, out, 1),
                                        .b = matrix_of(w, w->stride[0], w->stride[1]),
                                        .c = gx->data,
                                        .ldc = in,
                                        .c_dtype = (det_dtype)x->dtype,
                                        .bf16 = a->bf16});
        give_grad(n, 0, gx);
    }
    return rc;
}

static int linear_backward(struct node *n)
{
    const struct linear_attr *a = NODE_ATTR(n, struct linear_attr);
    det_tensor *g = tensor_row_major(out_grad(n, 0));
    if (!g) return DET_ENOMEM;
    if (a->act) {
        det_tensor *before = out_grad_to_write(n, 0, g), *slope = n->aux[LINEAR_AUX_SLOPE];
        det_dtype dtype = (det_dtype)g->dtype;
        ew_fn multiply = slope ? ew_binary(BINARY_mul, dtype) : ew_unary_grad(UNARY_relu, dtype);
        det_tensor *const operand[] = {before, g, slope ? slope : n->out[0]};
        if (before) ew_run(multiply, operand, 3, NULL);
        tensor_release(g);
        if (!(g = before)) return DET_ENOMEM;
    }
    int rc = linear_backward_from(n, g);
    tensor_release(g);
    return rc;
}

static const char *const linear_cases[] = {"x:f[A,b] w:f[C,b] b:f[C]; ; F.linear(x, w, b)",
                                           "x:f[a,b,c] w:f[7,c] -; ; F.linear(x, w)",
                                           "x:f[70,90] w:f[110,90] b:f[110]; ; F.linear(x, w, b)",
                                           "x:f[33,17] w:f[300,17] b:f[300]; ; F.linear(x, w, b)",
                                           "x:f[40,2100] w:f[20,2100] b:f[20]; ; F.linear(x, w, b)",
                                           "x:f[a,0] w:f[b,0] b:f[b]; ; F.linear(x, w, b)",
                                           "x:f[0,a] w:f[b,a] b:f[b]; ; F.linear(x, w, b)",
                                           NULL};
const struct op op_linear = {.name = "linear",
                             .min_in = 2,
                             .max_in = 3,
                             .flags = OP_DEFER,
                             .saves_for = {2, 1},
                             .infer = linear_infer,
                             .forward = linear_forward,
                             .backward = linear_backward,
                             .cases = linear_cases};

static const struct attr_field linear_act_attrs[] = {
    {"act", ATTR_INT, offsetof(struct linear_attr, act)}, {NULL, 0, 0}};
#define LINEAR_ACT_ROW                                                    \
    .min_in = 2, .max_in = 3, .saves_for = {2, 1}, .infer = linear_infer, \
    .forward = linear_forward, .backward = linear_backward, .attrs = linear_act_attrs

static const char *const linear_relu_cases[] = {
    "x:f[A,b] w:f[C,b] b:f[C]; act=1; F.relu(F.linear(x, w, b))", NULL};
const struct op op_linear_relu = {
    .name = "linear_relu", LINEAR_ACT_ROW, .saves_out = true, .cases = linear_relu_cases};

static const char *const linear_gelu_cases[] = {
    "x:f[A,b] w:f[C,b] b:f[C]; act=2; F.gelu(F.linear(x, w, b))",
    "x:f[70,90] w:f[110,90] b:f[110]; act=2; F.gelu(F.linear(x, w, b))", NULL};
const struct op op_linear_gelu = {
    .name = "linear_gelu", LINEAR_ACT_ROW, .cases = linear_gelu_cases};

static bool absorb_linear(struct node *consumer, const struct node *linear, const struct op *op,
                          enum gemm_act act)
{
    struct linear_attr a = *NODE_ATTR(linear, struct linear_attr);
    if (linear->out[0]->dtype == DET_F64 || a.act) return false;
    a.act = act;
    node_rewrite(consumer, op, linear->in, linear->n_in, &a, sizeof a);
    return true;
}

bool relu_absorbs_linear(struct node *consumer, const struct node *producer)
{
    return absorb_linear(consumer, producer, &op_linear_relu, GEMM_ACT_RELU);
}

bool gelu_absorbs_linear(struct node *consumer, const struct node *producer)
{
    return absorb_linear(consumer, producer, &op_linear_gelu, GEMM_ACT_GELU);
}

// Integers are multiplied as they are: no layer has such, but torch does it.
static det_tensor *integer_linear(det_tensor *x, det_tensor *weight, det_tensor *bias)
{
    det_tensor *y = det_matmul(x, det_transpose(weight, 0, 1));
    return bias ? det_add(y, bias) : y;
}

det_tensor *det_linear(det_tensor *x, det_tensor *weight, det_tensor *bias)
{
    struct linear_attr a = {0};
    bool one_for_all = bias && bias->ndim < 2 && bias->numel == 1;
    if (one_for_all && weight && weight->ndim == 2 && (!bias->ndim || weight->shape[0] != 1))
        bias = det_expand(bias, &weight->shape[0], 1);
    bool fits = x && weight && weight->ndim == 2 && x->dtype == weight->dtype &&
                (!bias || (bias->ndim == 1 && bias->dtype == x->dtype));
    if (fits && !dtype_is_float((det_dtype)x->dtype)) return integer_linear(x, weight, bias);
    return OP_APPLY(&op_linear, a, x, weight, bias);
}

// --- matmul

// The operation itself: (batch..., m, k) by (batch..., k, n) with equal batches. det_matmul brings
// every other form to this one.
struct matmul_attr {
    bool bf16;
};

static int matmul_infer(struct node *n)
{
    const det_tensor *a = n->in[0], *b = n->in[1];
    struct matmul_attr *attr = NODE_ATTR(n, struct matmul_attr);
    bool integers = a->dtype == DET_I64 && b->dtype == DET_I64;
    int d = a->ndim, rc = integers ? 0 : want_floats(n, 2);
    if (rc) return rc;
    if (d < 2 || b->ndim != d || a->shape[d - 1] != b->shape[d - 2] ||
        memcmp(a->shape, b->shape, (size_t)(d - 2) * sizeof *a->shape) != 0)
        return node_fail(n, DET_ESHAPE, "%s by %s", TENSOR_TEXT(a), TENSOR_TEXT(b));
    attr->bf16 = computes_in_bf16(n);
    if (!attr->bf16 && a->dtype != b->dtype)
        return node_fail(n, DET_EDTYPE, "%s by %s; both must be of one type",
                         det_dtype_name((det_dtype)a->dtype), det_dtype_name((det_dtype)b->dtype));
    int64_t shape[DET_MAX_DIMS];
    memcpy(shape, a->shape, sizeof shape);
    shape[d - 1] = b->shape[d - 1];
    return node_out(n, attr->bf16 ? DET_BF16 : (det_dtype)a->dtype, shape, d);
}

// t, or a row-major copy if its memory cannot be walked by gemm. Release it.
static det_tensor *gemm_operand(det_tensor *t, int64_t *stride)
{
    bool unit = t->stride[t->ndim - 1] == 1 || t->stride[t->ndim - 2] == 1;
    if (unit && leading_dims_merge(t, t->ndim - 2, stride)) return tensor_ref(t);
    *stride = t->shape[t->ndim - 2] * t->shape[t->ndim - 1];
    return tensor_row_major(t);
}

static int matmul_forward(struct node *n)
{
    int d = n->out[0]->ndim;
    int64_t sa, sb;
    det_tensor *y = n->out[0], *a = gemm_operand(n->in[0], &sa), *b = gemm_operand(n->in[1], &sb);
    int rc = DET_ENOMEM;
    if (!a || !b) goto out;
    struct gemm g = {
        .m = y->shape[d - 2],
        .n = y->shape[d - 1],
        .k = a->shape[d - 1],
        .a = matrix_of(a, a->stride[d - 2], a->stride[d - 1]),
        .b = matrix_of(b, b->stride[d - 2], b->stride[d - 1]),
        .c = y->data,
        .ldc = y->shape[d - 1],
        .c_dtype = (det_dtype)y->dtype,
        .bf16 = NODE_ATTR(n, struct matmul_attr)->bf16,
        .a_batch = sa,
        .b_batch = sb,
        .c_batch = y->shape[d - 2] * y->shape[d - 1],
    };
    g.n_batch = g.c_batch ? y->numel / g.c_batch : 0;
    rc = y->numel ? run_gemm(n, &g) : 0;
out:
    tensor_release(a);
    tensor_release(b);
    return rc;
}

static int matmul_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0);
    bool old = det_set_autocast(NODE_ATTR(n, struct matmul_attr)->bf16);
    if (wants_grad(n, 0))
        give_grad(n, 0, tensor_ref(det_matmul(g, det_transpose(n->in[1], -1, -2))));
    if (wants_grad(n, 1))
        give_grad(n, 1, tensor_ref(det_matmul(det_transpose(n->in[0], -1, -2), g)));
    det_set_autocast(old);
    return 0;
}

static const char *const matmul_cases[] = {
    "x:f[a,b] y:f[b,c]; ; x @ y",         "x:f[2,a,b] y:f[2,b,c]; ; x @ y",
    "x:f[65,130] y:f[130,70]; ; x @ y",   "x:f[3,2,40,33] y:f[3,2,33,20]; ; x @ y",
    "x:f[16,2100] y:f[2100,20]; ; x @ y", "x:f[2,a,0] y:f[2,0,b]; ; x @ y",
    "x:f[0,a,b] y:f[0,b,c]; ; x @ y",     NULL};
const struct op op_matmul = {.name = "matmul",
                             .min_in = 2,
                             .max_in = 2,
                             .saves_for = {2, 1},
                             .infer = matmul_infer,
                             .forward = matmul_forward,
                             .backward = matmul_backward,
                             .cases = matmul_cases};

// Both with the same batch dims, by expanding.
static det_tensor *batched_matmul(det_tensor *a, det_tensor *b)
{
    int64_t sa[DET_MAX_DIMS], sb[DET_MAX_DIMS];
    int d = MAX(a->ndim, b->ndim);
    for (int i = 0; i < d - 2; i++) {
        int ia = i - (d - a->ndim), ib = i - (d - b->ndim);
        int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
        if (na != nb && na != 1 && nb != 1) {
            det_raise(DET_ESHAPE, "matmul: %s by %s: the batches do not broadcast", TENSOR_TEXT(a),
                      TENSOR_TEXT(b));
            return NULL;
        }
        sa[i] = sb[i] = na == 1 ? nb : na;
    }
    for (int i = 0; i < 2; i++) {
        sa[d - 2 + i] = a->shape[a->ndim - 2 + i];
        sb[d - 2 + i] = b->shape[b->ndim - 2 + i];
    }
    struct matmul_attr attr = {0};
    det_tensor *ea = det_expand(a, sa, d), *eb = det_expand(b, sb, d);
    return OP_APPLY(&op_matmul, attr, ea, eb);
}

// A batch of rows times one matrix is one product: all rows together.
static det_tensor *rows_matmul(det_tensor *a, det_tensor *b)
{
    int64_t shape[DET_MAX_DIMS], k = a->shape[a->ndim - 1];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->ndim - 1] = b->shape[1];
    int64_t rows = k ? a->numel / k : 0;
    if (!k) return batched_matmul(a, b);
    struct matmul_attr attr = {0};
    det_tensor *flat = det_reshape(a, DET_DIMS(rows, k));
    return det_reshape(OP_APPLY(&op_matmul, attr, flat, b), shape, a->ndim);
}

det_tensor *det_matmul(det_tensor *a, det_tensor *b)
{
    if (!a || !b || sticky_failed()) return OP_APPLY0(&op_matmul, a, b);
    if (!a->ndim || !b->ndim) {
        det_raise(DET_ESHAPE, "matmul: %s by %s: single numbers; use mul", TENSOR_TEXT(a),
                  TENSOR_TEXT(b));
        return NULL;
    }
    if (a->dtype == b->dtype && (a->dtype == DET_I32 || a->dtype == DET_U8)) {
        det_dtype dtype = (det_dtype)a->dtype;
        return det_to(det_matmul(det_to(a, DET_I64), det_to(b, DET_I64)), dtype);
    }
    bool row = a->ndim == 1, column = b->ndim == 1;
    if (row) a = det_unsqueeze(a, 0);
    if (column) b = det_unsqueeze(b, 1);
    if (!a || !b) return NULL;
    bool one_matrix = b->ndim == 2 && a->ndim > 2 && a->shape[a->ndim - 1] == b->shape[0];
    det_tensor *y = one_matrix ? rows_matmul(a, b) : batched_matmul(a, b);
    if (row) y = det_squeeze(y, -2);
    if (column) y = det_squeeze(y, -1);
    return y;
}
