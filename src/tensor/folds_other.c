// Unit folds_other.c: folds of f64 and i64 elements, for any processor. kernels/folds.c has f32 and
// bf16.
#include "tensor/reduce.h"

#define DET_ISA plain
#include "tensor/kernels/vmath.h"

#define ABS fabs
#define EXP exp
#define POW pow

#define T double
#define FOLD_NAME(name) name##_f64
#define FLOAT_FOLD FOLD
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#include "tensor/kernels/fold_loops.h"

#define FOLD(name, merge, start, value)                        \
    static void name##_rows_f64(const struct fold_block *b)    \
    {                                                          \
        rows_f64(FOLD_##name, false, b);                       \
    }                                                          \
    static void name##_columns_f64(const struct fold_block *b) \
    {                                                          \
        columns_f64(FOLD_##name, false, b);                    \
    }
#include "tensor/kernels/folds.def"
#undef FOLD

void fold_f64(enum fold_id id, bool columns, const struct fold_block *b)
{
    static void (*const table[N_FOLDS][2])(const struct fold_block *) = {
#define FOLD(name, merge, start, value) [FOLD_##name] = {name##_rows_f64, name##_columns_f64},
#include "tensor/kernels/folds.def"
#undef FOLD
    };
    table[id][columns](b);
}
#undef T
#undef FOLD_NAME
#undef FLOAT_FOLD
#undef PLUS
#undef TIMES
#undef LOWEST
#undef HIGHEST

// Integers wrap around; the unsigned detour keeps that defined.
#define T int64_t
#define FOLD_NAME(name) name##_i64
#define FLOAT_FOLD(name, merge, start, value)
#define PLUS(a, b) (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define TIMES(a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "tensor/kernels/fold_loops.h"

#define FOLD(name, merge, start, value)                        \
    static void name##_rows_i64(const struct fold_block *b)    \
    {                                                          \
        rows_i64(FOLD_##name, false, b);                       \
    }                                                          \
    static void name##_columns_i64(const struct fold_block *b) \
    {                                                          \
        columns_i64(FOLD_##name, false, b);                    \
    }
#include "tensor/kernels/folds.def"
#undef FOLD

void fold_i64(enum fold_id id, bool columns, const struct fold_block *b)
{
    static void (*const table[N_FOLDS][2])(const struct fold_block *) = {
#define FOLD(name, merge, start, value) [FOLD_##name] = {name##_rows_i64, name##_columns_i64},
#include "tensor/kernels/folds.def"
#undef FOLD
    };
    table[id][columns](b);
}

void fold_start(enum fold_id id, det_dtype accumulator, void *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (accumulator == DET_F32)
            ((float *)out)[i] = (float)start_f64(id);
        else if (accumulator == DET_F64)
            ((double *)out)[i] = start_f64(id);
        else
            ((int64_t *)out)[i] = start_i64(id);
    }
}
