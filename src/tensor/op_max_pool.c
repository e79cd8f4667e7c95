// Unit op_max_pool.c: the operation max_pool2d, and its merges with the convolution before it and
// the relu around it.
#include "tensor/fuse.h"
#include "tensor/op_conv.h"
#include "tensor/op_pool.h"

#include "sys/pool.h"
#include <math.h>
#include "tensor/kernels/kernels.h"

enum { POOL_AUX_WINNER, POOL_AUX_X }; // which pixel won; for bf16: x in f32

// --- max_pool2d

static int pool_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    int64_t size[2];
    int rc = pool_out_size(n, size);
    if (rc) return rc;
    return node_out_channels_last(n, (det_dtype)x->dtype,
                                  (const int64_t[]){x->shape[0], x->shape[1], size[0], size[1]});
}

struct pool_job {
    const det_pool_opts *a;
    const det_tensor *x, *y; // f32, channels last
    det_tensor *winner;
    float *dx;
};

static void *winner_row(const struct pool_job *j, int64_t row)
{
    int64_t at = row * j->y->shape[3] * j->y->shape[1];
    return (char *)j->winner->data + at * (int64_t)dtype_size((det_dtype)j->winner->dtype);
}

static void pool_piece(void *ctx, int row)
{
    const struct pool_job *j = ctx;
    const det_pool_opts *a = j->a;
    int64_t oh = j->y->shape[2], c = j->x->shape[1], h = j->x->shape[2], w = j->x->shape[3];
    bool narrow = j->winner->dtype == DET_U8;
    kernels->pool_row(&(struct pool_row){
        .image = (const float *)j->x->data + row / oh * h * w * c,
        .h = h,
        .w = w,
        .c = c,
        .y0 = row % oh * a->stride[0] - a->padding[0],
        .x0 = -a->padding[1],
        .stride = a->stride[1],
        .kh = a->kernel[0],
        .kw = a->kernel[1],
        .n = j->y->shape[3],
        .out = (float *)j->y->data + (int64_t)row * j->y->shape[3] * c,
        .winner = narrow ? winner_row(j, row) : NULL,
        .wide_winner = narrow ? NULL : winner_row(j, row),
    });
}

// f64, by the definition: the winner of result i (in channels-last order) as an index into the
// input.
static int32_t plain_winner(const det_pool_opts *a, const det_tensor *x, const det_tensor *y,
                            int64_t i)
{
    const double *v = x->data;
    int64_t c = x->shape[1], h = x->shape[2], w = x->shape[3], best = -1;
    int64_t ch = i % c, ox = i / c % y->shape[3], oy = i / c / y->shape[3] % y->shape[2];
    int64_t image = i / c / y->shape[3] / y->shape[2];
    for (int64_t k = 0; k < a->kernel[0] * a->kernel[1]; k++) {
        int64_t iy = oy * a->stride[0] - a->padding[0] + k / a->kernel[1];
        int64_t ix = ox * a->stride[1] - a->padding[1] + k % a->kernel[1];
        if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
        int64_t at = ((image * h + iy) * w + ix) * c + ch;
        if (best < 0 || v[at] > v[best] || v[at] != v[at]) best = at;
    }
    return (int32_t)best;
}

static int plain_pool_forward(struct node *n)
{
    det_tensor *x = tensor_converted(n->in[0], DET_F64, CHANNELS_LAST), *y = n->out[0];
    det_tensor **winner = &n->aux[POOL_AUX_WINNER];
    if (!*winner) *winner = tensor_new_ordered(DET_I32, y->shape, 4, CHANNELS_LAST);
    for (int64_t i = 0; x && *winner && i < y->numel; i++) {
        int32_t at = plain_winner(NODE_ATTR(n, det_pool_opts), x, y, i);
        ((int32_t *)(*winner)->data)[i] = at;
        ((double *)y->data)[i] = ((const double *)x->data)[at];
    }
    tensor_release(x);
    return sticky_failed() ? DET_ENOMEM : 0;
}

static int plain_pool_backward(struct node *n)
{
    det_tensor *g = tensor_converted(out_grad(n, 0), DET_F64, CHANNELS_LAST);
    det_tensor *dx = tensor_new_ordered(DET_F64, n->in[0]->shape, 4, CHANNELS_LAST);
    if (g && dx) {
        const int32_t *winner = n->aux[POOL_AUX_WINNER]->data;
        memset(dx->data, 0, (size_t)dx->numel * sizeof(double));
        for (int64_t i = 0; i < g->numel; i++)
            ((double *)dx->data)[winner[i]] += ((const double *)g->data)[i];
    }
    tensor_release(g);
    give_grad(n, 0, dx);
    return sticky_failed() ? DET_ENOMEM : 0;
}

static int pool_forward(struct node *n)
{
    if (n->out[0]->dtype == DET_F64) return plain_pool_forward(n);
    const det_pool_opts *a = NODE_ATTR(n, det_pool_opts);
    det_tensor *x = tensor_converted(n->in[0], DET_F32, CHANNELS_LAST), *y = conv_result(n);
    det_dtype index = a->kernel[0] * a->kernel[1] <= 256 ? DET_U8 : DET_I32;
    if (!n->aux[POOL_AUX_WINNER])
        n->aux[POOL_AUX_WINNER] = tensor_new_ordered(index, n->out[0]->shape, 4, CHANNELS_LAST);
    int rc = DET_ENOMEM;
    if (x && y && n->aux[POOL_AUX_WINNER]) {
        struct pool_job j = {.a = a, .x = x, .y = y, .winner = n->aux[POOL_AUX_WINNER]};
        pool_run((int)(y->shape[0] * y->shape[2]), pool_piece, &j);
        rc = 0;
    }
    tensor_release(x);
    if (y) conv_store(n, y);
    return rc;
}

static void pool_grad_piece(void *ctx, int image)
{
    const struct pool_job *j = ctx;
    const det_pool_opts *a = j->a;
    int64_t oh = j->y->shape[2], ow = j->y->shape[3];
    int64_t c = j->x->shape[1], h = j->x->shape[2], w = j->x->shape[3];
    bool narrow = j->winner->dtype == DET_U8;
    float *dx = j->dx + (int64_t)image * h * w * c;
    memset(dx, 0, (size_t)(h * w * c) * sizeof *dx);
    for (int64_t oy = 0; oy < oh; oy++) {
        int64_t row = image * oh + oy;
        kernels->pool_row_grad(&(struct pool_row_grad){
            .g = (const float *)j->y->data + row * ow * c,
            .winner = narrow ? winner_row(j, row) : NULL,
            .wide_winner = narrow ? NULL : winner_row(j, row),
            .h = h,
            .w = w,
            .c = c,
            .y0 = oy * a->stride[0] - a->padding[0],
            .x0 = -a->padding[1],
            .stride = a->stride[1],
            .kh = a->kernel[0],
            .kw = a->kernel[1],
            .n = ow,
            .image = dx,
        });
    }
}

static int pool_backward(struct node *n)
{
    if (n->out[0]->dtype == DET_F64) return plain_pool_backward(n);
    det_tensor *g = tensor_converted(out_grad(n, 0), DET_F32, CHANNELS_LAST);
    det_tensor *dx = tensor_new_ordered(DET_F32, n->in[0]->shape, 4, CHANNELS_LAST);
    if (g && dx) {
        struct pool_job j = {.a = NODE_ATTR(n, det_pool_opts),
                             .x = n->in[0],
                             .y = g,
                             .winner = n->aux[POOL_AUX_WINNER],
                             .dx = dx->data};
        pool_run((int)g->shape[0], pool_grad_piece, &j);
    }
    give_grad(n, 0, dx);
    tensor_release(g);
    return sticky_failed() ? DET_ENOMEM : 0;
}

static const char *const max_pool2d_cases[] = {
    "x:f[a,3,8,6]; kernel=2; F.max_pool2d(x, 2)",
    "x:f[2,20,9,7]; kernel=3 stride=2 padding=1; F.max_pool2d(x, 3, 2, 1)",
    "x:f[2,3,9,7]; kernel=2,3 stride=1,2 padding=1,0; F.max_pool2d(x, (2,3), (1,2), (1,0))",
    "x:f[2,3,9,8]; kernel=3 stride=2 ceil=1; F.max_pool2d(x, 3, 2, ceil_mode=True)",
    "x:f[1,3,20,18]; kernel=18; F.max_pool2d(x, 18)",
    "x:f[2,5,3,2]; kernel=4,5 stride=2,4 padding=0,2 ceil=1; "
    "F.max_pool2d(x, kernel, stride, padding, ceil_mode=True)",
    NULL};
const struct op op_max_pool2d = {.name = "max_pool2d",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .infer = pool_infer,
                                 .forward = pool_forward,
                                 .backward = pool_backward,
                                 .attrs = pool_attrs,
                                 .cases = max_pool2d_cases};

// Windows with gaps are laid out. The result has the size that the whole window gives; what hangs
// over, by ceil_mode, is padded too.
static det_tensor *dilated_max_pool(det_tensor *x, const det_pool_opts *opts)
{
    struct image_windows w = {0};
    int64_t size[2], pads[4];
    det_pool_opts wide = *opts;
    if (!pool_dilate(x, opts, &wide, size)) return NULL;
    for (int d = 0; d < 2; d++) {
        int64_t reach = (size[d] - 1) * wide.stride[d] + wide.kernel[d];
        w.dilation[d] = MAX(opts->dilation[d], (int64_t)1);
        w.kernel[d] = (wide.kernel[d] - 1) / w.dilation[d] + 1;
        w.stride[d] = wide.stride[d];
        pads[2 - 2 * d] = opts->padding[d];
        pads[3 - 2 * d] = MAX(reach - x->shape[2 + d] - opts->padding[d], opts->padding[d]);
    }
    det_tensor *y = image_windows(det_pad(x, pads, 4, -INFINITY), &w, 0);
    y = det_slice(det_slice(y, 2, 0, size[0], 1), 3, 0, size[1], 1);
    return det_max_along(det_flatten(y, 4, 5), -1, false, NULL);
}

det_tensor *det_max_pool2d_with(det_tensor *x, det_pool_opts opts)
{
    det_tensor *batch = with_batch(x, 4);
    bool has_gaps = opts.dilation[0] > 1 || opts.dilation[1] > 1;
    if (has_gaps && batch) return without_batch(x, 4, dilated_max_pool(batch, &opts));
    return without_batch(x, 4, OP_APPLY(&op_max_pool2d, opts, batch));
}

static bool windows_touch(const det_pool_opts *a) // side by side, without gaps or overlaps
{
    return !a->padding[0] && !a->padding[1] && !a->ceil_mode && a->stride[0] == a->kernel[0] &&
           a->stride[1] == a->kernel[1];
}

bool pools_pairs(const struct node *pool)
{
    const det_pool_opts *a = NODE_ATTR(pool, det_pool_opts);
    return windows_touch(a) && a->kernel[0] == 2 && a->kernel[1] == 2;
}

// --- convolution + max_pool2d (+ relu)

struct conv_pool_attr {
    struct conv_attr conv; // first, so that conv_describe finds it
    int64_t kernel[2];
    bool relu;
};

static const struct attr_field conv_pool_attrs[] = {
    {"kernel", ATTR_PAIR, offsetof(struct conv_pool_attr, kernel)},
    {"relu", ATTR_BOOL, offsetof(struct conv_pool_attr, relu)},
    {NULL, 0, 0},
};

enum { CONV_POOL_AUX_WINNER = 2 }; // after those of op_conv.h

static int conv_pool_describe(struct node *n, struct pooled *p)
{
    const struct conv_pool_attr *a = NODE_ATTR(n, struct conv_pool_attr);
    int rc = conv_describe(n, &p->conv);
    if (rc) return rc;
    p->kh = a->kernel[0], p->kw = a->kernel[1];
    p->relu = a->relu;
    if (p->kh < 1 || p->kw < 1 || p->kh > p->conv.oh || p->kw > p->conv.ow)
        return node_fail(n, DET_ESHAPE, "a window of %lld x %lld does not fit", (long long)p->kh,
                         (long long)p->kw);
    p->h = p->conv.oh / p->kh, p->w = p->conv.ow / p->kw;
    return 0;
}

static int conv_pool_infer(struct node *n)
{
    struct pooled p;
    int rc = conv_pool_describe(n, &p);
    if (rc) return rc;
    if (n->in[0]->dtype != DET_F32 || n->in[1]->dtype != DET_F32 || det_autocast() ||
        !pooled_fits(&p))
        return node_fail(n, DET_EDTYPE, "not for %s", TENSOR_TEXT(n->in[1]));
    return node_out_channels_last(n, DET_F32, (int64_t[]){p.conv.n, p.conv.oc, p.h, p.w});
}

static int conv_pool_forward(struct node *n)
{
    struct pooled p;
    struct conv_operands o;
    int rc = conv_pool_describe(n, &p);
    if (!rc) rc = conv_operands(n, false, &o);
    if (rc) return rc;
    det_tensor *y = conv_result(n), **winner = &n->aux[CONV_POOL_AUX_WINNER];
    if (!*winner) *winner = tensor_new_ordered(DET_U8, n->out[0]->shape, 4, CHANNELS_LAST);
    if (y && *winner)
        rc = pooled_forward(&p, o.x->data, o.w->data, o.bias ? o.bias->data : NULL, y->data,
                            (*winner)->data);
    tensor_release(o.bias);
    if (y) conv_store(n, y);
    return sticky_failed() ? DET_ENOMEM : rc;
}

static int conv_pool_backward(struct node *n)
{
    struct pooled p;
    int rc = conv_pool_describe(n, &p);
    if (rc) return rc;
    det_tensor *x = n->aux[CONV_AUX_X], *g = conv_image_grad(n);
    det_tensor *y = tensor_converted(n->out[0], DET_F32, CHANNELS_LAST);
    struct pooled_grads grads = {.w = n->aux[CONV_AUX_W]->data,
                                 .winner = n->aux[CONV_POOL_AUX_WINNER]->data};
    det_tensor *dw = NULL, *own_x = NULL, *dx = wants_grad(n, 0) ? tensor_new_like(x) : NULL;
    det_tensor *db = wants_grad(n, 2) ? tensor_new(DET_F32, n->in[2]->shape, 1) : NULL;
    bool in_place = n->in[1]->dtype == DET_F32 && tensor_is_row_major(n->in[1]);
    if (wants_grad(n, 1))
        dw = in_place ? grad_target(n, 1, &grads.accumulate_w)
                      : tensor_new(DET_F32, n->aux[CONV_AUX_W]->shape, 4);
    if (x->storage->borrowed &&
        (own_x = tensor_new_like(x))) { // kernels read a little past the end
        memcpy(own_x->data, x->data, (size_t)x->numel * sizeof(float));
        x = own_x;
    }
    if (!sticky_failed()) {
        grads.x = x->data, grads.y = y->data, grads.g = g->data;
        grads.dx = dx ? dx->data : NULL, grads.dw = dw ? dw->data : NULL,
        grads.db = db ? db->data : NULL;
        rc = pooled_backward(&p, &grads);
    }
    if (dx) give_grad(n, 0, dx);
    if (db) give_grad(n, 2, db);
    if (dw && !in_place) give_grad(n, 1, dw);
    tensor_release(own_x);
    tensor_release(g);
    tensor_release(y);
    return rc ? node_fail(n, rc, "no memory for gradients") : 0;
}

static const char *const conv_pool_cases[] = {
    "x:f[2,1,12,12] w:f[5,1,5,5] b:f[5]; kernel=2; F.max_pool2d(F.conv2d(x, w, b), 2)",
    "x:f[3,40,12,12] w:f[40,40,5,5] b:f[40]; kernel=2; F.max_pool2d(F.conv2d(x, w, b), 2)",
    "x:f[2,19,13,10] w:f[53,19,5,5] -; kernel=2; F.max_pool2d(F.conv2d(x, w), 2)",
    "x:f[9,2,13,14] w:f[50,2,3,3] b:f[50]; kernel=2; F.max_pool2d(F.conv2d(x, w, b), 2)",
    "x:f[3,3,11,13] w:f[7,3,4,3] -; kernel=2,3; F.max_pool2d(F.conv2d(x, w), (2, 3))",
    NULL};
const struct op op_conv_pool = {.name = "conv_pool",
                                .min_in = 2,
                                .max_in = 3,
                                .flags = OP_DEFER,
                                .saves_for = {2, 1},
                                .infer = conv_pool_infer,
                                .forward = conv_pool_forward,
                                .backward = conv_pool_backward,
                                .attrs = conv_pool_attrs,
                                .cases = conv_pool_cases};

static const char *const conv_pool_relu_cases[] = {
    "x:f[2,1,12,12] w:f[5,1,5,5] b:f[5]; kernel=2 relu=1; F.relu(F.max_pool2d(F.conv2d(x, w, b), "
    "2))",
    "x:f[3,40,12,12] w:f[40,40,5,5] b:f[40]; kernel=2 relu=1; "
    "F.relu(F.max_pool2d(F.conv2d(x, w, b), 2))",
    "x:f[3,7,9,9] w:f[7,7,2,2] -; kernel=3 relu=1; F.max_pool2d(F.relu(F.conv2d(x, w)), 3)", NULL};
const struct op op_conv_pool_relu = {.name = "conv_pool_relu",
                                     .min_in = 2,
                                     .max_in = 3,
                                     .saves_for = {2, 1},
                                     .saves_out = true,
                                     .infer = conv_pool_infer,
                                     .forward = conv_pool_forward,
                                     .backward = conv_pool_backward,
                                     .attrs = conv_pool_attrs,
                                     .cases = conv_pool_relu_cases};

// max_pool2d over a convolution (with or without relu) that has not run: windows must not overlap.
// Pooling and relu may change places: neither changes which pixel wins.
static bool absorb_conv(struct node *consumer, const struct node *conv, bool relu)
{
    const det_pool_opts *a = NODE_ATTR(consumer, det_pool_opts);
    struct conv_pool_attr merged = {.conv = *NODE_ATTR(conv, struct conv_attr),
                                    .kernel = {a->kernel[0], a->kernel[1]},
                                    .relu = relu};
    bool plain = conv->out[0]->dtype != DET_F64 && windows_touch(a);
    struct pooled p = {.kh = a->kernel[0], .kw = a->kernel[1]};
    if (!plain || conv_describe((struct node *)(uintptr_t)conv, &p.conv) || !pooled_fits(&p))
        return false;
    node_rewrite(consumer, relu ? &op_conv_pool_relu : &op_conv_pool, conv->in, conv->n_in, &merged,
                 sizeof merged);
    return true;
}

bool pool_absorbs_conv(struct node *consumer, const struct node *producer)
{
    return absorb_conv(consumer, producer, false);
}

bool pool_absorbs_conv_relu(struct node *consumer, const struct node *producer)
{
    return absorb_conv(consumer, producer, true);
}

bool relu_absorbs_conv_pool(struct node *consumer, const struct node *producer)
{
    struct conv_pool_attr merged = *NODE_ATTR(producer, struct conv_pool_attr);
    merged.relu = true;
    node_rewrite(consumer, &op_conv_pool_relu, producer->in, producer->n_in, &merged,
                 sizeof merged);
    return true;
}
