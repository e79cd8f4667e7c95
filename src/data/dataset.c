// Unit dataset.c: datasets as such, those of the user, and samples made of columns.
#include "data/dataset.h"

#include "base/assert.h"
#include "base/mem.h"
#include "data/stack.h"
#include "tensor/tensor.h"

// --- columns

void column_init(struct column *c, det_dtype dtype, const int64_t *shape, int ndim)
{
    ASSERT(ndim < DET_MAX_DIMS);
    *c = (struct column){.dtype = dtype, .ndim = ndim, .row_bytes = det_dtype_size(dtype)};
    for (int i = 0; i < ndim; i++) {
        c->shape[i] = shape[i];
        c->row_bytes *= (size_t)shape[i];
    }
}

det_value *columns_new_batch(const struct column *columns, int n_columns, int64_t n, det_err *err)
{
    det_value *batch = det_value_tuple();
    for (int i = 0; i < n_columns; i++) {
        const struct column *c = &columns[i];
        det_value *v = stack_new_tensor(c->dtype, n, c->shape, c->ndim, err);
        if (!v) {
            det_value_free(batch);
            return NULL;
        }
        det_value_push(batch, v);
    }
    return batch;
}

void columns_memory(const det_value *batch, int n_columns, char **out)
{
    for (int i = 0; i < n_columns; i++)
        out[i] = tensor_memory(det_value_as_tensor(det_value_at(batch, i)));
}

static det_value *item_of_columns(const det_dataset *d, int64_t index)
{
    det_value *sample = det_value_tuple();
    char *out[DATASET_MAX_COLUMNS];
    for (int i = 0; i < d->n_columns; i++) {
        const struct column *c = &d->columns[i];
        det_tensor *t = det_empty(c->dtype, c->shape, c->ndim);
        if (!t) {
            det_value_free(sample);
            return NULL;
        }
        out[i] = tensor_memory(t);
        det_value_push(sample, det_value_tensor(t));
    }
    d->ops->gather(d, &index, 1, out, 0);
    return sample;
}

// --- any dataset

det_value *dataset_item(const det_dataset *d, int64_t index, const det_draw *draw, det_err *err)
{
    det_err own, raised;
    det_ok(&own);
    det_scope_begin();
    det_value *v = d->n_columns ? item_of_columns(d, index) : d->ops->item(d, index, draw, &own);
    if (det_check(&raised)) {
        det_value_free(v);
        v = NULL;
        if (!own.code) own = raised;
    }
    det_scope_end();
    if (v) return v;
    if (own.code)
        det_fail(err, own.code, "%s", own.msg);
    else
        det_fail(err, DET_EINVAL, "the dataset gave no sample and no reason");
    return NULL;
}

det_value *det_dataset_item(const det_dataset *d, int64_t index, const det_draw *draw, det_err *err)
{
    static const det_draw none;
    if (!d) {
        det_fail(err, DET_EINVAL, "det_dataset_item: the dataset is NULL");
        return NULL;
    }
    if (index < 0 || index >= d->length) {
        det_fail(err, DET_EINVAL, "sample %lld of a dataset of %lld", (long long)index,
                 (long long)d->length);
        return NULL;
    }
    det_value *v = dataset_item(d, index, draw ? draw : &none, err);
    if (!v) det_wrap(err, "sample %lld", (long long)index);
    return v;
}

int64_t det_dataset_length(const det_dataset *d)
{
    return d ? d->length : 0;
}

void det_dataset_free(det_dataset *d)
{
    if (d) d->ops->free(d);
}

const char *det_dataset_class_name(const det_dataset *d, int64_t label)
{
    return d && d->ops->class_name ? d->ops->class_name(d, label) : NULL;
}

// --- datasets of the user

struct user_dataset {
    det_dataset base;
    det_dataset_ops ops;
    void *self;
};

static det_value *user_item(const det_dataset *d, int64_t index, const det_draw *draw, det_err *err)
{
    const struct user_dataset *u = (const struct user_dataset *)d;
    return u->ops.item(u->self, index, draw, err);
}

static void user_free(det_dataset *d)
{
    struct user_dataset *u = (struct user_dataset *)d;
    if (u->ops.free) u->ops.free(u->self);
    free(u);
}

det_dataset *det_dataset_new(const det_dataset_ops *ops, void *self)
{
    static const struct dataset_ops user_ops = {.item = user_item, .free = user_free};
    if (!ops || !ops->length || !ops->item) {
        det_raise(DET_EINVAL, "det_dataset_new: a dataset needs the functions length and item");
        if (ops && ops->free) ops->free(self);
        return NULL;
    }
    int64_t length = ops->length(self);
    if (length < 0) {
        det_raise(DET_EINVAL, "det_dataset_new: the length is %lld", (long long)length);
        if (ops->free) ops->free(self);
        return NULL;
    }
    struct user_dataset *u = xcalloc(1, sizeof *u);
    u->base = (det_dataset){.ops = &user_ops, .length = length};
    u->ops = *ops;
    u->self = self;
    return &u->base;
}
