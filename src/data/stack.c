// Unit stack.c: the tree of a batch from the trees of its samples. Called by fill.c.
#include "data/stack.h"

#include "base/assert.h"
#include "tensor/tensor.h"

det_value *stack_new_tensor(det_dtype dtype, int64_t n, const int64_t *shape, int ndim,
                            det_err *err)
{
    struct tensor_layout layout = {.dtype = dtype, .ndim = ndim + 1, .shape[0] = n};
    if (ndim >= DET_MAX_DIMS) {
        det_fail(err, DET_ESHAPE, "a sample of %d dims cannot be stacked: a tensor has at most %d",
                 ndim, DET_MAX_DIMS);
        return NULL;
    }
    int64_t stride = 1;
    for (int i = ndim; i-- > 0;) {
        layout.shape[i + 1] = shape[i];
        layout.stride[i + 1] = stride;
        stride *= shape[i] ? shape[i] : 1;
    }
    layout.stride[0] = stride;
    int64_t extent = tensor_extent(layout.shape, layout.stride, layout.ndim);
    size_t n_bytes = extent > 0 ? (size_t)extent * det_dtype_size(dtype) : 0;
    struct storage *s = extent < 0 ? NULL : storage_new(n_bytes);
    if (!s) {
        det_fail(err, DET_ENOMEM, "no memory for a batch of %lld samples (%.1f MB)", (long long)n,
                 (double)n_bytes / 1e6);
        return NULL;
    }
    det_tensor *t = tensor_over(s, &layout);
    det_value *v = det_value_tensor(t);
    det_unref(t);
    storage_unref(s);
    return v;
}

static bool is_container(det_kind kind)
{
    return kind == DET_KIND_LIST || kind == DET_KIND_TUPLE || kind == DET_KIND_DICT;
}

// Adds under the key, if any, that the index-th item of like has.
static void add_like(det_value *to, const det_value *like, int index, det_value *item)
{
    int64_t number;
    const char *key = det_value_key(like, index, &number);
    if (det_value_kind(like) != DET_KIND_DICT)
        det_value_push(to, item);
    else if (key)
        det_value_set(to, key, item);
    else
        det_value_set_int(to, number, item);
}

static det_value *new_container(const det_value *first, int64_t n, det_err *err)
{
    det_kind kind = det_value_kind(first);
    det_value *batch = kind == DET_KIND_DICT    ? det_value_dict()
                       : kind == DET_KIND_TUPLE ? det_value_tuple()
                                                : det_value_list();
    for (int i = 0; i < det_value_len(first); i++) {
        det_value *item = stack_new(det_value_at(first, i), n, err);
        if (!item) {
            det_value_free(batch);
            return NULL;
        }
        add_like(batch, first, i, item);
    }
    return batch;
}

// The type of tensor that numbers of a kind are stacked to.
static det_dtype dtype_of_kind(det_kind kind)
{
    return kind == DET_KIND_INT ? DET_I64 : kind == DET_KIND_FLOAT ? DET_F32 : DET_BOOL;
}

det_value *stack_new(const det_value *first, int64_t n, det_err *err)
{
    det_kind kind = det_value_kind(first);
    det_tensor *t = det_value_as_tensor(first);
    if (is_container(kind)) return new_container(first, n, err);
    if (kind == DET_KIND_NONE) return det_value_none();
    if (kind == DET_KIND_STR) return det_value_list();
    if (t) return stack_new_tensor(det_dtype_of(t), n, det_shape(t), det_ndim(t), err);
    return stack_new_tensor(dtype_of_kind(kind), n, DET_SCALAR, err);
}

// --- using a batch again

static bool tensor_fits(const det_tensor *batch, det_dtype dtype, int64_t n, const int64_t *shape,
                        int ndim)
{
    if (!batch || det_dtype_of(batch) != dtype || det_ndim(batch) != ndim + 1) return false;
    if (det_shape(batch)[0] != n) return false;
    return !ndim || !memcmp(det_shape(batch) + 1, shape, (size_t)ndim * sizeof *shape);
}

// The item of other that stands where the index-th item of like does.
static det_value *item_like(const det_value *other, const det_value *like, int index)
{
    int64_t number;
    const char *key = det_value_key(like, index, &number);
    if (det_value_kind(like) != DET_KIND_DICT) return det_value_at(other, index);
    return key ? det_value_get(other, key) : det_value_get_int(other, number);
}

bool stack_fits(const det_value *batch, const det_value *first, int64_t n)
{
    det_kind kind = det_value_kind(first);
    det_tensor *of_batch = det_value_as_tensor(batch), *t = det_value_as_tensor(first);
    if (t) return tensor_fits(of_batch, det_dtype_of(t), n, det_shape(t), det_ndim(t));
    if (kind == DET_KIND_STR) return false;
    if (kind == DET_KIND_NONE) return batch && det_value_kind(batch) == DET_KIND_NONE;
    if (!is_container(kind)) return tensor_fits(of_batch, dtype_of_kind(kind), n, DET_SCALAR);
    if (det_value_kind(batch) != kind || det_value_len(batch) != det_value_len(first)) return false;
    for (int i = 0; i < det_value_len(first); i++)
        if (!stack_fits(item_like(batch, first, i), det_value_at(first, i), n)) return false;
    return true;
}

bool stack_reusable(const det_value *batch)
{
    det_tensor *t = det_value_as_tensor(batch);
    if (t) return tensor_reusable(t);
    for (int i = 0; i < det_value_len(batch); i++)
        if (!stack_reusable(det_value_at(batch, i))) return false;
    return true;
}

// --- filling

static int unlike(const det_value *first, const det_value *sample, det_err *err)
{
    char a[192], b[192];
    det_tensor *of_first = det_value_as_tensor(first), *t = det_value_as_tensor(sample);
    if (!t || !of_first)
        return det_fail(err, DET_ESHAPE,
                        "a %s of %d items where the first sample of the batch has a "
                        "%s of %d",
                        det_kind_name(det_value_kind(sample)), det_value_len(sample),
                        det_kind_name(det_value_kind(first)), det_value_len(first));
    return det_fail(err, DET_ESHAPE, "a tensor %s where the first sample of the batch has one %s",
                    det_describe(t, a, sizeof a), det_describe(of_first, b, sizeof b));
}

static int put_tensor(det_tensor *batch, det_tensor *sample, int64_t row, det_err *err)
{
    size_t row_bytes = (size_t)det_numel(sample) * det_dtype_size(det_dtype_of(sample));
    const void *data = det_data(sample);
    if (!row_bytes) return 0;
    if (!data) return det_check(err);
    memcpy((char *)tensor_memory(batch) + row * (int64_t)row_bytes, data, row_bytes);
    return 0;
}

static void put_number(det_tensor *batch, const det_value *sample, int64_t row)
{
    void *memory = tensor_memory(batch);
    int64_t i = 0;
    double f = 0;
    bool b = false;
    switch (det_value_kind(sample)) {
    case DET_KIND_INT:
        det_value_as_int(sample, &i, NULL);
        ((int64_t *)memory)[row] = i;
        break;
    case DET_KIND_FLOAT:
        det_value_as_float(sample, &f, NULL);
        ((float *)memory)[row] = (float)f;
        break;
    default:
        det_value_as_bool(sample, &b, NULL);
        ((uint8_t *)memory)[row] = b;
    }
}

static int put_items(det_value *batch, const det_value *first, const det_value *sample, int64_t row,
                     det_err *err)
{
    for (int i = 0; i < det_value_len(first); i++) {
        int64_t number;
        const char *key = det_value_key(first, i, &number);
        int rc = stack_put(item_like(batch, first, i), det_value_at(first, i),
                           item_like(sample, first, i), row, err);
        if (!rc) continue;
        if (key) return det_wrap(err, "['%s']", key);
        return det_wrap(err, "[%lld]",
                        det_value_kind(first) == DET_KIND_DICT ? (long long)number : i);
    }
    return 0;
}

int stack_put(det_value *batch, const det_value *first, const det_value *sample, int64_t row,
              det_err *err)
{
    det_kind kind = det_value_kind(first);
    det_tensor *t = det_value_as_tensor(sample), *of_first = det_value_as_tensor(first);
    const char *text;
    if (det_value_kind(sample) != kind || det_value_len(sample) != det_value_len(first))
        return unlike(first, sample, err);
    if (t) {
        if (det_dtype_of(t) != det_dtype_of(of_first) || !same_shape(t, of_first))
            return unlike(first, sample, err);
        return put_tensor(det_value_as_tensor(batch), t, row, err);
    }
    if (is_container(kind)) return put_items(batch, first, sample, row, err);
    if (kind == DET_KIND_STR && !det_value_as_str(sample, &text, NULL))
        det_value_push(batch, det_value_str(text));
    else if (kind != DET_KIND_NONE)
        put_number(det_value_as_tensor(batch), sample, row);
    return 0;
}
