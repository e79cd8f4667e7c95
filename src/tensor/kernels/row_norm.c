// Unit row_norm.c: normalisation along rows (layer_norm, rms_norm).
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/simd.h"
#include <math.h>

enum { SUMS = 4 }; // independent sums, to hide the latency of an addition

// Sum of (x - center) or of its square.
INLINE float row_sum(const void *x, const bool bf16, int64_t d, float center, const bool square)
{
    vf sum[SUMS] = {0};
    int64_t i = 0;
    for (; i + SUMS * LANES <= d; i += SUMS * LANES) {
        UNROLL(4)
        for (int s = 0; s < SUMS; s++) {
            vf v = vf_load_as(x, bf16, i + s * LANES) - center;
            if (square) v *= v;
            sum[s] += v;
        }
    }
    for (; i + LANES <= d; i += LANES) {
        vf v = vf_load_as(x, bf16, i) - center;
        if (square) v *= v;
        sum[0] += v;
    }
    float total = vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < d; i++) {
        float v = load_as(x, bf16, i) - center;
        total += square ? v * v : v;
    }
    return total;
}

INLINE const void *row_at(const void *base, const bool bf16, int64_t i)
{
    return bf16 ? (const void *)((const uint16_t *)base + i)
                : (const void *)((const float *)base + i);
}

INLINE void forward_as(const struct row_norm *k, const bool bf16)
{
    const int64_t d = k->d;
    const float *weight = k->weight, *bias = k->bias;
    for (int64_t r = 0; r < k->rows; r++) {
        const void *x = row_at(k->x, bf16, r * d);
        void *y = (void *)(uintptr_t)row_at(k->y, bf16, r * d);
        float mean = k->rms ? 0 : row_sum(x, bf16, d, 0, false) / (float)d;
        float rstd = 1 / sqrtf(row_sum(x, bf16, d, mean, true) / (float)d + k->eps);
        k->stats[2 * r] = mean;
        k->stats[2 * r + 1] = rstd;
        VECTOR_LOOP
        for (int64_t i = 0; i < d; i++)
            store_as(y, bf16, i, (load_as(x, bf16, i) - mean) * rstd * weight[i] + bias[i]);
    }
}

void KERNEL(row_norm_forward)(const struct row_norm *k)
{
    if (k->bf16)
        forward_as(k, true);
    else
        forward_as(k, false);
}

// With h the normalised row: adds g and g * h to the gradients of bias and weight; returns the sums
// of g * weight and of g * weight * h.
INLINE void row_grad_sums(const struct row_norm *k, const bool bf16, int64_t r, float *sum,
                          float *sum_h)
{
    const int64_t d = k->d;
    const float *w = k->weight, mean = k->stats[2 * r], rstd = k->stats[2 * r + 1];
    const void *x = row_at(k->x, bf16, r * d), *g = row_at(k->g, bf16, r * d);
    float *gw = k->g_weight, *gb = k->g_bias;
    vf total = {0}, total_h = {0};
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES) {
        vf gi = vf_load_as(g, bf16, i), h = (vf_load_as(x, bf16, i) - mean) * rstd;
        vf_store(gw + i, vf_load(gw + i) + gi * h);
        vf_store(gb + i, vf_load(gb + i) + gi);
        vf gwi = gi * vf_load(w + i);
        total += gwi;
        total_h += gwi * h;
    }
    *sum = vf_sum(total);
    *sum_h = vf_sum(total_h);
    for (; i < d; i++) {
        float gi = load_as(g, bf16, i), h = (load_as(x, bf16, i) - mean) * rstd;
        gw[i] += gi * h;
        gb[i] += gi;
        *sum += gi * w[i];
        *sum_h += gi * w[i] * h;
    }
}

INLINE void backward_as(const struct row_norm *k, const bool bf16)
{
    const int64_t d = k->d;
    const float *w = k->weight;
    for (int64_t r = 0; r < k->rows; r++) {
        float sum, sum_h;
        row_grad_sums(k, bf16, r, &sum, &sum_h);
        if (!k->gx) continue;
        const float mean = k->stats[2 * r], rstd = k->stats[2 * r + 1];
        const float shift = k->rms ? 0 : sum / (float)d, slope = sum_h / (float)d;
        const void *x = row_at(k->x, bf16, r * d), *g = row_at(k->g, bf16, r * d);
        void *gx = (void *)(uintptr_t)row_at(k->gx, bf16, r * d);
        VECTOR_LOOP
        for (int64_t i = 0; i < d; i++) {
            float h = (load_as(x, bf16, i) - mean) * rstd;
            store_as(gx, bf16, i, (load_as(g, bf16, i) * w[i] - shift - h * slope) * rstd);
        }
    }
}

void KERNEL(row_norm_backward)(const struct row_norm *k)
{
    if (k->bf16)
        backward_as(k, true);
    else
        backward_as(k, false);
}
