// Unit attention.c: softmax over rows of attention scores, its gradient, and dropout of the
// weights.
#include "tensor/kernels/kernels.h"

#include "base/rng.h"
#include "tensor/kernels/vmath.h"

// Keys that row i sees.
INLINE int64_t visible(const struct attention_rows *a, int64_t i)
{
    int64_t n = a->causal ? a->first_query + i + 1 : a->keys;
    return n < a->keys ? n : a->keys;
}

static void scale_and_mask(const struct attention_rows *a, int64_t i, int64_t n, float *s)
{
    const float scale = a->scale;
    if (a->bias) {
        const float *bias = a->bias + i * a->mask_stride;
        VECTOR_LOOP
        for (int64_t j = 0; j < n; j++)
            s[j] = s[j] * scale + bias[j];
    } else if (a->allowed) {
        const uint8_t *allowed = a->allowed + i * a->mask_stride;
        VECTOR_LOOP
        for (int64_t j = 0; j < n; j++)
            s[j] = allowed[j] ? s[j] * scale : -INFINITY;
    } else {
        VECTOR_LOOP
        for (int64_t j = 0; j < n; j++)
            s[j] *= scale;
    }
}

// Whole vectors from here on: rows are padded to a multiple of LANES, and what no key stands behind
// has a score of -infinity and a weight of 0.

static int64_t whole_vectors(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static void pad(float *s, int64_t n)
{
    for (int64_t j = n; j < whole_vectors(n); j++)
        s[j] = -INFINITY;
}

static float row_max(const float *s, int64_t n)
{
    vf m = vf_load(s);
    for (int64_t j = LANES; j < n; j += LANES)
        m = vf_select(m > vf_load(s + j), m, vf_load(s + j));
    return vf_largest(m);
}

static float row_sum(const float *s, int64_t n)
{
    vf sum = {0};
    for (int64_t j = 0; j < n; j += LANES)
        sum += vf_load(s + j);
    return vf_sum(sum);
}

static void exp_minus(float *s, int64_t n, float m, float factor)
{
    VECTOR_LOOP
    for (int64_t j = 0; j < n; j++)
        s[j] = vm_exp(s[j] - m) * factor;
}

static void clear(float *s, int64_t from, int64_t to)
{
    if (from < to) memset(s + from, 0, (size_t)(to - from) * sizeof *s);
}

// Where all keys are hidden the softmax is NaN, and no score is more than -infinity: such a row
// passes no gradient.
static bool sees_nothing(const struct attention_rows *a, int64_t i)
{
    return a->largest[i] == -INFINITY;
}

// -infinity only if no score is NaN: a comparison with NaN may have lost it.
static float largest_score(const float *s, int64_t n)
{
    const float most = row_max(s, n);
    for (int64_t j = 0; j < n && most == -INFINITY; j++)
        if (s[j] != s[j]) return s[j];
    return most;
}

// score becomes exp(score * scale + mask - largest); divided by `sum` that is the softmax.
void KERNEL(attention_softmax)(const struct attention_rows *a)
{
    for (int64_t i = 0; i < a->rows; i++) {
        float *s = a->score + i * a->ld;
        const int64_t n = visible(a, i), whole = whole_vectors(n);
        scale_and_mask(a, i, n, s);
        pad(s, n);
        a->largest[i] = largest_score(s, whole);
        exp_minus(s, whole, a->largest[i], 1);
        clear(s, whole, a->keys);
        a->sum[i] = row_sum(s, whole);
    }
}

// The softmax again, with the sums known. Not from largest + log(sum), one number: where scores are
// in the thousands its last digit is 1e-4 of every weight.
void KERNEL(attention_weights)(const struct attention_rows *a)
{
    for (int64_t i = 0; i < a->rows; i++) {
        float *s = a->score + i * a->ld;
        const int64_t n = visible(a, i), whole = whole_vectors(n);
        if (sees_nothing(a, i)) {
            clear(s, 0, a->ld);
            continue;
        }
        scale_and_mask(a, i, n, s);
        pad(s, n);
        exp_minus(s, whole, a->largest[i], 1 / a->sum[i]);
        clear(s, whole, a->keys);
    }
}

static float row_dot(const float *a, const float *b, int64_t n)
{
    vf sum = {0};
    for (int64_t j = 0; j < n; j += LANES)
        sum += vf_load(a + j) * vf_load(b + j);
    return vf_sum(sum);
}

// grad of the weights -> grad of q k^T
void KERNEL(attention_grad)(const struct attention_rows *a)
{
    const float scale = a->scale;
    for (int64_t i = 0; i < a->rows; i++) {
        const float *p = a->score + i * a->ld;
        float *g = a->grad + i * a->ld;
        const int64_t n = visible(a, i), whole = whole_vectors(n);
        if (sees_nothing(a, i)) clear(g, 0, whole); // whatever came: it may be NaN
        const float mean = row_dot(p, g, whole);
        if (a->bias_grad) {
            float *to = a->bias_grad + i * a->bias_grad_stride;
            for (int64_t j = 0; j < n; j++)
                to[j] = p[j] * (g[j] - mean);
        }
        VECTOR_LOOP
        for (int64_t j = 0; j < whole; j++)
            g[j] = p[j] * (g[j] - mean) * scale;
        clear(g, whole, a->keys);
    }
}

// Divides row i by sum[i].
void KERNEL(attention_divide)(float *rows, int64_t stride, int64_t n_rows, int64_t n,
                              const float *sum)
{
    for (int64_t i = 0; i < n_rows; i++) {
        const float factor = 1 / sum[i];
        VECTOR_LOOP
        for (int64_t j = 0; j < n; j++)
            rows[i * stride + j] *= factor;
    }
}

// Zeroes each of the n first elements of a row with probability p and divides the others by 1 - p.
// The same row gives the same choice. A block of random bits serves four elements, a quarter of n
// apart.
void KERNEL(attention_drop)(const struct attention_dropout *d, int64_t row, float *x, int64_t n)
{
    const int64_t quarter = (n + 3) / 4, first = row * d->row_blocks;
    const uint32_t threshold = (uint32_t)(d->p * 4294967295.0);
    const float keep = (float)(1 / (1 - d->p));
    for (int64_t b = 0; b < quarter; b++) {
        struct rng_block bits = rng_philox(d->seed, d->stream, (uint64_t)(first + b));
        for (int64_t w = 0, j = b; w < 4 && j < n; w++, j += quarter)
            x[j] = bits.word[w] < threshold ? 0 : x[j] * keep;
    }
}
