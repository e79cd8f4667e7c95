// tensor/axes.h: the dims of a tensor with those merged that memory does not tell apart. Private to
// the layer.
#pragma once

#include "tensor/node.h"

// Innermost first. A dim of size 1 is left out: nobody steps along it, so its stride says nothing.
// A dim whose stride is where the one before it ends continues that one: both are one axis.
struct axes {
    int n;
    int64_t size[DET_MAX_DIMS], stride[DET_MAX_DIMS];
};

// The next dim outwards.
static inline void axes_add(struct axes *a, int64_t size, int64_t stride)
{
    if (size == 1) return;
    int top = a->n - 1;
    if (a->n && stride == a->stride[top] * a->size[top]) {
        a->size[top] *= size;
        return;
    }
    a->size[a->n] = size;
    a->stride[a->n++] = stride;
}

// Dims [from, to) of t, from the last to the first.
static inline void axes_add_dims(struct axes *a, const det_tensor *t, int from, int to)
{
    for (int d = to - 1; d >= from; d--)
        axes_add(a, t->shape[d], t->stride[d]);
}

// Whether the first n dims of t, taken in order, are steps of one stride. Where there is only one
// step, the stride says nothing.
static inline bool leading_dims_merge(const det_tensor *t, int n, int64_t *stride)
{
    *stride = t->stride[0];
    if (n <= 1) return true;
    struct axes a;
    a.n = 0;
    axes_add_dims(&a, t, 0, n);
    if (a.n) *stride = a.stride[0];
    return a.n <= 1;
}
