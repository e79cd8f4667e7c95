// The order of steps and events, line by line, as the document of the trainer has it.
#include "support/accel.h"
#include "support/files.h"

static FILE *trace;
static bool with_internal;

#define LOG(name) fprintf(trace, "%s\n", name)

// A step that says its name and does what it always does.
#define TRACED(step)               \
    static void step(det_accel *t) \
    {                              \
        LOG(#step);                \
        det_accel_default.step(t); \
    }

TRACED(training_run_start)
TRACED(training_run_epoch_end)
TRACED(training_run_end)
TRACED(train_epoch_start)
TRACED(optimizer_step)
TRACED(scheduler_step)
TRACED(optimizer_zero_grad)
TRACED(train_epoch_end)
TRACED(eval_epoch_start)
TRACED(eval_epoch_end)
TRACED(evaluation_run_start)
TRACED(evaluation_run_end)

static det_loader *create_train_dataloader(det_accel *t, int64_t n,
                                           const det_accel_dl_kwargs *kwargs)
{
    LOG("create_train_dataloader");
    return det_accel_default.create_train_dataloader(t, n, kwargs);
}

static det_loader *create_eval_dataloader(det_accel *t, int64_t n,
                                          const det_accel_dl_kwargs *kwargs)
{
    LOG("create_eval_dataloader");
    return det_accel_default.create_eval_dataloader(t, n, kwargs);
}

static det_lr_scheduler *create_scheduler(det_accel *t)
{
    LOG("create_scheduler");
    return det_accel_default.create_scheduler(t);
}

static det_accel_batch_output calculate_train_batch_loss(det_accel *t, const det_value *batch)
{
    LOG("calculate_train_batch_loss");
    return det_accel_default.calculate_train_batch_loss(t, batch);
}

static det_accel_batch_output calculate_eval_batch_loss(det_accel *t, const det_value *batch)
{
    LOG("calculate_eval_batch_loss");
    return det_accel_default.calculate_eval_batch_loss(t, batch);
}

static void backward_step(det_accel *t, det_tensor *loss)
{
    LOG("backward_step");
    det_accel_default.backward_step(t, loss);
}

#define LOG_INTERNAL(name) with_internal ? (void)LOG(name) : (void)0

static det_loader_opts get_default_train_dl_kwargs(det_accel *t, int64_t n)
{
    LOG_INTERNAL("get_default_train_dl_kwargs");
    return det_accel_default.get_default_train_dl_kwargs(t, n);
}

static det_loader_opts get_default_eval_dl_kwargs(det_accel *t, int64_t n)
{
    LOG_INTERNAL("get_default_eval_dl_kwargs");
    return det_accel_default.get_default_eval_dl_kwargs(t, n);
}

static void prepare_model_and_optimizer(det_accel *t)
{
    LOG_INTERNAL("_prepare_model_and_optimizer");
    det_accel_default.prepare_model_and_optimizer(t);
}

static void prepare_dataloaders(det_accel *t)
{
    LOG_INTERNAL("_prepare_dataloaders");
    det_accel_default.prepare_dataloaders(t);
}

static det_accel_run_config create_run_config(det_accel *t, const det_accel_train_opts *asked)
{
    LOG_INTERNAL("_create_run_config");
    return det_accel_default.create_run_config(t, asked);
}

static void run_training(det_accel *t)
{
    LOG_INTERNAL("_run_training");
    det_accel_default.run_training(t);
}

static void run_train_epoch(det_accel *t, det_loader *loader)
{
    LOG_INTERNAL("_run_train_epoch");
    det_accel_default.run_train_epoch(t, loader);
}

static void run_eval_epoch(det_accel *t, det_loader *loader)
{
    LOG_INTERNAL("_run_eval_epoch");
    det_accel_default.run_eval_epoch(t, loader);
}

static void clip_gradients(det_accel *t)
{
    LOG_INTERNAL("_clip_gradients");
    det_accel_default.clip_gradients(t);
}

static const det_accel_ops traced_ops = {
    .create_train_dataloader = create_train_dataloader,
    .get_default_train_dl_kwargs = get_default_train_dl_kwargs,
    .create_eval_dataloader = create_eval_dataloader,
    .get_default_eval_dl_kwargs = get_default_eval_dl_kwargs,
    .create_scheduler = create_scheduler,
    .training_run_start = training_run_start,
    .training_run_epoch_end = training_run_epoch_end,
    .training_run_end = training_run_end,
    .train_epoch_start = train_epoch_start,
    .calculate_train_batch_loss = calculate_train_batch_loss,
    .backward_step = backward_step,
    .optimizer_step = optimizer_step,
    .scheduler_step = scheduler_step,
    .optimizer_zero_grad = optimizer_zero_grad,
    .train_epoch_end = train_epoch_end,
    .eval_epoch_start = eval_epoch_start,
    .calculate_eval_batch_loss = calculate_eval_batch_loss,
    .eval_epoch_end = eval_epoch_end,
    .evaluation_run_start = evaluation_run_start,
    .evaluation_run_end = evaluation_run_end,
    .prepare_model_and_optimizer = prepare_model_and_optimizer,
    .prepare_dataloaders = prepare_dataloaders,
    .create_run_config = create_run_config,
    .run_training = run_training,
    .run_train_epoch = run_train_epoch,
    .clip_gradients = clip_gradients,
    .run_eval_epoch = run_eval_epoch,
};

#define TRACED_EVENT(event)                     \
    static void event(void *self, det_accel *t) \
    {                                           \
        (void)self, (void)t;                    \
        LOG(#event);                            \
    }

#define TRACED_BATCH_EVENT(event)                                            \
    static void event(void *self, det_accel *t, const det_value *batch,      \
                      const det_accel_batch_output *output)                  \
    {                                                                        \
        (void)self, (void)t;                                                 \
        assert_int_equal(det_batch_length(batch, NULL), output->batch_size); \
        assert_non_null(output->model_outputs);                              \
        LOG(#event);                                                         \
    }

TRACED_EVENT(on_init_end)
TRACED_EVENT(on_training_run_start)
TRACED_EVENT(on_train_epoch_start)
TRACED_EVENT(on_train_step_start)
TRACED_BATCH_EVENT(on_train_step_end)
TRACED_EVENT(on_train_epoch_end)
TRACED_EVENT(on_eval_epoch_start)
TRACED_EVENT(on_eval_step_start)
TRACED_BATCH_EVENT(on_eval_step_end)
TRACED_EVENT(on_eval_epoch_end)
TRACED_EVENT(on_training_run_epoch_end)
TRACED_EVENT(on_training_run_end)
TRACED_EVENT(on_evaluation_run_start)
TRACED_EVENT(on_evaluation_run_end)
TRACED_EVENT(on_stop_training_error)

static const det_accel_callback_ops traced_events = {
    .name = "Trace",
    .on_init_end = on_init_end,
    .on_training_run_start = on_training_run_start,
    .on_train_epoch_start = on_train_epoch_start,
    .on_train_step_start = on_train_step_start,
    .on_train_step_end = on_train_step_end,
    .on_train_epoch_end = on_train_epoch_end,
    .on_eval_epoch_start = on_eval_epoch_start,
    .on_eval_step_start = on_eval_step_start,
    .on_eval_step_end = on_eval_step_end,
    .on_eval_epoch_end = on_eval_epoch_end,
    .on_training_run_epoch_end = on_training_run_epoch_end,
    .on_training_run_end = on_training_run_end,
    .on_evaluation_run_start = on_evaluation_run_start,
    .on_evaluation_run_end = on_evaluation_run_end,
    .on_stop_training_error = on_stop_training_error,
};

DET_ACCEL_PARTIAL(decay, det_lr_step_decay, 7, 0.1);

static char *text;
static size_t n_text;

static det_accel *traced_trainer(det_accel_callback *more)
{
    trace = open_memstream(&text, &n_text);
    return small_trainer(.ops = &traced_ops,
                         .callbacks = DET_ACCEL_CALLBACKS(
                             det_accel_callback_new(&traced_events, NULL), more));
}

// Compares what was written with a file of tests/golden/accel, line by line.
static void assert_trace(det_accel *t, const char *name)
{
    det_accel_free(t);
    fclose(trace);
    char path[128], line[128];
    snprintf(path, sizeof path, "tests/golden/accel/%s", name);
    FILE *golden = fopen(path, "r");
    if (!golden) fail_msg("no %s; the trace is:\n%s", path, text);
    char *at = text;
    for (int n = 1; fgets(line, sizeof line, golden); n++) {
        char *end = strchr(at, '\n');
        if (!end) fail_msg("%s:%d: %sis missing", path, n, line);
        size_t length = (size_t)(end - at) + 1;
        if (strlen(line) != length || memcmp(line, at, length))
            fail_msg("%s:%d: expected %s, got %.*s", path, n, line, (int)length, at);
        at = end + 1;
    }
    if (*at) fail_msg("%s: more follows:\n%s", path, at);
    fclose(golden);
    free(text);
}

static void test_trace__training_run(void **state)
{
    (void)state;
    det_dataset *train = pairs(8), *eval = pairs(6);
    with_internal = false;
    det_accel *t = traced_trainer(NULL);
    assert_trains(t, train, .num_epochs = 2, .eval_dataset = eval, .per_device_batch_size = 4,
                  .create_scheduler = decay);
    assert_trace(t, "train.trace");
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_trace__evaluation_run(void **state)
{
    (void)state;
    det_dataset *eval = pairs(6);
    with_internal = false;
    det_accel *t = traced_trainer(NULL);
    det_err err;
    assert_ok(try_evaluate(t, eval, &err, .per_device_batch_size = 4), &err);
    assert_trace(t, "evaluate.trace");
    det_dataset_free(eval);
}

// With the steps that are not for everyone; accumulation, clipping, no evaluation, no scheduler.
static void test_trace__internal_steps(void **state)
{
    (void)state;
    det_dataset *train = pairs(5);
    with_internal = true;
    det_accel *t = traced_trainer(NULL);
    assert_trains(t, train, .num_epochs = 1, .per_device_batch_size = 2,
                  .gradient_accumulation_steps = 2, .gradient_clip_value = 1);
    assert_trace(t, "internal.trace");
    det_dataset_free(train);
}

static void stop_at_second(void *self, det_accel *t, const det_value *batch,
                           const det_accel_batch_output *output)
{
    (void)self, (void)batch, (void)output;
    if (det_accel_step(t) == 1) det_accel_stop(t, "enough");
}

// The rest of the step and of the epoch is left out; the run itself still ends as any other.
static void test_trace__stopped_run(void **state)
{
    (void)state;
    static const det_accel_callback_ops stopper = {.name = "Stop",
                                                   .on_train_step_end = stop_at_second};
    det_dataset *train = pairs(8), *eval = pairs(6);
    with_internal = false;
    FILE *out = fopen("/dev/null", "w");
    trace = open_memstream(&text, &n_text);
    det_accel *t =
        small_trainer(.ops = &traced_ops, .out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_new(&traced_events, NULL),
                                                       det_accel_callback_new(&stopper, NULL)));
    assert_trains(t, train, .num_epochs = 2, .eval_dataset = eval, .per_device_batch_size = 4);
    assert_trace(t, "stopped.trace");
    fclose(out);
    det_dataset_free(train);
    det_dataset_free(eval);
}

RUN_TESTS(TEST(test_trace__training_run), TEST(test_trace__evaluation_run),
          TEST(test_trace__internal_steps), TEST(test_trace__stopped_run))
