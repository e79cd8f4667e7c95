// search/eigen.h: eigenvalues of small symmetric matrices. Private to the layer.
#pragma once

#include <stddef.h>

// a (n, n) = vectors * diag(values) * vectors^T; column k of vectors belongs to values[k]. a is
// destroyed.
void eigen_symmetric(size_t n, double *a, double *values, double *vectors);
