// Unit pooling.c: max pooling, forwards and backwards, and the sparse sums behind a pooled convolution.
#include "tensor/kernels/pooling.h"

#include "tensor/kernels/kernels.h"

static bool outside(int64_t at, int64_t size)
{
    return at < 0 || at >= size;
}

// Channels [c, c + width) of one window: the winner's value and index. The first of equals wins; NaN
// beats everything.
INLINE void window_max(const struct pool_row *p, int64_t x0, int64_t c, const int width, float *best,
                       int32_t *index)
{
    for (int l = 0; l < width; l++) {
        best[l] = -__builtin_inff();
        index[l] = -1;
    }
    for (int64_t ky = 0; ky < p->kh; ky++) {
        if (outside(p->y0 + ky, p->h)) continue;
        for (int64_t kx = 0; kx < p->kw; kx++) {
            if (outside(x0 + kx, p->w)) continue;
            const float *v = p->image + ((p->y0 + ky) * p->w + x0 + kx) * p->c + c;
            const int32_t at = (int32_t)(ky * p->kw + kx);
            VECTOR_LOOP
            for (int l = 0; l < width; l++) {
                bool wins = v[l] > best[l] || v[l] != v[l] || index[l] < 0;
                best[l] = wins ? v[l] : best[l];
                index[l] = wins ? at : index[l];
            }
        }
    }
}

INLINE void finish_window(const struct pool_row *p, int64_t i, int64_t c, const int width,
                          const float *best, const int32_t *index)
{
    float *out = p->out + i * p->c + c;
    for (int l = 0; l < width; l++) {
        float v = p->bias ? best[l] + p->bias[c + l] : best[l];
        out[l] = p->relu && v <= 0 ? 0 : v;
    }
    if (p->winner) {
        uint8_t *to = p->winner + i * p->c + c;
        for (int l = 0; l < width; l++)
            to[l] = (uint8_t)index[l];
    } else {
        memcpy(p->wide_winner + i * p->c + c, index, (size_t)width * sizeof *index);
    }
}

void KERNEL(pool_row)(const struct pool_row *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        float best[LANES];
        int32_t index[LANES];
        int64_t c = 0;
        for (; c + LANES <= p->c; c += LANES) {
            window_max(p, p->x0 + i * p->stride, c, LANES, best, index);
            finish_window(p, i, c, LANES, best, index);
        }
        if (c < p->c) {
            window_max(p, p->x0 + i * p->stride, c, (int)(p->c - c), best, index);
            finish_window(p, i, c, (int)(p->c - c), best, index);
        }
    }
}

INLINE void scatter_pixel(const struct pool_row_grad *p, int64_t i, float *to, const int32_t at)
{
    const float *g = p->g + i * p->c;
    if (p->winner) {
        const uint8_t *winner = p->winner + i * p->c;
        VECTOR_LOOP
        for (int64_t c = 0; c < p->c; c++)
            to[c] += winner[c] == at ? g[c] : 0;
    } else {
        const int32_t *winner = p->wide_winner + i * p->c;
        VECTOR_LOOP
        for (int64_t c = 0; c < p->c; c++)
            to[c] += winner[c] == at ? g[c] : 0;
    }
}

void KERNEL(pool_row_grad)(const struct pool_row_grad *p)
{
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t ky = 0; ky < p->kh; ky++) {
            if (outside(p->y0 + ky, p->h)) continue;
            for (int64_t kx = 0; kx < p->kw; kx++) {
                int64_t x = p->x0 + i * p->stride + kx;
                if (outside(x, p->w)) continue;
                scatter_pixel(p, i, p->image + ((p->y0 + ky) * p->w + x) * p->c,
                              (int32_t)(ky * p->kw + kx));
            }
        }
}

// --- behind a pooled convolution

// sum[i] (+)= over all entries of value * (vector at x + offset + at[i]), i < n <= SPARSE_MAX_VECTORS.
INLINE void sums_of(const int n, const struct sparse_grad *list, int64_t n_list, const float *x,
                    const int64_t *at, float *sum, bool accumulate)
{
    vf s[SPARSE_MAX_VECTORS];
    UNROLL(12)
    for (int i = 0; i < n; i++) {
        if (accumulate) s[i] = vf_load(sum + i * LANES);
        else s[i] = (vf){0};
    }
    for (int64_t e = 0; e < n_list; e++) {
        const float *from = x + list[e].offset;
        const float value = list[e].value;
        UNROLL(12)
        for (int i = 0; i < n; i++)
            s[i] += value * vf_load(from + at[i]);
    }
    UNROLL(12)
    for (int i = 0; i < n; i++)
        vf_store(sum + i * LANES, s[i]);
}

void KERNEL(sparse_sums)(const struct sparse_grad *list, int64_t n_list, const float *x,
                         const int64_t *at, int n, float *sum, bool accumulate)
{
    switch (n) { // sums stay in registers only if their number is known
#define SUMS(k) \
    case k: sums_of(k, list, n_list, x, at, sum, accumulate); break;
        SUMS(1) SUMS(2) SUMS(3) SUMS(4) SUMS(5) SUMS(6) SUMS(7) SUMS(8) SUMS(9) SUMS(10) SUMS(11)
        SUMS(12)
#undef SUMS
    default: __builtin_unreachable();
    }
}

// to[0 .. n) += value * from[0 .. n)
INLINE void add_scaled(float *to, const float *from, float value, int64_t n)
{
    typedef float half __attribute__((vector_size(2 * LANES), aligned(4), may_alias));
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(to + i, vf_load(to + i) + value * vf_load(from + i));
    if (i + LANES / 2 <= n) {
        *(half *)(to + i) += value * *(const half *)(from + i);
        i += LANES / 2;
    }
    for (; i < n; i++)
        to[i] += value * from[i];
}

// Every entry adds value * w to the n_rows rows of row_len elements that start at its offset.
void KERNEL(sparse_scatter)(const struct sparse_grad *list, int64_t n_list, const float *w,
                            int64_t n_rows, int64_t row_len, int64_t stride, float *image)
{
    for (int64_t e = 0; e < n_list; e++)
        for (int64_t r = 0; r < n_rows; r++)
            add_scaled(image + list[e].offset + r * stride, w + r * row_len, list[e].value, row_len);
}
