// Unit conv_pool.c: a convolution whose results are pooled by windows of 2 x 2 before they leave
// the registers. A tile is two windows (one, with 16 registers) by nv vectors of output channels.
#include "tensor/kernels/kernels.h"

#if defined(DET_ISA_avx512)
enum { TILE_WINDOWS = 2, MAX_NV = 3 };
#else
enum { TILE_WINDOWS = 1, MAX_NV = 2 };
#endif

// The largest of four, the first of equals; NaN beats everything.
INLINE void store_window(const struct conv_pool_row *p, const vf *pixel[4], int j, int width,
                         float *out, uint8_t *winner)
{
    vf best = pixel[0][j];
    vi index = {0};
    UNROLL(3)
    for (int i = 1; i < 4; i++) {
        const vf v = pixel[i][j];
        const vi wins = (v > best) | (v != v);
        best = vf_select(wins, v, best);
        index = (wins & i) | (index & ~wins);
    }
    if (p->bias) best += vf_load_n(p->bias + j * LANES, width);
    if (p->relu) best = vf_select(best <= 0, (vf){0}, best);
    vf_store_n(out + j * LANES, best, width);
    vi_store_bytes(winner + j * LANES, index, width);
}

INLINE void tile(const int windows, const int nv, const struct conv_pool_row *p, int64_t first)
{
    const float *image = p->image + 2 * first * p->c, *b = p->b;
    const int64_t c = p->c, line = p->line;
    vf sum[2][2 * TILE_WINDOWS][MAX_NV]; // [line][pixel of the line]
    UNROLL(2)
    for (int y = 0; y < 2; y++) {
        UNROLL(4)
        for (int x = 0; x < 2 * windows; x++) {
            UNROLL(3)
            for (int j = 0; j < nv; j++)
                sum[y][x][j] = (vf){0};
        }
    }
    for (int s = 0; s < p->n_seg; s++) {
        const float *a = image + p->seg[s];
        for (int64_t k = 0; k < p->k; k++, a++, b += p->b_stride) {
            vf bv[MAX_NV];
            UNROLL(3)
            for (int j = 0; j < nv; j++)
                bv[j] = vf_load(b + j * LANES);
            UNROLL(2)
            for (int y = 0; y < 2; y++) {
                UNROLL(4)
                for (int x = 0; x < 2 * windows; x++) {
                    const float ax = a[y * line + x * c];
                    UNROLL(3)
                    for (int j = 0; j < nv; j++)
                        sum[y][x][j] += ax * bv[j];
                }
            }
        }
    }
    UNROLL(2)
    for (int w = 0; w < windows; w++) {
        const vf *pixel[4] = {sum[0][2 * w], sum[0][2 * w + 1], sum[1][2 * w], sum[1][2 * w + 1]};
        const int64_t at = (first + w) * p->ld;
        UNROLL(3)
        for (int j = 0; j < nv; j++)
            store_window(p, pixel, j, j < nv - 1 ? LANES : p->width - (nv - 1) * LANES, p->out + at,
                         p->winner + at);
    }
}

#define ROW(nv)                                             \
    static void row_##nv(const struct conv_pool_row *p)     \
    {                                                       \
        int64_t i = 0;                                      \
        for (; i + TILE_WINDOWS <= p->n; i += TILE_WINDOWS) \
            tile(TILE_WINDOWS, nv, p, i);                   \
        if (i < p->n) tile(1, nv, p, i);                    \
    }
ROW(1)
ROW(2)
#if defined(DET_ISA_avx512)
ROW(3)
#endif

void KERNEL(conv_pool_row)(const struct conv_pool_row *p)
{
#if defined(DET_ISA_avx512)
    static void (*const rows[])(const struct conv_pool_row *) = {NULL, row_1, row_2, row_3};
#else
    static void (*const rows[])(const struct conv_pool_row *) = {NULL, row_1, row_2};
#endif
    rows[(p->width + LANES - 1) / LANES](p);
}
