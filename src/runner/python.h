// runner/python.h: the interpreter and the packages of Python that a task asks for. Private to the
// layer.
#pragma once

#include "base/arena.h"
#include "det/err.h"

struct python_opts {
    const char *python;              // an interpreter or a virtual environment; NULL: python3
    const char *const *requirements; // lines of a file of requirements
    int n_requirements;
};

// Finds the interpreter. With requirements, a virtual environment that has them on top of what the
// interpreter has: it is made if this is the first time, and several processes that want the same
// make it once; what pip says goes to stderr. *out is an interpreter.
int python_find(const struct python_opts *opts, struct arena *arena, const char **out,
                det_err *err);

// What is started from now on finds it as python3, and as DET_PYTHON.
void python_use(struct arena *arena, const char *python);
