// tensor/op_pool.h: what max_pool2d and avg_pool2d have in common: det_pool_opts are the attributes
// of both. Private to the layer.
#pragma once

#include "tensor/ops.h"

extern const struct attr_field pool_attrs[];

// For infer: completes the options, checks them, and computes height and width of the result.
int pool_out_size(struct node *n, int64_t out[2]);

// The same for windows with gaps: options of a window as large as one with its gaps, and the sizes
// of its results. False after an error.
bool pool_dilate(det_tensor *x, const det_pool_opts *opts, det_pool_opts *wide, int64_t out[2]);
