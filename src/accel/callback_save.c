// Unit callback_save.c: the callbacks that write checkpoints and training states.
#include "accel/accel.h"

#include "base/buf.h"
#include "base/mem.h"
#include "callbacks/callbacks.h"
#include "sys/dir.h"
#include <unistd.h>

// --- the best model

struct save_best {
    struct watch watch;
    char *path;
    det_accel_save_opts save;
    bool load;
};

static void best_run_start(void *self, det_accel *t)
{
    (void)t;
    watch_run_start(&((struct save_best *)self)->watch);
}

static void best_epoch_end(void *self, det_accel *t)
{
    struct save_best *b = self;
    double value = det_accel_history_latest(t->history, b->watch.metric);
    if (!accel_running(t)) return;
    if (!watch_is_best(&b->watch, value, 0)) return;
    watch_take(&b->watch, value, det_accel_history_current_epoch(t->history));
    // Upstream calls the value "loss" from the second time on; here it has its own name always.
    det_value *kwargs = det_value_dict();
    det_value_set(kwargs, b->watch.metric, det_value_float(value));
    det_accel_save_opts save = b->save;
    save.checkpoint_kwargs = kwargs;
    det_accel_save_checkpoint_with(t, b->path, save);
    det_value_free(kwargs);
}

static void best_run_end(void *self, det_accel *t)
{
    struct save_best *b = self;
    if (!b->load || !b->watch.has_best) return;
    det_accel_print(t, "Loading checkpoint with %s: %.6g from epoch %lld", b->watch.metric,
                    b->watch.best, (long long)b->watch.best_epoch);
    det_accel_load_checkpoint(t, b->path);
}

static det_value *best_state(void *self)
{
    return watch_state(&((struct save_best *)self)->watch);
}

static int best_load(void *self, const det_value *state, det_err *err)
{
    return watch_load(&((struct save_best *)self)->watch, state, err);
}

static void best_free(void *self)
{
    struct save_best *b = self;
    watch_done(&b->watch);
    free(b->path);
    free(b);
}

det_accel_callback *det_accel_callback_save_best_model_with(det_accel_save_best_opts o)
{
    static const det_accel_callback_ops ops = {
        .name = "SaveBestModelCallback",
        .on_training_run_start = best_run_start,
        .on_training_run_epoch_end = best_epoch_end,
        .on_training_run_end = best_run_end,
        .state_dict = best_state,
        .load_state_dict = best_load,
        .free = best_free,
    };
    struct save_best *b = xcalloc(1, sizeof *b);
    watch_init(&b->watch, o.watch_metric, "eval_loss_epoch", o.greater_is_better);
    b->watch.keep = o.keep_best;
    b->path = xstrdup(o.save_path ? o.save_path : "best_model.pt");
    b->save = (det_accel_save_opts){.optimizer = o.optimizer, .scheduler = o.scheduler};
    b->load = o.load;
    return det_accel_callback_new(&ops, b);
}

// --- training states

enum { PATH_MAX_BYTES = 4096 };

struct save_state {
    char *dir;
    int64_t every_n_epochs, every_n_steps, max;
    bool at_end;
    int64_t saved_step; // the last one that counted for every_n_steps
    char **path;        // that exist, oldest first
    int n;
};

static void make_dir(const char *dir)
{
    int fd = -1;
    det_err err;
    if (dir_open(dir, DIR_CREATE, &fd, &err))
        accel_raise(&err);
    else
        close(fd);
}

static char *path_in(const char *dir, const char *kind, int64_t number, const char *end)
{
    struct buf path = BUF_INIT(PATH_MAX_BYTES);
    buf_printf(&path, "%s/%s", dir, kind);
    if (number >= 0) buf_printf(&path, "_%lld", (long long)number);
    buf_addz(&path, end);
    return buf_take(&path);
}

static void remove_oldest(struct save_state *s)
{
    unlink(s->path[0]); // if somebody else was faster, so much the better
    free(s->path[0]);
    memmove(s->path, s->path + 1, (size_t)--s->n * sizeof *s->path);
}

static void save_state_as(struct save_state *s, det_accel *t, const char *kind, int64_t number)
{
    char *path = path_in(s->dir, kind, number, ".pth");
    if (!det_accel_save_training_state(t, path)) {
        free(path);
        return;
    }
    det_accel_print(t, "Saved training state to %s", path);
    s->path = xrealloc(s->path, (size_t)(s->n + 1) * sizeof *s->path);
    s->path[s->n++] = path;
    while (s->max >= 0 && s->n > s->max)
        remove_oldest(s);
}

static void state_run_start(void *self, det_accel *t)
{
    struct save_state *s = self;
    s->saved_step = t->n_batches;
    make_dir(s->dir);
}

// A multiple of every_n_steps was reached since the last one.
static void save_if_due(struct save_state *s, det_accel *t)
{
    int64_t n = s->every_n_steps;
    if (n < 1 || !det_accel_is_resumable(t) || t->n_batches / n <= s->saved_step / n) return;
    s->saved_step = t->n_batches;
    save_state_as(s, t, "step", t->n_batches);
}

static void state_step_start(void *self, det_accel *t)
{
    save_if_due(self, t);
}

static void state_train_epoch_end(void *self, det_accel *t)
{
    save_if_due(self, t);
}

static void state_epoch_end(void *self, det_accel *t)
{
    struct save_state *s = self;
    int64_t epoch = det_accel_history_current_epoch(t->history);
    if (s->every_n_epochs > 0 && epoch % s->every_n_epochs == 0)
        save_state_as(s, t, "epoch", epoch);
}

static void state_run_end(void *self, det_accel *t)
{
    struct save_state *s = self;
    if (s->at_end) save_state_as(s, t, "final", -1);
}

static void state_free(void *self)
{
    struct save_state *s = self;
    for (int i = 0; i < s->n; i++)
        free(s->path[i]);
    free(s->path);
    free(s->dir);
    free(s);
}

det_accel_callback *det_accel_callback_save_training_state_with(det_accel_training_state_opts o)
{
    static const det_accel_callback_ops ops = {
        .name = "SaveTrainingStateCallback",
        .on_training_run_start = state_run_start,
        .on_train_step_start = state_step_start,
        .on_train_epoch_end = state_train_epoch_end,
        .on_training_run_epoch_end = state_epoch_end,
        .on_training_run_end = state_run_end,
        .free = state_free,
    };
    struct save_state *s = xcalloc(1, sizeof *s);
    s->dir = xstrdup(o.save_dir ? o.save_dir : "training_states");
    s->every_n_epochs = o.every_n_epochs;
    s->every_n_steps = o.every_n_steps;
    s->max = o.max_checkpoints;
    s->at_end = o.at_end;
    return det_accel_callback_new(&ops, s);
}

// --- around the decays of a warmup-stable-decay schedule

struct wsd_save {
    char *dir;
    int64_t last; // update of the last file
};

static void wsd_run_start(void *self, det_accel *t)
{
    struct wsd_save *w = self;
    w->last = -1;
    if (!det_lr_wsd_n_periods(t->scheduler))
        det_raise(DET_EINVAL, "WSDCheckpointCallback: the scheduler is not a det_lr_wsd");
    make_dir(w->dir);
}

static void wsd_save_checkpoint(struct wsd_save *w, det_accel *t, bool before_decay)
{
    int64_t n = t->updates;
    char *path = path_in(w->dir, "checkpoint", n,
                         before_decay ? "_wsd_pre_decay.pth" : "_wsd_post_decay.pth");
    if (before_decay)
        det_accel_save_training_state(t, path);
    else
        det_accel_save_checkpoint(t, path);
    w->last = n;
    free(path);
}

static void wsd_look(void *self, det_accel *t)
{
    struct wsd_save *w = self;
    if (!det_accel_is_resumable(t) || t->updates == w->last) return;
    for (int i = 0; i < det_lr_wsd_n_periods(t->scheduler); i++) {
        det_wsd_period p = det_lr_wsd_period(t->scheduler, i);
        if (t->updates == p.pre_decay_step || t->updates == p.period_end)
            wsd_save_checkpoint(w, t, t->updates == p.pre_decay_step);
    }
}

static void wsd_free(void *self)
{
    free(((struct wsd_save *)self)->dir);
    free(self);
}

det_accel_callback *det_accel_callback_wsd_checkpoint(const char *save_dir)
{
    static const det_accel_callback_ops ops = {
        .name = "WSDCheckpointCallback",
        .on_training_run_start = wsd_run_start,
        .on_train_step_start = wsd_look,
        .on_train_epoch_end = wsd_look,
        .on_training_run_end = wsd_look,
        .free = wsd_free,
    };
    struct wsd_save *w = xcalloc(1, sizeof *w);
    w->dir = xstrdup(save_dir ? save_dir : "checkpoints");
    return det_accel_callback_new(&ops, w);
}
