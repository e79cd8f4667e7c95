// Learning-rate schedules: what is refused, saved and left alone. The rates themselves are compared
// with torch in tests/parity.
#define SGD_LR 1
#include "support/sgd.h"

static void test_schedule__step_lr_counts_steps(void **state)
{
    (void)state;
    det_lr_scheduler *s = det_lr_step_decay(opt, 2, 0.1);
    static const double expected[] = {1, 1, 0.1, 0.1, 0.01};
    for (size_t i = 0; i < N_OF(expected); i++) {
        assert_near(det_optim_lr(opt, 0), expected[i], 1e-15);
        assert_near(det_lr_scheduler_last(s, 0), expected[i], 1e-15);
        det_lr_scheduler_step(s);
    }
    assert_ptr_equal(det_lr_scheduler_optimizer(s), opt);
    assert_false(det_lr_scheduler_wants_metric(s));
    assert_true(isnan(det_lr_scheduler_last(s, 1)));
    det_lr_scheduler_free(s);
}

// A warm-up on top of a decay: both multiply what is there.
static void test_schedule__several_work_together(void **state)
{
    (void)state;
    det_lr_scheduler *warmup = det_lr_linear_warmup(opt, 0.5, 1, 2),
                     *decay = det_lr_exponential(opt, 0.1);
    static const double expected[] = {0.5, 0.75 * 0.1, 1 * 0.01, 1 * 0.001};
    for (size_t i = 0; i < N_OF(expected); i++) {
        assert_near(det_optim_lr(opt, 0), expected[i], 1e-15);
        det_lr_scheduler_step(warmup);
        det_lr_scheduler_step(decay);
    }
    det_lr_scheduler_free(warmup);
    det_lr_scheduler_free(decay);
}

static void test_schedule__plateau_wants_a_metric(void **state)
{
    (void)state;
    det_lr_scheduler *s = det_lr_plateau(opt, .patience = 1), *plain = det_lr_exponential(opt, 0.5);
    assert_true(det_lr_scheduler_wants_metric(s));
    det_lr_scheduler_step(s);
    assert_raised(DET_EINVAL, "ReduceLROnPlateau wants a metric");
    det_lr_scheduler_step_metric(plain, 1);
    assert_raised(DET_EINVAL, "ExponentialLR takes no metric");
    for (int i = 0; i < 3; i++)
        det_lr_scheduler_step_metric(s, 5); // better, then twice no better
    assert_near(det_optim_lr(opt, 0), 0.1, 1e-15);
    det_lr_scheduler_step_metric(s, NAN); // never better
    assert_near(det_lr_scheduler_last(s, 0), 0.1, 1e-15);
    det_lr_scheduler_free(s);
    det_lr_scheduler_free(plain);
}

static void test_schedule__one_cycle_ends(void **state)
{
    (void)state;
    det_lr_scheduler *s = det_lr_one_cycle(opt, .max_lr = 1, .total_steps = 5);
    assert_near(det_optim_lr(opt, 0), 0.04, 1e-15);
    assert_near(det_optim_get(opt, 0, "momentum"), 0.95, 1e-15);
    for (int i = 0; i < 5; i++)
        det_lr_scheduler_step(s);
    assert_fine();
    det_lr_scheduler_step(s);
    assert_raised(DET_ELIMIT, "OneCycleLR: step 7 of a cycle of 5 steps");
    det_lr_scheduler_free(s);
}

static void test_schedule__refuses_bad_arguments(void **state)
{
    (void)state;
    det_optimizer *adagrad = det_optim_adagrad(module), *adam = det_optim_adam(module);
    assert_null(det_lr_step_decay(opt, 0, 0.1));
    assert_raised(DET_EINVAL, "StepLR: step_size must be >= 1, got 0");
    assert_null(det_lr_cosine_annealing(opt, 0, 0));
    assert_raised(DET_EINVAL, "CosineAnnealingLR: T_max");
    assert_null(det_lr_cosine_warm_restarts(opt, 1, 0, 0));
    assert_raised(DET_EINVAL, "CosineAnnealingWarmRestarts: T_mult");
    assert_null(det_lr_linear_warmup(opt, 0, 1, 5));
    assert_raised(DET_EINVAL, "LinearLR: factors 0 and 1");
    assert_null(det_lr_polynomial(opt, 0, 1));
    assert_raised(DET_EINVAL, "PolynomialLR: total_iters");
    assert_null(det_lr_lambda(opt, NULL, NULL));
    assert_raised(DET_EINVAL, "LambdaLR: the function is NULL");
    assert_null(det_lr_plateau(opt, .factor = 1));
    assert_raised(DET_EINVAL, "ReduceLROnPlateau: factor");
    assert_null(det_lr_one_cycle(opt, .max_lr = 1));
    assert_raised(DET_EINVAL, "OneCycleLR: total_steps must be >= 1");
    assert_null(det_lr_one_cycle(adagrad, .max_lr = 1, .total_steps = 3));
    assert_raised(DET_EINVAL, "OneCycleLR: the optimizer has no momentum to cycle");
    assert_null(det_lr_cyclic(adam, .base_lr = 0.1, .max_lr = 1));
    assert_raised(DET_EINVAL, "CyclicLR: the optimizer has no momentum to cycle");
    assert_near(det_optim_lr(opt, 0), 1, 0);
    assert_null(det_lr_step_decay(NULL, 1, 0.1));
    assert_raised(DET_EINVAL, "StepLR: the optimizer is NULL");
    assert_null(det_lr_cyclic(NULL, .base_lr = 0.1, .max_lr = 1));
    assert_raised(DET_EINVAL, "CyclicLR: the optimizer is NULL");
    det_lr_scheduler_step(NULL);
    det_lr_scheduler_free(NULL);
    det_optim_free(adagrad);
    det_optim_free(adam);
}

static det_lr_scheduler *multi_step(void)
{
    return det_lr_multi_step(opt, (int64_t[]){3, 3, 5}, 3, 0.5);
}

static void test_schedule__saves_its_position(void **state)
{
    (void)state;
    det_lr_scheduler *a = multi_step();
    for (int i = 0; i < 4; i++)
        det_lr_scheduler_step(a);
    assert_near(det_optim_lr(opt, 0), 0.25, 0);
    det_value *dict = det_lr_scheduler_state_dict(a);
    det_lr_scheduler *b = det_lr_multi_step(opt, NULL, 0, 0.1);
    det_err err;
    assert_int_equal(det_lr_scheduler_load_state_dict(b, dict, &err), 0);
    det_lr_scheduler_step(b);
    assert_near(det_optim_lr(opt, 0), 0.125, 0);
    det_value_free(dict);
    det_lr_scheduler_free(a);
    det_lr_scheduler_free(b);
}

static void refuse(det_lr_scheduler *s, const char *key, det_value *value, const char *message)
{
    det_value *dict = det_lr_scheduler_state_dict(s), *before = det_lr_scheduler_state_dict(s);
    det_value_set(dict, "last_epoch", det_value_int(70));
    det_value_set(dict, key, value);
    det_err err;
    assert_int_equal(det_lr_scheduler_load_state_dict(s, dict, &err), DET_EINVAL);
    if (!strstr(err.msg, message)) fail_msg("got '%s', expected '%s'", err.msg, message);
    det_value *after = det_lr_scheduler_state_dict(s);
    int64_t epoch = -1;
    det_value_as_int(det_value_get(after, "last_epoch"), &epoch, NULL);
    assert_int_equal(epoch, 0); // nothing has changed
    det_value_free(dict);
    det_value_free(before);
    det_value_free(after);
}

static void test_schedule__refuses_states_that_do_not_fit(void **state)
{
    (void)state;
    det_lr_scheduler *s = multi_step(),
                     *cycle = det_lr_one_cycle(opt, .max_lr = 1, .total_steps = 9);
    det_lr_scheduler *cyclic = det_lr_cyclic(opt, .base_lr = 0.1, .max_lr = 1);
    refuse(s, "gamma", det_value_str("half"), "MultiStepLR state dict: gamma: str where a number");
    refuse(s, "base_lrs", det_value_list(), "base_lrs: 0 numbers for 1 groups of parameters");
    det_value *counter = det_value_dict();
    det_value_set(counter, "three", det_value_int(1));
    refuse(s, "milestones", counter, "milestones: not a table of counts");
    refuse(cycle, "_schedule_phases", det_value_list(), "OneCycleLR state dict: 0 phases");
    refuse(cycle, "total_steps", det_value_int(0), "total_steps must be >= 1");
    refuse(cyclic, "mode", det_value_str("square"),
           "CyclicLR state dict: mode: 'square' is unknown");
    det_err err;
    assert_int_equal(det_lr_scheduler_load_state_dict(s, NULL, &err), DET_EINVAL);
    assert_err(err, DET_EINVAL, "MultiStepLR state dict: wants a dict, got None");
    det_lr_scheduler_free(s);
    det_lr_scheduler_free(cycle);
    det_lr_scheduler_free(cyclic);
}

RUN_TESTS(SGD_TEST(test_schedule__step_lr_counts_steps),
          SGD_TEST(test_schedule__several_work_together),
          SGD_TEST(test_schedule__plateau_wants_a_metric), SGD_TEST(test_schedule__one_cycle_ends),
          SGD_TEST(test_schedule__refuses_bad_arguments),
          SGD_TEST(test_schedule__saves_its_position),
          SGD_TEST(test_schedule__refuses_states_that_do_not_fit))
