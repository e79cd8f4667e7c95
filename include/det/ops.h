// det/ops.h: the operations on tensors. Names, arguments, defaults and results are torch's.
//
// All return a new tensor of the current scope, or NULL after an error (see det/tensor.h). Shapes
// broadcast as in NumPy; types promote as in torch; a negative dim counts from the end. Lists of
// sizes or dims are written DET_DIMS(1, 2).
//
// Optional arguments are named: det_conv2d(x, w, b, .stride = {2, 2}). One that is left out has its
// default, which is written in the macro (DET_OPTS, det/err.h); one that is given means what it
// says, 0 included. Members whose comment says "0: ..." are the exception: there 0 is the default.
// The functions behind the macros (det_..._with) take the struct as it is.
#pragma once

#include "det/tensor.h"

// --- element by element, one argument

// clang-format off
#define DET_UNARY_FUNCTIONS(F)                                                                     \
    F(neg) F(abs) F(sign) F(exp) F(expm1) F(log) F(log1p) F(log2) F(sqrt) F(rsqrt) F(square)        \
    F(reciprocal) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(tanh) F(asinh)     \
    F(acosh) F(atanh) F(sigmoid) F(erf) F(relu) F(relu6) F(selu) F(silu)                            \
    F(mish) F(hardsigmoid) F(hardswish) F(logsigmoid) F(softsign) F(floor) F(ceil) F(round)         \
    F(trunc) F(isnan) F(isinf) F(isfinite) F(logical_not)
// clang-format on
#define DET_DECLARE_UNARY(name) DET_API det_tensor *det_##name(det_tensor *x);
DET_UNARY_FUNCTIONS(DET_DECLARE_UNARY)

DET_API det_tensor *det_leaky_relu(det_tensor *x, double negative_slope);
DET_API det_tensor *det_elu(det_tensor *x, double alpha);
DET_API det_tensor *det_gelu(det_tensor *x);      // exact, with erf
DET_API det_tensor *det_gelu_tanh(det_tensor *x); // the tanh approximation
DET_API det_tensor *det_softplus(det_tensor *x, double beta, double threshold);
DET_API det_tensor *det_hardtanh(det_tensor *x, double min, double max);
DET_API det_tensor *det_clamp(det_tensor *x, double min, double max); // -INFINITY, INFINITY: open
DET_API det_tensor *det_glu(det_tensor *x, int dim); // first half * sigmoid(second half)
DET_API det_tensor *det_prelu(det_tensor *x, det_tensor *weight); // one slope, or one per channel
DET_API det_tensor *det_to(det_tensor *x, det_dtype dtype);

// --- element by element, two arguments

// clang-format off
#define DET_BINARY_FUNCTIONS(F)                                                                    \
    F(add) F(sub) F(mul) F(div) F(pow) F(maximum) F(minimum) F(fmod) F(remainder) F(atan2)          \
    F(eq) F(ne) F(lt) F(le) F(gt) F(ge) F(logical_and) F(logical_or) F(logical_xor)                 \
    F(bitwise_and) F(bitwise_or) F(bitwise_xor) F(bitwise_left_shift) F(bitwise_right_shift)
// clang-format on
#define DET_DECLARE_BINARY(name)                                  \
    DET_API det_tensor *det_##name(det_tensor *a, det_tensor *b); \
    DET_API det_tensor *det_##name##_scalar(det_tensor *a, double b);
DET_BINARY_FUNCTIONS(DET_DECLARE_BINARY)

DET_API det_tensor *det_bitwise_not(det_tensor *x);
DET_API det_tensor *det_where(det_tensor *condition, det_tensor *a, det_tensor *b);
DET_API det_tensor *det_masked_fill(det_tensor *x, det_tensor *mask, double value);

// --- reductions: over everything, or over the listed dims

// any and all ask whether elements are not 0: bool, of u8 u8.
#define DET_REDUCTIONS(F) F(sum) F(mean) F(max) F(min) F(prod) F(logsumexp) F(any) F(all)
#define DET_DECLARE_REDUCTION(name)                \
    DET_API det_tensor *det_##name(det_tensor *x); \
    DET_API det_tensor *det_##name##_over(det_tensor *x, const int64_t *dims, int n, bool keepdim);
DET_REDUCTIONS(DET_DECLARE_REDUCTION)

// correction 1 is torch's default (unbiased), 0 divides by n.
DET_API det_tensor *det_var(det_tensor *x, double correction);
DET_API det_tensor *det_var_over(det_tensor *x, const int64_t *dims, int n, double correction,
                                 bool keepdim);
DET_API det_tensor *det_std(det_tensor *x, double correction);
DET_API det_tensor *det_std_over(det_tensor *x, const int64_t *dims, int n, double correction,
                                 bool keepdim);
DET_API det_tensor *det_norm(det_tensor *x, double p); // p > 0, or INFINITY
DET_API det_tensor *det_norm_over(det_tensor *x, double p, const int64_t *dims, int n,
                                  bool keepdim);

// Values along dim with their positions (i64) in *indices, which may be NULL.
DET_API det_tensor *det_max_along(det_tensor *x, int dim, bool keepdim, det_tensor **indices);
DET_API det_tensor *det_min_along(det_tensor *x, int dim, bool keepdim, det_tensor **indices);
DET_API det_tensor *det_argmax(det_tensor *x, int dim, bool keepdim);
DET_API det_tensor *det_argmin(det_tensor *x, int dim, bool keepdim);
DET_API det_tensor *det_cumsum(det_tensor *x, int dim);
DET_API det_tensor *det_cumprod(det_tensor *x, int dim);
DET_API det_tensor *det_topk(det_tensor *x, int64_t k, int dim, bool largest, det_tensor **indices);
DET_API det_tensor *det_sort(det_tensor *x, int dim, bool descending, det_tensor **indices);
// The k-th smallest, k counting from 1; the median is the lower one of two.
DET_API det_tensor *det_kthvalue(det_tensor *x, int64_t k, int dim, bool keepdim,
                                 det_tensor **indices);
DET_API det_tensor *det_median_along(det_tensor *x, int dim, bool keepdim, det_tensor **indices);
DET_API det_tensor *det_median(det_tensor *x);
// All different elements, sorted. inverse (like x): which of them each element is; counts: how often
// each is there; both may be NULL.
DET_API det_tensor *det_unique(det_tensor *x, det_tensor **inverse, det_tensor **counts);

// --- products

DET_API det_tensor *det_matmul(det_tensor *a, det_tensor *b); // 1-d, 2-d and batched, as torch
DET_API det_tensor *det_linear(det_tensor *x, det_tensor *weight,
                               det_tensor *bias); // bias: NULL ok

// "bij,bjk->bik", as torch: letters, ..., repeated letters for diagonals, sums over what is not in
// the result.
DET_API det_tensor *det_einsum(const char *equation, det_tensor *const *x, int n);

typedef struct det_attention_opts {
    det_tensor *mask; // bool (true = attend) or float (added), broadcast to (..., queries, keys)
    bool causal;      // query i sees keys 0 .. i only
    double scale;     // 0: 1 / sqrt(head size)
    double dropout;
} det_attention_opts;

// softmax(q k^T * scale + mask) v; q (..., T, D), k (..., S, D), v (..., S, E). A query that may
// see no key gets NaN, as from torch's softmax, and passes no gradient on.
#define det_attention(q, k, v, ...) det_attention_with(q, k, v, (det_attention_opts){__VA_ARGS__})
DET_API det_tensor *det_attention_with(det_tensor *q, det_tensor *k, det_tensor *v,
                                       det_attention_opts opts);

// --- shape
// reshape, permute, transpose, expand, squeeze, unsqueeze, slice, select, split, chunk, diagonal and
// unfold_dim share memory with their argument where that is possible.

DET_API det_tensor *det_reshape(det_tensor *x, const int64_t *shape, int n); // one size may be -1
DET_API det_tensor *det_view(det_tensor *x, const int64_t *shape, int n);    // never copies
DET_API det_tensor *det_flatten(det_tensor *x, int start_dim, int end_dim);
DET_API det_tensor *det_permute(det_tensor *x, const int64_t *dims, int n);
DET_API det_tensor *det_transpose(det_tensor *x, int dim0, int dim1);
DET_API det_tensor *det_expand(det_tensor *x, const int64_t *shape, int n); // -1 keeps a size
DET_API det_tensor *det_squeeze(det_tensor *x, int dim);
DET_API det_tensor *det_squeeze_all(det_tensor *x);
DET_API det_tensor *det_unsqueeze(det_tensor *x, int dim);
DET_API det_tensor *det_slice(det_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
DET_API det_tensor *det_select(det_tensor *x, int dim, int64_t index); // drops dim
DET_API det_tensor *det_contiguous(det_tensor *x);
DET_API det_tensor *det_clone(det_tensor *x);
DET_API det_tensor *det_concat(det_tensor *const *x, int n, int dim);
DET_API det_tensor *det_stack(det_tensor *const *x, int n, int dim);

// Pieces of the given size (the last may be smaller) into out[0 .. max_out); returns how many, or a
// negative code. They are slices, and may be written into like others.
DET_API int det_split(det_tensor *x, int64_t size, int dim, det_tensor **out, int max_out);

// The same, that many pieces of one size, the last ones smaller or missing.
DET_API int det_chunk(det_tensor *x, int64_t chunks, int dim, det_tensor **out, int max_out);

DET_API det_tensor *det_repeat(det_tensor *x, const int64_t *times,
                               int n); // as torch.Tensor.repeat
// Elements shift along dims, what leaves comes back at the other end. dims NULL: n is 1 and x is
// taken as one row.
DET_API det_tensor *det_roll(det_tensor *x, const int64_t *shifts, const int64_t *dims, int n);
// Two dims become their diagonal, the last dim; offset: how far to the right of the main one.
DET_API det_tensor *det_diagonal(det_tensor *x, int64_t offset, int dim1, int dim2);
// All windows of a dim, step apart; a window is a new last dim (torch.Tensor.unfold).
DET_API det_tensor *det_unfold_dim(det_tensor *x, int dim, int64_t size, int64_t step);
DET_API det_tensor *det_pixel_shuffle(det_tensor *x, int64_t factor); // channels become pixels
DET_API det_tensor *det_pixel_unshuffle(det_tensor *x, int64_t factor);

// pads: (before, after) of the last dim, then of the one before it, ... as torch.
DET_API det_tensor *det_pad(det_tensor *x, const int64_t *pads, int n, double value);
typedef enum det_padding {
    DET_PADDING_ZEROS,
    DET_PADDING_REFLECT,   // mirrored at the edge, which is there once
    DET_PADDING_REPLICATE, // the edge again and again
    DET_PADDING_CIRCULAR   // from the other side
} det_padding;
DET_API det_tensor *det_pad_mode(det_tensor *x, const int64_t *pads, int n, det_padding mode);
DET_API det_tensor *det_flip(det_tensor *x, const int64_t *dims, int n);
DET_API det_tensor *det_tril(det_tensor *x, int64_t diagonal);
DET_API det_tensor *det_triu(det_tensor *x, int64_t diagonal);

// --- by index (indices are i64 or i32; out of range is an error)

DET_API det_tensor *det_index_select(det_tensor *x, int dim, det_tensor *index);
DET_API det_tensor *det_gather(det_tensor *x, int dim, det_tensor *index);
DET_API det_tensor *det_scatter_add(det_tensor *x, int dim, det_tensor *index, det_tensor *src);
DET_API det_tensor *det_one_hot(det_tensor *index, int64_t n_classes); // i64; -1: largest + 1
// padding_idx: that row gets no gradient; -1: none.
DET_API det_tensor *det_embedding(det_tensor *index, det_tensor *weight, int64_t padding_idx);

// x[indices[0], indices[1], ...]: an index is a tensor of indices, which may be negative, a mask
// (bool) for as many dims as it has, or NULL: all of a dim. They broadcast, and what they stand for
// becomes their dims, in its place if they are neighbours, else in front.
DET_API det_tensor *det_index(det_tensor *x, det_tensor *const *indices, int n);
// A copy of x with these elements replaced by values, which broadcast, or with values added. To
// change x itself: det_copy_(x, det_index_put(x, ...)).
DET_API det_tensor *det_index_put(det_tensor *x, det_tensor *const *indices, int n,
                                  det_tensor *values, bool accumulate);
DET_API det_tensor *det_masked_select(det_tensor *x, det_tensor *mask); // 1 dim
DET_API det_tensor *det_nonzero(det_tensor *x); // i64 (elements that are not 0, dims of x)
// n positions of each row of weights, (classes) or (N, classes), which need not sum up to 1.
DET_API det_tensor *det_multinomial(det_tensor *weights, int64_t n, bool replacement);

typedef enum det_bag { DET_BAG_SUM, DET_BAG_MEAN, DET_BAG_MAX } det_bag;
typedef struct det_embedding_bag_opts {
    det_bag mode;
    det_tensor *offsets;            // where bags begin in an index of 1 dim; NULL: it is (bags, n)
    det_tensor *per_sample_weights; // of each index; sums only
    int64_t padding_idx;            // is not in the bags; -1: none
} det_embedding_bag_opts;
// The sum, mean or largest elements of the rows of weight that are in each bag of indices.
#define det_embedding_bag(index, weight, ...) \
    det_embedding_bag_with(                   \
        index, weight,                        \
        DET_OPTS(det_embedding_bag_opts, .mode = DET_BAG_MEAN, .padding_idx = -1, __VA_ARGS__))
DET_API det_tensor *det_embedding_bag_with(det_tensor *index, det_tensor *weight,
                                           det_embedding_bag_opts opts);

// --- softmax, dropout

DET_API det_tensor *det_softmax(det_tensor *x, int dim);
DET_API det_tensor *det_log_softmax(det_tensor *x, int dim);
DET_API det_tensor *det_dropout(det_tensor *x, double p, bool training);
// Zeroes whole channels (dim 1 of 3 or more dims); element-wise on 2 dims, as torch's Dropout2d.
DET_API det_tensor *det_dropout_channels(det_tensor *x, double p, bool training);

// --- convolution, pooling: images are (batch, channels, height, width), or one alone is (channels,
// height, width); sequences have one dim less, volumes one more (depth, height, width)

typedef struct det_conv_opts {
    int64_t stride[3], padding[3], dilation[3], groups; // 0: 1, 0, 1, 1
    int64_t output_padding[3];                          // conv_transpose only
} det_conv_opts;

#define det_conv1d(x, weight, bias, ...) \
    det_conv1d_with(x, weight, bias, (det_conv_opts){__VA_ARGS__})
#define det_conv2d(x, weight, bias, ...) \
    det_conv2d_with(x, weight, bias, (det_conv_opts){__VA_ARGS__})
#define det_conv3d(x, weight, bias, ...) \
    det_conv3d_with(x, weight, bias, (det_conv_opts){__VA_ARGS__})
#define det_conv_transpose1d(x, weight, bias, ...) \
    det_conv_transpose1d_with(x, weight, bias, (det_conv_opts){__VA_ARGS__})
#define det_conv_transpose2d(x, weight, bias, ...) \
    det_conv_transpose2d_with(x, weight, bias, (det_conv_opts){__VA_ARGS__})
DET_API det_tensor *det_conv1d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o);
DET_API det_tensor *det_conv2d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o);
DET_API det_tensor *det_conv3d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o);
DET_API det_tensor *det_conv_transpose1d_with(det_tensor *x, det_tensor *w, det_tensor *b,
                                              det_conv_opts o);
DET_API det_tensor *det_conv_transpose2d_with(det_tensor *x, det_tensor *w, det_tensor *b,
                                              det_conv_opts o);

typedef struct det_pool_opts {
    int64_t kernel[3], stride[3]; // a 0 behind the first: as the first; stride {0}: the kernel's
    int64_t padding[3];
    int64_t dilation[3]; // max_pool; 0: 1
    bool ceil_mode;
    bool exclude_padding; // avg: divide by the pixels inside the image only
} det_pool_opts;

#define det_max_pool1d(x, ...) det_max_pool1d_with(x, (det_pool_opts){__VA_ARGS__})
#define det_max_pool2d(x, ...) det_max_pool2d_with(x, (det_pool_opts){__VA_ARGS__})
#define det_max_pool3d(x, ...) det_max_pool3d_with(x, (det_pool_opts){__VA_ARGS__})
#define det_avg_pool1d(x, ...) det_avg_pool1d_with(x, (det_pool_opts){__VA_ARGS__})
#define det_avg_pool2d(x, ...) det_avg_pool2d_with(x, (det_pool_opts){__VA_ARGS__})
#define det_avg_pool3d(x, ...) det_avg_pool3d_with(x, (det_pool_opts){__VA_ARGS__})
DET_API det_tensor *det_max_pool1d_with(det_tensor *x, det_pool_opts opts);
DET_API det_tensor *det_max_pool2d_with(det_tensor *x, det_pool_opts opts);
DET_API det_tensor *det_max_pool3d_with(det_tensor *x, det_pool_opts opts);
DET_API det_tensor *det_avg_pool1d_with(det_tensor *x, det_pool_opts opts);
DET_API det_tensor *det_avg_pool2d_with(det_tensor *x, det_pool_opts opts);
DET_API det_tensor *det_avg_pool3d_with(det_tensor *x, det_pool_opts opts);
DET_API det_tensor *det_adaptive_avg_pool1d(det_tensor *x, int64_t out);
DET_API det_tensor *det_adaptive_max_pool1d(det_tensor *x, int64_t out);
DET_API det_tensor *det_adaptive_avg_pool2d(det_tensor *x, int64_t out_h, int64_t out_w);
DET_API det_tensor *det_adaptive_max_pool2d(det_tensor *x, int64_t out_h, int64_t out_w);
DET_API det_tensor *det_adaptive_avg_pool3d(det_tensor *x, int64_t out_d, int64_t out_h,
                                            int64_t out_w);
DET_API det_tensor *det_adaptive_max_pool3d(det_tensor *x, int64_t out_d, int64_t out_h,
                                            int64_t out_w);

typedef struct det_unfold_opts {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
} det_unfold_opts;
// The windows of an image as columns: (N, C * kernel, windows).
#define det_unfold(x, ...) \
    det_unfold_with(x, DET_OPTS(det_unfold_opts, .stride = {1, 1}, .dilation = {1, 1}, __VA_ARGS__))
DET_API det_tensor *det_unfold_with(det_tensor *x, det_unfold_opts opts);

typedef enum det_interpolation {
    DET_INTERPOLATION_NEAREST,
    DET_INTERPOLATION_BILINEAR,
    DET_INTERPOLATION_BICUBIC
} det_interpolation;
DET_API det_tensor *det_interpolate(det_tensor *x, int64_t out_h, int64_t out_w,
                                    det_interpolation mode, bool align_corners);

// --- normalisation

typedef struct det_batch_norm_opts {
    det_tensor *weight, *bias;              // per channel; NULL: 1 and 0
    det_tensor *running_mean, *running_var; // updated while training; used otherwise
    bool training;
    double momentum; // of the running statistics; 0: they stay as they are
    double eps;
} det_batch_norm_opts;

#define det_batch_norm(x, ...) \
    det_batch_norm_with(x, DET_OPTS(det_batch_norm_opts, .momentum = 0.1, .eps = 1e-5, __VA_ARGS__))
DET_API det_tensor *det_batch_norm_with(det_tensor *x, det_batch_norm_opts opts);
// over the last n_dims dims; weight and bias have their shape, or are NULL. eps 0: 1e-5
DET_API det_tensor *det_layer_norm(det_tensor *x, int n_dims, det_tensor *weight, det_tensor *bias,
                                   double eps);
DET_API det_tensor *det_rms_norm(det_tensor *x, int n_dims, det_tensor *weight, double eps);
DET_API det_tensor *det_group_norm(det_tensor *x, int64_t n_groups, det_tensor *weight,
                                   det_tensor *bias, double eps);

// --- recurrent: one layer, one direction over a whole sequence
// x (T, B, I); w_ih (G*H, I); w_hh (G*H, H); biases (G*H) or NULL; h0 and c0 (B, H) or NULL: zeros.
// Returns all hidden states (T, B, H); the last ones in *h_n and *c_n (may be NULL).

typedef struct det_rnn_weights {
    det_tensor *w_ih, *w_hh, *b_ih, *b_hh;
} det_rnn_weights;

DET_API det_tensor *det_rnn_tanh(det_tensor *x, det_rnn_weights w, det_tensor *h0, bool reverse,
                                 det_tensor **h_n);
DET_API det_tensor *det_rnn_relu(det_tensor *x, det_rnn_weights w, det_tensor *h0, bool reverse,
                                 det_tensor **h_n);
DET_API det_tensor *det_gru(det_tensor *x, det_rnn_weights w, det_tensor *h0, bool reverse,
                            det_tensor **h_n);
DET_API det_tensor *det_lstm(det_tensor *x, det_rnn_weights w, det_tensor *h0, det_tensor *c0,
                             bool reverse, det_tensor **h_n, det_tensor **c_n);

#include "det/losses.h"
