// Unit elementwise.c: loops over f32 and bf16 elements (bf16 is computed in f32), one per line of
// the .def files.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/loops.h"

#define T float
#define EXP vm_exp
#define LOG vm_log
#define TANH vm_tanh
#define ERF vm_erf
#define SIGMOID vm_sigmoid
#define ABS vm_abs
#define SQRT sqrtf
#define EXPM1 expm1f
#define LOG1P log1pf
#define LOG2 log2f
#define SIN sinf
#define COS cosf
#define TAN tanf
#define ASIN asinf
#define ACOS acosf
#define ATAN atanf
#define SINH sinhf
#define COSH coshf
#define ASINH asinhf
#define ACOSH acoshf
#define ATANH atanhf
#define POW powf
#define FMOD fmodf
#define ATAN2 atan2f
#define FLOOR floorf
#define CEIL ceilf
#define ROUND rintf
#define TRUNC truncf
#define REMAINDER remainder_f32
#define SOFTPLUS(x) SOFTPLUS_OF(EXP, LOG1P, ABS, x)

REMAINDER_FUNCTION(remainder_f32, float, fmodf)

#define UNARY(name, test, torch, saved, value, grad)                                           \
    EW_LOOP1(name##_f32, float, float, AS_IS, AS_IS, value)                                    \
    EW_LOOP1(name##_bf16, uint16_t, uint16_t, bf16_to_f32, f32_to_bf16, value)                 \
    EW_LOOP2(name##_grad_f32, float, float, AS_IS, AS_IS, g, SAVED_##saved, EW_PARAMS;         \
             , ((void)SAVED_##saved, grad))                                                    \
    EW_LOOP2(name##_grad_bf16, uint16_t, uint16_t, bf16_to_f32, f32_to_bf16, g, SAVED_##saved, \
             EW_PARAMS;                                                                        \
             , ((void)SAVED_##saved, grad))
#include "tensor/kernels/unary.def"
#undef UNARY

#define PREDICATE(name, torch, value)                         \
    EW_LOOP1(name##_f32, uint8_t, float, AS_IS, AS_IS, value) \
    EW_LOOP1(name##_bf16, uint8_t, uint16_t, bf16_to_f32, AS_IS, value)
#include "tensor/kernels/predicate.def"
#undef PREDICATE

#define BINARY(name, value)                                                      \
    EW_LOOP2(name##2_f32, float, float, AS_IS, AS_IS, a, b, EW_NO_PARAMS, value) \
    EW_LOOP2(name##2_bf16, uint16_t, uint16_t, bf16_to_f32, f32_to_bf16, a, b, EW_NO_PARAMS, value)
#define FLOAT_BINARY BINARY
#define INT_BINARY(name, value)
#define BITWISE(name, value)
#define SHIFT(name, value)
#define COMPARE(name, value)                                                       \
    EW_LOOP2(name##2_f32, uint8_t, float, AS_IS, AS_IS, a, b, EW_NO_PARAMS, value) \
    EW_LOOP2(name##2_bf16, uint8_t, uint16_t, bf16_to_f32, AS_IS, a, b, EW_NO_PARAMS, value)
#include "tensor/kernels/binary.def"
#undef BINARY
#undef COMPARE
#undef FLOAT_BINARY

static void axpy_f32(int64_t n, void *const *p, const int64_t *stride, const double *arg)
{
    const float a = (float)arg[0];
    char *out = p[0];
    const char *in = p[1];
    if (stride[0] == 4 && stride[1] == 4) {
        float *o = p[0];
        const float *x = p[1];
        VECTOR_LOOP
        for (int64_t i = 0; i < n; i++)
            o[i] += a * x[i];
        return;
    }
    for (int64_t i = 0; i < n; i++, out += stride[0], in += stride[1])
        *(float *)out += a * *(const float *)in;
}

static void axpy_bf16(int64_t n, void *const *p, const int64_t *stride, const double *arg)
{
    const float a = (float)arg[0];
    char *out = p[0];
    const char *in = p[1];
    if (stride[0] == 2 && stride[1] == 2) {
        uint16_t *o = p[0];
        const uint16_t *x = p[1];
        VECTOR_LOOP
        for (int64_t i = 0; i < n; i++)
            o[i] = f32_to_bf16(bf16_to_f32(o[i]) + a * bf16_to_f32(x[i]));
        return;
    }
    for (int64_t i = 0; i < n; i++, out += stride[0], in += stride[1])
        *(uint16_t *)out =
            f32_to_bf16(bf16_to_f32(*(uint16_t *)out) + a * bf16_to_f32(*(const uint16_t *)in));
}

CAST(cast_f32_bf16, uint16_t, float, AS_IS, f32_to_bf16)
CAST(cast_bf16_f32, float, uint16_t, AS_IS, bf16_to_f32)
CAST(cast_f32_f32, float, float, AS_IS, AS_IS)
CAST(cast_bf16_bf16, uint16_t, uint16_t, AS_IS, AS_IS)
CAST(cast_u8_f32, float, uint8_t, AS_IS, AS_IS)

#define HOT(name)                                        \
    {                                                    \
        [DET_F32] = name##_f32, [DET_BF16] = name##_bf16 \
    }

static const ew_fn unary_table[N_UNARY][DET_N_DTYPES] = {
#define UNARY(name, test, torch, saved, value, grad) [UNARY_##name] = HOT(name),
#include "tensor/kernels/unary.def"
#undef UNARY
};

static const ew_fn unary_grad_table[N_UNARY][DET_N_DTYPES] = {
#define UNARY(name, test, torch, saved, value, grad) [UNARY_##name] = HOT(name##_grad),
#include "tensor/kernels/unary.def"
#undef UNARY
};

static const ew_fn predicate_table[N_PREDICATE][DET_N_DTYPES] = {
#define PREDICATE(name, torch, value) [PREDICATE_##name] = HOT(name),
#include "tensor/kernels/predicate.def"
#undef PREDICATE
};

static const ew_fn binary_table[N_BINARY][DET_N_DTYPES] = {
#define BINARY(name, value) [BINARY_##name] = HOT(name##2),
#define FLOAT_BINARY(name, value) [BINARY_##name] = HOT(name##2),
#define COMPARE(name, value) [BINARY_##name] = HOT(name##2),
#include "tensor/kernels/binary.def"
#undef BINARY
#undef FLOAT_BINARY
#undef COMPARE
};

ew_fn KERNEL(unary)(enum unary_id id, det_dtype dtype)
{
    return unary_table[id][dtype];
}

ew_fn KERNEL(unary_grad)(enum unary_id id, det_dtype dtype)
{
    return unary_grad_table[id][dtype];
}

ew_fn KERNEL(predicate)(enum predicate_id id, det_dtype dtype)
{
    return predicate_table[id][dtype];
}

ew_fn KERNEL(binary)(enum binary_id id, det_dtype dtype)
{
    return binary_table[id][dtype];
}

ew_fn KERNEL(cast)(det_dtype to, det_dtype from)
{
    static const ew_fn table[DET_N_DTYPES][DET_N_DTYPES] = {
        [DET_F32] = {[DET_F32] = cast_f32_f32, [DET_BF16] = cast_f32_bf16},
        [DET_BF16] = {[DET_F32] = cast_bf16_f32, [DET_BF16] = cast_bf16_bf16},
        [DET_U8] = {[DET_F32] = cast_u8_f32},
    };
    return table[from][to];
}

ew_fn KERNEL(axpy)(det_dtype dtype)
{
    static const ew_fn table[DET_N_DTYPES] = {[DET_F32] = axpy_f32, [DET_BF16] = axpy_bf16};
    return table[dtype];
}
