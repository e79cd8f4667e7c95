// tensor/channel_norm.h: normalisation per channel: what batch_norm and group_norm share. Private
// to the layer.
//
// Both see x as sets of rows of C channels, channel fastest, and bring every group of channels of
// every set to mean 0 and variance 1. batch_norm has one set and groups of one channel; group_norm
// has one set per image.
#pragma once

#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

struct channel_attr {
    double eps, momentum;
    bool training; // batch_norm: by the statistics of this batch
    bool relu;
    bool pooled;      // by windows of 2 x 2 behind the relu
    int64_t n_groups; // group_norm; 0: batch_norm
};

enum { NORM_X, NORM_WEIGHT, NORM_BIAS, NORM_RUNNING_MEAN, NORM_RUNNING_VAR, NORM_SKIP };
enum {
    NORM_AUX_STATS, // f64 (2, sets, C): mean and 1 / sqrt(variance + eps)
    NORM_AUX_X,     // x as rows
    NORM_AUX_WINNER // which pixel won, if pooled
};

struct sets {
    int64_t n, rows, c, group; // rows per set, channels per group
};

// --- memory order (channel_blocks.c)

// Strides of (N, C, ...) with the channel fastest.
void channel_strides(const int64_t *shape, int ndim, int64_t *stride);
det_tensor *channel_rows_new(const det_tensor *like); // owned by the caller; NULL after DET_ENOMEM
det_tensor *channel_rows(det_tensor *t); // t, or a copy with the channel fastest. Release it.

// --- blocks of rows (channel_blocks.c)
// Rows are taken in blocks that fit the first-level cache; what blocks sum up is combined
// afterwards, in f64 and in a fixed order.

struct channel_job {
    struct channel_norm k; // of all rows
    struct sets sets;
    int64_t block_rows, n_blocks; // blocks of one set
    double *first, *second;       // (sets, blocks, C): results of the blocks
    float *work;                  // (sets, blocks, 2, C)
};

// Blocks of whole pairs of lines if they are pooled: pooled_line is the width of the image, or 0.
struct channel_job channel_job_new(const struct sets *s, bool bf16, int64_t pooled_line);
bool channel_job_alloc(struct channel_job *j); // memory for results; false: there is none

// Each runs one kernel over all blocks.
void channel_job_stats(struct channel_job *j); // first: mean, second: squared distances from it
void channel_job_forward(struct channel_job *j);
void channel_job_sums(struct channel_job *j); // first: of g, second: of g * (x - mean)
void channel_job_backward(struct channel_job *j);

// --- the operation (channel_norm.c)

// Statistics of x, or those given; running statistics are updated. Not to be put off: they change,
// and are read, in the order of the calls.
int channel_norm_prepare(struct node *n);
int channel_norm_forward(struct node *n);
int channel_norm_backward(struct node *n);
