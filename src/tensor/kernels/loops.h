// kernels/loops.h: loops over elements as macros, for the .def files. Included by elementwise.c
// (f32 and bf16, per instruction set) and elementwise_other.c (the other types, once).
#pragma once

#include "tensor/kernels/vmath.h"

// A loop is written once and compiled for the strides that matter: all inputs dense, one of them a
// single repeated element, anything else.
#define EW_LOOP1(fn, TO, TI, LOAD, STORE, BODY)                                         \
    static void fn(int64_t n, void *const *p, const int64_t *stride, const double *arg) \
    {                                                                                   \
        const T a = (T)arg[0], b = (T)arg[1];                                           \
        (void)a, (void)b;                                                               \
        if (stride[0] == sizeof(TO) && stride[1] == sizeof(TI)) {                       \
            TO *out = p[0];                                                             \
            const TI *in = p[1];                                                        \
            VECTOR_LOOP                                                                 \
            for (int64_t i = 0; i < n; i++) {                                           \
                const T x = LOAD(in[i]);                                                \
                out[i] = STORE(BODY);                                                   \
            }                                                                           \
            return;                                                                     \
        }                                                                               \
        char *out = p[0];                                                               \
        const char *in = p[1];                                                          \
        for (int64_t i = 0; i < n; i++, out += stride[0], in += stride[1]) {            \
            const T x = LOAD(*(const TI *)in);                                          \
            *(TO *)out = STORE(BODY);                                                   \
        }                                                                               \
    }

// Names of the two inputs inside BODY are given by X1 and X2.
#define EW_LOOP2(fn, TO, TI, LOAD, STORE, X1, X2, PARAMS, BODY)                         \
    static void fn(int64_t n, void *const *p, const int64_t *stride, const double *arg) \
    {                                                                                   \
        PARAMS;                                                                         \
        const bool dense_out = stride[0] == sizeof(TO);                                 \
        const bool dense1 = stride[1] == sizeof(TI), dense2 = stride[2] == sizeof(TI);  \
        if (dense_out && dense1 && dense2) {                                            \
            TO *out = p[0];                                                             \
            const TI *in1 = p[1], *in2 = p[2];                                          \
            VECTOR_LOOP                                                                 \
            for (int64_t i = 0; i < n; i++) {                                           \
                const T X1 = LOAD(in1[i]), X2 = LOAD(in2[i]);                           \
                out[i] = STORE(BODY);                                                   \
            }                                                                           \
        } else if (dense_out && dense1 && stride[2] == 0) {                             \
            TO *out = p[0];                                                             \
            const TI *in1 = p[1];                                                       \
            const T X2 = LOAD(*(const TI *)p[2]);                                       \
            VECTOR_LOOP                                                                 \
            for (int64_t i = 0; i < n; i++) {                                           \
                const T X1 = LOAD(in1[i]);                                              \
                out[i] = STORE(BODY);                                                   \
            }                                                                           \
        } else {                                                                        \
            char *out = p[0];                                                           \
            const char *in1 = p[1], *in2 = p[2];                                        \
            for (int64_t i = 0; i < n; i++) {                                           \
                const T X1 = LOAD(*(const TI *)in1), X2 = LOAD(*(const TI *)in2);       \
                *(TO *)out = STORE(BODY);                                               \
                out += stride[0], in1 += stride[1], in2 += stride[2];                   \
            }                                                                           \
        }                                                                               \
    }

#define AS_IS(v) (v)
#define EW_NO_PARAMS (void)arg
#define EW_PARAMS                         \
    const T a = (T)arg[0], b = (T)arg[1]; \
    (void)a, (void)b

// What the gradient expression calls its second input.
#define SAVED_NONE unused
#define SAVED_X x
#define SAVED_Y y

// Against a first, then against b, so that b wins where the two contradict each other; any NaN
// stays.
#define AT_LEAST(x, a) ((x) >= (a) || (x) != (x) ? (x) : (a))
#define AT_MOST(x, b) ((x) <= (b) || (x) != (x) ? (x) : (b))
#define CLAMP(x, a, b) AT_MOST(AT_LEAST(x, a), b)

// The rest of a division that rounds down: it has the sign of b.
#define REMAINDER_FUNCTION(fn, type, FMODF)                          \
    static inline type fn(type a, type b)                            \
    {                                                                \
        type rest = FMODF(a, b);                                     \
        return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest; \
    }

#define SOFTPLUS_OF(EXPF, LOG1PF, ABSF, x) (((x) > 0 ? (x) : 0) + LOG1PF(EXPF(-ABSF(x))))
#define GELU_TANH_ARG(x) ((T)0.7978845608028654 * ((x) + (T)0.044715 * (x) * (x) * (x)))
#define GELU_TANH_GRAD(x, g)                                                       \
    ((g) * ((T)0.5 * (1 + TANH(GELU_TANH_ARG(x))) +                                \
            (T)0.5 * (x) * (1 - TANH(GELU_TANH_ARG(x)) * TANH(GELU_TANH_ARG(x))) * \
                (T)0.7978845608028654 * (1 + (T)(3 * 0.044715) * (x) * (x))))

#define CAST(fn, TO, TI, LOAD, CONVERT)                                                 \
    static void fn(int64_t n, void *const *p, const int64_t *stride, const double *arg) \
    {                                                                                   \
        (void)arg;                                                                      \
        if (stride[0] == sizeof(TO) && stride[1] == sizeof(TI)) {                       \
            TO *out = p[0];                                                             \
            const TI *in = p[1];                                                        \
            VECTOR_LOOP                                                                 \
            for (int64_t i = 0; i < n; i++)                                             \
                out[i] = CONVERT(LOAD(in[i]));                                          \
            return;                                                                     \
        }                                                                               \
        if (stride[0] == sizeof(TO) && stride[1] == 0) {                                \
            TO *out = p[0];                                                             \
            const TO value = (TO)CONVERT(LOAD(*(const TI *)p[1]));                      \
            VECTOR_LOOP                                                                 \
            for (int64_t i = 0; i < n; i++)                                             \
                out[i] = value;                                                         \
            return;                                                                     \
        }                                                                               \
        char *out = p[0];                                                               \
        const char *in = p[1];                                                          \
        for (int64_t i = 0; i < n; i++, out += stride[0], in += stride[1])              \
            *(TO *)out = CONVERT(LOAD(*(const TI *)in));                                \
    }
