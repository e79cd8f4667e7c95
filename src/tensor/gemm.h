// tensor/gemm.h: matrix products on memory: blocking, packing and threads around the kernels.
// Private to the layer.
#pragma once

#include "tensor/kernels/kernels.h"
#include "tensor/tensor.h"

// A matrix somewhere in memory: element (i, j) is data[i * rs + j * cs], in elements of dtype.
struct matrix {
    const void *data;
    det_dtype dtype;
    int64_t rs, cs;
};

static inline const void *matrix_at(const struct matrix *m, const void *data, int64_t i, int64_t j)
{
    return (const char *)data + (i * m->rs + j * m->cs) * (int64_t)dtype_size(m->dtype);
}

// C[m x n] (+)= A[m x k] B[k x n], for n_batch independent triples batch strides apart.
// f32 throughout, or f64 or i64 throughout, or bf16/f32 mixed: then `bf16` says to round A and B to
// bf16 before multiplying (sums are f32 always).
struct gemm {
    int64_t m, n, k;
    struct matrix a, b;
    void *c; // rows ldc apart
    int64_t ldc;
    det_dtype c_dtype; // f32, f64, i64, bf16
    bool accumulate;   // f32 and f64 only
    bool bf16;
    int64_t n_batch; // 0: 1
    int64_t a_batch, b_batch, c_batch;
    // what happens to C before it is stored; not together with accumulate, nor in f64 or i64
    const float *bias; // n values, one per column
    enum gemm_act act;
    void *slope; // derivative of the activation, like C; NULL: nobody asks
};

// 0 or DET_ENOMEM.
int gemm(const struct gemm *g);

// Whether anything happens to the sums behind the product.
static inline bool gemm_finishes(const struct gemm *g)
{
    return g->bias || g->act || g->slope;
}

// A block of finished sums, ld apart, becomes rows and columns of C (of one batch item, and of
// slope).
struct gemm_block {
    int64_t row, n_rows, col, n_cols;
    const float *sums;
    int64_t ld;
};
void gemm_finish_block(const struct gemm *g, const struct gemm_block *b, void *c, void *slope);
// The same for f32, added to C if g says so. Turned: it is a block of the transpose of C. 0 or
// DET_ENOMEM.
int gemm_store_block(const struct gemm *g, bool turned, const struct gemm_block *b, float *c,
                     float *slope);
// The same product for the transpose of C: of B's transpose and A's. The rest is as it was.
struct gemm gemm_turned(const struct gemm *g);
// Of a product, by which a thread knows what it has prepared for it.
uint64_t gemm_new_id(void);
