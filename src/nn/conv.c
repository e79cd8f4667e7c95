// Unit conv.c: convolutions, pooling and resizing of images.
#include "nn/module.h"

enum { WEIGHT, BIAS };

static det_tensor *conv1d_forward(det_module *m, det_tensor *x)
{
    return det_conv1d_with(x, param(m, WEIGHT), param(m, BIAS),
                           *(det_conv_opts *)det_module_self(m));
}

static det_tensor *conv2d_forward(det_module *m, det_tensor *x)
{
    return det_conv2d_with(x, param(m, WEIGHT), param(m, BIAS),
                           *(det_conv_opts *)det_module_self(m));
}

static det_tensor *conv_transpose2d_forward(det_module *m, det_tensor *x)
{
    return det_conv_transpose2d_with(x, param(m, WEIGHT), param(m, BIAS),
                                     *(det_conv_opts *)det_module_self(m));
}

struct conv_kind {
    const char *type;
    det_forward_fn forward;
    int n_spatial;
    bool transposed; // weight is (in, out / groups, ...) instead of (out, in / groups, ...)
};

static const struct conv_kind conv1d = {"Conv1d", conv1d_forward, 1, false};
static const struct conv_kind conv2d = {"Conv2d", conv2d_forward, 2, false};
static const struct conv_kind conv_transpose2d = {"ConvTranspose2d", conv_transpose2d_forward, 2,
                                                  true};

// The two sizes if any is given, else the square one; what is 0 becomes the default.
static void resolve(int64_t out[2], int64_t square, const int64_t hw[2], int64_t fallback)
{
    for (int i = 0; i < 2; i++) {
        out[i] = hw && (hw[0] || hw[1]) ? hw[i] : square;
        if (!out[i]) out[i] = fallback;
    }
}

static bool conv_args_ok(const char *type, int64_t in, int64_t out, const det_conv_opts *o,
                         const int64_t kernel[2])
{
    bool ok = arg_at_least(type, "in_channels", in, 1) &&
              arg_at_least(type, "out_channels", out, 1) &&
              arg_at_least(type, "groups", o->groups, 1);
    for (int i = 0; i < 2 && ok; i++)
        ok = arg_at_least(type, "kernel", kernel[i], 1) &&
             arg_at_least(type, "stride", o->stride[i], 1) &&
             arg_at_least(type, "padding", o->padding[i], 0) &&
             arg_at_least(type, "dilation", o->dilation[i], 1);
    if (ok && (in % o->groups || out % o->groups)) {
        det_raise(DET_EINVAL, "%s: %lld to %lld channels are not multiples of %lld groups", type,
                  (long long)in, (long long)out, (long long)o->groups);
        return false;
    }
    return ok;
}

static det_module *conv_new(const struct conv_kind *kind, int64_t in, int64_t out,
                            const det_nn_conv_opts *opts)
{
    det_conv_opts o = {.groups = opts->groups ? opts->groups : 1,
                       .output_padding = {opts->output_padding, opts->output_padding}};
    int64_t kernel[2];
    resolve(kernel, opts->kernel, opts->kernel_hw, 0);
    resolve(o.stride, opts->stride, opts->stride_hw, 1);
    resolve(o.padding, opts->padding, opts->padding_hw, 0);
    resolve(o.dilation, opts->dilation, opts->dilation_hw, 1);
    if (!conv_args_ok(kind->type, in, out, &o, kernel)) return NULL;
    det_module *m = det_module_new(kind->type, sizeof o, kind->forward);
    memcpy(det_module_self(m), &o, sizeof o);
    int64_t shape[] = {kind->transposed ? in : out, (kind->transposed ? out : in) / o.groups,
                       kernel[0], kernel[1]};
    module_add_f32(m, "weight", shape, 2 + kind->n_spatial);
    if (opts->no_bias)
        module_add_none(m, "bias");
    else
        module_add_f32(m, "bias", DET_DIMS(out));
    return module_ready(m, reset_weight_and_bias);
}

det_module *det_nn_conv1d_with(int64_t in, int64_t out, det_nn_conv_opts opts)
{
    return conv_new(&conv1d, in, out, &opts);
}

det_module *det_nn_conv2d_with(int64_t in, int64_t out, det_nn_conv_opts opts)
{
    return conv_new(&conv2d, in, out, &opts);
}

det_module *det_nn_conv_transpose2d_with(int64_t in, int64_t out, det_nn_conv_opts opts)
{
    return conv_new(&conv_transpose2d, in, out, &opts);
}

// --- pooling

static det_tensor *max_pool_forward(det_module *m, det_tensor *x)
{
    return det_max_pool2d_with(x, *(det_pool_opts *)det_module_self(m));
}

static det_tensor *avg_pool_forward(det_module *m, det_tensor *x)
{
    return det_avg_pool2d_with(x, *(det_pool_opts *)det_module_self(m));
}

static det_module *pool_new(const char *type, det_forward_fn forward, int64_t kernel,
                            const det_nn_pool_opts *opts)
{
    if (!arg_at_least(type, "kernel", kernel, 1)) return NULL;
    if (!arg_at_least(type, "stride", opts->stride, 0)) return NULL;
    if (!arg_at_least(type, "padding", opts->padding, 0)) return NULL;
    det_pool_opts o = {.ceil_mode = opts->ceil_mode, .exclude_padding = opts->exclude_padding};
    resolve(o.kernel, kernel, NULL, 0);
    resolve(o.stride, opts->stride, NULL, kernel);
    resolve(o.padding, opts->padding, NULL, 0);
    det_module *m = det_module_new(type, sizeof o, forward);
    memcpy(det_module_self(m), &o, sizeof o);
    return module_ready(m, NULL);
}

det_module *det_nn_max_pool2d_with(int64_t kernel, det_nn_pool_opts opts)
{
    return pool_new("MaxPool2d", max_pool_forward, kernel, &opts);
}

det_module *det_nn_avg_pool2d_with(int64_t kernel, det_nn_pool_opts opts)
{
    return pool_new("AvgPool2d", avg_pool_forward, kernel, &opts);
}

struct adaptive_pool {
    det_tensor *(*op)(det_tensor *x, int64_t out_h, int64_t out_w);
    int64_t out_h, out_w;
};

static det_tensor *adaptive_pool_forward(det_module *m, det_tensor *x)
{
    const struct adaptive_pool *p = det_module_self(m);
    return p->op(x, p->out_h, p->out_w);
}

static det_module *adaptive_pool_new(const char *type, struct adaptive_pool pool)
{
    if (!arg_at_least(type, "out_h", pool.out_h, 1)) return NULL;
    if (!arg_at_least(type, "out_w", pool.out_w, 1)) return NULL;
    det_module *m = det_module_new(type, sizeof pool, adaptive_pool_forward);
    *(struct adaptive_pool *)det_module_self(m) = pool;
    return module_ready(m, NULL);
}

det_module *det_nn_adaptive_avg_pool2d(int64_t out_h, int64_t out_w)
{
    return adaptive_pool_new("AdaptiveAvgPool2d",
                             (struct adaptive_pool){det_adaptive_avg_pool2d, out_h, out_w});
}

det_module *det_nn_adaptive_max_pool2d(int64_t out_h, int64_t out_w)
{
    return adaptive_pool_new("AdaptiveMaxPool2d",
                             (struct adaptive_pool){det_adaptive_max_pool2d, out_h, out_w});
}

// --- resizing

struct upsample {
    double scale;
    det_interpolation mode;
    bool align_corners;
};

static det_tensor *upsample_forward(det_module *m, det_tensor *x)
{
    const struct upsample *u = det_module_self(m);
    char text[96];
    if (det_ndim(x) != 4)
        return module_fail(m, DET_ESHAPE, "input is %s, wants 4 dims",
                           det_describe(x, text, sizeof text));
    int64_t h = (int64_t)((double)det_size(x, 2) * u->scale);
    int64_t w = (int64_t)((double)det_size(x, 3) * u->scale);
    return det_interpolate(x, h, w, u->mode, u->align_corners);
}

det_module *det_nn_upsample(double scale, det_interpolation mode, bool align_corners)
{
    if (!(scale > 0 && scale < 1e6)) {
        det_raise(DET_EINVAL, "Upsample: scale must be > 0, got %g", scale);
        return NULL;
    }
    det_module *m = det_module_new("Upsample", sizeof(struct upsample), upsample_forward);
    *(struct upsample *)det_module_self(m) = (struct upsample){scale, mode, align_corners};
    return module_ready(m, NULL);
}
