// kernels/fold_loops.h: the loops of the folds for one type of accumulator. Included by folds.c and
// folds_other.c after they have defined T (the accumulator), FOLD_NAME(name) and the functions that
// folds.def uses. bf16 is for T = float only.
//
// A long fold is made of blocks of FOLD_BLOCK, whose results are merged to those of FOLD_BLOCK
// blocks, and so on: the rounding error of a sum stays near that of one block. A row is folded as a
// matrix of FOLD_TILE columns, so that any fold is a loop over independent elements, which the
// compiler vectorises without changing the order of anything.

INLINE T FOLD_NAME(next)(const enum fold_id id, T a, T x, T c, T p)
{
    (void)c, (void)p;
    switch (id) {
#define FOLD(name, merge, start, value) \
    case FOLD_##name:                   \
        return value;
#include "tensor/kernels/folds.def"
#undef FOLD
    default:
        return a;
    }
}

INLINE T FOLD_NAME(merge)(const enum fold_id id, T a, T b)
{
    switch (id) {
#define FOLD(name, merge, start, value) \
    case FOLD_##name:                   \
        return FOLD_NAME(next)(FOLD_##merge, a, b, 0, 0);
#include "tensor/kernels/folds.def"
#undef FOLD
    default:
        return a;
    }
}

INLINE T FOLD_NAME(start)(const enum fold_id id)
{
    switch (id) {
#define FOLD(name, merge, start, value) \
    case FOLD_##name:                   \
        return start;
#include "tensor/kernels/folds.def"
#undef FOLD
    default:
        return 0;
    }
}

INLINE T FOLD_NAME(load)(const void *src, const bool bf16, int64_t at)
{
    return bf16 ? (T)bf16_to_f32(((const uint16_t *)src)[at]) : ((const T *)src)[at];
}

INLINE bool FOLD_NAME(is_centred)(const enum fold_id id)
{
    return id == FOLD_sum_deviation || id == FOLD_sum_exp;
}

INLINE void FOLD_NAME(clear)(const enum fold_id id, T *acc, const int w)
{
    for (int j = 0; j < w; j++)
        acc[j] = FOLD_NAME(start)(id);
}

INLINE void FOLD_NAME(merge_all)(const enum fold_id id, T *into, const T *from, const int w)
{
    VECTOR_LOOP
    for (int j = 0; j < w; j++)
        into[j] = FOLD_NAME(merge)(id, into[j], from[j]);
}

// Rows [from, to) of w <= FOLD_TILE columns from column `at` on, one block.
INLINE void FOLD_NAME(block)(const enum fold_id id, const bool bf16, const struct fold_block *b,
                             int64_t from, int64_t to, int64_t at, const int w, T *into)
{
    const T p = (T)b->power;
    const T *centre = FOLD_NAME(is_centred)(id) ? (const T *)b->centre + at : NULL;
    T acc[FOLD_TILE];
    FOLD_NAME(clear)(id, acc, w);
    for (int64_t i = from; i < to; i++) {
        VECTOR_LOOP
        for (int j = 0; j < w; j++)
            acc[j] = FOLD_NAME(next)(id, acc[j], FOLD_NAME(load)(b->src, bf16, i * b->ld + at + j),
                                     FOLD_NAME(is_centred)(id) ? centre[j] : 0, p);
    }
    FOLD_NAME(merge_all)(id, into, acc, w);
}

// The same of at most FOLD_BLOCK blocks.
INLINE void FOLD_NAME(tile)(const enum fold_id id, const bool bf16, const struct fold_block *b,
                            int64_t from, int64_t to, int64_t at, const int w)
{
    T *out = (T *)b->out + at, acc[FOLD_TILE];
    if (to - from <= FOLD_BLOCK) {
        FOLD_NAME(block)(id, bf16, b, from, to, at, w, out);
        return;
    }
    FOLD_NAME(clear)(id, acc, w);
    for (; from < to; from += FOLD_BLOCK)
        FOLD_NAME(block)
    (id, bf16, b, from, to - from < FOLD_BLOCK ? to : from + FOLD_BLOCK, at, w, acc);
    FOLD_NAME(merge_all)(id, out, acc, w);
}

INLINE void FOLD_NAME(columns)(const enum fold_id id, const bool bf16, const struct fold_block *b)
{
    enum { ROWS = FOLD_BLOCK * FOLD_BLOCK };
    for (int64_t r = 0; r < b->rows; r += ROWS) {
        int64_t end = b->rows - r < ROWS ? b->rows : r + ROWS, at = 0;
        for (; at + FOLD_TILE <= b->width; at += FOLD_TILE)
            FOLD_NAME(tile)(id, bf16, b, r, end, at, FOLD_TILE);
        if (at < b->width) FOLD_NAME(tile)(id, bf16, b, r, end, at, (int)(b->width - at));
    }
}

// n elements from `at` on, as a matrix of `tile` columns.
INLINE T FOLD_NAME(matrix)(const enum fold_id id, const bool bf16, const void *src, int64_t at,
                           int64_t n, T c, T p, const int tile)
{
    const int64_t whole = n / tile * tile;
    T acc[FOLD_TILE];
    FOLD_NAME(clear)(id, acc, tile);
    for (int64_t i = 0; i < whole; i += tile) {
        VECTOR_LOOP
        for (int j = 0; j < tile; j++)
            acc[j] = FOLD_NAME(next)(id, acc[j], FOLD_NAME(load)(src, bf16, at + i + j), c, p);
    }
    for (int j = 0; j < (int)(n - whole); j++)
        acc[j] = FOLD_NAME(next)(id, acc[j], FOLD_NAME(load)(src, bf16, at + whole + j), c, p);
    UNROLL(8)
    for (int half = tile / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            acc[j] = FOLD_NAME(merge)(id, acc[j], acc[j + half]);
    return acc[0];
}

// n <= FOLD_TILE * FOLD_BLOCK elements from `at` on.
INLINE T FOLD_NAME(part)(const enum fold_id id, const bool bf16, const void *src, int64_t at,
                         int64_t n, T c, T p)
{
    if (n > FOLD_TILE) return FOLD_NAME(matrix)(id, bf16, src, at, n, c, p, FOLD_TILE);
    if (n > FOLD_SHORT) return FOLD_NAME(matrix)(id, bf16, src, at, n, c, p, FOLD_SHORT);
    T total = FOLD_NAME(start)(id);
    for (int64_t i = 0; i < n; i++)
        total = FOLD_NAME(next)(id, total, FOLD_NAME(load)(src, bf16, at + i), c, p);
    return total;
}

INLINE void FOLD_NAME(rows)(const enum fold_id id, const bool bf16, const struct fold_block *b)
{
    enum { PART = FOLD_TILE * FOLD_BLOCK };
    T *out = b->out;
    for (int64_t r = 0; r < b->rows; r++) {
        const T c = FOLD_NAME(is_centred)(id) ? ((const T *)b->centre)[r] : 0;
        T total = FOLD_NAME(start)(id);
        for (int64_t at = 0; at < b->width; at += PART) {
            int64_t n = b->width - at < PART ? b->width - at : PART;
            T part = FOLD_NAME(part)(id, bf16, b->src, r * b->ld + at, n, c, (T)b->power);
            total = FOLD_NAME(merge)(id, total, part);
        }
        out[r] = FOLD_NAME(merge)(id, out[r], total);
    }
}
