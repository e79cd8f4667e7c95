// tensor/op_conv.h: what the operations on images share. Private to the layer.
#pragma once

#include "tensor/conv.h"
#include "tensor/ops.h"

struct conv_attr {
    int64_t stride[2], padding[2], dilation[2]; // 0: 1, 0, 1
    int64_t groups;                             // 0: 1
    int64_t output_padding[2];
};

// Input and weight in the form that the kernels want, kept from forward for backward.
enum { CONV_AUX_X, CONV_AUX_W };

struct conv_operands {
    det_tensor *x, *w; // the node's
    det_tensor *bias;  // to be released; may be NULL
};

// Checks inputs and attributes and fills s.
int conv_describe(struct node *n, struct conv *s);
int conv_operands(struct node *n, bool bf16, struct conv_operands *o); // of images of bf16?

// Memory for a result in the type it is computed in; conv_store converts it to the output and
// releases it.
det_tensor *conv_result(struct node *n);
void conv_store(struct node *n, det_tensor *y);

// The gradient of the result as the kernels want it. Release it.
det_tensor *conv_image_grad(const struct node *n);
