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
    BINARY_bitwise_and,
    BINARY_bitwise_or,
    BINARY_bitwise_xor,
    BINARY_bitwise_left_shift,
    BINARY_bitwise_right_shift,
    N_BINARY
};

enum fold_id {
#define FOLD(name, merge, start, value) FOLD_##name,
#define FLOAT_FOLD FOLD
#include "tensor/kernels/folds.def"
#undef FOLD
#undef FLOAT_FOLD
    N_FOLDS
};

// A matrix whose rows are ld elements apart. fold_columns folds every column into out[column],
// fold_rows every row into out[row]; both go on from what out holds. Accumulators are f32 for f32
// and bf16.
struct fold_block {
    const void *src;
    int64_t rows, width, ld;
    const void *centre; // one per entry of out, for the folds that have one
    double power;
    void *out;
};

enum { FOLD_TILE = 64, FOLD_BLOCK = 32, FOLD_SHORT = 16 }; // see fold_loops.h

// Rows of n elements. in is x, or y for the gradients; g is the gradient of y.
enum softmax_id { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRAD, LOG_SOFTMAX_GRAD };
struct softmax_rows {
    const void *in, *g;
    void *out;
    int64_t n_rows, n;
};

// One per row: out = factor * exp(in - centre) - minus.
struct scaled_exp {
    float centre, factor, minus;
};

enum loss_id {
#define LOSS(name, value, by_x, by_t) LOSS_##name,
#include "tensor/kernels/losses.def"
#undef LOSS
    N_LOSSES
};

// n inputs and targets; gradients are scale * g (all ones if NULL) * derivative.
struct loss_block {
    int64_t n;
    const void *x, *t, *g;
    double p, scale;
    void *out; // values: f32; gradients: the type of x
};

// Columns [from, to) of n rows of src are added to the rows of out that index names, in order; both
// have ld columns. Rows for `skip` are left out.
struct add_rows {
    const int64_t *index;
    const float *src;
    float *out;
    int64_t n, ld, from, to, skip;
};

// Random numbers are a function of (seed, stream, element). Philox gives four words per block; for
// the vectors' sake words lie in groups of RANDOM_GROUP, first the first words of RANDOM_LANES
// blocks, then their second ones ...: element e is word (e % 256) / 64 of block e / 256 * 64 + e
// % 64.
enum { RANDOM_LANES = 64, RANDOM_GROUP = 4 * RANDOM_LANES };
struct random_range {
    uint64_t seed, stream;
    int64_t group, n; // n elements from the start of a group on
};

// out = x * scale where the random word is at least threshold, x * 0 elsewhere.
struct dropout_args {
    uint32_t threshold;
    float scale;
    const void *x;
    void *out;
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
    K(void, gemm_pack, (const void *b, bool bf16, int64_t rs, int64_t cs, int64_t k_end, int width, \
                        float *out)) \
    K(void, gemm_turn, (const float *x, int64_t ld, int m, int64_t n, float *out, int64_t ld_out))  \
    K(void, gemm_pack_a, (const void *a, bool bf16, int64_t rs, int64_t cs, int64_t m, int64_t k_end, \
                          int rows, float *out)) \
    K(void, gemm_round, (float *x, int64_t n)) \
    K(void, gemm_finish, (const struct gemm_finish *f))                                             \
    K(void, gemm_small, (const struct gemm_small *g))                                               \
    K(void, gemm_sparse, (const struct gemm_sparse *p))                                             \
    K(void, nonzero_bits, (const float *a, int64_t stride, int64_t m, int n, uint64_t *bits))       \
    K(bool, all_finite, (const float *x, int64_t n))                                                \
    /* reductions */                                                                               \
    K(void, fold_columns, (enum fold_id id, bool bf16, const struct fold_block *b))                \
    K(void, fold_rows, (enum fold_id id, bool bf16, const struct fold_block *b))                   \
    /* softmax */                                                                                   \
    K(void, softmax, (enum softmax_id id, bool bf16, const struct softmax_rows *r))                 \
    K(void, log_sum_exp, (const void *x, bool bf16, int64_t n_rows, int64_t n, double *out))        \
    K(void, scaled_exp, (const struct softmax_rows *r, bool bf16, const struct scaled_exp *s))      \
    /* losses */                                                                                    \
    K(float, loss_sum, (enum loss_id id, bool bf16, const struct loss_block *b))                    \
    K(void, loss_values, (enum loss_id id, bool bf16, const struct loss_block *b))                  \
    K(void, loss_grad, (enum loss_id id, bool bf16, bool by_target, const struct loss_block *b))    \
    K(void, add_rows, (const struct add_rows *a))                                                   \
    /* random numbers */                                                                            \
    K(void, random_words, (const struct random_range *r, uint32_t *out))                            \
    K(void, random_unit, (const struct random_range *r, float *out))                                \
    K(void, random_normal, (const struct random_range *r, float *out))                              \
    K(void, dropout, (const struct random_range *r, bool bf16, const struct dropout_args *a))       \
    /* winograd.h */                                                                                \
    K(void, wino_input, (const struct wino_inputs *r))                                              \
    K(void, wino_gradient, (const struct wino_tile *t, float *to, int64_t step))                    \
    K(void, wino_output, (const float *from, int64_t step, const float *bias, const struct wino_tile *t))\
    K(void, wino_kernel, (const float *from, int64_t stride, bool turned, struct wino_shape shape,  \
                          float *to, int64_t step))                                                 \
    K(void, wino_kernel_5, (const float *from, int64_t stride, int n, float *to, int64_t step))     \
    K(void, wino_pool, (const struct wino_pool *p))                                                 \
    K(void, wino_kernel_grad, (const float *from, int64_t step, struct wino_shape shape, float *to, \
                               int64_t stride, bool accumulate))                                    \
    /* pooling.h */                                                                                 \
    K(void, pool_row, (const struct pool_row *p))                                                   \
    K(void, pool_row_grad, (const struct pool_row_grad *p))                                         \
    K(void, conv_pool_row, (const struct conv_pool_row *p))                                         \
    K(void, window_row, (const struct window_row *r))                                               \
    K(void, pooled_pick, (const struct pooled_pick *p))                                             \
    K(void, sparse_sums, (const struct sparse_lists *l, float *sum)) \
    K(void, sparse_by_channel, (const struct pooled_image *p, struct sparse_grad *list, int32_t *count, \
                                float *total))                                                      \
    K(void, sparse_scatter, (const struct pooled_image *p, const struct sparse_weights *w,          \
                             struct sparse_grad *list, int32_t *count, float *image))              \
    /* norm.h */                                                                                    \
    K(void, channel_stats, (const void *x, bool bf16, int64_t rows, int64_t c, float *work,         \
                            double *mean, double *m2))                                              \
    K(void, channel_forward, (const struct channel_norm *k))                                        \
    K(void, channel_sums, (const struct channel_norm *k, const struct channel_sums *to))            \
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
