// Unit channel_norm.c: normalisation per channel (batch_norm, group_norm), channels fastest in
// memory. The sums over rows are kept in memory, one per channel: they stay in the first-level
// cache, while the rows stream by. They are f32 for a few rows and f64 beyond: long sums in f32
// would lose more digits than all the rest.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/simd.h"

enum { FEW_ROWS = 32 };

INLINE void clear(float *few, int64_t c)
{
    memset(few, 0, (size_t)c * sizeof *few);
}

INLINE void add_few(double *sum, const float *few, int64_t c)
{
    VECTOR_LOOP
    for (int64_t j = 0; j < c; j++)
        sum[j] += (double)few[j];
}

// --- statistics

// Sums over the rows of the distances from `centre`, or of their squares.
INLINE void distances(const void *x, const bool bf16, int64_t rows, int64_t c, const float *centre,
                      const bool squared, float *few, double *sum)
{
    memset(sum, 0, (size_t)c * sizeof *sum);
    for (int64_t first = 0; first < rows; first += FEW_ROWS) {
        const int64_t end = rows - first < FEW_ROWS ? rows : first + FEW_ROWS;
        clear(few, c);
        for (int64_t r = first; r < end; r++) {
            VECTOR_LOOP
            for (int64_t j = 0; j < c; j++) {
                const float d = load_as(x, bf16, r * c + j) - centre[j];
                few[j] += squared ? d * d : d;
            }
        }
        add_few(sum, few, c);
    }
}

// Distances are taken from the first row, then from the mean: what all rows have in common costs no
// digits.
INLINE void stats_as(const void *x, const bool bf16, int64_t rows, int64_t c, float *work,
                     double *mean, double *m2)
{
    float *centre = work, *few = work + c;
    for (int64_t j = 0; j < c; j++) {
        const float first = load_as(x, bf16, j);
        centre[j] = first - first == 0 ? first : 0; // infinity would make NaN of all distances
    }
    distances(x, bf16, rows, c, centre, false, few, mean);
    for (int64_t j = 0; j < c; j++) {
        mean[j] = (double)centre[j] + mean[j] / (double)rows;
        centre[j] = (float)mean[j];
    }
    distances(x, bf16, rows, c, centre, true, few, m2);
    for (int64_t j = 0; j < c; j++) { // they were from the mean as rounded
        const double off = (double)centre[j] - mean[j], square = m2[j] - (double)rows * off * off;
        m2[j] = square < 0 ? 0 : square;
    }
}

// Mean of each channel and sum of squared distances from it. Meant for blocks that fit the cache:
// it reads them twice. work: 2 c floats.
void KERNEL(channel_stats)(const void *x, bool bf16, int64_t rows, int64_t c, float *work,
                           double *mean, double *m2)
{
    if (bf16)
        stats_as(x, true, rows, c, work, mean, m2);
    else
        stats_as(x, false, rows, c, work, mean, m2);
}

// --- forward

INLINE void forward_as(const struct channel_norm *from, const bool bf16, const bool relu,
                       const bool add)
{
    const struct channel_norm k = *from; // a copy: no store below can seem to change it
    const int64_t c = k.c;
    for (int64_t r = 0; r < k.rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            const int64_t i = r * c + j;
            float v = (load_as(k.x, bf16, i) - k.mean[j]) * k.scale[j] + k.bias[j];
            if (add) v += load_as(k.skip, bf16, i);
            if (relu) v = v > 0 || v != v ? v : 0;
            store_as(k.y, bf16, i, v);
        }
    }
}

// --- backward

// Gradient before the relu. Without skip the sign is found again from x, so y need not be read.
INLINE float grad_at(const struct channel_norm *k, const bool bf16, const bool relu, const bool add,
                     int64_t i, int64_t j)
{
    float g = load_as(k->g, bf16, i);
    if (!relu) return g;
    float y = add ? load_as(k->y, bf16, i)
                  : (load_as(k->x, bf16, i) - k->mean[j]) * k->scale[j] + k->bias[j];
    return y <= 0 ? 0 : g;
}

// Over rows [first, end).
INLINE void few_sums(const struct channel_norm *k, const bool bf16, const bool relu, const bool add,
                     int64_t first, int64_t end, float *few_g, float *few_gx)
{
    const int64_t c = k->c;
    for (int64_t r = first; r < end; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            const int64_t i = r * c + j;
            float g = grad_at(k, bf16, relu, add, i, j);
            if (add) store_as(k->g_skip, bf16, i, g);
            few_g[j] += g;
            few_gx[j] += g * (load_as(k->x, bf16, i) - k->mean[j]);
        }
    }
}

INLINE void sums_as(const struct channel_norm *from, const bool bf16, const bool relu,
                    const bool add, const struct channel_sums *to)
{
    const struct channel_norm k = *from;
    float *few_g = to->work, *few_gx = to->work + k.c;
    for (int64_t first = 0; first < k.rows; first += FEW_ROWS) {
        clear(to->work, 2 * k.c);
        few_sums(&k, bf16, relu, add, first, k.rows - first < FEW_ROWS ? k.rows : first + FEW_ROWS,
                 few_g, few_gx);
        add_few(to->g, few_g, k.c);
        add_few(to->gx, few_gx, k.c);
    }
}

INLINE void backward_as(const struct channel_norm *from, const bool bf16, const bool relu)
{
    const struct channel_norm k = *from;
    const int64_t c = k.c;
    for (int64_t r = 0; r < k.rows; r++) {
        VECTOR_LOOP
        for (int64_t j = 0; j < c; j++) {
            const int64_t i = r * c + j;
            float g = grad_at(&k, bf16, relu, false, i, j), d = load_as(k.x, bf16, i) - k.mean[j];
            float of_x = k.slope[j] != 0 ? k.slope[j] * d : 0; // 0 even if x is infinite or NaN
            store_as(k.gx, bf16, i, g * k.scale[j] + k.shift[j] + of_x);
        }
    }
}

// --- pooled

// The four pixels of a window of 2 x 2, LANES or fewer channels of them, from the first one on.
INLINE void load_window(const struct channel_norm *k, const bool bf16, int64_t at, const int width,
                        vf *v)
{
    const int64_t line = k->pooled_line * k->c;
    v[0] = vf_load_some(k->x, bf16, at, width);
    v[1] = vf_load_some(k->x, bf16, at + k->c, width);
    v[2] = vf_load_some(k->x, bf16, at + line, width);
    v[3] = vf_load_some(k->x, bf16, at + line + k->c, width);
}

// What the channels from j on need of a window: its place in x and in what is pooled.
struct norm_window {
    int64_t in, out, j;
};

INLINE void forward_window(const struct channel_norm *k, const bool bf16,
                           const struct norm_window at, const int width)
{
    vf v[4];
    load_window(k, bf16, at.in, width, v);
    const vf mean = vf_load_n(k->mean + at.j, width), scale = vf_load_n(k->scale + at.j, width);
    const vf bias = vf_load_n(k->bias + at.j, width);
    vf best = (v[0] - mean) * scale + bias;
    vi winner = {0};
    UNROLL(3)
    for (int i = 1; i < 4; i++) { // the first of equals wins; NaN beats everything
        const vf y = (v[i] - mean) * scale + bias;
        const vi wins = (y > best) | (y != y);
        best = vf_select(wins, y, best);
        winner = (wins & i) | (winner & ~wins);
    }
    vf_store_some(k->y, bf16, at.out, vf_select(best <= 0, (vf){0}, best), width);
    vi_store_bytes(k->winner + at.out, winner, width);
}

// Gradient before the relu, of the winner.
INLINE vf window_grad(const struct channel_norm *k, const bool bf16, const struct norm_window at,
                      const int width)
{
    const vf y = vf_load_some(k->y, bf16, at.out, width);
    return vf_select(y <= 0, (vf){0}, vf_load_some(k->g, bf16, at.out, width));
}

INLINE void sums_window(const struct channel_norm *k, const bool bf16, const struct norm_window at,
                        const int width, float *sum_g, float *sum_gx)
{
    vf v[4];
    load_window(k, bf16, at.in, width, v);
    const vi winner = vi_load_bytes(k->winner + at.out);
    vf x = v[0];
    UNROLL(3)
    for (int i = 1; i < 4; i++)
        x = vf_select(winner == i, v[i], x);
    const vf g = window_grad(k, bf16, at, width);
    vf_store_n(sum_g + at.j, vf_load_n(sum_g + at.j, width) + g, width);
    const vf gx = g * (x - vf_load_n(k->mean + at.j, width));
    vf_store_n(sum_gx + at.j, vf_load_n(sum_gx + at.j, width) + gx, width);
}

INLINE void backward_window(const struct channel_norm *k, const bool bf16,
                            const struct norm_window at, const int width)
{
    vf v[4];
    load_window(k, bf16, at.in, width, v);
    const vi winner = vi_load_bytes(k->winner + at.out);
    const vf g = window_grad(k, bf16, at, width) * vf_load_n(k->scale + at.j, width);
    const vf mean = vf_load_n(k->mean + at.j, width), shift = vf_load_n(k->shift + at.j, width);
    const vf slope = vf_load_n(k->slope + at.j, width);
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const vf of_g = vf_select(winner == i, g, (vf){0});
        const int64_t to = at.in + (i / 2 * k->pooled_line + i % 2) * k->c;
        const vf of_x = vf_select(slope != 0, slope * (v[i] - mean), (vf){0}); // see backward_as()
        vf_store_some(k->gx, bf16, to, of_g + shift + of_x, width);
    }
}

enum pooled_pass { POOLED_FORWARD, POOLED_SUMS, POOLED_BACKWARD };

INLINE void pooled_window(const enum pooled_pass pass, const struct channel_norm *k,
                          const bool bf16, const struct norm_window at, const int width,
                          float *sum_g, float *sum_gx)
{
    if (pass == POOLED_FORWARD)
        forward_window(k, bf16, at, width);
    else if (pass == POOLED_SUMS)
        sums_window(k, bf16, at, width, sum_g, sum_gx);
    else
        backward_window(k, bf16, at, width);
}

INLINE void pooled_lines(const enum pooled_pass pass, const struct channel_norm *k, const bool bf16,
                         int64_t row, float *few_g, float *few_gx)
{
    const int64_t c = k->c, line = k->pooled_line;
    struct norm_window at = {.out = row / 4 * c};
    for (int64_t x = 0; x < line; x += 2, at.out += c) {
        const struct norm_window first = at;
        at.in = (row + x) * c;
        for (at.j = 0; at.j + LANES <= c; at.j += LANES, at.in += LANES, at.out += LANES)
            pooled_window(pass, k, bf16, at, LANES, few_g, few_gx);
        if (at.j < c) pooled_window(pass, k, bf16, at, (int)(c - at.j), few_g, few_gx);
        at = first;
    }
}

// Pair of lines by pair of lines.
INLINE void pooled_as(const enum pooled_pass pass, const bool bf16, const struct channel_norm *from)
{
    const struct channel_norm k = *from;
    for (int64_t row = 0; row < k.rows; row += 2 * k.pooled_line)
        pooled_lines(pass, &k, bf16, row, NULL, NULL);
}

INLINE void pooled_sums(const bool bf16, const struct channel_norm *from,
                        const struct channel_sums *to)
{
    const struct channel_norm k = *from;
    float *few_g = to->work, *few_gx = to->work + k.c;
    for (int64_t row = 0; row < k.rows; row += 2 * k.pooled_line) {
        clear(to->work, 2 * k.c);
        pooled_lines(POOLED_SUMS, &k, bf16, row, few_g, few_gx);
        add_few(to->g, few_g, k.c);
        add_few(to->gx, few_gx, k.c);
    }
}

INLINE void pooled(const enum pooled_pass pass, const struct channel_norm *k)
{
    if (k->bf16)
        pooled_as(pass, true, k);
    else
        pooled_as(pass, false, k);
}

// --- by case

void KERNEL(channel_forward)(const struct channel_norm *k)
{
    if (k->pooled_line) {
        pooled(POOLED_FORWARD, k);
        return;
    }
    switch (4 * k->bf16 + 2 * k->relu + (k->skip != NULL)) {
    case 0:
        forward_as(k, false, false, false);
        break;
    case 1:
        forward_as(k, false, false, true);
        break;
    case 2:
        forward_as(k, false, true, false);
        break;
    case 3:
        forward_as(k, false, true, true);
        break;
    case 4:
        forward_as(k, true, false, false);
        break;
    case 5:
        forward_as(k, true, false, true);
        break;
    case 6:
        forward_as(k, true, true, false);
        break;
    case 7:
        forward_as(k, true, true, true);
        break;
    }
}

// Sums over the rows; with g_skip, writes it too.
void KERNEL(channel_sums)(const struct channel_norm *k, const struct channel_sums *to)
{
    memset(to->g, 0, (size_t)k->c * sizeof *to->g);
    memset(to->gx, 0, (size_t)k->c * sizeof *to->gx);
    if (k->pooled_line) {
        if (k->bf16)
            pooled_sums(true, k, to);
        else
            pooled_sums(false, k, to);
        return;
    }
    switch (3 * k->bf16 + k->relu + (k->g_skip != NULL)) { // g_skip comes with relu only
    case 0:
        sums_as(k, false, false, false, to);
        break;
    case 1:
        sums_as(k, false, true, false, to);
        break;
    case 2:
        sums_as(k, false, true, true, to);
        break;
    case 3:
        sums_as(k, true, false, false, to);
        break;
    case 4:
        sums_as(k, true, true, false, to);
        break;
    case 5:
        sums_as(k, true, true, true, to);
        break;
    }
}

void KERNEL(channel_backward)(const struct channel_norm *k)
{
    if (k->pooled_line)
        pooled(POOLED_BACKWARD, k);
    else if (k->bf16 && k->relu)
        backward_as(k, true, true);
    else if (k->bf16)
        backward_as(k, true, false);
    else if (k->relu)
        backward_as(k, false, true);
    else
        backward_as(k, false, false);
}
