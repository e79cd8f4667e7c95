// Unit op_random.c: tensors of random numbers. Each call takes one number of the thread's stream;
// the values are a function of (seed, step, that number, element).
#include "tensor/random.h"

#include "base/rng.h"
#include "tensor/kernels/kernels.h"
#include "tensor/kernels/simd.h"
#include "tensor/share.h"

uint64_t rng_next_stream(void)
{
    struct tape *t = tape_get();
    // step and op share 64 bits: up to 2^20 random operations per step
    return t->rng.step << 20 | (t->rng.op++ & 0xfffff);
}

struct random_job {
    enum { RANDOM_UNIT, RANDOM_NORMAL, RANDOM_INT } what;
    uint64_t seed, stream;
    int64_t low;
    uint64_t span; // integers
    det_tensor *out;
};

// Elements of one group.
static void group_as_bf16(const struct random_job *j, int64_t group, int64_t n, uint16_t *out)
{
    struct random_range r = {j->seed, j->stream, group, n};
    uint32_t words[RANDOM_GROUP];
    float normal[RANDOM_GROUP];
    if (j->what == RANDOM_UNIT)
        kernels->random_words(&r, words);
    else
        kernels->random_normal(&r, normal);
    for (int64_t i = 0; i < n; i++) // 8 bits: more would round up to 1
        out[i] =
            f32_to_bf16(j->what == RANDOM_UNIT ? (float)(words[i] >> 24) * 0x1p-8f : normal[i]);
}

static void random_element(const struct random_job *j, int64_t i)
{
    uint64_t at = (uint64_t)i;
    if (j->what == RANDOM_INT)
        ((int64_t *)j->out->data)[i] =
            (int64_t)((uint64_t)j->low + rng_below(j->seed, j->stream, at, j->span));
    else if (j->what == RANDOM_UNIT)
        ((double *)j->out->data)[i] = rng_unit(j->seed, j->stream, at);
    else
        ((double *)j->out->data)[i] = rng_normal(j->seed, j->stream, at);
}

static void random_groups(void *ctx, int64_t from, int64_t to)
{
    const struct random_job *j = ctx;
    int64_t at = from * RANDOM_GROUP, end = MIN(to * RANDOM_GROUP, j->out->numel);
    struct random_range r = {j->seed, j->stream, from, end - at};
    if (j->out->dtype == DET_F32) {
        float *out = (float *)j->out->data + at;
        if (j->what == RANDOM_UNIT)
            kernels->random_unit(&r, out);
        else
            kernels->random_normal(&r, out);
        return;
    }
    for (int64_t i = at; i < end && j->out->dtype == DET_BF16; i += RANDOM_GROUP)
        group_as_bf16(j, i / RANDOM_GROUP, MIN(end - i, RANDOM_GROUP),
                      (uint16_t *)j->out->data + i);
    for (int64_t i = at; i < end && j->out->dtype != DET_BF16; i++)
        random_element(j, i);
}

static det_tensor *random_fill(struct random_job *j, det_tensor *t)
{
    if (!t) return NULL;
    j->out = t;
    j->seed = tape_get()->rng.seed;
    j->stream = rng_next_stream();
    share_rows((t->numel + RANDOM_GROUP - 1) / RANDOM_GROUP, 4 * RANDOM_GROUP, random_groups, j);
    return t;
}

static det_tensor *random_floats(const char *name, struct random_job j, det_dtype dtype,
                                 const int64_t *shape, int ndim)
{
    if (!dtype_is_float(dtype)) {
        det_raise(DET_EDTYPE, "%s: not for %s", name, det_dtype_name(dtype));
        return NULL;
    }
    return random_fill(&j, det_empty(dtype, shape, ndim));
}

det_tensor *det_rand(det_dtype dtype, const int64_t *shape, int ndim)
{
    return random_floats("rand", (struct random_job){.what = RANDOM_UNIT}, dtype, shape, ndim);
}

det_tensor *det_randn(det_dtype dtype, const int64_t *shape, int ndim)
{
    return random_floats("randn", (struct random_job){.what = RANDOM_NORMAL}, dtype, shape, ndim);
}

det_tensor *det_randint(int64_t low, int64_t high, const int64_t *shape, int ndim)
{
    if (low >= high) {
        det_raise(DET_EINVAL, "randint: nothing between %lld and %lld", (long long)low,
                  (long long)high);
        return NULL;
    }
    struct random_job j = {.what = RANDOM_INT, .low = low, .span = (uint64_t)high - (uint64_t)low};
    return random_fill(&j, det_empty(DET_I64, shape, ndim));
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
