// Unit sampler.c: sequences of indices, all of them pure functions of (seed, epoch, position).
#include "data/sampler.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>

bool sampler_check_length(int64_t length, const char *function)
{
    if (length >= 0) return true;
    det_raise(DET_EINVAL, "%s: the length is %lld", function, (long long)length);
    return false;
}

void sampler_fill(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n, int64_t *out)
{
    s->ops->fill(s, epoch, first, n, out);
}

int64_t det_sampler_length(const det_sampler *s)
{
    return s ? s->length : 0;
}

int64_t det_sampler_at(const det_sampler *s, uint64_t epoch, int64_t index)
{
    int64_t at = -1;
    if (s && index >= 0 && index < s->length) sampler_fill(s, epoch, index, 1, &at);
    return at;
}

void det_sampler_free(det_sampler *s)
{
    if (s) s->ops->free(s);
}

static void free_memory(det_sampler *s)
{
    free(s);
}

// --- one after another

static void sequential_fill(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n,
                            int64_t *out)
{
    (void)s;
    (void)epoch;
    for (int64_t i = 0; i < n; i++)
        out[i] = first + i;
}

det_sampler *det_sampler_sequential(int64_t n)
{
    static const struct sampler_ops ops = {.fill = sequential_fill, .free = free_memory};
    if (!sampler_check_length(n, "det_sampler_sequential")) return NULL;
    det_sampler *s = xmalloc(sizeof *s);
    *s = (det_sampler){.ops = &ops, .length = n};
    return s;
}

// --- shuffled
//
// A Feistel network is a permutation of the numbers of some bits, whatever its round function is.
// Numbers beyond the length are sent through again until they come out below it ("cycle walking",
// Black and Rogaway: "Ciphers with arbitrary finite domains", 2002), fewer than two times on
// average.

enum { FEISTEL_ROUNDS = 8 };

struct permutation {
    uint64_t length;
    int low_bits, high_bits;
    uint64_t key, key_step; // of the rounds: key, key + key_step, ...
};

static struct permutation permutation_of(uint64_t length, uint64_t seed, uint64_t epoch)
{
    int bits = length > 2 ? 64 - __builtin_clzll(length - 1) : 2;
    struct permutation p = {.length = length, .low_bits = bits / 2, .high_bits = bits - bits / 2};
    struct rng_block b = rng_philox(seed, epoch, 0);
    p.key = (uint64_t)b.word[1] << 32 | b.word[0];
    p.key_step = (uint64_t)b.word[3] << 32 | b.word[2] | 1;
    return p;
}

// The low part, mixed with the key, changes the high part; then they change places.
static uint64_t feistel(const struct permutation *p, uint64_t x)
{
    int low = p->low_bits, high = p->high_bits;
    uint64_t key = p->key;
    for (int round = 0; round < FEISTEL_ROUNDS; round++, key += p->key_step) {
        uint64_t right = x & (((uint64_t)1 << low) - 1), left = x >> low;
        uint64_t mixed = (right ^ key) * 0x9E3779B97F4A7C15u;
        mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u;
        left ^= mixed >> (64 - high);
        x = right << high | left;
        int swapped = low;
        low = high;
        high = swapped;
    }
    return x;
}

struct shuffle {
    det_sampler base;
    uint64_t seed;
};

static void shuffle_fill(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n,
                         int64_t *out)
{
    struct permutation p =
        permutation_of((uint64_t)s->length, ((const struct shuffle *)s)->seed, epoch);
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)(first + i);
        do
            x = feistel(&p, x);
        while (x >= p.length);
        out[i] = (int64_t)x;
    }
}

det_sampler *det_sampler_shuffle(int64_t n, uint64_t seed)
{
    static const struct sampler_ops ops = {.fill = shuffle_fill, .free = free_memory};
    if (!sampler_check_length(n, "det_sampler_shuffle")) return NULL;
    struct shuffle *s = xmalloc(sizeof *s);
    *s = (struct shuffle){.base = {.ops = &ops, .length = n}, .seed = seed};
    return &s->base;
}

// --- with probabilities

struct weighted {
    det_sampler base;
    uint64_t seed;
    int64_t n_weights;
    double *sum; // of the weights up to and with this one
};

// The first index whose sum is above u; an index of weight 0 never is.
static int64_t find_sum(const struct weighted *w, double u)
{
    int64_t low = 0, high = w->n_weights - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (w->sum[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void weighted_fill(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n,
                          int64_t *out)
{
    const struct weighted *w = (const struct weighted *)s;
    double total = w->sum[w->n_weights - 1];
    for (int64_t i = 0; i < n; i++)
        out[i] = find_sum(w, total * rng_unit(w->seed, epoch, (uint64_t)(first + i)));
}

static void weighted_free(det_sampler *s)
{
    free(((struct weighted *)s)->sum);
    free(s);
}

// Sums of the weights; NULL, and the sticky error is set, if they are no probabilities. Trailing
// zeros are cut off (*n becomes smaller), so that rounding cannot choose one of them.
static double *sums_of(const double *weights, int64_t *n)
{
    double total = 0;
    int64_t n_used = 0;
    double *sum = xcalloc((size_t)*n + 1, sizeof *sum);
    for (int64_t i = 0; i < *n; i++) {
        if (!(weights[i] >= 0) || isinf(weights[i])) {
            det_raise(DET_EINVAL, "det_sampler_weighted: weight %lld is %g", (long long)i,
                      weights[i]);
            free(sum);
            return NULL;
        }
        sum[i] = total += weights[i];
        if (weights[i] > 0) n_used = i + 1;
    }
    *n = n_used;
    if (total > 0 && !isinf(total)) return sum;
    det_raise(DET_EINVAL, "det_sampler_weighted: the sum of the weights is %g", total);
    free(sum);
    return NULL;
}

det_sampler *det_sampler_weighted(const double *weights, int64_t n, int64_t n_samples,
                                  uint64_t seed)
{
    static const struct sampler_ops ops = {.fill = weighted_fill, .free = weighted_free};
    if (!sampler_check_length(n, "det_sampler_weighted, weights") ||
        !sampler_check_length(n_samples, "det_sampler_weighted"))
        return NULL;
    double *sum = sums_of(weights, &n);
    if (!sum) return NULL;
    struct weighted *w = xmalloc(sizeof *w);
    *w = (struct weighted){
        .base = {.ops = &ops, .length = n_samples}, .seed = seed, .n_weights = n, .sum = sum};
    return &w->base;
}

// --- the user's

struct user_sampler {
    det_sampler base;
    det_sampler_ops ops;
    void *self;
};

static void user_fill(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n, int64_t *out)
{
    const struct user_sampler *u = (const struct user_sampler *)s;
    for (int64_t i = 0; i < n; i++)
        out[i] = u->ops.at(u->self, epoch, first + i);
}

static void user_free(det_sampler *s)
{
    struct user_sampler *u = (struct user_sampler *)s;
    if (u->ops.free) u->ops.free(u->self);
    free(u);
}

det_sampler *det_sampler_new(const det_sampler_ops *ops, void *self)
{
    static const struct sampler_ops user_ops = {.fill = user_fill, .free = user_free};
    bool complete = ops && ops->length && ops->at;
    int64_t length = complete ? ops->length(self) : 0;
    if (!complete) det_raise(DET_EINVAL, "det_sampler_new: a sampler needs length and at");
    if (!complete || !sampler_check_length(length, "det_sampler_new")) {
        if (ops && ops->free) ops->free(self);
        return NULL;
    }
    struct user_sampler *u = xmalloc(sizeof *u);
    *u = (struct user_sampler){
        .base = {.ops = &user_ops, .length = length}, .ops = *ops, .self = self};
    return &u->base;
}
