// Simulations and recorded curves.
#include "support/search.h"

static void test_simulate__counts(void **state)
{
    (void)state;
    const struct simulated *sim =
        simulate(config_of("searcher: {name: random, max_trials: 7, max_length: 10, "
                           "max_concurrent_trials: 3}"),
                 worse);
    assert_int_equal(sim->result.n_trials, 7);
    assert_int_equal(sim->result.n_busy_max, 3);
    assert_int_equal(sim->result.n_events, 1 + 2 * 7);
    assert_true(sim->result.units == 70);
    assert_true(sim->result.time == 30); // 3 + 3 + 1 trials, side by side
}

static double any_metric(void *user, int64_t trial, int64_t length)
{
    (void)user;
    return (double)(trial * length);
}

static struct sim_result run_with(double fail_rate, double invalid_rate, uint64_t seed)
{
    const struct sim_world world = {
        .metric = any_metric, .fail_rate = fail_rate, .invalid_rate = invalid_rate, .seed = seed};
    struct sim_result result;
    det_err err;
    struct search *s =
        search_new(config_of("searcher: {name: adaptive_asha, max_trials: 50, max_length: 64, "
                             "max_concurrent_trials: 5}"));
    if (search_simulate(s, &world, &result, &err)) fail_msg("%s", err.msg);
    search_free(s);
    return result;
}

static void test_simulate__injects_failures(void **state)
{
    (void)state;
    struct sim_result well = run_with(0, 0, 1), some = run_with(0.3, 0, 1);
    assert_int_equal(well.n_trials, 50);
    assert_int_equal(some.n_trials, 50);
    assert_true(some.units < well.units);
    assert_int_equal(some.outcome, SEARCH_COMPLETED);
    assert_int_equal(run_with(1, 0, 1).outcome, SEARCH_ALL_FAILED);
    assert_true(run_with(0, 0.3, 1).n_trials > 50); // these are replaced
    assert_true(run_with(0.3, 0, 1).units == some.units);
    assert_true(run_with(0.3, 0, 2).units != some.units);
}

static void test_curves__are_read_between_points(void **state)
{
    (void)state;
    struct curves curves;
    det_err err;
    const char *text = "{\"curve\": [[4, 0.5], [8, 0.3], [16, 0.7]]}\n\n{\"curve\": [[1, 2]]}\n";
    if (curves_read(str_from(text), "c", &arena, &curves, &err)) fail_msg("%s", err.msg);
    assert_int_equal(curves.n, 2);
    assert_true(curve_at(&curves, 1, 1) == 0.5);
    assert_true(curve_at(&curves, 1, 4) == 0.5);
    assert_true(fabs(curve_at(&curves, 1, 6) - 0.4) < 1e-12);
    assert_true(curve_at(&curves, 1, 8) == 0.3);
    assert_true(fabs(curve_at(&curves, 1, 14) - 0.6) < 1e-12);
    assert_true(curve_at(&curves, 1, 99) == 0.7);
    assert_true(curve_at(&curves, 2, 50) == 2);
    assert_true(curve_at(&curves, 3, 4) == 0.5);
}

RUN_TESTS(DOC_TEST(test_simulate__counts), DOC_TEST(test_simulate__injects_failures),
          DOC_TEST(test_curves__are_read_between_points))
