// Unit conv_pooled_picked.c: the gradient of the weights of a pooled convolution with few taps.
//
// A result depends on one pixel of its window, the winner, so under a tap it saw one of as many
// inputs as a window has pixels. Those are laid side by side, and each lane (an output channel)
// picks its own: one shuffle and one multiply-add for a tap, where lists have an entry for each
// gradient and a dense product multiplies all pixels of the window.
#include "tensor/conv.h"

#include "base/assert.h"
#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"
#include <string.h>

enum {
    LIST_COST = 16,       // of an entry, in vector operations
    IMAGES_PER_PIECE = 4, // what is summed on its own, for any number of threads
};

bool pooled_picked_is_faster(const struct pooled *p)
{
    const struct conv *s = &p->conv;
    int64_t lanes = kernels->gemm_lanes(), row = s->kw * s->c;
    int64_t by_lists = lanes * (s->kh * divide_up(row, lanes) / 2 + LIST_COST);
    return p->kh * p->kw <= PICK_WINDOW && row && s->kh * row < by_lists;
}

struct job {
    const struct pooled *p;
    const struct pooled_grads *g;
    int64_t h, w; // places where a window could be
    int64_t n_taps;
    int32_t *origin, *tap; // see struct pooled_pick
    float *sums;           // [piece][tap][output channel]
    float *total;          // [piece][output channel]
    int *rc;
};

// What windows at all places of an image see: [channel][y][x][PICK_WINDOW].
static void lay_out_windows(const struct job *j, const float *x, float *out)
{
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    struct window_row row = {.n = j->w, .step = s->c, .to = out};
    for (int64_t k = 0; k < p->kh * p->kw; k++)
        row.offset[k] = (k / p->kw * s->w + k % p->kw) * s->c;
    for (int64_t c = 0; c < s->c; c++)
        for (int64_t y = 0; y < j->h; y++, row.to += j->w * PICK_WINDOW) {
            row.from = x + y * s->w * s->c + c;
            kernels->window_row(&row);
        }
}

static void plan_offsets(const struct job *j)
{
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    for (int64_t i = 0; i < p->h * p->w; i++)
        j->origin[i] = (int32_t)((i / p->w * p->kh * j->w + i % p->w * p->kw) * PICK_WINDOW);
    for (int64_t t = 0; t < j->n_taps; t++) {
        int64_t c = t % s->c, kx = t / s->c % s->kw, ky = t / s->c / s->kw;
        j->tap[t] = (int32_t)(((c * j->h + ky) * j->w + kx) * PICK_WINDOW);
    }
}

static void add_image(const struct job *j, int64_t image, float *windows, float *sums, float *total)
{
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    int64_t pixels = p->h * p->w, at = image * pixels * s->oc;
    lay_out_windows(j, j->g->x + image * s->h * s->w * s->c, windows);
    kernels->pooled_pick(&(struct pooled_pick){.g = j->g->g + at,
                                               .y = p->relu ? j->g->y + at : NULL,
                                               .winner = j->g->winner + at,
                                               .pixels = pixels,
                                               .c = s->oc,
                                               .windows = windows,
                                               .origin = j->origin,
                                               .tap = j->tap,
                                               .n_taps = (int)j->n_taps,
                                               .sums = sums,
                                               .total = total});
}

static void piece_of_images(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct conv *s = &j->p->conv;
    float *windows = scratch(SCRATCH_B, (size_t)(s->c * j->h * j->w) * PICK_WINDOW * sizeof(float));
    if (!windows) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *sums = j->sums + piece * j->n_taps * s->oc, *total = j->total + piece * s->oc;
    memset(sums, 0, (size_t)(j->n_taps * s->oc) * sizeof *sums);
    memset(total, 0, (size_t)s->oc * sizeof *total);
    int64_t first = (int64_t)piece * IMAGES_PER_PIECE;
    for (int64_t image = first; image < MIN(first + IMAGES_PER_PIECE, s->n); image++)
        add_image(j, image, windows, sums, total);
}

int pooled_picked_weights(const struct pooled *p, const struct pooled_grads *grads)
{
    const struct conv *s = &p->conv;
    int rc = 0;
    struct job j = {.p = p, .g = grads, .rc = &rc};
    int64_t n_pieces = MAX(divide_up(s->n, IMAGES_PER_PIECE), (int64_t)1);
    int64_t pixels = p->h * p->w;
    j.h = s->h - p->kh + 1;
    j.w = s->w - p->kw + 1;
    j.n_taps = s->kh * s->kw * s->c;
    j.origin = scratch(SCRATCH_C, (size_t)(pixels + j.n_taps) * sizeof *j.origin);
    j.sums = scratch(SCRATCH_A, (size_t)(n_pieces * (j.n_taps + 1) * s->oc) * sizeof *j.sums);
    if (!j.origin || !j.sums) return DET_ENOMEM;
    j.tap = j.origin + pixels;
    j.total = j.sums + n_pieces * j.n_taps * s->oc;
    plan_offsets(&j);
    pool_run((int)n_pieces, piece_of_images, &j);
    if (rc) return rc;
    add_parts(j.total, s->oc, n_pieces, s->oc);
    if (grads->db) memcpy(grads->db, j.total, (size_t)s->oc * sizeof *grads->db);
    if (!grads->dw) return 0;
    add_parts(j.sums, j.n_taps * s->oc, n_pieces, j.n_taps * s->oc);
    direct_store_weights(s, j.sums, grads->dw, grads->accumulate_w);
    return 0;
}
