// tensor/ops.h: the rows of the operation table. OPS is the only list; the rows themselves stand in
// the op_*.c files, next to what they do. Private to the layer.
#pragma once

#include "tensor/node.h"

#define UNARY(name, test, torch, saved, value, grad) extern const struct op op_##name;
#include "tensor/kernels/unary.def"
#undef UNARY
#define PREDICATE(name, torch, value) extern const struct op op_##name;
#include "tensor/kernels/predicate.def"
#undef PREDICATE

// All others; the lines of unary.def and predicate.def are in the table too.
// clang-format off
#define OPS(O)                                                                                     \
    O(add) O(sub) O(mul) O(div) O(pow) O(maximum) O(minimum) O(fmod) O(remainder) O(atan2)          \
    O(eq) O(ne) O(lt) O(le) O(gt) O(ge) O(logical_and) O(logical_or) O(logical_xor)                 \
    O(bitwise_and) O(bitwise_or) O(bitwise_xor) O(bitwise_left_shift) O(bitwise_right_shift)         \
    O(where) O(to) O(clone) O(contiguous) O(reshape) O(permute) O(slice) O(expand) O(detach) \
    O(linear) O(linear_relu) O(linear_gelu) O(matmul) O(conv2d) O(conv_transpose2d)              \
    O(conv_integers) O(conv_relu) O(max_pool2d) O(conv_pool) O(conv_pool_relu)                    \
    O(sum) O(mean) O(prod) O(max) O(min) O(logsumexp) O(var) O(std) O(norm)      \
    O(softmax) O(log_softmax)                                                    \
    O(mse_loss) O(l1_loss) O(smooth_l1_loss) O(huber_loss) O(bce_loss)           \
    O(bce_with_logits_loss) O(kl_div_loss) O(kl_div_log_loss)                    \
    O(nll_loss) O(cross_entropy)                                                 \
    O(max_along) O(min_along) O(argmax) O(argmin) O(topk) O(sort) O(kthvalue) O(median_along)   \
    O(cumsum) O(cumprod) O(windows) O(diagonal)                                                     \
    O(index_select) O(gather) O(scatter_add) O(one_hot) O(embedding) O(index_put)  \
    O(concat) O(pad) O(flip) O(tril) O(triu)                                     \
    O(dropout) O(dropout_channels) \
    O(batch_norm) O(batch_norm_add) O(batch_norm_relu) O(batch_norm_pool) O(group_norm)             \
    O(layer_norm) O(rms_norm)                                                                       \
    O(avg_pool2d) O(adaptive_avg_pool2d) O(adaptive_max_pool2d) O(interpolate)                      \
    O(attention) O(rnn_tanh) O(rnn_relu) O(gru) O(lstm)
// clang-format on

#define OPS_DECLARE(name) extern const struct op op_##name;
OPS(OPS_DECLARE)
#undef OPS_DECLARE

// Shape that the first n_in inputs broadcast to; fails naming two that do not fit.
int node_broadcast(struct node *n, int n_in, int64_t *shape, int *ndim);

// An error if an index is not in 0 .. size - 1.
int check_index_range(const struct node *n, const int64_t *index, int64_t count, int64_t size);
// Indices of type i32 as i64; anything else as it is.
det_tensor *as_index(det_tensor *index);

// For the forward of a view: the output shares the memory of input 0, offset elements into it.
int view_share(struct node *n, int64_t offset);

// All windows of `size` elements, `dilation` apart, that begin `step` apart along dim: what is in a
// window is a new last dim.
det_tensor *windows(det_tensor *x, int dim, int64_t size, int64_t step, int64_t dilation);
struct image_windows {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
};
det_tensor *image_windows(det_tensor *x, const struct image_windows *w, double fill);

// Where batches have ndim dims, x may be one item without the batch dim: with_batch gives it that
// dim, without_batch takes it off the result y again.
det_tensor *with_batch(det_tensor *x, int ndim);
det_tensor *without_batch(const det_tensor *x, int ndim, det_tensor *y);

// Merges: see fuse.c.
bool relu_absorbs_linear(struct node *consumer, const struct node *producer);
bool gelu_absorbs_linear(struct node *consumer, const struct node *producer);
bool relu_absorbs_conv(struct node *consumer, const struct node *producer);
bool pool_absorbs_conv_relu(struct node *consumer, const struct node *producer);
bool pool_absorbs_conv(struct node *consumer, const struct node *producer);
bool relu_absorbs_conv_pool(struct node *consumer, const struct node *producer);
bool relu_absorbs_batch_norm(struct node *consumer, const struct node *producer);
bool add_absorbs_batch_norm(struct node *consumer, const struct node *producer);
bool pool_absorbs_batch_norm(struct node *consumer, const struct node *producer);
bool pools_pairs(const struct node *pool); // max_pool2d by 2 x 2, windows side by side
