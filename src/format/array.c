// Unit array.c: row-major tensors to and from bytes. Called by safetensors.c and npy.c.
#include "format/array.h"

#include "base/assert.h"

int64_t array_bytes(det_dtype dtype, const int64_t *shape, int ndim)
{
    static const int64_t no_stride[DET_MAX_DIMS];
    if (tensor_extent(shape, no_stride, ndim) < 0) return -1;
    int64_t n = (int64_t)det_dtype_size(dtype);
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    return n;
}

void array_strides(struct tensor_layout *layout, bool column_major)
{
    int64_t stride = 1;
    for (int i = 0; i < layout->ndim; i++) {
        int d = column_major ? i : layout->ndim - 1 - i;
        layout->stride[d] = stride;
        stride *= MAX(layout->shape[d], 1);
    }
}

void array_normalise(det_dtype dtype, void *data, size_t n_bytes)
{
    unsigned char *flag = data;
    for (size_t i = 0; dtype == DET_BOOL && i < n_bytes; i++)
        flag[i] = flag[i] != 0;
}

det_tensor *array_read(const struct tensor_layout *layout, const char *bytes, det_err *err)
{
    size_t n_bytes = (size_t)array_bytes(layout->dtype, layout->shape, layout->ndim);
    struct storage *s = storage_new(n_bytes);
    if (!s) {
        det_fail(err, DET_ENOMEM, "no memory for a tensor of %.1f MB", (double)n_bytes / 1e6);
        return NULL;
    }
    if (n_bytes) memcpy(storage_data(s), bytes, n_bytes);
    array_normalise(layout->dtype, storage_data(s), n_bytes);
    det_tensor *t = tensor_over(s, layout);
    storage_unref(s);
    return t;
}

const void *array_first(det_tensor *t, det_err *err)
{
    const void *first = tensor_first(t);
    if (!first && !det_check(err))
        det_fail(err, DET_ESTATE, "a tensor has no value: the operation that makes it failed");
    return first;
}

int array_write(struct fs_writer *w, det_tensor *t, det_err *err)
{
    size_t n_bytes = (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t));
    if (!n_bytes) return 0;
    det_scope_begin();
    const void *data = array_first(t, err);
    if (data && !det_is_contiguous(t)) {
        data = det_data(t);
        if (!data) det_check(err);
    }
    int rc =
        data ? fs_writer_add(w, data, n_bytes, err) : det_wrap(err, "cannot write '%s'", w->path);
    det_scope_end();
    return rc;
}
