// Unit ranks.c: gradients and models of several ranks. Called by the loop, by way of
// engine_det.
#include "engine/ranks.h"

#include "optim/optim.h"
#include "tensor/tensor.h"

// --- gradients

struct reduction {
    struct dist *ranks;
    det_err *err;
};

static int reduce(void *user, float *grads, int64_t n)
{
    const struct reduction *r = user;
    return dist_all_reduce(r->ranks, "gradients", grads, (size_t)n, DIST_F32, DIST_MEAN, r->err);
}

// A rank with an error does not take part: the others hear of it when it gives up.
int ranks_mean_grads(det_optimizer *opt, struct dist *ranks, det_err *err)
{
    if (sticky_failed()) return 0;
    struct reduction r = {ranks, err};
    return optim_visit_grads(opt, reduce, &r);
}

// --- models

static bool is_param(const det_module *model, const det_tensor *t)
{
    for (int i = 0; i < det_module_n_params(model); i++)
        if (det_module_param(model, i) == t) return true;
    return false;
}

static size_t tensor_bytes(const det_tensor *t)
{
    return (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t));
}

// Rank 0 sends the tensor, the others get it.
static int share_tensor(det_tensor *t, struct dist *ranks, det_err *err)
{
    size_t n = tensor_bytes(t);
    char *bytes = malloc(n + 1);
    if (!bytes) return det_fail(err, DET_ENOMEM, "no memory for a copy of %zu bytes", n);
    det_scope_begin();
    const void *mine = det_data(t);
    int rc = det_check(err);
    if (!rc && mine) memcpy(bytes, mine, n);
    if (!rc) rc = dist_broadcast(ranks, "model", 0, bytes, n, err);
    if (!rc && dist_rank(ranks)) det_write(t, bytes);
    if (!rc) rc = det_check(err);
    free(bytes);
    det_scope_end();
    return rc;
}

int ranks_share_model(det_module *model, bool buffers_only, struct dist *ranks, det_err *err)
{
    int rc = 0;
    det_value *state = det_module_state_dict(model);
    bool grad_before = det_set_grad_enabled(false);
    for (int i = 0; !rc && i < det_value_len(state); i++) {
        det_tensor *t = det_value_as_tensor(det_value_at(state, i));
        if (buffers_only && is_param(model, t)) continue;
        rc = share_tensor(t, ranks, err);
        if (rc) det_wrap(err, "'%s'", det_value_key(state, i, NULL));
    }
    det_set_grad_enabled(grad_before);
    det_value_free(state);
    return rc;
}
