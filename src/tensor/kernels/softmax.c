// Unit softmax.c: rows of exponentials.
//
// Loops are over STEP independent lanes, which the compiler turns into vectors. In a long row the
// lanes are neighbouring elements; the last step overlaps the one before it instead of being
// shorter. Rows shorter than a step are taken STEP at a time, transposed, so that every lane is a
// row of its own.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/vmath.h"

enum { STEP = 32, SUM_BLOCK = 128 * STEP };

#define LANES_LOOP VECTOR_LOOP for (int j = 0; j < STEP; j++)

INLINE float lanes_sum(float *v)
{
    for (int half = STEP / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            v[j] += v[j + half];
    return v[0];
}

INLINE float lanes_max(float *v)
{
    for (int half = STEP / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            v[j] = v[j] > v[j + half] ? v[j] : v[j + half];
    return v[0];
}

// --- long rows

// Where the step that covers element i starts, in a row that ends at n.
INLINE int64_t step_at(int64_t i, int64_t n)
{
    return i + STEP <= n ? i : n - STEP;
}

INLINE float row_max(const void *x, const bool bf16, int64_t n)
{
    float max[STEP];
    LANES_LOOP max[j] = load_as(x, bf16, j);
    for (int64_t i = STEP; i < n; i += STEP) {
        int64_t at = step_at(i, n);
        LANES_LOOP
        {
            float v = load_as(x, bf16, at + j);
            max[j] = v > max[j] ? v : max[j];
        }
    }
    return lanes_max(max);
}

// The sum of exp(x - m); y gets the exponentials if they are to be kept.
INLINE float exp_sum(const void *x, const bool bf16, int64_t n, float m, const bool keep, float *y)
{
    float total = 0;
    for (int64_t block = 0; block < n; block += SUM_BLOCK) {
        int64_t end = n - block < SUM_BLOCK ? n : block + SUM_BLOCK;
        float sum[STEP] = {0};
        for (int64_t i = block; i < end; i += STEP) {
            int64_t at = step_at(i, n);
            const int seen = (int)(i - at); // lanes of the step before
            LANES_LOOP
            {
                float e = vm_exp(load_as(x, bf16, at + j) - m);
                if (keep) y[at + j] = e;
                sum[j] += j < seen ? 0 : e;
            }
        }
        total += lanes_sum(sum);
    }
    return total;
}

INLINE void scaled_exp_row(const void *x, const bool bf16, int64_t n, const struct scaled_exp *s,
                           void *y)
{
    const float m = s->centre, a = s->factor, b = s->minus;
    for (int64_t i = 0; i < n; i += STEP) {
        int64_t at = step_at(i, n);
        LANES_LOOP store_as(y, bf16, at + j, a * vm_exp(load_as(x, bf16, at + j) - m) - b);
    }
}

INLINE void softmax_row(const void *x, const bool bf16, int64_t n, void *y)
{
    float m = row_max(x, bf16, n);
    if (bf16) { // y cannot hold the exponentials without rounding them
        struct scaled_exp s = {.centre = m, .factor = 1 / exp_sum(x, bf16, n, m, false, NULL)};
        scaled_exp_row(x, bf16, n, &s, y);
        return;
    }
    float scale = 1 / exp_sum(x, bf16, n, m, true, y), *out = y;
    VECTOR_LOOP
    for (int64_t i = 0; i < n; i++)
        out[i] *= scale;
}

// x - m - log(sum), from left to right: m + log(sum) would round away the small part.
INLINE void log_softmax_row(const void *x, const bool bf16, int64_t n, void *y)
{
    float m = row_max(x, bf16, n), log_sum = vm_log(exp_sum(x, bf16, n, m, false, NULL));
    VECTOR_LOOP
    for (int64_t i = 0; i < n; i++)
        store_as(y, bf16, i, load_as(x, bf16, i) - m - log_sum);
}

// The sum of g, or of g * y.
INLINE float grad_sum(const void *y, const void *g, const bool bf16, int64_t n, const bool times_y)
{
    float total = 0;
    for (int64_t block = 0; block < n; block += SUM_BLOCK) {
        int64_t end = n - block < SUM_BLOCK ? n : block + SUM_BLOCK;
        float sum[STEP] = {0};
        for (int64_t i = block; i < end; i += STEP) {
            int64_t at = step_at(i, n);
            const int seen = (int)(i - at);
            LANES_LOOP
            {
                float v = load_as(g, bf16, at + j) * (times_y ? load_as(y, bf16, at + j) : 1);
                sum[j] += j < seen ? 0 : v;
            }
        }
        total += lanes_sum(sum);
    }
    return total;
}

INLINE void softmax_grad_row(const void *y, const void *g, const bool bf16, int64_t n, void *gx)
{
    float dot = grad_sum(y, g, bf16, n, true);
    VECTOR_LOOP
    for (int64_t i = 0; i < n; i++)
        store_as(gx, bf16, i, load_as(y, bf16, i) * (load_as(g, bf16, i) - dot));
}

INLINE void log_softmax_grad_row(const void *y, const void *g, const bool bf16, int64_t n, void *gx)
{
    float sum = grad_sum(y, g, bf16, n, false);
    for (int64_t i = 0; i < n; i += STEP) {
        int64_t at = step_at(i, n);
        LANES_LOOP store_as(gx, bf16, at + j,
                            load_as(g, bf16, at + j) - vm_exp(load_as(y, bf16, at + j)) * sum);
    }
}

// --- short rows, transposed: t[column][row]

typedef float tile[STEP][STEP];

// rows <= STEP rows of n < STEP elements; missing rows repeat the last one.
INLINE void tile_load(const void *x, const bool bf16, int64_t rows, int64_t n, tile t)
{
    for (int j = 0; j < STEP; j++) {
        int64_t row = j < rows ? j : rows - 1;
        for (int64_t c = 0; c < n; c++)
            t[c][j] = load_as(x, bf16, row * n + c);
    }
}

INLINE void tile_store(void *y, const bool bf16, int64_t rows, int64_t n, tile t)
{
    for (int64_t j = 0; j < rows; j++)
        for (int64_t c = 0; c < n; c++)
            store_as(y, bf16, j * n + c, t[c][j]);
}

// t becomes exp(t - max).
INLINE void tile_exp(tile t, int64_t n, float *max, float *sum)
{
    LANES_LOOP max[j] = t[0][j], sum[j] = 0;
    for (int64_t c = 1; c < n; c++)
        LANES_LOOP max[j] = t[c][j] > max[j] ? t[c][j] : max[j];
    for (int64_t c = 0; c < n; c++)
        LANES_LOOP
        {
            t[c][j] = vm_exp(t[c][j] - max[j]);
            sum[j] += t[c][j];
        }
}

INLINE void softmax_tile(tile t, int64_t n)
{
    float max[STEP], sum[STEP];
    tile_exp(t, n, max, sum);
    LANES_LOOP sum[j] = 1 / sum[j];
    for (int64_t c = 0; c < n; c++)
        LANES_LOOP t[c][j] *= sum[j];
}

INLINE void log_softmax_tile(tile t, int64_t n)
{
    float max[STEP], sum[STEP];
    tile e;
    memcpy(e, t, (size_t)n * sizeof *e);
    tile_exp(e, n, max, sum);
    LANES_LOOP sum[j] = vm_log(sum[j]);
    for (int64_t c = 0; c < n; c++)
        LANES_LOOP t[c][j] = t[c][j] - max[j] - sum[j];
}

INLINE void softmax_grad_tile(tile y, tile g, int64_t n, const bool log_of_it)
{
    float sum[STEP] = {0};
    for (int64_t c = 0; c < n; c++)
        LANES_LOOP sum[j] += log_of_it ? g[c][j] : g[c][j] * y[c][j];
    for (int64_t c = 0; c < n; c++)
        LANES_LOOP g[c][j] =
            log_of_it ? g[c][j] - vm_exp(y[c][j]) * sum[j] : y[c][j] * (g[c][j] - sum[j]);
}

// --- kernels

INLINE void long_rows(const enum softmax_id id, const bool bf16, const struct softmax_rows *r)
{
    const int64_t bytes = bf16 ? 2 : 4, n = r->n;
    for (int64_t at = 0; at < r->n_rows * n * bytes; at += n * bytes) {
        const char *in = (const char *)r->in + at, *g = (const char *)r->g + at;
        char *out = (char *)r->out + at;
        if (id == SOFTMAX) softmax_row(in, bf16, n, out);
        if (id == LOG_SOFTMAX) log_softmax_row(in, bf16, n, out);
        if (id == SOFTMAX_GRAD) softmax_grad_row(in, g, bf16, n, out);
        if (id == LOG_SOFTMAX_GRAD) log_softmax_grad_row(in, g, bf16, n, out);
    }
}

INLINE void short_rows(const enum softmax_id id, const bool bf16, const struct softmax_rows *r)
{
    const int64_t bytes = bf16 ? 2 : 4, n = r->n;
    for (int64_t row = 0; row < r->n_rows; row += STEP) {
        int64_t rows = r->n_rows - row < STEP ? r->n_rows - row : STEP, at = row * n * bytes;
        tile t, g;
        tile_load((const char *)r->in + at, bf16, rows, n, t);
        if (id == SOFTMAX) softmax_tile(t, n);
        if (id == LOG_SOFTMAX) log_softmax_tile(t, n);
        if (id == SOFTMAX_GRAD || id == LOG_SOFTMAX_GRAD) {
            tile_load((const char *)r->g + at, bf16, rows, n, g);
            softmax_grad_tile(t, g, n, id == LOG_SOFTMAX_GRAD);
            tile_store((char *)r->out + at, bf16, rows, n, g);
        } else {
            tile_store((char *)r->out + at, bf16, rows, n, t);
        }
    }
}

INLINE void softmax_as(const enum softmax_id id, const bool bf16, const struct softmax_rows *r)
{
    if (r->n < STEP)
        short_rows(id, bf16, r);
    else
        long_rows(id, bf16, r);
}

#define SOFTMAX_CASE(id)              \
    case id:                          \
        if (bf16)                     \
            softmax_as(id, true, r);  \
        else                          \
            softmax_as(id, false, r); \
        break;
void KERNEL(softmax)(enum softmax_id id, bool bf16, const struct softmax_rows *r)
{
    switch (id) {
        SOFTMAX_CASE(SOFTMAX)
        SOFTMAX_CASE(LOG_SOFTMAX)
        SOFTMAX_CASE(SOFTMAX_GRAD)
        SOFTMAX_CASE(LOG_SOFTMAX_GRAD)
    }
}

INLINE void log_sum_exp_as(const void *x, const bool bf16, int64_t n_rows, int64_t n, double *out)
{
    const int64_t bytes = bf16 ? 2 : 4;
    for (int64_t row = 0; row < n_rows && n >= STEP; row++) {
        const char *at = (const char *)x + row * n * bytes;
        float m = row_max(at, bf16, n);
        out[row] = (double)m + vm_log(exp_sum(at, bf16, n, m, false, NULL));
    }
    for (int64_t row = 0; row < n_rows && n < STEP; row += STEP) {
        int64_t rows = n_rows - row < STEP ? n_rows - row : STEP;
        float max[STEP], sum[STEP];
        tile t;
        tile_load((const char *)x + row * n * bytes, bf16, rows, n, t);
        tile_exp(t, n, max, sum);
        LANES_LOOP sum[j] = vm_log(sum[j]);
        for (int64_t j = 0; j < rows; j++)
            out[row + j] = (double)max[j] + sum[j];
    }
}

void KERNEL(log_sum_exp)(const void *x, bool bf16, int64_t n_rows, int64_t n, double *out)
{
    if (bf16)
        log_sum_exp_as(x, true, n_rows, n, out);
    else
        log_sum_exp_as(x, false, n_rows, n, out);
}

INLINE void scaled_exp_as(const struct softmax_rows *r, const bool bf16, const struct scaled_exp *s)
{
    const int64_t bytes = bf16 ? 2 : 4, n = r->n;
    for (int64_t row = 0; row < r->n_rows && n >= STEP; row++)
        scaled_exp_row((const char *)r->in + row * n * bytes, bf16, n, s + row,
                       (char *)r->out + row * n * bytes);
    for (int64_t row = 0; row < r->n_rows && n < STEP; row += STEP) {
        int64_t rows = r->n_rows - row < STEP ? r->n_rows - row : STEP, at = row * n * bytes;
        struct scaled_exp lane[STEP];
        tile t;
        tile_load((const char *)r->in + at, bf16, rows, n, t);
        for (int j = 0; j < STEP; j++)
            lane[j] = s[row + (j < rows ? j : rows - 1)];
        for (int64_t c = 0; c < n; c++)
            LANES_LOOP t[c][j] = lane[j].factor * vm_exp(t[c][j] - lane[j].centre) - lane[j].minus;
        tile_store((char *)r->out + at, bf16, rows, n, t);
    }
}

void KERNEL(scaled_exp)(const struct softmax_rows *r, bool bf16, const struct scaled_exp *s)
{
    if (bf16)
        scaled_exp_as(r, true, s);
    else
        scaled_exp_as(r, false, s);
}
