// sys/entropy.h: bytes that nobody can guess, for identifiers and tokens. What a training draws
// comes from base/rng.h and can be repeated; this cannot.
#pragma once

#include "det/err.h"
#include <stddef.h>

int entropy_read(void *out, size_t n, det_err *err); // at most 256 bytes
