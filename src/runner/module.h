// runner/module.h: the code of a trial: a file of C, a shared library, or a module of Python. Private to
// the layer.
#pragma once

#include "base/arena.h"
#include "det/err.h"

enum module_kind { MODULE_C, MODULE_LIBRARY, MODULE_PYTHON };

struct module {
    enum module_kind kind;
    const char *path; // of the file: "model_def.c", "model_def/__init__.py"
};

// Finds the file of a module: "model_def", "code/model_def", "models.mnist" (of Python); a suffix
// decides between several, without one they are an error.
int module_find(const char *name, struct arena *arena, struct module *out, det_err *err);

// Loads C, compiled if need be, or a library; the trials in it are then known (det/trial.h). What the
// compiler has to say goes to stderr. The code stays loaded.
int module_load(const struct module *module, det_err *err);
