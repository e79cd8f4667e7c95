// The loop: which events happen, how often, in which order, and how it ends.
#include "support/callbacks.h"
#include "support/files.h"
#include "support/onevar.h"
#include "support/training.h"
#include "train/train.h"
#include <sys/stat.h>
#include <unistd.h>

static struct counter counter;
static struct training_log training;

static void add_counter(void *self, det_context *ctx)
{
    (void)self;
    counter.ctx = ctx;
    det_add_callback(ctx, "counter", &counting, &counter);
}

static det_trial_ops counted(void)
{
    det_trial_ops ops = OneVarTrial;
    ops.build_callbacks = add_counter;
    return ops;
}

static int reset(void **state)
{
    counter = (struct counter){0};
    memset(&training, 0, sizeof training);
    return lab_setup(state);
}

#define LOOP_TEST(function) cmocka_unit_test_setup_teardown(function, reset, lab_teardown)

static const char *const by_2 = "{learning_rate: 0.001, global_batch_size: 2}"; // 32 per epoch
static const char *const by_4 = "{learning_rate: 0.001, global_batch_size: 4}"; // 16 per epoch

#define NEVER ((det_length){.unit = DET_UNIT_NEVER})

#define run(hp, ...) run_with(hp, (det_train_opts){__VA_ARGS__})

static const det_result *run_with(const char *hparams, det_train_opts opts)
{
    static det_trainer *t;
    static det_trial_ops ops;
    det_trainer_free(t); // of the run before
    ops = counted();
    t = lab_init(.hparams = hparams, .seed = 7);
    det_trial *trial = det_build_trial(t, &ops);
    opts.checkpoint_dir = temp_path("checkpoints");
    if (!opts.on_report) {
        opts.on_report = training_logged;
        opts.report_user = &training;
    }
    return det_train_with(t, trial, opts);
}

// --- how often

static void expect_counts(int workloads, int validations, int checkpoints)
{
    assert_int_equal(counter.workloads, workloads);
    assert_int_equal(training.n_training, workloads);
    assert_int_equal(counter.validations, validations);
    assert_int_equal(counter.validation_ends, validations);
    assert_int_equal(training.n_validation, validations);
    assert_int_equal(counter.save_starts, checkpoints);
    assert_int_equal(counter.writes, checkpoints);
    assert_int_equal(counter.uploads, checkpoints);
    assert_int_equal(training.n_checkpoint, checkpoints);
    assert_int_equal(counter.epoch_starts, 2);
    assert_int_equal(counter.epoch_ends, 2);
    assert_int_equal(counter.startups, 1);
    assert_int_equal(counter.training_starts, 1);
    assert_int_equal(counter.shutdowns, 1);
}

static void test_loop__runs_one_workload_without_periods(void **state)
{
    (void)state;
    assert_non_null(run(by_2, .max_length = det_batches(64), .reporting_period = NEVER));
    expect_counts(1, 1, 1);
    assert_int_equal(training.n_batch, 64);
    assert_int_equal(counter.batches, 64);
}

static void test_loop__validates_by_period(void **state)
{
    (void)state;
    run(by_2, .max_length = det_batches(64), .reporting_period = NEVER,
        .min_validation_period = det_batches(32));
    expect_counts(2, 2, 2);
}

static void test_loop__saves_by_period(void **state)
{
    (void)state;
    run(by_2, .max_length = det_batches(64), .reporting_period = NEVER,
        .min_checkpoint_period = det_batches(32));
    expect_counts(2, 1, 2);
}

static void test_loop__combines_periods(void **state)
{
    (void)state;
    run(by_4, .max_length = det_epochs(2), .min_checkpoint_period = det_batches(5),
        .min_validation_period = det_batches(10));
    expect_counts(7, 4, 7);
    counter = (struct counter){0};
    memset(&training, 0, sizeof training);
    run(by_2, .max_length = det_batches(100), .min_checkpoint_period = det_batches(50),
        .min_validation_period = det_batches(50));
    assert_int_equal(counter.batch_metrics, 100);
    assert_int_equal(counter.validations, 2);
    assert_int_equal(counter.uploads, 2);
}

static void test_loop__takes_records_epochs_and_lists(void **state)
{
    (void)state;
    run(by_4, .max_length = det_records(64), .reporting_period = NEVER,
        .min_validation_period = det_epochs(1));
    assert_int_equal(counter.batch_metrics, 16);
    assert_int_equal(counter.validations, 1);
    const int64_t at[] = {3, 4, 11};
    counter.validations = counter.workloads = 0;
    run(by_4, .max_length = det_batches(16), .reporting_period = NEVER,
        .min_validation_period = {.unit = DET_UNIT_BATCHES, .at = at, .n_at = 3});
    assert_int_equal(counter.validations, 4); // and at the end
    assert_int_equal(counter.workloads, 4);
    counter.validations = 0;
    run(by_4, .max_length = det_batches(3), .min_validation_period = det_batches(0)); // always
    assert_int_equal(counter.validations, 3);
}

static void test_loop__reports_exact_progress(void **state)
{
    (void)state;
    run(by_2, .max_length = det_batches(100), .reporting_period = det_batches(10));
    assert_int_equal(training.n_training, 10);
    for (int i = 0; i < 10; i++)
        assert_near(training.progress[i], (i + 1) / 10.0, 0);
}

static void test_loop__test_mode_is_one_batch_of_each(void **state)
{
    (void)state;
    run(by_2, .test_mode = true, .max_length = det_epochs(9));
    assert_string_equal(counter.trace,
                        "startup(0) start epoch(0) workload(1) val val_epoch val_epoch_end(1) "
                        "val_end(loss) state save write_end upload_end(36) load(mine) "
                        "load_state(1) shutdown");
}

static int refuse_state(void *self, const det_value *state, det_err *err)
{
    (void)self;
    (void)state;
    return det_fail(err, DET_EINVAL, "not mine");
}

static void add_refusing(void *self, det_context *ctx)
{
    static det_callback_ops refusing;
    (void)self;
    refusing = counting;
    refusing.load_state_dict = refuse_state;
    det_add_callback(ctx, "mine", &refusing, &counter);
}

static void test_loop__test_mode_loads_its_checkpoint_and_keeps_nothing(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    const char *scratch = temp_path("scratch"), *saved = temp_path("tested");
    assert_int_equal(mkdir(scratch, 0700), 0);
    setenv("TMPDIR", scratch, 1);
    for (int refuses = 0; refuses < 2; refuses++) {
        if (refuses) ops.build_callbacks = add_refusing;
        det_trainer *t = lab_init(.hparams = by_2);
        const det_result *r = det_train(t, det_build_trial(t, &ops), .test_mode = true,
                                        .checkpoint_dir = saved, LOG_TO(&training));
        assert_true(refuses ? !r : r && !r->checkpoint);
        if (refuses) assert_raised(DET_EINVAL, "the checkpoint of this test: cannot resume");
        assert_int_equal(training.n_checkpoint, 1 + refuses);
        det_trainer_free(t);
        assert_int_equal(rmdir(scratch), 0); // it is empty
        assert_int_equal(mkdir(scratch, 0700), 0);
        assert_int_equal(access(saved, F_OK), -1);
    }
    unsetenv("TMPDIR");
}

static void test_loop__validates_before_the_first_batch_if_asked(void **state)
{
    (void)state;
    run(by_2, .max_length = det_batches(1), .initial_validation = true);
    assert_int_equal(counter.validations, 2);
    assert_near(training.validation_loss[0], 1, 0);
}

// --- in which order

static void test_loop__validates_before_it_saves(void **state)
{
    (void)state;
    run(by_4, .max_length = det_epochs(1), .min_validation_period = det_epochs(1),
        .min_checkpoint_period = det_batches(8), .checkpoint_policy = DET_CHECKPOINT_NONE);
    assert_string_equal(
        counter.trace,
        "startup(0) start epoch(0) workload(8) state save write_end upload_end(36) epoch_end(0) "
        "workload(8) val val_epoch val_epoch_end(16) val_end(loss) state save write_end "
        "upload_end(36) shutdown");
}

static void test_loop__resumes_with_the_same_events(void **state)
{
    (void)state;
    static char first[256];
    run(by_4, .max_length = det_batches(8));
    snprintf(first, sizeof first, "%s", training.checkpoint);
    counter = (struct counter){0};
    const det_result *r = run(by_4, .max_length = det_epochs(2), .resume = first);
    assert_fine();
    assert_string_equal(
        counter.trace,
        "startup(8 resumed) load(mine) load_state(1) start epoch_end(0) epoch(1) epoch_end(1) "
        "workload(24) val val_epoch val_epoch_end(16) val_end(loss) state save write_end "
        "upload_end(36) shutdown");
    assert_int_equal(r->batches, 32);
    assert_int_equal(r->epochs, 2);
}

static void test_loop__does_nothing_that_is_done(void **state)
{
    (void)state;
    static char done[256];
    run(by_4, .max_length = det_batches(8));
    snprintf(done, sizeof done, "%s", training.checkpoint);
    for (int length = 4; length <= 8; length += 4) {
        counter = (struct counter){0};
        const det_result *r = run(by_4, .max_length = det_batches(length), .resume = done);
        assert_string_equal(counter.trace,
                            "startup(8 resumed) load(mine) load_state(1) start shutdown");
        assert_int_equal(r->batches, 8);
    }
}

// --- how it ends

static void test_loop__stops_after_the_workload(void **state)
{
    (void)state;
    counter.stop_at = 2;
    const det_result *r =
        run(by_2, .max_length = det_batches(100), .reporting_period = det_batches(10),
            .min_validation_period = det_batches(10), .checkpoint_policy = DET_CHECKPOINT_NONE);
    assert_int_equal(r->batches, 20);
    assert_int_equal(r->stop_reason, DET_STOP_REQUESTED);
    assert_int_equal(counter.uploads, 1);
    assert_int_equal(training.checkpoint_batches[0], 20);
}

static int stop_flag;

static void stop_after_7(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_BATCH && r->batches == 7) stop_flag = 1;
}

static void test_loop__stops_after_the_batch_if_told_from_outside(void **state)
{
    (void)state;
    stop_flag = 0;
    const det_result *r =
        run(by_2, .max_length = det_batches(100), .stop = &stop_flag, .on_report = stop_after_7);
    assert_int_equal(r->batches, 7);
    assert_int_equal(r->stop_reason, DET_STOP_REQUESTED);
    assert_int_equal(counter.uploads, 1);
}

// A second callback, to see the order of both.
static void add_two(void *self, det_context *ctx)
{
    static const det_callback_ops second = {.on_trial_shutdown = count_shutdown};
    add_counter(self, ctx);
    static struct counter other;
    det_add_callback(ctx, "second", &second, &other);
    det_add_callback(ctx, "counter", &counting, &other);
}

static void test_loop__shuts_callbacks_down_after_errors(void **state)
{
    (void)state;
    counter.fail_in_epoch = 1;
    assert_null(run(by_4, .max_length = det_epochs(2)));
    assert_raised(DET_EIO, "callback 'counter', on_training_epoch_start: the disk is full of eels");
    assert_int_equal(counter.shutdowns, 1);
}

static void test_loop__refuses_two_callbacks_of_one_name(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.build_callbacks = add_two;
    det_trainer *t = lab_init(.hparams = by_2);
    assert_null(det_build_trial(t, &ops));
    assert_raised(DET_EINVAL, "there is a callback 'counter' already");
    det_trainer_free(t);
}

static int invalid_after_3(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    if (step->batch_idx == 3) return det_fail(err, DET_EHPARAM, "no rate works");
    return onevar_train_batch(self, step, out, err);
}

static int differing(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    if (step->batch_idx == 5) det_metric(out, "surprise", 1);
    return onevar_train_batch(self, step, out, err);
}

static int forgetful(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self;
    det_metric(out, "a", 1);
    if (step->batch_idx != 5) det_metric(out, "b", 2);
    return det_check(err);
}

static void fail_with(const det_trial_ops *ops, det_train_opts opts, int code, const char *message)
{
    det_trainer *t = lab_init(.hparams = by_2);
    opts.checkpoint_dir = temp_path("failed");
    assert_null(det_train_with(t, det_build_trial(t, ops), opts));
    assert_raised(code, message);
    det_trainer_free(t);
}

static void test_loop__keeps_what_was_trained_with_bad_hyperparameters(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = invalid_after_3;
    fail_with(&ops, (det_train_opts){.max_length = det_batches(9), LOG_TO(&training)}, DET_EHPARAM,
              "trial (no name), train_batch, batch 3: no rate works");
    assert_int_equal(training.n_checkpoint, 1);
    assert_int_equal(training.checkpoint_batches[0], 3);
}

static void test_loop__wants_the_same_metrics_from_all_batches(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = differing;
    fail_with(&ops, (det_train_opts){.max_length = det_batches(9)}, DET_EINVAL,
              "batch 5: metric 'surprise' is reported, but batches before did not");
    ops.train_batch = forgetful;
    fail_with(&ops, (det_train_opts){.max_length = det_batches(9)}, DET_EINVAL,
              "batch 5 reports no metric 'b', but batches before it did");
}

static int says_nothing(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step, (void)out;
    return det_ok(err);
}

static void test_loop__accepts_batches_without_metrics(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = ops.evaluate_batch = says_nothing;
    det_trainer *t = lab_init(.hparams = by_2);
    const det_result *r = train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(3));
    assert_int_equal(r->batches, 3);
    assert_int_equal(det_metrics_len(r->training), 0);
    det_trainer_free(t);
}

static int wraps_nothing(void *self, det_context *ctx, det_err *err)
{
    (void)self, (void)ctx, (void)err;
    return 0;
}

static int wraps_a_model(void *self, det_context *ctx, det_err *err)
{
    (void)self;
    det_wrap_model(ctx, lab_model((struct lab_model){.features = 1}));
    return det_check(err);
}

static det_loader *no_loader(void *self)
{
    (void)self;
    return NULL;
}

static det_loader *failed_loader(void *self)
{
    det_raise(DET_EINVAL, "no such file");
    return onevar_data(self);
}

static void test_loop__says_what_is_wrong_with_a_loader(void **state)
{
    (void)state;
    const det_train_opts opts = {.max_length = det_batches(9)};
    det_trial_ops ops = OneVarTrial;
    ops.build_training_data_loader = no_loader;
    fail_with(&ops, opts, DET_EINVAL, "build_training_data_loader: it returned NULL");
    ops.build_training_data_loader = failed_loader; // the loader is not lost
    fail_with(&ops, opts, DET_EINVAL, "build_training_data_loader: no such file");
}

static void test_loop__says_what_a_trial_lacks(void **state)
{
    (void)state;
    const det_train_opts opts = {.max_length = det_batches(9)};
    det_trial_ops ops = OneVarTrial;
    ops.evaluate_batch = NULL;
    fail_with(&ops, opts, DET_EINVAL,
              "exactly one of evaluate_batch and evaluate_full_dataset, "
              "it has none");
    ops = OneVarTrial;
    ops.init = wraps_nothing;
    fail_with(&ops, opts, DET_ESTATE, "wraps no model");
    ops.init = wraps_a_model;
    fail_with(&ops, opts, DET_ESTATE, "wraps no optimizer");
    ops = OneVarTrial;
    ops.train_batch = NULL;
    fail_with(&ops, opts, DET_EINVAL, "has no train_batch");
    ops = OneVarTrial;
    ops.build_validation_data_loader = NULL;
    fail_with(&ops, opts, DET_EINVAL,
              "no validation data: trial (no name) has no "
              "build_validation_data_loader, and no loader was given");
    fail_with(&OneVarTrial, (det_train_opts){0}, DET_EINVAL, "max_length is not given");
    fail_with(&OneVarTrial, (det_train_opts){.max_length = det_batches(1), .metric = "accuracy"},
              DET_EINVAL, "the metric 'accuracy' decides what is best");
}

static void test_loop__takes_loaders_instead_of_those_of_the_trial(void **state)
{
    (void)state;
    det_trial_ops ops = counted();
    ops.build_training_data_loader = ops.build_validation_data_loader = NULL;
    det_trainer *t = lab_init(.hparams = by_2);
    det_trial *trial = det_build_trial(t, &ops);
    const det_result *r =
        train_ok(t, trial, lab_ones(8), lab_ones(32), .max_length = det_epochs(1));
    assert_int_equal(r->batches, 8);
    assert_non_null(strstr(counter.trace, "val_epoch_end(2)"));
    r = train_ok(t, trial, .max_length = det_epochs(1)); // the loaders stay
    assert_int_equal(r->batches, 8);
    det_trainer_free(t);
}

static void test_loop__shortens_epochs_to_try_things_out(void **state)
{
    (void)state;
    const det_result *r = run(by_2, .max_length = det_epochs(2), .reporting_period = NEVER,
                              .min_validation_period = det_epochs(1), .limit_batches = 5);
    assert_int_equal(r->batches, 10);
    assert_int_equal(counter.batches, 10);
    expect_counts(2, 2, 2);
    assert_non_null(strstr(counter.trace, "val_epoch_end(5)"));
}

// Not on a terminal: a line per report.
static void test_loop__tells_people_how_it_goes_if_asked(void **state)
{
    (void)state;
    FILE *file = fopen(temp_path("progress"), "w+");
    assert_non_null(run(by_2, .max_length = det_batches(64), .reporting_period = det_batches(32),
                        .progress = file));
    assert_int_equal(training.n_training, 2); // the caller's function hears as well
    char text[4096] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "batch 32   50%"));
    assert_non_null(strstr(text, "validation: "));
    assert_non_null(strstr(text, "finished after 64 batches (2 epochs), seed 7"));
}

static void note_free(void *self)
{
    *(int *)self += 1;
}

static int n_freed;

static void add_two_of_a_kind(void *self, det_context *ctx)
{
    static const det_callback_ops ops = {.free = note_free};
    (void)self;
    det_add_callback(ctx, "mine", &ops, &n_freed);
    det_add_callback(ctx, "mine", &ops, &n_freed);
    assert_int_equal(n_freed, 1); // the one too many
}

static void test_loop__frees_callbacks_that_are_handed_over(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.build_callbacks = add_two_of_a_kind;
    det_trainer *t = lab_init(.hparams = by_2);
    assert_null(det_build_trial(t, &ops));
    assert_int_equal(n_freed, 2);
    det_err err;
    assert_int_equal(det_check(&err), DET_EINVAL);
    assert_err(err, DET_EINVAL, "there is a callback 'mine' already");
    det_trainer_free(t);
}

static const struct CMUnitTest tests[] = {
    LOOP_TEST(test_loop__shortens_epochs_to_try_things_out),
    LOOP_TEST(test_loop__tells_people_how_it_goes_if_asked),
    LOOP_TEST(test_loop__frees_callbacks_that_are_handed_over),
    LOOP_TEST(test_loop__runs_one_workload_without_periods),
    LOOP_TEST(test_loop__validates_by_period),
    LOOP_TEST(test_loop__saves_by_period),
    LOOP_TEST(test_loop__combines_periods),
    LOOP_TEST(test_loop__takes_records_epochs_and_lists),
    LOOP_TEST(test_loop__reports_exact_progress),
    LOOP_TEST(test_loop__test_mode_is_one_batch_of_each),
    LOOP_TEST(test_loop__test_mode_loads_its_checkpoint_and_keeps_nothing),
    LOOP_TEST(test_loop__validates_before_the_first_batch_if_asked),
    LOOP_TEST(test_loop__validates_before_it_saves),
    LOOP_TEST(test_loop__resumes_with_the_same_events),
    LOOP_TEST(test_loop__does_nothing_that_is_done),
    LOOP_TEST(test_loop__stops_after_the_workload),
    LOOP_TEST(test_loop__stops_after_the_batch_if_told_from_outside),
    LOOP_TEST(test_loop__shuts_callbacks_down_after_errors),
    LOOP_TEST(test_loop__refuses_two_callbacks_of_one_name),
    LOOP_TEST(test_loop__keeps_what_was_trained_with_bad_hyperparameters),
    LOOP_TEST(test_loop__wants_the_same_metrics_from_all_batches),
    LOOP_TEST(test_loop__says_what_is_wrong_with_a_loader),
    LOOP_TEST(test_loop__says_what_a_trial_lacks),
    LOOP_TEST(test_loop__takes_loaders_instead_of_those_of_the_trial),
    LOOP_TEST(test_loop__accepts_batches_without_metrics),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
