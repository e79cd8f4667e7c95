// Unit conv_winograd.c: 3 x 3 convolutions by Winograd's way (kernels/winograd.h): transform tiles,
// multiply point by point (36, 24 or 16 matrix products), transform back.
//
// A block of tiles goes through all three stages before the next one starts, so that the
// transformed tiles stay in the cache. Which tiles form a block changes no result.
//
// Most of what a result loses is what the sums between the transforms round (docs/parity.md). So
// they are taken in blocks of K_BLOCK products, whose sums are summed up in slices of K_SLICE, and
// these slices are summed up. And the shape of the tiles depends on how much the plain sums would
// lose: sums over channels are short, those over tiles for the weights are not unless there are few
// of them. In bf16 neither matters.
#include "tensor/conv.h"

#include "sys/pool.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

enum {
    MIN_CHANNELS = 16,
    MIN_PIXELS = 3,         // of an output side; below, tiles are mostly padding
    BLOCK_POINTS = 48 * 36, // forward: transformed input and output of a block fit the cache
    PART_TILES = 48,        // weights: tiles that a thread transforms before the products
    CHUNK_TILES = 128,      // weights: the same, of all threads together
    FEW_TILES = 128,        // weights: of 4 x 4, below which they are of 4 x 2
    MIN_TILES = 16,         // weights: of 4 x 4, that are worth transforms
    N_PARTS = 8,            // weights: however many threads there are
    PARTS_FLOATS = 2 << 20,
    K_BLOCK = 32,  // products that are one sum
    K_SLICE = 128, // products whose sums are summed
    NARROW = 16,   // gradient of the input: channels up to which tiles are of 2 x 2
};

static const struct wino_shape tile_4x4 = {4, 4}, tile_4x2 = {4, 2}, tile_2x2 = {2, 2};

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
    struct wino_shape shape;
    int points;                       // of a tile
    int64_t across, per_image, total; // tiles
};

static struct tiling tiling_of(const struct conv *s, struct wino_shape shape)
{
    int64_t across = divide_up(s->ow, shape.columns), down = divide_up(s->oh, shape.rows);
    return (struct tiling){shape, wino_points(shape), across, across * down, across * down * s->n};
}

static struct wino_image images_of(const void *data, bool bf16, int64_t h, int64_t w, int64_t c)
{
    return (struct wino_image){(void *)(uintptr_t)data, bf16, h, w, c};
}

static struct wino_tile tile_at(const struct wino_image *images, const struct tiling *tl,
                                int64_t tile)
{
    int64_t at = tile % tl->per_image;
    return (struct wino_tile){.image = wino_image_at(images, tile / tl->per_image),
                              .y = at / tl->across * tl->shape.rows,
                              .x = at % tl->across * tl->shape.columns,
                              .shape = tl->shape};
}

// Tiles [first, first + n), the first of them to `to`, the others behind it.
static void input_tiles(const struct conv *s, const void *x, const struct tiling *tl, int64_t first,
                        int64_t n, float *to, int64_t step)
{
    const struct wino_image images = images_of(x, s->bf16, s->h, s->w, s->c);
    for (int64_t end = first + n, in_row; first < end; first += in_row, to += in_row * s->c) {
        int64_t at = first % tl->per_image;
        in_row = MIN(tl->across - at % tl->across, end - first);
        kernels->wino_input(
            &(struct wino_inputs){.image = wino_image_at(&images, first / tl->per_image),
                                  .y = at / tl->across * tl->shape.rows - s->ph,
                                  .x = at % tl->across * tl->shape.columns - s->pw,
                                  .shape = tl->shape,
                                  .n = in_row,
                                  .next = s->c,
                                  .to = to,
                                  .step = step});
    }
}

// --- forward

struct forward_job {
    const struct conv *s;
    const void *x;
    const float *w, *bias;
    void *y;
    float *kernel; // [point][panel][channel][output channel of the panel]
    bool transposed;
    struct tiling tiles;
    int64_t block; // tiles of a piece
    int64_t k_block;
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
            kernels->wino_kernel(from, j->transposed ? 9 : s->c * 9, j->transposed, j->tiles.shape,
                                 kernel_panel(j, 0, panel) + c * width + o, step);
        }
}

static void multiply_slice(const struct forward_job *j, const float *v, float *m, int64_t n_tiles,
                           int64_t point, int64_t channel)
{
    const struct conv *s = j->s;
    for (int64_t panel = 0; panel < panel_count(s->oc); panel++) {
        int width = panel_columns(s->oc, panel);
        kernels->gemm_panel(&(struct gemm_panel){
            .m = n_tiles,
            .k = MIN(s->c - channel, (int64_t)K_SLICE),
            .n_seg = 1,
            .a = v + point * winograd_point_floats(j->block, s->c) + channel,
            .a_stride = s->c,
            .b = kernel_panel(j, point, panel) + channel * width,
            .b_stride = width,
            .width = width,
            .c = m + point * winograd_point_floats(j->block, s->oc) + panel * kernels->gemm_width(),
            .ldc = s->oc,
            .accumulate = channel > 0,
            .k_block = j->k_block,
        });
    }
}

static void multiply_points(const struct forward_job *j, const float *v, float *m, int64_t n_tiles)
{
    for (int64_t point = 0; point < j->tiles.points; point++)
        for (int64_t channel = 0; channel < j->s->c; channel += K_SLICE)
            multiply_slice(j, v, m, n_tiles, point, channel);
}

static void forward_piece(void *ctx, int piece)
{
    const struct forward_job *j = ctx;
    const struct conv *s = j->s;
    int64_t first = piece * j->block, n_tiles = MIN(j->tiles.total - first, j->block);
    int64_t v_step = winograd_point_floats(j->block, s->c),
            m_step = winograd_point_floats(j->block, s->oc);
    float *v = scratch(SCRATCH_B, (size_t)(j->tiles.points * (v_step + m_step)) * sizeof *v);
    if (!v) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *m = v + j->tiles.points * v_step;
    const struct wino_image images = images_of(j->y, s->bf16, s->oh, s->ow, s->oc);
    input_tiles(s, j->x, &j->tiles, first, n_tiles, v, v_step);
    multiply_points(j, v, m, n_tiles);
    for (int64_t t = 0; t < n_tiles; t++) {
        struct wino_tile out = tile_at(&images, &j->tiles, first + t);
        kernels->wino_output(m + t * s->oc, m_step, j->bias, &out);
    }
}

static struct wino_shape forward_shape(const struct conv *s, bool transposed)
{
    if (s->bf16) return tile_4x4;
    return transposed && s->c <= NARROW ? tile_2x2 : tile_4x2;
}

int winograd_forward(const struct conv *s, const void *x, const float *w, const float *bias,
                     void *y, bool transposed)
{
    int rc = 0;
    struct forward_job j = {
        .s = s, .x = x, .w = w, .bias = bias, .y = y, .transposed = transposed, .rc = &rc};
    j.tiles = tiling_of(s, forward_shape(s, transposed));
    j.kernel = scratch(SCRATCH_A, (size_t)(j.tiles.points * s->oc * s->c) * sizeof(float));
    if (!j.kernel) return DET_ENOMEM;
    int64_t wanted =
        MAX(divide_up(j.tiles.total, BLOCK_POINTS / j.tiles.points), (int64_t)2 * pool_threads());
    j.block = MAX((j.tiles.total + wanted - 1) / wanted, (int64_t)1);
    j.block = (j.block + 7) / 8 * 8;
    j.k_block = s->bf16 ? 0 : MIN(s->c / 2, (int64_t)K_BLOCK);
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
    const void *x, *g;
    float *dw;
    bool accumulate;
    struct tiling tiles;
    int64_t n_parts;
    float *points; // gradient of the transformed kernels: [part][point][c][oc]
    struct chunk shared;
    int *rc;
};

// For `room` tiles, in a thread's scratch memory. NULL in v: there is none.
static struct chunk chunk_new(const struct weights_job *j, int64_t room, enum scratch_slot slot)
{
    int64_t v_floats = j->tiles.points * winograd_point_floats(room, j->s->c);
    int64_t z_floats = j->tiles.points * winograd_point_floats(room, j->s->oc);
    float *v = scratch(slot, (size_t)(v_floats + z_floats) * sizeof *v);
    return (struct chunk){.room = room, .v = v, .z = v ? v + v_floats : NULL};
}

static void transform_tiles(const struct weights_job *j, const struct chunk *c, int64_t from,
                            int64_t to)
{
    const struct conv *s = j->s;
    input_tiles(s, j->x, &j->tiles, c->first + from, to - from, c->v + from * s->c,
                winograd_point_floats(c->room, s->c));
    const struct wino_image images = images_of(j->g, s->bf16, s->oh, s->ow, s->oc);
    for (int64_t t = from; t < to; t++) {
        struct wino_tile g = tile_at(&images, &j->tiles, c->first + t);
        kernels->wino_gradient(&g, c->z + t * s->oc, winograd_point_floats(c->room, s->oc));
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
            .k_block = s->bf16 ? 0 : K_BLOCK,
        });
    }
}

static void weights_of_part(void *ctx, int part)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    struct chunk c = chunk_new(j, PART_TILES, SCRATCH_B);
    if (!c.v) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    int64_t first = j->tiles.total * part / j->n_parts;
    int64_t end = j->tiles.total * (part + 1) / j->n_parts;
    for (c.first = first; c.first < end; c.first += c.n) {
        c.n = MIN(end - c.first, (int64_t)PART_TILES);
        transform_tiles(j, &c, 0, c.n);
        for (int64_t point = 0; point < j->tiles.points; point++)
            multiply_point(s, &c, point, c.first > first,
                           j->points + part * j->tiles.points * s->c * s->oc);
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
    *c = chunk_new(j, CHUNK_TILES, SCRATCH_C);
    if (!c->v) return DET_ENOMEM;
    for (; c->first < j->tiles.total; c->first += CHUNK_TILES) {
        c->n = MIN(j->tiles.total - c->first, (int64_t)CHUNK_TILES);
        pool_run((int)divide_up(c->n, TILES_PER_PIECE), transform_piece, j);
        pool_run(j->tiles.points, product_piece, j);
    }
    return 0;
}

static void store_piece(void *ctx, int c)
{
    const struct weights_job *j = ctx;
    const struct conv *s = j->s;
    for (int64_t point = 0; point < j->tiles.points; point++)
        add_parts(j->points + (point * s->c + c) * s->oc, j->tiles.points * s->c * s->oc,
                  j->n_parts, s->oc);
    for (int64_t o = 0; o < s->oc; o += kernels->gemm_lanes())
        kernels->wino_kernel_grad(j->points + c * s->oc + o, s->c * s->oc, j->tiles.shape,
                                  j->dw + (o * s->c + c) * 9, s->c * 9, j->accumulate);
}

// With hardly any tiles to sum over, the transforms cost more than they save, digits too.
bool winograd_weights_fit(const struct conv *s)
{
    return winograd_fits(s) && tiling_of(s, tile_4x4).total > MIN_TILES;
}

int winograd_weights(const struct conv *s, const void *x, const void *g, float *dw, bool accumulate)
{
    int rc = 0;
    struct weights_job j = {
        .s = s, .x = x, .g = g, .dw = dw, .accumulate = accumulate, .n_parts = 1, .rc = &rc};
    j.tiles = tiling_of(s, tile_4x4);
    if (j.tiles.total < FEW_TILES && !s->bf16) j.tiles = tiling_of(s, tile_4x2);
    int64_t floats = j.tiles.points * s->c * s->oc;
    if (N_PARTS * floats <= PARTS_FLOATS && j.tiles.total >= N_PARTS * PART_TILES)
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
