// Unit op_join.c: tensors put together and turned around: concat, stack, pad, flip, tril, triu. All
// of them copy between views of one memory and another.
#include "tensor/elementwise.h"
#include "tensor/ops.h"

// A part of t: the sizes of shape, from the given element of dim on.
static det_tensor part_of(const det_tensor *t, int dim, int64_t from, int64_t size)
{
    det_tensor view = *t;
    view.shape[dim] = size;
    view.numel = t->shape[dim] ? t->numel / t->shape[dim] * size : 0;
    view.data = (char *)t->data + from * t->stride[dim] * (int64_t)dtype_size((det_dtype)t->dtype);
    return view;
}

// --- concat, stack

static const struct attr_field dim_attrs[] = {{"dim", ATTR_INT, 0}, {NULL, 0, 0}};

// Whatever the shape of the others, a tensor of shape (0,) adds nothing: a list that is still
// empty.
static bool is_nothing(const det_tensor *t)
{
    return t && t->ndim == 1 && !t->shape[0];
}

// The number of the input that says how many dims there are.
static int first_part(const struct node *n)
{
    int i = 0;
    while (i < n->n_in && is_nothing(n->in[i]))
        i++;
    return i < n->n_in ? i : 0;
}

static int concat_infer(struct node *n)
{
    int at = first_part(n);
    const det_tensor *first = n->in[at];
    if (!first) return node_fail(n, DET_EINVAL, "input %d is NULL", at);
    int64_t *dim = NODE_ATTR(n, int64_t), shape[DET_MAX_DIMS];
    int d, rc = node_dim(n, *dim, first->ndim, &d);
    if (rc) return rc;
    if (!first->ndim) return node_fail(n, DET_ESHAPE, "single numbers; use stack");
    memcpy(shape, first->shape, sizeof shape);
    for (int i = at + 1; i < n->n_in; i++) {
        const det_tensor *t = n->in[i];
        if (!t) return node_fail(n, DET_EINVAL, "input %d is NULL", i);
        if (is_nothing(t)) continue;
        bool fits = t->ndim == first->ndim;
        for (int k = 0; fits && k < t->ndim; k++)
            fits = k == d || t->shape[k] == first->shape[k];
        if (!fits)
            return node_fail(n, DET_ESHAPE, "input %d is %s, input %d %s; dim %d may differ only",
                             i, TENSOR_TEXT(t), at, TENSOR_TEXT(first), d);
        if (__builtin_add_overflow(shape[d], t->shape[d], &shape[d]))
            return node_fail(n, DET_ESHAPE, "the result is too large");
    }
    *dim = d;
    return node_out(n, (det_dtype)first->dtype, shape, first->ndim);
}

static int concat_forward(struct node *n)
{
    int dim = (int)*NODE_ATTR(n, int64_t);
    int64_t at = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (is_nothing(n->in[i])) continue;
        det_tensor part = part_of(n->out[0], dim, at, n->in[i]->shape[dim]);
        ew_copy(&part, n->in[i]);
        at += n->in[i]->shape[dim];
    }
    return 0;
}

static int concat_backward(struct node *n)
{
    int dim = (int)*NODE_ATTR(n, int64_t);
    int64_t at = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (is_nothing(n->in[i])) {
            if (wants_grad(n, i)) give_grad(n, i, tensor_new_like(n->in[i]));
            continue;
        }
        int64_t size = n->in[i]->shape[dim];
        if (wants_grad(n, i))
            give_grad(n, i, tensor_ref(det_slice(out_grad(n, 0), dim, at, at + size, 1)));
        at += size;
    }
    return 0;
}

enum { MAX_JOINED = UINT8_MAX };
static const char *const concat_cases[] = {
    "x:f[a,b,c] y:f[a,3,c] z:f[a,1,c]; dim=1; torch.cat([x, y, z], 1)",
    "x:f[a,b] y:f[3,b]; dim=0; torch.cat([x, y])",
    "x:f[a,b,c]; dim=-1; torch.cat([x], -1)",
    "x:f[a,b] y:f[a,0]; dim=-1; torch.cat([x, y], -1)",
    "x:i9[a] y:f[b]; dim=0; torch.cat([x, y])",
    "x:b[a] y:b[b]; dim=0; torch.cat([x, y])",
    "x:f[0] y:f[a,b] z:f[0] u:f[a,c]; dim=1; torch.cat([x, y, z, u], 1)",
    NULL};
const struct op op_concat = {.name = "concat",
                             .min_in = 1,
                             .max_in = MAX_JOINED,
                             .flags = OP_PROMOTE | OP_STORED,
                             .infer = concat_infer,
                             .forward = concat_forward,
                             .backward = concat_backward,
                             .attrs = dim_attrs,
                             .cases = concat_cases};

det_tensor *det_concat(det_tensor *const *x, int n, int dim)
{
    int64_t d = dim;
    if (n < 1 || !x) {
        det_raise(DET_EINVAL, "concat: %d tensors, wants 1 or more", x ? n : 0);
        return NULL;
    }
    det_tensor *joined = op_apply(&op_concat, x, MIN(n, MAX_JOINED), &d, sizeof d);
    for (int at = MAX_JOINED; at < n && joined;) { // more than one call takes: in several
        det_tensor *in[MAX_JOINED] = {joined};
        int count = MIN(n - at, MAX_JOINED - 1);
        memcpy(in + 1, x + at, (size_t)count * sizeof *in);
        joined = op_apply(&op_concat, in, count + 1, &d, sizeof d);
        at += count;
    }
    return joined;
}

det_tensor *det_stack(det_tensor *const *x, int n, int dim)
{
    if (n < 1 || !x) {
        det_raise(DET_EINVAL, "stack: %d tensors, wants 1 or more", x ? n : 0);
        return NULL;
    }
    det_tensor **parts = tape_alloc(tape_get(), (size_t)n * sizeof *parts);
    for (int i = 0; i < n; i++) {
        bool given = x[i] && x[0];
        if (!given) det_raise(DET_EINVAL, "stack: input %d is NULL", i);
        if (given && !same_shape(x[i], x[0]))
            det_raise(DET_ESHAPE, "stack: input %d is %s, input 0 %s", i, TENSOR_TEXT(x[i]),
                      TENSOR_TEXT(x[0]));
        parts[i] = det_unsqueeze(x[i], dim);
    }
    int64_t rank = det_ndim(x[0]) + 1;
    return det_concat(parts, n, dim < 0 ? dim + (int)rank : dim);
}

// --- pad

struct pad_attr {
    struct dims pads; // before and after the last dim, then the one before it, ...
    double value;
};

static const struct attr_field pad_attrs[] = {
    {"pads", ATTR_DIMS, offsetof(struct pad_attr, pads)},
    {"value", ATTR_REAL, offsetof(struct pad_attr, value)},
    {NULL, 0, 0},
};

static int pad_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    const struct dims *pads = &NODE_ATTR(n, struct pad_attr)->pads;
    int64_t shape[DET_MAX_DIMS];
    if (pads->n % 2 || pads->n / 2 > x->ndim)
        return node_fail(n, DET_ESHAPE, "%d numbers for %s; wants 2 for each dim", pads->n,
                         TENSOR_TEXT(x));
    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < pads->n; i += 2) {
        int64_t *size = &shape[x->ndim - 1 - i / 2], before = pads->v[i], after = pads->v[i + 1];
        bool cuts_too_much = before < -*size || after < -*size || // each first: no overflow below
                             MIN(before, 0) + MIN(after, 0) < -*size;
        if (cuts_too_much || __builtin_add_overflow(*size, before, size) ||
            __builtin_add_overflow(*size, after, size))
            return node_fail(n, DET_ESHAPE, "%s cannot be padded by %s", TENSOR_TEXT(x),
                             shape_text(pads->v, pads->n));
    }
    return node_out(n, (det_dtype)x->dtype, shape, x->ndim);
}

// The part of x that is in the result, and the part of the result that is x; negative pads cut.
static int pad_forward(struct node *n)
{
    const struct pad_attr *a = NODE_ATTR(n, struct pad_attr);
    det_tensor *out = n->out[0], from = *n->in[0], to = *out;
    double value = a->value;
    det_tensor fill = {.dtype = DET_F64, .numel = 1, .data = &value};
    ew_copy(out, &fill);
    for (int i = 0; i < a->pads.n / 2; i++) {
        int d = out->ndim - 1 - i;
        int64_t before = a->pads.v[2 * i], after = a->pads.v[2 * i + 1];
        int64_t size = from.shape[d] + MIN(before, 0) + MIN(after, 0);
        from = part_of(&from, d, MAX(-before, 0), size);
        to = part_of(&to, d, MAX(before, 0), size);
    }
    if (from.numel) ew_copy(&to, &from);
    return 0;
}

// The gradient is the result's, padded by as much less.
static int pad_backward(struct node *n)
{
    struct dims back = NODE_ATTR(n, struct pad_attr)->pads;
    for (int i = 0; i < back.n; i++)
        back.v[i] = -back.v[i];
    give_grad(n, 0, tensor_ref(det_pad(out_grad(n, 0), back.v, back.n, 0)));
    return 0;
}

static const char *const pad_cases[] = {
    "x:f[a,b,c]; pads=1,2 value=0.5; F.pad(x, (1,2), value=0.5)",
    "x:f[a,b,c]; pads=0,1,2,0; F.pad(x, (0,1,2,0))",
    "x:f[a,B,C]; pads=-1,2,1,-2 value=7; F.pad(x, (-1,2,1,-2), value=7)",
    "x:i5[a,b]; pads=1,1 value=3; F.pad(x, (1,1), value=3)",
    "x:b[a,b]; pads=1,1 value=1; F.pad(x, (1,1), value=True)",
    "x:f[a,0]; pads=1,1 value=2; F.pad(x, (1,1), value=2)",
    "x:f[a,b]; pads=0,0; F.pad(x, (0,0))",
    NULL};
const struct op op_pad = {.name = "pad",
                          .min_in = 1,
                          .max_in = 1,
                          .infer = pad_infer,
                          .forward = pad_forward,
                          .backward = pad_backward,
                          .attrs = pad_attrs,
                          .cases = pad_cases};

det_tensor *det_pad(det_tensor *x, const int64_t *pads, int n, double value)
{
    struct pad_attr a = {.value = value};
    if (n < 0 || n > DET_MAX_DIMS || (n && !pads)) {
        det_raise(DET_ESHAPE, "pad: %d numbers; wants 0 to %d", n, DET_MAX_DIMS);
        return NULL;
    }
    a.pads.n = n;
    if (n) memcpy(a.pads.v, pads, (size_t)n * sizeof *pads);
    return OP_APPLY(&op_pad, a, x);
}

// --- flip

static const struct attr_field dims_attrs[] = {{"dims", ATTR_DIMS, 0}, {NULL, 0, 0}};

static int flip_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct dims *dims = NODE_ATTR(n, struct dims);
    unsigned seen = 0;
    for (int i = 0; i < dims->n; i++) {
        int d, rc = node_dim(n, dims->v[i], x->ndim, &d);
        if (rc) return rc;
        if (seen >> d & 1) return node_fail(n, DET_ESHAPE, "dim %d is named twice", d);
        seen |= 1u << d;
        dims->v[i] = d;
    }
    return node_out_like(n, (det_dtype)x->dtype, x);
}

// Backwards is a negative stride from the last element on.
static int flip_forward(struct node *n)
{
    const struct dims *dims = NODE_ATTR(n, struct dims);
    det_tensor from = *n->in[0];
    for (int i = 0; i < dims->n && from.ndim && from.numel; i++) {
        int d = (int)dims->v[i];
        from = part_of(&from, d, from.shape[d] - 1, from.shape[d]);
        from.stride[d] = -from.stride[d];
    }
    ew_copy(n->out[0], &from);
    return 0;
}

static int flip_backward(struct node *n)
{
    const struct dims *dims = NODE_ATTR(n, struct dims);
    give_grad(n, 0, tensor_ref(det_flip(out_grad(n, 0), dims->v, dims->n)));
    return 0;
}

static const char *const flip_cases[] = {
    "x:f[a,B,c]; dims=1; x.flip(1)",    "x:f[a,b,c]; dims=0,-1; x.flip(0, -1)",
    "x:f[a,b]; ; x.flip([])",           "x:i9[a,b]; dims=0,1; x.flip(0, 1)",
    "x:f[a,0]; dims=0,1; x.flip(0, 1)", NULL};
const struct op op_flip = {.name = "flip",
                           .min_in = 1,
                           .max_in = 1,
                           .infer = flip_infer,
                           .forward = flip_forward,
                           .backward = flip_backward,
                           .attrs = dims_attrs,
                           .cases = flip_cases};

det_tensor *det_flip(det_tensor *x, const int64_t *dims, int n)
{
    struct dims d = {0};
    if (n < 0 || n > DET_MAX_DIMS || (n && !dims)) {
        det_raise(DET_ESHAPE, "flip: %d dims; a tensor has 0 to %d", n, DET_MAX_DIMS);
        return NULL;
    }
    d.n = n;
    if (n) memcpy(d.v, dims, (size_t)n * sizeof *dims);
    return OP_APPLY(&op_flip, d, x);
}

// --- tril, triu

static const struct attr_field diagonal_attrs[] = {{"diagonal", ATTR_INT, 0}, {NULL, 0, 0}};

static int triangle_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    if (x->ndim < 2) return node_fail(n, DET_ESHAPE, "input is %s, wants matrices", TENSOR_TEXT(x));
    return node_out(n, (det_dtype)x->dtype, x->shape, x->ndim);
}

// A copy with zeros on one side of the diagonal.
static int triangle_forward(struct node *n, bool lower)
{
    det_tensor *out = n->out[0];
    int64_t rows = out->shape[out->ndim - 2], cols = out->shape[out->ndim - 1];
    int64_t diagonal = MAX(-rows, MIN(*NODE_ATTR(n, int64_t), cols));
    size_t bytes = dtype_size((det_dtype)out->dtype);
    ew_copy(out, n->in[0]);
    for (int64_t r = 0; cols && r < out->numel / cols; r++) {
        int64_t edge =
            r % rows + diagonal + lower; // the first column that is not of the lower part
        edge = MAX(0, MIN(edge, cols));
        int64_t from = lower ? edge : 0, to = lower ? cols : edge;
        memset((char *)out->data + (size_t)(r * cols + from) * bytes, 0,
               (size_t)(to - from) * bytes);
    }
    return 0;
}

#define TRIANGLE(fn, lower)                                                            \
    static int fn##_forward(struct node *n)                                            \
    {                                                                                  \
        return triangle_forward(n, lower);                                             \
    }                                                                                  \
    static int fn##_backward(struct node *n)                                           \
    {                                                                                  \
        give_grad(n, 0, tensor_ref(det_##fn(out_grad(n, 0), *NODE_ATTR(n, int64_t)))); \
        return 0;                                                                      \
    }                                                                                  \
    static const char *const fn##_cases[] = {"x:f[A,b]; diagonal=0; x." #fn "()",      \
                                             "x:f[a,B,C]; diagonal=2; x." #fn "(2)",   \
                                             "x:f[A,B]; diagonal=-3; x." #fn "(-3)",   \
                                             "x:f[a,b]; diagonal=9; x." #fn "(9)",     \
                                             "x:f[a,b]; diagonal=-9; x." #fn "(-9)",   \
                                             "x:i9[a,b]; diagonal=1; x." #fn "(1)",    \
                                             NULL};                                    \
    const struct op op_##fn = {.name = #fn,                                            \
                               .min_in = 1,                                            \
                               .max_in = 1,                                            \
                               .infer = triangle_infer,                                \
                               .forward = fn##_forward,                                \
                               .backward = fn##_backward,                              \
                               .attrs = diagonal_attrs,                                \
                               .cases = fn##_cases};                                   \
    det_tensor *det_##fn(det_tensor *x, int64_t diagonal)                              \
    {                                                                                  \
        return OP_APPLY(&op_##fn, diagonal, x);                                        \
    }
TRIANGLE(tril, true)
TRIANGLE(triu, false)
