// Unit op_along.c: operations along one dim: its largest and smallest elements (max_along, argmax,
// topk), the one at some place of its order (kthvalue, median), and its order (sort).
//
// Choosing and sorting are one thing: elements are turned into integers of the same order, and the
// k smallest of those are found. It happens in f64 or i64, which hold every element exactly.
#include "tensor/elementwise.h"
#include "tensor/ops.h"
#include "tensor/rows.h"

#include <math.h>

static det_dtype work_type(const det_tensor *x)
{
    return dtype_is_float((det_dtype)x->dtype) ? DET_F64 : DET_I64;
}

// --- choosing

enum pick_flags {
    PICK_LARGEST = 1, // largest first
    PICK_DROP = 2,    // the dim goes away unless keepdim
    PICK_ALL = 4,     // k is the size of the dim
    PICK_VALUES = 8,  // values and positions; else positions only
    PICK_LAST = 16,   // the last of the k alone
    PICK_MIDDLE = 32, // k is half of the size; a NaN comes before all others
};

struct pick_attr {
    int64_t dim, k;
    bool keepdim, descending; // descending: topk (largest) and sort
    int flags;
};

static const struct attr_field pick_attrs[] = {
    {"dim", ATTR_INT, offsetof(struct pick_attr, dim)},
    {"k", ATTR_INT, offsetof(struct pick_attr, k)},
    {"keepdim", ATTR_BOOL, offsetof(struct pick_attr, keepdim)},
    {"descending", ATTR_BOOL, offsetof(struct pick_attr, descending)},
    {NULL, 0, 0},
};

static int pick_infer_as(struct node *n, int flags)
{
    const det_tensor *x = n->in[0];
    struct pick_attr *a = NODE_ATTR(n, struct pick_attr);
    int d, rc = node_dim(n, a->dim, x->ndim, &d);
    if (rc) return rc;
    int64_t size = x->ndim ? x->shape[d] : 1, shape[DET_MAX_DIMS];
    a->dim = d;
    if ((flags & PICK_LAST) && x->dtype == DET_BOOL)
        return node_fail(n, DET_EDTYPE, "not for bool");
    if (a->descending) flags |= PICK_LARGEST;
    if (flags & PICK_ALL) a->k = size;
    if (flags & PICK_MIDDLE) a->k = (size + 1) / 2;
    if ((flags & PICK_DROP) && !(flags & PICK_LAST)) a->k = 1;
    a->flags = flags;
    if (a->k < !!(flags & PICK_DROP) || a->k > size)
        return node_fail(n, DET_EINVAL, "%lld elements of dim %d of %s", (long long)a->k, d,
                         TENSOR_TEXT(x));
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != d || !(flags & PICK_DROP) || a->keepdim)
            shape[ndim++] = i != d ? x->shape[i] : flags & PICK_DROP ? 1 : a->k;
    if (flags & PICK_VALUES) rc = node_out(n, (det_dtype)x->dtype, shape, ndim);
    return rc ? rc : node_out(n, DET_I64, shape, ndim);
}

struct entry {
    int64_t rank; // smaller is better
    int64_t index;
};

// An integer that orders like v; -0 equals 0, NaN is above everything.
static int64_t order_of(double v)
{
    int64_t bits;
    if (v != v) return INT64_MAX;
    v += 0.0;
    memcpy(&bits, &v, sizeof bits);
    return bits ^ (bits >> 63 & INT64_MAX);
}

static int64_t rank_of(const struct rows *x, det_dtype dtype, int64_t at, int flags)
{
    int64_t order =
        dtype == DET_I64 ? ((const int64_t *)x->data)[at] : order_of(((const double *)x->data)[at]);
    // min_along shows NaN, as max_along does by nature; sort and topk leave it the largest
    bool nan_first = (flags & PICK_DROP) && !(flags & PICK_LAST);
    if ((nan_first || (flags & PICK_MIDDLE)) && dtype == DET_F64 && order == INT64_MAX)
        return INT64_MIN;
    return flags & PICK_LARGEST ? ~order : order;
}

// Merge sort, stable; spare has room for n.
static void sort_entries(struct entry *e, struct entry *spare, int64_t n)
{
    struct entry *from = e, *to = spare;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t a = at, mid = MIN(at + width, n), b = mid, end = MIN(at + 2 * width, n);
            for (int64_t i = at; i < end; i++)
                to[i] =
                    a < mid && (b >= end || from[a].rank <= from[b].rank) ? from[a++] : from[b++];
        }
        struct entry *swap = from;
        from = to;
        to = swap;
    }
    if (from != e) memcpy(e, from, (size_t)n * sizeof *e);
}

// The k best of a row, in order, into e[0 .. k): candidates are collected until there are 2 k of
// them, then the better half stays. Of equal elements the first one wins.
static void pick_row(const struct rows *x, det_dtype dtype, int64_t row, const struct pick_attr *a,
                     struct entry *e, struct entry *spare)
{
    int64_t count = 0, limit = 2 * a->k, worst = INT64_MAX;
    bool full = false;
    for (int64_t i = 0; i < x->n && a->k; i++) {
        int64_t rank = rank_of(x, dtype, row * x->n + i, a->flags);
        if (full && rank >= worst) continue;
        e[count++] = (struct entry){rank, i};
        if (count < limit) continue;
        sort_entries(e, spare, count);
        count = a->k;
        worst = e[a->k - 1].rank;
        full = true;
    }
    sort_entries(e, spare, count);
}

// t with a dim of size 1 put back where one was dropped.
static det_tensor undropped(const det_tensor *t, const det_tensor *x, int dim)
{
    det_tensor view = *t;
    if (t->ndim == x->ndim) return view;
    for (int d = t->ndim; d > dim; d--) {
        view.shape[d] = t->shape[d - 1];
        view.stride[d] = t->stride[d - 1];
    }
    view.shape[dim] = 1;
    view.stride[dim] = 1;
    view.ndim++;
    return view;
}

// The first of the entries that are wanted.
static const struct entry *chosen(const struct pick_attr *a, const struct entry *e)
{
    bool has_nan = (a->flags & PICK_MIDDLE) && e[0].rank == INT64_MIN;
    return (a->flags & PICK_LAST) && !has_nan ? e + a->k - 1 : e;
}

static void put_row(const struct rows *x, det_dtype dtype, int64_t row, const struct entry *e,
                    const struct rows *values, const struct rows *indices)
{
    int64_t k = indices->n;
    for (int64_t i = 0; i < k; i++) {
        int64_t from = row * x->n + e[i].index, to = row * k + i;
        ((int64_t *)indices->data)[to] = e[i].index;
        if (!values->data) continue;
        if (dtype == DET_F64)
            ((double *)values->data)[to] = ((const double *)x->data)[from];
        else
            ((int64_t *)values->data)[to] = ((const int64_t *)x->data)[from];
    }
}

static int pick_forward(struct node *n)
{
    const struct pick_attr *a = NODE_ATTR(n, struct pick_attr);
    det_tensor *x = n->in[0], *index_out = n->out[n->n_out - 1];
    int dim = (int)a->dim;
    det_dtype dtype = work_type(x);
    det_tensor value_view = undropped(n->out[0], x, dim), index_view = undropped(index_out, x, dim);
    struct rows in = {0}, values = {0}, indices = {0};
    int rc = rows_read(&in, x, dim, dtype);
    if (!rc && (a->flags & PICK_VALUES)) rc = rows_write(&values, &value_view, dim, dtype);
    if (!rc) rc = rows_write(&indices, &index_view, dim, DET_I64);
    int64_t room = MIN(2 * a->k, in.n) * (int64_t)(sizeof(struct entry) / sizeof(int64_t));
    det_tensor *entries = rc ? NULL : tensor_new(DET_I64, (int64_t[]){2, room}, 2);
    if (!entries) rc = DET_ENOMEM;
    for (int64_t row = 0; !rc && row < in.n_rows; row++) {
        struct entry *e = entries->data, *spare = (struct entry *)((int64_t *)entries->data + room);
        pick_row(&in, dtype, row, a, e, spare);
        put_row(&in, dtype, row, chosen(a, e), &values, &indices);
    }
    tensor_release(entries);
    rows_done(&in);
    rows_done(&values);
    rows_done(&indices);
    // backward must find these even if somebody writes into the result
    if (!rc && n->tracked) {
        n->aux[0] = tensor_new(DET_I64, index_view.shape, index_view.ndim);
        if (!n->aux[0]) return DET_ENOMEM;
        ew_copy(n->aux[0], &index_view);
    }
    return rc;
}

// Each value's gradient goes where it came from.
static int pick_backward(struct node *n)
{
    int dim = (int)NODE_ATTR(n, struct pick_attr)->dim;
    det_tensor *g = out_grad(n, 0), *gx = tensor_new_like(n->in[0]);
    if (!g || !gx) return DET_ENOMEM;
    det_tensor g_view = undropped(g, n->in[0], dim);
    struct rows from = {0}, to = {0}, indices = {0};
    int rc = rows_read(&from, &g_view, dim, DET_F64);
    if (!rc) rc = rows_read(&indices, n->aux[0], dim, DET_I64);
    if (!rc) rc = rows_write(&to, gx, dim, DET_F64);
    if (!rc) memset(to.data, 0, (size_t)gx->numel * sizeof(double));
    for (int64_t i = 0; !rc && i < from.n_rows * from.n; i++)
        ((double *)to.data)[i / from.n * to.n + ((const int64_t *)indices.data)[i]] +=
            ((const double *)from.data)[i];
    rows_done(&from);
    rows_done(&indices);
    rows_done(&to);
    give_grad(n, 0, gx);
    return rc;
}

#define PICK_ROW(fn, row_flags, row_backward, ...)               \
    static int fn##_infer(struct node *n)                        \
    {                                                            \
        return pick_infer_as(n, row_flags);                      \
    }                                                            \
    static const char *const fn##_cases[] = {__VA_ARGS__, NULL}; \
    const struct op op_##fn = {.name = #fn,                      \
                               .min_in = 1,                      \
                               .max_in = 1,                      \
                               .infer = fn##_infer,              \
                               .forward = pick_forward,          \
                               .backward = row_backward,         \
                               .attrs = pick_attrs,              \
                               .cases = fn##_cases};
PICK_ROW(max_along, PICK_VALUES | PICK_DROP | PICK_LARGEST, pick_backward,
         "x:f[a,B,c]; dim=1; x.max(1)", "x:f[a,B]; dim=-1 keepdim=1; x.max(-1, keepdim=True)",
         "x:n[A,B]; dim=0; x.max(0)", "x:i4[a,B]; dim=1; x.max(1)", "x:f[]; dim=0; x.max(0)")
PICK_ROW(min_along, PICK_VALUES | PICK_DROP, pick_backward, "x:f[a,B,c]; dim=1; x.min(1)",
         "x:f[a,B]; dim=-1 keepdim=1; x.min(-1, keepdim=True)", "x:n[A,B]; dim=0; x.min(0)",
         "x:i4[a,B]; dim=1; x.min(1)")
PICK_ROW(argmax, PICK_DROP | PICK_LARGEST, NULL, "x:f[a,B,c]; dim=1; x.argmax(1)",
         "x:n[a,B]; dim=-1 keepdim=1; x.argmax(-1, keepdim=True)", "x:i4[a,B]; dim=1; x.argmax(1)",
         "x:f[0,B]; dim=1; x.argmax(1)")
PICK_ROW(argmin, PICK_DROP, NULL, "x:f[a,B,c]; dim=1; x.argmin(1)",
         "x:n[a,B]; dim=-1 keepdim=1; x.argmin(-1, keepdim=True)", "x:i4[a,B]; dim=1; x.argmin(1)")
PICK_ROW(topk, PICK_VALUES, pick_backward, "x:f[a,B,c]; dim=1 k=3 descending=1; x.topk(3, 1)",
         "x:f[a,B]; dim=-1 k=2; x.topk(2, -1, largest=False)", "x:f[a,B]; dim=1 k=0; x.topk(0, 1)",
         "x:i4[a,B]; dim=1 k=5; [t[:,:5] for t in x.sort(dim=1, stable=True)]",
         "x:n[a,40]; dim=1 k=7; [t[:,:7] for t in x.sort(dim=1, stable=True)]")
PICK_ROW(sort, PICK_VALUES | PICK_ALL, pick_backward,
         "x:f[a,B,c]; dim=1; x.sort(dim=1, stable=True)",
         "x:f[a,B]; dim=0 descending=1; x.sort(dim=0, descending=True, stable=True)",
         "x:n[a,B]; dim=-1; x.sort(dim=-1, stable=True)",
         "x:n[a,B]; dim=-1 descending=1; x.sort(dim=-1, descending=True, stable=True)",
         "x:i4[a,B]; dim=1 descending=1; x.sort(dim=1, descending=True, stable=True)",
         "x:b[a,B]; dim=1; x.sort(dim=1, stable=True)",
         "x:f[2,100]; dim=1; x.sort(dim=1, stable=True)", "x:f[0,3]; dim=0; x.sort(0)",
         "x:f[]; dim=0; x.sort(0)")
PICK_ROW(kthvalue, PICK_VALUES | PICK_DROP | PICK_LAST, pick_backward,
         "x:f[a,B,c]; dim=1 k=3; x.kthvalue(3, 1)",
         "x:f[a,B]; dim=-1 k=1 keepdim=1; x.kthvalue(1, -1, keepdim=True)",
         "x:f[40]; dim=0 k=40; x.kthvalue(40)", "x:f[]; dim=0 k=1; x.kthvalue(1)")
PICK_ROW(median_along, PICK_VALUES | PICK_DROP | PICK_LAST | PICK_MIDDLE, pick_backward,
         "x:f[a,B,c]; dim=1; x.median(1)", "x:f[a,B]; dim=-1 keepdim=1; x.median(-1, keepdim=True)",
         "x:f[41]; dim=0; x.median(0)", "x:f[]; dim=0; x.median(0)")

static det_tensor *pick_call(const struct op *op, det_tensor *x, struct pick_attr a,
                             det_tensor **indices)
{
    struct node *n = op_record(op, &x, 1, &a, sizeof a);
    if (indices) *indices = n ? n->out[1] : NULL;
    return n ? n->out[0] : NULL;
}

det_tensor *det_max_along(det_tensor *x, int dim, bool keepdim, det_tensor **indices)
{
    return pick_call(&op_max_along, x, (struct pick_attr){.dim = dim, .keepdim = keepdim}, indices);
}

det_tensor *det_min_along(det_tensor *x, int dim, bool keepdim, det_tensor **indices)
{
    return pick_call(&op_min_along, x, (struct pick_attr){.dim = dim, .keepdim = keepdim}, indices);
}

det_tensor *det_argmax(det_tensor *x, int dim, bool keepdim)
{
    return pick_call(&op_argmax, x, (struct pick_attr){.dim = dim, .keepdim = keepdim}, NULL);
}

det_tensor *det_argmin(det_tensor *x, int dim, bool keepdim)
{
    return pick_call(&op_argmin, x, (struct pick_attr){.dim = dim, .keepdim = keepdim}, NULL);
}

det_tensor *det_topk(det_tensor *x, int64_t k, int dim, bool largest, det_tensor **indices)
{
    struct pick_attr a = {.dim = dim, .k = k, .descending = largest};
    return pick_call(&op_topk, x, a, indices);
}

det_tensor *det_sort(det_tensor *x, int dim, bool descending, det_tensor **indices)
{
    return pick_call(&op_sort, x, (struct pick_attr){.dim = dim, .descending = descending},
                     indices);
}

det_tensor *det_kthvalue(det_tensor *x, int64_t k, int dim, bool keepdim, det_tensor **indices)
{
    struct pick_attr a = {.dim = dim, .k = k, .keepdim = keepdim};
    return pick_call(&op_kthvalue, x, a, indices);
}

det_tensor *det_median_along(det_tensor *x, int dim, bool keepdim, det_tensor **indices)
{
    return pick_call(&op_median_along, x, (struct pick_attr){.dim = dim, .keepdim = keepdim},
                     indices);
}

// As torch: all elements that are the median share its gradient.
det_tensor *det_median(det_tensor *x)
{
    det_tensor *flat = det_flatten(x, 0, -1);
    det_tensor *middle = det_median_along(det_detach(flat), 0, false, NULL);
    if (!middle || !dtype_is_float((det_dtype)x->dtype) || !det_has_requires_grad(x)) return middle;
    det_tensor *same = isnan(det_item(middle)) ? det_isnan(flat) : det_eq(flat, middle);
    return det_max(det_masked_select(flat, same));
}
