// Unit channel_norm.c: normalisation per channel (batch_norm, group_norm), channels fastest in
// memory. The sums over rows are kept in memory, one per channel: they stay in the first-level
// cache, while the rows stream by.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/simd.h"

// --- statistics

INLINE void stats_as(const void *x, const bool bf16, int64_t rows, int64_t c, float *mean,
                     float *m2)
{
    memset(mean, 0, (size_t)c * sizeof *mean);
    memset(m2, 0, (size_t)c * sizeof *m2);
    for (int64_t r = 0; r < rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++)
            mean[j] += load_as(x, bf16, r * c + j);
    }
    const float n = (float)rows;
    for (int64_t j = 0; j < c; j++)
        mean[j] /= n;
    for (int64_t r = 0; r < rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            float d = load_as(x, bf16, r * c + j) - mean[j];
            m2[j] += d * d;
        }
    }
}

// Mean of each channel and sum of squared distances from it. Meant for blocks that fit the cache:
// it reads them twice.
void KERNEL(channel_stats)(const void *x, bool bf16, int64_t rows, int64_t c, float *mean,
                           float *m2)
{
    if (bf16)
        stats_as(x, true, rows, c, mean, m2);
    else
        stats_as(x, false, rows, c, mean, m2);
}

// --- forward

INLINE void forward_as(const struct channel_norm *from, const bool bf16, const bool relu,
                       const bool add)
{
    const struct channel_norm k = *from; // a copy: no store below can seem to change it
    const int64_t c = k.c;
    for (int64_t r = 0; r < k.rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            const int64_t i = r * c + j;
            float v = (load_as(k.x, bf16, i) - k.mean[j]) * k.scale[j] + k.bias[j];
            if (add) v += load_as(k.skip, bf16, i);
            if (relu) v = v > 0 || v != v ? v : 0;
            store_as(k.y, bf16, i, v);
        }
    }
}

// --- backward

// Gradient before the relu. Without skip the sign is found again from x, so y need not be read.
INLINE float grad_at(const struct channel_norm *k, const bool bf16, const bool relu, const bool add,
                     int64_t i, int64_t j)
{
    float g = load_as(k->g, bf16, i);
    if (!relu) return g;
    float y = add ? load_as(k->y, bf16, i)
                  : (load_as(k->x, bf16, i) - k->mean[j]) * k->scale[j] + k->bias[j];
    return y > 0 ? g : 0;
}

INLINE void sums_as(const struct channel_norm *from, const bool bf16, const bool relu,
                    const bool add, float *sum_g, float *sum_gx)
{
    const struct channel_norm k = *from;
    const int64_t c = k.c;
    memset(sum_g, 0, (size_t)c * sizeof *sum_g);
    memset(sum_gx, 0, (size_t)c * sizeof *sum_gx);
    for (int64_t r = 0; r < k.rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            const int64_t i = r * c + j;
            float g = grad_at(&k, bf16, relu, add, i, j);
            if (add) store_as(k.g_skip, bf16, i, g);
            sum_g[j] += g;
            sum_gx[j] += g * (load_as(k.x, bf16, i) - k.mean[j]);
        }
    }
}

INLINE void backward_as(const struct channel_norm *from, const bool bf16, const bool relu)
{
    const struct channel_norm k = *from;
    const int64_t c = k.c;
    for (int64_t r = 0; r < k.rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            const int64_t i = r * c + j;
            float g = grad_at(&k, bf16, relu, false, i, j), d = load_as(k.x, bf16, i) - k.mean[j];
            store_as(k.gx, bf16, i, g * k.scale[j] + k.shift[j] + k.slope[j] * d);
        }
    }
}

// --- by case

void KERNEL(channel_forward)(const struct channel_norm *k)
{
    switch (4 * k->bf16 + 2 * k->relu + (k->skip != NULL)) {
    case 0:
        forward_as(k, false, false, false);
        break;
    case 1:
        forward_as(k, false, false, true);
        break;
    case 2:
        forward_as(k, false, true, false);
        break;
    case 3:
        forward_as(k, false, true, true);
        break;
    case 4:
        forward_as(k, true, false, false);
        break;
    case 5:
        forward_as(k, true, false, true);
        break;
    case 6:
        forward_as(k, true, true, false);
        break;
    case 7:
        forward_as(k, true, true, true);
        break;
    }
}

// Sums of g and of g * (x - mean) over the rows; with g_skip, writes it too.
void KERNEL(channel_sums)(const struct channel_norm *k, float *sum_g, float *sum_gx)
{
    switch (3 * k->bf16 + k->relu + (k->g_skip != NULL)) { // g_skip comes with relu only
    case 0:
        sums_as(k, false, false, false, sum_g, sum_gx);
        break;
    case 1:
        sums_as(k, false, true, false, sum_g, sum_gx);
        break;
    case 2:
        sums_as(k, false, true, true, sum_g, sum_gx);
        break;
    case 3:
        sums_as(k, true, false, false, sum_g, sum_gx);
        break;
    case 4:
        sums_as(k, true, true, false, sum_g, sum_gx);
        break;
    case 5:
        sums_as(k, true, true, true, sum_g, sum_gx);
        break;
    }
}

void KERNEL(channel_backward)(const struct channel_norm *k)
{
    if (k->bf16 && k->relu)
        backward_as(k, true, true);
    else if (k->bf16)
        backward_as(k, true, false);
    else if (k->relu)
        backward_as(k, false, true);
    else
        backward_as(k, false, false);
}
