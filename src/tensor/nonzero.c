// Unit nonzero.c: what is found by looking at elements, and passes no gradient: which of them are
// not zero (nonzero, any, all), which are different (unique), and drawing by weights (multinomial).
#include "tensor/elementwise.h"
#include "tensor/ops.h"

#include <math.h>

// A constant, finished, row-major tensor of t in that type. NULL after an error.
static det_tensor *plain(const char *what, det_tensor *t, det_dtype dtype)
{
    if (!t && !sticky_failed()) det_raise(DET_EINVAL, "%s: input is NULL", what);
    t = det_contiguous(det_to(det_detach(t), dtype));
    if (t) tensor_finish(t);
    return sticky_failed() ? NULL : t;
}

// --- nonzero

det_tensor *det_nonzero(det_tensor *x)
{
    det_tensor *mask = x && x->dtype != DET_BOOL ? det_ne_scalar(x, 0) : x;
    mask = plain("nonzero", mask, DET_BOOL);
    if (!mask) return NULL;
    const uint8_t *set = mask->data;
    int64_t count = 0;
    for (int64_t i = 0; i < mask->numel; i++)
        count += set[i];
    det_tensor *out = det_empty(DET_I64, DET_DIMS(count, mask->ndim));
    if (!out) return NULL;
    int64_t *to = out->data;
    for (int64_t i = 0; i < mask->numel && mask->ndim; i++) {
        if (!set[i]) continue;
        int64_t rest = i;
        for (int d = mask->ndim; d-- > 0; rest /= mask->shape[d])
            to[d] = rest % mask->shape[d];
        to += mask->ndim;
    }
    return out;
}

// --- any, all

// As many as there are elements that are not zero, or that are; as torch, u8 gives u8.
static det_tensor *of_type(det_tensor *x, det_tensor *answer)
{
    return x && x->dtype == DET_U8 ? det_to(answer, DET_U8) : answer;
}

static det_tensor *set_in(det_tensor *x)
{
    return det_ne_scalar(det_detach(x), 0);
}

det_tensor *det_any(det_tensor *x)
{
    return of_type(x, det_ne_scalar(det_sum(set_in(x)), 0));
}

det_tensor *det_any_over(det_tensor *x, const int64_t *dims, int n, bool keepdim)
{
    return of_type(x, det_ne_scalar(det_sum_over(set_in(x), dims, n, keepdim), 0));
}

det_tensor *det_all(det_tensor *x)
{
    return of_type(x, det_eq_scalar(det_sum(det_logical_not(set_in(x))), 0));
}

det_tensor *det_all_over(det_tensor *x, const int64_t *dims, int n, bool keepdim)
{
    det_tensor *unset = det_logical_not(set_in(x));
    return of_type(x, det_eq_scalar(det_sum_over(unset, dims, n, keepdim), 0));
}

// --- unique

// Whether sorted elements i and i + 1 are the same; no NaN is like another.
static bool is_repeated(const det_tensor *sorted, int64_t i)
{
    if (sorted->dtype == DET_I64)
        return ((const int64_t *)sorted->data)[i] == ((const int64_t *)sorted->data)[i + 1];
    return ((const double *)sorted->data)[i] == ((const double *)sorted->data)[i + 1];
}

// For each sorted element its number among the different ones; returns how many there are.
static int64_t number_distinct(const det_tensor *sorted, int64_t *number)
{
    int64_t n = 0;
    for (int64_t i = 0; i < sorted->numel; i++) {
        if (i && !is_repeated(sorted, i - 1)) n++;
        number[i] = n;
    }
    return sorted->numel ? n + 1 : 0;
}

det_tensor *det_unique(det_tensor *x, det_tensor **inverse, det_tensor **counts)
{
    if (inverse) *inverse = NULL;
    if (counts) *counts = NULL;
    if (!x && !sticky_failed()) det_raise(DET_EINVAL, "unique: input is NULL");
    det_tensor *order = NULL, *flat = det_flatten(det_detach(x), 0, -1);
    det_tensor *sorted = det_sort(flat, 0, false, &order);
    if (!sorted) return NULL;
    bool is_float = dtype_is_float((det_dtype)x->dtype);
    det_tensor *wide = plain("unique", sorted, is_float ? DET_F64 : DET_I64);
    det_tensor *number = det_empty(DET_I64, DET_DIMS(sorted->numel));
    if (!wide || !number) return NULL;
    int64_t n = number_distinct(wide, number->data);
    const int64_t *group = number->data, *from = order->data;
    det_tensor *first = det_zeros(DET_I64, DET_DIMS(n)), *count = det_zeros(DET_I64, DET_DIMS(n));
    det_tensor *back = det_empty(DET_I64, x->shape, x->ndim);
    if (!first || !count || !back) return NULL;
    for (int64_t i = sorted->numel; i-- > 0;) {
        ((int64_t *)first->data)[group[i]] = i;
        ((int64_t *)count->data)[group[i]]++;
        ((int64_t *)back->data)[from[i]] = group[i];
    }
    if (inverse) *inverse = back;
    if (counts) *counts = count;
    return det_index_select(sorted, 0, first);
}

// --- multinomial

static bool are_weights(const det_tensor *w, int64_t n, bool replacement)
{
    int64_t width = w->shape[w->ndim - 1], rows = width ? w->numel / width : 0;
    const double *v = w->data;
    for (int64_t r = 0; r < rows; r++, v += width) {
        double sum = 0;
        int64_t positive = 0;
        for (int64_t i = 0; i < width; i++) {
            if (!(v[i] >= 0) || isinf(v[i])) {
                det_raise(DET_EINVAL, "multinomial: weight %lld of row %lld is %g", (long long)i,
                          (long long)r, v[i]);
                return false;
            }
            sum += v[i];
            positive += v[i] > 0;
        }
        if (sum > 0 && (replacement || positive >= n)) continue;
        det_raise(DET_EINVAL,
                  "multinomial: %lld of the %lld weights of row %lld are above 0; %lld wanted",
                  (long long)positive, (long long)width, (long long)r, (long long)n);
        return false;
    }
    return true;
}

// For each of n numbers in [0, 1) the place of the row's running sum that it falls into.
static det_tensor *drawn_again(const det_tensor *w, int64_t n, const int64_t *shape)
{
    int64_t width = w->shape[w->ndim - 1], rows = w->numel / width;
    det_tensor *u = det_rand(DET_F64, DET_DIMS(rows, n)), *out = det_empty(DET_I64, shape, w->ndim);
    if (!u || !out) return NULL;
    for (int64_t k = 0; k < out->numel; k++) {
        const double *v = (const double *)w->data + k / n * width;
        double sum = 0, at = 0;
        int64_t i = 0, last = 0;
        for (int64_t j = 0; j < width; j++)
            sum += v[j];
        for (double goal = ((const double *)u->data)[k] * sum; i < width; i++) {
            at += v[i];
            if (v[i] > 0) last = i;
            if (at > goal) break;
        }
        ((int64_t *)out->data)[k] = last;
    }
    return out;
}

// The largest of weight / exponential(1): each is first with the probability of its weight.
static det_tensor *drawn_once(det_tensor *w, int64_t n)
{
    det_tensor *u = det_rand(DET_F64, w->shape, w->ndim), *indices = NULL;
    det_tensor *wait = det_neg(det_log1p(det_neg(u)));
    det_tensor *key = det_where(det_gt_scalar(w, 0), det_div(w, wait), det_scalar(-1));
    det_topk(key, n, -1, true, &indices);
    return indices;
}

det_tensor *det_multinomial(det_tensor *weights, int64_t n, bool replacement)
{
    if (weights && !dtype_is_float((det_dtype)weights->dtype)) {
        det_raise(DET_EDTYPE, "multinomial: weights are %s, wants floats",
                  det_dtype_name((det_dtype)weights->dtype));
        return NULL;
    }
    det_tensor *w = plain("multinomial", weights, DET_F64);
    if (!w) return NULL;
    int last = w->ndim - 1;
    int64_t shape[DET_MAX_DIMS], width = last < 0 ? 0 : w->shape[last];
    if (w->ndim < 1 || w->ndim > 2 || !width || n < 1 || (!replacement && n > width)) {
        det_raise(DET_EINVAL, "multinomial: %lld of %s%s; wants (classes) or (N, classes)",
                  (long long)n, TENSOR_TEXT(w), replacement ? "" : " without replacement");
        return NULL;
    }
    if (!are_weights(w, n, replacement)) return NULL;
    memcpy(shape, w->shape, sizeof shape);
    shape[last] = n;
    return replacement ? drawn_again(w, n, shape) : drawn_once(w, n);
}
