// Unit reduce.c: sums over ranks, in the order of ranks. Called by collect.c and across.c.
#include "dist/shared.h"

#include "base/bf16.h"

enum { BLOCK = 256 }; // elements whose sums stay in the first cache

size_t reduce_type_bytes(enum dist_type type)
{
    static const size_t n_bytes[] = {[DIST_F32] = 4, [DIST_F64] = 8, [DIST_BF16] = 2};
    return n_bytes[type];
}

// out may be one of the sources: a block is read completely before it is written.
#define SUM_OF(name, T)                                                                      \
    static void name(T *out, const char *const *sources, int n_sources, size_t n, T divisor) \
    {                                                                                        \
        for (size_t at = 0; at < n; at += BLOCK) {                                           \
            T sum[BLOCK];                                                                    \
            size_t len = n - at < BLOCK ? n - at : BLOCK;                                    \
            memcpy(sum, (const T *)(const void *)sources[0] + at, len * sizeof(T));          \
            for (int s = 1; s < n_sources; s++) {                                            \
                const T *from = (const T *)(const void *)sources[s] + at;                    \
                for (size_t i = 0; i < len; i++)                                             \
                    sum[i] += from[i];                                                       \
            }                                                                                \
            for (size_t i = 0; divisor != 1 && i < len; i++)                                 \
                sum[i] /= divisor;                                                           \
            memcpy(out + at, sum, len * sizeof(T));                                          \
        }                                                                                    \
    }
SUM_OF(sum_f32, float)
SUM_OF(sum_f64, double)

static void sum_bf16(uint16_t *out, const char *const *sources, int n_sources, size_t n,
                     float divisor)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int s = 0; s < n_sources; s++)
            sum += bf16_to_f32(((const uint16_t *)(const void *)sources[s])[i]);
        out[i] = f32_to_bf16(sum / divisor);
    }
}

void reduce_sum(enum dist_type type, void *out, const char *const *sources, int n_sources, size_t n,
                int divisor)
{
    switch (type) {
    case DIST_F32:
        sum_f32(out, sources, n_sources, n, (float)divisor);
        return;
    case DIST_F64:
        sum_f64(out, sources, n_sources, n, divisor);
        return;
    case DIST_BF16:
        sum_bf16(out, sources, n_sources, n, (float)divisor);
        return;
    }
}

// --- from node to node

size_t reduce_partial_bytes(enum dist_type type)
{
    return type == DIST_F64 ? sizeof(double) : sizeof(float);
}

#define ADD_OF(name, T)                                                                            \
    static void name(T *partial, const char *const *sources, int n_sources, size_t n, bool begins) \
    {                                                                                              \
        if (begins) memcpy(partial, sources[0], n * sizeof(T));                                    \
        for (int s = begins; s < n_sources; s++) {                                                 \
            const T *from = (const T *)(const void *)sources[s];                                   \
            for (size_t i = 0; i < n; i++)                                                         \
                partial[i] += from[i];                                                             \
        }                                                                                          \
    }
ADD_OF(add_f32, float)
ADD_OF(add_f64, double)

static void add_bf16(float *partial, const char *const *sources, int n_sources, size_t n,
                     bool begins)
{
    if (begins) memset(partial, 0, n * sizeof *partial);
    for (int s = 0; s < n_sources; s++)
        for (size_t i = 0; i < n; i++)
            partial[i] += bf16_to_f32(((const uint16_t *)(const void *)sources[s])[i]);
}

void reduce_add(enum dist_type type, void *partial, const char *const *sources, int n_sources,
                size_t n, bool begins)
{
    switch (type) {
    case DIST_F32:
        add_f32(partial, sources, n_sources, n, begins);
        return;
    case DIST_F64:
        add_f64(partial, sources, n_sources, n, begins);
        return;
    case DIST_BF16:
        add_bf16(partial, sources, n_sources, n, begins);
        return;
    }
}

void reduce_divide(enum dist_type type, void *partial, size_t n, int divisor)
{
    for (size_t i = 0; divisor != 1 && i < n; i++)
        if (type == DIST_F64)
            ((double *)partial)[i] /= divisor;
        else
            ((float *)partial)[i] /= (float)divisor;
}

void reduce_take(enum dist_type type, void *out, const void *partial, size_t n)
{
    if (type != DIST_BF16) {
        memcpy(out, partial, n * reduce_type_bytes(type));
        return;
    }
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)out)[i] = f32_to_bf16(((const float *)partial)[i]);
}
