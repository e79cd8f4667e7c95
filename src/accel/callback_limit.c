// Unit callback_limit.c: the callbacks that shorten epochs, and evaluation amid an epoch.
#include "accel/accel.h"

#include "base/assert.h"
#include "base/mem.h"

struct limit {
    int64_t n;
    bool every_one; // evaluation
};

static det_accel_callback *limit_new(const det_accel_callback_ops *ops, struct limit limit)
{
    if (limit.n < 1) {
        det_raise(DET_EINVAL, "%s: the number of batches must be >= 1, got %lld", ops->name,
                  (long long)limit.n);
        return NULL;
    }
    struct limit *self = xcalloc(1, sizeof *self);
    *self = limit;
    return det_accel_callback_new(ops, self);
}

static void limit_run_start(void *self, det_accel *t)
{
    t->limit_batches = ((struct limit *)self)->n;
}

det_accel_callback *det_accel_callback_limit_batches(int64_t n)
{
    static const det_accel_callback_ops ops = {
        .name = "LimitBatchesCallback",
        .on_training_run_start = limit_run_start,
        .on_evaluation_run_start = limit_run_start,
        .free = free,
    };
    return limit_new(&ops, (struct limit){.n = n});
}

static void limit_eval_epoch_start(void *self, det_accel *t)
{
    const struct limit *l = self;
    if (!l->every_one && !det_accel_is_intermediate(t)) return;
    t->n_steps = MIN(t->n_steps, l->n / t->config.num_processes);
    det_accel_print(t, "Limiting evaluation to %lld steps per process", (long long)t->n_steps);
}

det_accel_callback *det_accel_callback_limit_eval_steps(int64_t n, bool every_one)
{
    static const det_accel_callback_ops ops = {
        .name = "LimitEvalStepsCallback",
        .on_eval_epoch_start = limit_eval_epoch_start,
        .free = free,
    };
    return limit_new(&ops, (struct limit){.n = n, .every_one = every_one});
}

// --- evaluation every n batches

static void stepwise_step_end(void *self, det_accel *t, const det_value *batch,
                              const det_accel_batch_output *out)
{
    (void)batch, (void)out;
    int64_t step = det_accel_step(t);
    if (!t->eval_loader || step == 0 || step % ((struct limit *)self)->n) return;
    det_accel_print(t, "Running evaluation after %lld training steps", (long long)step);
    loop_run_intermediate_eval(t);
    det_accel_history_delete(t->history, "intermediate_eval_loss");
    det_accel_print(t, "Resuming training");
}

det_accel_callback *det_accel_callback_step_based_evaluation(int64_t n)
{
    static const det_accel_callback_ops ops = {
        .name = "StepBasedEvaluationCallback",
        .on_train_step_end = stepwise_step_end,
        .free = free,
    };
    return limit_new(&ops, (struct limit){.n = n});
}
