// Unit winograd.c: Winograd transforms, a vector of channels at a time. Channels are a multiple of
// LANES but for the input and the pooled output. Lavin, Gray: "Fast algorithms for convolutional
// neural networks" (CVPR 2016).
//
// F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5) evaluate at the same six points: 0, P, -P, Q, -Q, infinity.
// With 3/4 and 3/2 rounding costs half as much as with the usual 1 and 2, about as much as in a
// direct sum: the six points lie about as evenly between zero and infinity as they can, and all
// their powers that occur are exact.
#include "tensor/kernels/winograd.h"

#include "tensor/kernels/kernels.h"

INLINE vf load_channels(const float *p, const int width)
{
    return width == LANES ? vf_load(p) : vf_load_n(p, width);
}

INLINE void store_channels(float *p, vf v, const int width)
{
    if (width == LANES)
        vf_store(p, v);
    else
        vf_store_n(p, v, width);
}

#define P 0.75f
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

// Channels of a pixel, zero outside of the image. No branch: borders are in every row of tiles.
INLINE vf pixel(const struct wino_tile *t, int64_t y, int64_t x, int64_t c, const int width)
{
    static const float nothing[LANES];
    const bool inside = (uint64_t)y < (uint64_t)t->h && (uint64_t)x < (uint64_t)t->w;
    return load_channels(inside ? t->image + (y * t->w + x) * t->c + c : nothing, width);
}

// Columns of pixels, transformed, are kept in a ring: the next tile has some of them in common, at
// other places of it.
INLINE void input_column(const struct wino_tile *t, int64_t x, int64_t c, const int width,
                         vf *column)
{
    vf d[WINO_IN];
    UNROLL(6)
    for (int i = 0; i < WINO_IN; i++)
        d[i] = pixel(t, t->y + i, x, c, width);
    input_6(d, column);
}

INLINE void input_tile(const struct wino_tile *t, const vf (*ring)[WINO_IN], const int start,
                       float *to)
{
    UNROLL(6)
    for (int i = 0; i < WINO_IN; i++) {
        vf in[WINO_IN], out[WINO_IN];
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++)
            in[j] = ring[(start + j) % WINO_IN][i];
        input_6(in, out);
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++)
            vf_store(to + (i * WINO_IN + j) * t->step, out[j]);
    }
}

INLINE void input_vector(const struct wino_tiles *r, int64_t c, const int width, const int advance)
{
    const struct wino_tile *t = &r->first;
    vf ring[WINO_IN][WINO_IN];
    float *to = t->to + c;
    int64_t x = t->x, i = 0;
    UNROLL(6)
    for (int j = 0; j < WINO_IN - advance; j++)
        input_column(t, x + j, c, width, ring[j]);
    while (i < r->n) {
        UNROLL(3)
        for (int turn = 0; turn < 3; turn++) { // after three tiles the ring is where it was
            if (i++ == r->n) return;
            UNROLL(4)
            for (int j = WINO_IN - advance; j < WINO_IN; j++)
                input_column(t, x + j, c, width, ring[(turn * advance + j) % WINO_IN]);
            input_tile(t, ring, turn * advance, to);
            x += advance;
            to += r->next;
        }
    }
}

INLINE void input_tiles(const struct wino_tiles *r, const int advance)
{
    int64_t c = 0;
    for (; c + LANES <= r->first.c; c += LANES)
        input_vector(r, c, LANES, advance);
    if (c < r->first.c) input_vector(r, c, (int)(r->first.c - c), advance);
}

void KERNEL(wino_input)(const struct wino_tiles *from)
{
    const struct wino_tiles r = *from; // a copy: no store can seem to change it
    if (r.advance == 2)
        input_tiles(&r, 2);
    else
        input_tiles(&r, 4);
}

// The 4 x 4 output gradients at (y, x).
void KERNEL(wino_gradient)(const struct wino_tile *from)
{
    const struct wino_tile t = *from; // as above
    for (int64_t c = 0; c < t.c; c += LANES) {
        vf columns[WINO_OUT][WINO_IN];
        UNROLL(4)
        for (int j = 0; j < WINO_OUT; j++) {
            vf d[WINO_OUT];
            UNROLL(4)
            for (int i = 0; i < WINO_OUT; i++)
                d[i] = pixel(&t, t.y + i, t.x + j, c, LANES);
            gradient_6(d, columns[j]);
        }
        UNROLL(6)
        for (int i = 0; i < WINO_IN; i++) {
            vf out[WINO_IN];
            gradient_6((vf[]){columns[0][i], columns[1][i], columns[2][i], columns[3][i]}, out);
            UNROLL(6)
            for (int j = 0; j < WINO_IN; j++)
                vf_store(t.to + (i * WINO_IN + j) * t.step + c, out[j]);
        }
    }
}

// Products of a tile -> 4 x 4 pixels of an image (H, W, C) at (y, x), clipped, plus bias.
void KERNEL(wino_output)(const float *from, int64_t step, const float *bias,
                         const struct wino_tile *t)
{
    int64_t rows = t->h - t->y < WINO_OUT ? t->h - t->y : WINO_OUT;
    int64_t cols = t->w - t->x < WINO_OUT ? t->w - t->x : WINO_OUT;
    for (int64_t c = 0; c < t->c; c += LANES) {
        vf columns[WINO_IN][WINO_OUT], start = {0};
        if (bias) start = vf_load(bias + c);
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++) {
            vf m[WINO_IN];
            UNROLL(6)
            for (int i = 0; i < WINO_IN; i++)
                m[i] = vf_load(from + (i * WINO_IN + j) * step + c);
            output_4(m, columns[j]);
        }
        UNROLL(4)
        for (int i = 0; i < WINO_OUT; i++) {
            vf in[WINO_IN], out[WINO_OUT];
            UNROLL(6)
            for (int j = 0; j < WINO_IN; j++)
                in[j] = columns[j][i];
            output_4(in, out);
            if (i >= rows) continue;
            float *to = t->to + ((t->y + i) * t->w + t->x) * t->c + c;
            UNROLL(4)
            for (int j = 0; j < WINO_OUT; j++)
                if (j < cols) vf_store(to + j * t->c, out[j] + start);
        }
    }
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

// 3 x 3 kernels of LANES channels, turned around if wanted; point p goes to to[p * step ...].
void KERNEL(wino_kernel)(const float *from, int64_t stride, bool turned, float *to, int64_t step)
{
    vf k[9], g[9];
    load_kernels(from, stride, LANES, 9, k);
    UNROLL(9)
    for (int i = 0; i < 9; i++)
        g[i] = turned ? k[8 - i] : k[i];
    vf columns[3][WINO_IN];
    UNROLL(3)
    for (int j = 0; j < 3; j++)
        kernel_6((vf[3]){g[j], g[3 + j], g[6 + j]}, columns[j]);
    UNROLL(6)
    for (int i = 0; i < WINO_IN; i++) {
        vf out[WINO_IN];
        kernel_6((vf[3]){columns[0][i], columns[1][i], columns[2][i]}, out);
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++)
            vf_store(to + (i * WINO_IN + j) * step, out[j]);
    }
}

// The way back for gradients: 36 points of LANES channels -> 3 x 3 kernels, written or added.
void KERNEL(wino_kernel_grad)(const float *from, int64_t step, float *to, int64_t stride,
                              bool accumulate)
{
    vf columns[WINO_IN][3];
    UNROLL(6)
    for (int j = 0; j < WINO_IN; j++) {
        vf u[WINO_IN];
        UNROLL(6)
        for (int i = 0; i < WINO_IN; i++)
            u[i] = vf_load(from + (i * WINO_IN + j) * step);
        kernel_3(u, columns[j]);
    }
    vf g[9];
    UNROLL(3)
    for (int i = 0; i < 3; i++) {
        vf in[WINO_IN];
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++)
            in[j] = columns[j][i];
        kernel_3(in, g + 3 * i);
    }
    store_kernels(g, to, stride, 9, accumulate);
}

// --- F(2 x 2, 5 x 5) with the 2 x 2 outputs of a tile pooled to one

// 5 x 5 kernels of n <= LANES output channels, zeros for the lanes behind them.
void KERNEL(wino_kernel_5)(const float *from, int64_t stride, int n, float *to, int64_t step)
{
    vf g[25], columns[5][WINO_IN];
    load_kernels(from, stride, n, 25, g);
    UNROLL(5)
    for (int j = 0; j < 5; j++)
        kernel_6_of_5((vf[5]){g[j], g[5 + j], g[10 + j], g[15 + j], g[20 + j]}, columns[j]);
    UNROLL(6)
    for (int i = 0; i < WINO_IN; i++) {
        vf in[5], out[WINO_IN];
        UNROLL(5)
        for (int j = 0; j < 5; j++)
            in[j] = columns[j][i];
        kernel_6_of_5(in, out);
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++)
            vf_store(to + (i * WINO_IN + j) * step, out[j]);
    }
}

INLINE void pool_vector(const struct wino_pool *p, int64_t c, const int width)
{
    vf columns[WINO_IN][2], y[4];
    UNROLL(6)
    for (int j = 0; j < WINO_IN; j++) {
        vf m[WINO_IN];
        UNROLL(6)
        for (int i = 0; i < WINO_IN; i++)
            m[i] = vf_load(p->from + (i * WINO_IN + j) * p->step + c);
        output_2(m, columns[j]);
    }
    UNROLL(2)
    for (int i = 0; i < 2; i++) {
        vf in[WINO_IN];
        UNROLL(6)
        for (int j = 0; j < WINO_IN; j++)
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
    if (p->bias) best += load_channels(p->bias + c, width);
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
