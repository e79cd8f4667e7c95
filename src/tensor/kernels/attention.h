// kernels/attention.h: rows of attention scores.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Rows of `keys` scores, ld apart, a whole number of vectors; one row per query.
struct attention_rows {
    int64_t rows, keys, ld;
    bool causal;
    int64_t
        first_query; // number of the first row; with causal, row i sees the keys up to its number
    float scale;
    const uint8_t *allowed; // mask of the first row: false hides a key
    const float *bias;      // or it is added; NULL, NULL: no mask
    int64_t mask_stride;    // from row to row
    float *score;           // q k^T before, weights after
    float *grad;            // gradient of the weights before, of q k^T after
    float *bias_grad;       // gradient of bias, if not NULL, bias_grad_stride apart
    int64_t bias_grad_stride;
    float *largest; // score of each row
    float *sum;     // of the exponentials of each row's distances from it
};

struct attention_dropout {
    double p;
    uint64_t seed, stream;
    int64_t row_blocks; // blocks of random bits set aside for one row: a quarter of all keys
};
