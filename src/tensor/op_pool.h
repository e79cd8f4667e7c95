// tensor/op_pool.h: what max_pool2d and avg_pool2d have in common: det_pool_opts are the attributes
// of both. Private to the layer.
#pragma once

#include "tensor/ops.h"

extern const struct attr_field pool_attrs[];

// For infer: completes the options, checks them, and computes height and width of the result.
int pool_out_size(struct node *n, int64_t out[2]);
