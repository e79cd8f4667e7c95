// tensor/gemm_bf16.h: the bf16 side of gemm.c. Private to the layer.
#pragma once

#include "tensor/gemm.h"

// One product with A and B rounded to bf16 (each may be stored as f32 or bf16) and f32 sums, if
// there is a bf16_unit() and k is not 0. `shared` says whether to use the pool. 0 or DET_ENOMEM.
int gemm_bf16(const struct gemm *g, const void *a, const void *b, char *c, char *slope,
              bool shared);

// Instructions that multiply pairs of bf16: the processor's best way, or NULL members where it has
// none.
struct bf16_unit {
    int width;   // columns of a panel
    int k_round; // k is padded to a multiple of this
    int speed;   // products in the time of one of f32, about
    void (*panel)(const struct gemm_panel_bf16 *p);
    // B[k x width] -> [k / 2][width padded to 16][2], k padded with zeros to k_round
    void (*pack_b)(const struct matrix *b, const void *at, int64_t k, int width, uint16_t *out);
    // A[m x k] -> rows of bf16, k padded
    void (*pack_a)(const struct matrix *a, const void *at, int64_t m, int64_t k, uint16_t *out);
};

const struct bf16_unit *bf16_unit(void); // NULL: this processor has none
