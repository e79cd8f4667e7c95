// Unit embedding_bag.c: sums, means and largest elements of bags of embeddings. Made of other
// operations.
#include "tensor/ops.h"

#include <math.h>

// What is in the bags: positions in the list of indices, bag by bag.
struct bags {
    int64_t n_bags, longest;
    det_tensor *index; // i64 (n): all bags behind one another
    det_tensor *bag;   // i64 (n): the bag of each
    det_tensor *place; // i64 (bags, longest): positions; 0 behind the end of a bag
    det_tensor *there; // bool (bags, longest)
};

static int64_t bag_end(const det_tensor *offsets, int64_t bag, int64_t n_bags, int64_t n)
{
    return bag + 1 < n_bags ? ((const int64_t *)offsets->data)[bag + 1] : n;
}

static bool are_offsets(const det_tensor *offsets, int64_t n)
{
    const int64_t *at = offsets->data;
    for (int64_t i = 0; i < offsets->numel; i++)
        if (at[i] < (i ? at[i - 1] : 0) || at[i] > n || (!i && at[0])) {
            det_raise(DET_EINVAL,
                      "embedding_bag: offset %lld is %lld; wants 0 first, then growing up to %lld",
                      (long long)i, (long long)at[i], (long long)n);
            return false;
        }
    return true;
}

// Bags of a list from the offsets where they begin.
static bool find_bags(det_tensor *index, det_tensor *offsets, struct bags *b)
{
    offsets = det_contiguous(as_index(offsets));
    if (!offsets || offsets->ndim != 1 || offsets->dtype != DET_I64 || index->ndim != 1) {
        det_raise(DET_ESHAPE,
                  "embedding_bag: index %s with offsets %s; wants (n,) and (bags,), or (bags, n)",
                  TENSOR_TEXT(index), offsets ? TENSOR_TEXT(offsets) : "NULL");
        return false;
    }
    tensor_finish(offsets);
    int64_t n = index->numel;
    b->n_bags = offsets->numel;
    if (sticky_failed() || !are_offsets(offsets, n)) return false;
    const int64_t *from = offsets->data;
    for (int64_t i = 0; i < b->n_bags; i++)
        b->longest = MAX(b->longest, bag_end(offsets, i, b->n_bags, n) - from[i]);
    b->index = index;
    b->bag = det_zeros(DET_I64, DET_DIMS(n));
    b->place = det_zeros(DET_I64, DET_DIMS(b->n_bags, b->longest));
    b->there = det_zeros(DET_BOOL, DET_DIMS(b->n_bags, b->longest));
    if (sticky_failed()) return false;
    for (int64_t i = 0; i < b->n_bags; i++)
        for (int64_t k = from[i]; k < bag_end(offsets, i, b->n_bags, n); k++) {
            int64_t at = i * b->longest + k - from[i];
            ((int64_t *)b->bag->data)[k] = i;
            ((int64_t *)b->place->data)[at] = k;
            ((uint8_t *)b->there->data)[at] = true;
        }
    return true;
}

// A matrix of indices: all bags are as long.
static bool equal_bags(det_tensor *index, struct bags *b)
{
    if (index->ndim != 2) {
        det_raise(DET_ESHAPE, "embedding_bag: index %s without offsets; wants (bags, n)",
                  TENSOR_TEXT(index));
        return false;
    }
    int64_t length = index->shape[1], n = index->numel;
    det_tensor *offsets = det_empty(DET_I64, DET_DIMS(index->shape[0]));
    for (int64_t i = 0; offsets && i < offsets->numel; i++)
        ((int64_t *)offsets->data)[i] = i * length;
    return offsets && find_bags(det_reshape(index, DET_DIMS(n)), offsets, b);
}

// Sums of rows over each bag.
static det_tensor *sum_bags(const struct bags *b, det_tensor *rows)
{
    if (!rows) return NULL;
    det_tensor *none = det_zeros((det_dtype)rows->dtype, DET_DIMS(b->n_bags, rows->shape[1]));
    return det_index_put(none, (det_tensor *[]){b->bag}, 1, rows, true);
}

static det_tensor *largest_of_bags(const struct bags *b, det_tensor *rows, det_tensor *counts)
{
    if (!rows) return NULL;
    det_tensor *there = b->there;
    if (counts) {
        det_tensor *kept = det_index(det_gt_scalar(counts, 0), (det_tensor *[]){b->place}, 1);
        there = det_logical_and(there, kept);
    }
    if (!b->longest) return sum_bags(b, rows);                        // zeros, with a history
    det_tensor *all = det_index(rows, (det_tensor *[]){b->place}, 1); // (bags, longest, width)
    det_tensor *hidden = det_unsqueeze(det_logical_not(there), -1);
    det_tensor *most = det_max_along(det_masked_fill(all, hidden, -INFINITY), 1, false, NULL);
    det_tensor *empty = det_logical_not(det_any_over(there, DET_DIMS(1), true));
    return det_masked_fill(most, empty, 0);
}

det_tensor *det_embedding_bag_with(det_tensor *index, det_tensor *weight, det_embedding_bag_opts o)
{
    struct bags b = {0};
    index = as_index(index);
    if (!index || !weight || sticky_failed()) return OP_APPLY0(&op_embedding, index, weight);
    if (!(o.offsets ? find_bags(index, o.offsets, &b) : equal_bags(index, &b))) return NULL;
    bool weighs = o.per_sample_weights, pads = o.padding_idx >= 0;
    if (weighs && (o.mode != DET_BAG_SUM || o.per_sample_weights->numel != b.index->numel)) {
        det_raise(DET_EINVAL,
                  "embedding_bag: weights %s are for sums, one for each of %lld indices",
                  TENSOR_TEXT(o.per_sample_weights), (long long)b.index->numel);
        return NULL;
    }
    det_tensor *rows = det_embedding(b.index, weight, o.padding_idx);
    det_tensor *counts =
        pads ? det_to(det_ne_scalar(b.index, (double)o.padding_idx), det_dtype_of(weight)) : NULL;
    if (o.mode == DET_BAG_MAX) return largest_of_bags(&b, rows, counts);
    if (weighs)
        rows = det_mul(rows, det_reshape(o.per_sample_weights, DET_DIMS(b.index->numel, 1)));
    if (pads) rows = det_mul(rows, det_unsqueeze(counts, 1));
    det_tensor *sums = sum_bags(&b, rows);
    if (o.mode == DET_BAG_SUM) return sums;
    if (!counts) counts = det_ones(det_dtype_of(weight), DET_DIMS(b.index->numel));
    det_tensor *n = sum_bags(&b, det_unsqueeze(counts, 1));
    return det_div(sums, det_clamp(n, 1, INFINITY));
}

det_tensor *det_prelu(det_tensor *x, det_tensor *weight)
{
    if (!x || !weight || sticky_failed()) return OP_APPLY0(&op_mul, x, weight);
    int64_t channels = x->ndim > 1 ? x->shape[1] : 1, shape[DET_MAX_DIMS];
    if (!dtype_is_float((det_dtype)x->dtype) || x->dtype != weight->dtype) {
        det_raise(DET_EDTYPE, "prelu: input is %s, weight %s; wants floats of one type",
                  det_dtype_name((det_dtype)x->dtype), det_dtype_name((det_dtype)weight->dtype));
        return NULL;
    }
    if (weight->numel != 1 && weight->numel != channels) {
        det_raise(DET_ESHAPE, "prelu: weight is %s, input %s; wants 1 or %lld elements",
                  TENSOR_TEXT(weight), TENSOR_TEXT(x), (long long)channels);
        return NULL;
    }
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == 1 && weight->numel != 1 ? channels : 1;
    det_tensor *slope = det_reshape(weight, shape, x->ndim), *on = det_gt_scalar(x, 0);
    det_tensor *below = det_masked_fill(x, on, 0); // zero times an infinite x would be NaN
    return det_where(on, x, det_mul(slope, below));
}
