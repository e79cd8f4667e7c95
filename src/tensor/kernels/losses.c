// Unit losses.c: losses of f32 and bf16 elements, one per line of losses.def.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/loops.h"

#define T float
#define ABS vm_abs
#define EXP vm_exp
#define LOG vm_log
#define LOG1P log1pf
#define SIGMOID vm_sigmoid
#include "tensor/kernels/loss_terms.h"

enum { STEP = 32 };

INLINE float sum_as(const enum loss_id id, const bool bf16, const struct loss_block *b)
{
    const float p = (float)b->p;
    const int64_t whole = b->n / STEP * STEP;
    float sum[STEP] = {0};
    for (int64_t i = 0; i < whole; i += STEP) {
        VECTOR_LOOP
        for (int j = 0; j < STEP; j++)
            sum[j] += loss_value(id, load_as(b->x, bf16, i + j), load_as(b->t, bf16, i + j), p);
    }
    for (int64_t i = whole; i < b->n; i++)
        sum[i - whole] += loss_value(id, load_as(b->x, bf16, i), load_as(b->t, bf16, i), p);
    vf total[STEP / LANES];
    memcpy(total, sum, sizeof total);
    UNROLL(3)
    for (int half = STEP / LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            total[j] += total[j + half];
    return vf_sum(total[0]);
}

INLINE void values_as(const enum loss_id id, const bool bf16, const struct loss_block *b)
{
    const float p = (float)b->p;
    VECTOR_LOOP
    for (int64_t i = 0; i < b->n; i++)
        ((float *)b->out)[i] = loss_value(id, load_as(b->x, bf16, i), load_as(b->t, bf16, i), p);
}

INLINE void grad_as(const enum loss_id id, const bool bf16, const bool by_target,
                    const struct loss_block *b)
{
    const float p = (float)b->p, scale = (float)b->scale;
#define GRAD(g)                                                                       \
    VECTOR_LOOP                                                                       \
    for (int64_t i = 0; i < b->n; i++) {                                              \
        const float x = load_as(b->x, bf16, i), t = load_as(b->t, bf16, i);           \
        const float by = by_target ? loss_by_t(id, x, t, p) : loss_by_x(id, x, t, p); \
        store_as(b->out, bf16, i, (g)*by);                                            \
    }
    if (b->g) { // not inside the loop: it would become a masked load from NULL, which is slow
        GRAD(scale * load_as(b->g, bf16, i))
    } else {
        GRAD(scale)
    }
#undef GRAD
}

float KERNEL(loss_sum)(enum loss_id id, bool bf16, const struct loss_block *b)
{
    switch (id) {
#define LOSS(name, value, by_x, by_t) \
    case LOSS_##name:                 \
        return bf16 ? sum_as(LOSS_##name, true, b) : sum_as(LOSS_##name, false, b);
#include "tensor/kernels/losses.def"
#undef LOSS
    default:
        return 0;
    }
}

void KERNEL(loss_values)(enum loss_id id, bool bf16, const struct loss_block *b)
{
    switch (id) {
#define LOSS(name, value, by_x, by_t)         \
    case LOSS_##name:                         \
        if (bf16)                             \
            values_as(LOSS_##name, true, b);  \
        else                                  \
            values_as(LOSS_##name, false, b); \
        break;
#include "tensor/kernels/losses.def"
#undef LOSS
    default:
        break;
    }
}

void KERNEL(loss_grad)(enum loss_id id, bool bf16, bool by_target, const struct loss_block *b)
{
    switch (id) {
#define LOSS(name, value, by_x, by_t)                 \
    case LOSS_##name:                                 \
        if (bf16)                                     \
            grad_as(LOSS_##name, true, by_target, b); \
        else if (by_target)                           \
            grad_as(LOSS_##name, false, true, b);     \
        else                                          \
            grad_as(LOSS_##name, false, false, b);    \
        break;
#include "tensor/kernels/losses.def"
#undef LOSS
    default:
        break;
    }
}
