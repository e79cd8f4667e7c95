// Unit train.c: starts training and evaluation runs. What happens in them is in loop.c.
#include "accel/accel.h"

#include "base/buf.h"

enum { DEFAULT_BATCH_SIZE = 8 }; // upstream's

static int64_t batch_size_or_default(int64_t given)
{
    return given ? given : DEFAULT_BATCH_SIZE;
}

static void forget_run(det_accel *t)
{
    det_loader_free(t->train_loader);
    det_loader_free(t->eval_loader);
    t->train_loader = t->eval_loader = NULL;
    t->train_dataset = t->eval_dataset = NULL;
    t->train_dl_kwargs = t->eval_dl_kwargs = (det_loader_opts){0};
    t->limit_batches = 0;
    t->epoch = t->step = t->n_steps = t->n_batches = t->updates = 0;
    t->loss = (struct loss_tracker){0};
    t->eval_kind = EVAL_OF_EPOCH;
    t->train_done = t->resumable = t->stopping = false;
    t->place = (struct place){0};
    t->failed_callback = NULL;
}

static void create_loaders(det_accel *t, int64_t batch_size, const det_loader_opts *train_kwargs,
                           const det_loader_opts *eval_kwargs)
{
    if (t->train_dataset && accel_running(t))
        t->train_loader = t->ops.create_train_dataloader(t, batch_size, train_kwargs);
    if (t->eval_dataset && accel_running(t))
        t->eval_loader = t->ops.create_eval_dataloader(t, batch_size, eval_kwargs);
    STEP(t, prepare_dataloaders);
}

static void configure(det_accel *t, const det_accel_train_opts *asked)
{
    if (!accel_running(t)) return;
    t->config = t->ops.create_run_config(t, asked);
    t->has_config = true;
    if (t->train_loader && t->config.train_dataloader_len < 1)
        det_raise(DET_EINVAL, "train: the dataset has no batch for each process");
    if (!t->eval_loader) return;
    const char *warning;
    det_err err;
    if (run_config_check_eval(&t->config, det_dataset_length(t->eval_dataset), &warning, &err))
        det_raise(err.code, "%s", err.msg);
    else if (warning)
        det_accel_print(t, "warning: %s; to gather outputs, pad them", warning);
}

static void check_asked(const det_accel_train_opts *o, const det_dataset *dataset)
{
    if (!dataset) det_raise(DET_EINVAL, "train: the dataset is NULL");
    if (o->num_epochs < 1 && o->max_num_train_steps < 1)
        det_raise(DET_EINVAL, "train: num_epochs must be >= 1, got %lld", (long long)o->num_epochs);
    if (o->per_device_batch_size < 0 || o->gradient_accumulation_steps < 0 ||
        o->max_num_train_steps < 0 || o->gradient_clip_value < 0)
        det_raise(DET_EINVAL, "train: batch size, accumulation steps, maximum of steps and clip "
                              "value must not be negative");
}

static void resume(det_accel *t, const char *path)
{
    det_err err;
    if (path && accel_running(t) && training_state_load(t, path, &err))
        det_raise(err.code, "%s", err.msg);
}

// ", epoch 1, evaluation, batch 3, EarlyStoppingCallback"
static void describe_place(const det_accel *t, struct buf *out)
{
    const struct place *p = &t->place;
    if (p->epoch) buf_printf(out, ", epoch %lld", (long long)p->epoch);
    if (p->what) buf_printf(out, ", %s", p->what);
    if (p->has_batches) buf_printf(out, ", batch %lld", (long long)t->step + 1);
    if (t->failed_callback) buf_printf(out, ", %s", t->failed_callback);
}

static int result(det_accel *t, det_err *err)
{
    struct buf place = BUF_INIT(256);
    int rc = det_check(err);
    if (rc) describe_place(t, &place);
    if (place.len) det_wrap(err, "%s", buf_str(&place).ptr + strlen(", "));
    buf_done(&place);
    return rc;
}

static void print_warning(const char *text, void *t)
{
    det_accel_print(t, "warning: %s", text);
}

static det_warning_handler take_warnings(det_accel *t)
{
    return det_set_warning_handler((det_warning_handler){print_warning, t});
}

int det_accel_train_with(det_accel *t, det_dataset *dataset, det_accel_train_opts o, det_err *err)
{
    if (!t) det_raise(DET_EINVAL, "train: the trainer is NULL");
    check_asked(&o, dataset);
    if (!t || sticky_failed()) return det_check(err);
    det_warning_handler before = take_warnings(t);
    forget_run(t);
    t->train_dataset = dataset;
    t->eval_dataset = o.eval_dataset;
    t->create_scheduler = o.create_scheduler;
    t->keep_order = o.keep_order;
    if (!o.keep_run_history) det_accel_history_reset(t->history);
    t->first_epoch = det_accel_history_current_epoch(t->history);
    STEP(t, prepare_model_and_optimizer);
    create_loaders(t, batch_size_or_default(o.per_device_batch_size), &o.train_dataloader_kwargs,
                   &o.eval_dataloader_kwargs);
    configure(t, &o);
    det_lr_scheduler_free(t->scheduler);
    t->scheduler = accel_running(t) ? t->ops.create_scheduler(t) : NULL;
    resume(t, o.resume_from);
    STEP(t, run_training);
    det_set_warning_handler(before);
    return result(t, err);
}

int det_accel_evaluate_with(det_accel *t, det_dataset *dataset, det_accel_evaluate_opts o,
                            det_err *err)
{
    if (!t || !dataset)
        det_raise(DET_EINVAL, "evaluate: the %s is NULL", t ? "dataset" : "trainer");
    if (!t || sticky_failed()) return det_check(err);
    det_warning_handler before = take_warnings(t);
    forget_run(t);
    t->eval_dataset = dataset;
    det_accel_history_reset(t->history);
    STEP(t, prepare_model_and_optimizer);
    create_loaders(t, batch_size_or_default(o.per_device_batch_size), NULL, &o.dataloader_kwargs);
    configure(t, &(det_accel_train_opts){.num_epochs = 1});
    if (accel_running(t)) loop_run_evaluation(t);
    det_set_warning_handler(before);
    return result(t, err);
}
