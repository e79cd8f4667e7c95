// tensor/resample.h: images made from weighted windows of other images: average pooling and
// interpolation. Private to the layer.
//
// The weight of an input pixel in an output pixel is the product of a weight of its row and one of
// its column, so two small sparse matrices say everything, and the gradient uses their transposes.
#pragma once

#include "tensor/node.h"

// Along one axis: the input positions that make up output o. Writes their weights and *first and
// returns how many there are, at most `most`.
struct axis {
    const void *attr;
    int which; // 0: height, 1: width
    int64_t n_in, n_out;
    int64_t most;
};
typedef int64_t (*axis_fn)(const struct axis *a, int64_t o, int64_t *first, double *weight);

// forward and backward of an operation that maps (N, C, H, W) to (N, C, H', W'), both with the
// channel fastest. most: see above, for height and width.
int resample_forward(struct node *n, axis_fn fn, const int64_t *most);
int resample_backward(struct node *n, axis_fn fn, const int64_t *most);

// For infer: checks that input 0 is a float image and describes the result. least: the smallest
// size that makes sense.
int resample_infer(struct node *n, int64_t out_h, int64_t out_w, int64_t least);
