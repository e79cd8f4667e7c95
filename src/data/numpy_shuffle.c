// Unit numpy_shuffle.c: the order that numpy.random.RandomState(seed).shuffle gives, pass after
// pass.
//
// The generator goes on from one pass to the next, so a pass costs all those before it: the last
// two are kept (workers near the end of an epoch read both), and going back starts again.
#include "data/sampler.h"

#include "base/mem.h"
#include <pthread.h>

// MT19937: Matsumoto, Nishimura: "Mersenne Twister" (ACM TOMACS 1998).
enum { MT_WORDS = 624, MT_MIDDLE = 397 };

struct twister {
    uint32_t word[MT_WORDS];
    int used;
};

static void twister_seed(struct twister *t, uint32_t seed)
{
    t->word[0] = seed;
    for (uint32_t i = 1; i < MT_WORDS; i++)
        t->word[i] = 1812433253u * (t->word[i - 1] ^ t->word[i - 1] >> 30) + i;
    t->used = MT_WORDS;
}

static void twister_refill(struct twister *t)
{
    for (int i = 0; i < MT_WORDS; i++) {
        uint32_t y = (t->word[i] & 0x80000000u) | (t->word[(i + 1) % MT_WORDS] & 0x7fffffffu);
        t->word[i] = t->word[(i + MT_MIDDLE) % MT_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->used = 0;
}

static uint32_t twister_next(struct twister *t)
{
    if (t->used == MT_WORDS) twister_refill(t);
    uint32_t y = t->word[t->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

// Uniform in 0 .. max: as many bits as max has, drawn again until they are not above it.
static uint64_t twister_upto(struct twister *t, uint64_t max)
{
    uint64_t mask = max ? UINT64_MAX >> __builtin_clzll(max) : 0, value;
    do {
        value = twister_next(t);
        if (max > UINT32_MAX) value = value << 32 | twister_next(t);
        value &= mask;
    } while (value > max);
    return value;
}

struct numpy_shuffle {
    det_sampler base;
    uint32_t seed;
    pthread_mutex_t lock; // of all below
    struct twister twister;
    uint64_t n_passes; // made so far
    int64_t *order[2]; // pass p is in order[p % 2]
};

static void next_pass(struct numpy_shuffle *s)
{
    int64_t *order = s->order[s->n_passes++ % 2];
    for (int64_t i = 0; i < s->base.length; i++)
        order[i] = i;
    for (int64_t i = s->base.length - 1; i > 0; i--) {
        int64_t j = (int64_t)twister_upto(&s->twister, (uint64_t)i), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

static void numpy_fill(const det_sampler *sampler, uint64_t epoch, int64_t first, int64_t n,
                       int64_t *out)
{
    struct numpy_shuffle *s = (struct numpy_shuffle *)(uintptr_t)sampler; // what changes has a lock
    pthread_mutex_lock(&s->lock);
    if (epoch + 2 < s->n_passes) {
        twister_seed(&s->twister, s->seed);
        s->n_passes = 0;
    }
    while (s->n_passes <= epoch)
        next_pass(s);
    memcpy(out, s->order[epoch % 2] + first, (size_t)n * sizeof *out);
    pthread_mutex_unlock(&s->lock);
}

static void numpy_free(det_sampler *sampler)
{
    struct numpy_shuffle *s = (struct numpy_shuffle *)sampler;
    free(s->order[0]);
    free(s->order[1]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

det_sampler *det_sampler_numpy_shuffle(int64_t n, uint64_t seed)
{
    static const struct sampler_ops ops = {.fill = numpy_fill, .free = numpy_free};
    if (!sampler_check_length(n, "det_sampler_numpy_shuffle")) return NULL;
    if (seed > UINT32_MAX) {
        det_raise(DET_EINVAL, "det_sampler_numpy_shuffle: seed %llu; NumPy takes 0 to 4294967295",
                  (unsigned long long)seed);
        return NULL;
    }
    struct numpy_shuffle *s = xcalloc(1, sizeof *s);
    s->base = (det_sampler){.ops = &ops, .length = n};
    s->seed = (uint32_t)seed;
    for (int i = 0; i < 2; i++)
        s->order[i] = xcalloc((size_t)n + 1, sizeof *s->order[i]);
    pthread_mutex_init(&s->lock, NULL);
    twister_seed(&s->twister, s->seed);
    return &s->base;
}
