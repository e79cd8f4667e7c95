// Unit op_channel_norm.c: batch_norm, merged with the addition, relu and pooling behind it, and
// group_norm.
#include "tensor/channel_norm.h"
#include "tensor/fuse.h"
#include "tensor/ops.h"

static int check_channels(const struct node *n, int i, const char *name)
{
    const det_tensor *t = node_in(n, i), *x = n->in[NORM_X];
    if (!t) return 0;
    if (t->ndim != 1 || t->shape[0] != x->shape[1] || !dtype_is_float((det_dtype)t->dtype))
        return node_fail(n, DET_ESHAPE, "%s is %s %s, wants floats, one per channel of %s", name,
                         TENSOR_TEXT(t), det_dtype_name((det_dtype)t->dtype), TENSOR_TEXT(x));
    return 0;
}

static int channel_infer(struct node *n)
{
    const det_tensor *x = n->in[NORM_X];
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    if (x->ndim < 2)
        return node_fail(n, DET_ESHAPE, "input is %s, wants (N, C, ...)", TENSOR_TEXT(x));
    int rc = check_channels(n, NORM_WEIGHT, "weight");
    if (!rc) rc = check_channels(n, NORM_BIAS, "bias");
    int64_t stride[DET_MAX_DIMS];
    channel_strides(x->shape, x->ndim, stride);
    return rc ? rc : node_out_strided(n, (det_dtype)x->dtype, x->shape, stride, x->ndim);
}

static int batch_norm_infer(struct node *n)
{
    struct channel_attr *a = NODE_ATTR(n, struct channel_attr);
    const det_tensor *x = n->in[NORM_X], *skip = node_in(n, NORM_SKIP);
    if (x->ndim >= 2 && a->training && x->shape[1] && x->numel == x->shape[1])
        return node_fail(n, DET_ESHAPE,
                         "training wants more than one value per channel, input is %s",
                         TENSOR_TEXT(x));
    if (!a->training && !(node_in(n, NORM_RUNNING_MEAN) && node_in(n, NORM_RUNNING_VAR)))
        return node_fail(n, DET_EINVAL, "wants running_mean and running_var when not training");
    if (skip && (!same_shape(skip, x) || skip->dtype != x->dtype))
        return node_fail(n, DET_ESHAPE, "wants to add what is shaped like %s, got %s",
                         TENSOR_TEXT(x), TENSOR_TEXT(skip));
    if ((skip || a->relu) && x->dtype == DET_F64) return node_fail(n, DET_EDTYPE, "not for f64");
    int rc = channel_infer(n);
    if (!rc) rc = check_channels(n, NORM_RUNNING_MEAN, "running_mean");
    return rc ? rc : check_channels(n, NORM_RUNNING_VAR, "running_var");
}

static const struct attr_field batch_norm_attrs[] = {
    {"training", ATTR_BOOL, offsetof(struct channel_attr, training)},
    {"eps", ATTR_REAL, offsetof(struct channel_attr, eps)},
    {"momentum", ATTR_REAL, offsetof(struct channel_attr, momentum)},
    {"relu", ATTR_BOOL, offsetof(struct channel_attr, relu)},
    {NULL, 0, 0},
};

#define BATCH_NORM_ROW                                                                           \
    .min_in = 1, .saves_in = 1 << NORM_X | 1 << NORM_WEIGHT | 1 << NORM_BIAS,                    \
    .infer = batch_norm_infer, .prepare = channel_norm_prepare, .forward = channel_norm_forward, \
    .backward = channel_norm_backward, .attrs = batch_norm_attrs
#define BATCH_NORM "F.batch_norm(x, m, v, w, b, bool(training), 0.1, eps)"

static const char *const batch_norm_cases[] = {
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c]; training=1 eps=0.001; " BATCH_NORM,
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c]; training=0 eps=0.001; " BATCH_NORM,
    "x:f[40,19] w:f[19] b:f[19] m:w[19] v:w[19]; training=1 eps=0.001; " BATCH_NORM,
    "x:f[a,C,5] w:f[C] b:f[C] m:w[C] v:w[C]; training=1 eps=0.001; " BATCH_NORM,
    "x:f[3,33,16,18] w:f[33] b:f[33] m:w[33] v:w[33]; training=1 eps=0.001; " BATCH_NORM,
    "x:f[0,C] w:f[C] b:f[C] m:w[C] v:w[C]; training=1 eps=0.001; " BATCH_NORM,
    "x:f[a,C,0] w:f[C] b:f[C] m:w[C] v:w[C]; training=0 eps=0.001; " BATCH_NORM,
    "x:f[B,c,a,d] - - m:w[c] v:w[c]; training=0 eps=0.00001; F.batch_norm(x, m, v)",
    "x:f[B,c,a,d] - b:f[c] - -; training=1 eps=0.00001; F.batch_norm(x, None, None, None, b, True)",
    NULL};
const struct op op_batch_norm = {.name = "batch_norm",
                                 .max_in = 5,
                                 .flags = OP_DEFER,
                                 BATCH_NORM_ROW,
                                 .cases = batch_norm_cases};

static const char *const batch_norm_add_cases[] = {
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c] s:f[B,c,a,d]; training=1 eps=0.001; s + " BATCH_NORM,
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c] s:f[B,c,a,d]; training=0 eps=0.001; s + " BATCH_NORM,
    NULL};
const struct op op_batch_norm_add = {.name = "batch_norm_add",
                                     .max_in = 6,
                                     .flags = OP_DEFER,
                                     BATCH_NORM_ROW,
                                     .cases = batch_norm_add_cases};

static const char *const batch_norm_relu_cases[] = {
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c]; training=1 eps=0.001 relu=1; F.relu(" BATCH_NORM ")",
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c]; training=0 eps=0.001 relu=1; F.relu(" BATCH_NORM ")",
    "x:f[B,c,a,d] w:f[c] b:f[c] m:w[c] v:w[c] s:f[B,c,a,d]; training=1 eps=0.001 relu=1; "
    "F.relu(s + " BATCH_NORM ")",
    "x:f[3,33,16,18] w:f[33] b:f[33] m:w[33] v:w[33] s:f[3,33,16,18]; training=1 eps=0.001 relu=1; "
    "F.relu(s + " BATCH_NORM ")",
    NULL};
const struct op op_batch_norm_relu = {.name = "batch_norm_relu",
                                      .max_in = 6,
                                      .flags = OP_DEFER,
                                      .saves_out = true,
                                      BATCH_NORM_ROW,
                                      .cases = batch_norm_relu_cases};

// --- pooled

static bool can_be_pooled(const det_tensor *x)
{
    return x->dtype != DET_F64 && x->ndim == 4 && x->shape[2] % 2 == 0 && x->shape[3] % 2 == 0;
}

static int batch_norm_pool_infer(struct node *n)
{
    struct channel_attr *a = NODE_ATTR(n, struct channel_attr);
    const det_tensor *x = n->in[NORM_X];
    int rc = batch_norm_infer(n);
    if (rc) return rc;
    if (!can_be_pooled(x))
        return node_fail(n, DET_EDTYPE, "not for %s %s", det_dtype_name((det_dtype)x->dtype),
                         TENSOR_TEXT(x));
    a->relu = a->pooled = true;
    header_free(n->out[--n->n_out]); // that of the relu
    int64_t shape[] = {x->shape[0], x->shape[1], x->shape[2] / 2, x->shape[3] / 2};
    return node_out_channels_last(n, (det_dtype)x->dtype, shape);
}

static const char *const batch_norm_pool_cases[] = {
    "x:f[B,c,6,4] w:f[c] b:f[c] m:w[c] v:w[c]; training=1 eps=0.001; "
    "F.max_pool2d(F.relu(" BATCH_NORM "), 2)",
    "x:f[B,c,2,8] w:f[c] b:f[c] m:w[c] v:w[c]; training=0 eps=0.001; "
    "F.max_pool2d(F.relu(" BATCH_NORM "), 2)",
    "x:f[3,33,16,18] w:f[33] b:f[33] m:w[33] v:w[33]; training=1 eps=0.001; "
    "F.max_pool2d(F.relu(" BATCH_NORM "), 2)",
    NULL};
const struct op op_batch_norm_pool = {.name = "batch_norm_pool",
                                      .min_in = 1,
                                      .max_in = 5,
                                      .saves_in = 1 << NORM_X | 1 << NORM_WEIGHT | 1 << NORM_BIAS,
                                      .saves_out = true,
                                      .infer = batch_norm_pool_infer,
                                      .prepare = channel_norm_prepare,
                                      .forward = channel_norm_forward,
                                      .backward = channel_norm_backward,
                                      .attrs = batch_norm_attrs,
                                      .cases = batch_norm_pool_cases};

// --- merging

// Rewrites consumer into op over the inputs of norm; the statistics are shared, not computed again.
static void take_over(struct node *consumer, const struct node *norm, const struct op *op,
                      det_tensor *skip, bool relu)
{
    det_tensor *in[NORM_SKIP + 1] = {0};
    struct channel_attr a = *NODE_ATTR(norm, struct channel_attr);
    memcpy(in, norm->in, norm->n_in * sizeof *in);
    if (skip) in[NORM_SKIP] = skip;
    a.relu = relu;
    a.pooled = op == &op_batch_norm_pool;
    node_rewrite(consumer, op, in, in[NORM_SKIP] ? NORM_SKIP + 1 : norm->n_in, &a, sizeof a);
    consumer->aux[NORM_AUX_STATS] = tensor_ref(norm->aux[NORM_AUX_STATS]);
    consumer->aux[NORM_AUX_X] = tensor_ref(norm->aux[NORM_AUX_X]);
}

bool relu_absorbs_batch_norm(struct node *consumer, const struct node *producer)
{
    if (producer->out[0]->dtype == DET_F64) return false;
    take_over(consumer, producer, &op_batch_norm_relu, NULL, true);
    return true;
}

bool add_absorbs_batch_norm(struct node *consumer, const struct node *producer)
{
    const det_tensor *y = producer->out[0];
    det_tensor *skip = consumer->in[1];
    bool same = same_shape(skip, y) && skip->dtype == y->dtype &&
                !memcmp(skip->stride, y->stride, y->ndim * sizeof *y->stride);
    if (!same || skip == y || y->dtype == DET_F64) return false;
    take_over(consumer, producer, &op_batch_norm_add, skip, false);
    return true;
}

bool pool_absorbs_batch_norm(struct node *consumer, const struct node *producer)
{
    if (node_in(producer, NORM_SKIP) || !can_be_pooled(producer->in[NORM_X])) return false;
    if (!pools_pairs(consumer)) return false;
    take_over(consumer, producer, &op_batch_norm_pool, NULL, true);
    return true;
}

det_tensor *det_batch_norm_with(det_tensor *x, det_batch_norm_opts opts)
{
    struct channel_attr a = {.training = opts.training, .momentum = opts.momentum, .eps = opts.eps};
    return OP_APPLY(&op_batch_norm, a, x, opts.weight, opts.bias, opts.running_mean,
                    opts.running_var);
}

static int group_norm_infer(struct node *n)
{
    struct channel_attr *a = NODE_ATTR(n, struct channel_attr);
    const det_tensor *x = n->in[NORM_X];
    if (x->ndim >= 2 && (a->n_groups < 1 || x->shape[1] % a->n_groups))
        return node_fail(n, DET_ESHAPE,
                         "wants a number of groups that divides the channels of %s, got %lld",
                         TENSOR_TEXT(x), (long long)a->n_groups);
    if (!a->eps) a->eps = 1e-5;
    return channel_infer(n);
}

static int group_norm_forward(struct node *n)
{
    int rc = channel_norm_prepare(n);
    return rc ? rc : channel_norm_forward(n);
}

static const struct attr_field group_norm_attrs[] = {
    {"n_groups", ATTR_INT, offsetof(struct channel_attr, n_groups)},
    {"eps", ATTR_REAL, offsetof(struct channel_attr, eps)},
    {NULL, 0, 0},
};
static const char *const group_norm_cases[] = {
    "x:f[0,6,b] w:f[6] b:f[6]; n_groups=3 eps=0.001; F.group_norm(x, 3, w, b, eps)",
    "x:f[a,3*c,b,D] w:f[3*c] b:f[3*c]; n_groups=3 eps=0.001; F.group_norm(x, 3, w, b, eps)",
    "x:f[a,3*c,D] w:f[3*c] -; n_groups=3; F.group_norm(x, 3, w)",
    "x:f[A,20] - b:f[20]; n_groups=2; F.group_norm(x, 2) + b",
    "x:f[2,32,17,20] w:f[32] b:f[32]; n_groups=8; F.group_norm(x, 8, w, b)",
    NULL};
const struct op op_group_norm = {.name = "group_norm",
                                 .min_in = 1,
                                 .max_in = 3,
                                 .saves_in = 1 << NORM_X | 1 << NORM_WEIGHT,
                                 .infer = group_norm_infer,
                                 .forward = group_norm_forward,
                                 .backward = channel_norm_backward,
                                 .attrs = group_norm_attrs,
                                 .cases = group_norm_cases};

det_tensor *det_group_norm(det_tensor *x, int64_t n_groups, det_tensor *weight, det_tensor *bias,
                           double eps)
{
    struct channel_attr a = {.n_groups = n_groups, .eps = eps};
    return OP_APPLY(&op_group_norm, a, x, weight, bias);
}
