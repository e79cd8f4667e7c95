// Unit gemm_sparse.c: matrix multiplication that skips the zeros of A. See tensor/gemm_sparse.c.
#include "tensor/kernels/gemm.h"

#include "tensor/kernels/kernels.h"

INLINE uint64_t row_bits(const float *a, int n)
{
    uint64_t bits = 0;
    int k = 0;
    for (; k + LANES <= n; k += LANES)
        bits |= (uint64_t)vi_bits(vf_load(a + k) != 0) << k;
    if (k < n) bits |= (uint64_t)vi_bits(vf_load_n(a + k, n - k) != 0) << k;
    return bits;
}

// bits[i]: bit k is set if a[i * stride + k] is not zero, k < n <= 64.
void KERNEL(nonzero_bits)(const float *a, int64_t stride, int64_t m, int n, uint64_t *bits)
{
    for (int64_t i = 0; i < m; i++)
        bits[i] = row_bits(a + i * stride, n);
}

// One row of C (+)= one row of A times B, all nv vectors of it in registers.
INLINE void add_row(const int nv, const struct gemm_sparse *p, const float *a, uint64_t bits,
                    float *c)
{
    const int64_t stride = p->b_stride;
    vf sum[GEMM_SPARSE_VECTORS];
    UNROLL(12)
    for (int i = 0; i < nv; i++) {
        if (p->accumulate)
            sum[i] = vf_load(c + i * LANES);
        else
            sum[i] = (vf){0};
    }
    for (; bits; bits &= bits - 1) {
        const int k = __builtin_ctzll(bits);
        const float *b = p->b + k * stride, ak = a[k];
        __asm__("" : "+r"(b)); // one pointer; the compiler would make one per vector
        UNROLL(12)
        for (int i = 0; i < nv; i++)
            sum[i] += ak * vf_load(b + i * LANES);
    }
    UNROLL(12)
    for (int i = 0; i < nv; i++)
        vf_store(c + i * LANES, sum[i]);
}

#define ROWS(nv)                                                                                   \
    static void rows_##nv(const struct gemm_sparse *p)                                             \
    {                                                                                              \
        const uint64_t all = UINT64_MAX >> (64 - p->k);                                            \
        for (int64_t i = 0; i < p->m; i++)                                                         \
            add_row(nv, p, p->a + i * p->a_stride, p->skip ? p->bits[i] : all, p->c + i * p->ldc); \
    }
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
ROWS(5)
ROWS(6)
ROWS(7)
ROWS(8)
ROWS(9)
ROWS(10)
ROWS(11)
ROWS(12)

void KERNEL(gemm_sparse)(const struct gemm_sparse *p)
{
    static void (*const rows[])(const struct gemm_sparse *) = {
        NULL,   rows_1, rows_2, rows_3,  rows_4,  rows_5, rows_6,
        rows_7, rows_8, rows_9, rows_10, rows_11, rows_12};
    rows[p->width / LANES](p);
}

bool KERNEL(all_finite)(const float *x, int64_t n)
{
    const int32_t exponent = 0x7f800000; // all ones for infinities and NaN
    vi bad = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vi bits = (vi)vf_load(x + i);
        bad |= (bits & exponent) == exponent;
    }
    if (i < n) bad |= ((vi)vf_load_n(x + i, (int)(n - i)) & exponent) == exponent;
    return !vi_bits(bad);
}
