// tensor/rows.h: a tensor seen as rows along one of its dims. Private to the layer.
#pragma once

#include "tensor/node.h"

// n_rows rows of n elements, dense, in the order of the other dims.
struct rows {
    void *data;
    int64_t n_rows, n;
    det_tensor *copy;  // where they had to be copied to; NULL: they are the tensor itself
    det_tensor *write; // the copy goes back here
    int dim;
};

// The rows of t along dim, to be read as dtype. 0 or DET_ENOMEM. End with rows_done.
int rows_read(struct rows *r, det_tensor *t, int dim, det_dtype dtype);

// The same for writing all of t, and for changing what is there; rows_done puts them in their
// place.
int rows_write(struct rows *r, det_tensor *t, int dim, det_dtype dtype);
int rows_update(struct rows *r, det_tensor *t, int dim, det_dtype dtype);
void rows_done(struct rows *r);
