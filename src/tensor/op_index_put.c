// Unit op_index_put.c: indexing by several tensors at once, reading (index, masked_select) and
// writing (index_put). Tensors of indices, or masks, stand for dims; the dims that they stand for
// become one, whose rows are picked or replaced.
#include "tensor/elementwise.h"
#include "tensor/ops.h"

// --- the operation: rows of x are replaced by rows of src, or these are added

static const struct attr_field put_attrs[] = {{"accumulate", ATTR_BOOL, 0}, {NULL, 0, 0}};

static int put_infer(struct node *n)
{
    const det_tensor *x = n->in[0], *index = n->in[1], *src = n->in[2];
    bool fits = x->ndim >= 1 && index->ndim == 1 && src->ndim == x->ndim &&
                src->shape[0] == index->shape[0];
    for (int d = 1; fits && d < x->ndim; d++)
        fits = src->shape[d] == x->shape[d];
    if (!fits)
        return node_fail(n, DET_ESHAPE, "rows %s for %s by index %s", TENSOR_TEXT(src),
                         TENSOR_TEXT(x), TENSOR_TEXT(index));
    if (index->dtype != DET_I64 || x->dtype != src->dtype)
        return node_fail(n, DET_EDTYPE,
                         "input is %s, values %s, index %s; wants two of one type and i64",
                         det_dtype_name((det_dtype)x->dtype), det_dtype_name((det_dtype)src->dtype),
                         det_dtype_name((det_dtype)index->dtype));
    return node_out(n, (det_dtype)x->dtype, x->shape, x->ndim);
}

// In the order of the index, so that of several rows for one place the last one stays.
static int put_forward(struct node *n)
{
    det_tensor *out = n->out[0], *src = tensor_row_major(n->in[2]),
               *index = tensor_row_major(n->in[1]);
    int rc = src && index ? 0 : DET_ENOMEM;
    bool add = *NODE_ATTR(n, bool);
    if (!rc) rc = check_index_range(n, index->data, index->numel, out->shape[0]);
    if (!rc) ew_copy(out, n->in[0]);
    int64_t width = out->shape[0] ? out->numel / out->shape[0] : 0;
    int64_t bytes = (int64_t)dtype_size((det_dtype)out->dtype);
    for (int64_t i = 0; !rc && width && i < index->numel; i++) {
        char *to = (char *)out->data + ((const int64_t *)index->data)[i] * width * bytes;
        char *from = (char *)src->data + i * width * bytes;
        if (add)
            ew_axpy((det_dtype)out->dtype)(width, (void *[]){to, from}, (int64_t[]){bytes, bytes},
                                           (double[]){1, 0});
        else
            memcpy(to, from, (size_t)(width * bytes));
    }
    tensor_release(src);
    tensor_release(index);
    return rc;
}

static int put_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0);
    bool add = *NODE_ATTR(n, bool);
    if (wants_grad(n, 2)) give_grad(n, 2, tensor_ref(det_index_select(g, 0, n->in[1])));
    if (!wants_grad(n, 0)) return 0;
    if (!add) { // what was replaced has no gradient
        det_tensor *none = det_zeros((det_dtype)g->dtype, n->in[2]->shape, n->in[2]->ndim);
        bool replace = false;
        g = OP_APPLY(&op_index_put, replace, g, n->in[1], none);
    }
    give_grad(n, 0, tensor_ref(g));
    return 0;
}

static const char *const index_put_cases[] = {
    "x:f[A,b] i:i6[1] s:f[1,b]; accumulate=0; x.index_put((i,), s)",
    "x:f[A,b] i:iA[7] s:f[7,b]; accumulate=1; x.index_put((i,), s, True)",
    "x:i9[A] i:iA[5] s:i9[5]; accumulate=1; x.index_put((i,), s, True)",
    "x:f[A,b] i:iA[0] s:f[0,b]; accumulate=0; x.index_put((i,), s)", NULL};
const struct op op_index_put = {.name = "index_put",
                                .min_in = 3,
                                .max_in = 3,
                                .saves_in = 2,
                                .infer = put_infer,
                                .forward = put_forward,
                                .backward = put_backward,
                                .attrs = put_attrs,
                                .cases = index_put_cases};

// --- which dims, which rows

// An index of several tensors, worked out: x is seen with the indexed dims first and as one.
struct places {
    int n_dims, dim[DET_MAX_DIMS];   // of x that are indexed, in order
    det_tensor *index[DET_MAX_DIMS]; // i64, of one shape
    det_tensor *rows;                // i64 (count): row of x seen as (rows, rest...)
    int64_t order[DET_MAX_DIMS];     // of the dims of x: indexed ones, then the rest
    struct dims shape;               // of the index tensors, broadcast
    int first;                       // where these dims stand in the result
};

static bool fail_index(const char *what, const det_tensor *x, int i, const det_tensor *index)
{
    det_raise(DET_ESHAPE, "%s: index %d %s does not fit %s", what, i, TENSOR_TEXT(index),
              TENSOR_TEXT(x));
    return false;
}

// A mask stands for as many dims as it has; its positions are an index for each of them.
static bool add_mask(const char *what, struct places *p, const det_tensor *x, int i, int *dim,
                     det_tensor *mask)
{
    bool fits = mask->ndim >= 1 && *dim + mask->ndim <= x->ndim;
    for (int d = 0; fits && d < mask->ndim; d++)
        fits = mask->shape[d] == x->shape[*dim + d];
    if (!fits) return fail_index(what, x, i, mask);
    det_tensor *at = det_nonzero(mask);
    for (int d = 0; d < mask->ndim; d++) {
        p->index[p->n_dims] = det_select(at, 1, d);
        p->dim[p->n_dims++] = (*dim)++;
    }
    return !sticky_failed();
}

static bool add_index(const char *what, struct places *p, const det_tensor *x, int i, int *dim,
                      det_tensor *index)
{
    if (!index) { // all of a dim
        (*dim)++;
        return true;
    }
    if (index->dtype == DET_BOOL) return add_mask(what, p, x, i, dim, index);
    if (*dim >= x->ndim) return fail_index(what, x, i, index);
    index = as_index(index);
    if (index && index->dtype != DET_I64)
        det_raise(DET_EDTYPE, "%s: index %d is %s, wants i64, i32 or bool", what, i,
                  det_dtype_name((det_dtype)index->dtype));
    p->index[p->n_dims] = index;
    p->dim[p->n_dims++] = (*dim)++;
    return !sticky_failed();
}

static bool broadcast_index(const char *what, struct places *p)
{
    for (int i = 0; i < p->n_dims; i++)
        p->shape.n = MAX(p->shape.n, p->index[i]->ndim);
    for (int d = 0; d < p->shape.n; d++) {
        p->shape.v[d] = 1;
        for (int i = 0; i < p->n_dims; i++) {
            int at = d - (p->shape.n - p->index[i]->ndim);
            int64_t size = at < 0 ? 1 : p->index[i]->shape[at];
            if (size == 1 || size == p->shape.v[d]) continue;
            if (p->shape.v[d] != 1) {
                det_raise(DET_ESHAPE, "%s: indices %s and %s do not broadcast", what,
                          TENSOR_TEXT(p->index[0]), TENSOR_TEXT(p->index[i]));
                return false;
            }
            p->shape.v[d] = size;
        }
    }
    for (int i = 0; i < p->n_dims; i++)
        p->index[i] = det_contiguous(det_expand(p->index[i], p->shape.v, p->shape.n));
    return !sticky_failed();
}

// One number for all indices of a row; negative ones count from the end.
static bool count_rows(const char *what, struct places *p, const det_tensor *x)
{
    int64_t count = 1;
    for (int d = 0; d < p->shape.n; d++)
        count *= p->shape.v[d];
    p->rows = det_zeros(DET_I64, DET_DIMS(count));
    if (!p->rows) return false;
    int64_t *row = p->rows->data;
    for (int i = 0; i < p->n_dims; i++) {
        int64_t size = x->shape[p->dim[i]];
        const int64_t *at = det_data(p->index[i]);
        for (int64_t k = 0; at && k < count; k++) {
            int64_t index = at[k] < 0 ? at[k] + size : at[k];
            if (index < 0 || index >= size) {
                det_raise(DET_EINVAL, "%s: index %lld of dim %d of %s", what, (long long)at[k],
                          p->dim[i], TENSOR_TEXT(x));
                return false;
            }
            row[k] = row[k] * size + index;
        }
    }
    return !sticky_failed();
}

// Next to each other, the indexed dims are replaced where they stand; else they come first.
static void place_dims(struct places *p, const det_tensor *x)
{
    bool together = p->n_dims && p->dim[p->n_dims - 1] - p->dim[0] == p->n_dims - 1;
    p->first = together ? p->dim[0] : 0;
    int n = 0;
    for (int i = 0; i < p->n_dims; i++)
        p->order[n++] = p->dim[i];
    for (int d = 0, i = 0; d < x->ndim; d++) {
        if (i < p->n_dims && p->dim[i] == d)
            i++;
        else
            p->order[n++] = d;
    }
}

static bool find_places(const char *what, struct places *p, det_tensor *x,
                        det_tensor *const *indices, int n)
{
    if (sticky_failed()) return false;
    if (!x || !indices || n < 1) {
        det_raise(DET_EINVAL, "%s: %s", what, x ? "no indices" : "input is NULL");
        return false;
    }
    int dim = 0;
    for (int i = 0; i < n; i++)
        if (!add_index(what, p, x, i, &dim, indices[i])) return false;
    if (dim > x->ndim || !p->n_dims) {
        det_raise(DET_EINVAL, "%s: %d indices for %s", what, n, TENSOR_TEXT(x));
        return false;
    }
    if (!broadcast_index(what, p) || !count_rows(what, p, x)) return false;
    place_dims(p, x);
    return true;
}

// x as (rows, rest...).
static det_tensor *as_rows(const struct places *p, det_tensor *x)
{
    det_tensor *turned = det_permute(x, p->order, x->ndim);
    return det_flatten(turned, 0, p->n_dims - 1);
}

// The dims of a result in front of which the index dims stand, from the form (index dims, rest).
static det_tensor *into_place(const struct places *p, det_tensor *y)
{
    int64_t order[DET_MAX_DIMS];
    int n = 0;
    if (!y || !p->first) return y;
    for (int d = 0; d < p->first; d++)
        order[n++] = p->shape.n + d;
    for (int d = 0; d < p->shape.n; d++)
        order[n++] = d;
    for (int d = p->shape.n + p->first; d < y->ndim; d++)
        order[n++] = d;
    return det_permute(y, order, n);
}

// Shape of (index dims, rest). False if there are too many.
static bool indexed_shape(const struct places *p, const det_tensor *x, struct dims *shape)
{
    *shape = p->shape;
    for (int d = p->n_dims; d < x->ndim; d++) {
        if (shape->n == DET_MAX_DIMS) {
            det_raise(DET_ESHAPE, "index: the result has more than %d dims", DET_MAX_DIMS);
            return false;
        }
        shape->v[shape->n++] = x->shape[p->order[d]];
    }
    return true;
}

det_tensor *det_index(det_tensor *x, det_tensor *const *indices, int n)
{
    struct places p = {0};
    struct dims shape;
    if (!find_places("index", &p, x, indices, n) || !indexed_shape(&p, x, &shape)) return NULL;
    det_tensor *y = det_index_select(as_rows(&p, x), 0, p.rows);
    return into_place(&p, det_reshape(y, shape.v, shape.n));
}

// values, which broadcast to the shape of the index, as rows.
static det_tensor *value_rows(const struct places *p, const det_tensor *x, const struct dims *shape,
                              det_tensor *values)
{
    int64_t turned[DET_MAX_DIMS], order[DET_MAX_DIMS], rows[DET_MAX_DIMS + 1];
    int n = 0;
    // values are given for the result as det_index shows it
    for (int d = 0; d < p->first; d++)
        order[p->shape.n + d] = n, turned[n++] = shape->v[p->shape.n + d];
    for (int d = 0; d < p->shape.n; d++)
        order[d] = n, turned[n++] = shape->v[d];
    for (int d = p->shape.n + p->first; d < shape->n; d++)
        order[d] = n, turned[n++] = shape->v[d];
    det_tensor *full = det_permute(det_expand(values, turned, n), order, n);
    rows[0] = p->rows->numel;
    for (int d = p->n_dims; d < x->ndim; d++)
        rows[1 + d - p->n_dims] = x->shape[p->order[d]];
    return det_reshape(full, rows, 1 + x->ndim - p->n_dims);
}

det_tensor *det_index_put(det_tensor *x, det_tensor *const *indices, int n, det_tensor *values,
                          bool accumulate)
{
    struct places p = {0};
    struct dims shape;
    if (!find_places("index_put", &p, x, indices, n) || !indexed_shape(&p, x, &shape)) return NULL;
    if (!values) {
        det_raise(DET_EINVAL, "index_put: values are NULL");
        return NULL;
    }
    det_tensor *src = value_rows(&p, x, &shape, values), *rows = as_rows(&p, x);
    det_tensor *y = OP_APPLY(&op_index_put, accumulate, rows, p.rows, src);
    int64_t turned[DET_MAX_DIMS], back[DET_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        turned[d] = x->shape[p.order[d]];
        back[p.order[d]] = d;
    }
    return det_permute(det_reshape(y, turned, x->ndim), back, x->ndim);
}

det_tensor *det_masked_select(det_tensor *x, det_tensor *mask)
{
    struct dims shape = {0};
    if (!x || !mask || sticky_failed()) return OP_APPLY0(&op_where, mask, x, x);
    if (mask->dtype != DET_BOOL) {
        det_raise(DET_EDTYPE, "masked_select: the mask is %s, wants bool",
                  det_dtype_name((det_dtype)mask->dtype));
        return NULL;
    }
    struct node both = {.op = &op_index_put, .n_in = 2, .in = (det_tensor *[]){x, mask}};
    if (node_broadcast(&both, 2, shape.v, &shape.n)) return NULL;
    x = det_flatten(det_expand(x, shape.v, shape.n), 0, -1);
    mask = det_flatten(det_expand(mask, shape.v, shape.n), 0, -1);
    return det_index(x, &mask, 1);
}
