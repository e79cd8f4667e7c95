// base/f16.h: f16 (IEEE 754 binary16) to and from float.
//   f16_to_f32  f32_to_f16
#pragma once

#include <stdint.h>
#include <string.h>

static inline float f16_to_f32(uint16_t half)
{
    const uint32_t magnitude = half & 0x7fffu;
    uint32_t bits = (magnitude << 13) + ((127u - 15u) << 23);
    float f;
    if (magnitude >= 0x7c00u) bits = (magnitude << 13) | 0x7f800000u; // infinity and NaN
    memcpy(&f, &bits, sizeof f);
    if (magnitude < 0x0400u)
        f = (float)magnitude * 0x1p-24f; // too small for an exponent of its own
    return half & 0x8000u ? -f : f;
}

// Rounds to nearest, ties to even. What is too large becomes infinity, a NaN the quiet NaN that
// torch writes.
static inline uint16_t f32_to_f16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (bits >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) { // below 2^-14: the float unit rounds to multiples of 2^-24
        float small;
        memcpy(&small, &bits, sizeof small);
        small += 0.5f;
        memcpy(&bits, &small, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    bits -= (127u - 15u) << 23;
    return (uint16_t)(sign | ((bits + 0xfffu + (bits >> 13 & 1)) >> 13));
}
