// Unit op_dropout.c: dropout of elements and of channels.
//
// Whether an element stays is a function of (seed, step, operation, its row-major position). So
// backward does not keep a mask: it draws the same numbers again, which costs less than a
// nanosecond per element and no memory; and the two directions are one function.
#include "tensor/elementwise.h"
#include "tensor/ops.h"
#include "tensor/random.h"
#include "tensor/rows.h"
#include "tensor/share.h"

#include <math.h>

struct dropout_attr {
    double p;
    uint64_t seed, stream;
};

static const struct attr_field dropout_attrs[] = {
    {"p", ATTR_REAL, offsetof(struct dropout_attr, p)}, {NULL, 0, 0}};

static int dropout_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct dropout_attr *a = NODE_ATTR(n, struct dropout_attr);
    if (!(a->p >= 0 && a->p <= 1)) return node_fail(n, DET_EINVAL, "p is %g, wants 0 .. 1", a->p);
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    a->seed = tape_get()->rng.seed;
    a->stream = rng_next_stream();
    return node_out_like(n, (det_dtype)x->dtype, x);
}

struct dropout_job {
    const struct dropout_attr *a;
    det_dtype dtype;
    struct rows x, out; // row-major
    int64_t n;
};

static void dropout_f64(const struct random_range *r, const struct dropout_args *a, double scale)
{
    uint32_t words[RANDOM_GROUP];
    for (int64_t i = 0; i < r->n; i++) {
        struct random_range group = {r->seed, r->stream, r->group + i / RANDOM_GROUP, RANDOM_GROUP};
        if (i % RANDOM_GROUP == 0) kernels->random_words(&group, words);
        bool stays = words[i % RANDOM_GROUP] >= a->threshold;
        ((double *)a->out)[i] = ((const double *)a->x)[i] * (stays ? scale : 0);
    }
}

static void dropout_range(void *ctx, int64_t from, int64_t to)
{
    const struct dropout_job *j = ctx;
    double p = j->a->p, scale = p < 1 ? 1 / (1 - p) : 0;
    int64_t at = from * RANDOM_GROUP, offset = at * (int64_t)dtype_size(j->dtype);
    struct random_range r = {j->a->seed, j->a->stream, from, MIN(to * RANDOM_GROUP, j->n) - at};
    struct dropout_args args = {.threshold = p < 1 ? (uint32_t)(p * 0x1p32) : 0,
                                .scale = (float)scale,
                                .x = (const char *)j->x.data + offset,
                                .out = (char *)j->out.data + offset};
    if (j->dtype == DET_F64)
        dropout_f64(&r, &args, scale);
    else
        kernels->dropout(&r, j->dtype == DET_BF16, &args);
}

static int dropout_run(const struct dropout_attr *a, det_tensor *x, det_tensor *out)
{
    struct dropout_job j = {.a = a, .dtype = (det_dtype)out->dtype, .n = x->numel};
    int last = MAX(x->ndim - 1, 0);
    int rc = rows_read(&j.x, x, last, j.dtype);
    if (!rc) rc = rows_write(&j.out, out, last, j.dtype);
    if (!rc) share_rows((j.n + RANDOM_GROUP - 1) / RANDOM_GROUP, RANDOM_GROUP, dropout_range, &j);
    rows_done(&j.x);
    rows_done(&j.out);
    return rc;
}

static int dropout_forward(struct node *n)
{
    return dropout_run(NODE_ATTR(n, struct dropout_attr), n->in[0], n->out[0]);
}

static int dropout_backward(struct node *n)
{
    det_tensor *gx = tensor_new_like(n->in[0]);
    if (!gx) return DET_ENOMEM;
    int rc = dropout_run(NODE_ATTR(n, struct dropout_attr), out_grad(n, 0), gx);
    give_grad(n, 0, gx);
    return rc;
}

static const char *const dropout_cases[] = {
    "exact|x:f[a,B,c]; p=0.5; F.dropout(x, 0.5)", "exact|x:f[300]; p=0.1; F.dropout(x, 0.1)",
    "x:f[a,B]; p=0; F.dropout(x, 0.0)", "x:n[a,B]; p=1; F.dropout(x, 1.0)", NULL};
const struct op op_dropout = {.name = "dropout",
                              .min_in = 1,
                              .max_in = 1,
                              .flags = OP_RANDOM,
                              .infer = dropout_infer,
                              .forward = dropout_forward,
                              .backward = dropout_backward,
                              .attrs = dropout_attrs,
                              .cases = dropout_cases};

// --- channels

static int dropout_channels_infer(struct node *n)
{
    if (n->in[0]->ndim < 2)
        return node_fail(n, DET_ESHAPE, "input is %s, wants 2 dims or more", TENSOR_TEXT(n->in[0]));
    return dropout_infer(n);
}

// out = x times one factor per sample and channel.
static int channels_run(const struct dropout_attr *a, det_tensor *x, det_tensor *out)
{
    det_tensor *mask = tensor_new((det_dtype)x->dtype, x->shape, 2);
    if (!mask) return DET_ENOMEM;
    double one = 1;
    det_tensor ones = {.dtype = DET_F64, .numel = 1, .data = &one}, factors;
    ew_copy(mask, &ones);
    int rc = dropout_run(a, mask, mask);
    factors = *mask;
    for (factors.ndim = 2; factors.ndim < x->ndim; factors.ndim++)
        factors.shape[factors.ndim] = 1;
    if (!rc)
        ew_run(ew_binary(BINARY_mul, (det_dtype)x->dtype), (det_tensor *const[]){out, x, &factors},
               3, NULL);
    tensor_release(mask);
    return rc;
}

static int dropout_channels_forward(struct node *n)
{
    return channels_run(NODE_ATTR(n, struct dropout_attr), n->in[0], n->out[0]);
}

static int dropout_channels_backward(struct node *n)
{
    det_tensor *gx = tensor_new_like(n->in[0]);
    if (!gx) return DET_ENOMEM;
    int rc = channels_run(NODE_ATTR(n, struct dropout_attr), out_grad(n, 0), gx);
    give_grad(n, 0, gx);
    return rc;
}

static const char *const dropout_channels_cases[] = {
    "exact|x:f[a,B,c,2]; p=0.5; F.dropout2d(x, 0.5)", "exact|x:f[a,B]; p=0.5; F.dropout2d(x, 0.5)",
    "x:f[a,B,c]; p=0; x", "x:f[a,B,c]; p=1; x * 0", NULL};
const struct op op_dropout_channels = {.name = "dropout_channels",
                                       .min_in = 1,
                                       .max_in = 1,
                                       .flags = OP_RANDOM,
                                       .infer = dropout_channels_infer,
                                       .forward = dropout_channels_forward,
                                       .backward = dropout_channels_backward,
                                       .attrs = dropout_attrs,
                                       .cases = dropout_channels_cases};

static det_tensor *dropout_call(const struct op *op, det_tensor *x, double p, bool training)
{
    struct dropout_attr a = {.p = p};
    bool unchanged = (!training && p >= 0 && p <= 1) || p == 0;
    return x && unchanged ? x : OP_APPLY(op, a, x);
}

det_tensor *det_dropout(det_tensor *x, double p, bool training)
{
    return dropout_call(&op_dropout, x, p, training);
}

det_tensor *det_dropout_channels(det_tensor *x, double p, bool training)
{
    return dropout_call(&op_dropout_channels, x, p, training);
}
