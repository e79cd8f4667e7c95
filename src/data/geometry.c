// Unit geometry.c: transforms that choose and move pixels. They work on images of both orders,
// before and after to_tensor.
#include "data/transform.h"

#include "base/assert.h"
#include "base/mem.h"
#include "data/resample.h"
#include "tensor/tensor.h"
#include <math.h>

enum { SIDE_MAX = 1 << 15 };

struct geometry {
    det_transform base;
    int64_t height, width; // of the result
    int64_t padding;
    double probability;
};

static det_transform *geometry_new(const struct transform_ops *ops, struct geometry g)
{
    struct geometry *t = xmalloc(sizeof *t);
    *t = g;
    t->base.ops = ops;
    return &t->base;
}

static bool check_size(const char *function, int64_t h, int64_t w)
{
    if (h > 0 && w > 0 && h <= SIDE_MAX && w <= SIDE_MAX) return true;
    det_raise(DET_EINVAL, "%s: a size of %lld x %lld; sides are 1 to %d", function, (long long)h,
              (long long)w, SIDE_MAX);
    return false;
}

// A whole number in 0 .. n.
static int64_t draw_upto(const det_draw *draw, int which, int64_t n)
{
    return (int64_t)(det_draw_unit(draw, which) * (double)(n + 1));
}

// --- parts of images

// What is outside of the image is 0.
static struct image crop(struct image in, struct box box)
{
    int64_t planes = in.planar ? image_channels(in) : 1, inner = in.planar ? 1 : image_channels(in);
    int64_t h = image_height(in), w = image_width(in);
    size_t pixel = (size_t)inner * det_dtype_size(det_dtype_of(in.pixels));
    struct image out = image_new_like(in, box.height, box.width);
    const char *from = det_data(in.pixels);
    if (!from || !out.pixels) return (struct image){0};
    char *to = tensor_memory(out.pixels);
    memset(to, 0, (size_t)(planes * box.height * box.width) * pixel);
    int64_t x0 = MAX(box.left, 0), x1 = MIN(box.left + box.width, w);
    int64_t y0 = MAX(box.top, 0), y1 = MIN(box.top + box.height, h);
    for (int64_t p = 0; p < planes && x0 < x1; p++)
        for (int64_t y = y0; y < y1; y++)
            memcpy(to +
                       (size_t)((p * box.height + y - box.top) * box.width + x0 - box.left) * pixel,
                   from + (size_t)((p * h + y) * w + x0) * pixel, (size_t)(x1 - x0) * pixel);
    return out;
}

// Where the middle part begins if so many pixels are left over, or missing. torchvision's rounding.
static int64_t middle(int64_t rest)
{
    return rest < 0 ? rest / 2 : llrint((double)rest / 2);
}

static struct image center_crop_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    const struct geometry *g = (const struct geometry *)t;
    (void)draw;
    return crop(in, (struct box){middle(image_height(in) - g->height),
                                 middle(image_width(in) - g->width), g->height, g->width});
}

det_transform *det_transform_center_crop(int64_t size)
{
    static const struct transform_ops ops = {.apply = center_crop_apply,
                                             .free = transform_free_memory};
    if (!check_size("det_transform_center_crop", size, size)) return NULL;
    return geometry_new(&ops, (struct geometry){.height = size, .width = size});
}

static struct image random_crop_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    const struct geometry *g = (const struct geometry *)t;
    int64_t rest_h = image_height(in) + 2 * g->padding - g->height,
            rest_w = image_width(in) + 2 * g->padding - g->width;
    if (rest_h < 0 || rest_w < 0) {
        det_raise(DET_ESHAPE,
                  "det_transform_random_crop: %lld x %lld pixels of an image of %lld x %lld with a "
                  "padding of %lld",
                  (long long)g->height, (long long)g->width, (long long)image_height(in),
                  (long long)image_width(in), (long long)g->padding);
        return (struct image){0};
    }
    return crop(in, (struct box){draw_upto(draw, 0, rest_h) - g->padding,
                                 draw_upto(draw, 1, rest_w) - g->padding, g->height, g->width});
}

det_transform *det_transform_random_crop(int64_t size, int64_t padding)
{
    static const struct transform_ops ops = {.apply = random_crop_apply,
                                             .free = transform_free_memory};
    if (!check_size("det_transform_random_crop", size, size)) return NULL;
    if (padding < 0 || padding > SIDE_MAX) {
        det_raise(DET_EINVAL, "det_transform_random_crop: a padding of %lld", (long long)padding);
        return NULL;
    }
    return geometry_new(&ops, (struct geometry){.height = size, .width = size, .padding = padding});
}

// --- other sizes

static bool has_pixels(struct image in)
{
    if (image_height(in) > 0 && image_width(in) > 0) return true;
    det_raise(DET_ESHAPE, "an image without pixels cannot be resized");
    return false;
}

static struct image resize_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    const struct geometry *g = (const struct geometry *)t;
    (void)draw;
    if (!has_pixels(in)) return (struct image){0};
    struct box all = {0, 0, image_height(in), image_width(in)};
    return image_resample(in, all, g->height, g->width);
}

det_transform *det_transform_resize(int64_t h, int64_t w)
{
    static const struct transform_ops ops = {.apply = resize_apply, .free = transform_free_memory};
    if (!check_size("det_transform_resize", h, w)) return NULL;
    return geometry_new(&ops, (struct geometry){.height = h, .width = w});
}

// The largest box in the middle whose sides are not more unequal than allowed.
static struct box middle_box(int64_t h, int64_t w, double ratio_min, double ratio_max)
{
    double ratio = (double)w / (double)h;
    int64_t bh = h, bw = w;
    if (ratio < ratio_min)
        bh = llrint((double)w / ratio_min);
    else if (ratio > ratio_max)
        bw = llrint((double)h * ratio_max);
    return (struct box){(h - bh) / 2, (w - bw) / 2, bh, bw};
}

// A part of 8 % to 100 % of the area with sides of 3 : 4 to 4 : 3, torch's defaults; if ten draws
// do not fit into the image, the middle.
static struct box random_box(int64_t h, int64_t w, const det_draw *draw)
{
    enum { TRIES = 10, DRAWS = 4 };
    const double ratio_min = 3.0 / 4, ratio_max = 4.0 / 3, scale_min = 0.08;
    for (int i = 0; i < TRIES; i++) {
        double share = scale_min + (1 - scale_min) * det_draw_unit(draw, DRAWS * i);
        double area = share * (double)h * (double)w;
        double ratio = exp(log(ratio_min) +
                           det_draw_unit(draw, DRAWS * i + 1) * (log(ratio_max) - log(ratio_min)));
        int64_t bw = llrint(sqrt(area * ratio)), bh = llrint(sqrt(area / ratio));
        if (bw < 1 || bh < 1 || bw > w || bh > h) continue;
        return (struct box){draw_upto(draw, DRAWS * i + 2, h - bh),
                            draw_upto(draw, DRAWS * i + 3, w - bw), bh, bw};
    }
    return middle_box(h, w, ratio_min, ratio_max);
}

static struct image resized_crop_apply(const det_transform *t, struct image in,
                                       const det_draw *draw)
{
    const struct geometry *g = (const struct geometry *)t;
    if (!has_pixels(in)) return (struct image){0};
    struct box box = random_box(image_height(in), image_width(in), draw);
    return image_resample(in, box, g->height, g->width);
}

det_transform *det_transform_random_resized_crop(int64_t size)
{
    static const struct transform_ops ops = {.apply = resized_crop_apply,
                                             .free = transform_free_memory};
    if (!check_size("det_transform_random_resized_crop", size, size)) return NULL;
    return geometry_new(&ops, (struct geometry){.height = size, .width = size});
}

// --- mirrored

static struct image flip(struct image in)
{
    int64_t planes = in.planar ? image_channels(in) : 1, inner = in.planar ? 1 : image_channels(in);
    int64_t rows = planes * image_height(in), w = image_width(in);
    size_t pixel = (size_t)inner * det_dtype_size(det_dtype_of(in.pixels));
    struct image out = image_new_like(in, image_height(in), w);
    const char *from = det_data(in.pixels);
    if (!from || !out.pixels) return (struct image){0};
    char *to = tensor_memory(out.pixels);
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < w; x++)
            memcpy(to + (size_t)(y * w + x) * pixel, from + (size_t)(y * w + w - 1 - x) * pixel,
                   pixel);
    return out;
}

static struct image random_flip_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    return det_draw_unit(draw, 0) < ((const struct geometry *)t)->probability ? flip(in) : in;
}

det_transform *det_transform_random_horizontal_flip(double p)
{
    static const struct transform_ops ops = {.apply = random_flip_apply,
                                             .free = transform_free_memory};
    if (!(p >= 0 && p <= 1)) {
        det_raise(DET_EINVAL, "det_transform_random_horizontal_flip: a probability of %g", p);
        return NULL;
    }
    return geometry_new(&ops, (struct geometry){.probability = p});
}
