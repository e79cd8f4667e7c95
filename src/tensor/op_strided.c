// Unit op_strided.c: looks at memory that no slice can have: windows that overlap, and diagonals.
#include "tensor/elementwise.h"
#include "tensor/ops.h"

// Adds g to the elements of the gradient of input 0 that a view with these sizes and strides, over
// the gradient, looks at. The elements of the view lie at different places.
static void add_to_view(det_tensor *gx, const det_tensor *view, det_tensor *g)
{
    det_tensor part = *view;
    part.dtype = gx->dtype;
    part.storage = gx->storage;
    ew_run(ew_axpy((det_dtype)gx->dtype), (det_tensor *const[]){&part, g}, 2, (double[]){1, 0});
}

static det_tensor *zeroed_grad(struct node *n)
{
    bool accumulate;
    det_tensor *gx = grad_target(n, 0, &accumulate);
    if (gx && !accumulate)
        memset(gx->data, 0, (size_t)gx->numel * dtype_size((det_dtype)gx->dtype));
    return gx;
}

static void *element(const det_tensor *t, int64_t offset)
{
    return (char *)t->data + offset * (int64_t)dtype_size((det_dtype)t->dtype);
}

// --- windows: dim becomes positions, and a new last dim what is in a window

struct windows_attr {
    int64_t dim, size, step, dilation;
};

static const struct attr_field windows_attrs[] = {
    {"dim", ATTR_INT, offsetof(struct windows_attr, dim)},
    {"size", ATTR_INT, offsetof(struct windows_attr, size)},
    {"step", ATTR_INT, offsetof(struct windows_attr, step)},
    {"dilation", ATTR_INT, offsetof(struct windows_attr, dilation)},
    {NULL, 0, 0},
};

static int windows_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct windows_attr *a = NODE_ATTR(n, struct windows_attr);
    int d, rc = node_dim(n, a->dim, x->ndim, &d);
    if (rc) return rc;
    int64_t length = x->ndim ? x->shape[d] : 1, shape[DET_MAX_DIMS + 1], stride[DET_MAX_DIMS + 1];
    if (x->ndim == DET_MAX_DIMS)
        return node_fail(n, DET_ESHAPE, "%s has %d dims already", TENSOR_TEXT(x), DET_MAX_DIMS);
    if (a->step < 1 || a->dilation < 1)
        return node_fail(n, DET_EINVAL, "step %lld, dilation %lld; both want to be at least 1",
                         (long long)a->step, (long long)a->dilation);
    if (a->size < 0 || a->size > length || (a->size && a->dilation * (a->size - 1) >= length))
        return node_fail(n, DET_ESHAPE, "a window of %lld by %lld does not fit dim %d of %s",
                         (long long)a->size, (long long)a->dilation, d, TENSOR_TEXT(x));
    int64_t reach = a->size ? a->dilation * (a->size - 1) + 1 : 0;
    memcpy(shape, x->shape, sizeof x->shape);
    memcpy(stride, x->stride, sizeof x->stride);
    shape[d] = (length - reach) / a->step + 1;
    stride[d] = (x->ndim ? x->stride[d] : 1) * a->step;
    shape[x->ndim] = a->size;
    stride[x->ndim] = (x->ndim ? x->stride[d] : 1) * a->dilation;
    a->dim = d;
    if (x->ndim) return node_out_strided(n, (det_dtype)x->dtype, shape, stride, x->ndim + 1);
    return node_out_strided(n, (det_dtype)x->dtype, &a->size, &shape[0], 1);
}

static int windows_forward(struct node *n)
{
    return view_share(n, 0);
}

// Element k of all windows is a slice of the input: windows overlap, these do not.
static int windows_backward(struct node *n)
{
    const struct windows_attr *a = NODE_ATTR(n, struct windows_attr);
    det_tensor *gx = zeroed_grad(n), *g = out_grad(n, 0);
    if (!gx) return DET_ENOMEM;
    int d = (int)a->dim, last = g->ndim - 1;
    for (int64_t k = 0; k < a->size; k++) {
        det_tensor from = *g, to = *gx;
        from.ndim--;
        from.numel = g->numel / a->size;
        from.data = element(g, k * g->stride[last]);
        to.data = element(gx, k * a->dilation * (gx->ndim ? gx->stride[d] : 1));
        to.numel = from.numel;
        if (gx->ndim) to.shape[d] = from.shape[d];
        if (gx->ndim) to.stride[d] *= a->step;
        add_to_view(gx, &to, &from);
    }
    return 0;
}

static const char *const windows_cases[] = {
    "x:f[a,B,c]; dim=1 size=3 step=1 dilation=1; x.unfold(1, 3, 1)",
    "x:f[a,B]; dim=-1 size=4 step=2 dilation=1; x.unfold(-1, 4, 2)",
    "x:f[B]; dim=0 size=2 step=3 dilation=1; x.unfold(0, 2, 3)", NULL};
const struct op op_windows = {.name = "windows",
                              .min_in = 1,
                              .max_in = 1,
                              .flags = OP_VIEW | OP_STORED,
                              .infer = windows_infer,
                              .forward = windows_forward,
                              .backward = windows_backward,
                              .attrs = windows_attrs,
                              .cases = windows_cases};

det_tensor *windows(det_tensor *x, int dim, int64_t size, int64_t step, int64_t dilation)
{
    struct windows_attr a = {dim, size, step, dilation};
    return OP_APPLY(&op_windows, a, x);
}

det_tensor *det_unfold_dim(det_tensor *x, int dim, int64_t size, int64_t step)
{
    return windows(x, dim, size, step, 1);
}

// (N, C, H, W) -> (N, C, rows of windows, columns of windows, KH, KW), padding being filled.
det_tensor *image_windows(det_tensor *x, const struct image_windows *w, double fill)
{
    const int64_t *p = w->padding;
    if (p[0] || p[1]) x = det_pad(x, (int64_t[]){p[1], p[1], p[0], p[0]}, 4, fill);
    x = windows(x, 2, w->kernel[0], w->stride[0], w->dilation[0]);
    return windows(x, 3, w->kernel[1], w->stride[1], w->dilation[1]);
}

det_tensor *det_unfold_with(det_tensor *x, det_unfold_opts o)
{
    if (x && x->ndim != 4 && x->ndim != 3) {
        det_raise(DET_ESHAPE, "unfold: input is %s, wants (N, C, H, W) or (C, H, W)",
                  TENSOR_TEXT(x));
        return NULL;
    }
    struct image_windows w = {0};
    for (int i = 0; i < 2; i++) {
        w.kernel[i] = o.kernel[i];
        w.stride[i] = o.stride[i];
        w.padding[i] = o.padding[i];
        w.dilation[i] = o.dilation[i];
    }
    det_tensor *y = image_windows(with_batch(x, 4), &w, 0);
    if (!y) return NULL;
    int64_t rows = y->shape[1] * y->shape[4] * y->shape[5], columns = y->shape[2] * y->shape[3];
    y = det_permute(y, DET_DIMS(0, 1, 4, 5, 2, 3));
    return without_batch(x, 4, det_reshape(y, DET_DIMS(det_size(y, 0), rows, columns)));
}

// --- diagonal: two dims go away, their diagonal is the last one

struct diagonal_attr {
    int64_t offset, dim1, dim2;
};

static const struct attr_field diagonal_attrs[] = {
    {"offset", ATTR_INT, offsetof(struct diagonal_attr, offset)},
    {"dim1", ATTR_INT, offsetof(struct diagonal_attr, dim1)},
    {"dim2", ATTR_INT, offsetof(struct diagonal_attr, dim2)},
    {NULL, 0, 0},
};

// Elements of the diagonal.
static int64_t diagonal_length(const det_tensor *x, const struct diagonal_attr *a)
{
    int64_t rows = x->shape[a->dim1] + MIN(a->offset, (int64_t)0);
    int64_t columns = x->shape[a->dim2] - MAX(a->offset, (int64_t)0);
    return MAX(MIN(rows, columns), (int64_t)0);
}

// The first element of the diagonal of t, which may be the gradient.
static int64_t diagonal_start(const det_tensor *t, const struct diagonal_attr *a, int64_t length)
{
    if (!length) return 0;
    return a->offset > 0 ? a->offset * t->stride[a->dim2] : -a->offset * t->stride[a->dim1];
}

static int diagonal_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct diagonal_attr *a = NODE_ATTR(n, struct diagonal_attr);
    int d1, d2, rc = node_dim(n, a->dim1, x->ndim, &d1);
    if (!rc) rc = node_dim(n, a->dim2, x->ndim, &d2);
    if (rc) return rc;
    if (x->ndim < 2 || d1 == d2)
        return node_fail(n, DET_ESHAPE, "dims %d and %d of %s; wants two", d1, d2, TENSOR_TEXT(x));
    a->dim1 = d1, a->dim2 = d2;
    int64_t shape[DET_MAX_DIMS], stride[DET_MAX_DIMS], most = x->shape[d1] + x->shape[d2];
    int ndim = 0;
    a->offset = MAX(-most, MIN(a->offset, most)); // nothing is there either way
    for (int d = 0; d < x->ndim; d++) {
        if (d == d1 || d == d2) continue;
        shape[ndim] = x->shape[d];
        stride[ndim++] = x->stride[d];
    }
    shape[ndim] = diagonal_length(x, a);
    stride[ndim++] = x->stride[d1] + x->stride[d2];
    return node_out_strided(n, (det_dtype)x->dtype, shape, stride, ndim);
}

static int diagonal_forward(struct node *n)
{
    const det_tensor *out = n->out[0];
    int64_t length = out->shape[out->ndim - 1];
    return view_share(n, diagonal_start(n->in[0], NODE_ATTR(n, struct diagonal_attr), length));
}

static int diagonal_backward(struct node *n)
{
    const struct diagonal_attr *a = NODE_ATTR(n, struct diagonal_attr);
    det_tensor *gx = zeroed_grad(n), *g = out_grad(n, 0), to = *n->out[0];
    if (!gx) return DET_ENOMEM;
    int at = 0;
    for (int d = 0; d < gx->ndim; d++)
        if (d != a->dim1 && d != a->dim2) to.stride[at++] = gx->stride[d];
    to.stride[at] = gx->stride[a->dim1] + gx->stride[a->dim2];
    to.data = element(gx, diagonal_start(gx, a, to.shape[at]));
    add_to_view(gx, &to, g);
    return 0;
}

static const char *const diagonal_cases[] = {
    "x:f[A,b]; offset=0 dim1=0 dim2=1; x.diagonal()",
    "x:f[a,B,C]; offset=2 dim1=1 dim2=-1; x.diagonal(2, 1, -1)",
    "x:f[A,b,C]; offset=-3 dim1=2 dim2=0; x.diagonal(-3, 2, 0)",
    "x:f[a,b]; offset=9 dim1=0 dim2=1; x.diagonal(5)", NULL};
const struct op op_diagonal = {.name = "diagonal",
                               .min_in = 1,
                               .max_in = 1,
                               .flags = OP_VIEW | OP_STORED,
                               .infer = diagonal_infer,
                               .forward = diagonal_forward,
                               .backward = diagonal_backward,
                               .attrs = diagonal_attrs,
                               .cases = diagonal_cases};

det_tensor *det_diagonal(det_tensor *x, int64_t offset, int dim1, int dim2)
{
    struct diagonal_attr a = {offset, dim1, dim2};
    return OP_APPLY(&op_diagonal, a, x);
}
