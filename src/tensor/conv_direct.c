// Unit conv_direct.c: convolution as a sum of matrix products over kernel rows, without building a
// matrix of patches: in (H, W, C) order the pixels under one kernel row are consecutive, so each
// kernel row is one segment of a gemm panel (kernels/gemm.h).
#include "tensor/conv.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"
#include "tensor/kernels/kernels.h"
#include "tensor/node.h"

enum {
    ROWS_PER_PIECE = 8,
    K_BLOCK = 128, // products that are one sum: more of them would lose digits
};

static bool fused_rows(const struct conv *s) // pixels under a kernel row are consecutive
{
    return s->dw == 1 && s->groups == 1;
}

int64_t panel_count(int64_t columns)
{
    return divide_up(columns, kernels->gemm_width());
}

int panel_columns(int64_t columns, int64_t panel)
{
    int width = kernels->gemm_width();
    return (int)MIN(columns - panel * width, (int64_t)width);
}

static int padded(int columns)
{
    return (int)round_up(columns, kernels->gemm_lanes());
}

static void run(int64_t n, pool_fn fn, void *ctx, double work)
{
    if (work > 1e5)
        pool_run((int)n, fn, ctx);
    else
        for (int64_t i = 0; i < n; i++)
            fn(ctx, (int)i);
}

static double work_of(const struct conv *s)
{
    int64_t per_output = s->kh * s->kw * s->c / s->groups; // groups divide channels
    return (double)s->n * (double)(s->oh * s->ow * s->oc) * (double)per_output;
}

// One image's rows [first, first + n_rows) of the padded image, padding as zeros: n_rows x (w + 2
// pw) x c floats.
static void pad_rows(const struct conv *s, const float *image, int64_t first, int64_t n_rows,
                     float *out)
{
    const int64_t row = s->w * s->c, side = s->pw * s->c, padded_row = row + 2 * side;
    for (int64_t r = 0; r < n_rows; r++, out += padded_row) {
        int64_t y = first + r - s->ph;
        if (y < 0 || y >= s->h) {
            memset(out, 0, (size_t)padded_row * sizeof *out);
            continue;
        }
        memset(out, 0, (size_t)side * sizeof *out);
        memcpy(out + side, image + y * row, (size_t)row * sizeof *out);
        memset(out + side + row, 0, (size_t)side * sizeof *out);
    }
}

// --- forward

struct forward_job {
    struct direct_plan plan;
    const float *x, *bias;
    float *y;
    int64_t row_blocks; // of an image
    int *rc;
};

// Weights of panel p of a group as [kernel row][kernel column][channel][output channel].
static void pack_forward(void *ctx, int piece)
{
    const struct direct_plan *d = ctx;
    const struct conv *s = d->s;
    int64_t panels = panel_count(d->group_oc), group = piece / panels, panel = piece % panels;
    int width = panel_columns(d->group_oc, panel), wide = padded(width);
    int64_t c = s->c / s->groups, taps = s->kh * s->kw;
    int64_t first = group * d->group_oc + panel * kernels->gemm_width();
    float *out = d->packed + (group * panels + panel) * kernels->gemm_width() * d->k_total;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t ch = 0; ch < c; ch++, out += wide)
            for (int o = 0; o < wide; o++)
                out[o] = o < width ? d->w[((first + o) * c + ch) * taps + tap] : 0;
}

// Segments of the padded image: whole kernel rows, or single kernel positions.
static void plan_segments(struct direct_plan *d)
{
    const struct conv *s = d->s;
    int64_t row = (s->w + 2 * s->pw) * s->c;
    d->n_seg = 0;
    d->k = fused_rows(s) ? s->kw * s->c : s->c / s->groups;
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < (fused_rows(s) ? 1 : s->kw); kx++)
            d->seg[d->n_seg++] = ky * s->dh * row + kx * s->dw * s->c;
}

int direct_plan(struct direct_plan *d, const struct conv *s, const float *w)
{
    *d = (struct direct_plan){.s = s, .w = w};
    d->k_total = s->kh * s->kw * (s->c / s->groups);
    d->group_oc = s->oc / s->groups;
    if (s->kh * s->kw > DIRECT_MAX_SEGMENTS) return DET_ELIMIT;
    plan_segments(d);
    int64_t panels = s->groups * panel_count(d->group_oc);
    size_t floats = (size_t)(panels * kernels->gemm_width() * d->k_total);
    d->packed = scratch(SCRATCH_A, floats * sizeof(float));
    if (!d->packed) return DET_ENOMEM;
    run(panels, pack_forward, d, (double)floats);
    return 0;
}

static void group_rows(const struct direct_plan *d, const float *rows, float *y, int64_t n_rows,
                       int64_t group)
{
    const struct conv *s = d->s;
    int64_t row = (s->w + 2 * s->pw) * s->c, panels = panel_count(d->group_oc);
    for (int64_t panel = 0; panel < panels; panel++) {
        int width = panel_columns(d->group_oc, panel);
        int64_t first = group * d->group_oc + panel * kernels->gemm_width();
        struct gemm_panel p = {
            .m = s->ow,
            .k = d->k,
            .n_seg = d->n_seg,
            .seg = d->seg,
            .a_stride = s->sw * s->c,
            .b = d->packed + (group * panels + panel) * kernels->gemm_width() * d->k_total,
            .b_stride = padded(width),
            .width = width,
            .ldc = s->oc,
            .k_block = K_BLOCK,
        };
        for (int64_t r = 0; r < n_rows; r++) {
            p.a = rows + r * s->sh * row + group * (s->c / s->groups);
            p.c = y + r * s->ow * s->oc + first;
            kernels->gemm_panel(&p);
        }
    }
}

void direct_rows(const struct direct_plan *d, const float *rows, float *y, int64_t n_rows)
{
    for (int64_t group = 0; group < d->s->groups; group++)
        group_rows(d, rows, y, n_rows, group);
}

const float *direct_input_rows(const struct conv *s, const float *image, int64_t oy, int64_t n_rows)
{
    if (!s->ph && !s->pw) return image + oy * s->sh * s->w * s->c;
    int64_t in_rows = (n_rows - 1) * s->sh + (s->kh - 1) * s->dh + 1;
    float *to = scratch(SCRATCH_B, (size_t)(in_rows * (s->w + 2 * s->pw) * s->c) * sizeof(float));
    if (to) pad_rows(s, image, oy * s->sh, in_rows, to);
    return to;
}

static void forward_piece(void *ctx, int piece)
{
    const struct forward_job *j = ctx;
    const struct conv *s = j->plan.s;
    int64_t image = piece / j->row_blocks, oy = piece % j->row_blocks * ROWS_PER_PIECE;
    int64_t n_rows = MIN(s->oh - oy, (int64_t)ROWS_PER_PIECE);
    const float *rows = direct_input_rows(s, j->x + image * s->h * s->w * s->c, oy, n_rows);
    if (!rows) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    float *y = j->y + (image * s->oh + oy) * s->ow * s->oc;
    direct_rows(&j->plan, rows, y, n_rows);
    for (int64_t o = 0; j->bias && o < s->oc; o += GEMM_MAX_WIDTH)
        kernels->gemm_finish(
            &(struct gemm_finish){.m = n_rows * s->ow,
                                  .width = (int)MIN(s->oc - o, (int64_t)GEMM_MAX_WIDTH),
                                  .c = y + o,
                                  .ldc = s->oc,
                                  .bias = j->bias + o,
                                  .out = y + o,
                                  .ld_out = s->oc});
}

int direct_forward(const struct conv *s, const float *x, const float *w, const float *bias,
                   float *y)
{
    int rc = 0;
    struct forward_job j = {.x = x, .bias = bias, .y = y, .rc = &rc};
    int planned = direct_plan(&j.plan, s, w);
    if (planned) return planned;
    j.row_blocks = (s->oh + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE;
    run(s->n * j.row_blocks, forward_piece, &j, work_of(s));
    return rc;
}

// --- gradient of the input: every kernel position adds its product to the pixels it was read from

struct data_job {
    const struct conv *s;
    const float *g, *w;
    float *dx, *packed;
    int64_t group_c, group_oc;
};

// Weights as [group][kernel position][panel of input channels][output channel][input channel].
static float *data_panel(const struct data_job *j, int64_t group, int64_t tap, int64_t panel)
{
    int64_t panels = panel_count(j->group_c), taps = j->s->kh * j->s->kw;
    return j->packed +
           ((group * taps + tap) * panels + panel) * kernels->gemm_width() * j->group_oc;
}

static void pack_data(void *ctx, int piece)
{
    const struct data_job *j = ctx;
    int64_t taps = j->s->kh * j->s->kw, group = piece / taps, tap = piece % taps;
    const float *w = j->w + group * j->group_oc * j->group_c * taps + tap;
    for (int64_t panel = 0; panel < panel_count(j->group_c); panel++)
        kernels->gemm_pack(w + panel * kernels->gemm_width() * taps, false, j->group_c * taps, taps,
                           j->group_oc, panel_columns(j->group_c, panel),
                           data_panel(j, group, tap, panel));
}

// The outputs [from, to) whose kernel column kx falls inside the image.
static void inside(int64_t size, int64_t out, int64_t stride, int64_t offset, int64_t *from,
                   int64_t *to)
{
    *from = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    *to = size - offset <= 0 ? 0 : MIN(out, divide_up(size - offset, stride));
}

static void data_row(const struct data_job *j, const float *g, float *dx_row, int64_t ky,
                     int64_t group)
{
    const struct conv *s = j->s;
    for (int64_t kx = 0; kx < s->kw; kx++) {
        int64_t from, to, offset = kx * s->dw - s->pw;
        inside(s->w, s->ow, s->sw, offset, &from, &to);
        if (from >= to) continue;
        for (int64_t panel = 0; panel < panel_count(j->group_c); panel++) {
            int width = panel_columns(j->group_c, panel);
            int64_t ch = group * j->group_c + panel * kernels->gemm_width();
            kernels->gemm_panel(&(struct gemm_panel){
                .m = to - from,
                .k = j->group_oc,
                .n_seg = 1,
                .a = g + from * s->oc + group * j->group_oc,
                .a_stride = s->oc,
                .b = data_panel(j, group, ky * s->kw + kx, panel),
                .b_stride = padded(width),
                .width = width,
                .c = dx_row + (from * s->sw + offset) * s->c + ch,
                .ldc = s->sw * s->c,
                .accumulate = true,
                .k_block = K_BLOCK,
            });
        }
    }
}

static void data_piece(void *ctx, int image)
{
    const struct data_job *j = ctx;
    const struct conv *s = j->s;
    float *dx = j->dx + (int64_t)image * s->h * s->w * s->c;
    memset(dx, 0, (size_t)(s->h * s->w * s->c) * sizeof *dx);
    for (int64_t oy = 0; oy < s->oh; oy++)
        for (int64_t ky = 0; ky < s->kh; ky++) {
            int64_t y = oy * s->sh + ky * s->dh - s->ph;
            if (y < 0 || y >= s->h) continue;
            const float *g = j->g + ((int64_t)image * s->oh + oy) * s->ow * s->oc;
            for (int64_t group = 0; group < s->groups; group++)
                data_row(j, g, dx + y * s->w * s->c, ky, group);
        }
}

int direct_data(const struct conv *s, const float *g, const float *w, float *dx)
{
    struct data_job j = {.s = s, .g = g, .w = w, .dx = dx};
    j.group_c = s->c / s->groups;
    j.group_oc = s->oc / s->groups;
    int64_t taps = s->groups * s->kh * s->kw, panels = panel_count(j.group_c);
    size_t floats = (size_t)(taps * panels * kernels->gemm_width() * j.group_oc);
    j.packed = scratch(SCRATCH_A, floats * sizeof(float));
    if (!j.packed) return DET_ENOMEM;
    run(taps, pack_data, &j, (double)floats);
    run(s->n, data_piece, &j, work_of(s));
    return 0;
}

// --- gradient of the weights: pixels under a kernel row times the output's gradient, summed image
// by image

enum {
    CHANNEL_BLOCK = 64,
    PARTS_FLOATS = 256 << 10, // of the sums of all parts
    MAX_PARTS = 16,           // however many threads there are
};

// Few weights: parts of the images have sums of their own, so that the gradient of an image is used
// for all weights while it is in the cache. Many: the weights are shared out.
struct weights_job {
    const struct conv *s;
    const float *x, *g; // x padded
    float *sums; // [part][group][kernel row][(kernel column, channel)][output channel of the group]
    int64_t n_sums, n_parts;
    int64_t rows;                // (kernel column, channel) pairs of a kernel row
    int64_t row_blocks, n_units; // a unit is a block of rows of a kernel row of a group
    int64_t group_c, group_oc;
    int64_t padded_h, padded_w;
};

static void weights_panel(const struct weights_job *j, const float *image, const float *g,
                          struct gemm_panel p, int64_t ky)
{
    const struct conv *s = j->s;
    int64_t seg[64];
    p.seg = seg;
    p.a = image;
    for (int64_t oy = 0; oy < s->oh; oy += p.n_seg) {
        p.n_seg = (int)MIN(s->oh - oy, (int64_t)STATIC_LEN(seg));
        for (int i = 0; i < p.n_seg; i++)
            seg[i] = ((oy + i) * s->sh + ky * s->dh) * j->padded_w * s->c;
        p.b = g + oy * s->ow * s->oc;
        kernels->gemm_panel(&p);
        p.accumulate = true;
    }
}

// What an image adds to a unit, all panels of output channels.
static void weights_unit(const struct weights_job *j, int64_t unit, int64_t image, bool accumulate,
                         float *sums)
{
    const struct conv *s = j->s;
    int64_t block = unit % j->row_blocks, ky = unit / j->row_blocks % s->kh;
    int64_t group = unit / (j->row_blocks * s->kh);
    // Rows are consecutive in memory only within a kernel row of an ungrouped, undilated kernel.
    int64_t per_column = fused_rows(s) ? j->rows : j->group_c;
    int64_t blocks_per_column = (per_column + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK;
    int64_t column = block / blocks_per_column, at = block % blocks_per_column * CHANNEL_BLOCK;
    int64_t first = column * s->dw * s->c + group * j->group_c + at;
    int64_t row = column * per_column + at, m = MIN(per_column - at, (int64_t)CHANNEL_BLOCK);
    sums += ((group * s->kh + ky) * j->rows + row) * j->group_oc;
    for (int64_t panel = 0; panel < panel_count(j->group_oc); panel++) {
        int64_t oc = panel * kernels->gemm_width();
        struct gemm_panel p = {.m = m,
                               .k = s->ow,
                               .a_stride = s->sw * s->c,
                               .a_columns = true,
                               .b_stride = s->oc,
                               .width = panel_columns(j->group_oc, panel),
                               .c = sums + oc,
                               .ldc = j->group_oc,
                               .accumulate = accumulate,
                               .k_block = K_BLOCK};
        weights_panel(j, j->x + image * j->padded_h * j->padded_w * s->c + first,
                      j->g + image * s->oh * s->ow * s->oc + group * j->group_oc + oc, p, ky);
    }
}

static void weights_of_unit(void *ctx, int unit)
{
    const struct weights_job *j = ctx;
    for (int64_t image = 0; image < j->s->n; image++)
        weights_unit(j, unit, image, image > 0, j->sums);
}

static void weights_of_part(void *ctx, int part)
{
    const struct weights_job *j = ctx;
    int64_t first = j->s->n * part / j->n_parts, end = j->s->n * (part + 1) / j->n_parts;
    for (int64_t image = first; image < end; image++)
        for (int64_t unit = 0; unit < j->n_units; unit++)
            weights_unit(j, unit, image, image > first, j->sums + part * j->n_sums);
}

struct pad_job {
    const struct conv *s;
    const float *x;
    float *out;
    int64_t padded_h, padded_w;
};

static void pad_piece(void *ctx, int image)
{
    const struct pad_job *j = ctx;
    const struct conv *s = j->s;
    pad_rows(s, j->x + (int64_t)image * s->h * s->w * s->c, 0, j->padded_h,
             j->out + (int64_t)image * j->padded_h * j->padded_w * s->c);
}

void add_parts(float *parts, int64_t step, int64_t n_parts, int64_t n)
{
    for (int64_t part = 1; part < n_parts; part++)
        add_floats(parts, parts + part * step, n);
}

// sums -> (OC, C, KH, KW)
void direct_store_weights(const struct conv *s, const float *sums, float *dw, bool accumulate)
{
    int64_t taps = s->kh * s->kw, group_c = s->c / s->groups, group_oc = s->oc / s->groups;
    for (int64_t o = 0; o < s->oc; o++) {
        int64_t group = o / group_oc;
        for (int64_t c = 0; c < group_c; c++)
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t ky = tap / s->kw, row = tap % s->kw * group_c + c;
                int64_t at = (group * s->kh + ky) * s->kw * group_c + row;
                float v = sums[at * group_oc + o % group_oc];
                float *to = &dw[(o * group_c + c) * taps + tap];
                *to = accumulate ? *to + v : v;
            }
    }
}

int direct_weights(const struct conv *s, const float *x, const float *g, float *dw, bool accumulate)
{
    struct weights_job j = {.s = s, .x = x, .g = g};
    j.group_c = s->c / s->groups;
    j.group_oc = s->oc / s->groups;
    j.rows = s->kw * j.group_c;
    int64_t per_column = fused_rows(s) ? j.rows : j.group_c;
    int64_t columns = fused_rows(s) ? 1 : s->kw;
    j.row_blocks = columns * divide_up(per_column, CHANNEL_BLOCK);
    j.padded_h = s->h + 2 * s->ph;
    j.padded_w = s->w + 2 * s->pw;
    j.n_units = s->groups * s->kh * j.row_blocks;
    j.n_sums = MAX(s->oc * s->kh * j.rows, (int64_t)1);
    j.n_parts = MAX(MIN(PARTS_FLOATS / j.n_sums, MIN(s->n, (int64_t)MAX_PARTS)), (int64_t)1);
    j.sums = scratch(SCRATCH_A, (size_t)(j.n_parts * j.n_sums) * sizeof(float));
    if (!j.sums) return DET_ENOMEM;
    if (s->ph || s->pw) {
        struct pad_job p = {.s = s, .x = x, .padded_h = j.padded_h, .padded_w = j.padded_w};
        p.out = scratch(SCRATCH_C, (size_t)(s->n * j.padded_h * j.padded_w * s->c) * sizeof(float));
        if (!p.out) return DET_ENOMEM;
        run(s->n, pad_piece, &p, (double)(s->n * s->h * s->w * s->c));
        j.x = p.out;
    }
    if (j.n_parts > 1)
        run(j.n_parts, weights_of_part, &j, work_of(s));
    else
        run(j.n_units, weights_of_unit, &j, work_of(s));
    add_parts(j.sums, j.n_sums, j.n_parts, j.n_sums);
    direct_store_weights(s, j.sums, dw, accumulate);
    return 0;
}
