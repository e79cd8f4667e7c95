// The example examples/onevar, by the engine of this library: its training is known in closed form.
#include "support/tensors.h"
#include "support/training.h"

#include "../../examples/onevar/model_def.c"

enum { BATCH = 32 };

static double weight_after(int n, double lr)
{
    return 1 - pow(1 - 2 * lr, n);
}

static void test_onevar__follows_the_closed_form(void **state)
{
    (void)state;
    static struct training_log log;
    det_trainer *t = det_init(.hparams = "{learning_rate: 0.001, global_batch_size: 32}");
    det_trial *trial = det_build_trial(t, &OneVarTrial);
    const det_result *r = train_ok(t, trial, .max_length = det_batches(100),
                                   .reporting_period = det_batches(1), LOG_TO(&log));
    assert_int_equal(log.n_training, 100);
    for (int n = 0; n < 100; n++) {
        assert_near(log.loss[n], pow(1 - 2 * 0.001, 2 * n), 1e-6);
        assert_near(log.weight[n], weight_after(n + 1, 0.001), 1e-6);
        if (n) assert_true(log.loss[n] <= log.loss[n - 1]);
    }
    assert_near(log.weight[0], 0.002, 1e-8);
    assert_near(log.weight[1], 0.003996, 1e-8);
    assert_near(log.weight[9], 0.0198209566, 1e-7);
    assert_near(log.weight[99], 0.1814331953, 1e-6);
    assert_near(log.loss[1], 0.996004, 1e-7);
    assert_near(log.loss[99], 0.6727398823, 1e-6);
    assert_int_equal(r->batches, 100);
    assert_int_equal(r->epochs, 100 / (64 / BATCH));
    assert_int_equal(r->stop_reason, DET_STOP_LENGTH);
    assert_near(det_metrics_get(r->validation, "loss"), pow(1 - 2 * 0.001, 200), 1e-6);
    det_trainer_free(t);
}

static void test_onevar__aggregates_gradients(void **state)
{
    (void)state;
    static struct training_log log;
    det_trainer *t = det_init(.hparams = "{learning_rate: 0.01, global_batch_size: 8}");
    det_trial *trial = det_build_trial(t, &OneVarTrial);
    train_ok(t, trial, .max_length = det_batches(20), .reporting_period = det_batches(1),
             .aggregation_frequency = 2, LOG_TO(&log));
    for (int n = 0; n < 20; n++)
        assert_near(log.weight[n], weight_after((n + 1) / 2, 0.01), 1e-6);
    det_trainer_free(t);
}

static void test_onevar__reads_its_configuration(void **state)
{
    (void)state;
    det_trainer *t = det_init(.config = "examples/onevar/const.yaml");
    det_trial *trial = det_build_trial(t, &OneVarTrial);
    static struct training_log log;
    const det_result *r = train_ok(t, trial, LOG_TO(&log));
    assert_int_equal(r->epochs, 10);
    assert_int_equal(r->batches, 20);
    assert_int_equal(log.n_validation, 10);
    assert_near(det_metrics_get(r->best_validation, "loss"), pow(1 - 2 * 0.001, 40), 1e-6);
    assert_int_equal(r->best_batches, 20);
    det_trainer_free(t);
}

static void test_onevar__says_which_hyperparameter_is_missing(void **state)
{
    (void)state;
    det_trainer *t = det_init(.hparams = "{global_batch_size: 32}");
    assert_null(det_build_trial(t, &OneVarTrial));
    assert_raised(DET_ENOTFOUND, "trial OneVarTrial, init: hyperparameter 'learning_rate' is not "
                                 "defined; define it under 'hyperparameters:'");
    det_trainer_free(t);
}

RUN_TESTS(TEST(test_onevar__follows_the_closed_form), TEST(test_onevar__aggregates_gradients),
          TEST(test_onevar__reads_its_configuration),
          TEST(test_onevar__says_which_hyperparameter_is_missing))
