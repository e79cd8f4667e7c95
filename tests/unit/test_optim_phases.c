// Schedules by number of updates: the cosine and the warmup-stable-decay schedule at known points.
#define SGD_LR 0.01
#include "support/sgd.h"

struct point {
    int64_t n;
    double lr;
};

// Steps through the schedule and compares the rates at the given updates. Frees it.
#define assert_curve(schedule, ...)                              \
    assert_points(schedule, (const struct point[]){__VA_ARGS__}, \
                  N_OF(((const struct point[]){__VA_ARGS__})))

static void assert_points(det_lr_scheduler *s, const struct point *p, size_t n_points)
{
    assert_fine();
    assert_non_null(s);
    for (size_t i = 0; i < n_points; i++) {
        while (det_lr_scheduler_updates(s) < p[i].n)
            det_lr_scheduler_step(s);
        double lr = det_optim_lr(opt, 0);
        if (!(fabs(lr - p[i].lr) <= 1e-10 * fabs(p[i].lr) + 1e-15))
            fail_msg("update %lld: %.17g, expected %.17g", (long long)p[i].n, lr, p[i].lr);
    }
    det_lr_scheduler_free(s);
    assert_fine();
}

static void test_cosine__falls_to_its_minimum(void **state)
{
    (void)state;
    assert_curve(
        det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 1, .lr_min = 1e-4),
        {0, .01}, {1, .0097577297556610109}, {2, .0090546341221559908}, {5, .00505},
        {9, .00034227024433899005}, {10, 1e-4}, {15, 1e-4});
    assert_curve(det_lr_cosine(opt, .total_num_epochs = 300, .num_update_steps_per_epoch = 10),
                 {1500, .0050005}, {3000, 1e-6});
}

static void test_cosine__groups_have_their_own_curve(void **state)
{
    (void)state;
    det_module *other = det_nn_linear(2, 2);
    det_optim_add_group(opt, other);
    det_optim_set_lr(opt, 1, 0.002);
    det_lr_scheduler *s =
        det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 1, .lr_min = 1e-4);
    det_lr_scheduler_step(s);
    det_lr_scheduler_step(s);
    assert_near(det_optim_lr(opt, 0), .0097577297556610109, 1e-16);
    assert_near(det_optim_lr(opt, 1), .001953503690480396, 1e-16);
    det_lr_scheduler_free(s);
    det_optim_free(opt);
    opt = NULL;
    det_module_free(other);
}

static void test_cosine__options_shape_the_curve(void **state)
{
    (void)state;
    assert_curve(det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 1,
                               .min_lr_ratio = 0.5),
                 {1, .0098776412907378847}, {5, .0075}, {10, .005});
    assert_curve(
        det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 1, .k_decay = 2),
        {1, .0099975330485484754}, {5, .0085356803525421434});
    assert_curve(det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 10,
                               .num_cooldown_epochs = 2),
                 {40, .0050005}, {79, 4.8544333145e-6}, {80, 1e-6}, {99, 1e-6});
}

static det_lr_scheduler *warmed(bool as_upstream)
{
    return det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 10,
                         .num_warmup_epochs = 2, .as_upstream = as_upstream);
}

static void test_cosine__warms_up(void **state)
{
    (void)state;
    assert_curve(warmed(false), {-1, 1e-6}, {0, 1e-6}, {1, .00050095}, {10, .0050005},
                 {19, .00950005}, {20, .01});
    assert_curve(det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 10,
                               .num_warmup_epochs = 2, .warmup_starting_lr_ratio = 0.01),
                 {0, 1e-4}, {1, 5.95e-4}, {20, .01});
}

// The curve goes on until the cooldown; upstream's stops as many updates before as the warmup has.
static void test_cosine__is_not_cut_by_the_warmup(void **state)
{
    (void)state;
    double at_80 = 1e-6 + (0.01 - 1e-6) / 2 * (1 + cos(M_PI * 60 / 80));
    assert_curve(warmed(false), {80, at_80}, {100, 1e-6});
    assert_curve(warmed(true), {79, .0016068356727080572}, {80, 1e-6});
    assert_curve(det_lr_cosine(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 10,
                               .num_warmup_epochs = 2, .warmup_starting_lr_ratio = 0.01,
                               .as_upstream = true),
                 {0, 1e-4}, {1, 5.9995e-4});
}

static void test_cosine__refuses_bad_arguments(void **state)
{
    (void)state;
    assert_null(det_lr_cosine(opt, .num_update_steps_per_epoch = 1));
    assert_raised(DET_EINVAL, "total_num_epochs must be >= 1");
    assert_null(det_lr_cosine(opt, .total_num_epochs = 1));
    assert_raised(DET_EINVAL, "num_update_steps_per_epoch must be >= 1");
    assert_null(
        det_lr_cosine(opt, .total_num_epochs = 1, .num_update_steps_per_epoch = 1, .lr_min = -1));
    assert_raised(DET_EINVAL, "must not be negative");
    assert_null(det_lr_cosine(opt, .total_num_epochs = 3, .num_update_steps_per_epoch = 1,
                              .num_warmup_epochs = 2, .num_cooldown_epochs = 2));
    assert_raised(DET_EINVAL, "must fit into total_num_epochs");
}

static void test_wsd__decays_before_each_checkpoint(void **state)
{
    (void)state;
    assert_curve(det_lr_wsd(opt, .total_steps = 1000, .num_checkpoints = 3), {224, .01}, {225, .01},
                 {226, .0080000020}, {237, .0030718036979}, {249, .00020205082683}, {250, .01},
                 {950, .01}, {975, .0029289392592}, {999, .00010051496288}, {1000, 1e-8},
                 {1200, 1e-8});
}

static void test_wsd__has_two_forms_of_decay(void **state)
{
    (void)state;
    assert_curve(det_lr_wsd(opt, .total_steps = 100, .lr_min = 0.1), {90, .01},
                 {91, .0071539501058}, {95, .0036360389693}, {100, .001});
    assert_curve(det_lr_wsd(opt, .total_num_epochs = 10, .num_update_steps_per_epoch = 10,
                            .lr_min = 0.1, .inverse_decay = true),
                 {91, .0052631578947}, {95, .0018181818182}, {100, .001});
}

static void test_wsd__warms_up(void **state)
{
    (void)state;
    assert_curve(det_lr_wsd(opt, .total_steps = 1000, .num_warmup_steps = 100), {-1, 1e-6},
                 {0, 1e-6}, {50, .0050005}, {99, .00990001}, {100, .01});
    assert_curve(det_lr_wsd(opt, .total_steps = 1000, .num_warmup_steps = -1), {50, .0050005});
    assert_curve(
        det_lr_wsd(opt, .total_steps = 1000, .num_warmup_steps = 100, .is_continuation = true),
        {0, .01});
}

static void assert_periods(int64_t total, int64_t k, const det_wsd_period *expected)
{
    det_lr_scheduler *s = det_lr_wsd(opt, .total_steps = total, .num_checkpoints = k);
    assert_int_equal(det_lr_wsd_n_periods(s), k);
    for (int i = 0; i < k; i++) {
        det_wsd_period p = det_lr_wsd_period(s, i);
        assert_memory_equal(&p, &expected[i], sizeof p);
    }
    assert_int_equal(det_lr_wsd_period(s, (int)k).period_end, 0);
    det_lr_scheduler_free(s);
}

static void test_wsd__tells_its_periods(void **state)
{
    (void)state;
    assert_periods(100, 1, (det_wsd_period[]){{0, 100, 10, 90}});
    assert_periods(100, 3, (det_wsd_period[]){{0, 25, 2, 23}, {25, 50, 2, 48}, {50, 100, 5, 95}});
    assert_periods(
        1000, 3, (det_wsd_period[]){{0, 250, 25, 225}, {250, 500, 25, 475}, {500, 1000, 50, 950}});
    // Upstream puts the second at 500 and leaves the rate at its minimum for the other half.
    assert_periods(1000, 2, (det_wsd_period[]){{0, 500, 50, 450}, {500, 1000, 50, 950}});
    det_lr_scheduler *other = det_lr_exponential(opt, 0.5);
    assert_int_equal(det_lr_wsd_n_periods(other), 0);
    det_lr_scheduler_free(other);
}

static void test_wsd__refuses_bad_arguments(void **state)
{
    (void)state;
    assert_null(det_lr_wsd(opt, .total_steps = 0));
    assert_raised(DET_EINVAL, "total_steps must be >= 1");
    assert_null(det_lr_wsd(opt, .total_steps = 10, .total_num_epochs = 1));
    assert_raised(DET_EINVAL, "not both");
    assert_null(det_lr_wsd(opt, .total_steps = 10, .decay_phase_ratio = 1.5));
    assert_raised(DET_EINVAL, "decay_phase_ratio must be in 0 .. 1");
    assert_null(det_lr_wsd(opt, .total_steps = 10, .lr_min = -1));
    assert_raised(DET_EINVAL, "lr_min must not be negative");
    assert_null(det_lr_wsd(opt, .total_steps = 10, .warmup_starting_lr = 0.02));
    assert_raised(DET_EINVAL, "above the optimizer's learning rate");
    assert_null(det_lr_wsd(opt, .total_steps = 10, .num_checkpoints = 2, .decay_phase_ratio = .4));
    assert_raised(DET_EINVAL, "<= 1/3");
    assert_null(det_lr_wsd(opt, .total_steps = 10, .num_checkpoints = 33));
    assert_raised(DET_EINVAL, "num_checkpoints must be in 1 .. 32");
}

static det_lr_scheduler *reloaded(det_lr_scheduler *from, det_lr_scheduler *into)
{
    det_value *state = det_lr_scheduler_state_dict(from);
    det_err err;
    if (det_lr_scheduler_load_state_dict(into, state, &err)) fail_msg("%s", err.msg);
    det_value_free(state);
    return into;
}

static void test_wsd__saves_its_counter(void **state)
{
    (void)state;
    det_lr_scheduler *a = det_lr_wsd(opt, .total_steps = 100),
                     *b = det_lr_wsd(opt, .total_steps = 200);
    assert_int_equal(det_lr_scheduler_updates(a), -1);
    for (int i = 0; i < 50; i++)
        det_lr_scheduler_step(a);
    assert_int_equal(det_lr_scheduler_updates(a), 49);
    assert_int_equal(det_lr_scheduler_updates(reloaded(a, b)), 49);
    assert_int_equal(det_lr_wsd_period(b, 0).period_end, 100);
    det_lr_scheduler *next = det_lr_wsd(opt, .total_steps = 500, .is_continuation = true);
    assert_int_equal(det_lr_scheduler_updates(reloaded(a, next)), -1);
    assert_int_equal(det_lr_wsd_period(next, 0).period_end, 500);
    det_value *bad = det_value_dict();
    det_value_set(bad, "total_steps", det_value_int(0));
    det_err err;
    det_lr_scheduler_load_state_dict(b, bad, &err);
    assert_err(err, DET_EINVAL, "total_steps must be >= 1");
    det_value_free(bad);
    det_lr_scheduler_free(a);
    det_lr_scheduler_free(b);
    det_lr_scheduler_free(next);
}

static double halve_twice(int64_t n, int group, double base, void *user)
{
    (void)user;
    assert_int_equal(group, 0);
    return n < 2 ? base / (double)(n + 1) : NAN;
}

static void test_field__schedules_any_setting(void **state)
{
    (void)state;
    det_optim_set(opt, 0, "momentum", 0.8);
    det_lr_scheduler *s = det_lr_field(opt, "momentum", halve_twice, NULL);
    static const double expected[] = {0.8, 0.8, 0.4, 0.4};
    for (size_t i = 0; i < N_OF(expected); i++) {
        assert_near(det_optim_get(opt, 0, "momentum"), expected[i], 1e-15);
        assert_near(det_optim_lr(opt, 0), 0.01, 0);
        det_lr_scheduler_step(s);
    }
    det_lr_scheduler_free(s);
    assert_curve(det_lr_field(opt, "lr", halve_twice, NULL), {0, .01}, {1, .005}, {2, .005});
    assert_null(det_lr_field(opt, "colour", halve_twice, NULL));
    assert_raised(DET_EINVAL, "colour");
    assert_null(det_lr_field(opt, "lr", NULL, NULL));
    assert_raised(DET_EINVAL, "NULL");
}

RUN_TESTS(SGD_TEST(test_cosine__falls_to_its_minimum),
          SGD_TEST(test_cosine__groups_have_their_own_curve),
          SGD_TEST(test_cosine__options_shape_the_curve), SGD_TEST(test_cosine__warms_up),
          SGD_TEST(test_cosine__is_not_cut_by_the_warmup),
          SGD_TEST(test_cosine__refuses_bad_arguments),
          SGD_TEST(test_wsd__decays_before_each_checkpoint),
          SGD_TEST(test_wsd__has_two_forms_of_decay), SGD_TEST(test_wsd__warms_up),
          SGD_TEST(test_wsd__tells_its_periods), SGD_TEST(test_wsd__refuses_bad_arguments),
          SGD_TEST(test_wsd__saves_its_counter), SGD_TEST(test_field__schedules_any_setting))
