// Unit fuse.c: the table of merges. A line here and an absorb function next to the merged operation
// is all that a new one needs.
#include "tensor/fuse.h"

#include "tensor/ops.h"

const struct fusion fusion_table[] = {
    {&op_linear, &op_relu, relu_absorbs_linear},
    {&op_linear, &op_gelu, gelu_absorbs_linear},
    {&op_conv2d, &op_relu, relu_absorbs_conv},
    {&op_conv2d, &op_max_pool2d, pool_absorbs_conv},
    {&op_conv_relu, &op_max_pool2d, pool_absorbs_conv_relu},
    {&op_conv_pool, &op_relu, relu_absorbs_conv_pool},
    {&op_batch_norm, &op_relu, relu_absorbs_batch_norm},
    {&op_batch_norm, &op_add, add_absorbs_batch_norm},
    {&op_batch_norm_add, &op_relu, relu_absorbs_batch_norm},
    {&op_batch_norm_relu, &op_max_pool2d, pool_absorbs_batch_norm},
    {NULL, NULL, NULL},
};
