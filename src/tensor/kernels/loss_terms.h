// kernels/loss_terms.h: the lines of losses.def as functions of one element. Included by losses.c
// (f32) and op_loss.c (f64) after they have defined T and the functions that the lines use.

#define SIGN(d) ((d) > 0 ? 1 : (d) < 0 ? -1 : (d))
#define SMOOTH_SIGN(d, p) (ABS(d) < (p) ? (d) / (p) : SIGN(d))
#define LOG_CLIPPED(v) ((v) < -100 ? -100 : (v)) // as torch: a loss of 100 instead of infinity
#define SOFTPLUS(x) SOFTPLUS_OF(EXP, LOG1P, ABS, x)

INLINE T loss_value(const enum loss_id id, T x, T t, T p)
{
    (void)p;
    switch (id) {
#define LOSS(name, value, by_x, by_t) \
    case LOSS_##name:                 \
        return value;
#include "tensor/kernels/losses.def"
#undef LOSS
    default:
        return 0;
    }
}

INLINE T loss_by_x(const enum loss_id id, T x, T t, T p)
{
    (void)p;
    switch (id) {
#define LOSS(name, value, by_x, by_t) \
    case LOSS_##name:                 \
        return by_x;
#include "tensor/kernels/losses.def"
#undef LOSS
    default:
        return 0;
    }
}

INLINE T loss_by_t(const enum loss_id id, T x, T t, T p)
{
    (void)p;
    switch (id) {
#define LOSS(name, value, by_x, by_t) \
    case LOSS_##name:                 \
        return by_t;
#include "tensor/kernels/losses.def"
#undef LOSS
    default:
        return 0;
    }
}
