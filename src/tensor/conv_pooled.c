// Unit conv_pooled.c: convolution + max pooling (+ relu) as one operation.
//
// Forward keeps only the pooled result and, per element, which pixel of its window won. Backward
// turns the gradients that are not zero into lists of (value, position): behind a 2 x 2 window at
// most a quarter of the dense work is left.
#include "tensor/conv.h"

#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

enum { MAX_WINDOW = 16, CHANNELS_PER_PIECE = 4, IMAGES_AT_ONCE = 2 };

bool pooled_fits(const struct pooled *p)
{
    const struct conv *s = &p->conv;
    return s->groups == 1 && s->dh == 1 && s->dw == 1 && s->sh == 1 && s->sw == 1 && !s->ph &&
           !s->pw && p->kh * p->kw <= MAX_WINDOW && p->kh * p->kw > 1 &&
           s->kh * s->kw <= DIRECT_MAX_SEGMENTS && s->h * s->w * s->c < INT32_MAX &&
           !winograd_fits(s);
}

// --- forward

struct forward_job {
    const struct pooled *p;
    struct direct_plan plan;
    const float *x, *bias;
    float *y;
    uint8_t *winner;
    int *rc;
};

static void forward_piece(void *ctx, int image)
{
    const struct forward_job *j = ctx;
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    const float *x = j->x + (int64_t)image * s->h * s->w * s->c;
    float *rows = scratch(SCRATCH_C, (size_t)(p->kh * s->ow * s->oc) * sizeof *rows);
    if (!rows) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t y = 0; y < p->h; y++) {
        int64_t at = ((int64_t)image * p->h + y) * p->w * s->oc;
        direct_rows(&j->plan, direct_input_rows(s, x, y * p->kh, p->kh), rows, p->kh);
        kernels->pool_row(&(struct pool_row){.image = rows,
                                             .h = p->kh,
                                             .w = s->ow,
                                             .c = s->oc,
                                             .stride = p->kw,
                                             .kh = p->kh,
                                             .kw = p->kw,
                                             .n = p->w,
                                             .bias = j->bias,
                                             .relu = p->relu,
                                             .out = j->y + at,
                                             .winner = j->winner + at});
    }
}

int pooled_forward(const struct pooled *p, const float *x, const float *w, const float *bias,
                   float *y, uint8_t *winner)
{
    int rc = 0;
    struct forward_job j = {.p = p, .x = x, .bias = bias, .y = y, .winner = winner, .rc = &rc};
    if (pooled_winograd_fits(p)) return pooled_winograd_forward(p, x, w, bias, y, winner);
    int planned = direct_plan(&j.plan, &p->conv, w);
    if (planned) return planned;
    pool_run((int)p->conv.n, forward_piece, &j);
    return rc;
}

// --- backward

struct backward_job {
    const struct pooled *p;
    const struct pooled_grads *g;
    int32_t *origin, *in_window; // see struct pooled_image
    const float *turned;         // weights as [kernel row][output channel][kernel column][channel]
    int *rc;
    int64_t row_len;          // kw * c
    int vectors;              // of a kernel row
    struct sparse_grad *list; // [image][output channel][pixel]
    int32_t *count;           // [image][output channel]
    float *total;             // [image][output channel]
    float *sums;              // [output channel][kernel row][vectors * lanes]
};

static struct pooled_image image_of(const struct backward_job *j, int64_t image)
{
    const struct pooled *p = j->p;
    int64_t pixels = p->h * p->w, at = image * pixels * p->conv.oc;
    return (struct pooled_image){.g = j->g->g + at,
                                 .y = p->relu ? j->g->y + at : NULL,
                                 .winner = j->g->winner + at,
                                 .pixels = pixels,
                                 .c = p->conv.oc,
                                 .origin = j->origin,
                                 .in_window = j->in_window};
}

// One image: its gradients by channel.
static void list_piece(void *ctx, int image)
{
    const struct backward_job *j = ctx;
    struct pooled_image p = image_of(j, image);
    kernels->sparse_by_channel(&p, j->list + image * p.c * p.pixels, j->count + image * p.c,
                               j->total + image * p.c);
}

// A few output channels, all images: dW. Few images at a time, so that their inputs stay in the
// cache.
static void weights_piece(void *ctx, int piece)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    int64_t pixels = j->p->h * j->p->w;
    int64_t first = (int64_t)piece * CHANNELS_PER_PIECE;
    int64_t end = MIN(first + CHANNELS_PER_PIECE, s->oc);
    for (int64_t image = 0; image < s->n; image += IMAGES_AT_ONCE)
        for (int64_t oc = first; oc < end; oc++) {
            struct sparse_lists l = {.list = j->list + (image * s->oc + oc) * pixels,
                                     .count = j->count + image * s->oc + oc,
                                     .x = j->g->x + image * s->h * s->w * s->c,
                                     .n_images = MIN(s->n - image, (int64_t)IMAGES_AT_ONCE),
                                     .list_step = s->oc * pixels,
                                     .count_step = s->oc,
                                     .x_step = s->h * s->w * s->c,
                                     .rows = s->kh,
                                     .row_step = s->w * s->c,
                                     .vectors = j->vectors};
            float *sums = j->sums + oc * s->kh * j->vectors * kernels->gemm_lanes();
            kernels->sparse_sums(&l, sums, image > 0);
        }
}

// One image: dX.
static void data_piece(void *ctx, int image)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    struct pooled_image p = image_of(j, image);
    struct sparse_weights w = {.w = j->turned,
                               .kernel_rows = s->kh,
                               .len = j->row_len,
                               .stride = s->w * s->c,
                               .n_window = (int)(j->p->kh * j->p->kw)};
    size_t lists = (size_t)(p.pixels * w.n_window), entries = lists * (size_t)p.c + 1;
    struct sparse_grad *list = scratch(SCRATCH_B, entries * sizeof *list + lists * sizeof(int32_t));
    if (!list) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *dx = j->g->dx + (int64_t)image * s->h * s->w * s->c;
    memset(dx, 0, (size_t)(s->h * s->w * s->c) * sizeof *dx);
    kernels->sparse_scatter(&p, &w, list, (int32_t *)(list + entries), dx);
}

// (OC, C, KH, KW) -> (KH, OC, KW, C)
static void turn_weights(const struct conv *s, const float *w, float *out)
{
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t oc = 0; oc < s->oc; oc++)
            for (int64_t kx = 0; kx < s->kw; kx++)
                for (int64_t c = 0; c < s->c; c++)
                    *out++ = w[((oc * s->c + c) * s->kh + ky) * s->kw + kx];
}

static void store_weights(const struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    int64_t taps = s->kh * s->kw, padded = (int64_t)j->vectors * kernels->gemm_lanes();
    for (int64_t oc = 0; oc < s->oc; oc++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t ky = tap / s->kw, at = tap % s->kw * s->c + c;
                float v = j->sums[(oc * s->kh + ky) * padded + at];
                float *to = &j->g->dw[(oc * s->c + c) * taps + tap];
                *to = j->g->accumulate_w ? *to + v : v;
            }
}

static void store_bias(const struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    for (int64_t oc = 0; oc < s->oc; oc++) {
        j->g->db[oc] = 0;
        for (int64_t image = 0; image < s->n; image++)
            j->g->db[oc] += j->total[image * s->oc + oc];
    }
}

// Where the windows start in an image, and where their pixels are from there.
static void plan_offsets(const struct backward_job *j)
{
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    for (int64_t i = 0; i < p->h * p->w; i++)
        j->origin[i] = (int32_t)((i / p->w * p->kh * s->w + i % p->w * p->kw) * s->c);
    for (int64_t k = 0; k < p->kh * p->kw; k++)
        j->in_window[k] = (int32_t)((k / p->kw * s->w + k % p->kw) * s->c);
}

static int weights_backward(struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    size_t channels = (size_t)(s->n * s->oc), pixels = (size_t)(j->p->h * j->p->w);
    j->list = scratch(SCRATCH_B, channels * ((pixels + 1) * sizeof *j->list + 8));
    j->sums = scratch(SCRATCH_A, (size_t)(s->oc * s->kh * j->vectors * kernels->gemm_lanes()) * 4);
    if (!j->list || !j->sums) return DET_ENOMEM;
    j->count = (int32_t *)(j->list + channels * pixels + 1); // a list may write one entry too many
    j->total = (float *)(j->count + channels);
    pool_run((int)s->n, list_piece, j);
    if (j->g->db) store_bias(j);
    if (!j->g->dw) return 0;
    pool_run((int)((s->oc + CHANNELS_PER_PIECE - 1) / CHANNELS_PER_PIECE), weights_piece, j);
    store_weights(j);
    return 0;
}

int pooled_backward(const struct pooled *p, const struct pooled_grads *grads)
{
    const struct conv *s = &p->conv;
    int lanes = kernels->gemm_lanes(), rc = 0;
    struct backward_job j = {.p = p, .g = grads, .row_len = s->kw * s->c, .rc = &rc};
    j.vectors = (int)((j.row_len + lanes - 1) / lanes);
    int64_t pixels = p->h * p->w;
    j.origin = scratch(SCRATCH_C, (size_t)(pixels + MAX_WINDOW) * sizeof *j.origin);
    if (!j.origin) return DET_ENOMEM;
    j.in_window = j.origin + pixels;
    plan_offsets(&j);
    if (grads->dw || grads->db)
        rc = pooled_dense_is_faster(p) ? pooled_dense_weights(p, grads) : weights_backward(&j);
    if (!rc && grads->dx) {
        float *turned = scratch(SCRATCH_A, (size_t)(s->oc * s->kh * j.row_len) * sizeof(float));
        if (!turned) return DET_ENOMEM;
        turn_weights(s, grads->w, turned);
        j.turned = turned;
        pool_run((int)s->n, data_piece, &j);
    }
    return rc;
}
