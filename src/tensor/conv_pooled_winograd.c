// Unit conv_pooled_winograd.c: forward of 5 x 5 convolutions behind which 2 x 2 windows are pooled,
// through Winograd's F(2 x 2, 5 x 5): a tile of it is one window. 36 multiplications take the place
// of 100.
#include "tensor/conv.h"

#include "base/assert.h"
#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

enum {
    MIN_CHANNELS = 16,
    BLOCK_TILES = 24, // whole register tiles; transformed, they stay in the second-level cache
};

bool pooled_winograd_fits(const struct pooled *p)
{
    const struct conv *s = &p->conv;
    return s->kh == 5 && s->kw == 5 && p->kh == 2 && p->kw == 2 && s->c >= MIN_CHANNELS &&
           s->oc >= MIN_CHANNELS;
}

struct job {
    const struct pooled *p;
    const float *x, *w, *bias;
    float *y;
    uint8_t *winner;
    float *kernel; // [point][channel][padded]
    int64_t padded, n_tiles;
    int *rc;
};

static void kernel_piece(void *ctx, int channel)
{
    const struct job *j = ctx;
    const struct conv *s = &j->p->conv;
    int64_t lanes = kernels->gemm_lanes();
    for (int64_t oc = 0; oc < s->oc; oc += lanes)
        kernels->wino_kernel_5(j->w + (oc * s->c + channel) * 25, s->c * 25,
                               (int)MIN(s->oc - oc, lanes), j->kernel + channel * j->padded + oc,
                               s->c * j->padded);
}

static void multiply_points(const struct job *j, const float *v, float *m, int64_t n_tiles)
{
    const struct conv *s = &j->p->conv;
    int64_t width = kernels->gemm_width();
    for (int64_t point = 0; point < WINO_POINTS; point++)
        for (int64_t oc = 0; oc < s->oc; oc += width)
            kernels->gemm_panel(&(struct gemm_panel){
                .m = n_tiles,
                .k = s->c,
                .n_seg = 1,
                .a = v + point * BLOCK_TILES * s->c,
                .a_stride = s->c,
                .b = j->kernel + point * s->c * j->padded + oc,
                .b_stride = j->padded,
                .width = (int)MIN(s->oc - oc, width),
                .c = m + point * BLOCK_TILES * s->oc + oc,
                .ldc = s->oc,
            });
}

static void forward_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    int64_t first = (int64_t)piece * BLOCK_TILES;
    int64_t n_tiles = MIN(j->n_tiles - first, (int64_t)BLOCK_TILES);
    float *v = scratch(SCRATCH_B, (size_t)(WINO_POINTS * BLOCK_TILES * (s->c + s->oc)) * sizeof *v);
    if (!v) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *m = v + WINO_POINTS * BLOCK_TILES * s->c;
    for (int64_t t = 0; t < n_tiles; t++) {
        int64_t image = (first + t) / (p->h * p->w), at = (first + t) % (p->h * p->w);
        kernels->wino_input(&(struct wino_tile){.image = j->x + image * s->h * s->w * s->c,
                                                .h = s->h,
                                                .w = s->w,
                                                .c = s->c,
                                                .y = at / p->w * 2,
                                                .x = at % p->w * 2,
                                                .to = v + t * s->c,
                                                .step = BLOCK_TILES * s->c});
    }
    multiply_points(j, v, m, n_tiles);
    for (int64_t t = 0; t < n_tiles; t++)
        kernels->wino_pool(&(struct wino_pool){.from = m + t * s->oc,
                                               .step = BLOCK_TILES * s->oc,
                                               .c = s->oc,
                                               .bias = j->bias,
                                               .relu = p->relu,
                                               .out = j->y + (first + t) * s->oc,
                                               .winner = j->winner + (first + t) * s->oc});
}

int pooled_winograd_forward(const struct pooled *p, const float *x, const float *w,
                            const float *bias, float *y, uint8_t *winner)
{
    int rc = 0;
    int64_t lanes = kernels->gemm_lanes();
    struct job j = {.p = p, .x = x, .w = w, .bias = bias, .y = y, .winner = winner, .rc = &rc};
    j.padded = (p->conv.oc + lanes - 1) / lanes * lanes;
    j.n_tiles = p->conv.n * p->h * p->w;
    j.kernel = scratch(SCRATCH_A, (size_t)(WINO_POINTS * p->conv.c * j.padded) * sizeof(float));
    if (!j.kernel) return DET_ENOMEM;
    pool_run((int)p->conv.c, kernel_piece, &j);
    pool_run((int)((j.n_tiles + BLOCK_TILES - 1) / BLOCK_TILES), forward_piece, &j);
    return rc;
}
