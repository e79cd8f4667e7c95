// Unit sums.c: sums over rows. Long sums are taken in blocks whose results are added up, so that
// the rounding error stays near that of a single block.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/simd.h"

enum { BLOCK = 128 };

INLINE void column_sum_as(const void *src, const bool bf16, int64_t rows, int64_t ld, int width,
                          float *out, bool accumulate)
{
    int j = 0;
    for (; j + LANES <= width; j += LANES) {
        vf total = {0};
        for (int64_t r = 0; r < rows; r += BLOCK) {
            int64_t end = rows - r < BLOCK ? rows : r + BLOCK;
            vf sum = {0};
            for (int64_t i = r; i < end; i++)
                sum += vf_load_as(src, bf16, i * ld + j);
            total += sum;
        }
        if (accumulate) total += vf_load(out + j);
        vf_store(out + j, total);
    }
    for (; j < width; j++) {
        float total = 0;
        for (int64_t r = 0; r < rows; r += BLOCK) {
            int64_t end = rows - r < BLOCK ? rows : r + BLOCK;
            float sum = 0;
            for (int64_t i = r; i < end; i++)
                sum += load_as(src, bf16, i * ld + j);
            total += sum;
        }
        out[j] = accumulate ? out[j] + total : total;
    }
}

void KERNEL(column_sum)(const void *src, bool bf16, int64_t rows, int64_t ld, int width, float *out,
                        bool accumulate)
{
    if (bf16)
        column_sum_as(src, true, rows, ld, width, out, accumulate);
    else
        column_sum_as(src, false, rows, ld, width, out, accumulate);
}
