// Unit op_random.c: tensors of random numbers. Each call takes one number of the thread's stream;
// the values are a function of (seed, step, that number, element).
#include "tensor/random.h"

#include "base/rng.h"
#include "tensor/elementwise.h"

uint64_t rng_next_stream(void)
{
    struct tape *t = tape_get();
    // step and op share 64 bits: up to 2^20 random operations per step
    return t->rng.step << 20 | (t->rng.op++ & 0xfffff);
}

static det_tensor *random_f64(const int64_t *shape, int ndim,
                              double (*draw)(uint64_t seed, uint64_t stream, uint64_t index))
{
    det_tensor *t = det_empty(DET_F64, shape, ndim);
    if (!t) return NULL;
    uint64_t seed = tape_get()->rng.seed, stream = rng_next_stream();
    double *out = t->data;
    for (int64_t i = 0; i < t->numel; i++)
        out[i] = draw(seed, stream, (uint64_t)i);
    return t;
}

static double draw_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return rng_unit(seed, stream, index);
}

det_tensor *det_rand(det_dtype dtype, const int64_t *shape, int ndim)
{
    return det_to(random_f64(shape, ndim, draw_unit), dtype);
}

det_tensor *det_randn(det_dtype dtype, const int64_t *shape, int ndim)
{
    return det_to(random_f64(shape, ndim, rng_normal), dtype);
}

det_tensor *det_randint(int64_t low, int64_t high, const int64_t *shape, int ndim)
{
    if (low >= high) {
        det_raise(DET_EINVAL, "randint: nothing between %lld and %lld", (long long)low,
                  (long long)high);
        return NULL;
    }
    det_tensor *t = det_empty(DET_I64, shape, ndim);
    if (!t) return NULL;
    uint64_t seed = tape_get()->rng.seed, stream = rng_next_stream();
    int64_t *out = t->data;
    for (int64_t i = 0; i < t->numel; i++)
        out[i] = low + (int64_t)rng_below(seed, stream, (uint64_t)i, (uint64_t)(high - low));
    return t;
}

det_tensor *det_randperm(int64_t n)
{
    det_tensor *t = det_arange(DET_I64, 0, (double)n, 1);
    if (!t) return NULL;
    uint64_t seed = tape_get()->rng.seed, stream = rng_next_stream();
    int64_t *p = t->data;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)rng_below(seed, stream, (uint64_t)i, (uint64_t)i + 1), swap = p[i];
        p[i] = p[j];
        p[j] = swap;
    }
    return t;
}
