// tensor/elementwise.h: applies a loop over elements to whole tensors. Private to the layer.
#pragma once

#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

// The loop for a type, or NULL if there is none.
ew_fn ew_unary(enum unary_id id, det_dtype dtype);
ew_fn ew_unary_grad(enum unary_id id, det_dtype dtype); // out, g, what the function saves
ew_fn ew_predicate(enum predicate_id id, det_dtype dtype);
ew_fn ew_binary(enum binary_id id, det_dtype dtype);
ew_fn ew_cast(det_dtype to, det_dtype from);
ew_fn ew_where(det_dtype dtype); // out, bool, a, b
ew_fn ew_axpy(det_dtype dtype);  // out += arg[0] * in
void add_floats(float *to, const float *from, int64_t n);

enum { EW_MAX_OPERANDS = 4 };

// Runs fn over all elements of t[0] (the output); t[1..] broadcast to its shape. arg may be NULL.
void ew_run(ew_fn fn, det_tensor *const *t, int n, const double *arg);

// out = in, converted and broadcast.
void ew_copy(det_tensor *out, det_tensor *in);
void ew_fill(det_tensor *out, double value);
