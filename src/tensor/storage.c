// Unit storage.c: tensors seen as views of blocks of memory. For the file formats.
#include "tensor/node.h"

const void *tensor_first(det_tensor *t)
{
    tensor_finish(t);
    return t->data;
}

bool tensor_reusable(const det_tensor *t)
{
    return t->refs == 1 && !t->on_tape && !t->requires_grad && !t->grad && t->storage->refs == 1;
}

void *storage_data(struct storage *s)
{
    return s->data;
}

int64_t tensor_extent(const int64_t *shape, const int64_t *stride, int ndim)
{
    int64_t last = 0, count = 1;
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        int64_t step;
        if (shape[i] < 0 || stride[i] < 0) return -1;
        if (shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(count, shape[i], &count))
            return -1;
        else if (__builtin_mul_overflow(shape[i] - 1, stride[i], &step))
            return -1;
        else if (__builtin_add_overflow(last, step, &last))
            return -1;
    }
    if (count > INT64_MAX / 16 || last > INT64_MAX / 16) return -1; // in bytes it must fit too
    return empty ? 0 : last + 1;
}

det_tensor *tensor_over(struct storage *s, const struct tensor_layout *layout)
{
    int64_t extent = tensor_extent(layout->shape, layout->stride, layout->ndim);
    int64_t size = (int64_t)dtype_size(layout->dtype), room = (int64_t)s->n_bytes / size;
    ASSERT(extent >= 0 && layout->offset >= 0 && layout->offset <= room - extent);
    det_tensor *t = header_new();
    t->dtype = (uint8_t)layout->dtype;
    t->ndim = (uint8_t)layout->ndim;
    t->numel = 1;
    for (int i = 0; i < layout->ndim; i++) {
        t->shape[i] = layout->shape[i];
        t->stride[i] = layout->stride[i];
        t->numel *= layout->shape[i];
    }
    t->storage = s;
    s->refs++;
    t->data = (char *)s->data + layout->offset * size;
    return t;
}
