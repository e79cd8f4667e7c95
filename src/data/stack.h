// data/stack.h: samples become a batch: the same tree with tensors that have one more dim.
//   stack_new_tensor  stack_new  stack_fits  stack_put  stack_reusable
//
// Of a sample: tensors are stacked, ints become i64, floats f32 and bools bool tensors of shape
// (n,), strings a list of strings, None stays None.
#pragma once

#include "det/tensor.h"

// A tensor (n, shape...) of undefined content that belongs to no scope. NULL and err on failure.
det_value *stack_new_tensor(det_dtype dtype, int64_t n, const int64_t *shape, int ndim,
                            det_err *err);

// A batch for n samples like first.
det_value *stack_new(const det_value *first, int64_t n, det_err *err);

// Whether an older batch can be filled with n samples like first.
bool stack_fits(const det_value *batch, const det_value *first, int64_t n);

// Writes a sample into a row of the batch, rows in order. Must be called inside of a scope. An
// error says where in the tree the sample is not like the first one.
int stack_put(det_value *batch, const det_value *first, const det_value *sample, int64_t row,
              det_err *err);

// Whether all tensors of a batch may be overwritten: nobody else holds them or views of them.
bool stack_reusable(const det_value *batch);
