// Unit update.c: one step of every optimizer, in torch's order of operations, and loops over
// gradients.
#include "optim/kernels/kernels.h"

#include <float.h>
#include <math.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR_LOOP _Pragma("GCC ivdep")
#endif

// The gradient with its sign and L2 decay.
INLINE float gradient(const struct update *u, int64_t i)
{
    float g = u->sign * u->grad[i];
    return u->decay != 0 ? g + u->decay * u->value[i] : g;
}

static void sgd(const struct update *up, int64_t begin, int64_t end)
{
    const struct update u = *up; // a copy: stores into the arrays cannot change it
    VECTOR_LOOP
    for (int64_t i = begin; i < end; i++)
        u.value[i] -= u.lr * gradient(&u, i);
}

INLINE void sgd_momentum_with(const struct update *up, int64_t begin, int64_t end,
                              const bool nesterov)
{
    const struct update u = *up;
    float *buf = u.state[0];
    VECTOR_LOOP
    for (int64_t i = begin; i < end; i++) {
        float g = gradient(&u, i);
        float m = u.beta1 * buf[i] + u.new_share * g;
        buf[i] = m;
        u.value[i] -= u.lr * (nesterov ? g + u.momentum * m : m);
    }
}

static void sgd_momentum(const struct update *u, int64_t begin, int64_t end)
{
    if (u->nesterov)
        sgd_momentum_with(u, begin, end, true);
    else
        sgd_momentum_with(u, begin, end, false);
}

INLINE void adam_with(const struct update *up, int64_t begin, int64_t end, const bool amsgrad)
{
    const struct update u = *up;
    float *exp_avg = u.state[0], *exp_avg_sq = u.state[1], *max_exp_avg_sq = u.state[2];
    VECTOR_LOOP
    for (int64_t i = begin; i < end; i++) {
        float g = gradient(&u, i);
        float m = u.beta1 * exp_avg[i] + u.new_share * g;
        float v = u.beta2 * exp_avg_sq[i] + u.new_share2 * g * g;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        if (amsgrad) {
            float most = max_exp_avg_sq[i];
            v = v > most || v != v ? v : most;
            max_exp_avg_sq[i] = v;
        }
        u.value[i] = u.shrink * u.value[i] - u.lr * m / (sqrtf(v) + u.eps);
    }
}

static void adam(const struct update *u, int64_t begin, int64_t end)
{
    if (u->state[2])
        adam_with(u, begin, end, true);
    else
        adam_with(u, begin, end, false);
}

INLINE void rmsprop_with(const struct update *up, int64_t begin, int64_t end, const bool momentum,
                         const bool centered)
{
    const struct update u = *up;
    float *square_avg = u.state[0], *buf = u.state[1], *grad_avg = u.state[2];
    VECTOR_LOOP
    for (int64_t i = begin; i < end; i++) {
        float g = gradient(&u, i);
        float v = u.beta2 * square_avg[i] + u.new_share2 * g * g;
        square_avg[i] = v;
        if (centered) {
            float mean = u.beta2 * grad_avg[i] + u.new_share2 * g;
            grad_avg[i] = mean;
            v -= mean * mean;
        }
        float d = g / (sqrtf(v) + u.eps);
        if (momentum) {
            d += u.momentum * buf[i];
            buf[i] = d;
        }
        u.value[i] -= u.lr * d;
    }
}

static void rmsprop(const struct update *u, int64_t begin, int64_t end)
{
    bool momentum = u->state[1], centered = u->state[2];
    if (momentum && centered)
        rmsprop_with(u, begin, end, true, true);
    else if (momentum)
        rmsprop_with(u, begin, end, true, false);
    else if (centered)
        rmsprop_with(u, begin, end, false, true);
    else
        rmsprop_with(u, begin, end, false, false);
}

static void adagrad(const struct update *up, int64_t begin, int64_t end)
{
    const struct update u = *up;
    float *sum = u.state[0];
    VECTOR_LOOP
    for (int64_t i = begin; i < end; i++) {
        float g = gradient(&u, i);
        float s = sum[i] + g * g;
        sum[i] = s;
        u.value[i] -= u.lr * g / (sqrtf(s) + u.eps);
    }
}

static void lion(const struct update *up, int64_t begin, int64_t end)
{
    const struct update u = *up;
    float *exp_avg = u.state[0];
    VECTOR_LOOP
    for (int64_t i = begin; i < end; i++) {
        float g = u.grad[i], m = exp_avg[i];
        float c = u.beta1 * m + u.new_share * g;
        float sign = c > 0 ? 1 : c < 0 ? -1 : c; // NaN stays NaN
        u.value[i] = u.shrink * u.value[i] - u.lr * sign;
        exp_avg[i] = u.beta2 * m + u.new_share2 * g;
    }
}

// --- gradients

static double sum_of_squares(const float *x, int64_t n)
{
    enum { LANES = 16 };
    double lane[LANES] = {0}, sum = 0;
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * x[i + l];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    for (int64_t i = whole; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

static void scale(float *x, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

static void clamp(float *x, int64_t n, float limit)
{
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] > limit ? limit : x[i];
        x[i] = v < -limit ? -limit : v;
    }
}

static bool scale_finite(float *x, int64_t n, float factor)
{
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= !(fabsf(x[i]) <= FLT_MAX);
        x[i] *= factor;
    }
    return !bad;
}

#define TABLE_NAME2(isa) optim_kernels_##isa
#define TABLE_NAME(isa) TABLE_NAME2(isa)
#define OPTIM_KERNELS_ENTRY(result, name, args) .name = name,
const struct optim_kernels TABLE_NAME(DET_ISA) = {OPTIM_KERNELS(OPTIM_KERNELS_ENTRY)};
