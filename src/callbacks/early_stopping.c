// Unit early_stopping.c: the callbacks of trials that watch a metric of validations: to stop, and to
// keep the best model.
#include "callbacks/callbacks.h"

#include "base/mem.h"
#include "det/format.h"
#include "sys/fs.h"

// A callback lives as long as its trial: it is freed at the trial's end.
struct watcher {
    det_context *ctx;
    struct patience patience; // the metric: NULL: the one that decides
    det_module *model;        // of save_best
    char *path;
};

static struct watcher *watcher_new(det_context *ctx, const char *metric, bool larger_is_better)
{
    struct watcher *w = xcalloc(1, sizeof *w);
    w->ctx = ctx;
    w->patience.watch.metric = metric ? xstrdup(metric) : NULL;
    w->patience.watch.greater_is_better = larger_is_better;
    return w;
}

static void watcher_free(void *self)
{
    struct watcher *w = self;
    watch_done(&w->patience.watch);
    free(w->path);
    free(w);
}

static int start(void *self, det_err *err)
{
    struct watch *w = &((struct watcher *)self)->patience.watch;
    bool larger;
    if (w->metric) return 0;
    const char *metric = det_context_metric(((struct watcher *)self)->ctx, &larger);
    if (!metric)
        return det_fail(err, DET_EINVAL,
                        "which metric tells what is best is not known: give .metric");
    w->metric = xstrdup(metric);
    w->greater_is_better = larger;
    return 0;
}

static int find(const struct watcher *w, const det_metrics *metrics, double *out, det_err *err)
{
    const char *name = w->patience.watch.metric;
    for (int i = 0; i < det_metrics_len(metrics); i++)
        if (str_eqz(str_from(det_metrics_name(metrics, i)), name)) {
            *out = det_metrics_at(metrics, 0, i);
            return 0;
        }
    return det_fail(err, DET_EINVAL, "validation does not report the metric '%s'", name);
}

// --- early stopping

static int stop_if_enough(void *self, const det_metrics *metrics, det_err *err)
{
    struct watcher *w = self;
    double value;
    int rc = find(w, metrics, &value, err);
    if (!rc && patience_take(&w->patience, value, 0)) det_context_set_stop_requested(w->ctx, true);
    return rc;
}

static det_value *stop_state(void *self, det_err *err)
{
    (void)err;
    return patience_state(&((struct watcher *)self)->patience);
}

static int stop_load(void *self, const det_value *state, det_err *err)
{
    return patience_load(&((struct watcher *)self)->patience, state, err);
}

void det_add_early_stopping_with(det_context *ctx, det_early_stopping_opts o)
{
    static const det_callback_ops ops = {.on_training_start = start,
                                         .on_validation_end = stop_if_enough,
                                         .state_dict = stop_state,
                                         .load_state_dict = stop_load,
                                         .free = watcher_free};
    if (o.patience < 1) {
        det_raise(DET_EINVAL, "det_add_early_stopping: patience must be >= 1, got %lld",
                  (long long)o.patience);
        return;
    }
    struct watcher *w = watcher_new(ctx, o.metric, o.larger_is_better);
    w->patience.patience = o.patience;
    w->patience.threshold = o.threshold;
    det_add_callback(ctx, "early_stopping", &ops, w);
}

// --- the best model

static int write_best(const struct watcher *w, double value, det_err *err)
{
    if (det_context_rank(w->ctx)) return 0;
    det_value *dict = det_value_dict();
    det_value_set(dict, "model_state_dict", det_module_state_dict(w->model));
    det_value_set(dict, w->patience.watch.metric, det_value_float(value));
    int rc = det_pth_save(w->path, dict, err);
    det_value_free(dict);
    return rc;
}

static int save_if_best(void *self, const det_metrics *metrics, det_err *err)
{
    struct watcher *w = self;
    struct watch *watch = &w->patience.watch;
    double value;
    int rc = find(w, metrics, &value, err);
    if (rc || !watch_is_best(watch, value, 0)) return rc;
    watch_take(watch, value, 0);
    return write_best(w, value, err);
}

static det_value *best_state(void *self, det_err *err)
{
    (void)err;
    return watch_state(&((struct watcher *)self)->patience.watch);
}

static int best_load(void *self, const det_value *state, det_err *err)
{
    return watch_load(&((struct watcher *)self)->patience.watch, state, err);
}

void det_add_save_best_with(det_context *ctx, det_module *model, const char *path,
                            det_save_best_opts o)
{
    static const det_callback_ops ops = {.on_training_start = start,
                                         .on_validation_end = save_if_best,
                                         .state_dict = best_state,
                                         .load_state_dict = best_load,
                                         .free = watcher_free};
    if (!model || !path) {
        det_raise(DET_EINVAL, "det_add_save_best: there is no %s", model ? "path" : "model");
        return;
    }
    struct watcher *w = watcher_new(ctx, o.metric, o.larger_is_better);
    w->model = model;
    w->path = xstrdup(path);
    det_add_callback(ctx, "save_best", &ops, w);
}
