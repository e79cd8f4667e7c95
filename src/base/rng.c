// Unit rng.c: the part of rng.h that needs libm.
#include "base/rng.h"

#include <math.h>

double rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct rng_block b = rng_philox(seed, stream, index);
    uint64_t w0 = (uint64_t)b.word[1] << 32 | b.word[0], w1 = (uint64_t)b.word[3] << 32 | b.word[2];
    double u = ((double)(w0 >> 11) + 0.5) * 0x1p-53; // never 0, so the logarithm is finite
    double angle = 6.283185307179586 * ((double)(w1 >> 11) * 0x1p-53);
    return sqrt(-2.0 * log(u)) * cos(angle);
}
