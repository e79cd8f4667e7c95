// Unit callback_ema.c: keeps, evaluates and saves a moving average of the model.
#include "accel/accel.h"

#include "base/mem.h"
#include "callbacks/callbacks.h"

struct ema_callback {
    det_ema *ema;
    double decay;
    bool evaluate;
    char *path;
    struct watch watch;
    struct callback_list callbacks;
    int64_t seen; // updates that are in the average
};

static void ema_run_start(void *self, det_accel *t)
{
    struct ema_callback *e = self;
    det_ema_free(e->ema);
    e->ema = det_ema_new(t->model, .decay = e->decay);
    e->seen = t->updates;
}

// There is no event right after an update; the next one of these comes before anything else
// changes. Upstream averages once per epoch, which leaves the average near the initial weights.
static void ema_catch_up(void *self, det_accel *t)
{
    struct ema_callback *e = self;
    if (e->seen == t->updates) return;
    e->seen = t->updates;
    det_ema_update(e->ema);
}

static void ema_eval_epoch_end(void *self, det_accel *t)
{
    struct ema_callback *e = self;
    if (!e->evaluate || t->eval_kind != EVAL_OF_EPOCH) return;
    det_accel_print(t, "Running evaluation on EMA model");
    struct callback_list own = t->callbacks;
    const char *prefix = det_accel_history_set_prefix(t->history, "ema_model_");
    t->callbacks = e->callbacks;
    det_ema_swap(e->ema);
    STEP(t, run_eval_epoch, t->eval_loader);
    det_ema_swap(e->ema);
    t->callbacks = own;
    det_accel_history_set_prefix(t->history, prefix);
}

static bool is_worth_saving(struct ema_callback *e, det_accel *t)
{
    if (!e->evaluate) return true;
    double value = det_accel_history_latest(t->history, e->watch.metric);
    if (!accel_running(t)) return false;
    if (!watch_is_best(&e->watch, value, 0)) return false;
    watch_take(&e->watch, value, det_accel_history_current_epoch(t->history));
    return true;
}

static void ema_epoch_end(void *self, det_accel *t)
{
    struct ema_callback *e = self;
    if (!is_worth_saving(e, t)) return;
    det_ema_swap(e->ema);
    det_accel_save_checkpoint(t, e->path, .optimizer = false, .scheduler = false);
    det_ema_swap(e->ema);
}

static det_value *ema_state(void *self)
{
    struct ema_callback *e = self;
    det_value *dict = watch_state(&e->watch);
    det_value_set(dict, "seen", det_value_int(e->seen));
    det_value_set(dict, "average", det_ema_state_dict(e->ema));
    return dict;
}

static int ema_load(void *self, const det_value *state, det_err *err)
{
    struct ema_callback *e = self;
    int rc = watch_load(&e->watch, state, err);
    if (!rc) rc = det_value_as_int(det_value_get(state, "seen"), &e->seen, err);
    if (!rc) rc = det_ema_load_state_dict(e->ema, det_value_get(state, "average"), err);
    return rc;
}

static void ema_free(void *self)
{
    struct ema_callback *e = self;
    det_ema_free(e->ema);
    callbacks_done(&e->callbacks);
    watch_done(&e->watch);
    free(e->path);
    free(e);
}

det_accel_callback *det_accel_callback_model_ema_with(det_accel_ema_opts o)
{
    static const det_accel_callback_ops ops = {
        .name = "ModelEmaCallback",
        .on_training_run_start = ema_run_start,
        .on_train_step_start = ema_catch_up,
        .on_train_epoch_end = ema_catch_up,
        .on_eval_epoch_end = ema_eval_epoch_end,
        .on_training_run_epoch_end = ema_epoch_end,
        .state_dict = ema_state,
        .load_state_dict = ema_load,
        .free = ema_free,
    };
    struct ema_callback *e = xcalloc(1, sizeof *e);
    e->decay = o.decay;
    e->evaluate = o.evaluate;
    e->path = xstrdup(o.save_path ? o.save_path : "ema_model.pt");
    watch_init(&e->watch, o.watch_metric, "ema_model_eval_loss_epoch", o.greater_is_better);
    e->watch.keep = true;
    for (int i = 0; i < o.callbacks.n; i++)
        callbacks_add(&e->callbacks, o.callbacks.items[i]);
    return det_accel_callback_new(&ops, e);
}
