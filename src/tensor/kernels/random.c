// Unit random.c: Philox (see base/rng.h) for many blocks at once, and what is made of its words.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/vmath.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// A word in each 64-bit lane; what is above the word does not matter.
enum { WORDS = LANES / 2 };
typedef uint64_t vw __attribute__((vector_size(8 * WORDS)));
typedef uint32_t packed __attribute__((vector_size(4 * WORDS), aligned(4), may_alias));

// The 64-bit products of the words. Compilers do not find this instruction by themselves.
INLINE vw multiply(vw a, vw b)
{
#if defined(HAS_AVX512)
    return (vw)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(DET_ISA_avx2)
    return (vw)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(DET_ISA_plain) && defined(__SSE2__)
    return (vw)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

INLINE vw same(uint64_t word)
{
    return word - (vw){0};
}

INLINE void store_words(uint32_t *out, vw v)
{
    *(packed *)out = __builtin_convertvector(v, packed);
}

// All words of one group: the rounds of rng_philox on WORDS blocks at once.
INLINE void philox_group(const struct random_range *r, int64_t group, uint32_t *out)
{
    vw lane;
    for (int i = 0; i < WORDS; i++)
        lane[i] = (uint64_t)i;
    for (int j = 0; j < RANDOM_LANES; j += WORDS) {
        const uint64_t block = (uint64_t)group * RANDOM_LANES + (uint64_t)j;
        uint32_t k0 = (uint32_t)r->seed, k1 = (uint32_t)(r->seed >> 32);
        vw c0 = same(block) + lane, c1 = same(block >> 32);
        vw c2 = same(r->stream), c3 = same(r->stream >> 32);
        UNROLL(10)
        for (int round = 0; round < 10; round++) {
            vw p0 = multiply(c0, same(0xD2511F53u)), p1 = multiply(c2, same(0xCD9E8D57u));
            c0 = p1 >> 32 ^ c1 ^ same(k0);
            c2 = p0 >> 32 ^ c3 ^ same(k1);
            c1 = p1;
            c3 = p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        store_words(out + j, c0);
        store_words(out + RANDOM_LANES + j, c1);
        store_words(out + 2 * RANDOM_LANES + j, c2);
        store_words(out + 3 * RANDOM_LANES + j, c3);
    }
}

void KERNEL(random_words)(const struct random_range *r, uint32_t *out)
{
    for (int64_t at = 0; at < r->n; at += RANDOM_GROUP) {
        int64_t n = r->n - at < RANDOM_GROUP ? r->n - at : RANDOM_GROUP;
        uint32_t w[RANDOM_GROUP];
        philox_group(r, r->group + at / RANDOM_GROUP, w);
        memcpy(out + at, w, (size_t)n * sizeof *w);
    }
}

void KERNEL(random_unit)(const struct random_range *r, float *out)
{
    for (int64_t at = 0; at < r->n; at += RANDOM_GROUP) {
        int64_t n = r->n - at < RANDOM_GROUP ? r->n - at : RANDOM_GROUP;
        uint32_t w[RANDOM_GROUP];
        philox_group(r, r->group + at / RANDOM_GROUP, w);
        VECTOR_LOOP
        for (int64_t i = 0; i < n; i++)
            out[at + i] = (float)(int32_t)(w[i] >> 8) * 0x1p-24f;
    }
}

// Sine and cosine of v turns, 0 <= v <= 1: Taylor's series within an eighth of a turn of the
// nearest quarter, errors below 2e-7.
INLINE void sincos_turns(float v, float *sine, float *cosine)
{
    float nearest = 4.0f * v + 12582912.0f; // rounds to an integer kept in the low bits
    uint32_t quarter = vm_to_bits(nearest) & 3;
    float x = (4.0f * v - (nearest - 12582912.0f)) * 1.57079633f, u = x * x;
    float s = x + x * u *
                      (-1.66666667e-1f +
                       u * (8.33333333e-3f + u * (-1.98412698e-4f + u * 2.75573192e-6f)));
    float c =
        1.0f + u * (-0.5f + u * (4.16666667e-2f + u * (-1.38888889e-3f + u * 2.48015873e-5f)));
    float a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = (quarter + 1) & 2 ? -b : b;
}

// Box and Muller: two uniform numbers give two normal ones. Words 0 and 1 of a block make its
// elements 0 and 1, words 2 and 3 the others.
INLINE void normal_pair(const uint32_t *w, float *out)
{
    VECTOR_LOOP
    for (int j = 0; j < RANDOM_LANES; j++) {
        // in (0, 1]: the logarithm is finite
        float u = (float)(int32_t)(w[j] >> 8) * 0x1p-24f + (float)((w[j] & 255) + 1) * 0x1p-32f;
        float v = (float)(int32_t)(w[RANDOM_LANES + j] >> 8) * 0x1p-24f, s, c;
        float radius = sqrtf(-2.0f * vm_log(u));
        sincos_turns(v, &s, &c);
        out[j] = radius * c;
        out[RANDOM_LANES + j] = radius * s;
    }
}

void KERNEL(random_normal)(const struct random_range *r, float *out)
{
    for (int64_t at = 0; at < r->n; at += RANDOM_GROUP) {
        int64_t n = r->n - at < RANDOM_GROUP ? r->n - at : RANDOM_GROUP;
        uint32_t w[RANDOM_GROUP];
        float v[RANDOM_GROUP];
        philox_group(r, r->group + at / RANDOM_GROUP, w);
        normal_pair(w, v);
        normal_pair(w + 2 * RANDOM_LANES, v + 2 * RANDOM_LANES);
        memcpy(out + at, v, (size_t)n * sizeof *v);
    }
}

INLINE void dropout_as(const struct random_range *r, const bool bf16, const struct dropout_args *a)
{
    const uint32_t threshold = a->threshold;
    const float scale = a->scale;
    for (int64_t at = 0; at < r->n; at += RANDOM_GROUP) {
        int64_t n = r->n - at < RANDOM_GROUP ? r->n - at : RANDOM_GROUP;
        uint32_t w[RANDOM_GROUP];
        philox_group(r, r->group + at / RANDOM_GROUP, w);
        VECTOR_LOOP
        for (int64_t i = 0; i < n; i++)
            store_as(a->out, bf16, at + i,
                     load_as(a->x, bf16, at + i) * (w[i] >= threshold ? scale : 0));
    }
}

void KERNEL(dropout)(const struct random_range *r, bool bf16, const struct dropout_args *a)
{
    if (bf16)
        dropout_as(r, true, a);
    else
        dropout_as(r, false, a);
}
