// Unit callback_stop.c: the callbacks that end a run.
#include "accel/accel.h"

#include "base/mem.h"
#include "callbacks/callbacks.h"
#include <math.h>

// --- a loss that is no number

struct nan_watch {
    bool triggered;
};

static void nan_run_start(void *self, det_accel *t)
{
    (void)t;
    ((struct nan_watch *)self)->triggered = false;
}

static void nan_check(struct nan_watch *w, det_accel *t, const det_accel_batch_output *out,
                      const char *step)
{
    double loss = det_item(out->loss);
    if (isfinite(loss)) return;
    w->triggered = true;
    det_accel_stop(t, "Stopping training due to a loss of %f in a %s step", loss, step);
}

static void nan_train_step_end(void *self, det_accel *t, const det_value *batch,
                               const det_accel_batch_output *out)
{
    (void)batch;
    nan_check(self, t, out, "training");
}

static void nan_eval_step_end(void *self, det_accel *t, const det_value *batch,
                              const det_accel_batch_output *out)
{
    (void)batch;
    nan_check(self, t, out, "validation");
}

// Upstream ends the process here. A library does not: the run fails, and its caller decides.
static void nan_training_run_end(void *self, det_accel *t)
{
    (void)t;
    if (((struct nan_watch *)self)->triggered)
        det_raise(DET_ESTATE, "the loss became infinite or NaN");
}

det_accel_callback *det_accel_callback_terminate_on_nan(void)
{
    static const det_accel_callback_ops ops = {
        .name = "TerminateOnNaNCallback",
        .on_training_run_start = nan_run_start,
        .on_train_step_end = nan_train_step_end,
        .on_eval_step_end = nan_eval_step_end,
        .on_training_run_end = nan_training_run_end,
        .free = free,
    };
    return det_accel_callback_new(&ops, xcalloc(1, sizeof(struct nan_watch)));
}

// --- no improvement

static void early_run_start(void *self, det_accel *t)
{
    (void)t;
    struct patience *p = self;
    if (!p->watch.keep) p->n_bad = 0;
    watch_run_start(&p->watch);
}

static void early_epoch_end(void *self, det_accel *t)
{
    struct patience *p = self;
    double value = det_accel_history_latest(t->history, p->watch.metric);
    if (!accel_running(t)) return;
    bool is_first = !p->watch.has_best;
    bool is_enough = patience_take(p, value, det_accel_history_current_epoch(t->history));
    if (!is_first)
        det_accel_print(t, "Early stopping counter: %lld/%lld", (long long)p->n_bad,
                        (long long)p->patience);
    if (is_enough)
        det_accel_stop(t, "Stopping training due to no improvement after %lld epochs",
                       (long long)p->patience);
}

static det_value *early_state(void *self)
{
    return patience_state(self);
}

static int early_load(void *self, const det_value *state, det_err *err)
{
    return patience_load(self, state, err);
}

static void early_free(void *self)
{
    watch_done(&((struct patience *)self)->watch);
    free(self);
}

det_accel_callback *det_accel_callback_early_stopping_with(det_accel_early_stopping_opts o)
{
    static const det_accel_callback_ops ops = {
        .name = "EarlyStoppingCallback",
        .on_training_run_start = early_run_start,
        .on_training_run_epoch_end = early_epoch_end,
        .state_dict = early_state,
        .load_state_dict = early_load,
        .free = early_free,
    };
    if (o.patience < 1) {
        det_raise(DET_EINVAL, "EarlyStoppingCallback: patience must be >= 1, got %lld",
                  (long long)o.patience);
        return NULL;
    }
    struct patience *e = xcalloc(1, sizeof *e);
    watch_init(&e->watch, o.watch_metric, "eval_loss_epoch", o.greater_is_better);
    e->watch.keep = o.keep_best;
    e->patience = o.patience;
    e->threshold = o.threshold;
    return det_accel_callback_new(&ops, e);
}
