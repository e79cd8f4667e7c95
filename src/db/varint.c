// Unit varint.c: numbers of seven bits a byte, the least first. Called by whoever packs something.
#include "db/varint.h"

void varint_put(struct buf *out, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        buf_addc(out, (char)(x | 0x80));
    buf_addc(out, (char)x);
}

void varint_put_distance(struct buf *out, int64_t x)
{
    varint_put(out, (uint64_t)x << 1 ^ (uint64_t)(x >> 63));
}

uint64_t varint_take(struct varint_input *in)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        unsigned char byte = (unsigned char)*in->at++;
        x |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return x;
    }
    in->bad = true;
    return 0;
}

int64_t varint_take_distance(struct varint_input *in)
{
    uint64_t x = varint_take(in);
    return (int64_t)(x >> 1 ^ -(x & 1));
}
