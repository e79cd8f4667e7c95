// Unit affine.c: to_tensor and normalize. One after the other they are one multiplication and one
// addition per pixel, and for images in memory nothing else has to be done to a sample.
#include "data/transform.h"

#include "base/assert.h"
#include "base/mem.h"
#include "data/kernels/kernels.h"
#include "sys/cpu.h"
#include "tensor/tensor.h"
#include <math.h>

#if defined(__x86_64__)
static const bytes_to_f32_fn kernel_sets[CPU_N_ISA] = {bytes_to_f32_plain, bytes_to_f32_avx2,
                                                       bytes_to_f32_avx512};
#else
static const bytes_to_f32_fn kernel_sets[CPU_N_ISA] = {bytes_to_f32_plain};
#endif

static bytes_to_f32_fn bytes_to_f32 = bytes_to_f32_plain;

__attribute__((constructor)) static void choose_kernel(void)
{
    bytes_to_f32 = kernel_sets[cpu_features()->isa];
}

void affine_bytes(const struct affine *a, int64_t channel, const uint8_t *in, float *out, int64_t n)
{
    int64_t c = a->n_channels == 1 ? 0 : channel;
    bytes_to_f32(in, out, n, (float)(a->scale[c] / 255), (float)a->shift[c]);
}

bool affine_fits(const struct affine *a, int64_t n_channels)
{
    if (a->n_channels == 1 || a->n_channels == n_channels) return true;
    det_raise(DET_ESHAPE, "det_transform_normalize was given %d channels, the images have %lld",
              a->n_channels, (long long)n_channels);
    return false;
}

static void affine_free(det_transform *t)
{
    struct affine *a = (struct affine *)t;
    free(a->scale);
    free(a->shift);
    free(a);
}

static struct affine *affine_new(const struct transform_ops *ops, int n_channels)
{
    struct affine *a = xmalloc(sizeof *a);
    *a = (struct affine){.base = {ops}, .n_channels = n_channels};
    a->scale = xcalloc((size_t)n_channels, sizeof *a->scale);
    a->shift = xcalloc((size_t)n_channels, sizeof *a->shift);
    return a;
}

// --- to_tensor

// Takes the pixels of one channel, step elements apart, together.
static void plane_of_bytes(const struct affine *a, int64_t channel, const uint8_t *in, int64_t step,
                           float *out, int64_t n)
{
    enum { PIECE = 1024 };
    uint8_t piece[PIECE];
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t m = MIN((int64_t)PIECE, n - done);
        for (int64_t i = 0; i < m; i++)
            piece[i] = in[(done + i) * step];
        affine_bytes(a, channel, piece, out + done, m);
    }
}

static void plane_of_floats(const struct affine *a, int64_t channel, const float *in, int64_t step,
                            float *out, int64_t n)
{
    int64_t c = a->n_channels == 1 ? 0 : channel;
    float scale = (float)a->scale[c], shift = (float)a->shift[c];
    for (int64_t i = 0; i < n; i++)
        out[i] = in[i * step] * scale + shift;
}

static struct image to_tensor_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    const struct affine *a = (const struct affine *)t;
    (void)draw;
    const int64_t *shape = det_shape(in.pixels);
    int64_t h = shape[0], w = shape[1], channels = shape[2], n = h * w;
    struct image out = {.planar = true};
    if (in.planar) {
        det_raise(DET_EINVAL, "det_transform_to_tensor: it was applied before");
        return out;
    }
    if (!affine_fits(a, channels)) return out;
    out.pixels = det_empty(DET_F32, DET_DIMS(channels, h, w));
    const void *from = det_data(in.pixels);
    if (!out.pixels || !from) return (struct image){0};
    float *to = tensor_memory(out.pixels);
    for (int64_t c = 0; c < channels; c++) {
        if (det_dtype_of(in.pixels) == DET_U8)
            plane_of_bytes(a, c, (const uint8_t *)from + c, channels, to + c * n, n);
        else
            plane_of_floats(a, c, (const float *)from + c, channels, to + c * n, n);
    }
    return out;
}

static const struct transform_ops to_tensor_ops = {.apply = to_tensor_apply, .free = affine_free};

det_transform *det_transform_to_tensor(void)
{
    struct affine *a = affine_new(&to_tensor_ops, 1);
    a->scale[0] = 1;
    return &a->base;
}

const struct affine *transform_as_affine(const det_transform *t)
{
    return t->ops == &to_tensor_ops ? (const struct affine *)t : NULL;
}

// --- normalize

static struct image normalize_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    const struct affine *a = (const struct affine *)t;
    (void)draw;
    if (!in.planar || det_dtype_of(in.pixels) != DET_F32) {
        det_raise(DET_EINVAL,
                  "det_transform_normalize: det_transform_to_tensor must come before it");
        return (struct image){0};
    }
    const int64_t *shape = det_shape(in.pixels);
    if (!affine_fits(a, shape[0])) return (struct image){0};
    int64_t n = shape[1] * shape[2];
    struct image out = {.pixels = det_empty(DET_F32, shape, 3), .planar = true};
    const float *from = det_data(in.pixels);
    if (!out.pixels || !from) return (struct image){0};
    float *to = tensor_memory(out.pixels);
    for (int64_t c = 0; c < shape[0]; c++)
        plane_of_floats(a, c, from + c * n, 1, to + c * n, n);
    return out;
}

static const struct transform_ops normalize_ops = {.apply = normalize_apply, .free = affine_free};

det_transform *det_transform_normalize(const double *mean, int n_mean, const double *std, int n_std)
{
    if (n_mean < 1 || n_mean != n_std) {
        det_raise(DET_EINVAL, "det_transform_normalize: %d means and %d standard deviations",
                  n_mean, n_std);
        return NULL;
    }
    for (int i = 0; i < n_std; i++)
        if (!(std[i] > 0) || !isfinite(std[i]) || !isfinite(mean[i])) {
            det_raise(DET_EINVAL,
                      "det_transform_normalize: channel %d has mean %g and deviation %g", i,
                      mean[i], std[i]);
            return NULL;
        }
    struct affine *a = affine_new(&normalize_ops, n_mean);
    for (int i = 0; i < n_mean; i++) {
        a->scale[i] = 1 / std[i];
        a->shift[i] = -mean[i] / std[i];
    }
    return &a->base;
}

bool affine_absorb(struct affine *t, det_transform *next)
{
    struct affine *by = (struct affine *)next;
    if (next->ops != &normalize_ops) return false;
    if (t->n_channels != by->n_channels && t->n_channels != 1 && by->n_channels != 1) return false;
    int n = MAX(t->n_channels, by->n_channels);
    double *scale = xcalloc((size_t)n, sizeof *scale), *shift = xcalloc((size_t)n, sizeof *shift);
    for (int i = 0; i < n; i++) {
        int of_t = t->n_channels == 1 ? 0 : i, of_by = by->n_channels == 1 ? 0 : i;
        scale[i] = t->scale[of_t] * by->scale[of_by];
        shift[i] = t->shift[of_t] * by->scale[of_by] + by->shift[of_by];
    }
    free(t->scale);
    free(t->shift);
    t->n_channels = n;
    t->scale = scale;
    t->shift = shift;
    affine_free(next);
    return true;
}
