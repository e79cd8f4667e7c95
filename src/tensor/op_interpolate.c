// Unit op_interpolate.c: images of another size, by the nearest pixel, by the four
// or by the sixteen around.
#include "tensor/ops.h"
#include "tensor/resample.h"

#include <math.h>

struct interpolate_attr {
    int64_t size[2], mode;
    bool align_corners;
};

static int interpolate_infer(struct node *n)
{
    const struct interpolate_attr *a = NODE_ATTR(n, struct interpolate_attr);
    if (a->mode < DET_INTERPOLATION_NEAREST || a->mode > DET_INTERPOLATION_BICUBIC)
        return node_fail(n, DET_EINVAL, "mode %lld; wants nearest, bilinear or bicubic",
                         (long long)a->mode);
    return resample_infer(n, a->size[0], a->size[1], 1);
}

static int64_t nearest_tap(const struct axis *a, int64_t o, int64_t *first, double *weight)
{
    float scale = (float)a->n_in / (float)a->n_out; // rounded as torch does, to pick the same pixel
    *first = MIN((int64_t)floorf((float)o * scale), a->n_in - 1);
    weight[0] = 1;
    return 1;
}

// Where pixel o of the result is in the input. Corners aligned: first and last pixels of input and
// output coincide. Otherwise pixels are squares and the outer edges of the images coincide.
static double source_of(const struct axis *a, int64_t o)
{
    const struct interpolate_attr *attr = a->attr;
    double in = (double)a->n_in, out = (double)a->n_out;
    if (attr->align_corners) return a->n_out > 1 ? (double)o * (in - 1) / (out - 1) : 0;
    return ((double)o + 0.5) * in / out - 0.5;
}

static int64_t linear_taps(const struct axis *a, int64_t o, int64_t *first, double *weight)
{
    double at = fmax(0, source_of(a, o));
    *first = MIN((int64_t)at, a->n_in - 1);
    if (*first == a->n_in - 1) {
        weight[0] = 1;
        return 1;
    }
    weight[1] = at - (double)*first;
    weight[0] = 1 - weight[1];
    return 2;
}

// Weight of a pixel that far away: Keys' kernel with a = -0.75, as torch's.
static double cubic_weight(double distance)
{
    const double a = -0.75, d = fabs(distance);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

// Two pixels on each side; beyond the edge, the pixel at the edge.
static int64_t cubic_taps(const struct axis *a, int64_t o, int64_t *first, double *weight)
{
    double at = source_of(a, o);
    int64_t left = (int64_t)floor(at), last = a->n_in - 1;
    *first = MAX((int64_t)0, MIN(left - 1, last));
    int64_t count = MAX((int64_t)0, MIN(left + 2, last)) - *first + 1;
    for (int64_t i = 0; i < count; i++)
        weight[i] = 0;
    for (int64_t i = left - 1; i <= left + 2; i++)
        weight[MAX((int64_t)0, MIN(i, last)) - *first] += cubic_weight(at - (double)i);
    return count;
}

static const struct {
    axis_fn taps;
    int64_t most[2];
} modes[] = {
    [DET_INTERPOLATION_NEAREST] = {nearest_tap, {1, 1}},
    [DET_INTERPOLATION_BILINEAR] = {linear_taps, {2, 2}},
    [DET_INTERPOLATION_BICUBIC] = {cubic_taps, {4, 4}},
};

static int interpolate_forward(struct node *n)
{
    int64_t mode = NODE_ATTR(n, struct interpolate_attr)->mode;
    return resample_forward(n, modes[mode].taps, modes[mode].most);
}

static int interpolate_backward(struct node *n)
{
    int64_t mode = NODE_ATTR(n, struct interpolate_attr)->mode;
    return resample_backward(n, modes[mode].taps, modes[mode].most);
}

static const struct attr_field interpolate_attrs[] = {
    {"size", ATTR_PAIR, offsetof(struct interpolate_attr, size)},
    {"mode", ATTR_INT, offsetof(struct interpolate_attr, mode)},
    {"align", ATTR_BOOL, offsetof(struct interpolate_attr, align_corners)},
    {NULL, 0, 0},
};
static const char *const interpolate_cases[] = {
    "x:f[a,c,H,W]; size=7,20 mode=0; F.interpolate(x, size)",
    "x:f[a,c,4,W]; size=8,2*W mode=0; F.interpolate(x, scale_factor=2)",
    "x:f[a,c,H,W]; size=13,5 mode=1; F.interpolate(x, size, mode='bilinear')",
    "x:f[a,c,H,W]; size=5,17 mode=1 align=1; F.interpolate(x, size, None, 'bilinear', True)",
    "x:f[a,c,H,1]; size=1,3 mode=1 align=1; F.interpolate(x, size, None, 'bilinear', True)",
    "x:f[a,c,H,W]; size=13,5 mode=2; F.interpolate(x, size, mode='bicubic')",
    "x:f[a,c,2,1]; size=5,7 mode=2 align=1; F.interpolate(x, size, None, 'bicubic', True)",
    "x:f[2,70,9,9]; size=18,18 mode=1; F.interpolate(x, scale_factor=2, mode='bilinear')",
    NULL};
const struct op op_interpolate = {.name = "interpolate",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .infer = interpolate_infer,
                                  .forward = interpolate_forward,
                                  .backward = interpolate_backward,
                                  .attrs = interpolate_attrs,
                                  .cases = interpolate_cases};

det_tensor *det_interpolate(det_tensor *x, int64_t out_h, int64_t out_w, det_interpolation mode,
                            bool align_corners)
{
    struct interpolate_attr a = {{out_h, out_w}, mode, align_corners};
    bool picks_bytes = x && x->dtype == DET_U8 && mode == DET_INTERPOLATION_NEAREST; // they fit f32
    if (picks_bytes) return det_to(OP_APPLY(&op_interpolate, a, det_to(x, DET_F32)), DET_U8);
    return OP_APPLY(&op_interpolate, a, x);
}
