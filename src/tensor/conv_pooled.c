// Unit conv_pooled.c: convolution + max pooling (+ relu) as one operation.
//
// Forward keeps only the pooled result and, per element, which pixel of its window won. Backward turns the
// gradients that are not zero into lists of (value, position): behind a 2 x 2 window at most a quarter of
// the dense work is left.
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
           s->kh * s->kw <= DIRECT_MAX_SEGMENTS && s->h * s->w * s->c < INT32_MAX / IMAGES_AT_ONCE &&
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

int pooled_forward(const struct pooled *p, const float *x, const float *w, const float *bias, float *y,
                   uint8_t *winner)
{
    int rc = 0;
    struct forward_job j = {.p = p, .x = x, .bias = bias, .y = y, .winner = winner, .rc = &rc};
    int planned = direct_plan(&j.plan, &p->conv, w);
    if (planned) return planned;
    pool_run((int)p->conv.n, forward_piece, &j);
    return rc;
}

// --- backward

struct backward_job {
    const struct pooled *p;
    const struct pooled_grads *g;
    const float *turned; // weights as [output channel][kernel row][kernel column][channel]
    int64_t row_len;     // kw * c
    int vectors;         // of a kernel row
    float *sums;         // [output channel][kernel row][vectors * lanes]
    int *rc;
};

// Gradients of one output channel in images [first, first + n) that are not zero. Offsets count from the
// first image. Returns how many; *total is their sum.
static int64_t list_grads(const struct backward_job *j, int64_t first, int64_t n, int64_t oc,
                          struct sparse_grad *list, float *total)
{
    const struct pooled *p = j->p;
    const struct conv *s = &p->conv;
    int64_t count = 0, pixels = p->h * p->w;
    float sum = 0;
    for (int64_t image = 0; image < n; image++) {
        int64_t at = (first + image) * pixels * s->oc + oc;
        for (int64_t y = 0; y < p->h; y++)
            for (int64_t x = 0; x < p->w; x++, at += s->oc) {
                int64_t k = j->g->winner[at], row = y * p->kh + k / p->kw, col = x * p->kw + k % p->kw;
                float v = !p->relu || j->g->y[at] > 0 ? j->g->g[at] : 0;
                list[count].value = v;
                list[count].offset = (int32_t)(((image * s->h + row) * s->w + col) * s->c);
                count += v != 0;
                sum += v;
            }
    }
    *total += sum;
    return count;
}

static struct sparse_grad *list_memory(const struct backward_job *j)
{
    size_t n = (size_t)(IMAGES_AT_ONCE * j->p->h * j->p->w + 1);
    struct sparse_grad *list = scratch(SCRATCH_B, n * sizeof *list);
    if (!list) __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
    return list;
}

// A few output channels, all images: dW and db.
static void weights_piece(void *ctx, int piece)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    int lanes = kernels->gemm_lanes();
    int64_t n_vectors = s->kh * j->vectors, first_oc = (int64_t)piece * CHANNELS_PER_PIECE;
    int64_t end = MIN(first_oc + CHANNELS_PER_PIECE, s->oc);
    struct sparse_grad *list = list_memory(j);
    if (!list) return;
    float total[CHANNELS_PER_PIECE] = {0};
    for (int64_t image = 0; image < s->n; image += IMAGES_AT_ONCE) {
        int64_t n = MIN(s->n - image, (int64_t)IMAGES_AT_ONCE);
        const float *x = j->g->x + image * s->h * s->w * s->c;
        for (int64_t oc = first_oc; oc < end; oc++) {
            int64_t count = list_grads(j, image, n, oc, list, &total[oc - first_oc]);
            float *sums = j->sums + oc * n_vectors * lanes;
            for (int64_t v = 0; v < n_vectors; v += SPARSE_MAX_VECTORS) {
                int64_t at[SPARSE_MAX_VECTORS];
                int k = (int)MIN(n_vectors - v, (int64_t)SPARSE_MAX_VECTORS);
                for (int i = 0; i < k; i++)
                    at[i] = (v + i) / j->vectors * s->w * s->c + (v + i) % j->vectors * lanes;
                kernels->sparse_sums(list, count, x, at, k, sums + v * lanes, image > 0);
            }
        }
    }
    for (int64_t oc = first_oc; j->g->db && oc < end; oc++)
        j->g->db[oc] = total[oc - first_oc];
}

// One image: dX.
static void data_piece(void *ctx, int image)
{
    const struct backward_job *j = ctx;
    const struct conv *s = &j->p->conv;
    struct sparse_grad *list = list_memory(j);
    if (!list) return;
    float *dx = j->g->dx + (int64_t)image * s->h * s->w * s->c, unused = 0;
    memset(dx, 0, (size_t)(s->h * s->w * s->c) * sizeof *dx);
    for (int64_t oc = 0; oc < s->oc; oc++) {
        int64_t count = list_grads(j, image, 1, oc, list, &unused);
        kernels->sparse_scatter(list, count, j->turned + oc * s->kh * j->row_len, s->kh, j->row_len,
                                s->w * s->c, dx);
    }
}

// (OC, C, KH, KW) -> (OC, KH, KW, C)
static void turn_weights(const struct conv *s, const float *w, float *out)
{
    int64_t taps = s->kh * s->kw;
    for (int64_t oc = 0; oc < s->oc; oc++)
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t c = 0; c < s->c; c++)
                *out++ = w[(oc * s->c + c) * taps + tap];
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

int pooled_backward(const struct pooled *p, const struct pooled_grads *grads)
{
    const struct conv *s = &p->conv;
    int rc = 0, lanes = kernels->gemm_lanes();
    struct backward_job j = {.p = p, .g = grads, .row_len = s->kw * s->c, .rc = &rc};
    j.vectors = (int)((j.row_len + lanes - 1) / lanes);
    if (grads->dw) {
        j.sums = scratch(SCRATCH_A, (size_t)(s->oc * s->kh * j.vectors * lanes) * sizeof(float));
        if (!j.sums) return DET_ENOMEM;
        pool_run((int)((s->oc + CHANNELS_PER_PIECE - 1) / CHANNELS_PER_PIECE), weights_piece, &j);
        store_weights(&j);
    }
    if (grads->dx) {
        float *turned = scratch(SCRATCH_A, (size_t)(s->oc * s->kh * j.row_len) * sizeof(float));
        if (!turned) return DET_ENOMEM;
        turn_weights(s, grads->w, turned);
        j.turned = turned;
        pool_run((int)s->n, data_piece, &j);
    }
    return rc;
}
