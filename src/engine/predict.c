// Unit predict.c: predictions of a model for batches of any form. Called by the loop, by way of
// engine_det.
#include "engine/predict.h"

#include "det/nn.h"
#include "det/ops.h"
#include "tensor/tensor.h"

// The first tensor of a batch, however deep.
static det_tensor *first_tensor(const det_value *v)
{
    det_tensor *t = det_value_as_tensor(v);
    for (int i = 0; !t && i < det_value_len(v); i++)
        t = first_tensor(det_value_at(v, i));
    return t;
}

det_tensor *predict_forward(det_module *model, const det_value *batch)
{
    return det_forward(model, first_tensor(batch));
}

// A copy: what the prediction is a view of may be gone with the batch.
det_value *predict_keep(det_tensor *prediction)
{
    return prediction ? det_value_tensor(det_clone(prediction)) : NULL;
}

det_tensor *predict_join(const det_value *parts)
{
    int n = det_value_len(parts);
    det_tensor **part = xcalloc((size_t)n + 1, sizeof *part);
    for (int i = 0; i < n; i++)
        part[i] = det_value_as_tensor(det_value_at(parts, i));
    det_scope_begin();
    det_tensor *all = det_ref(det_concat(part, n, 0));
    det_scope_end();
    free(part);
    return all;
}
