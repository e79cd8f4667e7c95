// Unit flat.c: moves parameters and their gradients into two blocks, so that an optimizer, a norm
// or an all-reduce is one loop over memory instead of one per tensor.
#include "tensor/node.h"

static int64_t padded(int64_t n)
{
    return (n + TENSOR_FLAT_ALIGN - 1) / TENSOR_FLAT_ALIGN * TENSOR_FLAT_ALIGN;
}

static void adopt(det_tensor *t, struct storage *s, float *at)
{
    struct storage *old = t->storage;
    memcpy(at, t->data, (size_t)t->numel * sizeof *at);
    t->storage = s;
    t->data = at;
    s->refs++;
    storage_unref(old);
}

static det_tensor *grad_over(det_tensor *t, struct storage *s, float *at)
{
    det_tensor *g = header_new();
    g->dtype = t->dtype;
    g->ndim = t->ndim;
    memcpy(g->shape, t->shape, sizeof g->shape);
    memcpy(g->stride, t->stride, sizeof g->stride);
    g->numel = t->numel;
    g->storage = s;
    g->data = at;
    s->refs++;
    return g;
}

int flat_init(struct flat *flat, det_tensor *const *t, int n, det_err *err)
{
    *flat = (struct flat){0};
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        tensor_finish(t[i]);
        if (t[i]->dtype != DET_F32 || !tensor_is_row_major(t[i]))
            return det_fail(err, DET_EDTYPE, "parameter %d %s is not contiguous f32", i,
                            TENSOR_TEXT(t[i]));
        total += padded(t[i]->numel);
    }
    size_t bytes = (size_t)total * sizeof(float);
    flat->value_storage = storage_new(bytes);
    flat->grad_storage = storage_new(bytes);
    if (!flat->value_storage || !flat->grad_storage) {
        flat_done(flat);
        return det_fail(err, DET_ENOMEM, "no memory for %lld parameters", (long long)total);
    }
    flat->value = flat->value_storage->data;
    flat->grad = flat->grad_storage->data;
    flat->n_elements = total;
    flat->offset = xcalloc((size_t)n + 1, sizeof *flat->offset);
    memset(flat->value, 0, bytes);
    memset(flat->grad, 0, bytes);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        flat->offset[i] = at;
        adopt(t[i], flat->value_storage, flat->value + at);
        tensor_release(t[i]->grad);
        t[i]->grad = grad_over(t[i], flat->grad_storage, flat->grad + at);
        t[i]->grad_valid = false;
        at += padded(t[i]->numel);
    }
    flat->offset[n] = at;
    return 0;
}

void flat_done(struct flat *flat)
{
    if (!flat) return;
    storage_unref(flat->value_storage);
    storage_unref(flat->grad_storage);
    free(flat->offset);
    *flat = (struct flat){0};
}

bool flat_memory(const det_tensor *t, float **value, float **grad)
{
    if (!t->grad_valid) return false;
    *value = t->data;
    *grad = t->grad->data;
    return true;
}
