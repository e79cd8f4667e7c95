// base/number.h: numbers as text, the same in every locale.
//   number_to_int  number_is_decimal  number_to_double  buf_add_int  buf_add_double
//   buf_add_rounded
#pragma once

#include "base/buf.h"
#include <stdint.h>

// The whole of text, or false: [-+]digits that fit in 64 bits. Base 10, 8 or 16, without a prefix.
bool number_to_int(struct str text, int base, int64_t *out);

// Digits with an optional sign, point and exponent, and nothing else.
bool number_is_decimal(struct str text);

// Reads such a number; false if it is none, or too large for a double. One too small gives 0.
bool number_to_double(struct str text, double *out);

// The fewest digits that read back as the same finite double. There is always a point ("1.0",
// "2.5e-05"), so that it reads back as a double and not as an integer, by YAML 1.1 readers too.
void buf_add_double(struct buf *b, double value);
// For charts: nine digits, ten times as fast.
void buf_add_rounded(struct buf *b, double value);
void buf_add_int(struct buf *b, int64_t value);
