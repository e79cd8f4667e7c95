// Unit crc32c.c: the polynomial 0x1EDC6F41 with reflected bits, by instruction or by half bytes.
#include "base/crc32c.h"

#include "base/banned.h"

// For the last few bytes, and for processors without the instruction, which are rare enough to
// wait: 16 remainders instead of 256.
static uint32_t add_bytes(uint32_t crc, const unsigned char *p, size_t n)
{
    static const uint32_t remainder[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    for (; n; n--) {
        crc ^= *p++;
        crc = crc >> 4 ^ remainder[crc & 15];
        crc = crc >> 4 ^ remainder[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t add_words(uint32_t crc, const unsigned char *p,
                                                            size_t n_words)
{
    uint64_t word, sum = crc;
    for (; n_words; n_words--, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    return (uint32_t)sum;
}
#endif

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        crc = add_words(crc, p, n / 8);
        p += n / 8 * 8;
        n %= 8;
    }
#endif
    return ~add_bytes(crc, p, n);
}
