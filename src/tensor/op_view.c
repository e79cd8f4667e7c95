// Unit op_view.c: other looks at the same memory: reshape, permute, slice, expand and their
// relatives.
#include "tensor/axes.h"
#include "tensor/elementwise.h"
#include "tensor/ops.h"

int view_share(struct node *n, int64_t offset)
{
    det_tensor *in = n->in[0], *out = n->out[0];
    out->storage = in->storage;
    out->storage->refs++;
    out->data = (char *)in->data + offset * (int64_t)dtype_size((det_dtype)in->dtype);
    return 0;
}

static int view_forward(struct node *n)
{
    return view_share(n, 0);
}

// --- reshape

static const struct attr_field dims_attrs[] = {{"dims", ATTR_DIMS, 0}, {NULL, 0, 0}};

// Strides of shape over the memory of t, if no copy is needed: each axis of t must be covered by
// whole dims of the new shape.
static bool view_strides(const det_tensor *t, const int64_t *shape, int ndim, int64_t *stride)
{
    struct axes a = {0};
    if (t->numel) axes_add_dims(&a, t, 0, t->ndim);
    int v = ndim - 1;
    int64_t step = 1;
    for (int i = 0; i < a.n; i++) {
        int64_t covered = 1;
        for (; v >= 0 && (covered < a.size[i] || shape[v] == 1); v--) {
            stride[v] = covered * a.stride[i];
            covered *= shape[v];
        }
        if (covered != a.size[i]) return false;
    }
    for (; v >= 0; v--) { // sizes of 1, or nothing at all: row-major
        stride[v] = step;
        step *= MAX(shape[v], (int64_t)1);
    }
    return true;
}

static int reshape_infer(struct node *n)
{
    const struct dims *want = NODE_ATTR(n, struct dims);
    int64_t stride[DET_MAX_DIMS], count = 1;
    bool is_shape = true;
    for (int i = 0; i < want->n && is_shape; i++)
        is_shape = want->v[i] >= 0 && !__builtin_mul_overflow(count, want->v[i], &count);
    if (!is_shape || count != n->in[0]->numel)
        return node_fail(n, DET_ESHAPE, "%s cannot become %s", TENSOR_TEXT(n->in[0]),
                         shape_text(want->v, want->n));
    if (!view_strides(n->in[0], want->v, want->n, stride))
        return node_fail(n, DET_ESHAPE,
                         "%s with strides %s cannot be seen as %s without copying; use reshape",
                         TENSOR_TEXT(n->in[0]), shape_text(n->in[0]->stride, n->in[0]->ndim),
                         shape_text(want->v, want->n));
    return node_out_strided(n, (det_dtype)n->in[0]->dtype, want->v, stride, want->n);
}

static int reshape_backward(struct node *n)
{
    det_tensor *x = n->in[0];
    give_grad(n, 0, tensor_ref(det_reshape(out_grad(n, 0), x->shape, x->ndim)));
    return 0;
}

static const char *const reshape_cases[] = {"dense|x:f[a,b,c]; dims=a*b,c; x.reshape(a*b,c)",
                                            "dense|x:f[a,b,c]; dims=a,1,b*c; x.reshape(a,1,b*c)",
                                            NULL};
const struct op op_reshape = {.name = "reshape",
                              .min_in = 1,
                              .max_in = 1,
                              .flags = OP_VIEW | OP_STORED,
                              .infer = reshape_infer,
                              .forward = view_forward,
                              .backward = reshape_backward,
                              .attrs = dims_attrs,
                              .cases = reshape_cases};

// Fills in a size of -1 and checks that the number of elements stays. False after an error.
static bool resolve_shape(const char *what, const det_tensor *x, const int64_t *shape, int n,
                          struct dims *out)
{
    if (n < 0 || n > DET_MAX_DIMS || (n && !shape)) {
        det_raise(DET_ESHAPE, "%s: %d dims; a tensor has 0 to %d", what, n, DET_MAX_DIMS);
        return false;
    }
    int64_t known = 1;
    int open = -1;
    out->n = n;
    for (int i = 0; i < n; i++) {
        out->v[i] = shape[i];
        bool bad = shape[i] < -1 || (shape[i] == -1 && open >= 0);
        if (shape[i] == -1)
            open = i;
        else if (!bad)
            bad = __builtin_mul_overflow(known, shape[i], &known);
        if (bad) {
            det_raise(DET_ESHAPE, "%s: %s is not a shape (one size may be -1)", what,
                      shape_text(shape, n));
            return false;
        }
    }
    if (open >= 0 && known > 0 && x->numel % known == 0) {
        out->v[open] = x->numel / known;
        known = x->numel;
    }
    if (known == x->numel && (open < 0 || out->v[open] >= 0)) return true;
    det_raise(DET_ESHAPE, "%s: %s has %lld elements, %s does not", what, TENSOR_TEXT(x),
              (long long)x->numel, shape_text(shape, n));
    return false;
}

static det_tensor *reshape_to(det_tensor *x, const struct dims *shape)
{
    int64_t stride[DET_MAX_DIMS];
    if (!view_strides(x, shape->v, shape->n, stride)) x = det_contiguous(x);
    return OP_APPLY(&op_reshape, *shape, x);
}

det_tensor *det_reshape(det_tensor *x, const int64_t *shape, int n)
{
    struct dims to = {0};
    if (sticky_failed() || (x && !resolve_shape("reshape", x, shape, n, &to))) return NULL;
    return x ? reshape_to(x, &to) : OP_APPLY(&op_reshape, to, x);
}

det_tensor *det_view(det_tensor *x, const int64_t *shape, int n)
{
    struct dims to = {0};
    if (sticky_failed() || (x && !resolve_shape("view", x, shape, n, &to))) return NULL;
    return OP_APPLY(&op_reshape, to, x);
}

// A dim of x in 0 .. limit-1, or -1 after an error.
static int dim_or_fail(const char *what, const det_tensor *x, int dim, int limit)
{
    int d = dim < 0 ? dim + limit : dim;
    if (d >= 0 && d < limit) return d;
    det_raise(DET_ESHAPE, "%s: dim %d of %s is not in %d .. %d", what, dim, TENSOR_TEXT(x), -limit,
              limit - 1);
    return -1;
}

det_tensor *det_flatten(det_tensor *x, int start_dim, int end_dim)
{
    if (!x || sticky_failed()) return OP_APPLY0(&op_reshape, x);
    int limit = MAX(x->ndim, 1), a = dim_or_fail("flatten", x, start_dim, limit);
    int b = a < 0 ? -1 : dim_or_fail("flatten", x, end_dim, limit);
    if (a >= 0 && b >= 0 && b < a)
        det_raise(DET_ESHAPE, "flatten: start_dim %d is behind end_dim %d", start_dim, end_dim);
    if (sticky_failed()) return NULL;
    struct dims to = {0};
    int64_t size = 1;
    for (int d = 0; d < x->ndim; d++) {
        if (d < a || d > b) to.v[to.n++] = x->shape[d];
        if (d >= a && d <= b) size *= x->shape[d];
        if (d == b) to.v[to.n++] = size;
    }
    if (!x->ndim) to.v[to.n++] = 1;
    return reshape_to(x, &to);
}

det_tensor *det_squeeze(det_tensor *x, int dim)
{
    if (!x || sticky_failed()) return OP_APPLY0(&op_reshape, x);
    int drop = dim_or_fail("squeeze", x, dim, MAX(x->ndim, 1));
    if (drop < 0) return NULL;
    struct dims to = {0};
    for (int d = 0; d < x->ndim; d++)
        if (d != drop || x->shape[d] != 1) to.v[to.n++] = x->shape[d];
    return reshape_to(x, &to);
}

det_tensor *det_squeeze_all(det_tensor *x)
{
    struct dims to = {0};
    for (int d = 0; x && d < x->ndim; d++)
        if (x->shape[d] != 1) to.v[to.n++] = x->shape[d];
    return x ? reshape_to(x, &to) : OP_APPLY0(&op_reshape, x);
}

det_tensor *det_unsqueeze(det_tensor *x, int dim)
{
    if (!x || sticky_failed()) return OP_APPLY0(&op_reshape, x);
    int at = dim_or_fail("unsqueeze", x, dim, x->ndim + 1);
    if (at >= 0 && x->ndim == DET_MAX_DIMS)
        det_raise(DET_ESHAPE, "unsqueeze: %s has %d dims already", TENSOR_TEXT(x), DET_MAX_DIMS);
    if (sticky_failed()) return NULL;
    struct dims to = {0};
    for (int d = 0; d <= x->ndim; d++) {
        if (d == at) to.v[to.n++] = 1;
        if (d < x->ndim) to.v[to.n++] = x->shape[d];
    }
    return reshape_to(x, &to);
}

static bool lacks_batch(const det_tensor *x, int ndim)
{
    return x && x->ndim == ndim - 1;
}

det_tensor *with_batch(det_tensor *x, int ndim)
{
    return lacks_batch(x, ndim) ? det_unsqueeze(x, 0) : x;
}

det_tensor *without_batch(const det_tensor *x, int ndim, det_tensor *y)
{
    return lacks_batch(x, ndim) ? det_squeeze(y, 0) : y;
}

// --- permute

static int permute_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct dims *p = NODE_ATTR(n, struct dims);
    int64_t shape[DET_MAX_DIMS], stride[DET_MAX_DIMS];
    unsigned seen = 0;
    if (p->n != x->ndim)
        return node_fail(n, DET_ESHAPE, "%d dims given for %s", p->n, TENSOR_TEXT(x));
    for (int i = 0; i < p->n; i++) {
        int d, rc = node_dim(n, p->v[i], x->ndim, &d);
        if (rc) return rc;
        if (seen >> d & 1) return node_fail(n, DET_ESHAPE, "dim %d is named twice", d);
        seen |= 1u << d;
        p->v[i] = d;
        shape[i] = x->shape[d];
        stride[i] = x->stride[d];
    }
    return node_out_strided(n, (det_dtype)x->dtype, shape, stride, p->n);
}

static int permute_backward(struct node *n)
{
    const struct dims *p = NODE_ATTR(n, struct dims);
    int64_t inverse[DET_MAX_DIMS];
    for (int i = 0; i < p->n; i++)
        inverse[p->v[i]] = i;
    give_grad(n, 0, tensor_ref(det_permute(out_grad(n, 0), inverse, p->n)));
    return 0;
}

static const char *const permute_cases[] = {"x:f[a,b,c]; dims=2,0,1; x.permute(2,0,1)",
                                            "x:f[a,b,c]; dims=0,-1,1; x.permute(0,-1,1)", NULL};
const struct op op_permute = {.name = "permute",
                              .min_in = 1,
                              .max_in = 1,
                              .flags = OP_VIEW | OP_STORED,
                              .infer = permute_infer,
                              .forward = view_forward,
                              .backward = permute_backward,
                              .attrs = dims_attrs,
                              .cases = permute_cases};

det_tensor *det_permute(det_tensor *x, const int64_t *dims, int n)
{
    struct dims p = {0};
    if (n < 0 || n > DET_MAX_DIMS || (n && !dims)) {
        det_raise(DET_ESHAPE, "permute: %d dims; a tensor has 0 to %d", n, DET_MAX_DIMS);
        return NULL;
    }
    p.n = n;
    if (n) memcpy(p.v, dims, (size_t)n * sizeof *dims);
    return OP_APPLY(&op_permute, p, x);
}

det_tensor *det_transpose(det_tensor *x, int dim0, int dim1)
{
    if (!x || sticky_failed()) return OP_APPLY0(&op_permute, x);
    int limit = MAX(x->ndim, 1), a = dim_or_fail("transpose", x, dim0, limit);
    int b = a < 0 ? -1 : dim_or_fail("transpose", x, dim1, limit);
    if (b < 0) return NULL;
    struct dims p = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        p.v[i] = i == a ? b : i == b ? a : i;
    return OP_APPLY(&op_permute, p, x);
}

// --- slice

struct slice_attr {
    int64_t dim, start, end, step;
    bool drop; // select: the dim goes away
};

static const struct attr_field slice_attrs[] = {
    {"dim", ATTR_INT, offsetof(struct slice_attr, dim)},
    {"start", ATTR_INT, offsetof(struct slice_attr, start)},
    {"end", ATTR_INT, offsetof(struct slice_attr, end)},
    {"step", ATTR_INT, offsetof(struct slice_attr, step)},
    {"drop", ATTR_BOOL, offsetof(struct slice_attr, drop)},
    {NULL, 0, 0},
};

static int slice_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct slice_attr *a = NODE_ATTR(n, struct slice_attr);
    int d, rc = node_dim(n, a->dim, x->ndim, &d);
    if (rc) return rc;
    if (!x->ndim) return node_fail(n, DET_ESHAPE, "a single number has no dims to slice");
    if (a->step < 1)
        return node_fail(n, DET_EINVAL, "step is %lld, wants at least 1", (long long)a->step);
    int64_t size = x->shape[d];
    if (a->start < 0) a->start += size; // as Python: counted from the end, then clipped
    if (a->end < 0) a->end += size;
    a->start = MAX(0, MIN(a->start, size));
    a->end = MAX(a->start, MIN(a->end, size));
    if (a->step > size) a->step = MAX(size, 1); // one element either way, and nothing overflows
    if (a->drop && a->start == a->end)
        return node_fail(n, DET_EINVAL, "no element %lld in dim %d of %s", (long long)a->start, d,
                         TENSOR_TEXT(x));
    a->dim = d;
    int64_t shape[DET_MAX_DIMS], stride[DET_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (i == d && a->drop) continue;
        shape[ndim] = i == d ? (a->end - a->start + a->step - 1) / a->step : x->shape[i];
        stride[ndim++] = i == d ? x->stride[i] * a->step : x->stride[i];
    }
    return node_out_strided(n, (det_dtype)x->dtype, shape, stride, ndim);
}

static int slice_forward(struct node *n)
{
    const struct slice_attr *a = NODE_ATTR(n, struct slice_attr);
    return view_share(n, a->start * n->in[0]->stride[a->dim]);
}

// Writes into the same slice of the input's gradient; what is outside gets zeros once.
static int slice_backward(struct node *n)
{
    const struct slice_attr *a = NODE_ATTR(n, struct slice_attr);
    bool accumulate;
    det_tensor *gx = grad_target(n, 0, &accumulate), *g = out_grad(n, 0);
    if (!gx) return DET_ENOMEM;
    if (!accumulate) memset(gx->data, 0, (size_t)gx->numel * dtype_size((det_dtype)gx->dtype));
    det_tensor part = *n->out[0];
    for (int i = 0, o = 0; i < gx->ndim; i++) {
        if (i == a->dim && a->drop) continue;
        part.stride[o++] = gx->stride[i] * (i == a->dim ? a->step : 1);
    }
    part.dtype = gx->dtype;
    part.data = (char *)gx->data +
                a->start * gx->stride[a->dim] * (int64_t)dtype_size((det_dtype)gx->dtype);
    ew_run(ew_axpy((det_dtype)gx->dtype), (det_tensor *const[]){&part, g}, 2, (double[]){1, 0});
    return 0;
}

static const char *const slice_cases[] = {"x:f[a,B,c]; dim=1 start=1 end=4 step=1; x[:,1:4]",
                                          "x:f[a,B,c]; dim=1 start=0 end=-1 step=2; x[:,0:-1:2]",
                                          "x:f[a,B,c]; dim=1 start=2 end=3 step=1 drop=1; x[:,2]",
                                          NULL};
const struct op op_slice = {.name = "slice",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = OP_VIEW | OP_STORED,
                            .infer = slice_infer,
                            .forward = slice_forward,
                            .backward = slice_backward,
                            .attrs = slice_attrs,
                            .cases = slice_cases};

det_tensor *det_slice(det_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    struct slice_attr a = {.dim = dim, .start = start, .end = end, .step = step};
    return OP_APPLY(&op_slice, a, x);
}

det_tensor *det_select(det_tensor *x, int dim, int64_t index)
{
    if (!x || sticky_failed()) return OP_APPLY0(&op_slice, x);
    int d = dim_or_fail("select", x, dim, MAX(x->ndim, 1));
    if (d < 0) return NULL;
    int64_t size = x->ndim ? x->shape[d] : 0, at = index < 0 ? index + size : index;
    if (at < 0 || at >= size) {
        det_raise(DET_EINVAL, "select: index %lld of dim %d of %s", (long long)index, dim,
                  TENSOR_TEXT(x));
        return NULL;
    }
    struct slice_attr a = {.dim = d, .start = at, .end = at + 1, .step = 1, .drop = true};
    return OP_APPLY(&op_slice, a, x);
}

int det_split(det_tensor *x, int64_t size, int dim, det_tensor **out, int max_out)
{
    if (!x || sticky_failed()) return DET_ESTATE;
    int d = dim_or_fail("split", x, dim, MAX(x->ndim, 1));
    if (d < 0) return DET_ESHAPE;
    int64_t total = x->ndim ? x->shape[d] : 0;
    if (size < 1 || (total + size - 1) / size > max_out) {
        det_raise(DET_EINVAL, "split: pieces of %lld of a dim of %lld into %d places",
                  (long long)size, (long long)total, max_out);
        return DET_EINVAL;
    }
    int n = 0;
    for (int64_t at = 0; at < total; at += size)
        out[n++] = det_slice(x, d, at, MIN(at + size, total), 1);
    if (!n && max_out > 0) out[n++] = det_slice(x, d, 0, 0, 1); // nothing is one empty piece
    return sticky_failed() ? DET_ESTATE : n;
}

// --- expand

static int expand_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    const struct dims *want = NODE_ATTR(n, struct dims);
    int64_t shape[DET_MAX_DIMS], stride[DET_MAX_DIMS];
    int extra = want->n - x->ndim;
    bool fits = extra >= 0;
    for (int i = 0; i < want->n && fits; i++) {
        int d = i - extra;
        int64_t have = d < 0 ? 1 : x->shape[d];
        shape[i] = want->v[i] == -1 && d >= 0 ? have : want->v[i];
        stride[i] = d >= 0 && have == shape[i] ? x->stride[d] : 0;
        fits = shape[i] >= 0 && (have == 1 || have == shape[i]);
    }
    if (!fits)
        return node_fail(n, DET_ESHAPE, "%s cannot become %s", TENSOR_TEXT(x),
                         shape_text(want->v, want->n));
    return node_out_strided(n, (det_dtype)x->dtype, shape, stride, want->n);
}

static int expand_backward(struct node *n)
{
    give_grad(n, 0, sum_to_shape(tensor_ref(out_grad(n, 0)), n->in[0]));
    return 0;
}

static const char *const expand_cases[] = {"x:f[a,1,c]; dims=a,5,c; x.expand(a,5,c)",
                                           "x:f[b]; dims=3,-1; x.expand(3,-1)", NULL};
const struct op op_expand = {.name = "expand",
                             .min_in = 1,
                             .max_in = 1,
                             .flags = OP_VIEW | OP_STORED,
                             .infer = expand_infer,
                             .forward = view_forward,
                             .backward = expand_backward,
                             .attrs = dims_attrs,
                             .cases = expand_cases};

det_tensor *det_expand(det_tensor *x, const int64_t *shape, int n)
{
    struct dims to = {0};
    if (n < 0 || n > DET_MAX_DIMS || (n && !shape)) {
        det_raise(DET_ESHAPE, "expand: %d dims; a tensor has 0 to %d", n, DET_MAX_DIMS);
        return NULL;
    }
    to.n = n;
    if (n) memcpy(to.v, shape, (size_t)n * sizeof *shape);
    return OP_APPLY(&op_expand, to, x);
}

// --- detach

static int detach_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    return node_out_strided(n, (det_dtype)x->dtype, x->shape, x->stride, x->ndim);
}

static const char *const detach_cases[] = {"x:f[a,b]; ; x.detach()", NULL};
const struct op op_detach = {.name = "detach",
                             .min_in = 1,
                             .max_in = 1,
                             .flags = OP_VIEW | OP_STORED,
                             .infer = detach_infer,
                             .forward = view_forward,
                             .cases = detach_cases};

det_tensor *det_detach(det_tensor *t)
{
    return OP_APPLY0(&op_detach, t);
}
