// tensor/panels.h: a matrix that is packed once and then multiplied from the left many times,
// without threads: for operations that share out larger pieces of work themselves. Private to the
// layer.
#pragma once

#include "tensor/gemm.h"

// B[k x n]. With bf16 both sides are rounded to bf16 before they are multiplied; sums are f32.
struct panels {
    int64_t k, n;
    det_dtype dtype; // of A and C: f32 or f64
    bool bf16;
    void *data;
};

size_t panels_bytes(const struct panels *b); // memory that `data` needs, a multiple of 64
// Packs b; the first and the second call share it out to the pool, or do not.
void panels_pack_shared(const struct panels *p, const struct matrix *b);
void panels_pack(const struct panels *p, const struct matrix *b);

// C[m x n] (+)= A[m x k] B. n and k may be smaller than B's; n may also be rounded up to whole
// vectors.
struct panels_product {
    int64_t m, k, n;
    const void *a;
    int64_t a_stride;
    bool a_columns; // element (i, k) is a[i + k * a_stride]; f32 without bf16 only
    void *c;
    int64_t ldc;
    bool accumulate;
};
void panels_multiply(const struct panels *b, const struct panels_product *x);

// With bf16, A must be in the form that the panels want. Bytes of m such rows (0: any rows will
// do), and the conversion of m rows of b->k floats into that memory.
size_t panels_rows_bytes(const struct panels *b, int64_t m);
void panels_rows(const struct panels *b, const float *from, int64_t stride, int64_t m, void *to);
int64_t panels_row_stride(const struct panels *b);
