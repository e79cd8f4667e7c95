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
    POINTS = 36,
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
    struct wino_image images;
    const float *w, *bias;
    float *y;
    uint8_t *winner;
    float *kernel;       // [point][channel][out_c]
    int64_t in_c, out_c; // channels, with padding: whole vectors, that cross no line of the cache
    int64_t v_step, m_step; // from one point of a block to the next
    int64_t n_tiles;
    int *rc;
};

static void kernel_piece(void *ctx, int channel)
{
    const struct job *j = ctx;
    const struct conv *s = &j->p->conv;
    int64_t lanes = kernels->gemm_lanes();
    for (int64_t oc = 0; oc < s->oc; oc += lanes)
        kernels->wino_kernel_5(j->w + (oc * s->c + channel) * 25, s->c * 25,
                               (int)MIN(s->oc - oc, lanes), j->kernel + channel * j->out_c + oc,
                               s->c * j->out_c);
}

static void multiply_points(const struct job *j, const float *v, float *m, int64_t n_tiles)
{
    const struct conv *s = &j->p->conv;
    int64_t width = kernels->gemm_width();
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t oc = 0; oc < j->out_c; oc += width)
            kernels->gemm_panel(&(struct gemm_panel){.m = n_tiles,
                                                     .k = s->c,
                                                     .n_seg = 1,
                                                     .a = v + point * j->v_step,
                                                     .a_stride = j->in_c,
                                                     .b = j->kernel + point * s->c * j->out_c + oc,
                                                     .b_stride = j->out_c,
                                                     .width = (int)MIN(j->out_c - oc, width),
                                                     .c = m + point * j->m_step + oc,
                                                     .ldc = j->out_c});
}

// Tiles [first, first + n): a row of results has p->w of them.
static void input_tiles(const struct job *j, int64_t first, int64_t n, float *v)
{
    const struct pooled *p = j->p;
    for (int64_t end = first + n, in_row; first < end; first += in_row, v += in_row * j->in_c) {
        int64_t image = first / (p->h * p->w), at = first % (p->h * p->w);
        in_row = MIN(p->w - at % p->w, end - first);
        kernels->wino_input(&(struct wino_inputs){.image = wino_image_at(&j->images, image),
                                                  .y = at / p->w * 2,
                                                  .x = at % p->w * 2,
                                                  .of_5 = true,
                                                  .n = in_row,
                                                  .next = j->in_c,
                                                  .to = v,
                                                  .step = j->v_step});
    }
}

static void forward_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    int64_t first = (int64_t)piece * BLOCK_TILES;
    int64_t n_tiles = MIN(j->n_tiles - first, (int64_t)BLOCK_TILES);
    float *v = scratch(SCRATCH_B, (size_t)(POINTS * (j->v_step + j->m_step)) * sizeof *v);
    if (!v) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *m = v + POINTS * j->v_step;
    input_tiles(j, first, n_tiles, v);
    multiply_points(j, v, m, n_tiles);
    for (int64_t t = 0; t < n_tiles; t++)
        kernels->wino_pool(&(struct wino_pool){.from = m + t * j->out_c,
                                               .step = j->m_step,
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
    struct job j = {.p = p, .w = w, .bias = bias, .y = y, .winner = winner, .rc = &rc};
    j.images = (struct wino_image){(void *)(uintptr_t)x, false, p->conv.h, p->conv.w, p->conv.c};
    j.in_c = round_up(p->conv.c, lanes);
    j.out_c = round_up(p->conv.oc, lanes);
    j.v_step = winograd_point_floats(BLOCK_TILES, j.in_c);
    j.m_step = winograd_point_floats(BLOCK_TILES, j.out_c);
    j.n_tiles = p->conv.n * p->h * p->w;
    j.kernel = scratch(SCRATCH_A, (size_t)(POINTS * p->conv.c * j.out_c) * sizeof(float));
    if (!j.kernel) return DET_ENOMEM;
    pool_run((int)p->conv.c, kernel_piece, &j);
    pool_run((int)divide_up(j.n_tiles, BLOCK_TILES), forward_piece, &j);
    return rc;
}
