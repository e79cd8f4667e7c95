// kernels/pooling.h: max pooling of (H, W, C) images, a vector of channels at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// One row of results. Windows start at y0 (and, for the i-th, at x0 + i * stride), may reach out of the
// image, and hold kh x kw pixels.
struct pool_row {
    const float *image;
    int64_t h, w, c;
    int64_t y0, x0, stride;
    int64_t kh, kw;
    int64_t n;           // results
    const float *bias;   // added to the winner; NULL: none
    bool relu;           // applied last
    float *out;          // (n, c)
    uint8_t *winner;     // (n, c), if the window has at most 256 pixels
    int32_t *wide_winner; // otherwise
};

// Where the windows' gradients go: the winners of (n, c) results.
struct pool_row_grad {
    const float *g;
    const uint8_t *winner;
    const int32_t *wide_winner;
    int64_t h, w, c;
    int64_t y0, x0, stride;
    int64_t kh, kw;
    int64_t n;
    float *image; // gradients are added
};

// A gradient that is not zero, and the input element its kernel starts at.
struct sparse_grad {
    float value;
    int32_t offset;
};

enum { SPARSE_MAX_VECTORS = 12 };
