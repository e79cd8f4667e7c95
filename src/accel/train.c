// Unit train.c: starts training and evaluation runs. What happens in them is in loop.c.
#include "accel/accel.h"

#include "base/assert.h"
#include "base/buf.h"

static void forget_run(det_accel *t)
{
    det_loader_free(t->train_loader);
    det_loader_free(t->eval_loader);
    t->train_loader = t->eval_loader = NULL;
    t->train_dataset = t->eval_dataset = NULL;
    t->train_dl_kwargs = t->eval_dl_kwargs = (det_loader_opts){0};
    t->run = NULL;
    t->limit_batches = 0;
    t->epoch = t->step = t->n_steps = t->n_batches = t->updates = 0;
    t->eval_batch = -1;
    t->loss = (struct loss_tracker){0};
    t->eval_kind = EVAL_OF_EPOCH;
    t->train_done = t->resumable = t->stopping = t->leaving = false;
    t->place = (struct place){0};
    t->failed_callback = NULL;
}

static void create_loaders(det_accel *t, int64_t batch_size,
                           const det_accel_dl_kwargs *train_kwargs,
                           const det_accel_dl_kwargs *eval_kwargs)
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
    if (!o->num_epochs || !o->max_num_train_steps)
        det_raise(DET_EINVAL, "train: num_epochs and max_num_train_steps must be >= 1, got 0");
    if (o->per_device_batch_size < 1)
        det_raise(DET_EINVAL, "train: per_device_batch_size must be >= 1, got %lld",
                  (long long)o->per_device_batch_size);
    if (o->gradient_accumulation_steps < 1)
        det_raise(DET_EINVAL, "train: gradient_accumulation_steps must be >= 1, got %lld",
                  (long long)o->gradient_accumulation_steps);
    if (!(o->gradient_clip_value >= 0))
        det_raise(DET_EINVAL, "train: gradient_clip_value must not be negative, got %g",
                  o->gradient_clip_value);
}

// What of a training is said elsewhere. A name: the member that says it.
static void check_run(const det_train_opts *o)
{
    const struct {
        bool given;
        const char *name, *instead;
    } rows[] = {
        {o->training, "training", "the dataset"},
        {o->validation, "validation", ".eval_dataset"},
        {o->max_length.unit != DET_UNIT_UNSET, "max_length", ".num_epochs"},
        {o->min_validation_period.unit != DET_UNIT_UNSET, "min_validation_period",
         "det_accel_callback_step_based_evaluation"},
        {o->aggregation_frequency, "aggregation_frequency", ".gradient_accumulation_steps"},
        {o->initial_validation, "initial_validation", "det_accel_evaluate"},
        {o->test_mode, "test_mode", "det_accel_callback_limit_batches"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given)
            det_raise(DET_EINVAL, "train: .run.%s is not for the accelerated trainer: use %s",
                      rows[i].name, rows[i].instead);
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

static void explain(const det_accel *t, det_err *err)
{
    struct buf place = BUF_INIT(256);
    describe_place(t, &place);
    if (place.len) det_wrap(err, "%s", buf_str(&place).ptr + strlen(", "));
    buf_done(&place);
}

static void print_warning(const char *text, void *t)
{
    det_accel_print(t, "warning: %s", text);
}

static det_warning_handler take_warnings(det_accel *t)
{
    return det_set_warning_handler((det_warning_handler){print_warning, t});
}

// --- a training run

struct asked {
    det_accel *t;
    det_accel_train_opts opts;
    bool goes_on; // from a checkpoint of the same run
};

static void hear(const det_report *report, void *user)
{
    const struct asked *a = user;
    if (report->kind == DET_REPORT_WARNING) det_accel_print(a->t, "warning: %s", report->text);
    if (a->opts.run.on_report) a->opts.run.on_report(report, a->opts.run.report_user);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / MAX(b, 1);
}

// The whole length of a run, if a configuration says it: the epochs that schedules are made for.
static int64_t epochs_of(const det_accel *t, det_length length)
{
    int64_t batches = det_loader_length(t->train_loader) / processes_count(t);
    int64_t records = det_loader_batch_size(t->train_loader) * processes_count(t);
    switch (length.unit) {
    case DET_UNIT_EPOCHS:
        return length.amount;
    case DET_UNIT_BATCHES:
        return ceil_div(length.amount, batches);
    case DET_UNIT_RECORDS:
        return ceil_div(ceil_div(length.amount, records), batches);
    default:
        return -1;
    }
}

// On a cluster the searcher says how long; elsewhere the program, or else the configuration.
static void resolve_length(const det_accel *t, det_accel_train_opts *o, const det_train_opts *run)
{
    bool is_task = own_trainer_is_task(t->trainer);
    int64_t configured = epochs_of(t, run->max_length);
    if (configured > 0 && (is_task || (o->num_epochs < 0 && o->max_num_train_steps < 0))) {
        o->num_epochs = configured;
        o->max_num_train_steps = -1;
    }
    if (!is_task && o->num_epochs < 0 && o->max_num_train_steps < 0)
        det_raise(DET_EINVAL, "train: give num_epochs or max_num_train_steps; no configuration has "
                              "searcher.max_length");
}

static det_value *save_state(void *self, det_err *err)
{
    const struct asked *a = self;
    det_value *dict = det_value_dict();
    training_state_put(a->t, dict);
    return det_check(err) ? NULL : dict;
}

// A run that begins with the weights of another trial begins at the beginning.
static int load_state(void *self, const det_value *state, det_err *err)
{
    const struct asked *a = self;
    return a->goes_on ? training_state_take(a->t, state, err) : 0;
}

static void wrap(det_accel *t, det_context *ctx, struct asked *a)
{
    static const det_callback_ops state = {.state_dict = save_state, .load_state_dict = load_state};
    det_wrap_model(ctx, t->model);
    det_wrap_optimizer(ctx, t->optimizer);
    det_wrap_lr_scheduler(ctx, t->scheduler, DET_STEP_MANUAL, 1);
    det_add_callback(ctx, "accelerated", &state, a);
}

static int build(void *self, det_context *ctx, const det_train_opts *run, struct own_data *out,
                 det_err *err)
{
    struct asked *a = self;
    det_accel *t = a->t;
    det_accel_train_opts *o = &a->opts;
    a->goes_on = det_context_initial_batch(ctx) > 0;
    t->seed = det_context_trial_seed(ctx);
    det_warning_handler before = take_warnings(t);
    STEP(t, prepare_model_and_optimizer);
    create_loaders(t, o->per_device_batch_size, o->train_dataloader_kwargs,
                   o->eval_dataloader_kwargs);
    if (accel_running(t)) resolve_length(t, o, run);
    configure(t, o);
    det_lr_scheduler_free(t->scheduler);
    t->scheduler = accel_running(t) ? t->ops.create_scheduler(t) : NULL;
    resume(t, o->resume_from);
    if (accel_running(t)) wrap(t, ctx, a);
    det_set_warning_handler(before);
    *out = (struct own_data){t->train_loader, t->config.train_dataloader_len};
    return det_check(err);
}

static int run(void *self, struct training *run, det_err *err)
{
    det_accel *t = ((struct asked *)self)->t;
    det_warning_handler before = take_warnings(t);
    t->run = run;
    hosted_init(t);
    own_position(run, t->n_batches, t->epoch + t->train_done);
    hosted_start(t);
    STEP(t, run_training);
    t->run = NULL;
    det_set_warning_handler(before);
    return det_check(err);
}

static void set_run_opts(det_train_opts *run, struct asked *a)
{
    *run = a->opts.run;
    run->on_report = hear;
    run->report_user = a;
    if (own_trainer_is_task(a->t->trainer)) return;
    if (a->opts.num_epochs > 0)
        run->max_length = det_epochs(a->opts.num_epochs);
    else if (a->opts.max_num_train_steps > 0)
        run->max_length.unit = DET_UNIT_NEVER;
}

// The error is a step's, a callback's, or that of the training around them.
static const det_result *train(det_accel *t, struct asked *a)
{
    struct own_loop loop = {
        .name = "accelerated", .self = a, .seed = (int64_t)t->seed, .build = build, .run = run};
    det_train_opts opts;
    det_err err;
    set_run_opts(&opts, a);
    if (!own_loop_train(t->trainer, &loop, &opts, &t->result, &err)) return t->result;
    explain(t, &err);
    accel_raise(&err);
    return NULL;
}

static bool has_trainer(det_accel *t)
{
    if (t->trainer) return true;
    t->trainer = own_trainer_new(t->seed);
    t->owns_trainer = true;
    return t->trainer != NULL;
}

const det_result *det_accel_train_with(det_accel *t, det_dataset *dataset, det_accel_train_opts o)
{
    if (!t) det_raise(DET_EINVAL, "train: the trainer is NULL");
    check_asked(&o, dataset);
    check_run(&o.run);
    if (!t || sticky_failed()) return NULL;
    t->seed = accel_seed(t);
    forget_run(t);
    if (!has_trainer(t)) return NULL;
    t->train_dataset = dataset;
    t->eval_dataset = o.eval_dataset;
    t->create_scheduler = o.create_scheduler;
    t->shuffle = o.shuffle;
    if (!o.keep_run_history) det_accel_history_reset(t->history);
    t->first_epoch = det_accel_history_current_epoch(t->history);
    return train(t, &(struct asked){.t = t, .opts = o});
}

// --- an evaluation run

bool det_accel_evaluate_with(det_accel *t, det_dataset *dataset, det_accel_evaluate_opts o)
{
    det_err err;
    if (!t || !dataset)
        det_raise(DET_EINVAL, "evaluate: the %s is NULL", t ? "dataset" : "trainer");
    if (!t || sticky_failed()) return false;
    det_warning_handler before = take_warnings(t);
    forget_run(t);
    t->eval_dataset = dataset;
    det_accel_history_reset(t->history);
    STEP(t, prepare_model_and_optimizer);
    create_loaders(t, o.per_device_batch_size, NULL, o.dataloader_kwargs);
    configure(t, &DET_ACCEL_TRAIN_OPTS(.num_epochs = 1));
    if (accel_running(t)) loop_run_evaluation(t);
    det_set_warning_handler(before);
    if (!det_check(&err)) return true;
    explain(t, &err);
    return accel_raise(&err);
}
