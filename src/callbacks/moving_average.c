// Unit moving_average.c: the callback of trials that averages the weights of a model.
#include "callbacks/callbacks.h"

#include "base/mem.h"
#include "det/finetuning.h"

struct average {
    det_context *ctx;
    det_module *model;
    det_ema *ema; // NULL: it has not begun
    double decay;
    bool evaluate;
    bool is_shown; // the model has the averages for a while
};

static void begin(struct average *a)
{
    if (!a->ema) a->ema = det_ema_new(a->model, .decay = a->decay, .buffers = false);
}

// Everything is loaded that there is.
static int start(void *self, det_err *err)
{
    begin(self);
    return det_check(err);
}

static int update(void *self, int64_t batch_idx, det_err *err)
{
    struct average *a = self;
    (void)batch_idx;
    if (det_context_is_update(a->ctx)) det_ema_update(a->ema);
    return det_check(err);
}

static void show(struct average *a, bool on)
{
    if (a->is_shown == on) return;
    a->is_shown = on;
    det_ema_swap(a->ema);
}

static int show_averages(void *self, det_err *err)
{
    struct average *a = self;
    if (a->evaluate) show(a, true);
    return det_check(err);
}

static int show_weights(void *self, const det_metrics *metrics, det_err *err)
{
    (void)metrics;
    show(self, false);
    return det_check(err);
}

// A validation may have failed.
static void end(void *self)
{
    show(self, false);
}

static det_value *state(void *self, det_err *err)
{
    struct average *a = self;
    begin(a);
    det_value *dict = det_ema_state_dict(a->ema);
    if (!dict) det_check(err);
    return dict;
}

static int load(void *self, const det_value *saved, det_err *err)
{
    struct average *a = self;
    begin(a);
    int rc = det_check(err);
    return rc ? rc : det_ema_load_state_dict(a->ema, saved, err);
}

static void average_free(void *self)
{
    det_ema_free(((struct average *)self)->ema);
    free(self);
}

void det_add_ema_with(det_context *ctx, det_module *model, det_add_ema_opts o)
{
    static const det_callback_ops ops = {.on_training_start = start,
                                         .on_training_batch_end = update,
                                         .on_validation_start = show_averages,
                                         .on_validation_end = show_weights,
                                         .on_trial_shutdown = end,
                                         .state_dict = state,
                                         .load_state_dict = load,
                                         .free = average_free};
    if (!model) {
        det_raise(DET_EINVAL, "det_add_ema: there is no model");
        return;
    }
    if (!(o.decay >= 0 && o.decay < 1)) {
        det_raise(DET_EINVAL, "det_add_ema: decay must be in 0 .. 1, got %g", o.decay);
        return;
    }
    struct average *a = xcalloc(1, sizeof *a);
    *a = (struct average){.ctx = ctx, .model = model, .decay = o.decay, .evaluate = o.evaluate};
    det_add_callback(ctx, "ema", &ops, a);
}
