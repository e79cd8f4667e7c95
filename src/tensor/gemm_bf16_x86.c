// Unit gemm_bf16_x86.c: bf16 products with vdpbf16ps (AVX512_BF16) or with tile registers (AMX).
// Compiled for any x86-64; bf16_unit() says what this processor can run.
#include "tensor/gemm_bf16.h"

#include "base/bf16.h"
#include "sys/cpu.h"

#if defined(DET_EMULATE_AVX512)

// gemm_bf16_emulated.c

#elif !defined(__x86_64__)

const struct bf16_unit *bf16_unit(void)
{
    return NULL;
}

#else

#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#define TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"
#else
#define TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512"
#endif
#define BF16_CODE __attribute__((target(TARGET)))
#define AMX_CODE __attribute__((target(TARGET ",amx-tile,amx-bf16")))
#define INLINE static inline __attribute__((always_inline))

// --- packing

static BF16_CODE uint16_t load_bf16(const struct matrix *m, const void *at, int64_t i, int64_t j)
{
    int64_t offset = i * m->rs + j * m->cs;
    return m->dtype == DET_BF16 ? ((const uint16_t *)at)[offset]
                                : f32_to_bf16(((const float *)at)[offset]);
}

// 32 consecutive elements as bf16.
static BF16_CODE __m512i load_32(const struct matrix *m, const void *at, int64_t offset)
{
    if (m->dtype == DET_BF16) return _mm512_loadu_si512((const uint16_t *)at + offset);
    const float *p = (const float *)at + offset;
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(p + 16), _mm512_loadu_ps(p));
}

// 16 x 16 of 32 bits.
static BF16_CODE void transpose_16(__m512i *r)
{
    __m512i t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++)
        for (int h = 0; h < 2; h++) {
            r[4 * i + 2 * h] = _mm512_unpacklo_epi64(t[4 * i + h], t[4 * i + 2 + h]);
            r[4 * i + 2 * h + 1] = _mm512_unpackhi_epi64(t[4 * i + h], t[4 * i + 2 + h]);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

// k runs along memory: 16 columns of 32 become 16 rows of pairs.
static BF16_CODE int64_t pack_b_columns(const struct matrix *b, const void *at, int64_t k, int j,
                                        int padded, uint16_t *out)
{
    int64_t done = 0;
    for (; done + 32 <= k; done += 32) {
        __m512i r[16];
        for (int i = 0; i < 16; i++)
            r[i] = load_32(b, at, (j + i) * b->cs + done);
        transpose_16(r);
        for (int i = 0; i < 16; i++)
            _mm512_storeu_si512(out + ((done / 2 + i) * padded + j) * 2, r[i]);
    }
    return done;
}

// Columns run along memory: two rows are interleaved.
static BF16_CODE int64_t pack_b_rows(const struct matrix *b, const void *at, int64_t k, int j,
                                     int padded, uint16_t *out)
{
    int64_t done = 0;
    for (; done + 2 <= k; done += 2) {
        int64_t offset = done * b->rs + j;
        __m256i lo, hi;
        if (b->dtype == DET_BF16) {
            const uint16_t *p = (const uint16_t *)at + offset;
            lo = _mm256_loadu_si256((const void *)p);
            hi = _mm256_loadu_si256((const void *)(p + b->rs));
        } else {
            const float *p = (const float *)at + offset;
            lo = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(p));
            hi = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(p + b->rs));
        }
        __m512i pairs = _mm512_or_si512(_mm512_cvtepu16_epi32(lo),
                                        _mm512_slli_epi32(_mm512_cvtepu16_epi32(hi), 16));
        _mm512_storeu_si512(out + (done / 2 * padded + j) * 2, pairs);
    }
    return done;
}

BF16_CODE static void pack_b_round(const struct matrix *b, const void *at, int64_t k, int width,
                                   int64_t k_padded, uint16_t *out)
{
    int padded = (width + 15) / 16 * 16;
    for (int j = 0; j < padded; j += 16) {
        int64_t done = 0;
        if (j + 16 <= width && b->rs == 1)
            done = pack_b_columns(b, at, k, j, padded, out);
        else if (j + 16 <= width && b->cs == 1)
            done = pack_b_rows(b, at, k, j, padded, out);
        for (int64_t q = done; q < k_padded; q++)
            for (int i = j; i < j + 16; i++)
                out[(q / 2 * padded + i) * 2 + q % 2] =
                    q < k && i < width ? load_bf16(b, at, q, i) : 0;
    }
}

static BF16_CODE void pack_a_row(const struct matrix *a, const void *at, int64_t i, int64_t k,
                                 int64_t k_padded, uint16_t *out)
{
    int64_t q = 0;
    for (; a->cs == 1 && q + 32 <= k; q += 32)
        _mm512_storeu_si512(out + i * k_padded + q, load_32(a, at, i * a->rs + q));
    for (; q < k_padded; q++)
        out[i * k_padded + q] = q < k ? load_bf16(a, at, i, q) : 0;
}

// Rows run along memory (a transposed matrix): 16 rows by 32 of k, as pairs of k that are
// transposed.
static BF16_CODE void pack_a_block(const struct matrix *a, const void *at, int64_t i, int64_t q,
                                   int64_t k_padded, uint16_t *out)
{
    const struct matrix across = {NULL, a->dtype, a->cs, 1};
    __m512i r[16];
    for (int p = 0; p < 16; p++) {
        uint16_t pairs[32];
        int64_t offset = i + (q + 2 * p) * a->cs;
        pack_b_rows(&across, (const char *)at + offset * (int64_t)dtype_size(a->dtype), 2, 0, 16,
                    pairs);
        r[p] = _mm512_loadu_si512(pairs);
    }
    transpose_16(r);
    for (int p = 0; p < 16; p++)
        _mm512_storeu_si512(out + (i + p) * k_padded + q, r[p]);
}

BF16_CODE static void pack_a_round(const struct matrix *a, const void *at, int64_t m, int64_t k,
                                   int64_t k_padded, uint16_t *out)
{
    int64_t i = 0;
    for (; a->rs == 1 && a->cs != 1 && i + 16 <= m; i += 16) {
        int64_t q = 0;
        for (; q + 32 <= k; q += 32)
            pack_a_block(a, at, i, q, k_padded, out);
        for (; q < k_padded; q++)
            for (int p = 0; p < 16; p++)
                out[(i + p) * k_padded + q] = q < k ? load_bf16(a, at, i + p, q) : 0;
    }
    for (; i < m; i++)
        pack_a_row(a, at, i, k, k_padded, out);
}

// --- vdpbf16ps

enum { DOT_K = 2, DOT_ROWS = 8, DOT_WIDTH = 48 };

BF16_CODE INLINE void dot_tile(const int nv, const struct gemm_panel_bf16 *p, const uint16_t *a,
                               int mr, float *c)
{
    __m512 sum[DOT_ROWS][3];
    for (int i = 0; i < DOT_ROWS; i++)
        for (int j = 0; j < nv; j++)
            sum[i][j] = _mm512_setzero_ps();
    const uint16_t *row[DOT_ROWS];
    for (int i = 0; i < DOT_ROWS; i++)
        row[i] = a + (i < mr ? i : mr - 1) * p->a_stride;
    const uint16_t *b = p->b;
    for (int64_t k = 0; k < p->k; k += 2, b += 2 * p->b_width) {
        __m512bh bv[3];
        for (int j = 0; j < nv; j++)
            bv[j] = (__m512bh)_mm512_loadu_si512(b + 32 * j);
#pragma GCC unroll 8
        for (int i = 0; i < DOT_ROWS; i++) {
            int32_t pair;
            memcpy(&pair, row[i] + k, sizeof pair);
            __m512bh av = (__m512bh)_mm512_set1_epi32(pair);
            for (int j = 0; j < nv; j++)
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], av, bv[j]);
        }
    }
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++) {
            int left = p->width - 16 * j;
            __mmask16 mask = (__mmask16)(left >= 16 ? 0xffff : (1u << left) - 1);
            float *to = c + i * p->ldc + 16 * j;
            __m512 v = sum[i][j];
            if (p->accumulate) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, to));
            _mm512_mask_storeu_ps(to, mask, v);
        }
}

BF16_CODE static void dot_panel(const struct gemm_panel_bf16 *p)
{
    for (int64_t i = 0; i < p->m; i += DOT_ROWS) {
        int mr = (int)(p->m - i < DOT_ROWS ? p->m - i : DOT_ROWS);
        const uint16_t *a = p->a + i * p->a_stride;
        float *c = p->c + i * p->ldc;
        if (p->b_width == 48)
            dot_tile(3, p, a, mr, c);
        else if (p->b_width == 32)
            dot_tile(2, p, a, mr, c);
        else
            dot_tile(1, p, a, mr, c);
    }
}

static void dot_pack_b(const struct matrix *b, const void *at, int64_t k, int width, uint16_t *out)
{
    pack_b_round(b, at, k, width, (k + DOT_K - 1) / DOT_K * DOT_K, out);
}

static void dot_pack_a(const struct matrix *a, const void *at, int64_t m, int64_t k, uint16_t *out)
{
    pack_a_round(a, at, m, k, (k + DOT_K - 1) / DOT_K * DOT_K, out);
}

// --- tiles: 2 x 2 of 16 x 16

enum { TILE_K = 32, TILE_WIDTH = 32 };

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

AMX_CODE static void tile_configure(void)
{
    struct tile_config cfg = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        cfg.row_bytes[i] = 64;
        cfg.rows[i] = 16;
    }
    _tile_loadconfig(&cfg);
}

// 16 rows of C: from the tile's memory, or added to what is there.
AMX_CODE static void store_tile(const struct gemm_panel_bf16 *p, const float *tile, int64_t row,
                                int col)
{
    int64_t rows = p->m - row < 16 ? p->m - row : 16;
    int left = p->width - col;
    if (left <= 0) return;
    __mmask16 mask = (__mmask16)(left >= 16 ? 0xffff : (1u << left) - 1);
    for (int64_t i = 0; i < rows; i++) {
        float *to = p->c + (row + i) * p->ldc + col;
        __m512 v = _mm512_loadu_ps(tile + 16 * i);
        if (p->accumulate) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, to));
        _mm512_mask_storeu_ps(to, mask, v);
    }
}

AMX_CODE static void tiles_2x2(const struct gemm_panel_bf16 *p, int64_t row, bool two_rows)
{
    const uint16_t *a0 = p->a + row * p->a_stride, *a1 = two_rows ? a0 + 16 * p->a_stride : a0;
    const bool two_cols = p->b_width > 16;
    const uint16_t *b0 = p->b, *b1 = two_cols ? b0 + 32 : b0;
    const int64_t a_bytes = 2 * p->a_stride, b_bytes = 4 * p->b_width, b_step = 32 * p->b_width;
    _Alignas(64) float out[4][256];
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < p->k; k += TILE_K, a0 += 32, a1 += 32, b0 += b_step, b1 += b_step) {
        _tile_loadd(4, a0, a_bytes);
        _tile_loadd(6, b0, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a1, a_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_loadd(7, b1, b_bytes);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out[0], 64);
    _tile_stored(1, out[1], 64);
    _tile_stored(2, out[2], 64);
    _tile_stored(3, out[3], 64);
    store_tile(p, out[0], row, 0);
    if (two_cols) store_tile(p, out[1], row, 16);
    if (two_rows) store_tile(p, out[2], row + 16, 0);
    if (two_rows && two_cols) store_tile(p, out[3], row + 16, 16);
}

// Rows of A are padded to 16 by the caller.
AMX_CODE static void tile_panel(const struct gemm_panel_bf16 *p)
{
    tile_configure();
    for (int64_t row = 0; row < p->m; row += 32)
        tiles_2x2(p, row, row + 16 < p->m);
    _tile_release();
}

static void tile_pack_b(const struct matrix *b, const void *at, int64_t k, int width, uint16_t *out)
{
    pack_b_round(b, at, k, width, (k + TILE_K - 1) / TILE_K * TILE_K, out);
}

static void tile_pack_a(const struct matrix *a, const void *at, int64_t m, int64_t k, uint16_t *out)
{
    pack_a_round(a, at, m, k, (k + TILE_K - 1) / TILE_K * TILE_K, out);
}

const struct bf16_unit *bf16_unit(void)
{
    static const struct bf16_unit dot = {DOT_WIDTH, DOT_K, 2, dot_panel, dot_pack_b, dot_pack_a};
    static const struct bf16_unit amx = {TILE_WIDTH, TILE_K,      16,
                                         tile_panel, tile_pack_b, tile_pack_a};
    const struct cpu_features *f = cpu_features();
    return f->amx_bf16 ? &amx : f->avx512_bf16 ? &dot : NULL;
}

#endif
