// base/assert.h: ASSERT states a precondition. It stays on in release builds and is for our own
// mistakes only, never for input.
//   ASSERT(cond)   STATIC_LEN(array)   MIN(a, b)   MAX(a, b)   divide_up(n, by)   round_up(n, to)
#pragma once

#include "base/banned.h"
#include <stdint.h>

#define ASSERT(cond) ((cond) ? (void)0 : assert_failed(#cond, __FILE__, __LINE__))
#define STATIC_LEN(array) (sizeof(array) / sizeof *(array))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static inline int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static inline int64_t round_up(int64_t n, int64_t to)
{
    return divide_up(n, to) * to;
}

_Noreturn void assert_failed(const char *cond, const char *file, int line);
