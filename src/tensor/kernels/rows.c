// Unit rows.c: rows of f32 chosen by index.
#include "tensor/kernels/kernels.h"

void KERNEL(add_rows)(const struct add_rows *a)
{
    const int64_t width = a->to - a->from;
    for (int64_t i = 0; i < a->n; i++) {
        if (a->index[i] == a->skip) continue;
        const float *src = a->src + i * a->ld + a->from;
        float *out = a->out + a->index[i] * a->ld + a->from;
        VECTOR_LOOP
        for (int64_t c = 0; c < width; c++)
            out[c] += src[c];
    }
}
