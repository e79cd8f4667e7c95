// Unit rows.c: lets operations along any dim be written for dense rows.
#include "tensor/rows.h"

#include "tensor/elementwise.h"

// t with dim moved behind all others; the same memory.
static det_tensor with_dim_last(const det_tensor *t, int dim)
{
    det_tensor view = *t;
    for (int d = dim; d + 1 < t->ndim; d++) {
        view.shape[d] = t->shape[d + 1];
        view.stride[d] = t->stride[d + 1];
    }
    if (t->ndim) {
        view.shape[t->ndim - 1] = t->shape[dim];
        view.stride[t->ndim - 1] = t->stride[dim];
    }
    return view;
}

// The rows as they are, or memory for a copy in the same order.
static int rows_open(struct rows *r, const det_tensor *t, int dim, det_dtype dtype)
{
    det_tensor view = with_dim_last(t, dim);
    *r = (struct rows){.data = t->data, .n = t->ndim ? t->shape[dim] : 1, .dim = dim};
    r->n_rows = r->n ? t->numel / r->n : 0;
    if (t->dtype == dtype && tensor_is_row_major(&view)) return 0;
    r->copy = tensor_new(dtype, view.shape, view.ndim);
    if (!r->copy) return DET_ENOMEM;
    r->data = r->copy->data;
    return 0;
}

int rows_read(struct rows *r, det_tensor *t, int dim, det_dtype dtype)
{
    det_tensor view = with_dim_last(t, dim);
    int rc = rows_open(r, t, dim, dtype);
    if (r->copy) ew_copy(r->copy, &view);
    return rc;
}

int rows_write(struct rows *r, det_tensor *t, int dim, det_dtype dtype)
{
    int rc = rows_open(r, t, dim, dtype);
    r->write = t;
    return rc;
}

int rows_update(struct rows *r, det_tensor *t, int dim, det_dtype dtype)
{
    int rc = rows_read(r, t, dim, dtype);
    r->write = t;
    return rc;
}

void rows_done(struct rows *r)
{
    if (r->copy && r->write) {
        det_tensor view = with_dim_last(r->write, r->dim);
        ew_copy(&view, r->copy);
    }
    tensor_release(r->copy);
    *r = (struct rows){0};
}
