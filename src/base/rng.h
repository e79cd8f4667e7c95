// base/rng.h: randomness as a pure function. Philox 4x32-10 maps (seed, stream, index) to 128
// random bits: any position is O(1), nothing is stored, so what is random resumes exactly.
//   rng_philox  rng_u64  rng_unit  rng_normal  rng_below
//
// Philox: Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <stdint.h>

struct rng_block {
    uint32_t word[4];
};

static inline struct rng_block rng_philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct rng_block){{c0, c1, c2, c3}};
}

// 64 random bits.
static inline uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct rng_block b = rng_philox(seed, stream, index);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

// Uniform in [0, 1), 53 bits.
static inline double rng_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(rng_u64(seed, stream, index) >> 11) * 0x1p-53;
}

// Standard normal (Box-Muller on one block).
double rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

// Uniform in [0, n), n > 0, without modulo bias beyond 2^-64.
static inline uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_u64(seed, stream, index) * n) >> 64);
}
