// Unit resample.c: images of another size, by one weighted sum along rows and one along columns.
// Called by geometry.c.
#include "data/resample.h"

#include "base/assert.h"
#include "tensor/tensor.h"
#include <math.h>

int64_t image_height(struct image in)
{
    return det_shape(in.pixels)[in.planar ? 1 : 0];
}

int64_t image_width(struct image in)
{
    return det_shape(in.pixels)[in.planar ? 2 : 1];
}

int64_t image_channels(struct image in)
{
    return det_shape(in.pixels)[in.planar ? 0 : 2];
}

struct image image_new_like(struct image like, int64_t height, int64_t width)
{
    int64_t channels = image_channels(like);
    det_dtype dtype = det_dtype_of(like.pixels);
    return (struct image){.planar = like.planar,
                          .pixels = like.planar
                                        ? det_empty(dtype, DET_DIMS(channels, height, width))
                                        : det_empty(dtype, DET_DIMS(height, width, channels))};
}

// --- weights

// Where each of n_out pixels comes from: n_taps[i] neighbours from first[i] on, with weights
// weight[i * max_taps ...] that sum to 1.
struct filter {
    int64_t n_out, max_taps;
    const int64_t *first, *n_taps;
    const float *weight;
};

// A triangle over each pixel, one pixel to each side, wider where the image becomes smaller.
static bool filter_init(struct filter *f, int64_t n_in, int64_t n_out)
{
    double scale = (double)n_in / (double)n_out, support = MAX(scale, 1.0);
    int64_t max_taps = 2 * (int64_t)ceil(support) + 1;
    det_tensor *places = det_empty(DET_I64, DET_DIMS(2, n_out)),
               *weights = det_empty(DET_F32, DET_DIMS(n_out, max_taps));
    if (!places || !weights) return false;
    int64_t *first = tensor_memory(places), *n_taps = first + n_out;
    float *weight = tensor_memory(weights);
    for (int64_t i = 0; i < n_out; i++) {
        double centre = ((double)i + 0.5) * scale, sum = 0;
        int64_t begin = MAX((int64_t)(centre - support + 0.5), 0),
                end = MIN((int64_t)(centre + support + 0.5), n_in);
        first[i] = begin;
        n_taps[i] = MIN(end - begin, max_taps);
        float *w = weight + i * max_taps;
        for (int64_t k = 0; k < n_taps[i]; k++) {
            w[k] = (float)MAX(1 - fabs(((double)(begin + k) + 0.5 - centre) / support), 0.0);
            sum += (double)w[k];
        }
        for (int64_t k = 0; k < n_taps[i]; k++)
            w[k] = (float)((double)w[k] / sum);
    }
    *f = (struct filter){n_out, max_taps, first, n_taps, weight};
    return true;
}

// --- sums

// One row: out (n_out, inner) from in (n_in, inner).
static void filter_row(const struct filter *f, const float *in, float *out, int64_t inner)
{
    for (int64_t i = 0; i < f->n_out; i++) {
        const float *w = f->weight + i * f->max_taps, *from = in + f->first[i] * inner;
        for (int64_t c = 0; c < inner; c++) {
            float sum = 0;
            for (int64_t k = 0; k < f->n_taps[i]; k++)
                sum += w[k] * from[k * inner + c];
            out[i * inner + c] = sum;
        }
    }
}

// One row of the result, n floats, from the rows of in that have a part in it.
static void filter_column(const struct filter *f, int64_t row, const float *in, float *out,
                          int64_t n)
{
    const float *w = f->weight + row * f->max_taps, *from = in + f->first[row] * n;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t k = 0; k < f->n_taps[row]; k++)
        for (int64_t i = 0; i < n; i++)
            out[i] += w[k] * from[k * n + i];
}

// Elements of u8 or f32 memory from at on, as floats, and back.
static void read_floats(const void *memory, det_dtype dtype, int64_t at, int64_t n, float *out)
{
    if (dtype == DET_F32)
        memcpy(out, (const float *)memory + at, (size_t)n * sizeof *out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const uint8_t *)memory)[at + i];
}

static void write_floats(void *memory, det_dtype dtype, int64_t at, int64_t n, const float *in)
{
    if (dtype == DET_F32)
        memcpy((float *)memory + at, in, (size_t)n * sizeof *in);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)memory)[at + i] = (uint8_t)MIN(MAX(in[i] + 0.5f, 0.0f), 255.0f);
}

struct image image_resample(struct image in, struct box box, int64_t height, int64_t width)
{
    int64_t planes = in.planar ? image_channels(in) : 1, inner = in.planar ? 1 : image_channels(in);
    int64_t in_w = image_width(in), in_h = image_height(in), row = width * inner;
    det_dtype dtype = det_dtype_of(in.pixels);
    struct filter across = {0}, down = {0};
    struct image out = image_new_like(in, height, width);
    bool ok = filter_init(&across, box.width, width) && filter_init(&down, box.height, height);
    det_tensor *line = det_empty(DET_F32, DET_DIMS(MAX(box.width, width), inner)),
               *middle = det_empty(DET_F32, DET_DIMS(box.height, width, inner));
    const void *from = det_data(in.pixels);
    if (!ok || !line || !middle || !from || !out.pixels) return (struct image){0};
    float *one = tensor_memory(line), *rows = tensor_memory(middle);
    void *to = tensor_memory(out.pixels);
    for (int64_t p = 0; p < planes; p++) {
        for (int64_t y = 0; y < box.height; y++) {
            int64_t at = ((p * in_h + box.top + y) * in_w + box.left) * inner;
            read_floats(from, dtype, at, box.width * inner, one);
            filter_row(&across, one, rows + y * row, inner);
        }
        for (int64_t y = 0; y < height; y++) {
            filter_column(&down, y, rows, one, row);
            write_floats(to, dtype, (p * height + y) * row, row, one);
        }
    }
    return out;
}
