// Unit pooling.c: max pooling, forwards and backwards, and the sparse sums behind a pooled
// convolution.
#include "tensor/kernels/pooling.h"

#include "base/assert.h"
#include "tensor/kernels/kernels.h"

static bool outside(int64_t at, int64_t size)
{
    return at < 0 || at >= size;
}

// A vector of channels of one window: the winner's value and index. The first of equals wins; NaN
// beats everything.
struct max_window {
    int64_t kh, kw;
    bool whole; // all of it is inside the image
};

INLINE void window_max(const struct pool_row *p, const struct max_window k, int64_t x0, int64_t c,
                       const int width, vf *best, vi *index)
{
    vf b = vf_set1(-__builtin_inff());
    vi at = {0};
    bool first = true;
    UNROLL(2)
    for (int64_t ky = 0; ky < k.kh; ky++) {
        if (!k.whole && outside(p->y0 + ky, p->h)) continue;
        UNROLL(2)
        for (int64_t kx = 0; kx < k.kw; kx++) {
            if (!k.whole && outside(x0 + kx, p->w)) continue;
            const float *from = p->image + ((p->y0 + ky) * p->w + x0 + kx) * p->c + c;
            vf v = width == LANES ? vf_load(from) : vf_load_n(from, width);
            vi wins = (v > b) | (v != v);
            if (first) wins = ~(vi){0};
            first = false;
            b = vf_select(wins, v, b);
            at = (wins & (int32_t)(ky * k.kw + kx)) | (at & ~wins);
        }
    }
    *best = b;
    *index = at;
}

INLINE void finish_window(const struct pool_row *p, int64_t i, int64_t c, const int width, vf best,
                          vi index)
{
    if (p->bias) best += width == LANES ? vf_load(p->bias + c) : vf_load_n(p->bias + c, width);
    if (p->relu) best = vf_select(best <= 0, (vf){0}, best);
    float *out = p->out + i * p->c + c;
    if (width == LANES)
        vf_store(out, best);
    else
        vf_store_n(out, best, width);
    if (p->winner) {
        vi_store_bytes(p->winner + i * p->c + c, index, width);
    } else {
        for (int l = 0; l < width; l++)
            p->wide_winner[i * p->c + c + l] = index[l];
    }
}

INLINE void pool_windows(const struct pool_row *p, const struct max_window k)
{
    for (int64_t i = 0; i < p->n; i++) {
        vf best;
        vi index;
        int64_t c = 0;
        for (; c + LANES <= p->c; c += LANES) {
            window_max(p, k, p->x0 + i * p->stride, c, LANES, &best, &index);
            finish_window(p, i, c, LANES, best, index);
        }
        if (c < p->c) {
            window_max(p, k, p->x0 + i * p->stride, c, (int)(p->c - c), &best, &index);
            finish_window(p, i, c, (int)(p->c - c), best, index);
        }
    }
}

void KERNEL(pool_row)(const struct pool_row *p)
{
    bool whole = p->y0 >= 0 && p->y0 + p->kh <= p->h && p->x0 >= 0 &&
                 p->x0 + (p->n - 1) * p->stride + p->kw <= p->w;
    if (whole && p->kh == 2 && p->kw == 2)
        pool_windows(p, (struct max_window){2, 2, true});
    else
        pool_windows(p, (struct max_window){p->kh, p->kw, whole});
}

INLINE void scatter_pixel(const struct pool_row_grad *p, int64_t i, float *to, const int32_t at)
{
    const float *g = p->g + i * p->c;
    if (p->winner) {
        const uint8_t *winner = p->winner + i * p->c;
        VECTOR_LOOP
        for (int64_t c = 0; c < p->c; c++)
            to[c] += winner[c] == at ? g[c] : 0;
    } else {
        const int32_t *winner = p->wide_winner + i * p->c;
        VECTOR_LOOP
        for (int64_t c = 0; c < p->c; c++)
            to[c] += winner[c] == at ? g[c] : 0;
    }
}

void KERNEL(pool_row_grad)(const struct pool_row_grad *p)
{
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t ky = 0; ky < p->kh; ky++) {
            if (outside(p->y0 + ky, p->h)) continue;
            for (int64_t kx = 0; kx < p->kw; kx++) {
                int64_t x = p->x0 + i * p->stride + kx;
                if (outside(x, p->w)) continue;
                scatter_pixel(p, i, p->image + ((p->y0 + ky) * p->w + x) * p->c,
                              (int32_t)(ky * p->kw + kx));
            }
        }
}

// --- behind a pooled convolution

// Sums that stay in registers: there are 32 of them, or 16.
// clang-format off
#if defined(DET_ISA_avx512)
#define EACH_COUNT(X)                                                                    \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25)
enum { MAX_SUMS = 25 };
#else
#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
enum { MAX_SUMS = 13 };
#endif
// clang-format on

// How many of n to do at once, in equal shares.
INLINE int64_t share_of(int64_t n)
{
    int64_t shares = (n + MAX_SUMS - 1) / MAX_SUMS;
    return (n + shares - 1) / shares;
}

INLINE void window_row_by(const struct window_row *r, const int64_t step)
{
    const float *from = r->from;
    const float *a = from + r->offset[0], *b = from + r->offset[1], *c = from + r->offset[2],
                *d = from + r->offset[3];
    float *to = r->to;
    VECTOR_LOOP
    for (int64_t i = 0; i < r->n; i++) {
        to[4 * i] = a[i * step];
        to[4 * i + 1] = b[i * step];
        to[4 * i + 2] = c[i * step];
        to[4 * i + 3] = d[i * step];
    }
}

void KERNEL(window_row)(const struct window_row *r)
{
    if (r->step == 1)
        window_row_by(r, 1);
    else
        window_row_by(r, r->step);
}

// Lane i gets from[index[i] % 4].
INLINE vf pick(const float *from, vi index)
{
#if defined(HAS_AVX512)
    return (vf)_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(from)), (__m512i)index);
#elif defined(DET_ISA_avx2)
    return (vf)_mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)from), (__m256i)index);
#else
    vf v;
    for (int i = 0; i < LANES; i++)
        v[i] = from[index[i] % PICK_WINDOW];
    return v;
#endif
}

// Taps from first on of the channels from c on, fewer than LANES if width says so.
INLINE void pick_taps(const int n, const struct pooled_pick *p, int first, int64_t c, int width)
{
    const int32_t *tap = p->tap + first;
    float *sums = p->sums + first * p->c + c;
    vf s[MAX_SUMS], total = {0};
    UNROLL(25)
    for (int t = 0; t < n; t++)
        s[t] = vf_load_n(sums + t * p->c, width);
    for (int64_t i = 0; i < p->pixels; i++) {
        const float *from = p->windows + p->origin[i];
        const int64_t at = i * p->c + c;
        const vi winner = vi_load_bytes(p->winner + at);
        vf g = vf_load_n(p->g + at, width);
        if (p->y) g = vf_select(vf_load_n(p->y + at, width) <= 0, (vf){0}, g);
        total += g;
        __asm__("" : "+r"(from)); // one pointer; the compiler would add up one per tap
        UNROLL(25)
        for (int t = 0; t < n; t++)
            s[t] += g * pick(from + tap[t], winner);
    }
    UNROLL(25)
    for (int t = 0; t < n; t++)
        vf_store_n(sums + t * p->c, s[t], width);
    if (!first) vf_store_n(p->total + c, vf_load_n(p->total + c, width) + total, width);
}

#define DEFINE_PICK(n)                                                                 \
    static void pick_##n(const struct pooled_pick *p, int first, int64_t c, int width) \
    {                                                                                  \
        if (width == LANES)                                                            \
            pick_taps(n, p, first, c, LANES);                                          \
        else                                                                           \
            pick_taps(n, p, first, c, width);                                          \
    }
EACH_COUNT(DEFINE_PICK)

void KERNEL(pooled_pick)(const struct pooled_pick *p)
{
#define PICK(n) pick_##n,
    static void (*const table[])(const struct pooled_pick *, int, int64_t,
                                 int) = {NULL, EACH_COUNT(PICK)};
    const int share = (int)share_of(p->n_taps);
    for (int64_t c = 0; c < p->c; c += LANES)
        for (int t = 0; t < p->n_taps; t += share) {
            int n = p->n_taps - t < share ? p->n_taps - t : share;
            table[n](p, t, c, p->c - c < LANES ? (int)(p->c - c) : LANES);
        }
}

// sum[i] += over all entries of the images' lists of value * (vector i of x from the offset on):
// `taps` of each of `rows`.
INLINE void sums_of(const int rows, const int taps, const struct sparse_lists *l, int64_t first_row,
                    float *sum)
{
    vf s[MAX_SUMS];
    UNROLL(25)
    for (int i = 0; i < rows * taps; i++)
        s[i] = vf_load(sum + i * LANES);
    for (int64_t image = 0; image < l->n_images; image++) {
        const struct sparse_grad *e = l->list + image * l->list_step;
        const struct sparse_grad *end = e + l->count[image * l->count_step];
        const float *x = l->x + image * l->x_step + first_row * l->row_step;
        for (; e < end; e++) {
            const float *from = x + e->offset, value = e->value;
            UNROLL(5)
            for (int r = 0; r < rows; r++, from += l->row_step) {
                UNROLL(25)
                for (int i = 0; i < taps; i++)
                    s[r * taps + i] += value * vf_load(from + i * LANES);
            }
        }
    }
    UNROLL(25)
    for (int i = 0; i < rows * taps; i++)
        vf_store(sum + i * LANES, s[i]);
}

typedef void (*sums_fn)(const struct sparse_lists *, int64_t, float *);

#define DEFINE_SUMS(rows, taps)                                                                   \
    static void sums_##rows##_##taps(const struct sparse_lists *l, int64_t first_row, float *sum) \
    {                                                                                             \
        sums_of(rows, taps, l, first_row, sum);                                                   \
    }
#define DEFINE_SUMS_OF_ROW(taps) DEFINE_SUMS(1, taps)
EACH_COUNT(DEFINE_SUMS_OF_ROW)
DEFINE_SUMS(2, 3)
DEFINE_SUMS(3, 3)
DEFINE_SUMS(2, 5)
#if defined(DET_ISA_avx512)
DEFINE_SUMS(3, 5)
DEFINE_SUMS(4, 5)
DEFINE_SUMS(5, 5)
#endif

// All taps of a row, any number of them.
static void sums_of_row(const struct sparse_lists *l, int64_t row, float *sum)
{
#define SUMS_OF_ROW(taps) sums_1_##taps,
    static const sums_fn table[] = {NULL, EACH_COUNT(SUMS_OF_ROW)};
    const int64_t share = share_of(l->taps);
    struct sparse_lists part = *l;
    for (int64_t t = 0; t < l->taps; t += share) {
        const int64_t left = l->taps - t, n = left < share ? left : share;
        table[n](&part, row, sum + t * LANES);
        part.x += n * LANES;
    }
}

// Several rows of taps at a time, as many as stay in registers, for the sizes that are common.
void KERNEL(sparse_sums)(const struct sparse_lists *l, float *sum)
{
#if defined(DET_ISA_avx512)
    static const sums_fn fives[] = {NULL, sums_1_5, sums_2_5, sums_3_5, sums_4_5, sums_5_5};
#else
    static const sums_fn fives[] = {NULL, sums_1_5, sums_2_5};
#endif
    static const sums_fn threes[] = {NULL, sums_1_3, sums_2_3, sums_3_3};
    const sums_fn *table = l->taps == 5 ? fives : l->taps == 3 ? threes : NULL;
    const int64_t most = l->taps == 5 ? (int64_t)STATIC_LEN(fives) - 1
                         : table      ? (int64_t)STATIC_LEN(threes) - 1
                                      : 1;
    for (int64_t r = 0; r < l->rows; r += most, sum += most * l->taps * LANES) {
        const int64_t n = l->rows - r < most ? l->rows - r : most;
        if (table)
            table[n](l, r, sum);
        else
            sums_of_row(l, r, sum);
    }
}

enum { CHANNEL_BLOCK = 64 };

// Gradients of one pixel's results, zero where relu stopped them. Returns their number.
INLINE int live_grads(const struct pooled_image *p, int64_t pixel, int64_t c0, float *value)
{
    const int64_t at = pixel * p->c + c0, left = p->c - c0;
    const int n = left < CHANNEL_BLOCK ? (int)left : CHANNEL_BLOCK;
    const float *g = p->g + at;
    if (p->y) {
        const float *y = p->y + at;
        VECTOR_LOOP
        for (int c = 0; c < n; c++)
            value[c] = y[c] <= 0 ? 0 : g[c];
    } else {
        memcpy(value, g, (size_t)n * sizeof *value);
    }
    return n;
}

// Lists of one image's gradients by channel: list[c * pixels ...] with count[c] entries, offsets
// into the image; their sums are added to total.
void KERNEL(sparse_by_channel)(const struct pooled_image *p, struct sparse_grad *list,
                               int32_t *count, float *total)
{
    for (int64_t c0 = 0; c0 < p->c; c0 += CHANNEL_BLOCK) {
        struct sparse_grad *end[CHANNEL_BLOCK]; // where the next entry of a channel goes
        float value[CHANNEL_BLOCK], sum[CHANNEL_BLOCK] = {0};
        int n = 0;
        for (int c = 0; c < CHANNEL_BLOCK && c0 + c < p->c; c++)
            end[c] = list + (c0 + c) * p->pixels;
        for (int64_t i = 0; i < p->pixels; i++) {
            const uint8_t *winner = p->winner + i * p->c + c0;
            n = live_grads(p, i, c0, value);
            VECTOR_LOOP
            for (int c = 0; c < n; c++)
                sum[c] += value[c];
            for (int c = 0; c < n; c++) { // no branches: which gradients are zero is unpredictable
                *end[c] = (struct sparse_grad){value[c], p->origin[i] + p->in_window[winner[c]]};
                end[c] += value[c] != 0;
            }
        }
        for (int c = 0; c < n; c++) {
            count[c0 + c] = (int32_t)(end[c] - (list + (c0 + c) * p->pixels));
            total[c0 + c] += sum[c];
        }
    }
}

// row[0 .. n * LANES + tail) += sum of value * w, entry by entry, all in registers.
INLINE void add_rows_of(const int n, const struct sparse_grad *list, int count, const float *w,
                        float *row, const int tail)
{
    vf s[MAX_SUMS], rest = {0};
    UNROLL(25)
    for (int i = 0; i < n; i++)
        s[i] = vf_load(row + i * LANES);
    if (tail) rest = vf_load_n(row + n * LANES, tail);
    for (int e = 0; e < count; e++) {
        const float *from = w + list[e].offset, value = list[e].value;
        __asm__("" : "+r"(from)); // one pointer; the compiler would make one per vector
        UNROLL(25)
        for (int i = 0; i < n; i++)
            s[i] += value * vf_load(from + i * LANES);
        if (tail) rest += value * vf_load_n(from + n * LANES, tail);
    }
    UNROLL(25)
    for (int i = 0; i < n; i++)
        vf_store(row + i * LANES, s[i]);
    if (tail) vf_store_n(row + n * LANES, rest, tail);
}

#define DEFINE_ROWS(n)                                                                          \
    static void rows_##n(const struct sparse_grad *list, int count, const float *w, float *row, \
                         int tail)                                                              \
    {                                                                                           \
        add_rows_of(n, list, count, w, row, tail);                                              \
    }
DEFINE_ROWS(0)
EACH_COUNT(DEFINE_ROWS)

static void add_row(const struct sparse_grad *list, int count, const float *w, float *row,
                    int64_t len)
{
#define ROWS(n) rows_##n,
    static void (*const table[])(const struct sparse_grad *, int, const float *, float *,
                                 int) = {ROWS(0) EACH_COUNT(ROWS)};
    const int64_t vectors = len / LANES, share = vectors ? share_of(vectors) : 0;
    int64_t v = 0;
    for (; v + share < vectors; v += share)
        table[share](list, count, w + v * LANES, row + v * LANES, 0);
    table[vectors - v](list, count, w + v * LANES, row + v * LANES, (int)(len % LANES));
}

// Lists of one image's gradients by (pixel, winner): list i has count[i] entries from
// i * (c + LIST_SLACK) on, their offsets choose the channel's weights.
#if defined(HAS_AVX512)
INLINE int append(struct sparse_grad *to, __mmask8 live, __m512i pairs)
{
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(live, pairs));
    return __builtin_popcount(live);
}

// The channels of one pixel from c on, 16 or fewer.
INLINE void list_vector(const struct pooled_image *p, int64_t at, int64_t c, int64_t w_step,
                        int n_window, struct sparse_grad *list, int32_t *count)
{
    const int left = p->c - c < LANES ? (int)(p->c - c) : LANES;
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high =
        _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf g = vf_load_n(p->g + at, left);
    if (p->y) g = vf_select(vf_load_n(p->y + at, left) <= 0, (vf){0}, g);
    const __m512i value = (__m512i)g, offset = (__m512i)((lane + (int32_t)c) * (int32_t)w_step);
    const __m512i first = _mm512_permutex2var_epi32(value, low, offset);
    const __m512i second = _mm512_permutex2var_epi32(value, high, offset);
    const vi winner = vi_load_bytes(p->winner + at), live = g != 0;
    for (int k = 0; k < n_window; k++) {
        const uint32_t bits = vi_bits(live & (winner == k));
        struct sparse_grad *to = list + k * (p->c + LIST_SLACK) + count[k];
        const int n = append(to, (__mmask8)bits, first);
        count[k] += n + append(to + n, (__mmask8)(bits >> 8), second);
    }
}
#else
INLINE void list_vector(const struct pooled_image *p, int64_t at, int64_t c, int64_t w_step,
                        int n_window, struct sparse_grad *list, int32_t *count)
{
    (void)n_window;
    for (int64_t i = c; i < p->c && i < c + LANES; i++, at++) { // no branches, as above
        const float g = p->y && p->y[at] <= 0 ? 0 : p->g[at];
        int32_t *end = &count[p->winner[at]];
        list[p->winner[at] * (p->c + LIST_SLACK) + *end] =
            (struct sparse_grad){g, (int32_t)(i * w_step)};
        *end += g != 0;
    }
}
#endif

static void list_by_winner(const struct pooled_image *p, int64_t w_step, int n_window,
                           struct sparse_grad *list, int32_t *count)
{
    memset(count, 0, (size_t)(p->pixels * n_window) * sizeof *count);
    const int64_t step = n_window * (p->c + LIST_SLACK);
    for (int64_t i = 0; i < p->pixels; i++, count += n_window, list += step)
        for (int64_t c = 0; c < p->c; c += LANES)
            list_vector(p, i * p->c + c, c, w_step, n_window, list, count);
}

// Adds to the input's gradient what one image's results send back. w is [kernel row][c][step]; a
// window's input starts at origin, kernel rows are stride apart. Channels with the same winner
// share their input, so each row of it is read and written once for all of them; one kernel row's
// weights are used by all pixels before the next one's.
void KERNEL(sparse_scatter)(const struct pooled_image *p, const struct sparse_weights *w,
                            struct sparse_grad *list, int32_t *count, float *image)
{
    list_by_winner(p, w->step, w->n_window, list, count);
    for (int64_t r = 0; r < w->kernel_rows; r++)
        for (int64_t i = 0; i < p->pixels * w->n_window; i++) {
            if (!count[i]) continue;
            int64_t at = p->origin[i / w->n_window] + p->in_window[i % w->n_window];
            add_row(list + i * (p->c + LIST_SLACK), count[i], w->w + r * p->c * w->step,
                    image + at + r * w->stride, w->len);
        }
}
