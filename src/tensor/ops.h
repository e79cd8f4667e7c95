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
    O(where) O(to) O(clone) O(contiguous) O(reshape) O(permute) O(slice) O(expand) O(detach) \
    O(linear) O(linear_relu) O(linear_gelu) O(matmul) O(conv2d) O(conv_transpose2d)              \
    O(conv_integers) O(conv_relu) O(max_pool2d) O(conv_pool) O(conv_pool_relu)                    \
    O(sum) O(mean) O(prod) O(max) O(min) O(logsumexp) O(var) O(std) O(norm)      \
    O(softmax) O(log_softmax)                                                    \
    O(mse_loss) O(l1_loss) O(smooth_l1_loss) O(huber_loss) O(bce_loss)           \
    O(bce_with_logits_loss) O(kl_div_loss) O(kl_div_log_loss)                    \
    O(nll_loss) O(cross_entropy)                                                 \
    O(max_along) O(min_along) O(argmax) O(argmin) O(topk) O(sort) O(cumsum)      \
    O(index_select) O(gather) O(scatter_add) O(one_hot) O(embedding)             \
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

// Indices of type i32 as i64; anything else as it is.
det_tensor *as_index(det_tensor *index);

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
