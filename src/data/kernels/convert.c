// Unit convert.c: bytes become floats.
#include "data/kernels/kernels.h"

#define PASTE(a, b) a##_##b
#define NAME_OF(name, isa) PASTE(name, isa)

void NAME_OF(bytes_to_f32, DET_ISA)(const uint8_t *restrict in, float *restrict out, int64_t n,
                                    float scale, float shift)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)in[i] * scale + shift;
}
