// Unit conv_pooled.c: convolution + max pooling (+ relu) as one operation.
//
// Forward keeps only the pooled result and, per element, which pixel of its window won. Backward
// turns the gradients that are not zero into lists of (value, position): behind a 2 x 2 window at
// most a quarter of the dense work is left.
#include "tensor/conv.h"

#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"
#include "tensor/share.h"

enum {
    MAX_WINDOW = 16,
    CACHED_FLOATS = 8 << 10,  // of inputs that are used again and again
    PARTS_FLOATS = 512 << 10, // of the sums of all parts
    MAX_PARTS = 8,            // however many threads there are
};

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

// Windows of 2 x 2 never leave the registers.
static void pairs_piece(void *ctx, int image)
{
    const struct forward_job *j = ctx;
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    const int64_t width = kernels->gemm_width(), lanes = kernels->gemm_lanes(), line = s->w * s->c;
    for (int64_t oc = 0; oc < s->oc; oc += width)
        for (int64_t y = 0; y < p->h; y++) {
            const int64_t n = MIN(s->oc - oc, width);
            const int64_t at = ((int64_t)image * p->h + y) * p->w * s->oc + oc;
            kernels->conv_pool_row(
                &(struct conv_pool_row){.image = j->x + (image * s->h + 2 * y) * line,
                                        .line = line,
                                        .c = s->c,
                                        .n_seg = j->plan.n_seg,
                                        .seg = j->plan.seg,
                                        .k = j->plan.k,
                                        .b = j->plan.packed + oc * j->plan.k_total,
                                        .b_stride = round_up(n, lanes),
                                        .width = (int)n,
                                        .n = p->w,
                                        .bias = j->bias ? j->bias + oc : NULL,
                                        .relu = p->relu,
                                        .out = j->y + at,
                                        .winner = j->winner + at,
                                        .ld = s->oc});
        }
}

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
    pool_run((int)p->conv.n, p->kh == 2 && p->kw == 2 ? pairs_piece : forward_piece, &j);
    return rc;
}

// --- backward

struct backward_job {
    const struct pooled *p;
    const struct pooled_grads *g;
    int32_t *origin, *in_window; // see struct pooled_image
    float *turned; // weights as [kernel row][output channel][(kernel column, channel), step floats]
    int64_t step;
    int *rc;
    int64_t lanes, n_blocks; // blocks of that many input channels
    int64_t images_at_once;
    int64_t n_parts; // of the images; each has its own sums
    float *sums;     // [part][block][output channel][tap][lanes]
    float *total;    // [part][output channel]
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

static int64_t block_floats(const struct backward_job *j)
{
    return j->p->conv.h * j->p->conv.w * j->lanes;
}

static int64_t part_floats(const struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    return j->n_blocks * s->oc * s->kh * s->kw * j->lanes;
}

// A few images at a time, so that all of this stays in the cache.
struct some_images {
    int64_t n;
    float *x;                 // [image][block][pixel][lanes]
    struct sparse_grad *list; // [image][output channel][pixel]
    int32_t *count;           // [image][output channel]
};

static bool some_images_init(const struct backward_job *j, struct some_images *some)
{
    const struct conv *s = &j->p->conv;
    size_t lists = (size_t)(j->images_at_once * s->oc), pixels = (size_t)(j->p->h * j->p->w);
    size_t floats = (size_t)(j->images_at_once * j->n_blocks * block_floats(j));
    size_t entries = lists * pixels + 1; // a list may write one entry too many
    some->x = scratch(SCRATCH_B, floats * sizeof *some->x + entries * sizeof *some->list +
                                     lists * sizeof *some->count);
    if (!some->x) return false;
    some->list = (struct sparse_grad *)(some->x + floats);
    some->count = (int32_t *)(some->list + entries);
    return true;
}

// Blocks of channels make every vector whole and aligned: one that crosses a line of the cache
// takes two accesses.
static void block_channels(const struct backward_job *j, int64_t image, float *to)
{
    const struct conv *s = &j->p->conv;
    const float *from = j->g->x + image * s->h * s->w * s->c;
    for (int64_t c = 0; c < s->c; c += j->lanes, to += block_floats(j))
        kernels->gemm_pack(from + c, false, s->c, 1, s->h * s->w, (int)MIN(s->c - c, j->lanes), to);
}

static void some_images_load(const struct backward_job *j, struct some_images *some, int64_t first,
                             float *total)
{
    for (int64_t i = 0; i < some->n; i++) {
        struct pooled_image p = image_of(j, first + i);
        block_channels(j, first + i, some->x + i * j->n_blocks * block_floats(j));
        kernels->sparse_by_channel(&p, some->list + i * p.c * p.pixels, some->count + i * p.c,
                                   total);
    }
}

static void some_images_add(const struct backward_job *j, const struct some_images *some,
                            float *sums)
{
    const struct conv *s = &j->p->conv;
    int64_t pixels = j->p->h * j->p->w, taps = s->kh * s->kw;
    for (int64_t block = 0; block < j->n_blocks; block++)
        for (int64_t oc = 0; oc < s->oc; oc++, sums += taps * j->lanes)
            kernels->sparse_sums(&(struct sparse_lists){.list = some->list + oc * pixels,
                                                        .count = some->count + oc,
                                                        .x = some->x + block * block_floats(j),
                                                        .n_images = some->n,
                                                        .list_step = s->oc * pixels,
                                                        .count_step = s->oc,
                                                        .x_step = j->n_blocks * block_floats(j),
                                                        .rows = s->kh,
                                                        .row_step = s->w * j->lanes,
                                                        .taps = s->kw},
                                 sums);
}

// Some of the images: their part of dW and db.
static void weights_part(void *ctx, int part)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    struct some_images some;
    if (!some_images_init(j, &some)) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *sums = j->sums + part * part_floats(j), *total = j->total + part * s->oc;
    memset(sums, 0, (size_t)part_floats(j) * sizeof *sums);
    memset(total, 0, (size_t)s->oc * sizeof *total);
    int64_t image = s->n * part / j->n_parts, end = s->n * (part + 1) / j->n_parts;
    for (; image < end; image += some.n) {
        some.n = MIN(end - image, j->images_at_once);
        some_images_load(j, &some, image, total);
        if (j->g->dw) some_images_add(j, &some, sums);
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
                               .len = s->kw * s->c,
                               .step = j->step,
                               .stride = s->w * s->c,
                               .n_window = (int)(j->p->kh * j->p->kw)};
    size_t lists = (size_t)(p.pixels * w.n_window), entries = lists * (size_t)(p.c + LIST_SLACK);
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
static void turn_weights(void *ctx, int64_t from, int64_t to)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    for (int64_t oc = from; oc < to; oc++)
        for (int64_t c = 0; c < s->c; c++) {
            const float *w = j->g->w + (oc * s->c + c) * s->kh * s->kw;
            for (int64_t ky = 0; ky < s->kh; ky++) {
                float *out = j->turned + (ky * s->oc + oc) * j->step + c;
                for (int64_t kx = 0; kx < s->kw; kx++)
                    out[kx * s->c] = *w++;
            }
        }
}

static void store_weights(void *ctx, int64_t from, int64_t to)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    int64_t taps = s->kh * s->kw, n = taps * j->lanes;
    for (int64_t oc = from; oc < to; oc++) {
        for (int64_t block = 0; block < j->n_blocks; block++)
            add_parts(j->sums + (block * s->oc + oc) * n, part_floats(j), j->n_parts, n);
        for (int64_t c = 0; c < s->c; c++) {
            float *dw = j->g->dw + (oc * s->c + c) * taps;
            const float *sums =
                j->sums + (c / j->lanes * s->oc + oc) * taps * j->lanes + c % j->lanes;
            for (int64_t tap = 0; tap < taps; tap++)
                dw[tap] = (j->g->accumulate_w ? dw[tap] : 0) + sums[tap * j->lanes];
        }
    }
}

static void store_bias(const struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    for (int64_t oc = 0; oc < s->oc; oc++) {
        j->g->db[oc] = 0;
        for (int64_t part = 0; part < j->n_parts; part++)
            j->g->db[oc] += j->total[part * s->oc + oc];
    }
}

// Where the windows start in an image of c channels, and where their pixels are from there.
static void plan_offsets(const struct backward_job *j, int64_t c)
{
    const struct pooled *p = j->p;
    int64_t w = p->conv.w;
    for (int64_t i = 0; i < p->h * p->w; i++)
        j->origin[i] = (int32_t)((i / p->w * p->kh * w + i % p->w * p->kw) * c);
    for (int64_t k = 0; k < p->kh * p->kw; k++)
        j->in_window[k] = (int32_t)((k / p->kw * w + k % p->kw) * c);
}

static int weights_backward(struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    j->lanes = kernels->gemm_lanes();
    j->n_blocks = (s->c + j->lanes - 1) / j->lanes;
    j->images_at_once = MAX(CACHED_FLOATS / block_floats(j), (int64_t)1);
    j->n_parts = MIN(PARTS_FLOATS / MAX(part_floats(j), (int64_t)1), MIN(s->n, (int64_t)MAX_PARTS));
    j->n_parts = MAX(j->n_parts, (int64_t)1);
    size_t floats = (size_t)(j->n_parts * (part_floats(j) + s->oc));
    j->sums = scratch(SCRATCH_A, floats * sizeof(float));
    if (!j->sums) return DET_ENOMEM;
    j->total = j->sums + j->n_parts * part_floats(j);
    plan_offsets(j, j->lanes);
    pool_run((int)j->n_parts, weights_part, j);
    if (*j->rc) return *j->rc;
    if (j->g->db) store_bias(j);
    int64_t row_work = j->n_blocks * s->kh * s->kw * j->lanes * j->n_parts;
    if (j->g->dw) share_rows(s->oc, row_work, store_weights, j);
    return 0;
}

static int data_backward(struct backward_job *j)
{
    const struct conv *s = &j->p->conv;
    int64_t lanes = kernels->gemm_lanes();
    j->step = round_up(s->kw * s->c, lanes);
    j->turned = scratch(SCRATCH_A, (size_t)(s->oc * s->kh * j->step) * sizeof(float));
    if (!j->turned) return DET_ENOMEM;
    plan_offsets(j, s->c);
    share_rows(s->oc, s->c * s->kh * s->kw, turn_weights, j);
    pool_run((int)s->n, data_piece, j);
    return *j->rc;
}

int pooled_backward(const struct pooled *p, const struct pooled_grads *grads)
{
    int rc = 0;
    struct backward_job j = {.p = p, .g = grads, .rc = &rc};
    int64_t pixels = p->h * p->w;
    bool weights = grads->dw || grads->db, picked = weights && pooled_picked_is_faster(p);
    if (picked) rc = pooled_picked_weights(p, grads);
    j.origin = scratch(SCRATCH_C, (size_t)(pixels + MAX_WINDOW) * sizeof *j.origin);
    if (!j.origin) return DET_ENOMEM;
    j.in_window = j.origin + pixels;
    if (!rc && weights && !picked) rc = weights_backward(&j);
    if (!rc && grads->dx) rc = data_backward(&j);
    return rc;
}
