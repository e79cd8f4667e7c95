// Unit processes.c: what processes that train one model tell each other. Called by loop.c.
#include "accel/accel.h"

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
