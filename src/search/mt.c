// Unit mt.c: MT19937. Called by search.c and the samplers.
#include "search/mt.h"

#include <math.h>

enum { MT_MIDDLE = 397 };

void mt_init(struct mt *mt, uint32_t seed)
{
    for (int i = 0; i < MT_WORDS; i++) {
        mt->words[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + (uint32_t)i + 1;
    }
    mt->at = MT_WORDS;
}

static void refill(struct mt *mt)
{
    for (int i = 0; i < MT_WORDS; i++) {
        uint32_t here = mt->words[i], next = mt->words[(i + 1) % MT_WORDS];
        uint32_t y = (here & 0x80000000u) | (next & 0x7FFFFFFFu);
        uint32_t far = mt->words[(i + MT_MIDDLE) % MT_WORDS];
        mt->words[i] = far ^ (y >> 1) ^ (y & 1 ? 0x9908B0DFu : 0);
    }
    mt->at = 0;
}

static uint32_t next_word(struct mt *mt)
{
    if (mt->at == MT_WORDS) refill(mt);
    uint32_t y = mt->words[mt->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
}

// The high word is drawn first.
static uint64_t next_u64(struct mt *mt)
{
    uint64_t high = next_word(mt);
    return high << 32 | next_word(mt);
}

uint64_t mt_upto(struct mt *mt, uint64_t max)
{
    if (!max) return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max), value;
    do
        value = (max > UINT32_MAX ? next_u64(mt) : next_word(mt)) & mask;
    while (value > max);
    return value;
}

double mt_unit(struct mt *mt)
{
    uint32_t high = next_word(mt) >> 5, low = next_word(mt) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

double mt_uniform(struct mt *mt, double low, double high)
{
    return low + (high - low) * mt_unit(mt);
}

// Box and Muller, the second value dropped, so that there is no state besides the words.
double mt_normal(struct mt *mt)
{
    double radius = sqrt(-2 * log(1 - mt_unit(mt)));
    return radius * cos(2 * 3.14159265358979323846 * mt_unit(mt));
}

void mt_bytes(struct mt *mt, uint8_t *out, int n)
{
    uint32_t word = 0;
    for (int i = 0; i < n; i++) {
        if (i % 4 == 0) word = next_word(mt);
        out[i] = (uint8_t)word;
        word >>= 8;
    }
}
