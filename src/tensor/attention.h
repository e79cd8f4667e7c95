// tensor/attention.h: one call of attention on memory. Private to the layer.
#pragma once

#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

struct attention_attr {
    double scale, dropout;
    bool causal;
    uint64_t seed, stream; // of dropout
};

// q (batch..., queries, d), k (batch..., keys, d), v and out (batch..., keys or queries, e); last
// dims are dense. Gradients have the shapes of what they belong to; g is that of out.
struct attention {
    const struct attention_attr *attr;
    int64_t n_batch, queries, keys, d, e;
    det_tensor *q, *k, *v, *out;
    det_tensor *mask; // bool or as computed; broadcasts, but has all keys; NULL: none
    det_tensor *rows; // f32 (2, n_batch, queries): largest and sum of struct attention_rows
    det_tensor *g, *gq, *gk, *gv;
    det_tensor *g_mask; // (batch..., queries, keys) or NULL
};

// Offset of a batch item, in elements, in a tensor whose batch dims broadcast to those of q.
int64_t attention_offset(const struct attention *a, const det_tensor *t, int64_t batch);
int64_t attention_mask_stride(const struct attention *a); // from one query to the next
struct attention_dropout attention_dropout_of(const struct attention *a);

// Fill out and rows (not in f64); fill gq, gk, gv and g_mask. No size may be 0. 0 or DET_ENOMEM.
int attention_forward_hot(const struct attention *a); // f32 and bf16
int attention_backward_hot(const struct attention *a);
int attention_forward_f64(const struct attention *a);
int attention_backward_f64(const struct attention *a);
