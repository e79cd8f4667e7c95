// Unit conv_patches.c: convolutions of bf16 as products of matrices: the pixels under the kernel
// become the rows of a matrix of patches, some lines of the result at a time. Worth it where
// instructions multiply pairs of bf16 (gemm_bf16.h): they do more than Winograd's way saves.
#include "tensor/conv.h"

#include "base/bf16.h"
#include "sys/pool.h"
#include "tensor/gemm_bf16.h"
#include "tensor/node.h"

enum {
    PATCH_BYTES = 4 << 20, // of a part of the result
    MIN_K = 32,            // below, packing costs more than the products
    WINOGRAD_SAVES = 4,    // times fewer products
};

static int64_t patch_size(const struct conv *s)
{
    return s->kh * s->kw * s->c;
}

bool patches_fit(const struct conv *s)
{
    const struct bf16_unit *unit = bf16_unit();
    bool plain = s->groups == 1 && s->sh == 1 && s->sw == 1 && s->dh == 1 && s->dw == 1;
    return unit && plain && s->ph < s->kh && s->pw < s->kw && patch_size(s) >= MIN_K &&
           s->kh * s->kw * s->oc >= MIN_K && (unit->speed > WINOGRAD_SAVES || !winograd_fits(s));
}

// --- patches

// Lines [first, first + n) of the results of all images, behind one another.
struct patches {
    const struct conv *s;
    const uint16_t *x;
    int64_t first, n, max;
    uint16_t *rows; // [line][pixel][ky][kx][channel]
};

static int patches_init(struct patches *p, const struct conv *s, const uint16_t *x)
{
    int64_t line = s->ow * patch_size(s) * (int64_t)sizeof *x;
    *p = (struct patches){.s = s, .x = x};
    p->max = MIN(MAX(PATCH_BYTES / line, (int64_t)1), s->n * s->oh);
    p->rows = scratch(SCRATCH_C, (size_t)(p->max * line));
    return p->rows ? 0 : DET_ENOMEM;
}

// The pixels of a line of an image under a kernel row, for output pixel ox.
static void copy_row(const struct conv *s, const uint16_t *line, int64_t ox, uint16_t *to)
{
    int64_t x = ox - s->pw, left = MAX(-x, (int64_t)0), right = MIN(s->kw, s->w - x);
    memset(to, 0, (size_t)(MIN(left, s->kw) * s->c) * sizeof *to);
    if (left < right)
        memcpy(to + left * s->c, line + (x + left) * s->c,
               (size_t)((right - left) * s->c) * sizeof *to);
    right = MAX(right, (int64_t)0);
    memset(to + right * s->c, 0, (size_t)((s->kw - right) * s->c) * sizeof *to);
}

static void patch_line(void *ctx, int i)
{
    const struct patches *p = ctx;
    const struct conv *s = p->s;
    int64_t image = (p->first + i) / s->oh, oy = (p->first + i) % s->oh, row = s->kw * s->c;
    uint16_t *to = p->rows + i * s->ow * patch_size(s);
    for (int64_t ox = 0; ox < s->ow; ox++)
        for (int64_t ky = 0; ky < s->kh; ky++, to += row) {
            int64_t y = oy + ky - s->ph;
            if (y < 0 || y >= s->h)
                memset(to, 0, (size_t)row * sizeof *to);
            else
                copy_row(s, p->x + (image * s->h + y) * s->w * s->c, ox, to);
        }
}

// The next part; false: there is none.
static bool patches_next(struct patches *p)
{
    p->first += p->n;
    p->n = MIN(p->s->n * p->s->oh - p->first, p->max);
    if (p->n <= 0) return false;
    pool_run((int)p->n, patch_line, p);
    return true;
}

// --- products

static int multiply(const struct conv *s, const uint16_t *x, const uint16_t *w_rows,
                    const float *bias, uint16_t *y)
{
    struct patches p;
    int rc = patches_init(&p, s, x);
    const int64_t k = patch_size(s);
    while (!rc && patches_next(&p))
        rc = gemm(&(struct gemm){.m = p.n * s->ow,
                                 .n = s->oc,
                                 .k = k,
                                 .a = {p.rows, DET_BF16, k, 1},
                                 .b = {w_rows, DET_BF16, 1, k},
                                 .c = y + p.first * s->ow * s->oc,
                                 .ldc = s->oc,
                                 .c_dtype = DET_BF16,
                                 .bias = bias});
    return rc;
}

// (OC, C, KH, KW) -> bf16 (OC, KH, KW, C); turned: (C, KH, KW, OC), turned around.
static uint16_t *kernels_of(const struct conv *s, const float *w, bool turned)
{
    const int64_t taps = s->kh * s->kw;
    uint16_t *to = scratch(SCRATCH_D, (size_t)(s->oc * s->c * taps) * sizeof *to);
    if (!to) return NULL;
    for (int64_t o = 0; o < s->oc; o++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t at =
                    turned ? (c * taps + taps - 1 - tap) * s->oc + o : (o * taps + tap) * s->c + c;
                to[at] = f32_to_bf16(w[(o * s->c + c) * taps + tap]);
            }
    return to;
}

int patches_forward(const struct conv *s, const uint16_t *x, const float *w, const float *bias,
                    uint16_t *y)
{
    const uint16_t *w_rows = kernels_of(s, w, false);
    return w_rows ? multiply(s, x, w_rows, bias, y) : DET_ENOMEM;
}

int patches_data(const struct conv *s, const uint16_t *g, const float *w, uint16_t *dx)
{
    struct conv t = *s; // the gradient is convolved back onto the input
    t.c = s->oc, t.h = s->oh, t.w = s->ow;
    t.oc = s->c, t.oh = s->h, t.ow = s->w;
    t.ph = s->kh - 1 - s->ph, t.pw = s->kw - 1 - s->pw;
    const uint16_t *w_rows = kernels_of(s, w, true);
    return w_rows ? multiply(&t, g, w_rows, NULL, dx) : DET_ENOMEM;
}

// (OC, KH, KW, C) -> (OC, C, KH, KW)
static void store_weights(const struct conv *s, const float *sums, float *dw, bool accumulate)
{
    const int64_t taps = s->kh * s->kw;
    for (int64_t o = 0; o < s->oc; o++)
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t c = 0; c < s->c; c++, sums++) {
                float *to = &dw[(o * s->c + c) * taps + tap];
                *to = accumulate ? *to + *sums : *sums;
            }
}

int patches_weights(const struct conv *s, const uint16_t *x, const uint16_t *g, float *dw,
                    bool accumulate)
{
    const int64_t k = patch_size(s);
    float *sums = scratch(SCRATCH_D, (size_t)(s->oc * k) * sizeof *sums);
    struct patches p;
    int rc = sums ? patches_init(&p, s, x) : DET_ENOMEM;
    while (!rc && patches_next(&p))
        rc = gemm(&(struct gemm){.m = s->oc,
                                 .n = k,
                                 .k = p.n * s->ow,
                                 .a = {g + p.first * s->ow * s->oc, DET_BF16, 1, s->oc},
                                 .b = {p.rows, DET_BF16, k, 1},
                                 .c = sums,
                                 .ldc = k,
                                 .c_dtype = DET_F32,
                                 .accumulate = p.first > 0});
    if (!rc) store_weights(s, sums, dw, accumulate);
    return rc;
}
