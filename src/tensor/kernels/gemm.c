// Unit gemm.c: f32 matrix multiplication with a tile of C in registers.
//
// A tile is mr rows by nv vectors. Each step of k loads nv vectors of B and mr single elements of A
// and does mr * nv multiply-adds; with 32 registers 8 x 3 keeps both multiply units busy, with 16
// it is 6 x 2. Sums over k run in one fixed order, whatever the tile, so results do not depend on
// the blocking.
#include "tensor/kernels/gemm.h"

#include "tensor/kernels/kernels.h"
#include "tensor/kernels/vmath.h"

#if defined(DET_ISA_avx512)
enum { MAX_NV = 3 };
#define MAX_MR(nv) ((nv) == 3 ? 8 : (nv) == 2 ? 12 : 14)
#elif defined(DET_ISA_avx2)
enum { MAX_NV = 2 };
#define MAX_MR(nv) ((nv) == 2 ? 6 : 12)
#else
enum { MAX_NV = 2 };
#define MAX_MR(nv) ((nv) == 2 ? 4 : 8)
#endif

// One step of k: row i of the tile gets element a(i) times the nv vectors of b.
#define STEP(element)                          \
    do {                                       \
        vf bv[MAX_NV];                         \
        UNROLL(3)                              \
        for (int j = 0; j < nv; j++)           \
            bv[j] = vf_load(b + j * LANES);    \
        b += p->b_stride;                      \
        UNROLL(16)                             \
        for (int i = 0; i < mr; i++) {         \
            const float ai = (element);        \
            UNROLL(3)                          \
            for (int j = 0; j < nv; j++)       \
                sum[i * nv + j] += ai * bv[j]; \
        }                                      \
    } while (0)

// The last vector of a row of C may be partial.
INLINE void store_row(const int nv, const vf *sum, float *c, int last, bool accumulate)
{
    UNROLL(3)
    for (int j = 0; j < nv; j++) {
        vf v = sum[j];
        float *to = c + j * LANES;
        if (j < nv - 1 || last == LANES) {
            if (accumulate) v += vf_load(to);
            vf_store(to, v);
        } else {
            if (accumulate) v += vf_load_n(to, last);
            vf_store_n(to, v, last);
        }
    }
}

// sum -> part, or added to it; the next block starts from zero.
INLINE void end_block(const int n, vf *sum, vf *part, bool add)
{
    UNROLL(24)
    for (int i = 0; i < n; i++) {
        if (add)
            part[i] += sum[i];
        else
            part[i] = sum[i];
        sum[i] = (vf){0};
    }
}

INLINE void tile(const int mr, const int nv, const bool columns, const struct gemm_panel *p,
                 const float *a, float *c)
{
    static const int64_t one_segment[1] = {0};
    const int64_t *seg = p->seg ? p->seg : one_segment;
    const float *b = p->b;
    const int64_t stride = p->a_tiles ? MAX_MR(nv) : p->a_stride, k_end = p->k;
    const int64_t block = p->k_block ? p->k_block : INT64_MAX;
    int64_t left = block; // of the block
    bool blocks = false;  // some are in part
    vf sum[24], part[24];
    __asm__("" : "=m"(part)); // in memory, all registers are for sum
    UNROLL(24)
    for (int i = 0; i < mr * nv; i++)
        sum[i] = (vf){0};
    for (int s = 0; s < p->n_seg; s++) {
        const float *as = a + seg[s];
        for (int64_t todo = k_end, n; todo; todo -= n) {
            if (!left) {
                end_block(mr * nv, sum, part, blocks);
                blocks = true;
                left = block;
            }
            n = todo < left ? todo : left;
            left -= n;
            if (columns) {
                for (const float *end = as + n * stride; as != end; as += stride)
                    STEP(as[i]);
            } else {
                for (const float *end = as + n; as != end; as++)
                    STEP(as[i * stride]);
            }
        }
    }
    if (blocks) end_block(mr * nv, part, sum, true);
    const int last = p->width - (nv - 1) * LANES;
    UNROLL(16)
    for (int i = 0; i < mr; i++)
        store_row(nv, sum + i * nv, c + i * p->ldc, last, p->accumulate);
}

typedef void (*tile_fn)(const struct gemm_panel *p, const float *a, float *c);

#define TILE(mr, nv)                                                                        \
    static __attribute__((noinline)) void tile_rows_##mr##_##nv(const struct gemm_panel *p, \
                                                                const float *a, float *c)   \
    {                                                                                       \
        tile(mr, nv, false, p, a, c);                                                       \
    }                                                                                       \
    static __attribute__((noinline)) void tile_cols_##mr##_##nv(const struct gemm_panel *p, \
                                                                const float *a, float *c)   \
    {                                                                                       \
        tile(mr, nv, true, p, a, c);                                                        \
    }
#define TILES_4(nv) TILE(1, nv) TILE(2, nv) TILE(3, nv) TILE(4, nv)
#define TILES_6(nv) TILES_4(nv) TILE(5, nv) TILE(6, nv)
#define TILES_8(nv) TILES_6(nv) TILE(7, nv) TILE(8, nv)
#define TILES_12(nv) TILES_8(nv) TILE(9, nv) TILE(10, nv) TILE(11, nv) TILE(12, nv)
#define TILES_14(nv) TILES_12(nv) TILE(13, nv) TILE(14, nv)
#define R(kind, mr, nv) tile_##kind##_##mr##_##nv
#define ROW_4(k, nv) NULL, R(k, 1, nv), R(k, 2, nv), R(k, 3, nv), R(k, 4, nv)
#define ROW_6(k, nv) ROW_4(k, nv), R(k, 5, nv), R(k, 6, nv)
#define ROW_8(k, nv) ROW_6(k, nv), R(k, 7, nv), R(k, 8, nv)
#define ROW_12(k, nv) ROW_8(k, nv), R(k, 9, nv), R(k, 10, nv), R(k, 11, nv), R(k, 12, nv)
#define ROW_14(k, nv) ROW_12(k, nv), R(k, 13, nv), R(k, 14, nv)

#if defined(DET_ISA_avx512)
TILES_14(1)
TILES_12(2)
TILES_8(3)
#define TILE_TABLE(k)                   \
    {                                   \
        {ROW_14(k, 1)}, {ROW_12(k, 2)}, \
        {                               \
            ROW_8(k, 3)                 \
        }                               \
    }
#elif defined(DET_ISA_avx2)
TILES_12(1)
TILES_6(2)
#define TILE_TABLE(k)   \
    {                   \
        {ROW_12(k, 1)}, \
        {               \
            ROW_6(k, 2) \
        }               \
    }
#else
TILES_8(1)
TILES_4(2)
#define TILE_TABLE(k)   \
    {                   \
        {ROW_8(k, 1)},  \
        {               \
            ROW_4(k, 2) \
        }               \
    }
#endif

static const tile_fn tiles[2][MAX_NV][15] = {TILE_TABLE(rows), TILE_TABLE(cols)};

int KERNEL(gemm_width)(void)
{
    return MAX_NV * LANES;
}

int KERNEL(gemm_lanes)(void)
{
    return LANES;
}

int KERNEL(gemm_rows)(int width)
{
    int nv = (width + LANES - 1) / LANES;
    return MAX_MR(nv);
}

static void multiply_tiles(const struct gemm_panel *p, const tile_fn *row, const int mr_max)
{
    const float *a = p->a;
    for (int64_t i = 0; i < p->m; i += mr_max, a += gemm_tile_floats(mr_max, p->k))
        row[p->m - i < mr_max ? p->m - i : mr_max](p, a, p->c + i * p->ldc);
}

// Rows are cut into tiles as equal as can be: a small rest would not keep the units busy.
void KERNEL(gemm_panel)(const struct gemm_panel *p)
{
    const int nv = (p->width + LANES - 1) / LANES, mr_max = MAX_MR(nv);
    const tile_fn *row = tiles[p->a_columns || p->a_tiles][nv - 1];
    if (p->a_tiles) {
        multiply_tiles(p, row, mr_max);
        return;
    }
    const int64_t next_row = p->a_columns ? 1 : p->a_stride;
    int64_t n_tiles = (p->m + mr_max - 1) / mr_max;
    for (int64_t i = 0; i < p->m; n_tiles--) {
        const int64_t mr = (p->m - i + n_tiles - 1) / n_tiles;
        row[mr](p, p->a + i * next_row, p->c + i * p->ldc);
        i += mr;
    }
}

// --- packing

// What follows reads f32, or bf16 if `bf16` says so, and writes f32.

INLINE void pack_rows(const void *b, const bool bf16, int64_t rs, int64_t k_end, const int width,
                      const int padded, float *out)
{
    enum { AHEAD = 16 }; // rows: they may be pages apart, where the processor does not look itself
    for (int64_t k = 0; k < k_end; k++, out += padded) {
        const char *soon = (const char *)b + (k + AHEAD) * rs * (bf16 ? 2 : 4);
        for (int line = 0; line < width * (bf16 ? 2 : 4); line += 64)
            __builtin_prefetch(soon + line);
        int j = 0;
        for (; j + LANES <= width; j += LANES)
            vf_store(out + j, vf_load_as(b, bf16, k * rs + j));
        if (j < width && !bf16) {
            vf_store(out + j, vf_load_n((const float *)b + k * rs + j, width - j));
            continue;
        }
        for (; j < width; j++)
            out[j] = load_as(b, bf16, k * rs + j);
        for (; j < padded; j++)
            out[j] = 0;
    }
}

INLINE void pack_strided(const void *b, const bool bf16, int64_t rs, int64_t cs, int64_t k_end,
                         int width, int padded, float *out)
{
    for (int64_t k = 0; k < k_end; k++, out += padded)
        for (int j = 0; j < padded; j++)
            out[j] = j < width ? load_as(b, bf16, k * rs + j * cs) : 0;
}

INLINE void pack_columns(const void *b, const bool bf16, int64_t cs, int64_t k_end, int width,
                         int padded, float *out, int64_t ld)
{
    for (int j = 0; j < padded; j += LANES) {
        const int n = width - j < LANES ? width - j : LANES;
        int64_t k = 0;
        for (; k + LANES <= k_end; k += LANES) {
            vf r[LANES];
            UNROLL(16)
            for (int i = 0; i < LANES; i++) {
                r[i] = (vf){0};
                if (i < n) r[i] = vf_load_as(b, bf16, (j + i) * cs + k);
            }
            vf_transpose(r);
            UNROLL(16)
            for (int i = 0; i < LANES; i++)
                vf_store(out + (k + i) * ld + j, r[i]);
        }
        for (; k < k_end; k++)
            for (int i = j; i < j + LANES; i++)
                out[k * ld + i] = i < width ? load_as(b, bf16, i * cs + k) : 0;
    }
}

INLINE void pack(const void *b, const bool bf16, int64_t rs, int64_t cs, int64_t k_end, int width,
                 float *out)
{
    enum { FULL = MAX_NV * LANES }; // a width known to the compiler is copied in whole registers
    const int padded = (width + LANES - 1) / LANES * LANES;
    if (cs == 1 && width == FULL)
        pack_rows(b, bf16, rs, k_end, FULL, FULL, out);
    else if (cs == 1)
        pack_rows(b, bf16, rs, k_end, width, padded, out);
    else if (rs == 1)
        pack_columns(b, bf16, cs, k_end, width, padded, out, padded);
    else
        pack_strided(b, bf16, rs, cs, k_end, width, padded, out);
}

// B[k_end x width] -> out[k][padded], zeros behind width.
void KERNEL(gemm_pack)(const void *b, bool bf16, int64_t rs, int64_t cs, int64_t k_end, int width,
                       float *out)
{
    if (bf16)
        pack(b, true, rs, cs, k_end, width, out);
    else
        pack(b, false, rs, cs, k_end, width, out);
}

// out[n x m] = the transpose of x[m x n]; m: whole vectors.
void KERNEL(gemm_turn)(const float *x, int64_t ld, int m, int64_t n, float *out, int64_t ld_out)
{
    pack_columns(x, false, ld, n, m, m, out, ld_out);
}

// A row of A's transpose holds an element of every row of every tile: all tiles are filled side by
// side, so no line is read twice.
INLINE void pack_tiles_across(const float *a, int64_t cs, int64_t m, int64_t k_end, const int rows,
                              float *out)
{
    enum { AHEAD = 8, LINE = 16 }; // see pack_rows
    const int64_t whole = m / rows * rows, next = gemm_tile_floats(rows, k_end);
    for (int64_t k = 0; k < k_end; k++, a += cs) {
        float *to = out + k * rows;
        for (int64_t i = 0; i < m; i += LINE)
            __builtin_prefetch(a + AHEAD * cs + i);
        for (int64_t i = 0; i < whole; i += rows, to += next)
            memcpy(to, a + i, (size_t)rows * sizeof *to);
        if (whole < m)
            for (int r = 0; r < rows; r++)
                to[r] = whole + r < m ? a[whole + r] : 0;
    }
}

INLINE void pack_tiles(const void *a, const bool bf16, int64_t rs, int64_t cs, int64_t m,
                       int64_t k_end, const int rows, float *out)
{
    for (int64_t i = 0; i < m; i += rows, out += gemm_tile_floats(rows, k_end))
        for (int64_t k = 0; k < k_end; k++)
            for (int r = 0; r < rows; r++)
                out[k * rows + r] = i + r < m ? load_as(a, bf16, (i + r) * rs + k * cs) : 0;
}

// A[m x k_end], tile after tile, each as [k][rows] with zeros behind m.
void KERNEL(gemm_pack_a)(const void *a, bool bf16, int64_t rs, int64_t cs, int64_t m, int64_t k_end,
                         int rows, float *out)
{
    enum { FULL = MAX_MR(MAX_NV) }; // as in pack()
    if (bf16)
        pack_tiles(a, true, rs, cs, m, k_end, rows, out);
    else if (rs != 1)
        pack_tiles(a, false, rs, cs, m, k_end, rows, out);
    else if (rows == FULL)
        pack_tiles_across(a, cs, m, k_end, FULL, out);
    else
        pack_tiles_across(a, cs, m, k_end, rows, out);
}

// Rounds to what bf16 can hold.
void KERNEL(gemm_round)(float *x, int64_t n)
{
    VECTOR_LOOP
    for (int64_t i = 0; i < n; i++)
        x[i] = bf16_to_f32(f32_to_bf16(x[i]));
}

// --- finishing

INLINE float act_none(float x, float *slope)
{
    *slope = 1;
    return x;
}

INLINE float act_relu(float x, float *slope)
{
    *slope = x <= 0 ? 0 : 1; // NaN lets the gradient through, as in torch
    return x > 0 || x != x ? x : 0;
}

INLINE float act_gelu(float x, float *slope)
{
    float e; // exp(-x^2 / 2)
    const float below = 0.5f + 0.5f * vm_erf_exp(x * 0.70710678f, &e);
    *slope = below + x * 0.39894228f * e;
    return x * below;
}

// One row: f32 or bf16. Without a bias, or where nobody wants the slope, the compiler drops that
// part of the loop.
#define FINISH(name, act)                                                                     \
    INLINE void row_##name##_f32(const float *c, const float *bias, float *slope, float *out, \
                                 int n)                                                       \
    {                                                                                         \
        VECTOR_LOOP                                                                           \
        for (int j = 0; j < n; j++) {                                                         \
            float s;                                                                          \
            out[j] = act(bias ? c[j] + bias[j] : c[j], &s);                                   \
            if (slope) slope[j] = s;                                                          \
        }                                                                                     \
    }                                                                                         \
    INLINE void row_##name##_bf16(const float *c, const float *bias, uint16_t *slope,         \
                                  uint16_t *out, int n)                                       \
    {                                                                                         \
        VECTOR_LOOP                                                                           \
        for (int j = 0; j < n; j++) {                                                         \
            float s;                                                                          \
            const float x = bf16_to_f32(f32_to_bf16(bias ? c[j] + bias[j] : c[j]));           \
            out[j] = f32_to_bf16(act(x, &s));                                                 \
            if (slope) slope[j] = f32_to_bf16(s);                                             \
        }                                                                                     \
    }                                                                                         \
    FINISH_ROWS(name, f32, float)                                                             \
    FINISH_ROWS(name, bf16, uint16_t)
#define FINISH_ROWS(name, type, T)                                      \
    static void finish_##name##_##type(const struct gemm_finish *f)     \
    {                                                                   \
        for (int64_t i = 0; i < f->m; i++) {                            \
            const float *c = f->c + i * f->ldc;                         \
            T *out = (T *)f->out + i * f->ld_out;                       \
            T *slope = f->slope ? (T *)f->slope + i * f->ld_out : NULL; \
            if (f->bias && slope)                                       \
                row_##name##_##type(c, f->bias, slope, out, f->width);  \
            else if (f->bias)                                           \
                row_##name##_##type(c, f->bias, NULL, out, f->width);   \
            else if (slope)                                             \
                row_##name##_##type(c, NULL, slope, out, f->width);     \
            else                                                        \
                row_##name##_##type(c, NULL, NULL, out, f->width);      \
        }                                                               \
    }
FINISH(none, act_none)
FINISH(relu, act_relu)
FINISH(gelu, act_gelu)

void KERNEL(gemm_finish)(const struct gemm_finish *f)
{
    static void (*const table[3][2])(const struct gemm_finish *) = {
        {finish_none_f32, finish_none_bf16},
        {finish_relu_f32, finish_relu_bf16},
        {finish_gelu_f32, finish_gelu_bf16},
    };
    table[f->act][f->bf16](f);
}

// --- few elements: vectors along whichever dim lies dense in memory

static float dot(const float *a, const float *b, int64_t n)
{
    vf sum = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += vf_load(a + i) * vf_load(b + i);
    if (i < n) sum += vf_load_n(a + i, (int)(n - i)) * vf_load_n(b + i, (int)(n - i));
    return vf_sum(sum);
}

static void small_by_dots(const struct gemm_small *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *c = g->c + i * g->ldc + j, sum = g->bias ? g->bias[j] : 0;
            sum += dot(g->a + i * g->a_rs, g->b + j * g->b_cs, g->k);
            *c = g->accumulate ? *c + sum : sum;
        }
}

// n elements of one column of C, side by side; so are those of A. They start from `sum`.
INLINE vf column_part(const struct gemm_small *g, const float *a, const int n, vf sum)
{
    const float *b = g->b;
    for (int64_t k = g->k; k > 0; k--, a += g->a_cs, b += g->b_rs)
        sum += vf_load_n(a, n) * *b;
    return sum;
}

static void small_by_columns(const struct gemm_small *g)
{
    const vf bias = vf_set1(g->bias ? g->bias[0] : 0);
    const bool accumulate = g->accumulate, one = g->k == 1 && !accumulate;
    const float *a = g->a, b = g->k ? g->b[0] : 0;
    float *c = g->c;
    int64_t left = g->m;
    for (; one && left >= LANES; left -= LANES, a += LANES, c += LANES)
        vf_store(c, bias + vf_load(a) * b);
    for (; left >= LANES; left -= LANES, a += LANES, c += LANES)
        vf_store(c, column_part(g, a, LANES, accumulate ? vf_load(c) : bias));
    const int n = (int)left;
    if (n) vf_store_n(c, column_part(g, a, n, accumulate ? vf_load_n(c, n) : bias), n);
}

// n elements of row i of C.
INLINE void row_part(const struct gemm_small *g, int64_t i, int64_t j, const int n)
{
    float *c = g->c + i * g->ldc + j;
    vf sum = g->accumulate ? vf_load_n(c, n) : (vf){0};
    if (g->bias) sum += vf_load_n(g->bias + j, n);
    for (int64_t k = 0; k < g->k; k++)
        sum += g->a[i * g->a_rs + k * g->a_cs] * vf_load_n(g->b + k * g->b_rs + j, n);
    vf_store_n(c, sum, n);
}

static void small_by_rows(const struct gemm_small *g)
{
    for (int64_t i = 0; i < g->m; i++) {
        int64_t j = 0;
        for (; j + LANES <= g->n; j += LANES)
            row_part(g, i, j, LANES);
        if (j < g->n) row_part(g, i, j, (int)(g->n - j));
    }
}

static void small_by_elements(const struct gemm_small *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *c = g->c + i * g->ldc + j, sum = g->bias ? g->bias[j] : 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += g->a[i * g->a_rs + k * g->a_cs] * g->b[k * g->b_rs + j * g->b_cs];
            *c = g->accumulate ? *c + sum : sum;
        }
}

void KERNEL(gemm_small)(const struct gemm_small *g)
{
    if (g->n == 1 && g->ldc == 1 && g->a_rs == 1 && g->m >= g->k)
        small_by_columns(g);
    else if (g->a_cs == 1 && g->b_rs == 1 && g->k >= g->n)
        small_by_dots(g);
    else if (g->b_cs == 1)
        small_by_rows(g);
    else
        small_by_elements(g);
}
