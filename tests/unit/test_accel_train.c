// Training and evaluation with the default steps, and with steps of one's own.
#include "support/accel.h"
#include "support/files.h"

static void test_train__learns(void **state)
{
    (void)state;
    det_dataset *train = pairs(200), *eval = pairs(64);
    det_accel *t = small_trainer();
    assert_null(det_accel_get_run_config(t));
    assert_trains(t, train, .num_epochs = 20, .eval_dataset = eval, .per_device_batch_size = 16);
    assert_int_equal(n_values(t, "train_loss_epoch"), 20);
    assert_int_equal(n_values(t, "eval_loss_epoch"), 20);
    assert_true(latest(t, "eval_loss_epoch") < 0.25);
    assert_int_equal(det_accel_history_current_epoch(det_accel_run_history(t)), 21);
    assert_int_equal(det_accel_get_run_config(t)->num_update_steps_per_epoch, 13);
    double before = latest(t, "eval_loss_epoch");
    det_err err;
    assert_ok(try_evaluate(t, eval, &err), &err);
    assert_near(latest(t, "evaluation_loss"), before, 1e-6);
    assert_int_equal(det_accel_history_n_metrics(det_accel_run_history(t)), 1);
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_train__is_reproducible(void **state)
{
    (void)state;
    det_dataset *train = pairs(50);
    det_accel *a = small_trainer(), *b = small_trainer(), *c = small_trainer(.seed = 3);
    assert_trains(a, train, .num_epochs = 2);
    assert_trains(b, train, .num_epochs = 2);
    assert_trains(c, train, .num_epochs = 2);
    assert_true(same_weights(a, b));
    assert_false(same_weights(a, c)); // another order of samples
    det_accel_free(a);
    det_accel_free(b);
    det_accel_free(c);
    det_dataset_free(train);
}

// --- loaders

static void test_train__loader_options_win(void **state)
{
    (void)state;
    det_dataset *train = pairs(200);
    det_accel *t = small_trainer();
    assert_trains(t, train, .num_epochs = 1, .per_device_batch_size = 10,
                  .train_dataloader_kwargs = DET_ACCEL_DL_KWARGS(.batch_size = 100));
    assert_int_equal(det_accel_get_run_config(t)->train_per_device_batch_size, 100);
    assert_int_equal(det_accel_get_run_config(t)->train_dataloader_len, 2);
    assert_true(det_accel_get_run_config(t)->train_dl_kwargs.shuffle);
    assert_trains(t, train, .num_epochs = 1,
                  .train_dataloader_kwargs =
                      DET_ACCEL_DL_KWARGS(.sampler = det_sampler_sequential(24)));
    assert_int_equal(det_accel_get_run_config(t)->train_dataloader_len, 3);
    assert_false(det_accel_get_run_config(t)->train_dl_kwargs.shuffle);
    assert_trains(t, train, .num_epochs = 1, .shuffle = false);
    assert_false(det_accel_get_run_config(t)->train_dl_kwargs.shuffle);
    det_accel_free(t);
    det_dataset_free(train);
}

// --- accumulation and clipping

static void run_accumulated(det_accel *t, det_dataset *d, int64_t batch, int64_t accumulation)
{
    assert_trains(t, d, .num_epochs = 2, .per_device_batch_size = batch, .shuffle = false,
                  .gradient_accumulation_steps = accumulation);
}

static void test_accumulation__is_a_larger_batch(void **state)
{
    (void)state;
    det_dataset *train = pairs(48);
    det_accel *large = small_trainer(), *small = small_trainer();
    run_accumulated(large, train, 16, 1);
    run_accumulated(small, train, 4, 4);
    assert_int_equal(det_accel_updates(small), det_accel_updates(large));
    assert_near(weight_distance(large, small), 0, 1e-6);
    assert_near(latest(small, "train_loss_epoch"), latest(large, "train_loss_epoch"), 1e-6);
    det_accel_free(large);
    det_accel_free(small);
    det_dataset_free(train);
}

// 40 samples in updates of 16: the last one has 8, and is as strong as a batch of 8.
static void test_accumulation__divides_a_short_window_by_its_length(void **state)
{
    (void)state;
    det_dataset *train = pairs(40);
    det_accel *large = small_trainer(), *small = small_trainer();
    run_accumulated(large, train, 16, 1);
    run_accumulated(small, train, 4, 4);
    assert_int_equal(det_accel_updates(small), 6);
    assert_near(weight_distance(large, small), 0, 1e-6);
    det_accel_free(large);
    det_accel_free(small);
    det_dataset_free(train);
}

static double largest_grad;

static void note_grads(det_accel *t)
{
    for (int i = 0; i < det_module_n_params(det_accel_model(t)); i++) {
        det_tensor *g = det_grad(det_module_param(det_accel_model(t), i));
        largest_grad = fmax(largest_grad, det_item(det_max(det_abs(g))));
    }
    det_accel_default.optimizer_step(t);
}

static void test_clipping__cuts_gradients_once_complete(void **state)
{
    (void)state;
    static const det_accel_ops ops = {.optimizer_step = note_grads};
    det_dataset *train = pairs(16);
    det_accel *t = small_trainer(.ops = &ops);
    assert_trains(t, train, .num_epochs = 1);
    assert_true(largest_grad > 0.01);
    largest_grad = 0;
    assert_trains(t, train, .num_epochs = 1, .gradient_clip_value = 0.01,
                  .gradient_accumulation_steps = 2);
    assert_near(largest_grad, 0.01, 1e-9);
    det_accel_free(t);
    det_dataset_free(train);
}

// --- length

static int64_t updates_of(int64_t n_batches, det_accel_train_opts opts)
{
    det_dataset *train = pairs(n_batches);
    FILE *out = fopen("/dev/null", "w");
    det_accel *t = small_trainer(.out = out);
    opts.per_device_batch_size = 1;
    det_err err;
    det_accel_train_with(t, train, opts);
    assert_ok(det_check(&err), &err);
    int64_t n = det_accel_updates(t);
    assert_int_equal(n_values(t, "train_loss_epoch"),
                     det_accel_history_current_epoch(det_accel_run_history(t)) - 1);
    det_accel_free(t);
    det_dataset_free(train);
    fclose(out);
    return n;
}

static void test_length__ends_with_the_maximum_of_steps(void **state)
{
    (void)state;
    assert_int_equal(updates_of(40, DET_ACCEL_TRAIN_OPTS(.gradient_accumulation_steps = 2,
                                                         .max_num_train_steps = 15)),
                     15);
    assert_int_equal(
        updates_of(10, DET_ACCEL_TRAIN_OPTS(.num_epochs = 2, .max_num_train_steps = 7)), 7);
    assert_int_equal(updates_of(6, DET_ACCEL_TRAIN_OPTS(.num_epochs = 2)), 12);
    assert_int_equal(updates_of(10, DET_ACCEL_TRAIN_OPTS(.max_num_train_steps = 25)), 25);
}

static void test_history__goes_on_if_asked(void **state)
{
    (void)state;
    det_dataset *train = pairs(8);
    det_accel *t = small_trainer();
    assert_trains(t, train, .num_epochs = 2);
    assert_trains(t, train, .num_epochs = 3, .keep_run_history = true);
    assert_int_equal(n_values(t, "train_loss_epoch"), 5);
    assert_int_equal(det_accel_history_current_epoch(det_accel_run_history(t)), 6);
    assert_trains(t, train, .num_epochs = 1);
    assert_int_equal(n_values(t, "train_loss_epoch"), 1);
    det_accel_free(t);
    det_dataset_free(train);
}

// --- mixed precision

static det_dtype output_dtype;

static det_accel_batch_output note_dtype(det_accel *t, const det_value *batch)
{
    det_accel_batch_output out = det_accel_default.calculate_train_batch_loss(t, batch);
    output_dtype = det_dtype_of(out.model_outputs);
    return out;
}

static void test_bf16__computes_in_mixed_precision(void **state)
{
    (void)state;
    static const det_accel_ops ops = {.calculate_train_batch_loss = note_dtype};
    det_dataset *train = pairs(64);
    det_accel *t = small_trainer(.ops = &ops, .bf16 = true);
    assert_trains(t, train, .num_epochs = 10, .eval_dataset = train);
    assert_int_equal(output_dtype, DET_BF16);
    assert_string_equal(det_accel_get_run_config(t)->mixed_precision, "bf16");
    assert_true(latest(t, "eval_loss_epoch") < 0.5);
    assert_false(det_autocast());
    det_accel_free(t);
    det_dataset_free(train);
}

// --- a trainer of one's own: the metrics of the document

struct with_metrics {
    det_confusion *metrics;
};

static det_accel_batch_output metrics_eval_batch(det_accel *t, const det_value *batch)
{
    struct with_metrics *self = det_accel_self(t);
    det_accel_batch_output out = det_accel_default.calculate_eval_batch_loss(t, batch);
    det_confusion_update(self->metrics, det_argmax(out.model_outputs, -1, false),
                         det_batch_at(batch, 1));
    return out;
}

static void metrics_eval_end(det_accel *t)
{
    struct with_metrics *self = det_accel_self(t);
    det_accel_history *history = det_accel_run_history(t);
    det_accel_history_update(history, "accuracy", det_confusion_accuracy(self->metrics));
    det_confusion_reset(self->metrics);
}

static void test_ops__record_metrics_of_their_own(void **state)
{
    (void)state;
    static const det_accel_ops ops = {.calculate_eval_batch_loss = metrics_eval_batch,
                                      .eval_epoch_end = metrics_eval_end};
    struct with_metrics self = {det_confusion_new(2)};
    det_dataset *train = pairs(200);
    det_accel *t = small_trainer(.ops = &ops, .self = &self);
    assert_trains(t, train, .num_epochs = 8, .eval_dataset = train);
    assert_int_equal(n_values(t, "accuracy"), 8);
    assert_true(latest(t, "accuracy") > 0.9);
    det_accel_free(t);
    det_confusion_free(self.metrics);
    det_dataset_free(train);
}

static det_lr_scheduler *own_scheduler(det_accel *t)
{
    return det_lr_exponential(det_accel_optimizer(t), 0.5);
}

static void test_ops__create_a_scheduler(void **state)
{
    (void)state;
    static const det_accel_ops ops = {.create_scheduler = own_scheduler};
    det_dataset *train = pairs(24);
    det_accel *t = small_trainer(.ops = &ops);
    assert_trains(t, train, .num_epochs = 1);
    assert_near(det_optim_lr(det_accel_optimizer(t), 0), 0.1 / 8, 1e-15);
    det_accel_free(t);
    det_dataset_free(train);
}

// --- what goes wrong

static det_accel_batch_output fail_at_third(det_accel *t, const det_value *batch)
{
    if (det_accel_step(t) == 2) det_raise(DET_ESTATE, "out of luck");
    return det_accel_default.calculate_train_batch_loss(t, batch);
}

static det_accel_batch_output forget_loss(det_accel *t, const det_value *batch)
{
    det_accel_batch_output out = det_accel_default.calculate_train_batch_loss(t, batch);
    out.loss = NULL;
    return out;
}

static void assert_train_fails(const det_accel_ops *ops, int code, const char *message)
{
    det_dataset *train = pairs(32);
    det_accel *t = small_trainer(.ops = ops);
    det_err err;
    assert_int_equal(try_train(t, train, &err, .num_epochs = 1), code);
    assert_err(err, code, message);
    assert_trains(t, train, .num_epochs = 1, .max_num_train_steps = 1); // it can be used again
    det_accel_free(t);
    det_dataset_free(train);
}

static void test_train__says_where_it_failed(void **state)
{
    (void)state;
    assert_train_fails(&(det_accel_ops){.calculate_train_batch_loss = fail_at_third}, DET_ESTATE,
                       "epoch 1, batch 3: out of luck");
}

static void fail_after(void *self, det_accel *t)
{
    int *left = self;
    (void)t;
    if (!--*left) det_raise(DET_ESTATE, "out of luck");
}

static void assert_callback_fails(const det_accel_callback_ops *ops, int times, const char *message)
{
    det_dataset *train = pairs(32), *eval = pairs(16);
    det_accel *t =
        small_trainer(.callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_print_metrics(),
                                                       det_accel_callback_new(ops, &times)));
    det_err err;
    try_train(t, train, &err, .num_epochs = 3, .eval_dataset = eval);
    assert_err(err, DET_ESTATE, message);
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_train__names_the_callback_that_failed(void **state)
{
    (void)state;
    assert_callback_fails(
        &(det_accel_callback_ops){.name = "Mine", .on_training_run_epoch_end = fail_after}, 2,
        "epoch 2, Mine: out of luck");
    assert_callback_fails(
        &(det_accel_callback_ops){.name = "Mine", .on_eval_step_start = fail_after}, 3,
        "epoch 2, evaluation, batch 1, Mine: out of luck");
    assert_callback_fails(
        &(det_accel_callback_ops){.name = "Mine", .on_training_run_start = fail_after}, 1,
        "Mine: out of luck");
}

static void test_train__wants_a_loss(void **state)
{
    (void)state;
    det_dataset *train = pairs(32);
    det_accel *t =
        small_trainer(.ops = &(det_accel_ops){.calculate_train_batch_loss = forget_loss});
    det_err err;
    try_train(t, train, &err, .num_epochs = 1);
    assert_err(err, DET_EINVAL, "without a loss");
    det_accel_free(t);
    det_dataset_free(train);
}

static void test_train__refuses_bad_arguments(void **state)
{
    (void)state;
    det_dataset *train = pairs(4);
    det_accel *t = small_trainer();
    det_err err;
    try_train(t, train, &err);
    assert_err(err, DET_EINVAL, "give num_epochs or max_num_train_steps");
    try_train(t, NULL, &err, .num_epochs = 1);
    assert_err(err, DET_EINVAL, "the dataset is NULL");
    try_train(NULL, train, &err, .num_epochs = 1);
    assert_err(err, DET_EINVAL, "the trainer is NULL");
    try_train(t, train, &err, .num_epochs = 1, .per_device_batch_size = -1);
    assert_err(err, DET_EINVAL, "per_device_batch_size must be >= 1, got -1");
    try_train(t, train, &err, .num_epochs = 0);
    assert_err(err, DET_EINVAL, "num_epochs and max_num_train_steps must be >= 1, got 0");
    try_train(t, train, &err, .num_epochs = 1, .run = {.max_length = det_batches(5)});
    assert_err(err, DET_EINVAL,
               ".run.max_length is not for the accelerated trainer: use .num_epochs");
    try_train(t, train, &err, .num_epochs = 1,
              .train_dataloader_kwargs = DET_ACCEL_DL_KWARGS(.batch_size = 5, .drop_last = true));
    assert_err(err, DET_EINVAL, "no batch");
    try_evaluate(t, NULL, &err);
    assert_err(err, DET_EINVAL, "the dataset is NULL");
    det_accel_free(t);
    assert_null(det_accel_new(NULL, det_mse_loss_with, NULL));
    assert_raised(DET_EINVAL, "the model is NULL");
    det_accel_free(NULL);
    det_dataset_free(train);
}

// Whatever failed while the model was built comes out of train().
static void test_train__tells_of_earlier_failures(void **state)
{
    (void)state;
    det_dataset *train = pairs(4);
    det_module *net = det_nn_linear(0, 1);
    det_accel *t = det_accel_new(net, det_mse_loss_with, det_optim_adam(net));
    det_err err;
    try_train(t, train, &err, .num_epochs = 1);
    assert_err(err, DET_EINVAL, "Linear: in_features must be >= 1");
    det_accel_free(t);
    det_dataset_free(train);
}

RUN_TESTS(TEST(test_train__learns), TEST(test_train__is_reproducible),
          TEST(test_train__loader_options_win), TEST(test_accumulation__is_a_larger_batch),
          TEST(test_accumulation__divides_a_short_window_by_its_length),
          TEST(test_clipping__cuts_gradients_once_complete),
          TEST(test_length__ends_with_the_maximum_of_steps), TEST(test_history__goes_on_if_asked),
          TEST(test_bf16__computes_in_mixed_precision), TEST(test_ops__record_metrics_of_their_own),
          TEST(test_ops__create_a_scheduler), TEST(test_train__says_where_it_failed),
          TEST(test_train__names_the_callback_that_failed), TEST(test_train__wants_a_loss),
          TEST(test_train__refuses_bad_arguments), TEST(test_train__tells_of_earlier_failures))
