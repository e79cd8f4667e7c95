// Unit folds.c: folds of f32 and bf16 elements, in f32.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/vmath.h"

#define T float
#define FOLD_NAME(name) name##_f32
#define FLOAT_FOLD FOLD
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define ABS vm_abs
#define EXP vm_exp
#define POW powf
#include "tensor/kernels/fold_loops.h"

void KERNEL(fold_columns)(enum fold_id id, bool bf16, const struct fold_block *b)
{
    switch (id) {
#define FOLD(name, merge, start, value)         \
    case FOLD_##name:                           \
        if (bf16)                               \
            columns_f32(FOLD_##name, true, b);  \
        else                                    \
            columns_f32(FOLD_##name, false, b); \
        break;
#include "tensor/kernels/folds.def"
#undef FOLD
    default:
        break;
    }
}

void KERNEL(fold_rows)(enum fold_id id, bool bf16, const struct fold_block *b)
{
    switch (id) {
#define FOLD(name, merge, start, value)      \
    case FOLD_##name:                        \
        if (bf16)                            \
            rows_f32(FOLD_##name, true, b);  \
        else                                 \
            rows_f32(FOLD_##name, false, b); \
        break;
#include "tensor/kernels/folds.def"
#undef FOLD
    default:
        break;
    }
}
