// kernels/simd.h: vectors as wide as the instruction set of this compilation.
//
// Kernels are written once with the compiler's vector types and compiled once per instruction set;
// KERNEL(name) gives each compilation its own symbols (name_avx512, name_avx2, name_plain).
#pragma once

#include "base/bf16.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(DET_ISA_avx512) || defined(DET_ISA_avx2)
#include <immintrin.h>
#endif

#define KERNEL_PASTE2(name, isa) name##_##isa
#define KERNEL_PASTE(name, isa) KERNEL_PASTE2(name, isa)
#define KERNEL(name) KERNEL_PASTE(name, DET_ISA)

#if defined(DET_ISA_avx512)
enum { LANES = 16 };
#elif defined(DET_ISA_avx2)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

// What only instructions can do is left to the compiler where these lanes have none of their own.
#if defined(DET_ISA_avx512) && !defined(DET_EMULATE_AVX512)
#define HAS_AVX512 1
#endif

// One vector of floats (or of their bits). Unaligned: tensors may start anywhere.
typedef float vf __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t vh __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint8_t vb __attribute__((vector_size(LANES), aligned(1), may_alias));

#define INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define UNROLL(n) _Pragma("clang loop unroll(full)")
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define UNROLL_STR(n) #n
#define UNROLL(n) _Pragma(UNROLL_STR(GCC unroll n))
#define VECTOR_LOOP _Pragma("GCC ivdep")
#endif

INLINE vf vf_load(const float *p)
{
    return *(const vf *)p;
}

INLINE void vf_store(float *p, vf v)
{
    *(vf *)p = v;
}

INLINE vf vf_set1(float x)
{
    return x - (vf){0};
}

// The first n <= LANES floats only: memory behind them is not touched.
#if defined(HAS_AVX512)
INLINE vf vf_load_n(const float *p, int n)
{
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

#elif defined(DET_ISA_avx2)
INLINE vf vf_load_n(const float *p, int n)
{
    if (n == LANES) return vf_load(p);
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return (vf)_mm256_maskload_ps(p, (__m256i)(lane < n));
}
#else
INLINE vf vf_load_n(const float *p, int n)
{
    float tmp[LANES] = {0};
    memcpy(tmp, p, (size_t)n * sizeof *tmp);
    return vf_load(tmp);
}
#endif

INLINE vf vf_select(vi mask, vf yes, vf no)
{
    return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
}

// Bit i is set if lane i of a mask is.
INLINE uint32_t vi_bits(vi mask)
{
#if defined(HAS_AVX512)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(DET_ISA_avx2)
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#else
    uint32_t bits = 0;
    for (int i = 0; i < LANES; i++)
        bits |= (uint32_t)(mask[i] & 1) << i;
    return bits;
#endif
}

// Lane i gets lane i + by, cyclically. A macro: `by` must be a constant.
#if defined(DET_ISA_avx512)
#define VF_ROTATE(v, by)                                                                          \
    __builtin_shufflevector(v, v, (by) % 16, ((by) + 1) % 16, ((by) + 2) % 16, ((by) + 3) % 16,   \
                            ((by) + 4) % 16, ((by) + 5) % 16, ((by) + 6) % 16, ((by) + 7) % 16,   \
                            ((by) + 8) % 16, ((by) + 9) % 16, ((by) + 10) % 16, ((by) + 11) % 16, \
                            ((by) + 12) % 16, ((by) + 13) % 16, ((by) + 14) % 16,                 \
                            ((by) + 15) % 16)
#elif defined(DET_ISA_avx2)
#define VF_ROTATE(v, by)                                                                    \
    __builtin_shufflevector(v, v, (by) % 8, ((by) + 1) % 8, ((by) + 2) % 8, ((by) + 3) % 8, \
                            ((by) + 4) % 8, ((by) + 5) % 8, ((by) + 6) % 8, ((by) + 7) % 8)
#else
#define VF_ROTATE(v, by) \
    __builtin_shufflevector(v, v, (by) % 4, ((by) + 1) % 4, ((by) + 2) % 4, ((by) + 3) % 4)
#endif

// The first n <= LANES floats only, as vf_load_n.
#if defined(HAS_AVX512)
INLINE void vf_store_n(float *p, vf v, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
#else // masked stores are slow where there are no mask registers
#define STORE_PART(lanes)                                      \
    if (LANES > (lanes) && (n & (lanes))) {                    \
        memcpy(p, &v, (size_t)((lanes) % LANES) * sizeof(*p)); \
        v = VF_ROTATE(v, lanes);                               \
        p += lanes;                                            \
    }
INLINE void vf_store_n(float *p, vf v, int n)
{
    if (n == LANES) {
        vf_store(p, v);
        return;
    }
    STORE_PART(8)
    STORE_PART(4)
    STORE_PART(2)
    STORE_PART(1)
}
#undef STORE_PART
#endif

// All lanes become one, always in the same order: halves are folded until one lane is left.
#define FOLD_LANES(v, op)            \
    do {                             \
        if (LANES > 8) v = op(v, 8); \
        if (LANES > 4) v = op(v, 4); \
        v = op(v, 2);                \
        v = op(v, 1);                \
    } while (0)
#define SUM_WITH(v, by) (v + VF_ROTATE(v, by))
#define LARGER_WITH(v, by) vf_select(v > VF_ROTATE(v, by), v, VF_ROTATE(v, by))

INLINE float vf_sum(vf v)
{
    FOLD_LANES(v, SUM_WITH);
    return v[0];
}

INLINE float vf_largest(vf v)
{
    FOLD_LANES(v, LARGER_WITH);
    return v[0];
}

// r[i][j] <-> r[j][i], by swapping ever larger blocks across the diagonal.
INLINE void vf_transpose(vf *r)
{
    UNROLL(4)
    for (int s = 1; s < LANES; s *= 2) {
        vi low = {0}, high = {0};
        UNROLL(16)
        for (int l = 0; l < LANES; l++) {
            low[l] = l & s ? l - s + LANES : l;
            high[l] = l & s ? l + LANES : l + s;
        }
        UNROLL(16)
        for (int i = 0; i < LANES; i++) {
            if (i & s) continue;
            vf a = r[i], b = r[i + s];
#if defined(__clang__)
            for (int l = 0; l < LANES; l++) {
                r[i][l] = low[l] < LANES ? a[low[l]] : b[low[l] - LANES];
                r[i + s][l] = high[l] < LANES ? a[high[l]] : b[high[l] - LANES];
            }
#else
            r[i] = __builtin_shuffle(a, b, low);
            r[i + s] = __builtin_shuffle(a, b, high);
#endif
        }
    }
}

// Element i of an array that is f32 or bf16; `bf16` is a constant wherever this is fast.
INLINE float load_as(const void *p, const bool bf16, int64_t i)
{
    return bf16 ? bf16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

INLINE void store_as(void *p, const bool bf16, int64_t i, float x)
{
    if (bf16)
        ((uint16_t *)p)[i] = f32_to_bf16(x);
    else
        ((float *)p)[i] = x;
}

// Small numbers from p on, as integers of a vector, and n <= LANES of them back. What the compiler
// makes of such conversions is slow.
INLINE vi vi_load_bytes(const uint8_t *p)
{
#if defined(HAS_AVX512)
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif defined(DET_ISA_avx2)
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
#else
    return __builtin_convertvector(*(const vb *)p, vi);
#endif
}

INLINE void vi_store_bytes(uint8_t *p, vi v, int n)
{
#if defined(HAS_AVX512)
    __m128i bytes = _mm512_cvtepi32_epi8((__m512i)v);
#elif defined(DET_ISA_avx2)
    __m256i words = _mm256_packus_epi32((__m256i)v, (__m256i)v);
    __m256i halves = _mm256_packus_epi16(words, words); // four bytes at the start of either half
    int32_t bytes[2] = {_mm256_extract_epi32(halves, 0), _mm256_extract_epi32(halves, 4)};
#else
    vb bytes = __builtin_convertvector(v, vb);
#endif
    memcpy(p, &bytes, (size_t)n);
}

// LANES elements from i on.
INLINE vf vf_load_as(const void *p, const bool bf16, int64_t i)
{
    if (!bf16) return vf_load((const float *)p + i);
    vh h = *(const vh *)((const uint16_t *)p + i);
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

// The first n < LANES elements only: memory behind them is not touched.
INLINE vf vf_load_as_n(const void *p, const bool bf16, int n)
{
    if (!bf16) return vf_load_n(p, n);
    uint16_t few[LANES] = {0};
    memcpy(few, p, (size_t)n * sizeof *few);
    return vf_load_as(few, true, 0);
}

INLINE void vf_store_as(void *p, const bool bf16, int64_t i, vf v)
{
    if (!bf16) {
        vf_store((float *)p + i, v);
        return;
    }
    vu u = (vu)v, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = (vu)(v != v);
    *(vh *)((uint16_t *)p + i) = __builtin_convertvector((rounded & ~nan) | (0x7fc0 & nan), vh);
}

// The same for the first n <= LANES elements only.
INLINE vf vf_load_some(const void *p, const bool bf16, int64_t i, const int n)
{
    if (n == LANES) return vf_load_as(p, bf16, i);
    return vf_load_as_n((const char *)p + i * (bf16 ? 2 : 4), bf16, n);
}

INLINE void vf_store_some(void *p, const bool bf16, int64_t i, vf v, const int n)
{
    if (n == LANES) {
        vf_store_as(p, bf16, i, v);
    } else if (!bf16) {
        vf_store_n((float *)p + i, v, n);
    } else {
        uint16_t few[LANES];
        vf_store_as(few, true, 0, v);
        memcpy((uint16_t *)p + i, few, (size_t)n * sizeof *few);
    }
}
