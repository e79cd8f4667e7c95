// Unit loss_margin.c: losses that compare distances or scores with a margin. Made of other
// operations.
#include "tensor/op_loss.h"

// --- triplets

det_tensor *det_pairwise_distance(det_tensor *a, det_tensor *b, double p, double eps, bool keepdim)
{
    det_tensor *apart = det_add_scalar(det_sub(a, b), eps);
    return det_norm_over(apart, p, DET_DIMS(-1), keepdim);
}

// max(0, distance to the positive - distance to the negative + margin)
det_tensor *det_triplet_margin_loss_with(det_tensor *anchor, det_tensor *positive,
                                         det_tensor *negative, det_triplet_opts o)
{
    if (anchor && positive && negative &&
        (anchor->ndim != positive->ndim || anchor->ndim != negative->ndim)) {
        det_raise(DET_ESHAPE, "triplet_margin_loss: %s, %s and %s; all want as many dims",
                  TENSOR_TEXT(anchor), TENSOR_TEXT(positive), TENSOR_TEXT(negative));
        return NULL;
    }
    anchor = as_loss_input(anchor);
    positive = as_loss_input(positive);
    negative = as_loss_input(negative);
    det_tensor *near = det_pairwise_distance(anchor, positive, o.p, o.eps, false);
    det_tensor *far = det_pairwise_distance(anchor, negative, o.p, o.eps, false);
    if (o.swap) // the harder of the two
        far = det_minimum(far, det_pairwise_distance(positive, negative, o.p, o.eps, false));
    det_tensor *each = at_least_zero(det_add_scalar(det_sub(near, far), o.margin));
    return loss_reduced(each, o.reduction);
}

// --- several labels

// log(1 + exp(-t x)), t being 1 or -1
det_tensor *det_soft_margin_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    x = as_loss_input(x);
    if (x && t && !same_shape(x, t)) {
        det_raise(DET_ESHAPE, "soft_margin_loss: input is %s, target %s; wants one shape",
                  TENSOR_TEXT(x), TENSOR_TEXT(t));
        return NULL;
    }
    return loss_reduced(det_neg(det_logsigmoid(det_mul(t, x))), o.reduction);
}

det_tensor *det_multilabel_soft_margin_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    x = as_loss_input(x);
    if (x && t && (!same_shape(x, t) || !x->ndim)) {
        det_raise(DET_ESHAPE,
                  "multilabel_soft_margin_loss: input is %s, target %s; wants two of (N, classes)",
                  TENSOR_TEXT(x), TENSOR_TEXT(t));
        return NULL;
    }
    det_tensor *off = det_add_scalar(det_neg(t), 1);
    det_tensor *each =
        det_add(det_mul(t, det_logsigmoid(x)), det_mul(off, det_logsigmoid(det_neg(x))));
    each = det_neg(each);
    if (o.weight) each = det_mul(each, o.weight);
    return loss_reduced(det_mean_over(each, DET_DIMS(-1), false), o.reduction);
}

// Rows of scores with a target of a type and a number of dims.
static bool are_scores(const char *loss, const det_tensor *x, const det_tensor *t, bool one_class)
{
    bool fits = x->ndim == 1 || x->ndim == 2;
    if (one_class)
        fits = fits && t->ndim == x->ndim - 1 && (x->ndim == 1 || t->shape[0] == x->shape[0]);
    else
        fits = fits && same_shape(x, t);
    if (!fits)
        det_raise(DET_ESHAPE, "%s: input is %s, target %s", loss, TENSOR_TEXT(x), TENSOR_TEXT(t));
    else if (t->dtype != DET_I64)
        det_raise(DET_EDTYPE, "%s: the target is %s, wants i64", loss,
                  det_dtype_name((det_dtype)t->dtype));
    return fits && t->dtype == DET_I64;
}

// The classes of a row stand before the first -1: 1 for each such place.
static det_tensor *listed(det_tensor *t)
{
    return det_cumprod(det_to(det_ge_scalar(t, 0), DET_I64), -1);
}

// Sum over classes j of a row and all i that are none: max(0, 1 - (x[j] - x[i])) / classes.
det_tensor *det_multilabel_margin_loss_with(det_tensor *x, det_tensor *t, det_loss_opts o)
{
    x = as_loss_input(x);
    t = as_index(t);
    if (!x || !t || sticky_failed() || !are_scores("multilabel_margin_loss", x, t, false))
        return NULL;
    int64_t classes = x->shape[x->ndim - 1];
    det_tensor *here = listed(t), *index = det_mul(t, here); // 0 where nothing is listed
    det_tensor *none = det_zeros(DET_I64, x->shape, x->ndim);
    det_tensor *is_class = det_gt_scalar(det_scatter_add(none, -1, index, here), 0);
    det_tensor *score = det_unsqueeze(det_gather(x, -1, index), -1);
    det_tensor *behind = det_add_scalar(det_sub(det_unsqueeze(x, -2), score), 1);
    det_tensor *counts = det_mul(det_unsqueeze(here, -1),
                                 det_unsqueeze(det_to(det_logical_not(is_class), DET_I64), -2));
    det_tensor *each = det_mul(det_relu(behind), det_to(counts, (det_dtype)x->dtype));
    each = det_sum_over(each, DET_DIMS(-2, -1), false);
    return loss_reduced(det_div_scalar(each, (double)MAX(classes, 1)), o.reduction);
}

// Sum over all i but the class y: max(0, margin - x[y] + x[i])^p / classes.
det_tensor *det_multi_margin_loss_with(det_tensor *x, det_tensor *y, det_multi_margin_opts o)
{
    x = as_loss_input(x);
    y = as_index(y);
    if (!x || !y || sticky_failed() || !are_scores("multi_margin_loss", x, y, true)) return NULL;
    if (o.p != 1 && o.p != 2) {
        det_raise(DET_EINVAL, "multi_margin_loss: p is %g, wants 1 or 2", o.p);
        return NULL;
    }
    int64_t classes = x->shape[x->ndim - 1];
    det_tensor *at = det_unsqueeze(y, -1);
    det_tensor *far = det_relu(det_add_scalar(det_sub(x, det_gather(x, -1, at)), o.margin));
    if (o.p == 2) far = det_square(far);
    if (o.weight)
        far = det_mul(far, det_reshape(det_index_select(o.weight, 0, det_flatten(at, 0, -1)),
                                       at->shape, at->ndim));
    det_tensor *others = det_to(det_eq_scalar(det_one_hot(y, classes), 0), (det_dtype)x->dtype);
    det_tensor *each = det_sum_over(det_mul(far, others), DET_DIMS(-1), false);
    return loss_reduced(det_div_scalar(each, (double)MAX(classes, 1)), o.reduction);
}
