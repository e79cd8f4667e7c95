// Unit eigen.c: Jacobi's rotations. Called by cmaes.c.
#include "search/eigen.h"

#include <math.h>

enum { MOST_SWEEPS = 50 };

static void rotate(double *m, size_t i, size_t k, double cosine, double sine)
{
    double x = m[i], y = m[k];
    m[i] = cosine * x - sine * y;
    m[k] = sine * x + cosine * y;
}

// Makes a[p][q] zero by turning the plane of p and q.
static void annihilate(size_t n, double *a, double *vectors, size_t p, size_t q)
{
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double tangent = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double cosine = 1 / sqrt(tangent * tangent + 1), sine = tangent * cosine;
    for (size_t k = 0; k < n; k++)
        rotate(a + k * n, p, q, cosine, sine);
    for (size_t k = 0; k < n; k++)
        rotate(a, p * n + k, q * n + k, cosine, sine);
    for (size_t k = 0; k < n; k++)
        rotate(vectors + k * n, p, q, cosine, sine);
}

static double off_diagonal(size_t n, const double *a)
{
    double sum = 0;
    for (size_t p = 0; p < n; p++)
        for (size_t q = p + 1; q < n; q++)
            sum += a[p * n + q] * a[p * n + q];
    return sum;
}

void eigen_symmetric(size_t n, double *a, double *values, double *vectors)
{
    for (size_t i = 0; i < n * n; i++)
        vectors[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < MOST_SWEEPS && off_diagonal(n, a) > 1e-300; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                if (fabs(a[p * n + q]) > 1e-160) annihilate(n, a, vectors, p, q);
    for (size_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
}
