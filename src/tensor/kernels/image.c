// Unit image.c: sums and maxima over windows of pixels, for all channels at once.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/simd.h"
#include <math.h>

enum { VECTORS = 4, MAX_CHANNELS = 64 }; // taken together

// nv vectors of channels from j on. Each row of the window is summed on its own, which also keeps
// the rounding error of large windows small.
INLINE void sum_vectors(const struct window *w, const bool bf16, const int nv, int64_t j, void *out)
{
    vf total[VECTORS] = {0};
    for (int64_t h = 0; h < w->n_h; h++) {
        vf row[VECTORS] = {0};
        for (int64_t k = 0; k < w->n_w; k++) {
            const float weight = (float)w->weight_w[k];
            UNROLL(4)
            for (int v = 0; v < nv; v++)
                row[v] +=
                    weight * vf_load_as(w->x, bf16, h * w->row_stride + k * w->c + j + v * LANES);
        }
        const float weight = (float)w->weight_h[h];
        UNROLL(4)
        for (int v = 0; v < nv; v++)
            total[v] += weight * row[v];
    }
    UNROLL(4)
    for (int v = 0; v < nv; v++)
        vf_store_as(out, bf16, j + v * LANES, total[v]);
}

INLINE void sum_as(const struct window *w, const bool bf16, void *out)
{
    int64_t j = 0;
    for (; j + VECTORS * LANES <= w->c; j += VECTORS * LANES)
        sum_vectors(w, bf16, VECTORS, j, out);
    for (; j + LANES <= w->c; j += LANES)
        sum_vectors(w, bf16, 1, j, out);
    for (; j < w->c; j++) {
        float total = 0;
        for (int64_t h = 0; h < w->n_h; h++) {
            float row = 0;
            for (int64_t k = 0; k < w->n_w; k++)
                row +=
                    (float)w->weight_w[k] * load_as(w->x, bf16, h * w->row_stride + k * w->c + j);
            total += (float)w->weight_h[h] * row;
        }
        store_as(out, bf16, j, total);
    }
}

// out[j] = sum over pixels of weight_h * weight_w * x
void KERNEL(window_sum)(const struct window *w, void *out)
{
    if (w->bf16)
        sum_as(w, true, out);
    else
        sum_as(w, false, out);
}

INLINE void max_as(const struct window *w, const bool bf16, void *out, int32_t *position)
{
    for (int64_t first = 0; first < w->c; first += MAX_CHANNELS) {
        const int64_t n = w->c - first < MAX_CHANNELS ? w->c - first : MAX_CHANNELS;
        float best[MAX_CHANNELS];
        int32_t where[MAX_CHANNELS] = {0};
        for (int64_t j = 0; j < n; j++)
            best[j] = -INFINITY;
        for (int64_t h = 0; h < w->n_h; h++)
            for (int64_t k = 0; k < w->n_w; k++) {
                const int32_t here = (int32_t)(h * w->n_w + k);
                const int64_t at = h * w->row_stride + k * w->c + first;
                VECTOR_LOOP
                for (int64_t j = 0; j < n; j++) {
                    float v = load_as(w->x, bf16, at + j);
                    bool better = (v > best[j]) | (v != v);
                    best[j] = better ? v : best[j];
                    where[j] = better ? here : where[j];
                }
            }
        for (int64_t j = 0; j < n; j++) {
            store_as(out, bf16, first + j, best[j]);
            position[first + j] = where[j];
        }
    }
}

// Largest value of each channel and its position in the window, row by row. NaN beats everything.
void KERNEL(window_max)(const struct window *w, void *out, int32_t *position)
{
    if (w->bf16)
        max_as(w, true, out, position);
    else
        max_as(w, false, out, position);
}
