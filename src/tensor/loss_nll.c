// Unit loss_nll.c: negative log likelihoods of counts (Poisson) and of normal variables (Gaussian).
// Made of other operations.
#include "tensor/op_loss.h"

#include <math.h>

// log(t!), by Stirling's formula, where t is above 1.
static det_tensor *stirling(det_tensor *t)
{
    det_tensor *term = det_sub(det_mul(t, det_log(t)), t);
    term = det_add(term, det_mul_scalar(det_log(det_mul_scalar(t, 2 * M_PI)), 0.5));
    return det_masked_fill(term, det_le_scalar(t, 1), 0);
}

det_tensor *det_poisson_nll_loss_with(det_tensor *x, det_tensor *t, det_poisson_nll_opts o)
{
    x = as_loss_input(x);
    t = as_loss_input(t);
    det_tensor *each = o.log_input ? det_sub(det_exp(x), det_mul(t, x))
                                   : det_sub(x, det_mul(t, det_log(det_add_scalar(x, o.eps))));
    if (o.full) each = det_add(each, stirling(t));
    return loss_reduced(each, o.reduction);
}

// One variance for each element, or one for each row.
static det_tensor *variance_for(det_tensor *x, det_tensor *var)
{
    if (same_shape(x, var)) return var;
    bool lacks_last = var->ndim == x->ndim - 1;
    det_tensor *v = lacks_last ? det_unsqueeze(var, -1) : var;
    bool fits = v && v->ndim == x->ndim && v->ndim && v->shape[v->ndim - 1] == 1;
    for (int d = 0; fits && d < x->ndim - 1; d++)
        fits = v->shape[d] == x->shape[d];
    if (fits) return v;
    det_raise(DET_ESHAPE,
              "gaussian_nll_loss: input is %s, var %s; wants one for each element or row",
              TENSOR_TEXT(x), TENSOR_TEXT(var));
    return NULL;
}

// (log(var) + (x - t)^2 / var) / 2. A variance below eps counts as eps, and keeps its gradient.
det_tensor *det_gaussian_nll_loss_with(det_tensor *x, det_tensor *t, det_tensor *var,
                                       det_gaussian_nll_opts o)
{
    x = as_loss_input(x);
    t = as_loss_input(t);
    var = as_loss_input(var);
    if (x && var && !sticky_failed()) var = variance_for(x, var);
    if (!x || !t || !var || sticky_failed()) return OP_APPLY0(&op_add, x, t ? var : t);
    if (det_item(det_any(det_lt_scalar(det_detach(var), 0))) > 0) {
        det_raise(DET_EINVAL, "gaussian_nll_loss: var has elements below 0");
        return NULL;
    }
    det_tensor *raised = det_sub(det_clamp(det_detach(var), o.eps, INFINITY), det_detach(var));
    var = det_add(var, raised);
    det_tensor *each = det_add(det_log(var), det_div(det_square(det_sub(x, t)), var));
    each = det_mul_scalar(each, 0.5);
    if (o.full) each = det_add_scalar(each, 0.5 * log(2 * M_PI));
    return loss_reduced(each, o.reduction);
}
