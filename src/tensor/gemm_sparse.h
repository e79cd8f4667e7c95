// tensor/gemm_sparse.h: the side of gemm.c for matrices with many zeros. Private to the layer.
#pragma once

#include "tensor/gemm.h"

// Which matrix has so many zeros that lists of the other elements pay, judged by samples of it.
enum sparse_side { SPARSE_NONE, SPARSE_A, SPARSE_B };
enum sparse_side sparse_side(const struct gemm *g, const void *a, const void *b);

// As gemm.c would compute it, bit for bit. 0 or DET_ENOMEM.
int gemm_sparse(const struct gemm *g, enum sparse_side side, const void *a, const void *b, void *c,
                void *slope, bool shared);
