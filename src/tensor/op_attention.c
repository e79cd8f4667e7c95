// Unit op_attention.c: softmax(q k^T * scale + mask) v.
#include "tensor/attention.h"
#include "tensor/ops.h"

#include "tensor/elementwise.h"
#include "tensor/random.h"
#include <math.h>

enum { IN_Q, IN_K, IN_V, IN_MASK };
enum { AUX_ROWS }; // (batch, queries), f32 or f64

// --- shapes

static int check_operand(const struct node *n, int i, const char *name)
{
    const det_tensor *t = n->in[i], *q = n->in[IN_Q];
    if (!dtype_is_float((det_dtype)t->dtype) || t->dtype != q->dtype)
        return node_fail(n, DET_EDTYPE, "q is %s, %s is %s; wants floats of one type",
                         det_dtype_name((det_dtype)q->dtype), name,
                         det_dtype_name((det_dtype)t->dtype));
    if (t->ndim < 2 || t->ndim != q->ndim ||
        memcmp(t->shape, q->shape, (size_t)(t->ndim - 2) * sizeof *t->shape) != 0)
        return node_fail(n, DET_ESHAPE, "q is %s, %s is %s", TENSOR_TEXT(q), name, TENSOR_TEXT(t));
    return 0;
}

static int check_mask(const struct node *n)
{
    const det_tensor *m = node_in(n, IN_MASK), *q = n->in[IN_Q];
    if (!m) return 0;
    if (m->dtype != DET_BOOL && !dtype_is_float((det_dtype)m->dtype))
        return node_fail(n, DET_EDTYPE, "mask is %s, wants bool or floats",
                         det_dtype_name((det_dtype)m->dtype));
    int64_t full[DET_MAX_DIMS];
    memcpy(full, q->shape, sizeof full);
    full[q->ndim - 1] = n->in[IN_K]->shape[q->ndim - 2];
    for (int i = 1; i <= m->ndim; i++)
        if (m->ndim > q->ndim ||
            (m->shape[m->ndim - i] != 1 && m->shape[m->ndim - i] != full[q->ndim - i]))
            return node_fail(n, DET_ESHAPE, "mask %s does not broadcast to %s", TENSOR_TEXT(m),
                             shape_text(full, q->ndim));
    return 0;
}

// Dense strides for shape, the last dim fastest, the others in the order in which they lie in
// `like`. So heads cut out of (B, T, H * D) come back as (B, T, H * D).
static void strides_like(const det_tensor *like, const int64_t *shape, int64_t *stride)
{
    int last = like->ndim - 1, order[DET_MAX_DIMS];
    for (int d = 0; d < last; d++) { // slowest first
        int at = d;
        for (; at && like->stride[order[at - 1]] < like->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    order[last] = last;
    int64_t s = 1;
    for (int i = last; i >= 0; s *= MAX(shape[order[i]], (int64_t)1), i--)
        stride[order[i]] = s;
}

static int attention_infer(struct node *n)
{
    struct attention_attr *a = NODE_ATTR(n, struct attention_attr);
    const det_tensor *q = n->in[IN_Q], *k = n->in[IN_K], *v = n->in[IN_V];
    int rc = check_operand(n, IN_Q, "q"), d = q->ndim;
    if (!rc) rc = check_operand(n, IN_K, "k");
    if (!rc) rc = check_operand(n, IN_V, "v");
    if (!rc) rc = check_mask(n);
    if (rc) return rc;
    if (q->shape[d - 1] != k->shape[d - 1] || k->shape[d - 2] != v->shape[d - 2])
        return node_fail(n, DET_ESHAPE, "q %s, k %s, v %s do not fit", TENSOR_TEXT(q),
                         TENSOR_TEXT(k), TENSOR_TEXT(v));
    if (!(a->dropout >= 0 && a->dropout < 1))
        return node_fail(n, DET_EINVAL, "dropout is %g, wants 0 <= p < 1", a->dropout);
    if (!a->scale) a->scale = 1 / sqrt((double)MAX(q->shape[d - 1], (int64_t)1));
    if (a->dropout > 0) {
        a->seed = tape_get()->rng.seed;
        a->stream = rng_next_stream();
    }
    int64_t shape[DET_MAX_DIMS], stride[DET_MAX_DIMS];
    memcpy(shape, q->shape, sizeof shape);
    shape[d - 1] = v->shape[d - 1];
    strides_like(q, shape, stride);
    return node_out_strided(n, (det_dtype)q->dtype, shape, stride, d);
}

// --- one call

static det_dtype compute_type(const struct node *n)
{
    return n->in[IN_Q]->dtype == DET_F64 ? DET_F64 : DET_F32;
}

// t, or a row-major copy if its rows are not dense. Release it.
static det_tensor *dense_rows(det_tensor *t)
{
    int last = t->ndim - 1;
    return t->shape[last] == 1 || t->stride[last] == 1 ? tensor_ref(t) : tensor_row_major(t);
}

// The mask as bool or in the type that is computed in, with all keys in its last dim. Release it.
static det_tensor *dense_mask(const struct node *n, det_dtype compute)
{
    det_tensor *m = node_in(n, IN_MASK);
    if (!m) return NULL;
    const det_tensor *q = n->in[IN_Q];
    int64_t keys = n->in[IN_K]->shape[q->ndim - 2];
    int last = m->ndim - 1;
    det_dtype dtype = m->dtype == DET_BOOL ? DET_BOOL : compute;
    bool fits = m->ndim && m->dtype == dtype && m->shape[last] == keys;
    if (fits && (keys == 1 || m->stride[last] == 1)) return tensor_ref(m);
    int64_t shape[DET_MAX_DIMS] = {0};
    int ndim = MAX(m->ndim, 1);
    if (m->ndim) memcpy(shape, m->shape, sizeof shape);
    shape[ndim - 1] = keys;
    det_tensor *full = tensor_new(dtype, shape, ndim);
    if (full) ew_copy(full, m);
    return full;
}

static int call_init(struct node *n, struct attention *a)
{
    det_tensor *q = n->in[IN_Q], *v = n->in[IN_V];
    int d = q->ndim;
    a->attr = NODE_ATTR(n, struct attention_attr);
    a->queries = q->shape[d - 2];
    a->keys = v->shape[d - 2];
    a->d = q->shape[d - 1];
    a->e = v->shape[d - 1];
    a->n_batch = 1;
    for (int i = 0; i < d - 2; i++)
        a->n_batch *= q->shape[i];
    a->q = dense_rows(q);
    a->k = dense_rows(n->in[IN_K]);
    a->v = dense_rows(v);
    a->out = n->out[0];
    a->mask = dense_mask(n, compute_type(n));
    return sticky_failed() ? DET_ENOMEM : 0;
}

static void call_done(struct attention *a)
{
    tensor_release(a->q);
    tensor_release(a->k);
    tensor_release(a->v);
    tensor_release(a->mask);
}

static int attention_forward(struct node *n)
{
    struct attention a = {0};
    det_dtype type = compute_type(n);
    int rc = call_init(n, &a);
    if (!rc) a.rows = tensor_new(DET_F32, (const int64_t[]){2, a.n_batch, a.queries}, 3);
    n->aux[AUX_ROWS] = a.rows;
    if (!rc && !a.rows) rc = DET_ENOMEM;
    if (!rc && !a.keys)
        memset(a.out->data, 0, a.out->storage->n_bytes); // sums of nothing
    else if (!rc && a.out->numel)
        rc = type == DET_F64 ? attention_forward_f64(&a) : attention_forward_hot(&a);
    call_done(&a);
    return rc;
}

static det_tensor *new_like(const det_tensor *t)
{
    det_tensor *g = tensor_new((det_dtype)t->dtype, t->shape, t->ndim);
    if (g) strides_like(t, t->shape, g->stride);
    return g;
}

// Gradient of the mask before it is summed over what was broadcast.
static det_tensor *new_mask_grad(const struct node *n, det_dtype type)
{
    int64_t shape[DET_MAX_DIMS];
    const det_tensor *q = n->in[IN_Q];
    memcpy(shape, q->shape, sizeof shape);
    shape[q->ndim - 1] = n->in[IN_K]->shape[q->ndim - 2];
    det_tensor *g = tensor_new(type, shape, q->ndim);
    if (g) memset(g->data, 0, g->storage->n_bytes); // what causal hides stays 0
    return g;
}

static int compute_grads(struct attention *a, det_dtype type)
{
    det_tensor *const grads[] = {a->gq, a->gk, a->gv};
    bool is_empty = !a->out->numel || !a->keys;
    for (int i = 0; i < 3; i++)
        if (is_empty || type == DET_F64) memset(grads[i]->data, 0, grads[i]->storage->n_bytes);
    if (is_empty) return 0;
    return type == DET_F64 ? attention_backward_f64(a) : attention_backward_hot(a);
}

static int attention_backward(struct node *n)
{
    struct attention a = {0};
    det_dtype type = compute_type(n);
    int rc = call_init(n, &a);
    a.rows = n->aux[AUX_ROWS];
    a.g = dense_rows(out_grad(n, 0));
    a.gq = new_like(n->in[IN_Q]);
    a.gk = new_like(n->in[IN_K]);
    a.gv = new_like(n->in[IN_V]);
    if (wants_grad(n, IN_MASK)) a.g_mask = new_mask_grad(n, type);
    bool made = a.gq && a.gk && a.gv && !sticky_failed();
    if (!rc) rc = made ? compute_grads(&a, type) : DET_ENOMEM;
    if (!rc) {
        if (wants_grad(n, IN_Q)) give_grad(n, IN_Q, tensor_ref(a.gq));
        if (wants_grad(n, IN_K)) give_grad(n, IN_K, tensor_ref(a.gk));
        if (wants_grad(n, IN_V)) give_grad(n, IN_V, tensor_ref(a.gv));
        if (a.g_mask) give_grad(n, IN_MASK, sum_to_shape(tensor_ref(a.g_mask), n->in[IN_MASK]));
    }
    tensor_release(a.g);
    tensor_release(a.gq);
    tensor_release(a.gk);
    tensor_release(a.gv);
    tensor_release(a.g_mask);
    call_done(&a);
    return rc;
}

// --- the row

static const struct attr_field attention_attrs[] = {
    {"scale", ATTR_REAL, offsetof(struct attention_attr, scale)},
    {"causal", ATTR_BOOL, offsetof(struct attention_attr, causal)},
    {NULL, 0, 0},
};
#define SCORES "q @ k.transpose(-2,-1)"
#define HIDE(mask) ".masked_fill(~(" mask "), -torch.inf)"
static const char *const attention_cases[] = {
    "q:f[a,H,d] k:f[a,5,d] v:f[a,5,e]; scale=0.5; torch.softmax(" SCORES "*0.5, -1) @ v",
    "q:f[H,16] k:f[H,16] v:f[H,16]; ; torch.softmax(" SCORES "/4, -1) @ v",
    "q:f[2,3,60,32] k:f[2,3,60,32] v:f[2,3,60,32]; causal=1 scale=0.2; "
    "torch.softmax((" SCORES "*0.2)" HIDE("torch.ones(60,60).tril().bool()") ", -1) @ v",
    "q:f[2,100,17] k:f[2,70,17] v:f[2,70,33]; causal=1 scale=0.3; "
    "torch.softmax((" SCORES "*0.3)" HIDE("torch.ones(100,70).tril().bool()") ", -1) @ v",
    "q:f[2,3,H,8] k:f[2,3,7,8] v:f[2,3,7,8] m:f[H,7]; scale=0.5; "
    "torch.softmax(" SCORES "*0.5 + m, -1) @ v",
    "q:f[2,3,H,8] k:f[2,3,7,8] v:f[2,3,7,8] m:f[3,1,7]; scale=0.5; "
    "torch.softmax(" SCORES "*0.5 + m, -1) @ v",
    "q:f[2,3,H,8] k:f[2,3,20,8] v:f[2,3,20,8] m:b[2,1,1,20]; scale=0.5; "
    "torch.softmax((" SCORES "*0.5)" HIDE("m") ", -1) @ v",
    "q:f[1,2,3,1,5] k:f[1,2,3,1,5] v:f[1,2,3,1,1]; scale=1; torch.softmax(" SCORES ", -1) @ v",
    NULL};
const struct op op_attention = {.name = "attention",
                                .min_in = 3,
                                .max_in = 4,
                                .saves_in = 1 << IN_Q | 1 << IN_K | 1 << IN_V | 1 << IN_MASK,
                                .infer = attention_infer,
                                .forward = attention_forward,
                                .backward = attention_backward,
                                .attrs = attention_attrs,
                                .cases = attention_cases};

// Batch dims broadcast, by expanding.
static det_tensor *expand_batch(det_tensor *t, const int64_t *batch, int ndim)
{
    int64_t shape[DET_MAX_DIMS];
    if (!t || (t->ndim == ndim && !memcmp(t->shape, batch, (size_t)(ndim - 2) * sizeof *batch)))
        return t;
    memcpy(shape, batch, sizeof shape);
    memcpy(shape + ndim - 2, t->shape + t->ndim - 2, 2 * sizeof *shape);
    return det_expand(t, shape, ndim);
}

static void common_batch(det_tensor *const *in, int64_t *batch, int *ndim)
{
    for (int i = 0; i < 3; i++)
        *ndim = MAX(*ndim, in[i]->ndim);
    for (int d = 0; d < *ndim; d++) {
        batch[d] = 1;
        for (int i = 0; i < 3; i++) {
            int at = d - (*ndim - in[i]->ndim);
            if (at >= 0 && in[i]->shape[at] != 1) batch[d] = in[i]->shape[at];
        }
    }
}

det_tensor *det_attention_with(det_tensor *q, det_tensor *k, det_tensor *v, det_attention_opts opts)
{
    struct attention_attr a = {.scale = opts.scale, .dropout = opts.dropout, .causal = opts.causal};
    det_tensor *in[] = {q, k, v, opts.mask};
    bool usable = q && k && v && q->ndim >= 2 && k->ndim >= 2 && v->ndim >= 2;
    int64_t batch[DET_MAX_DIMS];
    int ndim = 0;
    if (usable) common_batch(in, batch, &ndim);
    for (int i = 0; i < 3 && usable; i++) {
        if (det_autocast() && in[i]->dtype == DET_F32) in[i] = det_to(in[i], DET_BF16);
        in[i] = expand_batch(in[i], batch, ndim);
    }
    return op_apply(&op_attention, in, 4, &a, sizeof a);
}
