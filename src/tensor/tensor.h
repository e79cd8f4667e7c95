// tensor/tensor.h: what the layers above (nn, optim) need beyond the public det/tensor.h.
#pragma once

#include "det/tensor.h"

// Where an operation was called from: a chain of names, innermost first. Error messages show it as
// a path ("encoder.0.fc1"). Embedded in modules, so it lives as long as they do.
struct origin {
    const struct origin *parent;
    const char *name;
};

// Operations of this thread are made on behalf of origin from now on. Returns the previous one.
const struct origin *tape_set_origin(const struct origin *origin);

// True after a failure that nobody has fetched with det_check yet.
bool tape_failed(void);

// Runs what was put off, so that memory of t may be read or written directly.
void tensor_finish(det_tensor *t);

// Memory of a contiguous tensor for direct use; writers call tensor_touch afterwards so that a
// backward that still needs the old content notices.
void *tensor_memory(det_tensor *t);
void tensor_touch(det_tensor *t);

// Moves the content of n leaf tensors into one block, each padded with zeros to TENSOR_FLAT_ALIGN
// elements, and gives them gradients in a second block of the same layout: one loop then serves
// them all. The tensors share the blocks' lifetime. Returns 0, or DET_ENOMEM with nothing changed.
enum { TENSOR_FLAT_ALIGN = 16 };
struct flat {
    float *value, *grad;
    int64_t n_elements; // padding included
    int64_t *offset;    // of each tensor, n entries and the end
    struct storage *value_storage, *grad_storage;
};
int flat_init(struct flat *flat, det_tensor **t, int n, det_err *err);
void flat_done(struct flat *flat);

// Whether the gradient memory of a leaf holds a gradient (as opposed to "none yet").
bool tensor_grad_valid(const det_tensor *t);
void tensor_set_grad_valid(det_tensor *t, bool valid);
