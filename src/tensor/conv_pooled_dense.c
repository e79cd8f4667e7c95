// Unit conv_pooled_dense.c: the gradient of the weights of a pooled convolution with small kernels.
//
// The gradients are put back to where they belong in the convolution's result, a few rows at a
// time, zeros around them, and multiplied as if there had been no pooling: more arithmetic than
// with lists, but all of it in vectors.
#include "tensor/conv.h"

#include "base/assert.h"
#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"
#include <string.h>

enum {
    LIST_COST = 16,        // of an entry, in vector operations
    IMAGES_PER_PIECE = 4,  // what is summed on its own, for any number of threads
    ROWS_BYTES = 32 << 10, // that stay in the cache
};

bool pooled_dense_is_faster(const struct pooled *p)
{
    const struct conv *s = &p->conv;
    int64_t lanes = kernels->gemm_lanes(), row = s->kw * s->c;
    int64_t dense = p->kh * p->kw * ((s->oc + lanes - 1) / lanes) * s->kh * row;
    int64_t by_lists = s->oc * (s->kh * ((row + lanes - 1) / lanes) + LIST_COST);
    return dense < by_lists;
}

struct dense_job {
    const struct pooled *p;
    const struct pooled_grads *g;
    int64_t rows_at_once; // of results
    int64_t n_weights;
    float *sums;  // [piece][kernel row][(kernel column, channel)][output channel]
    float *total; // [piece][output channel]
    int *rc;
};

// Adds one block of spread gradients times the pixels below it.
static void multiply_block(const struct dense_job *j, const float *x, const float *spread,
                           int n_rows, float *sums)
{
    const struct conv *s = &j->p->conv;
    int64_t seg[DIRECT_MAX_SEGMENTS], width = kernels->gemm_width();
    for (int i = 0; i < n_rows; i++)
        seg[i] = i * s->w * s->c;
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t oc = 0; oc < s->oc; oc += width)
            kernels->gemm_panel(&(struct gemm_panel){.m = s->kw * s->c,
                                                     .k = j->p->w * j->p->kw,
                                                     .n_seg = n_rows,
                                                     .seg = seg,
                                                     .a = x + ky * s->w * s->c,
                                                     .a_stride = s->c,
                                                     .a_columns = true,
                                                     .b = spread + oc,
                                                     .b_stride = s->oc,
                                                     .width = (int)MIN(s->oc - oc, width),
                                                     .c = sums + ky * s->kw * s->c * s->oc + oc,
                                                     .ldc = s->oc,
                                                     .accumulate = true});
}

static void add_image(const struct dense_job *j, int64_t image, float *spread, float *sums,
                      float *total)
{
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    int64_t row_step = p->w * p->kw * s->oc;
    for (int64_t y = 0; y < p->h; y += j->rows_at_once) {
        int64_t n = MIN(j->rows_at_once, p->h - y);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = ((image * p->h) + y + i) * p->w * s->oc;
            kernels->pooled_spread(&(struct pooled_spread){.g = j->g->g + at,
                                                           .y = p->relu ? j->g->y + at : NULL,
                                                           .winner = j->g->winner + at,
                                                           .n = p->w,
                                                           .c = s->oc,
                                                           .kh = p->kh,
                                                           .kw = p->kw,
                                                           .out = spread + i * p->kh * row_step,
                                                           .row_step = row_step,
                                                           .total = total});
        }
        const float *x = j->g->x + (image * s->h + y * p->kh) * s->w * s->c;
        if (j->g->dw) multiply_block(j, x, spread, (int)(n * p->kh), sums);
    }
}

static void dense_piece(void *ctx, int piece)
{
    const struct dense_job *j = ctx;
    const struct conv *s = &j->p->conv;
    size_t floats = (size_t)(j->rows_at_once * j->p->kh * j->p->w * j->p->kw * s->oc);
    floats += (size_t)kernels->gemm_width(); // panels are read in whole vectors
    float *spread = scratch(SCRATCH_B, floats * sizeof *spread);
    if (!spread) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *sums = j->sums + piece * j->n_weights, *total = j->total + piece * s->oc;
    memset(sums, 0, (size_t)j->n_weights * sizeof *sums);
    memset(total, 0, (size_t)s->oc * sizeof *total);
    int64_t first = (int64_t)piece * IMAGES_PER_PIECE;
    for (int64_t image = first; image < MIN(first + IMAGES_PER_PIECE, s->n); image++)
        add_image(j, image, spread, sums, total);
}

// parts[0] += the others, in order.
static void add_up(float *parts, int64_t n_parts, int64_t n)
{
    for (int64_t part = 1; part < n_parts; part++)
        for (int64_t i = 0; i < n; i++)
            parts[i] += parts[part * n + i];
}

int pooled_dense_weights(const struct pooled *p, const struct pooled_grads *grads)
{
    const struct conv *s = &p->conv;
    int rc = 0;
    struct dense_job j = {.p = p, .g = grads, .rc = &rc};
    int64_t row_bytes = p->kh * p->w * p->kw * s->oc * (int64_t)sizeof(float);
    int64_t n_pieces = (s->n + IMAGES_PER_PIECE - 1) / IMAGES_PER_PIECE;
    j.rows_at_once = MAX((int64_t)1, MIN(ROWS_BYTES / row_bytes, DIRECT_MAX_SEGMENTS / p->kh));
    j.n_weights = s->kh * s->kw * s->c * s->oc;
    j.sums = scratch(SCRATCH_A, (size_t)(n_pieces * (j.n_weights + s->oc)) * sizeof *j.sums);
    if (!j.sums) return DET_ENOMEM;
    j.total = j.sums + n_pieces * j.n_weights;
    pool_run((int)n_pieces, dense_piece, &j);
    if (rc) return rc;
    add_up(j.total, n_pieces, s->oc);
    if (grads->db) memcpy(grads->db, j.total, (size_t)s->oc * sizeof *grads->db);
    if (!grads->dw) return 0;
    add_up(j.sums, n_pieces, j.n_weights);
    direct_store_weights(s, j.sums, grads->dw, grads->accumulate_w);
    return 0;
}
