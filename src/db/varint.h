// db/varint.h: numbers that are mostly small, in few bytes. Private to the layer.
//   varint_put  varint_put_distance  varint_take  varint_take_distance  varint_add
#pragma once

#include "base/buf.h"
#include <stdint.h>

void varint_put(struct buf *out, uint64_t x);

// Small distances, forwards or backwards, become small numbers.
void varint_put_distance(struct buf *out, int64_t x);

// What is left to be read. The first thing that does not fit makes all that follows bad.
struct varint_input {
    const char *at, *end;
    bool bad;
};

uint64_t varint_take(struct varint_input *in);
int64_t varint_take_distance(struct varint_input *in);

// The sum as a number: what is damaged may not overflow.
static inline int64_t varint_add(int64_t from, int64_t distance)
{
    return (int64_t)((uint64_t)from + (uint64_t)distance);
}
