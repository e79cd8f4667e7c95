// format/bytes.h: numbers in files. All formats here are little-endian, and so are we.
#pragma once

#include "base/buf.h"
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensor data is read and written as it lies");

static inline uint16_t get_u16(const char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t get_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t get_u64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void put_u16(struct buf *b, uint64_t v)
{
    buf_add(b, &v, 2);
}

static inline void put_u32(struct buf *b, uint64_t v)
{
    buf_add(b, &v, 4);
}

static inline void put_u64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, 8);
}
