// format/array.h: row-major tensors to and from bytes, for the formats that store nothing else.
#pragma once

#include "sys/fs.h"
#include "tensor/tensor.h"

enum { ARRAY_ALIGN = 64 }; // where data starts in the files we write: what vector units like

// Number of bytes of a row-major array, or -1 if sizes are negative or too large to address.
int64_t array_bytes(det_dtype dtype, const int64_t *shape, int ndim);

// Fills in the strides of row-major (or, the other way round, column-major) order.
void array_strides(struct tensor_layout *layout, bool column_major);

// Any byte but 0 in a bool means true in a file; in memory it is 1.
void array_normalise(det_dtype dtype, void *data, size_t n_bytes);

// A copy of bytes, one reference. layout describes exactly these bytes. NULL: DET_ENOMEM.
det_tensor *array_read(const struct tensor_layout *layout, const char *bytes, det_err *err);

// The first element of t, which is not empty. NULL (err says why) if the operation that makes t
// failed.
const void *array_first(det_tensor *t, det_err *err);

// Appends the elements of t in row-major order.
int array_write(struct fs_writer *w, det_tensor *t, det_err *err);
