// Unit conv_plain.c: convolution in f64, and of integers, by its definition.
#include "tensor/conv.h"

#include <string.h>

// Calls visit for every pair of an input element and an output element that a weight connects.
#define FOR_EACH_PAIR(s, BODY)                                                                  \
    for (int64_t n = 0; n < (s)->n; n++)                                                        \
        for (int64_t oy = 0; oy < (s)->oh; oy++)                                                \
            for (int64_t ox = 0; ox < (s)->ow; ox++)                                            \
                for (int64_t o = 0; o < (s)->oc; o++)                                           \
                    for (int64_t ky = 0; ky < (s)->kh; ky++)                                    \
                        for (int64_t kx = 0; kx < (s)->kw; kx++) {                              \
                            int64_t iy = oy * (s)->sh + ky * (s)->dh - (s)->ph;                 \
                            int64_t ix = ox * (s)->sw + kx * (s)->dw - (s)->pw;                 \
                            if (iy < 0 || iy >= (s)->h || ix < 0 || ix >= (s)->w) continue;     \
                            int64_t per = (s)->c / (s)->groups,                                 \
                                    first = o / ((s)->oc / (s)->groups) * per;                  \
                            for (int64_t c = 0; c < per; c++) {                                 \
                                int64_t xi =                                                    \
                                    ((n * (s)->h + iy) * (s)->w + ix) * (s)->c + first + c;     \
                                int64_t yi = ((n * (s)->oh + oy) * (s)->ow + ox) * (s)->oc + o; \
                                int64_t wi = ((o * per + c) * (s)->kh + ky) * (s)->kw + kx;     \
                                BODY;                                                           \
                            }                                                                   \
                        }

// NOLINTBEGIN(readability-function-cognitive-complexity): the loops of the macro
void plain_forward(const struct conv *s, const double *x, const double *w, const double *bias,
                   double *y)
{
    int64_t size = s->n * s->oh * s->ow * s->oc;
    memset(y, 0, (size_t)size * sizeof *y);
    FOR_EACH_PAIR(s, y[yi] += x[xi] * w[wi])
    for (int64_t i = 0; bias && i < size; i++) // last: what is equal before it is so behind it
        y[i] += bias[i % s->oc];
}

void plain_forward_i64(const struct conv *s, const int64_t *x, const int64_t *w,
                       const int64_t *bias, int64_t *y)
{
    uint64_t *sum = (uint64_t *)y;
    int64_t size = s->n * s->oh * s->ow * s->oc;
    for (int64_t i = 0; i < size; i++)
        sum[i] = bias ? (uint64_t)bias[i % s->oc] : 0;
    FOR_EACH_PAIR(s, sum[yi] += (uint64_t)x[xi] * (uint64_t)w[wi])
}

void plain_data(const struct conv *s, const double *g, const double *w, double *dx)
{
    for (int64_t i = 0; i < s->n * s->h * s->w * s->c; i++)
        dx[i] = 0;
    FOR_EACH_PAIR(s, dx[xi] += g[yi] * w[wi])
}

void plain_weights(const struct conv *s, const double *x, const double *g, double *dw)
{
    for (int64_t i = 0; i < s->oc * (s->c / s->groups) * s->kh * s->kw; i++)
        dw[i] = 0;
    FOR_EACH_PAIR(s, dw[wi] += g[yi] * x[xi])
}
// NOLINTEND(readability-function-cognitive-complexity)
