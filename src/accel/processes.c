// Unit processes.c: what processes that train one model tell each other. Called by loop.c.
#include "accel/accel.h"

#include "dist/dist.h"

// --- processes of one machine

static int sum_values(struct dist *ranks, det_tensor *t, det_err *err)
{
    static const enum dist_type types[] = {
        [DET_F32] = DIST_F32, [DET_F64] = DIST_F64, [DET_BF16] = DIST_BF16};
    det_dtype dtype = det_dtype_of(t);
    if (dtype != DET_F32 && dtype != DET_F64 && dtype != DET_BF16)
        return det_fail(err, DET_EDTYPE, "processes can sum f32, f64 and bf16 only");
    size_t n = (size_t)det_numel(t), n_bytes = n * det_dtype_size(dtype);
    void *values = malloc(n_bytes + 1);
    if (!values) return det_fail(err, DET_ENOMEM, "no memory for %zu bytes", n_bytes);
    memcpy(values, det_data(t), n_bytes);
    int rc = dist_all_reduce(ranks, "tensor", values, n, types[dtype], DIST_SUM, err);
    if (!rc) det_write(t, values);
    free(values);
    return rc;
}

static void sum_over_ranks(void *comm, det_tensor *t)
{
    det_err err;
    if (t && sum_values(comm, t, &err)) det_raise(err.code, "%s", err.msg);
}

int det_accel_join(det_accel_processes *out, det_err *err)
{
    struct dist *ranks;
    *out = (det_accel_processes){.n = 1};
    int rc = dist_join_env(&ranks, err);
    if (rc || !ranks) return rc;
    *out = (det_accel_processes){.n = dist_size(ranks),
                                 .rank = dist_rank(ranks),
                                 .local_rank = dist_rank(ranks),
                                 .all_reduce = sum_over_ranks,
                                 .comm = ranks};
    return 0;
}

void det_accel_leave(det_accel_processes *p)
{
    if (p->all_reduce == sum_over_ranks) dist_leave(p->comm);
    *p = (det_accel_processes){.n = 1};
}

// --- in the loop

static void all_reduce(det_accel *t, det_tensor *x)
{
    if (accel_running(t)) t->processes.all_reduce(t->processes.comm, x);
}

void processes_average_gradients(det_accel *t)
{
    if (!t->config.is_distributed) return;
    bool grads = det_set_grad_enabled(false);
    for (int i = 0; i < det_module_n_params(t->model); i++) {
        det_tensor *grad = det_grad(det_module_param(t->model, i));
        if (grad) all_reduce(t, grad);
    }
    det_optim_scale_grads(t->optimizer, 1.0 / t->config.num_processes);
    det_set_grad_enabled(grads);
}

struct loss_tracker processes_sum_losses(det_accel *t, struct loss_tracker l)
{
    if (!t->config.is_distributed || !accel_running(t)) return l;
    det_scope_begin();
    double mine[] = {l.total, (double)l.count};
    det_tensor *sum = det_from(DET_F64, DET_DIMS(2), mine);
    all_reduce(t, sum);
    const double *all = det_data(sum);
    if (all) l = (struct loss_tracker){all[0], (int64_t)all[1]};
    det_scope_end();
    return l;
}
