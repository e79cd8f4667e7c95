// The callbacks that come with the trainer: when they stop, limit, print and save.
#include "support/accel.h"
#include "support/files.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>

static char *text;
static size_t n_text;

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static int n_lines_with(const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

// --- a scripted evaluation loss, one value per epoch

static double script[8];

static det_accel_batch_output scripted_eval(det_accel *t, const det_value *batch)
{
    det_accel_batch_output out = det_accel_default.calculate_eval_batch_loss(t, batch);
    int64_t epoch = det_accel_history_current_epoch(det_accel_run_history(t));
    out.loss = det_scalar(script[epoch - 1]);
    return out;
}

static const det_accel_ops scripted = {.calculate_eval_batch_loss = scripted_eval};

#define SCRIPT(...) memcpy(script, (double[8]){__VA_ARGS__}, sizeof script)

static int64_t epochs_with(det_accel_callback *c, int64_t num_epochs)
{
    det_dataset *d = pairs(8);
    FILE *out = open_memstream(&text, &n_text);
    det_accel *t = small_trainer(.ops = &scripted, .callbacks = DET_ACCEL_CALLBACKS(c), .out = out);
    assert_trains(t, d, .num_epochs = num_epochs, .eval_dataset = d);
    int64_t n = n_values(t, "eval_loss_epoch");
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
    return n;
}

// --- early stopping

static void test_early_stopping__waits_for_patience(void **state)
{
    (void)state;
    SCRIPT(1, 0.9, 0.95, 0.5, 0.6, 0.7, 0.1);
    assert_int_equal(epochs_with(det_accel_callback_early_stopping(.patience = 2), 7), 6);
    assert_int_equal(n_lines_with("Stopping training due to no improvement after 2 epochs"), 1);
    assert_int_equal(n_lines_with("Early stopping counter: 1/2"), 2);
    free(text);
    assert_int_equal(epochs_with(det_accel_callback_early_stopping(), 7), 3);
    free(text);
}

static void test_early_stopping__ignores_small_changes(void **state)
{
    (void)state;
    SCRIPT(1, 0.995, 0.98, 0.97);
    assert_int_equal(epochs_with(det_accel_callback_early_stopping(), 4), 2);
    free(text);
    assert_int_equal(epochs_with(det_accel_callback_early_stopping(.threshold = 0), 4), 4);
    free(text);
    SCRIPT(1, 1.5, 2, 1.9);
    assert_int_equal(epochs_with(det_accel_callback_early_stopping(.greater_is_better = true), 4),
                     4);
    free(text);
}

static void test_early_stopping__nan_is_no_improvement(void **state)
{
    (void)state;
    SCRIPT(NAN, 1, NAN, 0.5, NAN, NAN);
    assert_int_equal(epochs_with(det_accel_callback_early_stopping(.patience = 2), 6), 6);
    free(text);
}

// A counter of one run does not end the next one.
static void test_early_stopping__starts_afresh(void **state)
{
    (void)state;
    SCRIPT(1, 2, 3);
    det_dataset *d = pairs(8);
    FILE *out = fopen("/dev/null", "w");
    det_accel *t =
        small_trainer(.ops = &scripted, .out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_early_stopping()));
    for (int i = 0; i < 2; i++) {
        assert_trains(t, d, .num_epochs = 3, .eval_dataset = d);
        assert_int_equal(n_values(t, "eval_loss_epoch"), 2);
    }
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
}

static void test_early_stopping__names_a_missing_metric(void **state)
{
    (void)state;
    det_dataset *d = pairs(8);
    det_accel *t = small_trainer(.callbacks = DET_ACCEL_CALLBACKS(
                                     det_accel_callback_early_stopping(.watch_metric = "f1")));
    det_err err;
    try_train(t, d, &err, .num_epochs = 2);
    assert_err(err, DET_ENOTFOUND, "no metric 'f1'; there are: train_loss_epoch");
    det_accel_free(t);
    det_dataset_free(d);
}

// --- NaN

static det_accel_batch_output infinite_at_second(det_accel *t, const det_value *batch)
{
    det_accel_batch_output out = det_accel_default.calculate_train_batch_loss(t, batch);
    if (det_accel_step(t) == 1) out.loss = det_mul_scalar(out.loss, INFINITY);
    return out;
}

static void test_nan__ends_the_run_before_the_update(void **state)
{
    (void)state;
    static const det_accel_ops ops = {.calculate_train_batch_loss = infinite_at_second};
    det_dataset *d = pairs(32);
    FILE *out = open_memstream(&text, &n_text);
    det_accel *t =
        small_trainer(.ops = &ops, .out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_terminate_on_nan()));
    det_err err;
    assert_int_equal(try_train(t, d, &err, .num_epochs = 3), DET_ESTATE);
    assert_err(err, DET_ESTATE, "infinite or NaN");
    assert_int_equal(det_accel_updates(t), 1);
    fflush(out);
    assert_int_equal(n_lines_with("Stopping training due to a loss of inf in a training step"), 1);
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
    free(text);
}

static void test_nan__only_stops_an_evaluation(void **state)
{
    (void)state;
    SCRIPT(NAN);
    det_dataset *d = pairs(32);
    FILE *out = fopen("/dev/null", "w");
    det_accel *t =
        small_trainer(.ops = &scripted, .out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_terminate_on_nan()));
    det_err err;
    assert_ok(try_evaluate(t, d, &err), &err);
    assert_int_equal(n_values(t, "evaluation_loss"), 0);
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
}

// --- the best model

static void test_save_best__loads_the_best_at_the_end(void **state)
{
    (void)state;
    SCRIPT(1, 0.3, 0.8, 0.9);
    const char *path = temp_path("best.pt");
    det_dataset *d = pairs(32);
    FILE *out = open_memstream(&text, &n_text);
    det_accel *t = small_trainer(.ops = &scripted, .out = out,
                                 .callbacks = DET_ACCEL_CALLBACKS(
                                     det_accel_callback_save_best_model(.save_path = path))),
              *two = small_trainer();
    assert_trains(t, d, .num_epochs = 4, .eval_dataset = d);
    assert_trains(two, d, .num_epochs = 2);
    assert_true(same_weights(t, two));
    det_value *content;
    det_err err;
    assert_ok(try_load_checkpoint(t, path, &err, .content = &content), &err);
    double best;
    assert_ok(det_value_as_float(det_value_get(content, "eval_loss_epoch"), &best, &err), &err);
    assert_near(best, 0.3, 1e-7);
    det_value_free(content);
    det_accel_free(t);
    det_accel_free(two);
    det_dataset_free(d);
    fclose(out);
    assert_int_equal(n_lines_with("Loading checkpoint with eval_loss_epoch: 0.3 from epoch 2"), 1);
    free(text);
}

static void test_save_best__says_that_it_cannot_write(void **state)
{
    (void)state;
    det_dataset *d = pairs(8);
    det_accel *t =
        small_trainer(.callbacks = DET_ACCEL_CALLBACKS(
                          det_accel_callback_save_best_model(.save_path = "/nowhere/best.pt",
                                                             .watch_metric = "train_loss_epoch")));
    det_err err;
    assert_int_not_equal(try_train(t, d, &err, .num_epochs = 1), 0);
    assert_non_null(strstr(err.msg, "/nowhere"));
    det_accel_free(t);
    det_dataset_free(d);
}

// --- limits

static int64_t seen_train, seen_eval;

static void count_train(void *self, det_accel *t)
{
    (void)self, (void)t;
    seen_train++;
}

static void count_eval(void *self, det_accel *t)
{
    (void)self, (void)t;
    seen_eval++;
}

static const det_accel_callback_ops counter = {
    .name = "Count", .on_train_step_start = count_train, .on_eval_step_start = count_eval};

static void assert_batches(det_accel_callback *c, int64_t n_train, int64_t n_eval)
{
    seen_train = seen_eval = 0;
    det_dataset *train = pairs(40), *eval = pairs(32);
    FILE *out = fopen("/dev/null", "w");
    det_accel *t =
        small_trainer(.out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(c, det_accel_callback_new(&counter, NULL)));
    assert_trains(t, train, .num_epochs = 1, .eval_dataset = eval,
                  .gradient_accumulation_steps = 3);
    assert_int_equal(seen_train, n_train);
    assert_int_equal(seen_eval, n_eval);
    assert_int_equal(det_accel_updates(t), (n_train + 2) / 3);
    assert_int_equal(det_accel_get_run_config(t)->num_update_steps_per_epoch, 2);
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
    fclose(out);
}

static void test_limit__shortens_epochs(void **state)
{
    (void)state;
    assert_batches(NULL, 5, 4);
    assert_batches(det_accel_callback_limit_batches(2), 2, 2);
    assert_batches(det_accel_callback_limit_batches(100), 5,
                   4); // the last update is made all the same
    assert_batches(det_accel_callback_limit_eval_steps(3, true), 5, 3);
    assert_batches(det_accel_callback_limit_eval_steps(3, false), 5, 4);
    assert_null(det_accel_callback_limit_batches(0));
    assert_raised(DET_EINVAL, "LimitBatchesCallback: the number of batches must be >= 1, got 0");
}

static void test_limit__comes_from_the_environment(void **state)
{
    (void)state;
    setenv("PT_ACC_LIMIT_BATCHES", "3", 1);
    assert_batches(NULL, 3, 3);
    setenv("PT_ACC_LIMIT_BATCHES", "none", 1);
    assert_batches(NULL, 5, 4);
    setenv("PT_ACC_LIMIT_BATCHES", "many", 1);
    det_module *net = small_net();
    assert_null(det_accel_new(net, det_mse_loss_with, det_optim_adam(net)));
    assert_raised(DET_EINVAL, "PT_ACC_LIMIT_BATCHES: wants a number >= 1 or none, got 'many'");
    unsetenv("PT_ACC_LIMIT_BATCHES");
}

// --- evaluation amid an epoch

static void assert_in_training(void *self, det_accel *t)
{
    (void)self;
    assert_true(det_module_training(det_accel_model(t)));
    assert_false(det_accel_is_intermediate(t));
    seen_train++;
}

static void test_stepwise__evaluates_and_goes_on(void **state)
{
    (void)state;
    static const det_accel_callback_ops watcher = {.name = "Watch",
                                                   .on_train_step_start = assert_in_training,
                                                   .on_eval_step_start = count_eval};
    det_dataset *train = pairs(40), *eval = pairs(32);
    FILE *out = fopen("/dev/null", "w");
    det_accel *plain = small_trainer(),
              *t = small_trainer(.out = out, .callbacks = DET_ACCEL_CALLBACKS(
                                                 det_accel_callback_limit_eval_steps(1, false),
                                                 det_accel_callback_step_based_evaluation(2),
                                                 det_accel_callback_new(&watcher, NULL)));
    seen_train = seen_eval = 0;
    assert_trains(plain, train, .num_epochs = 1, .eval_dataset = eval);
    assert_trains(t, train, .num_epochs = 1, .eval_dataset = eval);
    assert_int_equal(seen_train, 5);
    assert_int_equal(seen_eval, 1 + 1 + 4); // at steps 2 and 4, then the whole
    assert_true(same_weights(plain, t));
    assert_near(latest(t, "train_loss_epoch"), latest(plain, "train_loss_epoch"), 0);
    assert_int_equal(n_values(t, "intermediate_eval_loss"), 0);
    det_accel_free(plain);
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
    fclose(out);
}

// --- printing

static void test_print__tells_progress_and_metrics(void **state)
{
    (void)state;
    SCRIPT(0.25, 0.125);
    det_dataset *d = pairs(8);
    FILE *out = open_memstream(&text, &n_text);
    det_module *net = small_net();
    det_accel *t = det_accel_new(net, det_cross_entropy_with, det_optim_sgd(net, .lr = 1e-9),
                                 .ops = &scripted, .out = out);
    assert_trains(t, d, .num_epochs = 2, .eval_dataset = d);
    int n;
    const double *v = det_accel_history_values(det_accel_run_history(t), "train_loss_epoch", &n);
    char expected[512];
    snprintf(expected, sizeof expected,
             "Starting training run\nStarting epoch 1\ntrain_loss_epoch: %.6g\n"
             "eval_loss_epoch: 0.25\nStarting epoch 2\ntrain_loss_epoch: %.6g\n"
             "eval_loss_epoch: 0.125\nFinishing training run\nStarting evaluation run\n"
             "evaluation_loss: 0.25\nFinishing evaluation run\n",
             v[0], v[1]);
    det_err err;
    assert_ok(try_evaluate(t, d, &err), &err);
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

// A terminal gets a bar of its own for each epoch, a file none.
static void test_bar__is_drawn_on_terminals(void **state)
{
    (void)state;
    int master, slave;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    FILE *out = fdopen(slave, "w");
    det_dataset *d = pairs(24);
    det_accel *t =
        small_trainer(.out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_progress_bar()));
    assert_trains(t, d, .num_epochs = 1, .eval_dataset = d);
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out); // reading ends with an error once all has been read
    char seen[4096] = "";
    for (ssize_t n, at = 0; (n = read(master, seen + at, sizeof seen - 1 - (size_t)at)) > 0;)
        at += n;
    close(master);
    assert_non_null(strstr(seen, "  0% |------------------------------| 0/3"));
    char *first = strstr(seen, "100% |##############################| 3/3");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "100% |##############################| 3/3"));
}

// --- the list of callbacks

static void test_callbacks__refuses_two_of_a_kind(void **state)
{
    (void)state;
    det_module *net = small_net();
    assert_null(
        det_accel_new(net, det_mse_loss_with, det_optim_adam(net),
                      .callbacks = DET_ACCEL_CALLBACKS(DET_ACCEL_DEFAULT_CALLBACKS,
                                                       det_accel_callback_print_metrics())));
    assert_raised(DET_EINVAL,
                  "there is a PrintMetricsCallback already, among TerminateOnNaNCallback, "
                  "PrintProgressCallback, ProgressBarCallback, PrintMetricsCallback");
    assert_null(det_accel_callback_new(&(det_accel_callback_ops){0}, NULL));
    assert_raised(DET_EINVAL, "no name");
}

static const char *heard_event;

static void hear(void *self, det_accel *t, const char *event, void *arg)
{
    (void)self, (void)t;
    heard_event = event;
    ++*(int *)arg;
}

static void test_callbacks__hear_events_of_ones_own(void **state)
{
    (void)state;
    static const det_accel_callback_ops hearing = {.name = "Hear", .on_event = hear},
                                        deaf = {.name = "Deaf"};
    det_accel *t =
        small_trainer(.callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_new(&hearing, NULL),
                                                       det_accel_callback_new(&deaf, NULL)));
    int n = 0;
    det_accel_call_event(t, "on_full_moon", &n);
    assert_string_equal(heard_event, "on_full_moon");
    assert_int_equal(n, 1);
    det_accel_free(t);
}

// --- averages

static void test_ema__is_evaluated_and_saved(void **state)
{
    (void)state;
    const char *path = temp_path("ema.pt");
    det_dataset *d = pairs(64);
    FILE *out = fopen("/dev/null", "w");
    seen_eval = 0;
    det_accel *plain = small_trainer(),
              *t = small_trainer(.out = out,
                                 .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_model_ema(
                                         .decay = 0.5, .save_path = path,
                                         .callbacks = DET_ACCEL_CALLBACKS(
                                             det_accel_callback_new(&counter, NULL)))));
    assert_trains(plain, d, .num_epochs = 2, .eval_dataset = d);
    assert_trains(t, d, .num_epochs = 2, .eval_dataset = d);
    assert_true(same_weights(plain, t)); // they are only looked at
    assert_int_equal(n_values(t, "ema_model_eval_loss_epoch"), 2);
    assert_int_equal(seen_eval, 2 * 8); // its callbacks see its evaluation, and nothing else
    double ema = latest(t, "ema_model_eval_loss_epoch");
    assert_true(fabs(ema - latest(t, "eval_loss_epoch")) > 1e-6);
    det_err err;
    assert_ok(try_load_checkpoint(plain, path, &err), &err);
    assert_ok(try_evaluate(plain, d, &err), &err);
    assert_near(latest(plain, "evaluation_loss"), ema, 1e-6);
    det_accel_free(plain);
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
}

// --- training states

static void assert_files(const char *dir, const char *const *names, const bool *there, int n)
{
    for (int i = 0; i < n; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (exists(path) != there[i]) fail_msg("%s is %sthere", path, there[i] ? "not " : "");
    }
}

static void run_saving(det_accel_callback *c, int64_t epochs)
{
    det_dataset *d = pairs(32); // 4 batches
    FILE *out = fopen("/dev/null", "w");
    det_accel *t = small_trainer(.out = out, .callbacks = DET_ACCEL_CALLBACKS(c));
    assert_trains(t, d, .num_epochs = epochs);
    det_accel_free(t);
    det_dataset_free(d);
    fclose(out);
}

static void test_training_state__is_saved_by_epochs(void **state)
{
    (void)state;
    static const char *const names[] = {"epoch_1.pth", "epoch_2.pth", "epoch_3.pth", "epoch_4.pth",
                                        "final.pth"};
    const char *dir = temp_path("epochs/below");
    run_saving(det_accel_callback_save_training_state(.save_dir = dir, .every_n_epochs = 2), 5);
    assert_files(dir, names, (bool[]){false, true, false, true, true}, 5);
    dir = temp_path("two");
    run_saving(det_accel_callback_save_training_state(.save_dir = dir, .every_n_epochs = 1,
                                                      .max_checkpoints = 2, .at_end = false),
               4);
    assert_files(dir, names, (bool[]){false, false, true, true, false}, 5);
}

static void test_training_state__is_saved_by_steps(void **state)
{
    (void)state;
    static const char *const names[] = {"step_2.pth", "step_3.pth", "step_4.pth",
                                        "step_6.pth", "step_7.pth", "step_8.pth"};
    const char *dir = temp_path("steps");
    run_saving(det_accel_callback_save_training_state(.save_dir = dir, .every_n_steps = 3,
                                                      .at_end = false),
               2);
    assert_files(dir, names, (bool[]){false, true, false, true, false, false}, 6);
}

DET_ACCEL_PARTIAL(wsd, det_lr_wsd, .total_steps = 8, .decay_phase_ratio = 0.25,
                  .num_checkpoints = 2);

static void test_wsd_checkpoint__saves_around_decays(void **state)
{
    (void)state;
    static const char *const names[] = {
        "checkpoint_3_wsd_pre_decay.pth", "checkpoint_4_wsd_post_decay.pth",
        "checkpoint_7_wsd_pre_decay.pth", "checkpoint_8_wsd_post_decay.pth"};
    const char *dir = temp_path("wsd");
    det_dataset *d = pairs(32);
    det_accel *t =
        small_trainer(.callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_wsd_checkpoint(dir)));
    assert_trains(t, d, .num_epochs = 2, .create_scheduler = wsd);
    assert_files(dir, names, (bool[]){true, true, true, true}, 4);
    det_err err;
    try_train(t, d, &err, .num_epochs = 1);
    assert_err(err, DET_EINVAL, "the scheduler is not a det_lr_wsd");
    det_accel_free(t);
    det_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_early_stopping__waits_for_patience),
        TEST(test_early_stopping__ignores_small_changes),
        TEST(test_early_stopping__nan_is_no_improvement),
        TEST(test_early_stopping__starts_afresh),
        TEST(test_early_stopping__names_a_missing_metric),
        TEST(test_nan__ends_the_run_before_the_update),
        TEST(test_nan__only_stops_an_evaluation),
        TEST(test_save_best__loads_the_best_at_the_end),
        TEST(test_save_best__says_that_it_cannot_write),
        TEST(test_limit__shortens_epochs),
        TEST(test_limit__comes_from_the_environment),
        TEST(test_stepwise__evaluates_and_goes_on),
        TEST(test_print__tells_progress_and_metrics),
        TEST(test_bar__is_drawn_on_terminals),
        TEST(test_callbacks__refuses_two_of_a_kind),
        TEST(test_callbacks__hear_events_of_ones_own),
        TEST(test_ema__is_evaluated_and_saved),
        TEST(test_training_state__is_saved_by_epochs),
        TEST(test_training_state__is_saved_by_steps),
        TEST(test_wsd_checkpoint__saves_around_decays),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
