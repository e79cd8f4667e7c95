// Unit op_index.c: elements chosen by tensors of indices: index_select, embedding, gather,
// scatter_add, one_hot.
#include "tensor/elementwise.h"
#include "tensor/ops.h"
#include "tensor/rows.h"
#include "tensor/share.h"

static const struct attr_field dim_attrs[] = {{"dim", ATTR_INT, 0}, {NULL, 0, 0}};

det_tensor *as_index(det_tensor *index)
{
    return index && index->dtype == DET_I32 ? det_to(index, DET_I64) : index;
}

static int want_index(const struct node *n, int i)
{
    if (n->in[i]->dtype == DET_I64) return 0;
    return node_fail(n, DET_EDTYPE, "index is %s, wants i64 or i32",
                     det_dtype_name((det_dtype)n->in[i]->dtype));
}

int check_index_range(const struct node *n, const int64_t *index, int64_t count, int64_t size)
{
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= size)
            return node_fail(n, DET_EINVAL, "index %lld is %lld; there are %lld elements",
                             (long long)i, (long long)index[i], (long long)size);
    return 0;
}

// --- whole rows: index_select along a dim, embedding

// x is (outer, size, inner); out is (outer, count, inner).
struct select_job {
    const int64_t *index;
    int64_t outer, size, count, inner, skip;
    det_dtype dtype;
    const void *from;
    void *to;
};

static void copy_range(void *ctx, int64_t from, int64_t to)
{
    const struct select_job *j = ctx;
    size_t bytes = (size_t)j->inner * dtype_size(j->dtype);
    for (int64_t i = from; i < to; i++) {
        int64_t row = i / j->count * j->size + j->index[i % j->count];
        memcpy((char *)j->to + (size_t)i * bytes, (const char *)j->from + (size_t)row * bytes,
               bytes);
    }
}

enum { COLUMNS = 64 }; // of one thread at a time

// All rows, but only some columns: whoever runs this, rows are added in the order of the index.
static void add_range(void *ctx, int64_t from, int64_t to)
{
    const struct select_job *j = ctx;
    int64_t bytes = (int64_t)dtype_size(j->dtype);
    int64_t c0 = from * COLUMNS, c1 = MIN(to * COLUMNS, j->inner);
    for (int64_t o = 0; o < j->outer; o++) {
        const char *src = (const char *)j->from + o * j->count * j->inner * bytes;
        char *out = (char *)j->to + o * j->size * j->inner * bytes;
        if (j->dtype == DET_F32) {
            kernels->add_rows(&(struct add_rows){j->index, (const float *)(const void *)src,
                                                 (float *)(void *)out, j->count, j->inner, c0, c1,
                                                 j->skip});
            continue;
        }
        for (int64_t i = 0; i < j->count; i++) {
            void *p[] = {out + (j->index[i] * j->inner + c0) * bytes,
                         (char *)(uintptr_t)src + (i * j->inner + c0) * bytes};
            if (j->index[i] != j->skip)
                ew_axpy(j->dtype)(c1 - c0, p, (int64_t[]){bytes, bytes}, (double[]){1, 0});
        }
    }
}

static void zero_range(void *ctx, int64_t from, int64_t to)
{
    const struct select_job *j = ctx;
    size_t row = (size_t)j->inner * dtype_size(j->dtype);
    memset((char *)j->to + (size_t)from * row, 0, (size_t)(to - from) * row);
}

static void describe(struct select_job *j, const det_tensor *x, int dim, const det_tensor *index)
{
    *j = (struct select_job){.index = index->data, .count = index->numel, .outer = 1, .inner = 1};
    j->skip = -1;
    j->dtype = (det_dtype)x->dtype;
    j->size = x->shape[dim];
    for (int d = 0; d < x->ndim; d++)
        if (d != dim) *(d < dim ? &j->outer : &j->inner) *= x->shape[d];
}

static int select_forward(struct node *n, det_tensor *x, int dim, det_tensor *index)
{
    det_tensor *rows = tensor_row_major(x), *list = tensor_row_major(index);
    int rc =
        rows && list ? check_index_range(n, list->data, list->numel, x->shape[dim]) : DET_ENOMEM;
    if (!rc && n->out[0]->numel) {
        struct select_job j;
        describe(&j, x, dim, list);
        j.from = rows->data;
        j.to = n->out[0]->data;
        share_rows(j.outer * j.count, j.inner, copy_range, &j);
    }
    tensor_release(rows);
    tensor_release(list);
    return rc;
}

// Adds the rows of the gradient to where they came from; skip (-1: none) is a row that gets
// nothing.
static int select_backward(struct node *n, int i, int dim, det_tensor *index, int64_t skip)
{
    det_tensor *x = n->in[i], *g = tensor_row_major(out_grad(n, 0)),
               *list = tensor_row_major(index);
    bool in_place = x->dtype == DET_F32 && tensor_is_row_major(x), accumulate = false;
    det_tensor *gx = in_place ? grad_target(n, i, &accumulate)
                              : tensor_new((det_dtype)x->dtype, x->shape, x->ndim);
    int rc = g && list && gx ? 0 : DET_ENOMEM;
    if (!rc) {
        struct select_job j;
        describe(&j, x, dim, list);
        j.skip = skip;
        j.from = g->data;
        j.to = gx->data;
        if (!accumulate) share_rows(j.outer * j.size, j.inner, zero_range, &j);
        share_rows((j.inner + COLUMNS - 1) / COLUMNS, j.outer * j.count * COLUMNS, add_range, &j);
    }
    if (!in_place) give_grad(n, i, gx);
    tensor_release(g);
    tensor_release(list);
    return rc;
}

static int index_select_infer(struct node *n)
{
    const det_tensor *x = n->in[0], *index = n->in[1];
    int64_t *dim = NODE_ATTR(n, int64_t), shape[DET_MAX_DIMS];
    int d, rc = want_index(n, 1);
    if (!rc) rc = node_dim(n, *dim, x->ndim, &d);
    if (rc) return rc;
    if (!x->ndim || index->ndim > 1)
        return node_fail(n, DET_ESHAPE, "input is %s, index %s; wants 1 dim or more and 1 dim",
                         TENSOR_TEXT(x), TENSOR_TEXT(index));
    memcpy(shape, x->shape, sizeof shape);
    shape[d] = index->numel;
    *dim = d;
    return node_out(n, (det_dtype)x->dtype, shape, x->ndim);
}

static int index_select_forward(struct node *n)
{
    return select_forward(n, n->in[0], (int)*NODE_ATTR(n, int64_t), n->in[1]);
}

static int index_select_backward(struct node *n)
{
    return select_backward(n, 0, (int)*NODE_ATTR(n, int64_t), n->in[1], -1);
}

static const char *const index_select_cases[] = {"x:f[a,B,c] i:iB[7]; dim=1; x.index_select(1, i)",
                                                 "x:f[A,b] i:iA[3]; dim=0; x.index_select(0, i)",
                                                 "x:f[a,B] i:iB[]; dim=-1; x.index_select(-1, i)",
                                                 "x:i9[a,B] i:iB[4]; dim=1; x.index_select(1, i)",
                                                 "x:b[a,B] i:iB[4]; dim=1; x.index_select(1, i)",
                                                 "x:f[a,B] i:iB[0]; dim=1; x.index_select(1, i)",
                                                 NULL};
const struct op op_index_select = {.name = "index_select",
                                   .min_in = 2,
                                   .max_in = 2,
                                   .flags = OP_STORED,
                                   .saves_in = 2,
                                   .infer = index_select_infer,
                                   .forward = index_select_forward,
                                   .backward = index_select_backward,
                                   .attrs = dim_attrs,
                                   .cases = index_select_cases};

det_tensor *det_index_select(det_tensor *x, int dim, det_tensor *index)
{
    int64_t d = dim;
    if (x && !x->ndim && index && index->numel == 1) // a number has one element, and stays one
        return det_squeeze(det_index_select(det_unsqueeze(x, 0), dim, index), 0);
    return OP_APPLY(&op_index_select, d, x, as_index(index));
}

static const struct attr_field embedding_attrs[] = {{"padding_idx", ATTR_INT, 0}, {NULL, 0, 0}};

static int embedding_infer(struct node *n)
{
    const det_tensor *index = n->in[0], *w = n->in[1];
    int64_t padding = *NODE_ATTR(n, int64_t), shape[DET_MAX_DIMS + 1];
    int rc = want_index(n, 0);
    if (rc) return rc;
    if (w->ndim != 2) return node_fail(n, DET_ESHAPE, "weight is %s, wants 2 dims", TENSOR_TEXT(w));
    if (padding < -1 || padding >= w->shape[0])
        return node_fail(n, DET_EINVAL, "padding_idx is %lld; weight is %s", (long long)padding,
                         TENSOR_TEXT(w));
    memcpy(shape, index->shape, sizeof index->shape);
    shape[index->ndim] = w->shape[1];
    return node_out(n, (det_dtype)w->dtype, shape, index->ndim + 1);
}

static int embedding_forward(struct node *n)
{
    return select_forward(n, n->in[1], 0, n->in[0]);
}

static int embedding_backward(struct node *n)
{
    return select_backward(n, 1, 0, n->in[0], *NODE_ATTR(n, int64_t));
}

static const char *const embedding_cases[] = {
    "i:iA[a,b] w:f[A,c]; padding_idx=-1; F.embedding(i, w)",
    "stops|i:iA[B] w:f[A,c]; padding_idx=2; F.embedding(i, w, padding_idx=2)",
    "i:iA[] w:f[A,3]; padding_idx=-1; F.embedding(i, w)",
    "i:i5[300] w:f[5,150]; padding_idx=-1; F.embedding(i, w)",
    "i:i3[0] w:f[3,c]; padding_idx=-1; F.embedding(i, w)",
    NULL};
const struct op op_embedding = {.name = "embedding",
                                .min_in = 2,
                                .max_in = 2,
                                .saves_in = 1,
                                .infer = embedding_infer,
                                .forward = embedding_forward,
                                .backward = embedding_backward,
                                .attrs = embedding_attrs,
                                .cases = embedding_cases};

det_tensor *det_embedding(det_tensor *index, det_tensor *weight, int64_t padding_idx)
{
    return OP_APPLY(&op_embedding, padding_idx, as_index(index), weight);
}

// --- single elements: gather, scatter_add
//
// Along dim, rows of x and of the index belong together; in the other dims x may be larger than the
// index, what is beyond takes no part.

// t, cut to the sizes of index in all dims but `dim` (-1: in all).
static det_tensor cut(const det_tensor *t, const det_tensor *index, int dim)
{
    det_tensor view = *t;
    view.numel = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (d != dim) view.shape[d] = index->shape[d];
        view.numel *= view.shape[d];
    }
    return view;
}

static int fits_index(struct node *n, const det_tensor *t, const det_tensor *index, int dim)
{
    bool fits = t->ndim == index->ndim;
    for (int d = 0; fits && d < t->ndim; d++)
        fits = d == dim || index->shape[d] <= t->shape[d];
    if (fits) return 0;
    return node_fail(n, DET_ESHAPE, "index %s does not fit %s", TENSOR_TEXT(index), TENSOR_TEXT(t));
}

static int gather_infer(struct node *n)
{
    const det_tensor *x = n->in[0], *index = n->in[1];
    int64_t *dim = NODE_ATTR(n, int64_t);
    int d, rc = want_index(n, 1);
    if (!rc) rc = node_dim(n, *dim, x->ndim, &d);
    if (!rc) rc = fits_index(n, x, index, d);
    if (rc) return rc;
    *dim = d;
    return node_out(n, (det_dtype)x->dtype, index->shape, index->ndim);
}

// out[r][i] = x[r][index[r][i]], in elements of that many bytes.
static void gather_rows(const struct rows *x, const struct rows *index, const struct rows *out,
                        size_t bytes)
{
    const int64_t *at = index->data;
    for (int64_t i = 0; i < index->n_rows * index->n; i++) {
        int64_t from = i / index->n * x->n + at[i];
        memcpy((char *)out->data + (size_t)i * bytes, (const char *)x->data + (size_t)from * bytes,
               bytes);
    }
}

static int gather_into(const struct node *n, det_tensor *x, det_tensor *index, int dim,
                       det_tensor *out)
{
    det_dtype dtype = (det_dtype)x->dtype;
    det_tensor view = cut(x, index, dim);
    struct rows from = {0}, at = {0}, to = {0};
    int rc = rows_read(&at, index, dim, DET_I64);
    if (!rc) rc = check_index_range(n, at.data, at.n_rows * at.n, x->ndim ? x->shape[dim] : 1);
    if (!rc) rc = rows_read(&from, &view, dim, dtype);
    if (!rc) rc = rows_write(&to, out, dim, dtype);
    if (!rc) gather_rows(&from, &at, &to, dtype_size(dtype));
    rows_done(&from);
    rows_done(&at);
    rows_done(&to);
    return rc;
}

// out[r][index[r][i]] += src[r][i], exactly in f64 or i64.
static int scatter_into(const struct node *n, det_tensor *out, det_tensor *index, int dim,
                        det_tensor *src)
{
    det_dtype dtype = dtype_is_float((det_dtype)out->dtype) ? DET_F64 : DET_I64;
    det_tensor view = cut(out, index, dim), src_view = cut(src, index, -1);
    struct rows to = {0}, at = {0}, from = {0};
    int rc = rows_read(&at, index, dim, DET_I64);
    if (!rc) rc = check_index_range(n, at.data, at.n_rows * at.n, out->ndim ? out->shape[dim] : 1);
    if (!rc) rc = rows_read(&from, &src_view, dim, dtype);
    if (!rc) rc = rows_update(&to, &view, dim, dtype);
    for (int64_t i = 0; !rc && i < at.n_rows * at.n; i++) {
        int64_t place = i / at.n * to.n + ((const int64_t *)at.data)[i];
        if (dtype == DET_F64)
            ((double *)to.data)[place] += ((const double *)from.data)[i];
        else
            ((uint64_t *)to.data)[place] += ((const uint64_t *)from.data)[i];
    }
    if (rc) to.write = NULL;
    rows_done(&to);
    rows_done(&at);
    rows_done(&from);
    return rc;
}

static int gather_forward(struct node *n)
{
    return gather_into(n, n->in[0], n->in[1], (int)*NODE_ATTR(n, int64_t), n->out[0]);
}

static int gather_backward(struct node *n)
{
    det_tensor *gx = tensor_new_like(n->in[0]);
    if (!gx) return DET_ENOMEM;
    memset(gx->data, 0, gx->storage->n_bytes);
    int rc = scatter_into(n, gx, n->in[1], (int)*NODE_ATTR(n, int64_t), out_grad(n, 0));
    give_grad(n, 0, gx);
    return rc;
}

static const char *const gather_cases[] = {
    "x:f[a,B,c] i:iB[a,4,c]; dim=1; x.gather(1, i)", "x:f[A,B] i:iA[2,3]; dim=0; x.gather(0, i)",
    "x:f[A,B] i:iB[4,20]; dim=-1; x.gather(-1, i)",  "x:i9[a,B] i:iB[a,4]; dim=1; x.gather(1, i)",
    "x:b[a,B] i:iB[a,4]; dim=1; x.gather(1, i)",     "x:f[] i:i1[]; dim=0; x.gather(0, i)",
    "x:f[a,B] i:iB[0,4]; dim=1; x.gather(1, i)",     NULL};
const struct op op_gather = {.name = "gather",
                             .min_in = 2,
                             .max_in = 2,
                             .saves_in = 2,
                             .infer = gather_infer,
                             .forward = gather_forward,
                             .backward = gather_backward,
                             .attrs = dim_attrs,
                             .cases = gather_cases};

det_tensor *det_gather(det_tensor *x, int dim, det_tensor *index)
{
    int64_t d = dim;
    return OP_APPLY(&op_gather, d, x, as_index(index));
}

static int scatter_add_infer(struct node *n)
{
    const det_tensor *x = n->in[0], *index = n->in[1], *src = n->in[2];
    int64_t *dim = NODE_ATTR(n, int64_t);
    int d, rc = want_index(n, 1);
    if (!rc) rc = node_dim(n, *dim, x->ndim, &d);
    if (!rc) rc = fits_index(n, x, index, d);
    if (!rc) rc = fits_index(n, src, index, -1);
    if (rc) return rc;
    if (x->dtype != src->dtype)
        return node_fail(n, DET_EDTYPE, "input is %s, source %s; both must be of one type",
                         det_dtype_name((det_dtype)x->dtype),
                         det_dtype_name((det_dtype)src->dtype));
    *dim = d;
    return node_out(n, (det_dtype)x->dtype, x->shape, x->ndim);
}

static int scatter_add_forward(struct node *n)
{
    ew_copy(n->out[0], n->in[0]);
    return scatter_into(n, n->out[0], n->in[1], (int)*NODE_ATTR(n, int64_t), n->in[2]);
}

static int scatter_add_backward(struct node *n)
{
    det_tensor *g = out_grad(n, 0), *index = n->in[1];
    int rc = 0;
    if (wants_grad(n, 2)) {
        det_tensor *gs = tensor_new((det_dtype)g->dtype, n->in[2]->shape, n->in[2]->ndim);
        if (!gs) return DET_ENOMEM;
        memset(gs->data, 0, gs->storage->n_bytes);
        det_tensor view = cut(gs, index, -1);
        rc = gather_into(n, g, index, (int)*NODE_ATTR(n, int64_t), &view);
        give_grad(n, 2, gs);
    }
    if (wants_grad(n, 0)) give_grad(n, 0, tensor_ref(g));
    return rc;
}

static const char *const scatter_add_cases[] = {
    "x:f[a,B,c] i:iB[a,4,c] s:f[a,4,c]; dim=1; x.scatter_add(1, i, s)",
    "x:f[A,B] i:iA[3,2] s:f[3,2]; dim=0; x.scatter_add(0, i, s)",
    "x:i9[a,B] i:iB[a,4] s:i9[a,4]; dim=-1; x.scatter_add(-1, i, s)",
    "x:f[a,2] i:i2[a,30] s:f[a,30]; dim=1; x.scatter_add(1, i, s)", NULL};
const struct op op_scatter_add = {.name = "scatter_add",
                                  .min_in = 3,
                                  .max_in = 3,
                                  .saves_in = 2,
                                  .infer = scatter_add_infer,
                                  .forward = scatter_add_forward,
                                  .backward = scatter_add_backward,
                                  .attrs = dim_attrs,
                                  .cases = scatter_add_cases};

det_tensor *det_scatter_add(det_tensor *x, int dim, det_tensor *index, det_tensor *src)
{
    int64_t d = dim;
    return OP_APPLY(&op_scatter_add, d, x, as_index(index), src);
}

// --- one_hot

static const struct attr_field one_hot_attrs[] = {{"n_classes", ATTR_INT, 0}, {NULL, 0, 0}};

static int one_hot_infer(struct node *n)
{
    const det_tensor *index = n->in[0];
    int64_t n_classes = *NODE_ATTR(n, int64_t), shape[DET_MAX_DIMS + 1];
    int rc = want_index(n, 0);
    if (rc) return rc;
    if (n_classes < 1)
        return node_fail(n, DET_EINVAL, "n_classes is %lld, wants 1 or more", (long long)n_classes);
    memcpy(shape, index->shape, sizeof index->shape);
    shape[index->ndim] = n_classes;
    return node_out(n, DET_I64, shape, index->ndim + 1);
}

static int one_hot_forward(struct node *n)
{
    int64_t n_classes = *NODE_ATTR(n, int64_t), *out = n->out[0]->data;
    det_tensor *index = tensor_row_major(n->in[0]);
    if (!index) return DET_ENOMEM;
    const int64_t *at = index->data;
    int rc = check_index_range(n, at, index->numel, n_classes);
    memset(out, 0, n->out[0]->storage->n_bytes);
    for (int64_t i = 0; !rc && i < index->numel; i++)
        out[i * n_classes + at[i]] = 1;
    tensor_release(index);
    return rc;
}

static const char *const one_hot_cases[] = {"i:iB[a,b]; n_classes=B; F.one_hot(i, B)",
                                            "i:i3[]; n_classes=4; F.one_hot(i, 4)", NULL};
const struct op op_one_hot = {.name = "one_hot",
                              .min_in = 1,
                              .max_in = 1,
                              .infer = one_hot_infer,
                              .forward = one_hot_forward,
                              .attrs = one_hot_attrs,
                              .cases = one_hot_cases};

det_tensor *det_one_hot(det_tensor *index, int64_t n_classes)
{
    if (n_classes == -1 && det_numel(index) > 0) n_classes = (int64_t)det_item(det_max(index)) + 1;
    return OP_APPLY(&op_one_hot, n_classes, as_index(index));
}
