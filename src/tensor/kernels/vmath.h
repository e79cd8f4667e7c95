// kernels/vmath.h: elementary functions on f32 without branches or tables, so that a plain loop
// over them is vectorised. Polynomials are our own minimax fits; errors are below 2 units in the
// last place (erf, tanh, sigmoid: 4) over the whole range, infinities and NaN included.
//   vm_exp  vm_log  vm_tanh  vm_sigmoid  vm_erf  vm_abs  vm_sign
#pragma once

#include "tensor/kernels/simd.h"
#include <math.h>

INLINE float vm_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

INLINE uint32_t vm_to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

INLINE float vm_abs(float x)
{
    return vm_from_bits(vm_to_bits(x) & 0x7fffffff);
}

INLINE float vm_copysign(float magnitude, float sign)
{
    return vm_from_bits((vm_to_bits(magnitude) & 0x7fffffff) | (vm_to_bits(sign) & 0x80000000));
}

// e^x = 2^n e^r, |r| <= ln 2 / 2. The scale is applied in two halves so that results down to the
// smallest denormal and up to the largest float come out right.
INLINE float vm_exp(float x)
{
    float c = x < -104.0f ? -104.0f : x;
    c = c > 89.0f ? 89.0f : c;
    float n = c * 1.44269504f + 12582912.0f; // rounds to an integer kept in the low bits
    int32_t i = (int32_t)(vm_to_bits(n) - 0x4b400000u);
    n -= 12582912.0f;
    float r = c - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 0.000199178030f;
    p = p * r + 0.00139460841f;
    p = p * r + 0.00833326578f;
    p = p * r + 0.0416662693f;
    p = p * r + 0.166666672f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t half = i >> 1;
    float s1 = vm_from_bits((uint32_t)(half + 127) << 23);
    float s2 = vm_from_bits((uint32_t)(i - half + 127) << 23);
    p = p * s1 * s2;
    return x != x ? x : p;
}

// ln x = e ln 2 + ln m, m in [sqrt 1/2, sqrt 2).
INLINE float vm_log(float x)
{
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x; // denormals: times 2^23
    float bias = x < 1.17549435e-38f ? -23.0f : 0.0f;
    uint32_t u = vm_to_bits(scaled) - 0x3f3504f3u;
    float e = (float)((int32_t)u >> 23) + bias;
    float f = vm_from_bits((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = 0.0691538379f;
    p = p * f - 0.117898159f;
    p = p * f + 0.118729740f;
    p = p * f - 0.123843469f;
    p = p * f + 0.142186582f;
    p = p * f - 0.166692510f;
    p = p * f + 0.200022265f;
    p = p * f - 0.249999866f;
    p = p * f + 0.333333105f;
    float y = f * f * f * p + e * -2.12194440e-4f - 0.5f * f * f + f + e * 0.693359375f;
    y = x > 3.40282347e+38f ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f || x != x ? NAN : y;
}

INLINE float vm_sigmoid(float x)
{
    float e = vm_exp(-vm_abs(x)); // never overflows
    float s = 1.0f / (1.0f + e);
    return x < 0.0f ? e * s : s;
}

INLINE float vm_tanh(float x)
{
    float a = vm_abs(x), u = x * x;
    float p = -0.00606223755f;
    p = p * u + 0.0209750198f;
    p = p * u - 0.0538466983f;
    p = p * u + 0.133327469f;
    p = p * u - 0.333333284f;
    float small = x + x * u * p;
    float e = vm_exp(-2.0f * a);
    float large = vm_copysign((1.0f - e) / (1.0f + e), x);
    float y = a < 0.625f ? small : large;
    return x != x ? x : y;
}

// erf(x), and exp(-x^2) on the way. |x| < 1: x P(x^2). Beyond: 1 - Q(|x|) exp(-x^2), which is 1 in
// f32 from 3.92 on.
INLINE float vm_erf_exp(float x, float *exp_minus_square)
{
    float a = vm_abs(x), u = x * x, e = vm_exp(-u);
    float p = -9.68013774e-06f;
    p = p * u + 0.000112705449f;
    p = p * u - 0.000848471129f;
    p = p * u + 0.00522107491f;
    p = p * u - 0.0268654451f;
    p = p * u + 0.112837829f;
    p = p * u - 0.376126379f;
    p = p * u + 1.12837923f;
    float small = x * p;
    float c = a > 4.0f ? 4.0f : a;
    float q = -0.000388894434f;
    q = q * c + 0.00600525551f;
    q = q * c - 0.04099885f;
    q = q * c + 0.16413559f;
    q = q * c - 0.431682855f;
    q = q * c + 0.792598009f;
    q = q * c - 1.04821229f;
    q = q * c + 0.986127675f;
    float large = vm_copysign(1.0f - q * e, x);
    float y = a < 1.0f ? small : large;
    *exp_minus_square = e;
    return x != x ? x : y;
}

INLINE float vm_erf(float x)
{
    float unused;
    return vm_erf_exp(x, &unused);
}
