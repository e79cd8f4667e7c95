// tests/support/loading.h: datasets whose samples can be recognised, and batches as lists of
// numbers.
#pragma once

#include "support/tensors.h"

#include "det/data.h"

enum { LOADING_MAX = 4096 };

// (i f32, i): the user's kind of dataset. Sample `broken` fails.
struct counting {
    int64_t n, broken;
};

static inline int64_t counting_length(void *self)
{
    return ((struct counting *)self)->n;
}

static inline det_value *counting_item(void *self, int64_t index, const det_draw *draw,
                                       det_err *err)
{
    (void)draw;
    if (index == ((struct counting *)self)->broken) {
        det_fail(err, DET_EIO, "'file-%lld.jpg' is broken", (long long)index);
        return NULL;
    }
    det_value *v = det_value_tuple();
    det_value_push(v, det_value_tensor(det_full(DET_F32, DET_SCALAR, (double)index)));
    det_value_push(v, det_value_int(index));
    return v;
}

static const det_dataset_ops counting_ops = {
    .length = counting_length, .item = counting_item, .free = free};

static inline det_dataset *counting_dataset(int64_t n, int64_t broken)
{
    struct counting *c = malloc(sizeof *c);
    *c = (struct counting){.n = n, .broken = broken};
    return det_dataset_new(&counting_ops, c);
}

// The same samples, from tensors in memory.
static inline det_dataset *counting_tensors(int64_t n)
{
    det_tensor *x = det_arange(DET_F32, 0, (double)n, 1), *y = det_arange(DET_I64, 0, (double)n, 1);
    return det_dataset_tensors((det_tensor *const[]){x, y}, 2);
}

// What came out of an iterator: the numbers of all samples, and the sizes of the batches.
struct heard {
    int64_t index[LOADING_MAX], size[LOADING_MAX];
    int n, n_batches;
};

static inline void hear_batch(struct heard *h, const det_value *batch)
{
    const float *x = det_data_f32(det_batch_at(batch, 0));
    const int64_t *y = det_data_i64(det_batch_at(batch, 1));
    int64_t n = det_batch_length(batch, NULL);
    h->size[h->n_batches++] = n;
    for (int64_t i = 0; i < n && h->n < LOADING_MAX; i++) {
        assert_int_equal((int64_t)x[i], y[i]);
        h->index[h->n++] = y[i];
    }
}

// Up to max batches.
static inline void hear(struct heard *h, det_iter *it, int max)
{
    det_err err;
    const det_value *batch;
    *h = (struct heard){0};
    while (h->n_batches < max && (batch = det_iter_next(it, &err)))
        hear_batch(h, batch);
    if (h->n_batches < max && err.code) fail_msg("%s", err.msg);
}

// Indices of all batches, in order.
#define assert_heard(h, ...)                                    \
    do {                                                        \
        const int64_t heard_[] = {__VA_ARGS__};                 \
        assert_int_equal((h)->n, N_OF(heard_));                 \
        assert_memory_equal((h)->index, heard_, sizeof heard_); \
    } while (0)

#define assert_same(a, b)                                                              \
    do {                                                                               \
        assert_int_equal((a)->n, (b)->n);                                              \
        assert_memory_equal((a)->index, (b)->index, (size_t)(a)->n * sizeof(int64_t)); \
    } while (0)
