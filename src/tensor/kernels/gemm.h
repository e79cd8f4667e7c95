// kernels/gemm.h: the pieces of matrix multiplication. A (rows) and B (panels of columns) are
// multiplied into C, a tile of registers at a time. Shared by gemm.c, the convolutions and the
// recurrent kernels.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// C[m x width] (+)= sum over segments and k of A * B.
//
// The k dimension is n_seg segments of k elements each: segment s of A starts at a + seg[s]. Plain
// matrices have one segment; a convolution has one per kernel row, so no matrix of patches is
// built. B has k rows per segment, b_stride apart, all segments behind one another.
//
// A sum of many products loses digits with each of them: what is rounded is the sum so far. With
// k_block, every so many products are summed up from zero, and then those sums.
struct gemm_panel {
    int64_t m, k;
    int n_seg;
    const int64_t *seg; // offsets in elements; NULL: one segment at 0
    const float *a;
    int64_t a_stride; // rows: element (i, k) is a[i * a_stride + k]
    bool a_columns;   // columns: element (i, k) is a[i + k * a_stride]
    bool a_tiles;     // tiles made by gemm_pack_a, of gemm_rows(width) rows; one segment
    const float *b;
    int64_t b_stride;
    int width; // columns of C, at most GEMM_MAX_WIDTH; B must hold whole vectors
    float *c;
    int64_t ldc;
    bool accumulate;
    int64_t k_block; // 0: one sum
};

// Floats from one tile of a packed A to the next: [k][rows], and a line of the cache more, because
// tiles a power of two apart would all want the same few places there.
static inline int64_t gemm_tile_floats(int rows, int64_t k)
{
    return rows * k + 16;
}

// The same with bf16 pairs: B is packed as [k / 2][width][2], A has rows of bf16, k is even and
// padded.
struct gemm_panel_bf16 {
    int64_t m, k;
    const uint16_t *a;
    int64_t a_stride;
    const uint16_t *b;
    int width; // columns of C; B is padded to a multiple of 16
    int b_width;
    float *c;
    int64_t ldc;
    bool accumulate;
};

// C[m x width] (+)= A B, for an A with many zeros: rows of A, 64 elements at most.
struct gemm_sparse {
    int64_t m;
    int k;
    const float *a;
    int64_t a_stride;
    const uint64_t *bits; // of each row: bit k is set if element k is not zero
    const float *b;       // rows of whole vectors
    int64_t b_stride;
    int width; // whole vectors, at most GEMM_SPARSE_VECTORS
    float *c;
    int64_t ldc;
    bool accumulate;
    bool skip; // nothing is lost by it: B is finite, and zero times it zero
};

enum gemm_act { GEMM_ACT_NONE, GEMM_ACT_RELU, GEMM_ACT_GELU };

// What happens to a finished block of C: bias, activation, conversion.
struct gemm_finish {
    int64_t m;
    int width;
    const float *c; // the sums
    int64_t ldc;
    const float *bias; // width values or NULL
    enum gemm_act act;
    void *out, *slope; // result, and derivative of the activation if wanted; out may be c itself
    int64_t ld_out;
    bool bf16; // type of out and slope
};

// C[m x n] (+)= A B + bias for few elements anywhere in memory: element (i, j) of A is
// a[i * a_rs + j * a_cs]; so for B.
struct gemm_small {
    int64_t m, n, k;
    const float *a, *b;
    int64_t a_rs, a_cs, b_rs, b_cs;
    float *c;
    int64_t ldc;
    const float *bias; // n values or NULL
    bool accumulate;
};

enum { GEMM_MAX_WIDTH = 48, GEMM_MAX_ROWS = 16 };
enum { GEMM_SPARSE_K = 64, GEMM_SPARSE_VECTORS = 12 }; // sums that stay in 16 registers
