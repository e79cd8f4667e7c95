// kernels/norm.h: arguments of the normalisation kernels.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Per channel: rows of c channels, channel fastest. Arrays of rows are all f32 or all bf16; arrays
// over channels are f32.
struct channel_norm {
    int64_t rows, c;
    bool bf16;
    bool relu;                        // y = relu(...)
    const float *mean, *scale, *bias; // y = (x - mean) * scale + bias + skip
    const void *x, *skip;             // skip may be NULL
    void *y;
    const void *g; // gradient of y
    void *gx;      // = g * scale + shift + slope * (x - mean)
    const float *shift, *slope;
    void *g_skip; // with skip and relu: gradient before the relu, which is also that of skip
    // With relu and without skip: y and g are pooled, a pixel for each window of 2 x 2. Rows
    // are those of whole pairs of lines of an image, this many pixels long; 0: not pooled.
    int64_t pooled_line;
    uint8_t *winner; // which pixel of its window was the largest, like y
};

// Sums over rows, one for each channel.
struct channel_sums {
    double *g, *gx; // of g, of g * (x - mean)
    float *work;    // 2 c
};

// Along rows of d elements: y = (x - mean) / sqrt(variance + eps) * weight + bias.
struct row_norm {
    int64_t rows, d;
    bool bf16; // x, y, g, gx
    bool rms;  // mean is taken as 0
    float eps;
    const float *weight, *bias; // bias is not read by the backward kernel
    const void *x;
    void *y;
    float *stats; // (rows, 2): mean, 1 / sqrt(variance + eps)
    const void *g;
    void *gx;                 // may be NULL
    float *g_weight, *g_bias; // d values, added to
};
