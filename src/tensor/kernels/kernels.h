// tensor/kernels/kernels.h: the inner loops, behind one table that is chosen when the program
// starts.
//
// KERNELS is the only list: K(result, name, arguments). A kernel knows memory, not tensors; it does
// not allocate, use threads or fail.
#pragma once

#include "det/tensor.h"
#include "tensor/kernels/attention.h"
#include "tensor/kernels/gemm.h"
#include "tensor/kernels/image.h"
#include "tensor/kernels/norm.h"
#include "tensor/kernels/pooling.h"
#include "tensor/kernels/rnn.h"
#include "tensor/kernels/winograd.h"

// n elements; p[0] is the output, p[1..] the inputs; strides in bytes (0: the same element again);
// arg[0], arg[1] are attributes.
typedef void (*ew_fn)(int64_t n, void *const *p, const int64_t *stride, const double *arg);

enum unary_id {
#define UNARY(name, test, torch, saved, value, grad) UNARY_##name,
#include "tensor/kernels/unary.def"
#undef UNARY
    N_UNARY
};

enum predicate_id {
#define PREDICATE(name, torch, value) PREDICATE_##name,
#include "tensor/kernels/predicate.def"
#undef PREDICATE
    N_PREDICATE
};

enum binary_id {
    BINARY_add,
    BINARY_sub,
    BINARY_mul,
    BINARY_maximum,
    BINARY_minimum,
    BINARY_div,
    BINARY_pow,
    BINARY_fmod,
    BINARY_remainder,
    BINARY_atan2,
    BINARY_eq,
    BINARY_ne,
    BINARY_lt,
    BINARY_le,
    BINARY_gt,
    BINARY_ge,
    BINARY_logical_and,
    BINARY_logical_or,
    BINARY_logical_xor,
    N_BINARY
};

// clang-format off
#define KERNELS(K)                                                                                 \
    /* element-wise, f32 and bf16; NULL for other types */                                          \
    K(ew_fn, unary, (enum unary_id id, det_dtype dtype))                                            \
    K(ew_fn, unary_grad, (enum unary_id id, det_dtype dtype)) /* out, g, x or y */                  \
    K(ew_fn, predicate, (enum predicate_id id, det_dtype dtype))                                    \
    K(ew_fn, binary, (enum binary_id id, det_dtype dtype))                                          \
    K(ew_fn, cast, (det_dtype to, det_dtype from))                                                  \
    K(ew_fn, axpy, (det_dtype dtype)) /* out += arg[0] * in */                                       \
    /* matrix products: gemm.h */                                                                   \
    K(int, gemm_width, (void))      /* columns of a full panel */                                   \
    K(int, gemm_lanes, (void))      /* panels are padded to a multiple of this */                   \
    K(int, gemm_rows, (int width))  /* rows of a tile */                                            \
    K(void, gemm_panel, (const struct gemm_panel *p))                                               \
    K(void, gemm_pack, (const float *b, int64_t rs, int64_t cs, int64_t k_end, int width, float *out)) \
    K(void, gemm_pack_a, (const float *a, int64_t rs, int64_t cs, int64_t m, int64_t k_end, int rows, \
                          float *out))                                                              \
    K(void, gemm_finish, (const struct gemm_finish *f))                                             \
    /* out[j] (+)= sum over rows of src[row * ld + j], j < width */                                 \
    K(void, column_sum, (const void *src, bool bf16, int64_t rows, int64_t ld, int width, float *out, \
                         bool accumulate))                                                          \
    /* winograd.h */                                                                                \
    K(void, wino_input, (const struct wino_tile *t))                                                \
    K(void, wino_gradient, (const struct wino_tile *t))                                             \
    K(void, wino_output, (const float *from, int64_t step, const float *bias, const struct wino_tile *t)) \
    K(void, wino_kernel, (const float *from, int64_t stride, bool turned, float *to, int64_t step))  \
    K(void, wino_kernel_grad, (const float *from, int64_t step, float *to, int64_t stride,          \
                               bool accumulate))                                                    \
    /* pooling.h */                                                                                 \
    K(void, pool_row, (const struct pool_row *p))                                                   \
    K(void, pool_row_grad, (const struct pool_row_grad *p))                                         \
    K(void, sparse_sums, (const struct sparse_lists *l, const int64_t *at, int64_t n, float *sum,   \
                          bool accumulate))                   \
    K(void, sparse_by_channel, (const struct pooled_image *p, struct sparse_grad *list, int32_t *count, \
                                float *total))                                                      \
    K(void, sparse_scatter, (const struct pooled_image *p, const struct sparse_weights *w,          \
                             struct sparse_grad *list, int32_t *start, float *image))              \
    /* norm.h */                                                                                    \
    K(void, channel_stats, (const void *x, bool bf16, int64_t rows, int64_t c, float *mean, float *m2)) \
    K(void, channel_forward, (const struct channel_norm *k))                                        \
    K(void, channel_sums, (const struct channel_norm *k, float *sum_g, float *sum_gx))              \
    K(void, channel_backward, (const struct channel_norm *k))                                       \
    K(void, row_norm_forward, (const struct row_norm *k))                                           \
    K(void, row_norm_backward, (const struct row_norm *k))                                          \
    /* image.h */                                                                                   \
    K(void, window_sum, (const struct window *w, void *out))                                        \
    K(void, window_max, (const struct window *w, void *out, int32_t *position))                     \
    /* attention.h */                                                                               \
    K(void, attention_softmax, (const struct attention_rows *a))                                    \
    K(void, attention_weights, (const struct attention_rows *a))                                    \
    K(void, attention_grad, (const struct attention_rows *a))                                       \
    K(void, attention_divide, (float *rows, int64_t stride, int64_t n_rows, int64_t n, const float *sum)) \
    K(void, attention_drop, (const struct attention_dropout *d, int64_t row, float *x, int64_t n))  \
    /* rnn.h */                                                                                     \
    K(rnn_step_fn, rnn_step, (enum rnn_kind kind))                                                  \
    K(rnn_step_grad_fn, rnn_step_grad, (enum rnn_kind kind))
// clang-format on

struct kernels {
#define KERNELS_FIELD(result, name, args) result(*name) args;
    KERNELS(KERNELS_FIELD)
#undef KERNELS_FIELD
};

// The best set for this processor.
extern const struct kernels *kernels;

extern const struct kernels kernels_plain, kernels_avx2, kernels_avx512;

#ifdef DET_ISA // inside a kernel file: the functions of this compilation
#include "tensor/kernels/simd.h"
#define KERNELS_DECLARE(result, name, args) result KERNEL(name) args;
KERNELS(KERNELS_DECLARE)
#undef KERNELS_DECLARE
#endif
