// Unit hash.c: SipHash with one round per word and three at the end.
#include "base/hash.h"

#include <string.h>

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
                     key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573};
    uint64_t word = 0;
    size_t left = n;
    for (; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        absorb(v, word);
    }
    word = (uint64_t)n << 56;
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)p[i] << 8 * i;
    absorb(v, word);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
