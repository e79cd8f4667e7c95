// Unit conv_winograd.c: 3 x 3 convolutions through Winograd's F(4 x 4, 3 x 3): transform tiles,
// multiply point by point (36 matrix products), transform back.
//
// A block of tiles goes through all three stages before the next one starts, so that the
// transformed tiles stay in the cache. Which tiles form a block changes no result.
#include "tensor/conv.h"

#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

enum {
    MIN_CHANNELS = 16,
    MIN_PIXELS = 3,    // of an output side; below, tiles are mostly padding
    BLOCK_TILES = 96,  // forward: transformed input and output of a block fit the cache
    CHUNK_TILES = 128, // weights: tiles transformed before the products
};

bool winograd_fits(const struct conv *s)
{
    int lanes = kernels->gemm_lanes();
    return s->kh == 3 && s->kw == 3 && s->sh == 1 && s->sw == 1 && s->dh == 1 && s->dw == 1 &&
           s->groups == 1 && s->c >= MIN_CHANNELS && s->oc >= MIN_CHANNELS && s->c % lanes == 0 &&
           s->oc % lanes == 0 && s->oh >= MIN_PIXELS && s->ow >= MIN_PIXELS;
}

struct tiling {
    int64_t across, per_image, total; // tiles
};

static struct tiling tiling_of(const struct conv *s)
{
    int64_t across = (s->ow + WINO_OUT - 1) / WINO_OUT, down = (s->oh + WINO_OUT - 1) / WINO_OUT;
    return (struct tiling){across, across * down, across * down * s->n};
}

static int64_t panel_count(int64_t columns)
{
    int width = kernels->gemm_width();
    return (columns + width - 1) / width;
}

static int panel_columns(int64_t columns, int64_t panel)
{
    int width = kernels->gemm_width();
    return (int)MIN(columns - panel * width, (int64_t)width);
}

static void input_tile(const struct conv *s, const float *x, const struct tiling *tl, int64_t tile,
                       float *to, int64_t step)
{
    int64_t image = tile / tl->per_image, at = tile % tl->per_image;
    kernels->wino_input(&(struct wino_tile){.image = x + image * s->h * s->w * s->c,
                                            .h = s->h,
                                            .w = s->w,
                                            .c = s->c,
                                            .y = at / tl->across * WINO_OUT - s->ph,
                                            .x = at % tl->across * WINO_OUT - s->pw,
                                            .to = to,
                                            .step = step});
}

// --- forward

struct forward_job {
    const struct conv *s;
    const float *x, *w, *bias;
    float *y;
    float *kernel; // [point][panel][channel][output channel of the panel]
    bool transposed;
    struct tiling tiles;
    int64_t block; // tiles of a piece
    int *rc;
};

static float *kernel_panel(const struct forward_job *j, int64_t point, int64_t panel)
{
    return j->kernel + (point * j->s->oc + panel * kernels->gemm_width()) * j->s->c;
}

// All kernels of one panel of output channels.
static void kernel_piece(void *ctx, int panel)
{
    const struct forward_job *j = ctx;
    const struct conv *s = j->s;
    int width = panel_columns(s->oc, panel), lanes = kernels->gemm_lanes();
    int64_t first = (int64_t)panel * kernels->gemm_width(), step = s->oc * s->c;
    for (int64_t c = 0; c < s->c; c++)
        for (int o = 0; o < width; o += lanes) {
            // (OC, C, 3, 3); transposed: the output channels of this pass are the inputs of the
            // layer
            const float *from = j->transposed ? j->w + (c * s->oc + first + o) * 9
                                              : j->w + ((first + o) * s->c + c) * 9;
            kernels->wino_kernel(from, j->transposed ? 9 : s->c * 9, j->transposed,
                                 kernel_panel(j, 0, panel) + c * width + o, step);
        }
}

static void multiply_points(const struct forward_job *j, const float *v, float *m, int64_t n_tiles)
{
    const struct conv *s = j->s;
    for (int64_t point = 0; point < WINO_POINTS; point++)
        for (int64_t panel = 0; panel < panel_count(s->oc); panel++) {
            int width = panel_columns(s->oc, panel);
            kernels->gemm_panel(&(struct gemm_panel){
                .m = n_tiles,
                .k = s->c,
                .n_seg = 1,
                .a = v + point * j->block * s->c,
                .a_stride = s->c,
                .b = kernel_panel(j, point, panel),
                .b_stride = width,
                .width = width,
                .c = m + point * j->block * s->oc + panel * kernels->gemm_width(),
                .ldc = s->oc,
            });
        }
}

static void forward_piece(void *ctx, int piece)
{
    const struct forward_job *j = ctx;
    const struct conv *s = j->s;
    int64_t first = piece * j->block, n_tiles = MIN(j->tiles.total - first, j->block);
    float *v = scratch(SCRATCH_B, (size_t)(WINO_POINTS * j->block * (s->c + s->oc)) * sizeof *v);
    if (!v) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *m = v + WINO_POINTS * j->block * s->c;
    for (int64_t t = 0; t < n_tiles; t++)
        input_tile(s, j->x, &j->tiles, first + t, v + t * s->c, j->block * s->c);
    multiply_points(j, v, m, n_tiles);
    for (int64_t t = 0; t < n_tiles; t++) {
        int64_t image = (first + t) / j->tiles.per_image, at = (first + t) % j->tiles.per_image;
        struct wino_tile out = {.h = s->oh,
                                .w = s->ow,
                                .c = s->oc,
                                .y = at / j->tiles.across * WINO_OUT,
                                .x = at % j->tiles.across * WINO_OUT,
                                .to = j->y + image * s->oh * s->ow * s->oc};
        kernels->wino_output(m + t * s->oc, j->block * s->oc, j->bias, &out);
    }
}

int winograd_forward(const struct conv *s, const float *x, const float *w, const float *bias,
                     float *y, bool transposed)
{
    int rc = 0;
    struct forward_job j = {
        .s = s, .x = x, .w = w, .bias = bias, .y = y, .transposed = transposed, .rc = &rc};
    j.tiles = tiling_of(s);
    j.kernel = scratch(SCRATCH_A, (size_t)(WINO_POINTS * s->oc * s->c) * sizeof(float));
    if (!j.kernel) return DET_ENOMEM;
    int64_t wanted =
        MAX((j.tiles.total + BLOCK_TILES - 1) / BLOCK_TILES, (int64_t)2 * pool_threads());
    j.block = MAX((j.tiles.total + wanted - 1) / wanted, (int64_t)1);
    j.block = (j.block + 7) / 8 * 8;
    pool_run((int)panel_count(s->oc), kernel_piece, &j);
    pool_run((int)((j.tiles.total + j.block - 1) / j.block), forward_piece, &j);
    return rc;
}

// --- gradient of the weights

struct weights_job {
    const struct conv *s;
    const float *x, *g;
    float *dw;
    bool accumulate;
    float *v, *z;  // transformed inputs and output gradients of a chunk: [point][tile][channel]
    float *points; // gradient of the transformed kernels: [point][c][oc]
    struct tiling tiles;
    int64_t first, n_tiles; // of the chunk
};

enum { TILES_PER_PIECE = 16 };

static void transform_piece(void *ctx, int piece)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    int64_t end = MIN(((int64_t)piece + 1) * TILES_PER_PIECE, j->n_tiles);
    for (int64_t t = (int64_t)piece * TILES_PER_PIECE; t < end; t++) {
        int64_t tile = j->first + t, image = tile / j->tiles.per_image,
                at = tile % j->tiles.per_image;
        input_tile(s, j->x, &j->tiles, tile, j->v + t * s->c, CHUNK_TILES * s->c);
        kernels->wino_gradient(&(struct wino_tile){.image = j->g + image * s->oh * s->ow * s->oc,
                                                   .h = s->oh,
                                                   .w = s->ow,
                                                   .c = s->oc,
                                                   .y = at / j->tiles.across * WINO_OUT,
                                                   .x = at % j->tiles.across * WINO_OUT,
                                                   .to = j->z + t * s->oc,
                                                   .step = CHUNK_TILES * s->oc});
    }
}

static void product_piece(void *ctx, int point)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    for (int64_t panel = 0; panel < panel_count(s->oc); panel++) {
        int64_t oc = panel * kernels->gemm_width();
        kernels->gemm_panel(&(struct gemm_panel){
            .m = s->c,
            .k = j->n_tiles,
            .n_seg = 1,
            .a = j->v + (int64_t)point * CHUNK_TILES * s->c,
            .a_stride = s->c,
            .a_columns = true,
            .b = j->z + (int64_t)point * CHUNK_TILES * s->oc + oc,
            .b_stride = s->oc,
            .width = panel_columns(s->oc, panel),
            .c = j->points + (int64_t)point * s->c * s->oc + oc,
            .ldc = s->oc,
            .accumulate = j->first > 0,
        });
    }
}

static void store_piece(void *ctx, int c)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    for (int64_t o = 0; o < s->oc; o += kernels->gemm_lanes())
        kernels->wino_kernel_grad(j->points + c * s->oc + o, s->c * s->oc,
                                  j->dw + (o * s->c + c) * 9, s->c * 9, j->accumulate);
}

int winograd_weights(const struct conv *s, const float *x, const float *g, float *dw,
                     bool accumulate)
{
    struct weights_job j = {.s = s, .x = x, .g = g, .dw = dw, .accumulate = accumulate};
    j.tiles = tiling_of(s);
    j.v = scratch(SCRATCH_C, (size_t)(WINO_POINTS * CHUNK_TILES * (s->c + s->oc)) * sizeof(float));
    j.points = scratch(SCRATCH_A, (size_t)(WINO_POINTS * s->c * s->oc) * sizeof(float));
    if (!j.v || !j.points) return DET_ENOMEM;
    j.z = j.v + WINO_POINTS * CHUNK_TILES * s->c;
    for (j.first = 0; j.first < j.tiles.total; j.first += CHUNK_TILES) {
        j.n_tiles = MIN(j.tiles.total - j.first, (int64_t)CHUNK_TILES);
        pool_run((int)((j.n_tiles + TILES_PER_PIECE - 1) / TILES_PER_PIECE), transform_piece, &j);
        pool_run(WINO_POINTS, product_piece, &j);
    }
    pool_run((int)s->c, store_piece, &j);
    return 0;
}
