// Unit elementwise_other.c: loops over f64, integer and bool elements. These types are for
// exactness and bookkeeping, so they are compiled once, for any processor. elementwise.c has the
// types of training.
#include "tensor/elementwise.h"

#include "base/f16.h"

// Complexity is counted after the macros of loops.h are expanded.
// NOLINTBEGIN(readability-function-cognitive-complexity)

#define DET_ISA plain
#include "tensor/kernels/loops.h"

#define T double
#define SIGMOID_OF(EXPF, x) (1 / (1 + EXPF(-(x))))
#define EXP exp
#define LOG log
#define TANH tanh
#define ERF erf
#define SIGMOID(x) SIGMOID_OF(exp, x)
#define ABS fabs
#define SQRT sqrt
#define EXPM1 expm1
#define LOG1P log1p
#define LOG2 log2
#define SIN sin
#define COS cos
#define TAN tan
#define ASIN asin
#define ACOS acos
#define ATAN atan
#define SINH sinh
#define COSH cosh
#define ASINH asinh
#define ACOSH acosh
#define ATANH atanh
#define POW pow
#define FMOD fmod
#define ATAN2 atan2
#define FLOOR floor
#define CEIL ceil
#define ROUND rint
#define TRUNC trunc
#define REMAINDER remainder_f64
#define SOFTPLUS(x) SOFTPLUS_OF(EXP, LOG1P, ABS, x)
#define INT_BINARY(name, value)
#define BITWISE(name, value)
#define SHIFT(name, value)

REMAINDER_FUNCTION(remainder_f64, double, fmod)

#define UNARY(name, test, torch, saved, value, grad)                                     \
    EW_LOOP1(name##_f64, double, double, AS_IS, AS_IS, value)                            \
    EW_LOOP2(name##_grad_f64, double, double, AS_IS, AS_IS, g, SAVED_##saved, EW_PARAMS; \
             , ((void)SAVED_##saved, grad))
#include "tensor/kernels/unary.def"
#undef UNARY

#define PREDICATE(name, torch, value) EW_LOOP1(name##_f64, uint8_t, double, AS_IS, AS_IS, value)
#include "tensor/kernels/predicate.def"
#undef PREDICATE

#define BINARY(name, value) \
    EW_LOOP2(name##2_f64, double, double, AS_IS, AS_IS, a, b, EW_NO_PARAMS, value)
#define FLOAT_BINARY BINARY
#define COMPARE(name, value) \
    EW_LOOP2(name##2_f64, uint8_t, double, AS_IS, AS_IS, a, b, EW_NO_PARAMS, value)
#include "tensor/kernels/binary.def"
#undef BINARY
#undef COMPARE
#undef FLOAT_BINARY

#define AXPY(fn, type)                                                                  \
    static void fn(int64_t n, void *const *p, const int64_t *stride, const double *arg) \
    {                                                                                   \
        const type a = (type)arg[0];                                                    \
        char *out = p[0];                                                               \
        const char *in = p[1];                                                          \
        for (int64_t i = 0; i < n; i++, out += stride[0], in += stride[1])              \
            *(type *)out = (type)(*(type *)out + a * *(const type *)in);                \
    }
AXPY(axpy_f64, double)
AXPY(axpy_i64, int64_t)
AXPY(axpy_i32, int32_t)
AXPY(axpy_u8, uint8_t)

static void axpy_f16(int64_t n, void *const *p, const int64_t *stride, const double *arg)
{
    const float a = (float)arg[0];
    char *out = p[0];
    const char *in = p[1];
    for (int64_t i = 0; i < n; i++, out += stride[0], in += stride[1]) {
        uint16_t *o = (uint16_t *)out;
        *o = f32_to_f16(f16_to_f32(*o) + a * f16_to_f32(*(const uint16_t *)in));
    }
}

// --- integers and bool

#undef T
#undef INT_BINARY
#undef BITWISE
#undef SHIFT
#define FLOAT_BINARY(name, value)
#define WRAPPED(a, op, b) ((uint64_t)(a)op(uint64_t)(b)) // defined, unlike that of signed ones
#define INT_FMOD(a, b) ((b) == 0 || (b) == -1 ? 0 : (a) % (b)) // the smallest number % -1 traps
REMAINDER_FUNCTION(remainder_i64, int64_t, INT_FMOD)
// By the type's own bits; beyond them nothing is left but zeros, or copies of the sign.
#define SHIFT_OUT(b) ((b) < 0 || (uint64_t)(b) >= 8 * sizeof(T))
#define SHIFT_LEFT(a, b) (SHIFT_OUT(b) ? 0 : (uint64_t)(a) << (b))
#define SHIFT_RIGHT(a, b) ((a) >> (SHIFT_OUT(b) ? 8 * sizeof(T) - 1 : (uint64_t)(b)))
#define INT_POW(a, b) (T) int_pow((int64_t)(a), (int64_t)(b))

static int64_t int_pow(int64_t base, int64_t exponent)
{
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t y = 1, b = (uint64_t)base;
    for (; exponent; exponent >>= 1, b *= b)
        if (exponent & 1) y *= b;
    return (int64_t)y;
}

// Integer arithmetic wraps around, as in torch; the unsigned detour keeps that defined.
#define INT_KERNELS(suffix, type)                                                          \
    EW_LOOP1(neg_##suffix, type, type, AS_IS, AS_IS, (type)(0 - (uint64_t)x))              \
    EW_LOOP1(abs_##suffix, type, type, AS_IS, AS_IS,                                       \
             (type)((int64_t)x < 0 ? 0 - (uint64_t)x : (uint64_t)x))                       \
    EW_LOOP1(sign_##suffix, type, type, AS_IS, AS_IS, (type)((x > 0) - ((int64_t)x < 0)))  \
    EW_LOOP1(square_##suffix, type, type, AS_IS, AS_IS, (type)((uint64_t)x * (uint64_t)x)) \
    EW_LOOP1(relu_##suffix, type, type, AS_IS, AS_IS, (type)(x > 0 ? x : 0))               \
    EW_LOOP1(same_##suffix, type, type, AS_IS, AS_IS, x)                                   \
    EW_LOOP1(logical_not_##suffix, uint8_t, type, AS_IS, AS_IS, x == 0)                    \
    EW_LOOP1(never_##suffix, uint8_t, type, AS_IS, AS_IS, ((void)x, 0))                    \
    EW_LOOP1(always_##suffix, uint8_t, type, AS_IS, AS_IS, ((void)x, 1))

#define BINARY_INT(name, value) EW_LOOP2(name, T, T, AS_IS, AS_IS, a, b, EW_NO_PARAMS, (T)(value))
#define COMPARE_INT(name, value) EW_LOOP2(name, uint8_t, T, AS_IS, AS_IS, a, b, EW_NO_PARAMS, value)
#define BINARY(name, value) BINARY_INT(INT_NAME(name), value)
#define INT_BINARY(name, value) BINARY_INT(INT_NAME(name), value)
#define BITWISE INT_BINARY
#define SHIFT INT_BINARY
#define COMPARE(name, value) COMPARE_INT(INT_NAME(name), value)

#define T int64_t
#define INT_NAME(name) name##2_i64
INT_KERNELS(i64, int64_t)
#include "tensor/kernels/binary.def"
#undef T
#undef INT_NAME

#define T int32_t
#define INT_NAME(name) name##2_i32
INT_KERNELS(i32, int32_t)
#include "tensor/kernels/binary.def"
#undef T
#undef INT_NAME

#define T uint8_t
#define INT_NAME(name) name##2_u8
INT_KERNELS(u8, uint8_t)
#include "tensor/kernels/binary.def"
#undef T
#undef INT_NAME

// --- conversion and selection

#define TO_F32(v) (float)(v)
#define TO_F64(v) (double)(v)
#define TO_BF16(v) f32_to_bf16((float)(v))
#define TO_BOOL(v) ((v) != 0)
// A float that does not fit an integer has no portable value; it saturates here (NaN gives 0).
#define TO_I64(v) \
    ((double)(v) >= 0x1p63 ? INT64_MAX : (double)(v) > -0x1p63 ? (int64_t)(v) : SATURATE_LOW(v))
#define SATURATE_LOW(v) ((v) < 0 ? INT64_MIN : 0)
#define TO_I32(v) (int32_t)(uint32_t)(uint64_t)TO_I64(v)
#define TO_I16(v) (int16_t)(uint16_t)(uint64_t)TO_I64(v)
#define TO_U8(v) (uint8_t)(uint64_t) TO_I64(v)
#define TO_I8(v) (int8_t)(uint8_t)(uint64_t)TO_I64(v)
#define TO_F16(v) f32_to_f16((float)(v))
// Integers wrap around: nothing of them has to be looked at.
#define INT_TO_I64(v) (v)
#define INT_TO_I32(v) (int32_t)(uint32_t)(uint64_t)(v)
#define INT_TO_I16(v) (int16_t)(uint16_t)(uint64_t)(v)
#define INT_TO_U8(v) (uint8_t)(uint64_t)(v)
#define INT_TO_I8(v) (int8_t)(uint8_t)(uint64_t)(v)

// From one type to all: LOAD makes a number of an element, TO begins the names of the conversions to
// integers.
#define CASTS(from, TI, LOAD, TO)                         \
    CAST(cast_##from##_f32, float, TI, LOAD, TO_F32)      \
    CAST(cast_##from##_f64, double, TI, LOAD, TO_F64)     \
    CAST(cast_##from##_bf16, uint16_t, TI, LOAD, TO_BF16) \
    CAST(cast_##from##_i64, int64_t, TI, LOAD, TO##I64)   \
    CAST(cast_##from##_i32, int32_t, TI, LOAD, TO##I32)   \
    CAST(cast_##from##_u8, uint8_t, TI, LOAD, TO##U8)     \
    CAST(cast_##from##_bool, uint8_t, TI, LOAD, TO_BOOL)  \
    CAST(cast_##from##_f16, uint16_t, TI, LOAD, TO_F16)   \
    CAST(cast_##from##_i16, int16_t, TI, LOAD, TO##I16)   \
    CAST(cast_##from##_i8, int8_t, TI, LOAD, TO##I8)
CASTS(f32, float, AS_IS, TO_)
CASTS(f64, double, AS_IS, TO_)
CASTS(bf16, uint16_t, bf16_to_f32, TO_)
CASTS(f16, uint16_t, f16_to_f32, TO_)
CASTS(i64, int64_t, AS_IS, INT_TO_)
CASTS(i32, int32_t, AS_IS, INT_TO_)
CASTS(i16, int16_t, AS_IS, INT_TO_)
CASTS(u8, uint8_t, AS_IS, INT_TO_)
CASTS(i8, int8_t, AS_IS, INT_TO_)

#define WHERE(fn, type)                                                                 \
    static void fn(int64_t n, void *const *p, const int64_t *stride, const double *arg) \
    {                                                                                   \
        (void)arg;                                                                      \
        char *out = p[0];                                                               \
        const char *c = p[1], *a = p[2], *b = p[3];                                     \
        for (int64_t i = 0; i < n; i++) {                                               \
            *(type *)out = *(const uint8_t *)c ? *(const type *)a : *(const type *)b;   \
            out += stride[0], c += stride[1], a += stride[2], b += stride[3];           \
        }                                                                               \
    }
WHERE(where_8, uint8_t)
WHERE(where_16, uint16_t)
WHERE(where_32, uint32_t)
WHERE(where_64, uint64_t)

// NOLINTEND(readability-function-cognitive-complexity)

// --- tables

#undef BINARY
#undef FLOAT_BINARY
#undef INT_BINARY
#undef BITWISE
#undef SHIFT
#undef COMPARE

static const ew_fn unary_f64[N_UNARY] = {
#define UNARY(name, test, torch, saved, value, grad) [UNARY_##name] = name##_f64,
#include "tensor/kernels/unary.def"
#undef UNARY
};

static const ew_fn unary_grad_f64[N_UNARY] = {
#define UNARY(name, test, torch, saved, value, grad) [UNARY_##name] = name##_grad_f64,
#include "tensor/kernels/unary.def"
#undef UNARY
};

#define INT_ROW(name)                                                        \
    {                                                                        \
        [DET_I64] = name##_i64, [DET_I32] = name##_i32, [DET_U8] = name##_u8 \
    }
static const ew_fn unary_int[N_UNARY][DET_N_DTYPES] = {
    [UNARY_neg] = INT_ROW(neg),
    [UNARY_abs] = INT_ROW(abs),
    [UNARY_sign] =
        {[DET_I64] = sign_i64, [DET_I32] = sign_i32, [DET_U8] = sign_u8, [DET_BOOL] = sign_u8},
    [UNARY_square] = INT_ROW(square),
    [UNARY_relu] = INT_ROW(relu),
    [UNARY_floor] = INT_ROW(same),
    [UNARY_ceil] = INT_ROW(same),
    [UNARY_round] = INT_ROW(same),
    [UNARY_trunc] = INT_ROW(same),
};

#define PREDICATE_ROW(name, int_name)                 \
    [PREDICATE_##name] = {[DET_F64] = name##_f64,     \
                          [DET_I64] = int_name##_i64, \
                          [DET_I32] = int_name##_i32, \
                          [DET_U8] = int_name##_u8,   \
                          [DET_BOOL] = int_name##_u8}
static const ew_fn predicate_table[N_PREDICATE][DET_N_DTYPES] = {
    PREDICATE_ROW(isnan, never),
    PREDICATE_ROW(isinf, never),
    PREDICATE_ROW(isfinite, always),
    PREDICATE_ROW(logical_not, logical_not),
};

#define F64_ROW(name) [DET_F64] = name##2_f64
#define INT_ROW2(name) [DET_I64] = name##2_i64, [DET_I32] = name##2_i32, [DET_U8] = name##2_u8
#define BOOL_ROW(name) [DET_BOOL] = name##2_u8
static const ew_fn binary_table[N_BINARY][DET_N_DTYPES] = {
#define BINARY(name, value) [BINARY_##name] = {F64_ROW(name), INT_ROW2(name), BOOL_ROW(name)},
#define COMPARE(name, value) [BINARY_##name] = {F64_ROW(name), INT_ROW2(name), BOOL_ROW(name)},
#define FLOAT_BINARY(name, value)
#define INT_BINARY(name, value) [BINARY_##name] = {F64_ROW(name), INT_ROW2(name)},
#define BITWISE(name, value) [BINARY_##name] = {INT_ROW2(name), BOOL_ROW(name)},
#define SHIFT(name, value) [BINARY_##name] = {INT_ROW2(name)},
#include "tensor/kernels/binary.def"
    [BINARY_div] = {F64_ROW(div)},
    [BINARY_atan2] = {F64_ROW(atan2)},
    [BINARY_add][DET_BOOL] = logical_or2_u8, // true + true is true
    [BINARY_mul][DET_BOOL] = logical_and2_u8,
};

#define CAST_ROW(from)                                                  \
    {                                                                   \
        [DET_F32] = cast_##from##_f32, [DET_F64] = cast_##from##_f64,   \
        [DET_BF16] = cast_##from##_bf16, [DET_I64] = cast_##from##_i64, \
        [DET_I32] = cast_##from##_i32, [DET_U8] = cast_##from##_u8,     \
        [DET_BOOL] = cast_##from##_bool, [DET_F16] = cast_##from##_f16, \
        [DET_I16] = cast_##from##_i16, [DET_I8] = cast_##from##_i8      \
    }
static const ew_fn cast_table[DET_N_DTYPES][DET_N_DTYPES] = {
    [DET_F32] = CAST_ROW(f32), [DET_F64] = CAST_ROW(f64), [DET_BF16] = CAST_ROW(bf16),
    [DET_I64] = CAST_ROW(i64), [DET_I32] = CAST_ROW(i32), [DET_U8] = CAST_ROW(u8),
    [DET_BOOL] = CAST_ROW(u8), [DET_F16] = CAST_ROW(f16), [DET_I16] = CAST_ROW(i16),
    [DET_I8] = CAST_ROW(i8),
};

// The processor's own loop if it has one, else the portable one.
ew_fn ew_unary(enum unary_id id, det_dtype dtype)
{
    ew_fn fn = kernels->unary(id, dtype);
    if (fn) return fn;
    return dtype == DET_F64 ? unary_f64[id] : unary_int[id][dtype];
}

ew_fn ew_unary_grad(enum unary_id id, det_dtype dtype)
{
    ew_fn fn = kernels->unary_grad(id, dtype);
    return fn || dtype != DET_F64 ? fn : unary_grad_f64[id];
}

ew_fn ew_predicate(enum predicate_id id, det_dtype dtype)
{
    ew_fn fn = kernels->predicate(id, dtype);
    return fn ? fn : predicate_table[id][dtype];
}

ew_fn ew_binary(enum binary_id id, det_dtype dtype)
{
    ew_fn fn = kernels->binary(id, dtype);
    return fn ? fn : binary_table[id][dtype];
}

ew_fn ew_cast(det_dtype to, det_dtype from)
{
    ew_fn fn = kernels->cast(to, from);
    return fn ? fn : cast_table[from][to];
}

ew_fn ew_where(det_dtype dtype)
{
    static const ew_fn by_size[9] = {[1] = where_8, [2] = where_16, [4] = where_32, [8] = where_64};
    return by_size[dtype_size(dtype)];
}

ew_fn ew_axpy(det_dtype dtype)
{
    static const ew_fn table[DET_N_DTYPES] = {
        [DET_F64] = axpy_f64, [DET_I64] = axpy_i64, [DET_I32] = axpy_i32,
        [DET_U8] = axpy_u8,   [DET_BOOL] = axpy_u8, [DET_F16] = axpy_f16,
    };
    ew_fn fn = kernels->axpy(dtype);
    return fn ? fn : table[dtype];
}

void add_floats(float *to, const float *from, int64_t n)
{
    static const int64_t strides[] = {sizeof *to, sizeof *from};
    static const double one[] = {1, 0};
    kernels->axpy(DET_F32)(n, (void *[]){to, (void *)(uintptr_t)from}, strides, one);
}
