// Unit processes.c: what processes that train one model tell each other. Called by loop.c.
#include "accel/accel.h"

#include "engine/engine.h"

int processes_rank(const det_accel *t)
{
    return dist_rank(t->ranks);
}

int processes_count(const det_accel *t)
{
    return dist_size(t->ranks);
}

static int sum_values(struct dist *ranks, det_tensor *x, det_err *err)
{
    static const enum dist_type types[] = {
        [DET_F32] = DIST_F32, [DET_F64] = DIST_F64, [DET_BF16] = DIST_BF16};
    det_dtype dtype = det_dtype_of(x);
    if (dtype != DET_F32 && dtype != DET_F64 && dtype != DET_BF16)
        return det_fail(err, DET_EDTYPE, "processes can sum f32, f64 and bf16 only");
    size_t n = (size_t)det_numel(x), n_bytes = n * det_dtype_size(dtype);
    void *values = malloc(n_bytes + 1);
    if (!values) return det_fail(err, DET_ENOMEM, "no memory for %zu bytes", n_bytes);
    memcpy(values, det_data(x), n_bytes);
    int rc = dist_all_reduce(ranks, "tensor", values, n, types[dtype], DIST_SUM, err);
    if (!rc) det_write(x, values);
    free(values);
    return rc;
}

void det_accel_all_reduce(det_accel *t, det_tensor *x)
{
    det_err err;
    if (!t || !x || !t->ranks || sticky_failed()) return;
    if (sum_values(t->ranks, x, &err)) accel_raise(&err);
}

void processes_average_gradients(det_accel *t)
{
    det_err err;
    if (!t->ranks || !accel_running(t)) return;
    if (engine_det.mean_grads(t->optimizer, t->ranks, &err)) accel_raise(&err);
}

struct loss_tracker processes_sum_losses(det_accel *t, struct loss_tracker l)
{
    double sum[] = {l.total, (double)l.count};
    det_err err;
    if (!t->ranks || !accel_running(t)) return l;
    if (dist_all_reduce(t->ranks, "losses", sum, 2, DIST_F64, DIST_SUM, &err)) accel_raise(&err);
    return (struct loss_tracker){sum[0], (int64_t)sum[1]};
}
