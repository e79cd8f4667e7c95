// Unit gemm_bf16_emulated.c: what gemm_bf16_x86.c does, in plain C, in the build that emulates
// AVX-512: what uses such instructions is tested where there are none.
#include "tensor/gemm_bf16.h"

#if defined(DET_EMULATE_AVX512)

#include "base/bf16.h"

enum { WIDTH = 32, K_ROUND = 32, AS_FAST_AS = 16 }; // as AMX

static float element(const struct matrix *m, const void *at, int64_t i, int64_t j)
{
    int64_t offset = i * m->rs + j * m->cs;
    return m->dtype == DET_BF16 ? bf16_to_f32(((const uint16_t *)at)[offset])
                                : ((const float *)at)[offset];
}

static int64_t padded(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static void emulated_panel(const struct gemm_panel_bf16 *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int j = 0; j < p->width; j++) {
            float sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += bf16_to_f32(p->a[i * p->a_stride + k]) *
                       bf16_to_f32(p->b[(k / 2 * p->b_width + j) * 2 + k % 2]);
            float *to = &p->c[i * p->ldc + j];
            *to = p->accumulate ? *to + sum : sum;
        }
}

static void emulated_pack_b(const struct matrix *b, const void *at, int64_t k, int width,
                            uint16_t *out)
{
    int64_t columns = padded(width, 16);
    for (int64_t q = 0; q < padded(k, K_ROUND); q++)
        for (int64_t j = 0; j < columns; j++)
            out[(q / 2 * columns + j) * 2 + q % 2] =
                q < k && j < width ? f32_to_bf16(element(b, at, q, j)) : 0;
}

static void emulated_pack_a(const struct matrix *a, const void *at, int64_t m, int64_t k,
                            uint16_t *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < padded(k, K_ROUND); q++)
            *out++ = q < k ? f32_to_bf16(element(a, at, i, q)) : 0;
}

const struct bf16_unit *bf16_unit(void)
{
    static const struct bf16_unit unit = {WIDTH,          K_ROUND,         AS_FAST_AS,
                                          emulated_panel, emulated_pack_b, emulated_pack_a};
    return &unit;
}

#endif
