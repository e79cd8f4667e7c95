// native/core.h: the Core type: a program's connection to its master, or to its own files.
#pragma once

#include "native.h"

#include "client/client.h"
#include <pthread.h>

// Several threads of Python may use one; `lock` lets one in at a time, and is only ever waited for
// without the lock of the interpreter.
struct core {
    PyObject_HEAD det_core *core; // NULL: closed
    pthread_mutex_t lock;
    int64_t n_ops;     // operations that were given out: only the last one can be completed
    int n_checkpoints; // being written
};

// Leaves the interpreter's lock, takes this one; and back. Between them no function of Python may
// be called. core_enter fails with an exception (false) if it was closed.
struct core_visit {
    struct core *core;
    PyThreadState *state;
};
bool core_enter(PyObject *self, struct core_visit *out);
void core_leave(struct core_visit *visit);

PyObject *operation_new(PyObject *core, det_search_op *op, int64_t number);
PyObject *checkpoint_new(PyObject *core, det_checkpoint *checkpoint, const char *path);
