// runner/module.h: the code of a trial: a file of C or a shared library, loaded into this program.
// Private to the layer.
#pragma once

#include "det/err.h"

// Loads name.c, compiled if need be, or name.so; the trials in it are then known (det/trial.h).
// What the compiler has to say goes to stderr. The code stays loaded.
int module_load(const char *name, det_err *err);
