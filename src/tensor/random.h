// tensor/random.h: the random stream for operations that need one. Private to the layer.
#pragma once

#include "tensor/node.h"

// A stream number for rng.h that no other random operation of this thread has; the seed is
// tape_get()->rng.seed.
uint64_t rng_next_stream(void);
