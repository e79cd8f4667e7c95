// base/bf16.h: bf16, the upper half of a float, to and from float.
//   bf16_to_f32  f32_to_bf16
// Always inlined: kernels are compiled several times, for different processors.
#pragma once

#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) float bf16_to_f32(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// Rounds to nearest, ties to even. A NaN becomes the quiet NaN that torch writes.
static inline __attribute__((always_inline)) uint16_t f32_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(f != f ? 0x7fc0 : rounded);
}
