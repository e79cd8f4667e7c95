// Unit op_loss.c: losses that compare inputs with targets element by element, and those made of
// other operations. Adding one of the first kind is one line in kernels/losses.def and one row
// here. Losses of classes are in op_nll.c.
#include "tensor/elementwise.h"
#include "tensor/op_loss.h"
#include "tensor/reduce.h"
#include "tensor/share.h"

#define DET_ISA plain
#include "tensor/kernels/loops.h"

#define T double
#define ABS fabs
#define EXP exp
#define LOG log
#define LOG1P log1p
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#include "tensor/kernels/loss_terms.h"

struct loss_attr {
    int64_t reduction; // det_reduction
    double p;          // beta of smooth_l1, delta of huber
    const char *place; // where it is called from, if that is known
    enum loss_id id;
};

static const struct attr_field loss_attrs[] = {
    {"reduction", ATTR_INT, offsetof(struct loss_attr, reduction)},
    {"p", ATTR_REAL, offsetof(struct loss_attr, p)},
    {NULL, 0, 0},
};

static int loss_infer_as(struct node *n, enum loss_id id)
{
    struct loss_attr *a = NODE_ATTR(n, struct loss_attr);
    det_dtype dtype = (det_dtype)n->in[0]->dtype;
    a->id = id;
    if (!dtype_is_float(dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats", det_dtype_name(dtype));
    if (a->reduction < DET_REDUCTION_MEAN || a->reduction > DET_REDUCTION_NONE)
        return node_fail(n, DET_EINVAL, "no reduction %lld", (long long)a->reduction);
    if ((id == LOSS_smooth_l1 || id == LOSS_huber) && !(a->p > 0))
        return node_fail(n, DET_EINVAL, "beta is %g, wants more than 0", a->p);
    if ((id == LOSS_bce || id == LOSS_bce_with_logits) && !same_shape(n->in[0], n->in[1]))
        return node_fail(n, DET_ESHAPE, "input is %s, target %s; wants one shape",
                         TENSOR_TEXT(n->in[0]), TENSOR_TEXT(n->in[1]));
    int64_t shape[DET_MAX_DIMS];
    int ndim, rc = node_broadcast(n, 2, shape, &ndim);
    return rc ? rc : node_out(n, dtype, shape, a->reduction == DET_REDUCTION_NONE ? ndim : 0);
}

// (64, 1) and (64,) make (64, 64): every element is compared with every other one.
static void warn_of_broadcast(const char *loss, const det_tensor *x, const det_tensor *t,
                              const char *place)
{
    tensor_warn(place,
                "%s: the input is %s, the target %s; they broadcast, which is rarely meant; give "
                "both one shape",
                loss, TENSOR_TEXT(x), TENSOR_TEXT(t));
}

// --- input and target as two dense arrays

// t, or a row-major copy of it in the given shape.
static det_tensor *expanded(det_tensor *t, const int64_t *shape, int ndim)
{
    bool whole = t->ndim == ndim && !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape);
    if (whole) return tensor_row_major(t);
    det_tensor *copy = tensor_new((det_dtype)t->dtype, shape, ndim);
    if (copy) ew_copy(copy, t);
    return copy;
}

struct operands {
    det_tensor *x, *t; // references
};

static bool same_strides(const det_tensor *a, const det_tensor *b)
{
    for (int d = 0; d < a->ndim; d++)
        if (a->stride[d] != b->stride[d]) return false;
    return true;
}

// The shape that both broadcast to, if they do. Returns the number of dims.
static int joint_shape(const det_tensor *x, const det_tensor *t, int64_t *shape)
{
    int ndim = MAX(x->ndim, t->ndim);
    for (int d = 1; d <= ndim; d++) {
        int64_t a = d <= x->ndim ? x->shape[x->ndim - d] : 1;
        int64_t b = d <= t->ndim ? t->shape[t->ndim - d] : 1;
        shape[ndim - d] = a == 1 ? b : a;
    }
    return ndim;
}

static struct operands operands_expanded(det_tensor *x, det_tensor *t)
{
    int64_t shape[DET_MAX_DIMS];
    int ndim = joint_shape(x, t, shape);
    return (struct operands){expanded(x, shape, ndim), expanded(t, shape, ndim)};
}

static int operands_init(struct operands *o, const struct node *n)
{
    det_tensor *x = n->in[0], *t = n->in[1];
    const struct loss_attr *a = NODE_ATTR(n, struct loss_attr);
    bool as_they_are = same_shape(x, t);
    if (!as_they_are)
        warn_of_broadcast(n->op->name, x, t, a->place);
    else // in any order, if it is the same for both and nobody sees it
        as_they_are =
            a->reduction != DET_REDUCTION_NONE && same_strides(x, t) && tensor_is_dense(x);
    *o = as_they_are ? (struct operands){tensor_ref(x), tensor_ref(t)} : operands_expanded(x, t);
    return o->x && o->t ? 0 : DET_ENOMEM;
}

static void operands_done(struct operands *o)
{
    tensor_release(o->x);
    tensor_release(o->t);
}

// --- blocks: what is summed on its own and given to one thread

enum { BLOCK = 8 << 10, PART = 128 }; // PART: of f64, summed on its own to keep digits

struct loss_job {
    enum { LOSS_SUM, LOSS_VALUES, LOSS_BY_INPUT, LOSS_BY_TARGET } what;
    enum loss_id id;
    det_dtype dtype;
    struct loss_block all;
    double *sums; // of the blocks
};

static double run_f64(const struct loss_job *j, const struct loss_block *b)
{
    const double *xs = b->x, *ts = b->t, *gs = b->g;
    double *out = b->out, total = 0, part = 0;
    for (int64_t i = 0; i < b->n; i++) {
        double x = xs[i], t = ts[i], g = gs ? b->scale * gs[i] : b->scale;
        if (j->what == LOSS_SUM) part += loss_value(j->id, x, t, b->p);
        if (i % PART == PART - 1) {
            total += part;
            part = 0;
        }
        if (j->what == LOSS_VALUES) out[i] = loss_value(j->id, x, t, b->p);
        if (j->what == LOSS_BY_INPUT) out[i] = g * loss_by_x(j->id, x, t, b->p);
        if (j->what == LOSS_BY_TARGET) out[i] = g * loss_by_t(j->id, x, t, b->p);
    }
    return total + part;
}

static double run_block(const struct loss_job *j, const struct loss_block *b)
{
    bool bf16 = j->dtype == DET_BF16;
    if (j->dtype == DET_F64) return run_f64(j, b);
    if (j->what == LOSS_SUM) return kernels->loss_sum(j->id, bf16, b);
    if (j->what == LOSS_VALUES)
        kernels->loss_values(j->id, bf16, b);
    else
        kernels->loss_grad(j->id, bf16, j->what == LOSS_BY_TARGET, b);
    return 0;
}

static const void *skip(const void *p, int64_t n, det_dtype dtype)
{
    return p ? (const char *)p + n * (int64_t)dtype_size(dtype) : NULL;
}

static void run_blocks(void *ctx, int64_t from, int64_t to)
{
    const struct loss_job *j = ctx;
    det_dtype out_type = j->what == LOSS_VALUES ? fold_dtype(j->dtype) : j->dtype;
    for (int64_t i = from; i < to; i++) {
        struct loss_block b = j->all;
        b.n = MIN(j->all.n - i * BLOCK, BLOCK);
        b.x = skip(b.x, i * BLOCK, j->dtype);
        b.t = skip(b.t, i * BLOCK, j->dtype);
        b.g = skip(b.g, i * BLOCK, j->dtype);
        b.out = (void *)(uintptr_t)skip(b.out, i * BLOCK, out_type);
        double sum = run_block(j, &b);
        if (j->sums) j->sums[i] = sum;
    }
}

static int64_t n_blocks(const struct loss_job *j)
{
    return (j->all.n + BLOCK - 1) / BLOCK;
}

static void run_all(struct loss_job *j)
{
    if (j->all.n <= BLOCK)
        run_block(j, &j->all);
    else
        share_rows(n_blocks(j), BLOCK, run_blocks, j);
}

// The sum over all elements, block by block: the same for any number of threads.
static int run_sum(struct loss_job *j, double *total)
{
    *total = 0;
    if (j->all.n <= BLOCK) {
        *total = run_block(j, &j->all);
        return 0;
    }
    det_tensor *sums = tensor_new(DET_F64, (int64_t[]){n_blocks(j)}, 1);
    if (!sums) return DET_ENOMEM;
    j->sums = sums->data;
    share_rows(sums->numel, BLOCK, run_blocks, j);
    for (int64_t i = 0; i < sums->numel; i++)
        *total += j->sums[i];
    tensor_release(sums);
    return 0;
}

// --- forward and backward

static int loss_each(struct loss_job *j, det_tensor *out)
{
    det_dtype dtype = fold_dtype(j->dtype);
    det_tensor *values =
        out->dtype == dtype ? tensor_ref(out) : tensor_new(dtype, out->shape, out->ndim);
    if (!values) return DET_ENOMEM;
    j->what = LOSS_VALUES;
    j->all.out = values->data;
    run_all(j);
    if (values != out) ew_copy(out, values);
    tensor_release(values);
    return 0;
}

static int loss_forward(struct node *n)
{
    const struct loss_attr *a = NODE_ATTR(n, struct loss_attr);
    struct operands o;
    int rc = operands_init(&o, n);
    if (!rc) {
        struct loss_job j = {.id = a->id, .dtype = (det_dtype)o.x->dtype};
        j.all = (struct loss_block){.n = o.x->numel, .x = o.x->data, .t = o.t->data, .p = a->p};
        double total;
        if (a->reduction == DET_REDUCTION_NONE)
            rc = loss_each(&j, n->out[0]);
        else if (!(rc = run_sum(&j, &total)))
            ew_fill(n->out[0],
                    a->reduction == DET_REDUCTION_MEAN ? total / (double)j.all.n : total);
    }
    operands_done(&o);
    return rc;
}

static int loss_give_grad(struct node *n, struct loss_job *j, int i, const det_tensor *like)
{
    if (!wants_grad(n, i)) return 0;
    det_tensor *g = tensor_new_like(like);
    if (!g) return DET_ENOMEM;
    j->what = i == 0 ? LOSS_BY_INPUT : LOSS_BY_TARGET;
    j->all.out = g->data;
    run_all(j);
    give_grad(n, i, sum_to_shape(g, n->in[i]));
    return 0;
}

static int loss_backward(struct node *n)
{
    const struct loss_attr *a = NODE_ATTR(n, struct loss_attr);
    det_tensor *g = tensor_row_major(out_grad(n, 0));
    struct operands o = {0};
    int rc = g ? operands_init(&o, n) : DET_ENOMEM;
    if (!rc) {
        struct loss_job j = {.id = a->id, .dtype = (det_dtype)o.x->dtype};
        j.all = (struct loss_block){.n = o.x->numel, .x = o.x->data, .t = o.t->data, .p = a->p};
        j.all.scale = a->reduction == DET_REDUCTION_MEAN ? 1 / (double)j.all.n : 1;
        if (a->reduction == DET_REDUCTION_NONE)
            j.all.g = g->data;
        else
            j.all.scale *= det_item(g);
        rc = loss_give_grad(n, &j, 0, o.x);
        if (!rc) rc = loss_give_grad(n, &j, 1, o.t);
    }
    tensor_release(g);
    operands_done(&o);
    return rc;
}

// Probabilities only.
static int bce_loss_forward(struct node *n)
{
    det_tensor *x = n->in[0];
    if (!x->numel) return loss_forward(n);
    bool old = det_set_grad_enabled(false);
    double least = det_item(det_min(x)), most = det_item(det_max(x));
    det_set_grad_enabled(old);
    if (sticky_failed()) return DET_ESTATE;
    if (!(least >= 0 && most <= 1))
        return node_fail(n, DET_EINVAL, "input has values from %g to %g, wants 0 .. 1", least,
                         most);
    return loss_forward(n);
}

#define LOSS_ROW(fn, row_id, row_forward, ...)                   \
    static int fn##_infer(struct node *n)                        \
    {                                                            \
        return loss_infer_as(n, row_id);                         \
    }                                                            \
    static const char *const fn##_cases[] = {__VA_ARGS__, NULL}; \
    const struct op op_##fn = {.name = #fn,                      \
                               .min_in = 2,                      \
                               .max_in = 2,                      \
                               .flags = OP_PROMOTE | OP_F32,     \
                               .saves_in = 3,                    \
                               .infer = fn##_infer,              \
                               .forward = row_forward,           \
                               .backward = loss_backward,        \
                               .attrs = loss_attrs,              \
                               .cases = fn##_cases};
LOSS_ROW(mse_loss, LOSS_mse, loss_forward, "x:f[a,b] t:f[a,b]; ; F.mse_loss(x, t)",
         "x:f[a,b,c] t:f[a,b,c]; reduction=1; F.mse_loss(x, t, reduction='sum')",
         "x:f[a,B] t:f[a,B]; reduction=2; F.mse_loss(x, t, reduction='none')",
         "x:f[a,1,c] t:f[b,1]; ; F.mse_loss(x.expand(a,b,c), t.expand(a,b,c))",
         "x:f[32] t:f[32]; ; F.mse_loss(x, t)", "x:f[] t:f[]; ; F.mse_loss(x, t)",
         "x:f[0] t:f[0]; ; F.mse_loss(x, t)", "x:f[7,2500] t:f[7,2500]; ; F.mse_loss(x, t)",
         "x:n[a,b] t:f[a,b]; reduction=2; F.mse_loss(x, t, reduction='none')")
LOSS_ROW(l1_loss, LOSS_l1, loss_forward, "x:f[a,b] t:f[a,b]; ; F.l1_loss(x, t)",
         "x:f[a,B] t:f[a,B]; reduction=1; F.l1_loss(x, t, reduction='sum')",
         "x:i3[a,B] t:f[a,B]; reduction=2; F.l1_loss(x.double(), t, reduction='none')")
LOSS_ROW(smooth_l1_loss, LOSS_smooth_l1, loss_forward,
         "x:f[a,b] t:f[a,b]; p=1; F.smooth_l1_loss(x, t)",
         "x:f[a,B] t:f[a,B]; reduction=1 p=0.5; F.smooth_l1_loss(x, t, reduction='sum', beta=0.5)",
         "x:f[a,B] t:f[a,B]; reduction=2 p=2; F.smooth_l1_loss(x, t, reduction='none', beta=2)")
LOSS_ROW(huber_loss, LOSS_huber, loss_forward, "x:f[a,b] t:f[a,b]; p=1; F.huber_loss(x, t)",
         "x:f[a,B] t:f[a,B]; reduction=1 p=0.5; F.huber_loss(x, t, reduction='sum', delta=0.5)",
         "x:f[a,B] t:f[a,B]; reduction=2 p=2; F.huber_loss(x, t, reduction='none', delta=2)")
LOSS_ROW(bce_loss, LOSS_bce, bce_loss_forward, "x:c[a,B] t:c[a,B]; ; F.binary_cross_entropy(x, t)",
         "x:c[a,B] t:b[a,B]; reduction=1; F.binary_cross_entropy(x, t.double(), reduction='sum')",
         "x:c[a,B] t:c[a,B]; reduction=2; F.binary_cross_entropy(x, t, reduction='none')")
LOSS_ROW(bce_with_logits_loss, LOSS_bce_with_logits, loss_forward,
         "x:f[a,B] t:c[a,B]; ; F.binary_cross_entropy_with_logits(x, t)",
         "x:f[a,B] t:b[a,B]; reduction=1;"
         "F.binary_cross_entropy_with_logits(x, t.double(), reduction='sum')",
         "x:f[a,B] t:c[a,B]; reduction=2;"
         "F.binary_cross_entropy_with_logits(x, t, reduction='none')")
LOSS_ROW(kl_div_loss, LOSS_kl_div, loss_forward, "x:f[a,B] t:c[a,B]; ; F.kl_div(x, t)",
         "x:f[a,B] t:c[a,B]; reduction=1; F.kl_div(x, t, reduction='sum')",
         "x:f[a,B] t:b[a,B]; reduction=2; F.kl_div(x, t.double(), reduction='none')")
LOSS_ROW(kl_div_log_loss, LOSS_kl_div_log, loss_forward,
         "x:f[a,B] t:f[a,B]; ; F.kl_div(x, t, log_target=True)",
         "x:f[a,B] t:f[a,B]; reduction=2; F.kl_div(x, t, log_target=True, reduction='none')")

static det_tensor *loss_call(const struct op *op, det_tensor *x, det_tensor *t,
                             const det_loss_opts *o, double p)
{
    struct loss_attr a = {.reduction = o->reduction, .p = p, .place = o->place};
    return OP_APPLY(op, a, x, t);
}

det_tensor *loss_reduced(det_tensor *each, det_reduction r)
{
    if (r == DET_REDUCTION_NONE) return each;
    return r == DET_REDUCTION_SUM ? det_sum(each) : det_mean(each);
}

det_tensor *det_mse_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    return loss_call(&op_mse_loss, x, t, &o, 0);
}

det_tensor *det_l1_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    bool integers = x && t && !dtype_is_float(common_type((det_tensor *const[]){x, t}, 2));
    if (integers) return loss_reduced(det_abs(det_sub(x, t)), o.reduction);
    return loss_call(&op_l1_loss, x, t, &o, 0);
}

det_tensor *det_smooth_l1_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    return loss_call(&op_smooth_l1_loss, x, t, &o, o.beta != 0 ? o.beta : 1);
}

det_tensor *det_huber_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    return loss_call(&op_huber_loss, x, t, &o, o.beta != 0 ? o.beta : 1);
}

// --- made of other operations

// Weights broadcast to the elements, never the other way round.
static bool weight_fits(const char *loss, const char *name, const det_tensor *w,
                        const det_tensor *x)
{
    bool fits = !w || !x || w->ndim <= x->ndim;
    for (int d = 1; fits && w && x && d <= w->ndim; d++)
        fits = w->shape[w->ndim - d] == 1 || w->shape[w->ndim - d] == x->shape[x->ndim - d];
    if (!fits)
        det_raise(DET_ESHAPE, "%s: %s is %s, which does not broadcast to the input, %s", loss, name,
                  TENSOR_TEXT(w), TENSOR_TEXT(x));
    return fits;
}

static det_tensor *weighted(det_tensor *each, const det_loss_opts *o)
{
    return loss_reduced(o->weight ? det_mul(each, o->weight) : each, o->reduction);
}

det_tensor *as_loss_input(det_tensor *x)
{
    return x && x->dtype == DET_BF16 && det_autocast() ? det_to(x, DET_F32) : x;
}

det_tensor *det_bce_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    if (!o.weight) return loss_call(&op_bce_loss, x, t, &o, 0);
    if (!weight_fits("bce_loss", "weight", o.weight, x)) return NULL;
    det_loss_opts each = {.reduction = DET_REDUCTION_NONE};
    return weighted(loss_call(&op_bce_loss, x, t, &each, 0), &o);
}

// (1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x))
static det_tensor *bce_of_positives(det_tensor *x, det_tensor *t, det_tensor *pos_weight)
{
    if (x && !dtype_is_float(det_dtype_of(pos_weight))) // 0 - 1 would be 255 in u8
        pos_weight = det_to(pos_weight, (det_dtype)x->dtype);
    det_tensor *factor = det_add_scalar(det_mul(det_sub_scalar(pos_weight, 1), t), 1);
    det_tensor *negatives = det_mul(det_add_scalar(det_neg(t), 1), x);
    return det_sub(negatives, det_mul(factor, det_logsigmoid(x)));
}

det_tensor *det_bce_with_logits_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    det_loss_opts each = {.reduction = DET_REDUCTION_NONE};
    if (!weight_fits("bce_with_logits_loss", "weight", o.weight, x) ||
        !weight_fits("bce_with_logits_loss", "pos_weight", o.pos_weight, x))
        return NULL;
    if (!o.weight && !o.pos_weight) return loss_call(&op_bce_with_logits_loss, x, t, &o, 0);
    if (!o.pos_weight) return weighted(loss_call(&op_bce_with_logits_loss, x, t, &each, 0), &o);
    if (x && t && !same_shape(x, t) && !sticky_failed())
        det_raise(DET_ESHAPE, "bce_with_logits_loss: input is %s, target %s; wants one shape",
                  TENSOR_TEXT(x), TENSOR_TEXT(t));
    return weighted(bce_of_positives(as_loss_input(x), as_loss_input(t), o.pos_weight), &o);
}

det_tensor *det_kl_div_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    const struct op *op = o.log_target ? &op_kl_div_log_loss : &op_kl_div_loss;
    if (x && t && !(dtype_is_float((det_dtype)x->dtype) && dtype_is_float((det_dtype)t->dtype))) {
        det_raise(DET_EDTYPE, "kl_div_loss: input is %s, target %s; wants floats",
                  det_dtype_name((det_dtype)x->dtype), det_dtype_name((det_dtype)t->dtype));
        return NULL;
    }
    if (!o.batch_mean) return loss_call(op, x, t, &o, 0);
    double batch = x && x->ndim ? (double)x->shape[0] : 1;
    o.reduction = DET_REDUCTION_SUM;
    return det_div_scalar(loss_call(op, x, t, &o, 0), batch);
}

det_tensor *at_least_zero(det_tensor *x)
{
    return det_clamp(x, 0, INFINITY);
}

// x where the target is 1, max(0, margin - x) where it is -1.
det_tensor *det_hinge_embedding_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    x = as_loss_input(x);
    if (x && t && !same_shape(x, t)) warn_of_broadcast("hinge_embedding_loss", x, t, o.place);
    double margin = o.margin != 0 ? o.margin : 1;
    det_tensor *zero = det_full(det_dtype_of(x), DET_SCALAR, 0);
    det_tensor *far = at_least_zero(det_add_scalar(det_neg(x), margin));
    det_tensor *negatives = det_where(det_ne_scalar(t, 1), far, zero);
    return loss_reduced(det_add(negatives, det_where(det_ne_scalar(t, -1), x, zero)), o.reduction);
}

// max(0, margin - y (x1 - x2))
det_tensor *det_margin_ranking_loss_with(det_tensor *x1, det_tensor *x2, det_tensor *y,
                                         det_loss_opts o)
{
    if (x1 && x2 && y && (x1->ndim != x2->ndim || x1->ndim != y->ndim)) {
        det_raise(DET_ESHAPE, "margin_ranking_loss: %s, %s and %s; all want as many dims",
                  TENSOR_TEXT(x1), TENSOR_TEXT(x2), TENSOR_TEXT(y));
        return NULL;
    }
    det_tensor *lead = det_mul(y, det_sub(as_loss_input(x1), as_loss_input(x2)));
    det_tensor *behind = det_neg(lead);
    if (behind && !dtype_is_float((det_dtype)behind->dtype)) behind = det_to(behind, DET_F32);
    return loss_reduced(at_least_zero(det_add_scalar(behind, o.margin)), o.reduction);
}

static det_tensor *sum_of_squares(det_tensor *x)
{
    return det_add_scalar(det_sum_over(det_square(x), DET_DIMS(-1), false), (double)1e-12f);
}

// 1 - cos where the target is 1, max(0, cos - margin) where it is -1.
det_tensor *det_cosine_embedding_loss_with(det_tensor *x1, det_tensor *x2, det_tensor *y,
                                           det_loss_opts o)
{
    if (x1 && x2 && y && (y->ndim > 1 || x1->ndim != y->ndim + 1 || x2->ndim != y->ndim + 1)) {
        det_raise(DET_ESHAPE,
                  "cosine_embedding_loss: %s, %s and targets %s; wants (N, D), (N, D) and (N,), or "
                  "(D,), (D,) and one number",
                  TENSOR_TEXT(x1), TENSOR_TEXT(x2), TENSOR_TEXT(y));
        return NULL;
    }
    x1 = as_loss_input(x1);
    x2 = as_loss_input(x2);
    det_tensor *dot = det_sum_over(det_mul(x1, x2), DET_DIMS(-1), false);
    det_tensor *cos = det_div(dot, det_sqrt(det_mul(sum_of_squares(x1), sum_of_squares(x2))));
    det_tensor *zero = det_full(det_dtype_of(cos), DET_SCALAR, 0);
    det_tensor *near = det_where(det_eq_scalar(y, 1), det_add_scalar(det_neg(cos), 1), zero);
    det_tensor *far = at_least_zero(det_sub_scalar(cos, o.margin));
    return loss_reduced(det_add(near, det_where(det_eq_scalar(y, -1), far, zero)), o.reduction);
}

static det_tensor *unit_vectors(det_tensor *x, int dim, double eps)
{
    return det_div(x, det_clamp(det_norm_over(x, 2, DET_DIMS(dim), true), eps, INFINITY));
}

// A vector that is broadcast along dim has the length of all its copies.
det_tensor *det_cosine_similarity(det_tensor *a, det_tensor *b, int dim, double eps)
{
    if (a && b && a->dtype != b->dtype) { // lengths want the digits of the result
        det_dtype dtype = common_type((det_tensor *const[]){a, b}, 2);
        a = det_to(a, dtype);
        b = det_to(b, dtype);
    }
    if (a && b && !same_shape(a, b)) {
        int64_t shape[DET_MAX_DIMS];
        int ndim = joint_shape(a, b, shape);
        a = det_expand(a, shape, ndim);
        b = det_expand(b, shape, ndim);
    }
    det_tensor *product = det_mul(unit_vectors(a, dim, eps), unit_vectors(b, dim, eps));
    return det_sum_over(product, DET_DIMS(dim), false);
}
