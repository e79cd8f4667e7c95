// Unit pool_nd.c: pooling of sequences and volumes, by that of images. A sequence is an image of one
// row. A window of a volume is a window of a plane, then one along the planes: its largest element,
// and its mean, can be taken in these two steps.
#include "tensor/ops.h"

typedef det_tensor *(*pool_fn)(det_tensor *x, det_pool_opts opts);
typedef det_tensor *(*adaptive_fn)(det_tensor *x, int64_t out_h, int64_t out_w);

static bool has_dims(const char *what, const det_tensor *x, int ndim)
{
    if (!x || sticky_failed()) return false;
    if (x->ndim == ndim || x->ndim == ndim - 1) return true;
    const char *sizes = ndim == 3 ? "L" : "D, H, W";
    det_raise(DET_ESHAPE, "%s: input is %s, wants (N, C, %s) or (C, %s)", what, TENSOR_TEXT(x),
              sizes, sizes);
    return false;
}

// --- sequences

static det_tensor *pool1d(const char *what, pool_fn pool, det_tensor *x, const det_pool_opts *o)
{
    if (!has_dims(what, x, 3)) return OP_APPLY0(&op_max_pool2d, x);
    det_pool_opts row = {.kernel = {1, o->kernel[0]},
                         .stride = {1, o->stride[0] ? o->stride[0] : o->kernel[0]},
                         .padding = {0, o->padding[0]},
                         .dilation = {1, o->dilation[0]},
                         .ceil_mode = o->ceil_mode,
                         .exclude_padding = o->exclude_padding};
    det_tensor *y = det_squeeze(pool(det_unsqueeze(with_batch(x, 3), 2), row), 2);
    return without_batch(x, 3, y);
}

det_tensor *det_max_pool1d_with(det_tensor *x, det_pool_opts opts)
{
    return pool1d("max_pool1d", det_max_pool2d_with, x, &opts);
}

det_tensor *det_avg_pool1d_with(det_tensor *x, det_pool_opts opts)
{
    return pool1d("avg_pool1d", det_avg_pool2d_with, x, &opts);
}

static det_tensor *adaptive1d(const char *what, adaptive_fn pool, det_tensor *x, int64_t out)
{
    if (!has_dims(what, x, 3)) return OP_APPLY0(&op_max_pool2d, x);
    det_tensor *y = det_squeeze(pool(det_unsqueeze(with_batch(x, 3), 2), 1, out), 2);
    return without_batch(x, 3, y);
}

det_tensor *det_adaptive_avg_pool1d(det_tensor *x, int64_t out)
{
    return adaptive1d("adaptive_avg_pool1d", det_adaptive_avg_pool2d, x, out);
}

det_tensor *det_adaptive_max_pool1d(det_tensor *x, int64_t out)
{
    return adaptive1d("adaptive_max_pool1d", det_adaptive_max_pool2d, x, out);
}

// --- volumes

// (N, C, D, H, W) -> (N * D, C, H, W)
static det_tensor *as_planes(det_tensor *x)
{
    const int64_t *s = x->shape;
    return det_reshape(det_permute(x, DET_DIMS(0, 2, 1, 3, 4)),
                       DET_DIMS(s[0] * s[2], s[1], s[3], s[4]));
}

// (N * D, C, H, W), the planes of a volume x after pooling -> (N, C, D, H * W)
static det_tensor *as_columns(const det_tensor *x, det_tensor *planes)
{
    if (!planes) return NULL;
    int64_t n = x->shape[0], c = x->shape[1], d = x->shape[2];
    planes = det_reshape(planes, DET_DIMS(n, d, c, planes->shape[2] * planes->shape[3]));
    return det_permute(planes, DET_DIMS(0, 2, 1, 3));
}

static det_tensor *as_volume(det_tensor *columns, const int64_t plane[2])
{
    if (!columns) return NULL;
    const int64_t *s = columns->shape;
    return det_reshape(columns, DET_DIMS(s[0], s[1], s[2], plane[0], plane[1]));
}

// What is left out: as the first.
static int64_t filled_in(const int64_t *list, int i)
{
    return list[i] ? list[i] : list[0];
}

// In f32, so that a mean of means is rounded once.
static det_tensor *wide(det_tensor *x)
{
    return x->dtype == DET_BF16 ? det_to(x, DET_F32) : x;
}

static det_tensor *pool3d(const char *what, pool_fn pool, det_tensor *x, const det_pool_opts *o)
{
    if (!has_dims(what, x, 5)) return OP_APPLY0(&op_max_pool2d, x);
    det_tensor *volume = with_batch(wide(x), 5);
    int64_t kernel[3], stride[3];
    for (int i = 0; i < 3; i++) {
        kernel[i] = filled_in(o->kernel, i);
        stride[i] = o->stride[0] ? filled_in(o->stride, i) : kernel[i];
    }
    det_pool_opts across = *o, along = *o;
    for (int i = 0; i < 2; i++) {
        across.kernel[i] = kernel[i + 1], across.stride[i] = stride[i + 1];
        across.padding[i] = o->padding[i + 1], across.dilation[i] = o->dilation[i + 1];
        along.kernel[i] = i ? 1 : kernel[0], along.stride[i] = i ? 1 : stride[0];
        along.padding[i] = i ? 0 : o->padding[0], along.dilation[i] = i ? 1 : o->dilation[0];
    }
    det_tensor *planes = pool(as_planes(volume), across);
    int64_t plane[] = {det_size(planes, 2), det_size(planes, 3)};
    det_tensor *y = pool(as_columns(volume, planes), along);
    return det_to(without_batch(x, 5, as_volume(y, plane)), (det_dtype)x->dtype);
}

det_tensor *det_max_pool3d_with(det_tensor *x, det_pool_opts opts)
{
    return pool3d("max_pool3d", det_max_pool2d_with, x, &opts);
}

det_tensor *det_avg_pool3d_with(det_tensor *x, det_pool_opts opts)
{
    return pool3d("avg_pool3d", det_avg_pool2d_with, x, &opts);
}

static det_tensor *adaptive3d(const char *what, adaptive_fn pool, det_tensor *x, const int64_t *out)
{
    if (!has_dims(what, x, 5)) return OP_APPLY0(&op_max_pool2d, x);
    det_tensor *volume = with_batch(wide(x), 5);
    det_tensor *columns = as_columns(volume, pool(as_planes(volume), out[1], out[2]));
    det_tensor *y = pool(columns, out[0], det_size(columns, 3));
    return det_to(without_batch(x, 5, as_volume(y, out + 1)), (det_dtype)x->dtype);
}

det_tensor *det_adaptive_avg_pool3d(det_tensor *x, int64_t out_d, int64_t out_h, int64_t out_w)
{
    return adaptive3d("adaptive_avg_pool3d", det_adaptive_avg_pool2d, x,
                      (int64_t[]){out_d, out_h, out_w});
}

det_tensor *det_adaptive_max_pool3d(det_tensor *x, int64_t out_d, int64_t out_h, int64_t out_w)
{
    return adaptive3d("adaptive_max_pool3d", det_adaptive_max_pool2d, x,
                      (int64_t[]){out_d, out_h, out_w});
}
