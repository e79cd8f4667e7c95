// tensor/tensor.h: what the layers above (nn, optim) need beyond the public det/tensor.h.
#pragma once

#include "base/mem.h"
#include "det/tensor.h"
#include "value/value.h"

// det_dtype_size and det_dtype_is_float for types that are known to be some.
static inline size_t dtype_size(det_dtype dtype)
{
    static const uint8_t size[DET_N_DTYPES] = {
#define DTYPE_SIZE(name, ctype, bytes, is_float) [DET_##name] = bytes,
        DET_DTYPES(DTYPE_SIZE)
#undef DTYPE_SIZE
    };
    return size[dtype];
}

static inline bool dtype_is_float(det_dtype dtype)
{
#define DTYPE_IS_FLOAT(name, ctype, bytes, is_float) | is_float << DET_##name
    return (0 DET_DTYPES(DTYPE_IS_FLOAT)) >> dtype & 1;
#undef DTYPE_IS_FLOAT
}

// Types that can be stored and converted; operations that compute refuse them.
static inline bool dtype_is_stored(det_dtype dtype)
{
    return (1 << DET_F16 | 1 << DET_I16 | 1 << DET_I8) >> dtype & 1;
}

// Where an operation was called from: a chain of names, innermost first. Error messages show it as
// a path ("encoder.0.fc1"). Embedded in modules, so it lives as long as they do.
struct origin {
    const struct origin *parent;
    const char *name;
};

// Operations of this thread are made on behalf of origin from now on. Returns the previous one.
const struct origin *tape_set_origin(const struct origin *origin);

// Says what is allowed and rarely meant, once per place (NULL: once per text) and thread: to the
// thread's handler, or stderr.
void tensor_warn(const char *place, const char *fmt, ...) DET_PRINTF(2, 3);

// Runs what was put off, so that memory of t may be read directly; before writing, all that this
// thread put off must have run, for it may want the old content.
void tensor_finish(det_tensor *t);
void tape_finish_all(void);

bool same_shape(const det_tensor *a, const det_tensor *b);

// Memory of a contiguous tensor for direct use; writers call tensor_touch afterwards so that a
// backward that still needs the old content notices.
void *tensor_memory(det_tensor *t);
void tensor_touch(det_tensor *t);

// --- for file formats, which describe tensors as views of blocks of memory

// The first element of t, whatever its strides. NULL after an error.
const void *tensor_first(det_tensor *t);

struct storage;
struct storage *storage_new(size_t n_bytes); // 64-byte aligned, content undefined; NULL: no memory
void storage_unref(struct storage *s);
void *storage_data(struct storage *s);

// Where the elements of a tensor lie: offset and strides are in elements.
struct tensor_layout {
    det_dtype dtype;
    int ndim;
    int64_t offset, shape[DET_MAX_DIMS], stride[DET_MAX_DIMS];
};

// A leaf that looks at s, with one reference, the caller's, made outside of any scope. All elements
// must lie inside s.
det_tensor *tensor_over(struct storage *s, const struct tensor_layout *layout);

// A copy of the tree with copies of its tensors; those that cannot be made are left out
// (det_check).
det_value *value_clone(const det_value *v);

// Whether the only holder of a leaf may fill it with something else unnoticed: nobody else holds it
// or a view of it, and no gradient was asked for.
bool tensor_reusable(const det_tensor *t);

// Elements from the first to the last one that a view touches, gaps included: 0 if it is empty, -1
// if sizes or strides are negative or too large to address.
int64_t tensor_extent(const int64_t *shape, const int64_t *stride, int ndim);

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
int flat_init(struct flat *flat, det_tensor *const *t, int n, det_err *err);
void flat_done(struct flat *flat);

// The memory of a leaf that is in some flat, and of its gradient. False if it has no gradient now.
bool flat_memory(const det_tensor *t, float **value, float **grad);

// Says whether the gradient memory of a leaf holds a gradient (as opposed to "none yet").
void tensor_set_grad_valid(det_tensor *t, bool valid);
