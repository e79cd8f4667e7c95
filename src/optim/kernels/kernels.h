// optim/kernels/kernels.h: the loops over parameters, compiled once per instruction set.
//
// A kernel updates elements begin .. end - 1. It knows memory, not tensors.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UPDATE_MAX_STATE = 3 };

// One step over one stretch of parameters; which coefficients are set depends on the kernel. sign
// is -1 to maximize; decay is added to the gradient (L2), shrink multiplies the value (decoupled
// weight decay).
struct update {
    float *value;
    const float *grad;
    float *state[UPDATE_MAX_STATE];
    float sign, decay, shrink, lr, eps;
    float momentum, beta1, beta2;
    float new_share, new_share2; // of a gradient in the averages, beside momentum, beta1 and beta2
    bool nesterov;
};

typedef void (*update_fn)(const struct update *u, int64_t begin, int64_t end);

#define OPTIM_KERNELS(K)                                                        \
    K(void, sgd, (const struct update *u, int64_t begin, int64_t end))          \
    K(void, sgd_momentum, (const struct update *u, int64_t begin, int64_t end)) \
    K(void, adam, (const struct update *u, int64_t begin, int64_t end))         \
    K(void, rmsprop, (const struct update *u, int64_t begin, int64_t end))      \
    K(void, adagrad, (const struct update *u, int64_t begin, int64_t end))      \
    K(void, lion, (const struct update *u, int64_t begin, int64_t end))         \
    K(double, sum_of_squares, (const float *x, int64_t n))                      \
    K(void, scale, (float *x, int64_t n, float factor))                         \
    K(void, clamp, (float *x, int64_t n, float limit))                          \
    K(bool, scale_finite, (float *x, int64_t n, float factor)) /* false: some were not finite */

struct optim_kernels {
#define OPTIM_KERNELS_FIELD(result, name, args) result(*name) args;
    OPTIM_KERNELS(OPTIM_KERNELS_FIELD)
#undef OPTIM_KERNELS_FIELD
};

// The best set for this processor.
extern const struct optim_kernels *optim_kernels;

extern const struct optim_kernels optim_kernels_plain, optim_kernels_avx2, optim_kernels_avx512;
