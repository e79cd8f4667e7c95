// Unit conv_nd.c: convolutions of sequences and volumes, by those of images. A sequence is an image
// of one row. In a volume, the planes that one plane of the result is made of become channels.
#include "tensor/ops.h"

// sizes: of one picture, as messages name them.
static bool has_dims(const char *what, const det_tensor *x, const det_tensor *w, int ndim,
                     const char *sizes)
{
    if (x && x->ndim != ndim && x->ndim != ndim - 1)
        det_raise(DET_ESHAPE, "%s: input is %s, wants (N, C, %s) or (C, %s)", what, TENSOR_TEXT(x),
                  sizes, sizes);
    else if (w && w->ndim != ndim)
        det_raise(DET_ESHAPE, "%s: weight is %s, wants %d dims", what, TENSOR_TEXT(w), ndim);
    return x && w && !sticky_failed();
}

// Options of an image of one row.
static det_conv_opts row_opts(const det_conv_opts *o)
{
    return (det_conv_opts){.stride = {1, o->stride[0]},
                           .padding = {0, o->padding[0]},
                           .dilation = {1, o->dilation[0]},
                           .output_padding = {0, o->output_padding[0]},
                           .groups = o->groups};
}

det_tensor *det_conv1d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o)
{
    if (!has_dims("conv1d", x, w, 3, "L")) return OP_APPLY0(&op_conv2d, x, w, b);
    det_tensor *image = det_unsqueeze(with_batch(x, 3), 2);
    det_tensor *y = det_conv2d_with(image, det_unsqueeze(w, 2), b, row_opts(&o));
    return without_batch(x, 3, det_squeeze(y, 2));
}

det_tensor *det_conv_transpose1d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o)
{
    if (!has_dims("conv_transpose1d", x, w, 3, "L"))
        return OP_APPLY0(&op_conv_transpose2d, x, w, b);
    det_tensor *image = det_unsqueeze(with_batch(x, 3), 2);
    det_tensor *y = det_conv_transpose2d_with(image, det_unsqueeze(w, 2), b, row_opts(&o));
    return without_batch(x, 3, det_squeeze(y, 2));
}

// (N, C, D, H, W) -> (N * OD, C * KD, H, W), stored with the channel fastest: image n * OD + d has
// the KD planes that plane d of the result is made of.
static det_tensor *stacked_planes(det_tensor *x, int64_t kernel, int64_t stride, int64_t padding,
                                  int64_t dilation)
{
    if (padding) x = det_pad(x, (int64_t[]){0, 0, 0, 0, padding, padding}, 6, 0);
    det_tensor *y = windows(x, 2, kernel, stride, dilation); // (N, C, OD, H, W, KD)
    if (!y) return NULL;
    const int64_t *s = y->shape;
    int64_t images = s[0] * s[2], channels = s[1] * s[5], h = s[3], w = s[4];
    y = det_reshape(det_permute(y, DET_DIMS(0, 2, 3, 4, 1, 5)), DET_DIMS(images, h, w, channels));
    return det_permute(y, DET_DIMS(0, 3, 1, 2));
}

det_tensor *det_conv3d_with(det_tensor *x, det_tensor *w, det_tensor *b, det_conv_opts o)
{
    if (!has_dims("conv3d", x, w, 5, "D, H, W")) return OP_APPLY0(&op_conv2d, x, w, b);
    det_tensor *volume = with_batch(x, 5);
    const int64_t *k = w->shape, step = o.stride[0] ? o.stride[0] : 1;
    int64_t n = volume->shape[0], apart = o.dilation[0] ? o.dilation[0] : 1;
    if (o.padding[0] < 0 || k[2] < 1 || step < 1 || apart < 1) {
        det_raise(DET_EINVAL, "conv3d: weight %s, stride %lld, padding %lld, dilation %lld",
                  TENSOR_TEXT(w), (long long)step, (long long)o.padding[0], (long long)apart);
        return NULL;
    }
    det_conv_opts planes = {.stride = {o.stride[1], o.stride[2]},
                            .padding = {o.padding[1], o.padding[2]},
                            .dilation = {o.dilation[1], o.dilation[2]},
                            .groups = o.groups};
    det_tensor *image = stacked_planes(volume, k[2], step, o.padding[0], apart);
    det_tensor *flat = det_reshape(w, DET_DIMS(k[0], k[1] * k[2], k[3], k[4]));
    det_tensor *y = det_conv2d_with(image, flat, b, planes);
    if (!y) return NULL;
    int64_t depth = (volume->shape[2] + 2 * o.padding[0] - apart * (k[2] - 1) - 1) / step + 1;
    y = det_reshape(y, DET_DIMS(n, depth, y->shape[1], y->shape[2], y->shape[3]));
    return without_batch(x, 5, det_permute(y, DET_DIMS(0, 2, 1, 3, 4)));
}
