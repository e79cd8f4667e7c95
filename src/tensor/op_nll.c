// Unit op_nll.c: losses of classes: nll_loss, and cross_entropy, which is log_softmax and nll_loss
// in one pass over the logits. Classes lie along dim 1 (dim 0 of a single sample); every other
// position is a row with a target of its own. A row loses
//     w[t] (lse - x[t])                             lse: log of the sum of exp(x), 0 for nll_loss
// and with label smoothing s, over C classes,
//     (1 - s) w[t] (lse - x[t]) + s / C * sum over c of w[c] (lse - x[c])
#include "tensor/kernels/kernels.h"
#include "tensor/kernels/simd.h"
#include "tensor/ops.h"
#include "tensor/rows.h"
#include "tensor/share.h"

#include <math.h>

struct nll_attr {
    int64_t reduction, ignore_index;
    double label_smoothing;
    bool logits;         // cross_entropy
    double total_weight; // of the rows that count; set by forward
};

static const struct attr_field nll_attrs[] = {
    {"reduction", ATTR_INT, offsetof(struct nll_attr, reduction)},
    {"ignore_index", ATTR_INT, offsetof(struct nll_attr, ignore_index)},
    {"label_smoothing", ATTR_REAL, offsetof(struct nll_attr, label_smoothing)},
    {NULL, 0, 0},
};

enum { NLL_AUX_LSE }; // f64, one per row

static int class_dim(const det_tensor *x)
{
    return x->ndim > 1;
}

static int nll_infer_as(struct node *n, bool logits)
{
    const det_tensor *x = n->in[0], *t = n->in[1], *w = n->in[2];
    struct nll_attr *a = NODE_ATTR(n, struct nll_attr);
    a->logits = logits;
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    if (t->dtype != DET_I64)
        return node_fail(n, DET_EDTYPE, "target is %s, wants i64, i32 or u8",
                         det_dtype_name((det_dtype)t->dtype));
    bool fits = x->ndim > 0 && t->ndim == x->ndim - 1;
    for (int d = 0; fits && d < t->ndim; d++)
        fits = t->shape[d] == x->shape[d < 1 ? 0 : d + 1];
    if (!fits)
        return node_fail(n, DET_ESHAPE,
                         "input is %s, target %s; wants (N, classes, ...) and (N, ...)",
                         TENSOR_TEXT(x), TENSOR_TEXT(t));
    if (w && (w->ndim != 1 || w->shape[0] != x->shape[class_dim(x)]))
        return node_fail(n, DET_ESHAPE, "weight is %s, input %s", TENSOR_TEXT(w), TENSOR_TEXT(x));
    if (w && w->dtype != x->dtype)
        return node_fail(n, DET_EDTYPE, "input is %s, weight %s; both must be of one type",
                         det_dtype_name((det_dtype)x->dtype), det_dtype_name((det_dtype)w->dtype));
    if (a->reduction < DET_REDUCTION_MEAN || a->reduction > DET_REDUCTION_NONE)
        return node_fail(n, DET_EINVAL, "no reduction %lld", (long long)a->reduction);
    if (!(a->label_smoothing >= 0 && a->label_smoothing <= 1))
        return node_fail(n, DET_EINVAL, "label_smoothing is %g, wants 0 .. 1", a->label_smoothing);
    return node_out(n, (det_dtype)x->dtype, t->shape,
                    a->reduction == DET_REDUCTION_NONE ? t->ndim : 0);
}

// --- rows, targets and weights as plain arrays

struct nll {
    const struct nll_attr *a;
    det_dtype dtype;
    struct rows x;
    det_tensor *target_copy, *weight_copy; // references
    const int64_t *target;
    const double *weight; // NULL: all 1
    double weight_sum;
    double *lse, *dots; // per row; dots: sum over c of w[c] x[c], for smoothing
    const void *g;      // gradient of the result, per row; NULL: all 1
    double scale;       // of all gradients
    void *gx;
};

static int nll_open(struct nll *l, const struct node *n)
{
    det_tensor *x = n->in[0], *w = n->in[2];
    *l = (struct nll){.a = NODE_ATTR(n, struct nll_attr), .dtype = (det_dtype)x->dtype};
    int rc = rows_read(&l->x, x, class_dim(x), l->dtype);
    l->target_copy = tensor_row_major(n->in[1]);
    if (w) l->weight_copy = tensor_converted(w, DET_F64, ROW_MAJOR);
    if (rc || !l->target_copy || (w && !l->weight_copy)) return DET_ENOMEM;
    l->target = l->target_copy->data;
    l->weight = w ? l->weight_copy->data : NULL;
    l->weight_sum = w ? 0 : (double)l->x.n;
    for (int64_t c = 0; w && c < l->x.n; c++)
        l->weight_sum += l->weight[c];
    if (n->aux[NLL_AUX_LSE]) l->lse = n->aux[NLL_AUX_LSE]->data;
    return 0;
}

static void nll_close(struct nll *l)
{
    rows_done(&l->x);
    tensor_release(l->target_copy);
    tensor_release(l->weight_copy);
}

static double get(const void *p, det_dtype dtype, int64_t i)
{
    if (dtype == DET_F32) return ((const float *)p)[i];
    return dtype == DET_F64 ? ((const double *)p)[i]
                            : (double)bf16_to_f32(((const uint16_t *)p)[i]);
}

static void set(void *p, det_dtype dtype, int64_t i, double v)
{
    if (dtype == DET_F32)
        ((float *)p)[i] = (float)v;
    else if (dtype == DET_F64)
        ((double *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = f32_to_bf16((float)v);
}

static char *at(const void *p, det_dtype dtype, int64_t i)
{
    return (char *)(uintptr_t)p + i * (int64_t)dtype_size(dtype);
}

// --- forward

// The largest of a row, and the sum of exp(x - max).
static double sum_exp_f64(const double *x, int64_t n, double *max)
{
    double sum = 0;
    *max = -INFINITY;
    for (int64_t c = 0; c < n; c++)
        *max = fmax(*max, x[c]);
    for (int64_t c = 0; c < n; c++)
        sum += exp(x[c] - *max);
    return sum;
}

static double lse_f64(const double *x, int64_t n)
{
    double max, sum = sum_exp_f64(x, n, &max);
    return max + log(sum);
}

static double weighted_sum(const struct nll *l, const void *x)
{
    double sum = 0;
    float fast = 0;
    struct fold_block b = {.src = x, .rows = 1, .width = l->x.n, .ld = l->x.n, .out = &fast};
    if (!l->weight && l->dtype != DET_F64) {
        kernels->fold_rows(FOLD_sum, l->dtype == DET_BF16, &b);
        return fast;
    }
    for (int64_t c = 0; c < l->x.n; c++)
        sum += (l->weight ? l->weight[c] : 1) * get(x, l->dtype, c);
    return sum;
}

static void lse_range(void *ctx, int64_t from, int64_t to)
{
    const struct nll *l = ctx;
    int64_t n = l->x.n;
    const char *x = at(l->x.data, l->dtype, from * n);
    if (l->dtype != DET_F64)
        kernels->log_sum_exp(x, l->dtype == DET_BF16, to - from, n, l->lse + from);
    for (int64_t r = from; r < to && l->dtype == DET_F64; r++)
        l->lse[r] = lse_f64((const double *)l->x.data + r * n, n);
    for (int64_t r = from; r < to && l->dots; r++)
        l->dots[r] = weighted_sum(l, at(l->x.data, l->dtype, r * n));
}

static double row_loss(const struct nll *l, int64_t r, double w)
{
    double lse = l->lse ? l->lse[r] : 0, s = l->a->label_smoothing;
    double loss = w * (lse - get(l->x.data, l->dtype, r * l->x.n + l->target[r]));
    if (!l->dots) return loss;
    return (1 - s) * loss + s / (double)l->x.n * (lse * l->weight_sum - l->dots[r]);
}

// The losses of all rows, or their sum.
static int nll_rows(struct node *n, const struct nll *l)
{
    struct nll_attr *a = NODE_ATTR(n, struct nll_attr);
    det_tensor *out = n->out[0];
    double total = 0;
    a->total_weight = 0;
    for (int64_t r = 0; r < l->target_copy->numel; r++) {
        int64_t t = l->target[r];
        double w = 0, loss = 0;
        if (t != a->ignore_index) {
            if (t < 0 || t >= l->x.n)
                return node_fail(n, DET_EINVAL, "target %lld is %lld; there are %lld classes",
                                 (long long)r, (long long)t, (long long)l->x.n);
            w = l->weight ? l->weight[t] : 1;
            loss = row_loss(l, r, w);
        }
        total += loss;
        a->total_weight += w;
        if (a->reduction == DET_REDUCTION_NONE) set(out->data, l->dtype, r, loss);
    }
    if (a->reduction == DET_REDUCTION_NONE) return 0;
    set(out->data, l->dtype, 0,
        a->reduction == DET_REDUCTION_MEAN ? total / a->total_weight : total);
    return 0;
}

static int nll_forward(struct node *n)
{
    const struct nll_attr *a = NODE_ATTR(n, struct nll_attr);
    det_tensor *dots = NULL;
    struct nll l;
    int rc = nll_open(&l, n);
    if (rc) goto out;
    if (a->logits) {
        n->aux[NLL_AUX_LSE] = tensor_new(DET_F64, &l.x.n_rows, 1);
        if (a->label_smoothing > 0) dots = tensor_new(DET_F64, &l.x.n_rows, 1);
        rc = sticky_failed() ? DET_ENOMEM : 0;
        if (rc) goto out;
        l.lse = n->aux[NLL_AUX_LSE]->data;
        l.dots = dots ? dots->data : NULL;
        share_rows(l.x.n_rows, l.x.n, lse_range, &l);
    }
    rc = nll_rows(n, &l);
out:
    tensor_release(dots);
    nll_close(&l);
    return rc;
}

// --- backward
//
// With W = (1 - s) w[t] + s / C * sum of w, the gradient of a row is
//     W softmax(x)[c] - s / C w[c] - (c == t) (1 - s) w[t]          without the first term for
//     nll_loss

struct row_grad {
    double scale;           // of the row; 0: ignored
    double whole, even, at; // W, s / C, (1 - s) w[t]
};

static struct row_grad row_grad(const struct nll *l, int64_t r)
{
    int64_t t = l->target[r];
    if (t == l->a->ignore_index) return (struct row_grad){0};
    double w = l->weight ? l->weight[t] : 1, s = l->a->logits ? l->a->label_smoothing : 0;
    struct row_grad g = {.scale = l->scale * (l->g ? get(l->g, l->dtype, r) : 1)};
    g.even = s / (double)l->x.n;
    g.at = (1 - s) * w;
    g.whole = l->a->logits ? g.at + g.even * l->weight_sum : 0;
    return g;
}

// The elements that are not one formula for all: the target, and smoothing with weights.
static void finish_row(const struct nll *l, int64_t r, const struct row_grad *g)
{
    const void *x = at(l->x.data, l->dtype, r * l->x.n);
    void *gx = at(l->gx, l->dtype, r * l->x.n);
    int64_t t = l->target[r];
    if (g->scale == 0) return;
    for (int64_t c = 0; l->weight && g->even > 0 && c < l->x.n; c++)
        set(gx, l->dtype, c, get(gx, l->dtype, c) - g->scale * g->even * l->weight[c]);
    double others = get(gx, l->dtype, t);
    if (l->lse && l->dtype == DET_BF16) // rounded already: p - 1 would lose what is left of it
        others = g->scale * (g->whole * exp(get(x, l->dtype, t) - l->lse[r]) -
                             g->even * (l->weight ? l->weight[t] : 1));
    set(gx, l->dtype, t, others - g->scale * g->at);
}

enum { CHUNK = 64 }; // rows

static void exp_rows(const struct nll *l, int64_t from, int64_t n_rows, const struct row_grad *g)
{
    struct scaled_exp s[CHUNK];
    struct softmax_rows rows = {.in = at(l->x.data, l->dtype, from * l->x.n),
                                .out = at(l->gx, l->dtype, from * l->x.n),
                                .n_rows = n_rows,
                                .n = l->x.n};
    for (int64_t i = 0; i < n_rows; i++) {
        double lse = l->lse[from + i], factor = g[i].scale * g[i].whole;
        s[i].centre = (float)lse;
        s[i].factor = (float)(factor * (1 + (s[i].centre - lse))); // exp of what f32 does not hold
        s[i].minus = l->weight ? 0 : (float)(g[i].scale * g[i].even);
    }
    kernels->scaled_exp(&rows, l->dtype == DET_BF16, s);
}

// Not from lse: next to large logits it lacks digits that f64 has.
static void exp_row_f64(const struct nll *l, int64_t r, const struct row_grad *g)
{
    const double *x = (const double *)l->x.data + r * l->x.n;
    double *gx = (double *)l->gx + r * l->x.n, minus = l->weight ? 0 : g->scale * g->even;
    double max, sum = sum_exp_f64(x, l->x.n, &max), factor = g->scale * g->whole / sum;
    for (int64_t c = 0; c < l->x.n; c++)
        gx[c] = factor * exp(x[c] - max) - minus;
}

static void grad_range(void *ctx, int64_t from, int64_t to)
{
    const struct nll *l = ctx;
    for (int64_t r = from; r < to; r += CHUNK) {
        int64_t n_rows = MIN(to - r, CHUNK);
        struct row_grad g[CHUNK];
        for (int64_t i = 0; i < n_rows; i++)
            g[i] = row_grad(l, r + i);
        if (!l->a->logits)
            memset(at(l->gx, l->dtype, r * l->x.n), 0,
                   (size_t)(n_rows * l->x.n) * dtype_size(l->dtype));
        else if (l->dtype != DET_F64)
            exp_rows(l, r, n_rows, g);
        for (int64_t i = 0; i < n_rows; i++) {
            if (l->a->logits && l->dtype == DET_F64) exp_row_f64(l, r + i, &g[i]);
            finish_row(l, r + i, &g[i]);
        }
    }
}

static int nll_backward(struct node *n)
{
    const struct nll_attr *a = NODE_ATTR(n, struct nll_attr);
    det_tensor *gx = tensor_new_like(n->in[0]), *g = tensor_row_major(out_grad(n, 0));
    struct rows out = {0};
    struct nll l = {0};
    int rc = gx && g ? nll_open(&l, n) : DET_ENOMEM;
    if (!rc) rc = rows_write(&out, gx, class_dim(gx), l.dtype);
    if (!rc) {
        l.scale = a->reduction == DET_REDUCTION_MEAN ? 1 / a->total_weight : 1;
        if (a->reduction == DET_REDUCTION_NONE)
            l.g = g->data;
        else
            l.scale *= det_item(g);
        l.gx = out.data;
        share_rows(l.x.n_rows, l.x.n, grad_range, &l);
    }
    rows_done(&out);
    nll_close(&l);
    tensor_release(g);
    give_grad(n, 0, gx);
    return rc;
}

static int nll_loss_infer(struct node *n)
{
    return nll_infer_as(n, false);
}

static int cross_entropy_infer(struct node *n)
{
    return nll_infer_as(n, true);
}

static const char *const nll_loss_cases[] = {
    "x:f[A,b] t:ib[A]; ignore_index=-100; F.nll_loss(x, t)",
    "x:f[A,b] t:ib[A] w:w[b]; ignore_index=-100; F.nll_loss(x, t, weight=w)",
    "x:f[A,b] t:ib[A] w:w[b]; reduction=1 ignore_index=0;"
    "F.nll_loss(x, t, weight=w, ignore_index=0, reduction='sum')",
    "x:f[A,b] t:ib[A] w:w[b]; reduction=2 ignore_index=0;"
    "F.nll_loss(x, t, weight=w, ignore_index=0, reduction='none')",
    "x:f[a,B,c] t:iB[a,c]; ignore_index=1; F.nll_loss(x, t, ignore_index=1)",
    "x:f[a,B,c,2] t:iB[a,c,2]; reduction=2 ignore_index=-100; F.nll_loss(x, t, reduction='none')",
    "x:f[B] t:iB[]; ignore_index=-100; F.nll_loss(x, t)",
    "x:f[0,b] t:ib[0]; reduction=1 ignore_index=-100; F.nll_loss(x, t, reduction='sum')",
    NULL};
const struct op op_nll_loss = {.name = "nll_loss",
                               .min_in = 2,
                               .max_in = 3,
                               .flags = OP_F32,
                               .saves_in = 7,
                               .infer = nll_loss_infer,
                               .forward = nll_forward,
                               .backward = nll_backward,
                               .attrs = nll_attrs,
                               .cases = nll_loss_cases};

static const char *const cross_entropy_cases[] = {
    "x:f[A,b] t:ib[A]; ignore_index=-100; F.cross_entropy(x, t)",
    "x:f[33,10] t:i10[33]; ignore_index=-100; F.cross_entropy(x, t)",
    "x:f[3,77] t:i77[3]; ignore_index=-100; F.cross_entropy(x, t)",
    "x:f[70,300] t:i300[70] -; ignore_index=-100; F.cross_entropy(x, t)",
    "x:f[A,b] t:ib[A] w:w[b]; ignore_index=-100; F.cross_entropy(x, t, weight=w)",
    "x:f[A,b] t:ib[A] w:w[b]; reduction=1 ignore_index=0;"
    "F.cross_entropy(x, t, weight=w, ignore_index=0, reduction='sum')",
    "x:f[A,b] t:ib[A]; reduction=2 ignore_index=0 label_smoothing=0.1;"
    "F.cross_entropy(x, t, ignore_index=0, reduction='none', label_smoothing=0.1)",
    "x:f[A,b] t:ib[A] w:w[b]; ignore_index=-100 label_smoothing=0.2;"
    "F.cross_entropy(x, t, weight=w, label_smoothing=0.2)",
    "x:f[A,40] t:i40[A] w:w[40]; reduction=1 ignore_index=2 label_smoothing=0.2;"
    "F.cross_entropy(x, t, weight=w, label_smoothing=0.2, ignore_index=2, reduction='sum')",
    "x:f[a,B,c] t:iB[a,c]; ignore_index=1 label_smoothing=0.1;"
    "F.cross_entropy(x, t, ignore_index=1, label_smoothing=0.1)",
    "x:f[a,B,c,2] t:iB[a,c,2]; reduction=2 ignore_index=-100;"
    "F.cross_entropy(x, t, reduction='none')",
    "x:f[B] t:iB[]; ignore_index=-100; F.cross_entropy(x, t)",
    "x:f[0,b] t:ib[0]; ignore_index=-100; F.cross_entropy(x, t)",
    NULL};
const struct op op_cross_entropy = {.name = "cross_entropy",
                                    .min_in = 2,
                                    .max_in = 3,
                                    .flags = OP_F32,
                                    .saves_in = 7,
                                    .infer = cross_entropy_infer,
                                    .forward = nll_forward,
                                    .backward = nll_backward,
                                    .attrs = nll_attrs,
                                    .cases = cross_entropy_cases};

static det_tensor *nll_call(const struct op *op, det_tensor *x, det_tensor *t,
                            const det_loss_opts *o)
{
    struct nll_attr a = {.reduction = o->reduction,
                         .ignore_index = o->use_ignore_index ? o->ignore_index : -100,
                         .label_smoothing = o->label_smoothing};
    if (t && t->dtype == DET_U8) t = det_to(t, DET_I64);
    return OP_APPLY(op, a, x, as_index(t), o->weight);
}

det_tensor *det_nll_loss_with(det_tensor *input, det_tensor *target, det_loss_opts o)
{
    o.label_smoothing = 0;
    return nll_call(&op_nll_loss, input, target, &o);
}

// Targets that are themselves distributions over the classes.
static det_tensor *soft_cross_entropy(det_tensor *x, det_tensor *t, const det_loss_opts *o)
{
    int dim = class_dim(x);
    int64_t shape[DET_MAX_DIMS] = {0}, n_classes = x->ndim ? x->shape[dim] : 1;
    if (!same_shape(x, t)) {
        det_raise(DET_ESHAPE, "cross_entropy: input is %s, target %s; probabilities want one shape",
                  TENSOR_TEXT(x), TENSOR_TEXT(t));
        return NULL;
    }
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1)) {
        det_raise(DET_EINVAL, "cross_entropy: label_smoothing is %g, wants 0 .. 1",
                  o->label_smoothing);
        return NULL;
    }
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == dim ? n_classes : 1;
    if (o->label_smoothing > 0)
        t = det_add_scalar(det_mul_scalar(t, 1 - o->label_smoothing),
                           o->label_smoothing / (double)n_classes);
    det_tensor *each = det_mul(det_log_softmax(x, dim), t);
    if (o->weight) each = det_mul(each, det_reshape(o->weight, shape, x->ndim));
    each = det_neg(det_sum_over(each, DET_DIMS(dim), false));
    if (o->reduction == DET_REDUCTION_NONE) return each;
    return o->reduction == DET_REDUCTION_SUM ? det_sum(each) : det_mean(each);
}

det_tensor *det_cross_entropy_with(det_tensor *input, det_tensor *target, det_loss_opts o)
{
    bool soft = input && target && dtype_is_float((det_dtype)target->dtype);
    return soft ? soft_cross_entropy(input, target, &o)
                : nll_call(&op_cross_entropy, input, target, &o);
}
