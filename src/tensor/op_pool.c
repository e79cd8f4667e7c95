// Unit op_pool.c: sizes of pooled images, average pooling, and the adaptive pools whose windows
// follow from the output size.
#include "tensor/op_pool.h"
#include "tensor/resample.h"

#include "tensor/elementwise.h"
#include "tensor/share.h"
#include <math.h>

// --- windows of a fixed size

const struct attr_field pool_attrs[] = {
    {"kernel", ATTR_PAIR, offsetof(det_pool_opts, kernel)},
    {"stride", ATTR_PAIR, offsetof(det_pool_opts, stride)},
    {"padding", ATTR_PAIR, offsetof(det_pool_opts, padding)},
    {"ceil", ATTR_BOOL, offsetof(det_pool_opts, ceil_mode)},
    {"exclude", ATTR_BOOL, offsetof(det_pool_opts, exclude_padding)},
    {NULL, 0, 0},
};

static void pool_complete(det_pool_opts *o)
{
    if (!o->kernel[1]) o->kernel[1] = o->kernel[0];
    if (!o->stride[1]) o->stride[1] = o->stride[0] ? o->stride[0] : o->kernel[1];
    if (!o->stride[0]) o->stride[0] = o->kernel[0];
}

static int pool_check(const struct node *n, const det_pool_opts *o)
{
    for (int d = 0; d < 2; d++) {
        if (o->kernel[d] < 1 || o->stride[d] < 1 || MAX(o->kernel[d], o->stride[d]) > INT32_MAX)
            return node_fail(n, DET_EINVAL, "kernel %s, stride %s; wants positive sizes",
                             shape_text(o->kernel, 2), shape_text(o->stride, 2));
        if (o->padding[d] < 0 || o->padding[d] > o->kernel[d] / 2)
            return node_fail(n, DET_EINVAL, "padding %s; wants 0 to half of the kernel %s",
                             shape_text(o->padding, 2), shape_text(o->kernel, 2));
    }
    return 0;
}

// ceil_mode: a window may hang over the end, but must start in the image or the padding before it.
static int64_t pooled_size(const det_pool_opts *o, int d, int64_t size)
{
    int64_t room = size + 2 * o->padding[d] - o->kernel[d], stride = o->stride[d];
    if (o->ceil_mode) room += stride - 1;
    int64_t n = room < 0 ? 0 : room / stride + 1;
    return o->ceil_mode && (n - 1) * stride >= size + o->padding[d] ? n - 1 : n;
}

int pool_out_size(struct node *n, int64_t out[2])
{
    det_pool_opts *o = NODE_ATTR(n, det_pool_opts);
    const det_tensor *x = n->in[0];
    pool_complete(o);
    int rc = pool_check(n, o);
    if (rc) return rc;
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    if (x->ndim != 4 || !x->shape[2] || !x->shape[3])
        return node_fail(n, DET_ESHAPE, "input is %s, wants (N, C, H, W) or (C, H, W)",
                         TENSOR_TEXT(x));
    for (int d = 0; d < 2; d++)
        if ((out[d] = pooled_size(o, d, x->shape[2 + d])) < 1)
            return node_fail(n, DET_ESHAPE,
                             "the window %s is larger than the input %s with padding",
                             shape_text(o->kernel, 2), TENSOR_TEXT(x));
    return 0;
}

bool pool_dilate(det_tensor *x, const det_pool_opts *opts, det_pool_opts *wide, int64_t out[2])
{
    struct node n = {.op = &op_max_pool2d, .n_in = 1, .in = &x};
    det_pool_opts *o = NODE_ATTR(&n, det_pool_opts);
    *o = *opts;
    pool_complete(o);
    if (pool_check(&n, o)) return false;
    for (int d = 0; d < 2; d++)
        o->kernel[d] = MAX(o->dilation[d], (int64_t)1) * (o->kernel[d] - 1) + 1;
    *wide = *o;
    return !pool_out_size(&n, out);
}

// --- avg_pool2d

static int avg_pool_infer(struct node *n)
{
    const int64_t *dilation = NODE_ATTR(n, det_pool_opts)->dilation;
    int64_t size[2];
    if (dilation[0] > 1 || dilation[1] > 1)
        return node_fail(n, DET_EINVAL, "dilation is for max_pool");
    int rc = pool_out_size(n, size);
    return rc ? rc : resample_infer(n, size[0], size[1], 1);
}

static int64_t avg_window(const struct axis *a, int64_t o, int64_t *first, double *weight)
{
    const det_pool_opts *p = a->attr;
    int d = a->which;
    int64_t start = o * p->stride[d] - p->padding[d];
    int64_t end = MIN(start + p->kernel[d], a->n_in + p->padding[d]), with_padding = end - start;
    *first = MAX(start, (int64_t)0);
    int64_t count = MIN(end, a->n_in) - *first;
    for (int64_t i = 0; i < count; i++)
        weight[i] = 1 / (double)(p->exclude_padding ? count : with_padding);
    return count;
}

static void avg_most(const struct node *n, int64_t *most)
{
    for (int d = 0; d < 2; d++)
        most[d] = MIN(NODE_ATTR(n, det_pool_opts)->kernel[d], n->in[0]->shape[2 + d]);
}

static int avg_pool_forward(struct node *n)
{
    int64_t most[2];
    avg_most(n, most);
    return resample_forward(n, avg_window, most);
}

static int avg_pool_backward(struct node *n)
{
    int64_t most[2];
    avg_most(n, most);
    return resample_backward(n, avg_window, most);
}

#define AVG_POOL "F.avg_pool2d(x, kernel, stride, padding, bool(ceil), not exclude)"
static const char *const avg_pool_cases[] = {
    "x:f[a,c,H,W]; kernel=2,3; F.avg_pool2d(x, kernel)",
    "x:f[a,c,H,W]; kernel=3,2 stride=2,1 padding=1,1 ceil=0 exclude=0; " AVG_POOL,
    "x:f[a,c,H,W]; kernel=3,4 stride=2,3 padding=1,2 ceil=1 exclude=1; " AVG_POOL,
    "x:f[a,c,H,W]; kernel=3,3 stride=2,2 padding=1,0 ceil=1 exclude=0; " AVG_POOL,
    "x:f[2,83,14,14]; kernel=2,2; F.avg_pool2d(x, 2)",
    "x:f[a,c,3,2]; kernel=4,5 stride=2,4 padding=0,2 ceil=1 exclude=0; " AVG_POOL,
    "x:f[a,c,3,2]; kernel=5,3 stride=3,2 padding=1,0 ceil=1 exclude=1; " AVG_POOL,
    NULL};
const struct op op_avg_pool2d = {.name = "avg_pool2d",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .infer = avg_pool_infer,
                                 .forward = avg_pool_forward,
                                 .backward = avg_pool_backward,
                                 .attrs = pool_attrs,
                                 .cases = avg_pool_cases};

det_tensor *det_avg_pool2d_with(det_tensor *x, det_pool_opts opts)
{
    return without_batch(x, 4, OP_APPLY(&op_avg_pool2d, opts, with_batch(x, 4)));
}

// --- adaptive pools

struct adaptive_attr {
    int64_t size[2];
};

static const struct attr_field adaptive_attrs[] = {
    {"size", ATTR_PAIR, offsetof(struct adaptive_attr, size)},
    {NULL, 0, 0},
};

static int adaptive_infer(struct node *n)
{
    const struct adaptive_attr *a = NODE_ATTR(n, struct adaptive_attr);
    return resample_infer(n, a->size[0], a->size[1], 0);
}

// Window of output o: it starts and ends where o and o + 1 fall in the input.
static int64_t adaptive_start(int64_t o, int64_t n_in, int64_t n_out)
{
    return o * n_in / n_out;
}

static int64_t adaptive_end(int64_t o, int64_t n_in, int64_t n_out)
{
    return ((o + 1) * n_in + n_out - 1) / n_out;
}

static int64_t adaptive_window(const struct axis *a, int64_t o, int64_t *first, double *weight)
{
    *first = adaptive_start(o, a->n_in, a->n_out);
    int64_t count = adaptive_end(o, a->n_in, a->n_out) - *first;
    for (int64_t i = 0; i < count; i++)
        weight[i] = 1 / (double)count;
    return count;
}

static void adaptive_most(const struct node *n, int64_t *most)
{
    for (int d = 0; d < 2; d++)
        most[d] = n->in[0]->shape[2 + d] / n->out[0]->shape[2 + d] + 2;
}

static int adaptive_avg_forward(struct node *n)
{
    int64_t most[2];
    if (!n->out[0]->numel) return 0;
    adaptive_most(n, most);
    return resample_forward(n, adaptive_window, most);
}

static int adaptive_avg_backward(struct node *n)
{
    int64_t most[2];
    adaptive_most(n, most);
    return resample_backward(n, adaptive_window, most);
}

static const char *const adaptive_avg_cases[] = {
    "x:f[a,c,H,W]; size=1,1; F.adaptive_avg_pool2d(x, size)",
    "x:f[a,c,H,W]; size=3,5; F.adaptive_avg_pool2d(x, size)",
    "x:f[a,c,3,2]; size=5,2; F.adaptive_avg_pool2d(x, size)",
    "x:f[3,70,15,16]; size=1,1; F.adaptive_avg_pool2d(x, size)", NULL};
const struct op op_adaptive_avg_pool2d = {.name = "adaptive_avg_pool2d",
                                          .min_in = 1,
                                          .max_in = 1,
                                          .infer = adaptive_infer,
                                          .forward = adaptive_avg_forward,
                                          .backward = adaptive_avg_backward,
                                          .attrs = adaptive_attrs,
                                          .cases = adaptive_avg_cases};

det_tensor *det_adaptive_avg_pool2d(det_tensor *x, int64_t out_h, int64_t out_w)
{
    struct adaptive_attr a = {{out_h, out_w}};
    return without_batch(x, 4, OP_APPLY(&op_adaptive_avg_pool2d, a, with_batch(x, 4)));
}

enum { MAX_AUX_POSITION }; // i32, like the output: position in the window

static void max_f64(const struct window *w, double *out, int32_t *position)
{
    for (int64_t j = 0; j < w->c; j++) {
        out[j] = -INFINITY;
        position[j] = 0;
        for (int64_t i = 0; i < w->n_h * w->n_w; i++) {
            double v = ((const double *)w->x)[i / w->n_w * w->row_stride + i % w->n_w * w->c + j];
            if (!(v > out[j]) && v == v) continue;
            out[j] = v;
            position[j] = (int32_t)i;
        }
    }
}

struct max_walk {
    const det_tensor *x;
    det_tensor *y;
    int32_t *position;
};

static void max_rows(void *ctx, int64_t from, int64_t to)
{
    const struct max_walk *k = ctx;
    const int64_t *in = k->x->shape, *out = k->y->shape;
    int64_t c = in[1], size = (int64_t)dtype_size((det_dtype)k->x->dtype);
    struct window w = {.c = c, .row_stride = in[3] * c, .bf16 = k->x->dtype == DET_BF16};
    for (int64_t i = from * out[3]; i < to * out[3]; i++) {
        int64_t col = i % out[3], row = i / out[3] % out[2], image = i / out[3] / out[2];
        int64_t top = adaptive_start(row, in[2], out[2]), left = adaptive_start(col, in[3], out[3]);
        w.n_h = adaptive_end(row, in[2], out[2]) - top;
        w.n_w = adaptive_end(col, in[3], out[3]) - left;
        w.x = (const char *)k->x->data + ((image * in[2] + top) * in[3] + left) * c * size;
        char *y = (char *)k->y->data + i * c * size;
        if (k->x->dtype == DET_F64)
            max_f64(&w, (double *)(void *)y, k->position + i * c);
        else
            kernels->window_max(&w, y, k->position + i * c);
    }
}

static int adaptive_max_forward(struct node *n)
{
    det_tensor *x = tensor_converted(n->in[0], (det_dtype)n->in[0]->dtype, CHANNELS_LAST),
               *y = n->out[0];
    n->aux[MAX_AUX_POSITION] = tensor_new(DET_I32, y->shape, 4);
    bool ok = x && n->aux[MAX_AUX_POSITION];
    struct max_walk k = {x, y, ok ? n->aux[MAX_AUX_POSITION]->data : NULL};
    int64_t rows = y->shape[0] * y->shape[2];
    if (ok && y->numel) share_rows(rows, x->numel / rows, max_rows, &k);
    tensor_release(x);
    return ok ? 0 : DET_ENOMEM;
}

// Adds each gradient to the element of x that was the largest; both with the channel fastest.
#define MAX_SCATTER(name, T)                                                                  \
    static void name(const struct node *n, const T *g, T *gx)                                 \
    {                                                                                         \
        const int64_t *in = n->in[0]->shape, *out = n->out[0]->shape, c = in[1];              \
        const int32_t *position = n->aux[MAX_AUX_POSITION]->data;                             \
        for (int64_t i = 0; i < out[0] * out[2] * out[3]; i++) {                              \
            int64_t col = i % out[3], row = i / out[3] % out[2], image = i / out[3] / out[2]; \
            int64_t top = adaptive_start(row, in[2], out[2]);                                 \
            int64_t left = adaptive_start(col, in[3], out[3]);                                \
            int64_t width = adaptive_end(col, in[3], out[3]) - left;                          \
            for (int64_t j = 0; j < c; j++) {                                                 \
                int64_t p = position[i * c + j];                                              \
                int64_t at = (image * in[2] + top + p / width) * in[3] + left + p % width;    \
                gx[at * c + j] += g[i * c + j];                                               \
            }                                                                                 \
        }                                                                                     \
    }
MAX_SCATTER(max_scatter_f32, float)
MAX_SCATTER(max_scatter_f64, double)

static int adaptive_max_backward(struct node *n)
{
    const det_tensor *x = n->in[0];
    det_dtype type = x->dtype == DET_F64 ? DET_F64 : DET_F32; // bf16 is summed in f32
    det_tensor *g = tensor_new_ordered(type, n->out[0]->shape, 4, CHANNELS_LAST),
               *gx = tensor_new_ordered(type, x->shape, 4, CHANNELS_LAST);
    bool ok = g && gx;
    if (ok) {
        ew_copy(g, out_grad(n, 0));
        memset(gx->data, 0, gx->storage->n_bytes);
        if (type == DET_F64)
            max_scatter_f64(n, g->data, gx->data);
        else
            max_scatter_f32(n, g->data, gx->data);
        give_grad(n, 0, tensor_ref(gx));
    }
    tensor_release(g);
    tensor_release(gx);
    return ok ? 0 : DET_ENOMEM;
}

static const char *const adaptive_max_cases[] = {
    "x:f[a,c,H,W]; size=1,1; F.adaptive_max_pool2d(x, size)",
    "x:f[a,c,H,W]; size=3,5; F.adaptive_max_pool2d(x, size)",
    "x:f[2,70,15,16]; size=4,3; F.adaptive_max_pool2d(x, size)", NULL};
const struct op op_adaptive_max_pool2d = {.name = "adaptive_max_pool2d",
                                          .min_in = 1,
                                          .max_in = 1,
                                          .infer = adaptive_infer,
                                          .forward = adaptive_max_forward,
                                          .backward = adaptive_max_backward,
                                          .attrs = adaptive_attrs,
                                          .cases = adaptive_max_cases};

det_tensor *det_adaptive_max_pool2d(det_tensor *x, int64_t out_h, int64_t out_w)
{
    struct adaptive_attr a = {{out_h, out_w}};
    return without_batch(x, 4, OP_APPLY(&op_adaptive_max_pool2d, a, with_batch(x, 4)));
}
