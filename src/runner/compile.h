// runner/compile.h: one file of C becomes a shared library. Private to the layer.
#pragma once

#include "base/arena.h"
#include "det/err.h"
#include <stdbool.h>

// The path of the library made from a source, which is in the cache if the same text, headers
// included, was compiled before; anew: even then. Lives in the arena. NULL on failure; what the
// compiler says goes to stderr as it is.
const char *compile_library(const char *source, bool anew, struct arena *arena, det_err *err);
