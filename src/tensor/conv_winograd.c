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
    BLOCK_TILES = 48,  // forward: transformed input and output of a block fit the cache
    CHUNK_TILES = 128, // weights: tiles transformed before the products
    N_PARTS = 8,       // weights: however many threads there are
    PARTS_FLOATS = 2 << 20,
};

bool winograd_fits(const struct conv *s)
{
    int lanes = kernels->gemm_lanes();
    return s->kh == 3 && s->kw == 3 && s->sh == 1 && s->sw == 1 && s->dh == 1 && s->dw == 1 &&
           s->groups == 1 && s->c >= MIN_CHANNELS && s->oc >= MIN_CHANNELS && s->c % lanes == 0 &&
           s->oc % lanes == 0 && s->oh >= MIN_PIXELS && s->ow >= MIN_PIXELS;
}

// Transformed tiles [first, first + n): inputs and gradients, [point][tile][channel], for at most
// `room` tiles.
struct chunk {
    int64_t room, first, n;
    float *v, *z;
};

struct tiling {
    int64_t across, per_image, total; // tiles
};

static struct tiling tiling_of(const struct conv *s)
{
    int64_t across = divide_up(s->ow, WINO_OUT), down = divide_up(s->oh, WINO_OUT);
    return (struct tiling){across, across * down, across * down * s->n};
}

// Tiles [first, first + n), the first of them to `to`, the others behind it.
static void input_tiles(const struct conv *s, const float *x, const struct tiling *tl,
                        int64_t first, int64_t n, float *to, int64_t step)
{
    for (int64_t end = first + n, in_row; first < end; first += in_row, to += in_row * s->c) {
        int64_t image = first / tl->per_image, at = first % tl->per_image;
        in_row = MIN(tl->across - at % tl->across, end - first);
        kernels->wino_input(&(struct wino_tiles){.first = {.image = x + image * s->h * s->w * s->c,
                                                           .h = s->h,
                                                           .w = s->w,
                                                           .c = s->c,
                                                           .y = at / tl->across * WINO_OUT - s->ph,
                                                           .x = at % tl->across * WINO_OUT - s->pw,
                                                           .to = to,
                                                           .step = step},
                                                 .n = in_row,
                                                 .advance = WINO_OUT,
                                                 .next = s->c});
    }
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
                .a = v + point * winograd_point_floats(j->block, s->c),
                .a_stride = s->c,
                .b = kernel_panel(j, point, panel),
                .b_stride = width,
                .width = width,
                .c = m + point * winograd_point_floats(j->block, s->oc) +
                     panel * kernels->gemm_width(),
                .ldc = s->oc,
            });
        }
}

static void forward_piece(void *ctx, int piece)
{
    const struct forward_job *j = ctx;
    const struct conv *s = j->s;
    int64_t first = piece * j->block, n_tiles = MIN(j->tiles.total - first, j->block);
    int64_t v_step = winograd_point_floats(j->block, s->c),
            m_step = winograd_point_floats(j->block, s->oc);
    float *v = scratch(SCRATCH_B, (size_t)(WINO_POINTS * (v_step + m_step)) * sizeof *v);
    if (!v) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *m = v + WINO_POINTS * v_step;
    input_tiles(s, j->x, &j->tiles, first, n_tiles, v, v_step);
    multiply_points(j, v, m, n_tiles);
    for (int64_t t = 0; t < n_tiles; t++) {
        int64_t image = (first + t) / j->tiles.per_image, at = (first + t) % j->tiles.per_image;
        struct wino_tile out = {.h = s->oh,
                                .w = s->ow,
                                .c = s->oc,
                                .y = at / j->tiles.across * WINO_OUT,
                                .x = at % j->tiles.across * WINO_OUT,
                                .to = j->y + image * s->oh * s->ow * s->oc};
        kernels->wino_output(m + t * s->oc, m_step, j->bias, &out);
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
    int64_t wanted = MAX(divide_up(j.tiles.total, BLOCK_TILES), (int64_t)2 * pool_threads());
    j.block = MAX((j.tiles.total + wanted - 1) / wanted, (int64_t)1);
    j.block = (j.block + 7) / 8 * 8;
    pool_run((int)panel_count(s->oc), kernel_piece, &j);
    pool_run((int)divide_up(j.tiles.total, j.block), forward_piece, &j);
    return rc;
}

// --- gradient of the weights

// Few channels: parts of the tiles have sums of their own, transformed and multiplied by one thread
// without leaving its cache. Many: all threads transform a chunk of tiles, then share out the
// points.
struct weights_job {
    const struct conv *s;
    const float *x, *g;
    float *dw;
    bool accumulate;
    struct tiling tiles;
    int64_t n_parts;
    float *points; // gradient of the transformed kernels: [part][point][c][oc]
    struct chunk shared;
    int *rc;
};

static struct chunk chunk_over(const struct conv *s, int64_t room, float *memory)
{
    return (struct chunk){
        .room = room, .v = memory, .z = memory + WINO_POINTS * winograd_point_floats(room, s->c)};
}

static size_t chunk_bytes(const struct conv *s, int64_t room)
{
    int64_t step = winograd_point_floats(room, s->c) + winograd_point_floats(room, s->oc);
    return (size_t)(WINO_POINTS * step) * sizeof(float);
}

static void transform_tiles(const struct weights_job *j, const struct chunk *c, int64_t from,
                            int64_t to)
{
    const struct conv *s = j->s;
    input_tiles(s, j->x, &j->tiles, c->first + from, to - from, c->v + from * s->c,
                winograd_point_floats(c->room, s->c));
    for (int64_t t = from; t < to; t++) {
        int64_t tile = c->first + t, image = tile / j->tiles.per_image,
                at = tile % j->tiles.per_image;
        kernels->wino_gradient(&(struct wino_tile){.image = j->g + image * s->oh * s->ow * s->oc,
                                                   .h = s->oh,
                                                   .w = s->ow,
                                                   .c = s->oc,
                                                   .y = at / j->tiles.across * WINO_OUT,
                                                   .x = at % j->tiles.across * WINO_OUT,
                                                   .to = c->z + t * s->oc,
                                                   .step = winograd_point_floats(c->room, s->oc)});
    }
}

static void multiply_point(const struct conv *s, const struct chunk *c, int64_t point,
                           bool accumulate, float *points)
{
    for (int64_t panel = 0; panel < panel_count(s->oc); panel++) {
        int64_t oc = panel * kernels->gemm_width();
        kernels->gemm_panel(&(struct gemm_panel){
            .m = s->c,
            .k = c->n,
            .n_seg = 1,
            .a = c->v + point * winograd_point_floats(c->room, s->c),
            .a_stride = s->c,
            .a_columns = true,
            .b = c->z + point * winograd_point_floats(c->room, s->oc) + oc,
            .b_stride = s->oc,
            .width = panel_columns(s->oc, panel),
            .c = points + point * s->c * s->oc + oc,
            .ldc = s->oc,
            .accumulate = accumulate,
        });
    }
}

static void weights_of_part(void *ctx, int part)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    float *memory = scratch(SCRATCH_B, chunk_bytes(s, BLOCK_TILES));
    if (!memory) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    struct chunk c = chunk_over(s, BLOCK_TILES, memory);
    int64_t first = j->tiles.total * part / j->n_parts;
    int64_t end = j->tiles.total * (part + 1) / j->n_parts;
    for (c.first = first; c.first < end; c.first += c.n) {
        c.n = MIN(end - c.first, (int64_t)BLOCK_TILES);
        transform_tiles(j, &c, 0, c.n);
        for (int64_t point = 0; point < WINO_POINTS; point++)
            multiply_point(s, &c, point, c.first > first,
                           j->points + part * WINO_POINTS * s->c * s->oc);
    }
}

enum { TILES_PER_PIECE = 16 };

static void transform_piece(void *ctx, int piece)
{
    const struct weights_job *j = ctx;
    int64_t from = (int64_t)piece * TILES_PER_PIECE;
    transform_tiles(j, &j->shared, from, MIN(from + TILES_PER_PIECE, j->shared.n));
}

static void product_piece(void *ctx, int point)
{
    const struct weights_job *j = ctx;
    multiply_point(j->s, &j->shared, point, j->shared.first > 0, j->points);
}

static int weights_together(struct weights_job *j)
{
    struct chunk *c = &j->shared;
    float *memory = scratch(SCRATCH_C, chunk_bytes(j->s, CHUNK_TILES));
    if (!memory) return DET_ENOMEM;
    *c = chunk_over(j->s, CHUNK_TILES, memory);
    for (; c->first < j->tiles.total; c->first += CHUNK_TILES) {
        c->n = MIN(j->tiles.total - c->first, (int64_t)CHUNK_TILES);
        pool_run((int)divide_up(c->n, TILES_PER_PIECE), transform_piece, j);
        pool_run(WINO_POINTS, product_piece, j);
    }
    return 0;
}

static void store_piece(void *ctx, int c)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    for (int64_t point = 0; point < WINO_POINTS; point++)
        add_parts(j->points + (point * s->c + c) * s->oc, WINO_POINTS * s->c * s->oc, j->n_parts,
                  s->oc);
    for (int64_t o = 0; o < s->oc; o += kernels->gemm_lanes())
        kernels->wino_kernel_grad(j->points + c * s->oc + o, s->c * s->oc,
                                  j->dw + (o * s->c + c) * 9, s->c * 9, j->accumulate);
}

int winograd_weights(const struct conv *s, const float *x, const float *g, float *dw,
                     bool accumulate)
{
    int rc = 0;
    struct weights_job j = {
        .s = s, .x = x, .g = g, .dw = dw, .accumulate = accumulate, .n_parts = 1, .rc = &rc};
    int64_t floats = WINO_POINTS * s->c * s->oc;
    j.tiles = tiling_of(s);
    if (N_PARTS * floats <= PARTS_FLOATS && j.tiles.total >= N_PARTS * BLOCK_TILES)
        j.n_parts = N_PARTS;
    j.points = scratch(SCRATCH_A, (size_t)(j.n_parts * floats) * sizeof(float));
    if (!j.points) return DET_ENOMEM;
    if (j.n_parts > 1)
        pool_run((int)j.n_parts, weights_of_part, &j);
    else
        rc = weights_together(&j);
    if (!rc) pool_run((int)s->c, store_piece, &j);
    return rc;
}
