// Unit winograd.c: Winograd transforms, a vector of channels at a time. Channels are a multiple of
// LANES but for the input and the pooled output of 5 x 5 kernels. Lavin, Gray: "Fast algorithms for
// convolutional neural networks" (CVPR 2016).
//
// Six numbers (of F(4, 3) and F(2, 5)) are values at the points 0, P, -P, Q, -Q, infinity; four (of
// F(2, 3)) at 0, 1, -1, infinity. The sums between the transforms are larger than what comes out of
// them, and so is what they round: with 1 and 2 for P and Q, 10.8 times in the mean over the
// outputs of F(4 x 4, 3 x 3), with 11/16 and 3/2 4.8 times. No points are much better; and all
// powers of these that occur are exact. F(4 x 2, 3 x 3) has 2.8, F(2 x 2, 3 x 3) 1.7.
#include "tensor/kernels/winograd.h"

#include "tensor/kernels/kernels.h"

INLINE vf load_channels(const void *p, const bool bf16, const int width)
{
    return width == LANES ? vf_load_as(p, bf16, 0) : vf_load_as_n(p, bf16, width);
}

INLINE void store_channels(float *p, vf v, const int width)
{
    if (width == LANES)
        vf_store(p, v);
    else
        vf_store_n(p, v, width);
}

#define P 0.6875f
#define Q 1.5f
#define P2 (P * P)
#define Q2 (Q * Q)
// The products of a point's distances to the other points: 0, P and -P, Q and -Q.
#define N0 (P2 * Q2)
#define NP (2 * P2 * (P2 - Q2))
#define NQ (2 * Q2 * (Q2 - P2))

// Row transforms; applied to columns first, then to rows.

INLINE void input_6(const vf *d, vf *o) // B^T d
{
    const vf even_p = d[4] - Q2 * d[2], odd_p = d[3] - Q2 * d[1];
    const vf even_q = d[4] - P2 * d[2], odd_q = d[3] - P2 * d[1];
    o[0] = P2 * Q2 * d[0] - (P2 + Q2) * d[2] + d[4];
    o[1] = even_p + P * odd_p;
    o[2] = even_p - P * odd_p;
    o[3] = even_q + Q * odd_q;
    o[4] = even_q - Q * odd_q;
    o[5] = P2 * Q2 * d[1] - (P2 + Q2) * d[3] + d[5];
}

INLINE void output_4(const vf *m, vf *y) // A^T m
{
    const vf s1 = m[1] + m[2], s2 = P * (m[1] - m[2]), s3 = m[3] + m[4], s4 = Q * (m[3] - m[4]);
    y[0] = m[0] + s1 + s3;
    y[1] = s2 + s4;
    y[2] = P2 * s1 + Q2 * s3;
    y[3] = P2 * s2 + Q2 * s4 + m[5];
}

INLINE void gradient_6(const vf *y, vf *z) // A y
{
    const vf even_p = y[0] + P2 * y[2], odd_p = y[1] + P2 * y[3];
    const vf even_q = y[0] + Q2 * y[2], odd_q = y[1] + Q2 * y[3];
    z[0] = y[0];
    z[1] = even_p + P * odd_p;
    z[2] = even_p - P * odd_p;
    z[3] = even_q + Q * odd_q;
    z[4] = even_q - Q * odd_q;
    z[5] = y[3];
}

INLINE void kernel_6(const vf *g, vf *u) // G g
{
    const vf even_p = (g[0] + P2 * g[2]) * (1 / NP), odd_p = g[1] * (P / NP);
    const vf even_q = (g[0] + Q2 * g[2]) * (1 / NQ), odd_q = g[1] * (Q / NQ);
    u[0] = g[0] * (1 / N0);
    u[1] = even_p + odd_p;
    u[2] = even_p - odd_p;
    u[3] = even_q + odd_q;
    u[4] = even_q - odd_q;
    u[5] = g[2];
}

INLINE void kernel_3(const vf *u, vf *g) // G^T u
{
    const vf even_p = (u[1] + u[2]) * (1 / NP), odd_p = (u[1] - u[2]) * (P / NP);
    const vf even_q = (u[3] + u[4]) * (1 / NQ), odd_q = (u[3] - u[4]) * (Q / NQ);
    g[0] = u[0] * (1 / N0) + even_p + even_q;
    g[1] = odd_p + odd_q;
    g[2] = P2 * even_p + Q2 * even_q + u[5];
}

// The same for the four points 0, 1, -1, infinity.

INLINE void input_4(const vf *d, vf *o) // B^T d
{
    o[0] = d[0] - d[2];
    o[1] = d[2] + d[1];
    o[2] = d[2] - d[1];
    o[3] = d[3] - d[1];
}

INLINE void output_2_of_4(const vf *m, vf *y) // A^T m
{
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = (m[1] - m[2]) + m[3];
}

INLINE void gradient_4(const vf *y, vf *z) // A y
{
    z[0] = y[0];
    z[1] = y[0] + y[1];
    z[2] = y[0] - y[1];
    z[3] = y[1];
}

INLINE void kernel_4(const vf *g, vf *u) // G g
{
    const vf even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
    u[0] = g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = g[2];
}

INLINE void kernel_3_of_4(const vf *u, vf *g) // G^T u
{
    const vf even = 0.5f * (u[1] + u[2]);
    g[0] = u[0] + even;
    g[1] = 0.5f * (u[1] - u[2]);
    g[2] = even + u[3];
}

INLINE void kernel_6_of_5(const vf *g, vf *u) // G g
{
    const vf even_p = (g[0] + P2 * g[2] + P2 * P2 * g[4]) * (1 / NP);
    const vf even_q = (g[0] + Q2 * g[2] + Q2 * Q2 * g[4]) * (1 / NQ);
    const vf odd_p = (g[1] + P2 * g[3]) * (P / NP), odd_q = (g[1] + Q2 * g[3]) * (Q / NQ);
    u[0] = g[0] * (1 / N0);
    u[1] = even_p + odd_p;
    u[2] = even_p - odd_p;
    u[3] = even_q + odd_q;
    u[4] = even_q - odd_q;
    u[5] = g[4];
}

INLINE void output_2(const vf *m, vf *y) // A^T m
{
    y[0] = m[0] + (m[1] + m[2]) + (m[3] + m[4]);
    y[1] = P * (m[1] - m[2]) + Q * (m[3] - m[4]) + m[5];
}

// --- one or the other, by the number of outputs

INLINE void input_line(const int outputs, const vf *d, vf *o)
{
    if (outputs == 4)
        input_6(d, o);
    else
        input_4(d, o);
}

INLINE void output_line(const int outputs, const vf *m, vf *y)
{
    if (outputs == 4)
        output_4(m, y);
    else
        output_2_of_4(m, y);
}

INLINE void gradient_line(const int outputs, const vf *y, vf *z)
{
    if (outputs == 4)
        gradient_6(y, z);
    else
        gradient_4(y, z);
}

INLINE void kernel_line(const int outputs, const vf *g, vf *u)
{
    if (outputs == 4)
        kernel_6(g, u);
    else
        kernel_4(g, u);
}

INLINE void kernel_grad_line(const int outputs, const vf *u, vf *g)
{
    if (outputs == 4)
        kernel_3(u, g);
    else
        kernel_3_of_4(u, g);
}

// Calls fn(..., rows, columns) with constants for the shape.
#define BY_SHAPE(shape, fn, ...)    \
    do {                            \
        if ((shape).columns == 4)   \
            fn(__VA_ARGS__, 4, 4);  \
        else if ((shape).rows == 4) \
            fn(__VA_ARGS__, 4, 2);  \
        else                        \
            fn(__VA_ARGS__, 2, 2);  \
    } while (0)

// --- tiles: columns of pixels first, then lines

enum { MAX_OUT = 4, MAX_IN = 6 };

// Channels of a pixel, zero outside of the image. No branch: borders are in every row of tiles.
INLINE vf pixel(const struct wino_image *t, const bool bf16, int64_t y, int64_t x, int64_t c,
                const int n)
{
    static const float nothing[LANES];
    const bool inside = (uint64_t)y < (uint64_t)t->h && (uint64_t)x < (uint64_t)t->w;
    const int64_t at = ((y * t->w + x) * t->c + c) * (bf16 ? 2 : 4);
    return load_channels(inside ? (const char *)t->data + at : (const char *)nothing, bf16, n);
}

// Columns of pixels, transformed, are kept in a ring: the next tile has some of them in common, at
// other places of it.
INLINE void input_column(const struct wino_inputs *r, const bool bf16, int64_t x, int64_t c,
                         const int n, const int rows, vf *column)
{
    vf d[MAX_IN];
    UNROLL(6)
    for (int i = 0; i < rows + 2; i++)
        d[i] = pixel(&r->image, bf16, r->y + i, x, c, n);
    input_line(rows, d, column);
}

INLINE void input_tile(const vf (*ring)[MAX_IN], const int start, const int rows, const int columns,
                       float *to, int64_t step)
{
    const int width = columns + 2;
    UNROLL(6)
    for (int i = 0; i < rows + 2; i++) {
        vf in[MAX_IN], out[MAX_IN];
        UNROLL(6)
        for (int j = 0; j < width; j++)
            in[j] = ring[(start + j) % width][i];
        input_line(columns, in, out);
        UNROLL(6)
        for (int j = 0; j < width; j++)
            vf_store(to + (i * width + j) * step, out[j]);
    }
}

// n channels from c on; tiles are `advance` pixels apart.
INLINE void input_vector(const struct wino_inputs *r, const bool bf16, int64_t c, const int n,
                         const int advance, const int rows, const int columns)
{
    const int width = columns + 2;
    vf ring[MAX_IN][MAX_IN];
    float *to = r->to + c;
    int64_t x = r->x, i = 0;
    UNROLL(6)
    for (int j = 0; j < width - advance; j++)
        input_column(r, bf16, x + j, c, n, rows, ring[j]);
    while (i < r->n) {
        UNROLL(3)
        for (int turn = 0; turn < width / 2; turn++) { // then the ring is where it was
            if (i++ == r->n) return;
            UNROLL(4)
            for (int j = width - advance; j < width; j++)
                input_column(r, bf16, x + j, c, n, rows, ring[(turn * advance + j) % width]);
            input_tile(ring, turn * advance, rows, columns, to, r->step);
            x += advance;
            to += r->next;
        }
    }
}

INLINE void inputs_as(const struct wino_inputs *from, const bool bf16, const int rows,
                      const int columns)
{
    const struct wino_inputs r = *from; // a copy: no store can seem to change it
    for (int64_t c = 0; c < r.image.c; c += LANES)
        input_vector(&r, bf16, c, LANES, columns, rows, columns);
}

INLINE void inputs_of_5(const struct wino_inputs *from, const bool bf16)
{
    const struct wino_inputs r = *from;
    int64_t c = 0;
    for (; c + LANES <= r.image.c; c += LANES)
        input_vector(&r, bf16, c, LANES, 2, 4, 4);
    if (c < r.image.c) input_vector(&r, bf16, c, (int)(r.image.c - c), 2, 4, 4);
}

void KERNEL(wino_input)(const struct wino_inputs *r)
{
    if (r->of_5 && r->image.bf16)
        inputs_of_5(r, true);
    else if (r->of_5)
        inputs_of_5(r, false);
    else if (r->image.bf16)
        BY_SHAPE(r->shape, inputs_as, r, true);
    else
        BY_SHAPE(r->shape, inputs_as, r, false);
}

INLINE void gradient_as(const struct wino_tile *from, float *to, int64_t step, const bool bf16,
                        const int rows, const int columns)
{
    const struct wino_tile t = *from; // as above
    const int width = columns + 2;
    for (int64_t c = 0; c < t.image.c; c += LANES) {
        vf lines[MAX_OUT][MAX_IN];
        UNROLL(4)
        for (int j = 0; j < columns; j++) {
            vf d[MAX_OUT];
            UNROLL(4)
            for (int i = 0; i < rows; i++)
                d[i] = pixel(&t.image, bf16, t.y + i, t.x + j, c, LANES);
            gradient_line(rows, d, lines[j]);
        }
        UNROLL(6)
        for (int i = 0; i < rows + 2; i++) {
            vf in[MAX_OUT], out[MAX_IN];
            UNROLL(4)
            for (int j = 0; j < columns; j++)
                in[j] = lines[j][i];
            gradient_line(columns, in, out);
            UNROLL(6)
            for (int j = 0; j < width; j++)
                vf_store(to + (i * width + j) * step + c, out[j]);
        }
    }
}

// Gradients of a tile of outputs -> point p, channel c at to[p * step + c].
void KERNEL(wino_gradient)(const struct wino_tile *t, float *to, int64_t step)
{
    if (t->image.bf16)
        BY_SHAPE(t->shape, gradient_as, t, to, step, true);
    else
        BY_SHAPE(t->shape, gradient_as, t, to, step, false);
}

INLINE void output_as(const float *from, int64_t step, const float *bias, const struct wino_tile *t,
                      const bool bf16, const int rows, const int columns)
{
    const int width = columns + 2;
    const struct wino_image *image = &t->image;
    const int64_t n_rows = image->h - t->y < rows ? image->h - t->y : rows;
    const int64_t n_columns = image->w - t->x < columns ? image->w - t->x : columns;
    for (int64_t c = 0; c < image->c; c += LANES) {
        vf lines[MAX_IN][MAX_OUT], start = {0};
        if (bias) start = vf_load(bias + c);
        UNROLL(6)
        for (int j = 0; j < width; j++) {
            vf m[MAX_IN];
            UNROLL(6)
            for (int i = 0; i < rows + 2; i++)
                m[i] = vf_load(from + (i * width + j) * step + c);
            output_line(rows, m, lines[j]);
        }
        UNROLL(4)
        for (int i = 0; i < rows; i++) {
            vf in[MAX_IN], out[MAX_OUT];
            UNROLL(6)
            for (int j = 0; j < width; j++)
                in[j] = lines[j][i];
            output_line(columns, in, out);
            if (i >= n_rows) continue;
            const int64_t to = ((t->y + i) * image->w + t->x) * image->c + c;
            UNROLL(4)
            for (int j = 0; j < columns; j++)
                if (j < n_columns)
                    vf_store_as(image->data, bf16, to + j * image->c, out[j] + start);
        }
    }
}

// Products of a tile, plus bias -> its outputs.
void KERNEL(wino_output)(const float *from, int64_t step, const float *bias,
                         const struct wino_tile *t)
{
    if (t->image.bf16)
        BY_SHAPE(t->shape, output_as, from, step, bias, t, true);
    else
        BY_SHAPE(t->shape, output_as, from, step, bias, t, false);
}

// Lane l of element k of n_rows <= LANES kernels, from[l * stride + k], zero behind them; and back.
// Turning blocks of registers is several times faster than collecting single lanes.
INLINE void load_kernels(const float *from, int64_t stride, int n_rows, const int size, vf *g)
{
    UNROLL(7)
    for (int k = 0; k < size; k += LANES) {
        const int n = size - k < LANES ? size - k : LANES;
        vf r[LANES];
        UNROLL(16)
        for (int l = 0; l < LANES; l++) {
            r[l] = (vf){0};
            if (l < n_rows) r[l] = vf_load_n(from + l * stride + k, n);
        }
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < n; i++)
            g[k + i] = r[i];
    }
}

INLINE void store_kernels(const vf *g, float *to, int64_t stride, const int size, bool accumulate)
{
    UNROLL(7)
    for (int k = 0; k < size; k += LANES) {
        const int n = size - k < LANES ? size - k : LANES;
        vf r[LANES] = {{0}};
        UNROLL(16)
        for (int i = 0; i < n; i++)
            r[i] = g[k + i];
        vf_transpose(r);
        UNROLL(16)
        for (int l = 0; l < LANES; l++) {
            float *at = to + l * stride + k;
            if (accumulate) r[l] += vf_load_n(at, n);
            vf_store_n(at, r[l], n);
        }
    }
}

INLINE void kernel_as(const vf *g, float *to, int64_t step, const int rows, const int columns)
{
    const int width = columns + 2;
    vf lines[3][MAX_IN];
    UNROLL(3)
    for (int j = 0; j < 3; j++)
        kernel_line(rows, (vf[3]){g[j], g[3 + j], g[6 + j]}, lines[j]);
    UNROLL(6)
    for (int i = 0; i < rows + 2; i++) {
        vf out[MAX_IN];
        kernel_line(columns, (vf[3]){lines[0][i], lines[1][i], lines[2][i]}, out);
        UNROLL(6)
        for (int j = 0; j < width; j++)
            vf_store(to + (i * width + j) * step, out[j]);
    }
}

// 3 x 3 kernels of LANES channels, turned around if wanted; point p goes to to[p * step ...].
void KERNEL(wino_kernel)(const float *from, int64_t stride, bool turned, struct wino_shape shape,
                         float *to, int64_t step)
{
    vf k[9], g[9];
    load_kernels(from, stride, LANES, 9, k);
    UNROLL(9)
    for (int i = 0; i < 9; i++)
        g[i] = turned ? k[8 - i] : k[i];
    BY_SHAPE(shape, kernel_as, g, to, step);
}

INLINE void kernel_grad_as(const float *from, int64_t step, vf *g, const int rows,
                           const int columns)
{
    const int width = columns + 2;
    vf lines[MAX_IN][3];
    UNROLL(6)
    for (int j = 0; j < width; j++) {
        vf u[MAX_IN];
        UNROLL(6)
        for (int i = 0; i < rows + 2; i++)
            u[i] = vf_load(from + (i * width + j) * step);
        kernel_grad_line(rows, u, lines[j]);
    }
    UNROLL(3)
    for (int i = 0; i < 3; i++) {
        vf in[MAX_IN];
        UNROLL(6)
        for (int j = 0; j < width; j++)
            in[j] = lines[j][i];
        kernel_grad_line(columns, in, g + 3 * i);
    }
}

// The way back for gradients: points of LANES channels -> 3 x 3 kernels, written or added.
void KERNEL(wino_kernel_grad)(const float *from, int64_t step, struct wino_shape shape, float *to,
                              int64_t stride, bool accumulate)
{
    vf g[9];
    BY_SHAPE(shape, kernel_grad_as, from, step, g);
    store_kernels(g, to, stride, 9, accumulate);
}

// --- F(2 x 2, 5 x 5) with the 2 x 2 outputs of a tile pooled to one

// 5 x 5 kernels of n <= LANES output channels, zeros for the lanes behind them.
void KERNEL(wino_kernel_5)(const float *from, int64_t stride, int n, float *to, int64_t step)
{
    vf g[25], columns[5][MAX_IN];
    load_kernels(from, stride, n, 25, g);
    UNROLL(5)
    for (int j = 0; j < 5; j++)
        kernel_6_of_5((vf[5]){g[j], g[5 + j], g[10 + j], g[15 + j], g[20 + j]}, columns[j]);
    UNROLL(6)
    for (int i = 0; i < MAX_IN; i++) {
        vf in[5], out[MAX_IN];
        UNROLL(5)
        for (int j = 0; j < 5; j++)
            in[j] = columns[j][i];
        kernel_6_of_5(in, out);
        UNROLL(6)
        for (int j = 0; j < MAX_IN; j++)
            vf_store(to + (i * MAX_IN + j) * step, out[j]);
    }
}

INLINE void pool_vector(const struct wino_pool *p, int64_t c, const int width)
{
    vf columns[MAX_IN][2], y[4];
    UNROLL(6)
    for (int j = 0; j < MAX_IN; j++) {
        vf m[MAX_IN];
        UNROLL(6)
        for (int i = 0; i < MAX_IN; i++)
            m[i] = vf_load(p->from + (i * MAX_IN + j) * p->step + c);
        output_2(m, columns[j]);
    }
    UNROLL(2)
    for (int i = 0; i < 2; i++) {
        vf in[MAX_IN];
        UNROLL(6)
        for (int j = 0; j < MAX_IN; j++)
            in[j] = columns[j][i];
        output_2(in, y + 2 * i);
    }
    vf best = y[0];
    vi winner = {0};
    UNROLL(3)
    for (int k = 1; k < 4; k++) { // the first of equals wins; NaN beats everything
        vi wins = (y[k] > best) | (y[k] != y[k]);
        best = vf_select(wins, y[k], best);
        winner = (wins & k) | (winner & ~wins);
    }
    if (p->bias) best += load_channels(p->bias + c, false, width);
    if (p->relu) best = vf_select(best <= 0, (vf){0}, best);
    store_channels(p->out + c, best, width);
    vi_store_bytes(p->winner + c, winner, width);
}

void KERNEL(wino_pool)(const struct wino_pool *p)
{
    int64_t c = 0;
    for (; c + LANES <= p->c; c += LANES)
        pool_vector(p, c, LANES);
    if (c < p->c) pool_vector(p, c, (int)(p->c - c));
}
