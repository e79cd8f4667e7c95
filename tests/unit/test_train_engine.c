// The loop and an engine that is not ours: what it keeps, and that it gives everything back.
#include "support/files.h"
#include "support/onevar.h"
#include "support/toy.h"
#include "support/training.h"

static struct training_log training;
static const char *const by_8 = "{learning_rate: 0.1, global_batch_size: 8}"; // 8 per epoch

static int reset(void **state)
{
    memset(&training, 0, sizeof training);
    toy_counts = (struct toy_counts){0};
    return lab_setup(state);
}

static int nothing_is_left(void **state)
{
    int rc = lab_teardown(state);
    const struct toy_counts *c = &toy_counts;
    return rc || c->tensors || c->models || c->optimizers || c->loaders || c->iterators ||
           c->blocks;
}

#define ENGINE_TEST(function) cmocka_unit_test_setup_teardown(function, reset, nothing_is_left)

static void test_engine__reads_metrics_once_a_workload(void **state)
{
    (void)state;
    det_trainer *t = lab_init(.hparams = by_8);
    train_ok(t, det_build_trial(t, &OneVarTrial), .max_length = det_batches(30),
             .reporting_period = det_batches(10), LOG_TO(&training));
    assert_int_equal(training.n_training, 3);
    assert_int_equal(toy_counts.kept, 30 * 2 + 8); // and those of one validation
    assert_int_equal(toy_counts.read_calls, 3 + 1);
    // They are what they were when they were reported.
    double mean = 0;
    for (int n = 1; n <= 10; n++)
        mean += (1 - pow(0.8, n)) / 10;
    assert_near(training.weight[0], mean, 1e-12);
    det_trainer_free(t);
}

static void test_engine__saves_in_another_thread(void **state)
{
    (void)state;
    det_trainer *t = lab_init(.hparams = by_8);
    train_ok(t, det_build_trial(t, &OneVarTrial), .max_length = det_batches(4),
             .min_checkpoint_period = det_batches(1), .checkpoint_dir = temp_path("saved"));
    assert_int_equal(toy_counts.saved_elsewhere, 4);
    det_trainer_free(t);
}

static int fail_at_3(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    det_metric(out, "loss", lab_loss(m->model, step->batch));
    if (step->batch_idx == 3) return det_fail(err, DET_EIO, "no luck");
    det_metric(out, "weight", lab_weight_tensor(m->model));
    return 0;
}

static int two_values(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    det_metric(out, "outputs", lab_output(m->model, step->batch));
    return det_check(err);
}

static int reports_twice(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    for (int i = 0; i < 2; i++)
        det_metric(out, "loss", lab_loss(m->model, step->batch));
    return det_check(err);
}

static void test_engine__gets_everything_back_after_errors(void **state)
{
    (void)state;
    static const struct {
        int (*train_batch)(void *self, const det_step *step, det_metrics *out, det_err *err);
        const char *message;
    } cases[] = {{fail_at_3, "batch 3: no luck"},
                 {two_values, "metric 'outputs' has 8 values, not a single number"},
                 {reports_twice, "metric 'loss' is reported twice"}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        det_trial_ops ops = OneVarTrial;
        ops.train_batch = cases[i].train_batch;
        det_err err;
        det_trainer *t = lab_init(.hparams = by_8);
        assert_null(det_train(t, det_build_trial(t, &ops), .max_length = det_batches(9)));
        assert_true(det_check(&err) != 0);
        if (!strstr(err.msg, cases[i].message)) fail_msg("%s", err.msg);
        det_trainer_free(t);
    }
}

static void test_engine__frees_loaders_of_a_trainer_that_could_not_be_made(void **state)
{
    (void)state;
    det_trainer *t = lab_init(.hparams = "[1, 2]");
    assert_null(t);
    assert_null(det_train(t, NULL, lab_ones(8), lab_ones(8), .max_length = det_batches(1)));
    assert_null(det_predict(t, NULL, lab_ones(8)));
    assert_raised(DET_EINVAL, "expected a map");
    assert_int_equal(toy_counts.loaders, 0);
}

// This program is not linked with an engine of the library.
static void test_engine__must_be_named_if_there_is_no_default(void **state)
{
    (void)state;
    assert_null(engine_default);
    assert_null(det_init());
    assert_raised(DET_ESTATE, "this program has no engine");
    engine_default = &toy_engine;
    det_trainer *t = det_init();
    assert_non_null(t);
    det_trainer_free(t);
    engine_default = NULL;
}

static const struct CMUnitTest tests[] = {
    ENGINE_TEST(test_engine__reads_metrics_once_a_workload),
    ENGINE_TEST(test_engine__saves_in_another_thread),
    ENGINE_TEST(test_engine__gets_everything_back_after_errors),
    ENGINE_TEST(test_engine__frees_loaders_of_a_trainer_that_could_not_be_made),
    ENGINE_TEST(test_engine__must_be_named_if_there_is_no_default),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
