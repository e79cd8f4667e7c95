// Unit op_conv.c: the operations conv2d and conv_transpose2d (and conv1d, an image of height 1).
// Images are computed in (N, H, W, C) order, which results keep.
#include "tensor/fuse.h"
#include "tensor/op_conv.h"

#include "tensor/elementwise.h"

static const struct attr_field conv_attrs[] = {
    {"stride", ATTR_PAIR, offsetof(struct conv_attr, stride)},
    {"padding", ATTR_PAIR, offsetof(struct conv_attr, padding)},
    {"dilation", ATTR_PAIR, offsetof(struct conv_attr, dilation)},
    {"groups", ATTR_INT, offsetof(struct conv_attr, groups)},
    {NULL, 0, 0},
};

// --- shapes

static int conv_check_floats(const struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !dtype_is_float((det_dtype)n->in[i]->dtype))
            return node_fail(n, DET_EDTYPE, "input %d is %s, wants floats", i,
                             det_dtype_name((det_dtype)n->in[i]->dtype));
    return 0;
}

// Asked when the operation is recorded: autocast may be another when it is run, and is off in
// backward.
static int conv_check_types(const struct node *n)
{
    const det_tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    bool mixed = x->dtype != w->dtype || (b && b->dtype != w->dtype);
    if (mixed && !det_autocast())
        return node_fail(n, DET_EDTYPE, "input is %s, weight %s; all must be of one type",
                         det_dtype_name((det_dtype)x->dtype), det_dtype_name((det_dtype)w->dtype));
    return conv_check_floats(n);
}

static int conv_check_dims(struct node *n)
{
    const det_tensor *x = n->in[0], *w = n->in[1];
    if (x->ndim != 4)
        return node_fail(n, DET_ESHAPE, "input is %s, wants (N, C, H, W) or (C, H, W)",
                         TENSOR_TEXT(x));
    if (w->ndim != 4) return node_fail(n, DET_ESHAPE, "weight is %s, wants 4 dims", TENSOR_TEXT(w));
    return 0;
}

static int64_t or_default(int64_t v, int64_t otherwise)
{
    return v ? v : otherwise;
}

// Reads the attributes and checks their ranges.
static int conv_read_attr(const struct node *n, struct conv *s)
{
    const struct conv_attr *a = NODE_ATTR(n, struct conv_attr);
    s->sh = or_default(a->stride[0], 1), s->sw = or_default(a->stride[1], 1);
    s->dh = or_default(a->dilation[0], 1), s->dw = or_default(a->dilation[1], 1);
    s->ph = a->padding[0], s->pw = a->padding[1];
    s->groups = or_default(a->groups, 1);
    s->bf16 = false;
    const int64_t at_least_1[] = {s->sh, s->sw, s->dh, s->dw, s->groups};
    for (size_t i = 0; i < STATIC_LEN(at_least_1); i++)
        if (at_least_1[i] < 1 || at_least_1[i] > INT32_MAX)
            return node_fail(n, DET_EINVAL, "stride, dilation and groups must be 1 or more");
    if (s->ph < 0 || s->pw < 0 || s->ph > INT32_MAX || s->pw > INT32_MAX)
        return node_fail(n, DET_EINVAL, "padding is (%lld, %lld)", (long long)s->ph,
                         (long long)s->pw);
    return 0;
}

int conv_describe(struct node *n, struct conv *s)
{
    const det_tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    int rc = conv_check_dims(n);
    if (!rc) rc = conv_read_attr(n, s);
    if (rc) return rc;
    s->n = x->shape[0], s->c = x->shape[1], s->h = x->shape[2], s->w = x->shape[3];
    s->oc = w->shape[0], s->kh = w->shape[2], s->kw = w->shape[3];
    if (s->c % s->groups || s->oc % s->groups || w->shape[1] != s->c / s->groups)
        return node_fail(n, DET_ESHAPE,
                         "input is %s, weight %s with %lld groups wants %lld channels",
                         TENSOR_TEXT(x), TENSOR_TEXT(w), (long long)s->groups,
                         (long long)w->shape[1] * s->groups);
    if (b && (b->ndim != 1 || b->shape[0] != s->oc))
        return node_fail(n, DET_ESHAPE, "bias is %s, weight %s wants %lld", TENSOR_TEXT(b),
                         TENSOR_TEXT(w), (long long)s->oc);
    int64_t free_h = s->h + 2 * s->ph - s->dh * (s->kh - 1) - 1;
    int64_t free_w = s->w + 2 * s->pw - s->dw * (s->kw - 1) - 1;
    if (free_h < 0 || free_w < 0 || s->kh < 1 || s->kw < 1)
        return node_fail(n, DET_ESHAPE, "the kernel of %s is larger than the input %s with padding",
                         TENSOR_TEXT(w), TENSOR_TEXT(x));
    s->oh = free_h / s->sh + 1;
    s->ow = free_w / s->sw + 1;
    return 0;
}

static int conv_infer(struct node *n)
{
    struct conv s;
    int rc = conv_check_types(n);
    if (!rc) rc = conv_describe(n, &s);
    if (rc) return rc;
    bool bf16 = det_autocast() && n->in[0]->dtype != DET_F64;
    det_dtype dtype = bf16 ? DET_BF16 : (det_dtype)n->in[0]->dtype;
    return node_out_channels_last(n, dtype, (int64_t[]){s.n, s.oc, s.oh, s.ow});
}

// --- inputs in the form the kernels want

static det_dtype compute_type(const struct node *n)
{
    return n->out[0]->dtype == DET_F64 ? DET_F64 : DET_F32;
}

// Rounded to what bf16 can hold where the result is bf16: as if converted first.
static det_tensor *operand(const struct node *n, det_tensor *t, det_dtype type,
                           enum tensor_order order)
{
    bool round = n->out[0]->dtype == DET_BF16 && t->dtype == DET_F32;
    det_tensor *low = round ? tensor_converted(t, DET_BF16, order) : tensor_ref(t);
    det_tensor *o = low ? tensor_converted(low, type, order) : NULL;
    tensor_release(low);
    return o;
}

int conv_operands(struct node *n, bool bf16, struct conv_operands *o)
{
    const det_dtype images = bf16 ? DET_BF16 : compute_type(n);
    if (!n->aux[CONV_AUX_X]) n->aux[CONV_AUX_X] = operand(n, n->in[0], images, CHANNELS_LAST);
    if (!n->aux[CONV_AUX_W]) n->aux[CONV_AUX_W] = operand(n, n->in[1], compute_type(n), ROW_MAJOR);
    o->x = n->aux[CONV_AUX_X];
    o->w = n->aux[CONV_AUX_W];
    o->bias = n->in[2] ? tensor_converted(n->in[2], compute_type(n), ROW_MAJOR) : NULL;
    return sticky_failed() ? DET_ENOMEM : 0;
}

det_tensor *conv_image_grad(const struct node *n)
{
    const det_dtype images = (det_dtype)n->aux[CONV_AUX_X]->dtype;
    det_tensor *g = tensor_converted(out_grad(n, 0), images, CHANNELS_LAST);
    if (!g || !g->storage->borrowed) return g;
    det_tensor *own = tensor_new_like(g); // kernels read a little past the end
    if (own) ew_copy(own, g);
    tensor_release(g);
    return own;
}

det_tensor *conv_result(struct node *n)
{
    det_tensor *y = n->out[0];
    if (y->dtype != DET_BF16) return tensor_ref(y);
    return tensor_new_ordered(DET_F32, y->shape, 4, CHANNELS_LAST);
}

void conv_store(struct node *n, det_tensor *y)
{
    if (y != n->out[0]) ew_copy(n->out[0], y);
    tensor_release(y);
}

// --- conv2d

// The convolution, and whether its images stay bf16.
static int conv_plan(struct node *n, struct conv *s)
{
    int rc = conv_describe(n, s);
    if (!rc) s->bf16 = n->out[0]->dtype == DET_BF16 && conv_takes_bf16(s);
    return rc;
}

static int conv_forward_op(struct node *n)
{
    struct conv s;
    struct conv_operands o;
    int rc = conv_plan(n, &s);
    if (!rc) rc = conv_operands(n, s.bf16, &o);
    if (rc) return rc;
    det_tensor *y = s.bf16 ? tensor_ref(n->out[0]) : conv_result(n);
    if (!y) return DET_ENOMEM;
    const void *bias = o.bias ? o.bias->data : NULL;
    if (y->dtype == DET_F64)
        plain_forward(&s, o.x->data, o.w->data, bias, y->data);
    else
        rc = conv_forward(&s, o.x->data, o.w->data, bias, y->data);
    tensor_release(o.bias);
    conv_store(n, y);
    return rc ? node_fail(n, rc, "no memory to convolve %s", TENSOR_TEXT(n->in[0])) : 0;
}

static void give_bias_grad(struct node *n, const struct conv *s, det_tensor *g)
{
    if (!wants_grad(n, 2)) return;
    det_tensor *rows = det_permute(g, DET_DIMS(0, 2, 3, 1));
    rows = det_reshape(rows, DET_DIMS(s->n * s->oh * s->ow, s->oc));
    if (s->bf16) rows = det_to(rows, DET_F32); // for a sum of f32
    give_grad(n, 2, tensor_ref(det_sum_over(rows, DET_DIMS(0), false)));
}

static int conv_give_weight_grad(struct node *n, const struct conv *s, det_tensor *g)
{
    det_tensor *w = n->in[1], *x = n->aux[CONV_AUX_X];
    if (g->dtype == DET_F64) {
        det_tensor *gw = tensor_new(DET_F64, w->shape, 4);
        if (!gw) return DET_ENOMEM;
        plain_weights(s, x->data, g->data, gw->data);
        give_grad(n, 1, gw);
        return 0;
    }
    bool accumulate = false, in_place = w->dtype == DET_F32 && tensor_is_row_major(w);
    det_tensor *gw = in_place ? grad_target(n, 1, &accumulate) : tensor_new(DET_F32, w->shape, 4);
    if (!gw) return DET_ENOMEM;
    int rc = conv_backward_weights(s, x->data, g->data, gw->data, accumulate);
    if (!in_place) give_grad(n, 1, gw);
    return rc;
}

static int conv_give_input_grad(struct node *n, const struct conv *s, det_tensor *g)
{
    det_tensor *w = n->aux[CONV_AUX_W], *dx = tensor_new_like(n->aux[CONV_AUX_X]);
    if (!dx) return DET_ENOMEM;
    int rc = 0;
    if (g->dtype == DET_F64)
        plain_data(s, g->data, w->data, dx->data);
    else
        rc = conv_backward_data(s, g->data, w->data, dx->data);
    give_grad(n, 0, dx);
    return rc;
}

static int conv_backward_from(struct node *n, det_tensor *g)
{
    struct conv s;
    int rc = conv_plan(n, &s);
    if (rc) return rc;
    give_bias_grad(n, &s, g);
    if (wants_grad(n, 1)) rc = conv_give_weight_grad(n, &s, g);
    if (!rc && wants_grad(n, 0)) rc = conv_give_input_grad(n, &s, g);
    return rc ? node_fail(n, rc, "no memory for gradients") : 0;
}

static int conv_backward_op(struct node *n)
{
    det_tensor *g = conv_image_grad(n);
    int rc = g ? conv_backward_from(n, g) : DET_ENOMEM;
    tensor_release(g);
    return rc;
}

static const char *const conv2d_cases[] = {
    "x:f[a,1,9,8] w:f[5,1,5,5] b:f[5]; ; F.conv2d(x, w, b)",
    "x:f[a,3,9,8] w:f[5,3,3,3] -; stride=2 padding=1; F.conv2d(x, w, None, 2, 1)",
    ("x:f[2,4,9,11] w:f[6,4,3,2] b:f[6]; stride=2,1 padding=1,2 dilation=2,1; "
     "F.conv2d(x, w, b, (2,1), (1,2), (2,1))"),
    "x:f[2,6,7,7] w:f[4,3,3,3] b:f[4]; padding=1 groups=2; F.conv2d(x, w, b, 1, 1, 1, 2)",
    "x:f[2,5,7,7] w:f[5,1,3,3] b:f[5]; padding=1 groups=5; F.conv2d(x, w, b, 1, 1, 1, 5)",
    "x:f[a,5,4,6] w:f[7,5,1,1] b:f[7]; ; F.conv2d(x, w, b)",
    "x:f[2,5,5,6] w:f[7,5,1,1] b:f[7]; stride=2; F.conv2d(x, w, b, 2)",
    "x:f[2,16,9,7] w:f[32,16,3,3] b:f[32]; padding=1; F.conv2d(x, w, b, 1, 1)",
    "x:f[3,32,8,8] w:f[16,32,3,3] -; ; F.conv2d(x, w)",
    "x:f[2,16,6,5] w:f[80,16,3,3] b:f[80]; padding=2; F.conv2d(x, w, b, 1, 2)",
    "x:f[1,40,12,12] w:f[40,40,5,5] b:f[40]; ; F.conv2d(x, w, b)",
    "x:f[2,80,6,6] w:f[80,80,5,5] -; ; F.conv2d(x, w)",
    "x:f[7,16,30,30] w:f[32,16,3,3] b:f[32]; padding=1; F.conv2d(x, w, b, 1, 1)",
    NULL};
const struct op op_conv2d = {.name = "conv2d",
                             .min_in = 2,
                             .max_in = 3,
                             .flags = OP_DEFER,
                             .saves_for = {2, 1},
                             .infer = conv_infer,
                             .forward = conv_forward_op,
                             .backward = conv_backward_op,
                             .attrs = conv_attrs,
                             .cases = conv2d_cases};

// --- convolution + relu

static int conv_relu_forward(struct node *n)
{
    int rc = conv_forward_op(n);
    det_tensor *y = n->out[0];
    if (!rc)
        ew_run(ew_unary(UNARY_relu, (det_dtype)y->dtype), (det_tensor *const[]){y, y}, 2, NULL);
    return rc;
}

static int conv_relu_backward(struct node *n)
{
    det_tensor *after = conv_image_grad(n), *y = n->out[0];
    det_tensor *g = after ? tensor_new_like(after) : NULL;
    det_tensor *passed = g ? tensor_converted(y, (det_dtype)g->dtype, CHANNELS_LAST) : NULL;
    int rc = DET_ENOMEM;
    if (passed) {
        ew_run(ew_unary_grad(UNARY_relu, (det_dtype)g->dtype),
               (det_tensor *const[]){g, after, passed}, 3, NULL);
        rc = conv_backward_from(n, g);
    }
    tensor_release(passed);
    tensor_release(after);
    tensor_release(g);
    return rc;
}

static const char *const conv_relu_cases[] = {
    "x:f[2,3,9,8] w:f[5,3,3,3] b:f[5]; stride=2 padding=1; F.relu(F.conv2d(x, w, b, 2, 1))",
    "x:f[2,16,9,7] w:f[32,16,3,3] b:f[32]; padding=1; F.relu(F.conv2d(x, w, b, 1, 1))", NULL};
const struct op op_conv_relu = {.name = "conv_relu",
                                .min_in = 2,
                                .max_in = 3,
                                .flags = OP_DEFER,
                                .saves_for = {2, 1},
                                .saves_out = true,
                                .infer = conv_infer,
                                .forward = conv_relu_forward,
                                .backward = conv_relu_backward,
                                .attrs = conv_attrs,
                                .cases = conv_relu_cases};

bool relu_absorbs_conv(struct node *consumer, const struct node *producer)
{
    node_rewrite(consumer, &op_conv_relu, producer->in, producer->n_in, producer->attr,
                 sizeof(struct conv_attr));
    return true;
}

static struct conv_attr attr_of(const det_conv_opts *o)
{
    return (struct conv_attr){.stride = {o->stride[0], o->stride[1]},
                              .padding = {o->padding[0], o->padding[1]},
                              .dilation = {o->dilation[0], o->dilation[1]},
                              .output_padding = {o->output_padding[0], o->output_padding[1]},
                              .groups = o->groups};
}

// --- integers: no layer has such, but torch does it

static int integers_infer(struct node *n)
{
    struct conv s;
    int rc = conv_describe(n, &s);
    return rc ? rc : node_out_channels_last(n, DET_I64, (int64_t[]){s.n, s.oc, s.oh, s.ow});
}

static int integers_forward(struct node *n)
{
    struct conv s;
    int rc = conv_describe(n, &s);
    det_tensor *x = tensor_converted(n->in[0], DET_I64, CHANNELS_LAST);
    det_tensor *w = tensor_converted(n->in[1], DET_I64, ROW_MAJOR);
    det_tensor *b = n->in[2] ? tensor_converted(n->in[2], DET_I64, ROW_MAJOR) : NULL;
    if (!rc && !sticky_failed())
        plain_forward_i64(&s, x->data, w->data, b ? b->data : NULL, n->out[0]->data);
    tensor_release(x);
    tensor_release(w);
    tensor_release(b);
    return rc;
}

static const char *const conv_integers_cases[] = {
    "x:i9[2,4,5,6] w:i9[6,2,3,3] b:i9[6]; stride=2 padding=1 groups=2; "
    "F.conv2d(x, w, b, 2, 1, 1, 2)",
    NULL};
const struct op op_conv_integers = {.name = "conv_integers",
                                    .min_in = 2,
                                    .max_in = 3,
                                    .infer = integers_infer,
                                    .forward = integers_forward,
                                    .attrs = conv_attrs,
                                    .cases = conv_integers_cases};

// Integers are summed in i64 and then cut to their type.
static det_tensor *convolved(struct conv_attr a, det_tensor *x, det_tensor *w, det_tensor *b)
{
    bool integers = x && w && !dtype_is_float((det_dtype)x->dtype) && x->dtype == w->dtype;
    if (!integers || (b && b->dtype != x->dtype)) return OP_APPLY(&op_conv2d, a, x, w, b);
    return det_to(OP_APPLY(&op_conv_integers, a, x, w, b), (det_dtype)x->dtype);
}

det_tensor *det_conv2d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o)
{
    return without_batch(x, 4, convolved(attr_of(&o), with_batch(x, 4), w, b));
}

// --- conv_transpose2d: the gradient of a convolution, used forwards

// The convolution whose gradient it is: its input is our result.
static int transpose_describe(struct node *n, struct conv *s)
{
    const det_tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    const int64_t *out_pad = NODE_ATTR(n, struct conv_attr)->output_padding;
    int rc = conv_check_dims(n);
    if (!rc) rc = conv_read_attr(n, s);
    if (rc) return rc;
    s->n = x->shape[0], s->oc = x->shape[1], s->oh = x->shape[2], s->ow = x->shape[3];
    s->c = w->shape[1] * s->groups, s->kh = w->shape[2], s->kw = w->shape[3];
    if (w->shape[0] != s->oc || s->oc % s->groups)
        return node_fail(n, DET_ESHAPE, "input is %s, weight %s wants %lld channels",
                         TENSOR_TEXT(x), TENSOR_TEXT(w), (long long)w->shape[0]);
    if (b && (b->ndim != 1 || b->shape[0] != s->c))
        return node_fail(n, DET_ESHAPE, "bias is %s, weight %s wants %lld", TENSOR_TEXT(b),
                         TENSOR_TEXT(w), (long long)s->c);
    bool bad_pad = out_pad[0] < 0 || out_pad[1] < 0 || out_pad[0] >= MAX(s->sh, s->dh) ||
                   out_pad[1] >= MAX(s->sw, s->dw);
    if (bad_pad)
        return node_fail(n, DET_EINVAL, "output_padding must be smaller than stride or dilation");
    s->h = (s->oh - 1) * s->sh - 2 * s->ph + s->dh * (s->kh - 1) + out_pad[0] + 1;
    s->w = (s->ow - 1) * s->sw - 2 * s->pw + s->dw * (s->kw - 1) + out_pad[1] + 1;
    if (s->h < 1 || s->w < 1 || s->kh < 1 || s->kw < 1 || s->oh < 1 || s->ow < 1)
        return node_fail(n, DET_ESHAPE, "input %s and weight %s give an empty result",
                         TENSOR_TEXT(x), TENSOR_TEXT(w));
    return 0;
}

static int transpose_infer(struct node *n)
{
    struct conv s;
    int rc = conv_check_types(n);
    if (!rc) rc = transpose_describe(n, &s);
    if (rc) return rc;
    bool bf16 = det_autocast() && n->in[0]->dtype != DET_F64;
    det_dtype dtype = bf16 ? DET_BF16 : (det_dtype)n->in[0]->dtype;
    return node_out_channels_last(n, dtype, (int64_t[]){s.n, s.c, s.h, s.w});
}

static int transpose_forward(struct node *n)
{
    struct conv s;
    struct conv_operands o;
    int rc = transpose_describe(n, &s);
    if (!rc) rc = conv_operands(n, false, &o);
    if (rc) return rc;
    det_tensor *y = conv_result(n);
    if (!y) return DET_ENOMEM;
    if (y->dtype == DET_F64)
        plain_data(&s, o.x->data, o.w->data, y->data);
    else
        rc = conv_backward_data(&s, o.x->data, o.w->data, y->data);
    if (o.bias) {
        det_tensor *b = det_reshape(o.bias, DET_DIMS(1, s.c, 1, 1));
        if (b)
            ew_run(ew_binary(BINARY_add, (det_dtype)y->dtype), (det_tensor *const[]){y, y, b}, 3,
                   NULL);
    }
    tensor_release(o.bias);
    conv_store(n, y);
    return rc ? node_fail(n, rc, "no memory to convolve %s", TENSOR_TEXT(n->in[0])) : 0;
}

static int transpose_backward(struct node *n)
{
    struct conv s;
    int rc = transpose_describe(n, &s);
    if (rc) return rc;
    det_tensor *g = conv_image_grad(n), *x = n->aux[CONV_AUX_X];
    if (!g) return DET_ENOMEM;
    if (wants_grad(n, 2)) give_grad(n, 2, tensor_ref(det_sum_over(g, DET_DIMS(0, 2, 3), false)));
    if (wants_grad(n, 1)) {
        det_tensor *gw = tensor_new((det_dtype)g->dtype, n->in[1]->shape, 4);
        if (gw && g->dtype == DET_F64)
            plain_weights(&s, g->data, x->data, gw->data);
        else if (gw)
            rc = conv_backward_weights(&s, g->data, x->data, gw->data, false);
        give_grad(n, 1, gw);
    }
    if (wants_grad(n, 0)) {
        det_tensor *gx = tensor_new_like(x), *w = n->aux[CONV_AUX_W];
        if (gx && g->dtype == DET_F64)
            plain_forward(&s, g->data, w->data, NULL, gx->data);
        else if (gx)
            rc = conv_forward(&s, g->data, w->data, NULL, gx->data);
        give_grad(n, 0, gx);
    }
    tensor_release(g);
    return rc ? node_fail(n, rc, "no memory for gradients") : 0;
}

static const struct attr_field transpose_attrs[] = {
    {"stride", ATTR_PAIR, offsetof(struct conv_attr, stride)},
    {"padding", ATTR_PAIR, offsetof(struct conv_attr, padding)},
    {"dilation", ATTR_PAIR, offsetof(struct conv_attr, dilation)},
    {"groups", ATTR_INT, offsetof(struct conv_attr, groups)},
    {"output_padding", ATTR_PAIR, offsetof(struct conv_attr, output_padding)},
    {NULL, 0, 0},
};
static const char *const conv_transpose2d_cases[] = {
    "x:f[2,4,5,6] w:f[4,3,3,3] b:f[3]; ; F.conv_transpose2d(x, w, b)",
    "x:f[2,4,5,6] w:f[4,3,3,3] b:f[3]; stride=2 padding=1 output_padding=1; "
    "F.conv_transpose2d(x, w, b, 2, 1, 1)",
    "x:f[2,4,5,6] w:f[4,3,2,3] -; stride=2,3 padding=1,0 groups=2 dilation=1,2; "
    "F.conv_transpose2d(x, w, None, (2,3), (1,0), 0, 2, (1,2))",
    "x:f[2,16,5,6] w:f[16,32,3,3] b:f[32]; padding=1; F.conv_transpose2d(x, w, b, 1, 1)", NULL};
const struct op op_conv_transpose2d = {.name = "conv_transpose2d",
                                       .min_in = 2,
                                       .max_in = 3,
                                       .saves_for = {2, 1},
                                       .infer = transpose_infer,
                                       .forward = transpose_forward,
                                       .backward = transpose_backward,
                                       .attrs = transpose_attrs,
                                       .cases = conv_transpose2d_cases};

det_tensor *det_conv_transpose2d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o)
{
    struct conv_attr a = attr_of(&o);
    return without_batch(x, 4, OP_APPLY(&op_conv_transpose2d, a, with_batch(x, 4), w, b));
}
