// Decisions of the successive-halving family.
#include "support/search.h"

static const struct exp_config *halving(const char *name, const char *fields)
{
    return config_of(arena_printf(&arena, "searcher: {name: %s, %s}", name, fields));
}

static void expect_lengths(const char *name, const char *fields,
                           double (*metric)(int64_t trial, int64_t length), const char *expected)
{
    assert_string_equal(show_lengths(simulate(halving(name, fields), metric)), expected);
}

#define NINE_THOUSAND "num_rungs: 3, max_length: {batches: 9000}, divisor: 3, max_trials: 12"

static void test_asha__promotes_one_in_divisor(void **state)
{
    (void)state;
    static const char *const limits[] = {"0", "1", "5", "16"};
    for (size_t i = 0; i < STATIC_LEN(limits); i++) {
        const char *fields =
            arena_printf(&arena, NINE_THOUSAND ", max_concurrent_trials: %s", limits[i]);
        expect_lengths("async_halving", fields, worse, "1000:8 3000:3 9000:1");
        expect_lengths("async_halving", fields, equal, "1000:8 3000:3 9000:1");
    }
    expect_lengths("async_halving", "num_rungs: 3, max_length: 64, max_trials: 16", worse,
                   "4:12 16:3 64:1");
    expect_lengths("async_halving", "num_rungs: 3, max_length: 64, max_trials: 16", better,
                   "4:3 16:3 64:10");
}

static void test_asha__stopping_decides_at_once(void **state)
{
    (void)state;
    expect_lengths("async_halving", NINE_THOUSAND ", stop_once: true", worse, "1000:11 9000:1");
    expect_lengths("async_halving", NINE_THOUSAND ", stop_once: true", equal, "9000:12");
    expect_lengths("async_halving", NINE_THOUSAND ", stop_once: true, smaller_is_better: false",
                   worse, "9000:12");
    expect_lengths("async_halving", "num_rungs: 3, max_length: 64, max_trials: 16, stop_once: true",
                   worse, "4:15 64:1");
    expect_lengths("async_halving", "num_rungs: 3, max_length: 64, max_trials: 16, stop_once: true",
                   better, "64:16");
}

static double in_fours(int64_t trial, int64_t length)
{
    (void)length;
    return (double)((trial - 1) % 4 + 1) / 100;
}

static void test_asha__stopping_of_repeating_metrics(void **state)
{
    (void)state;
    static const int64_t expected[] = {9000, 9000, 9000, 9000, 1000, 1000,
                                       3000, 9000, 1000, 1000, 3000, 9000};
    const struct simulated *sim = simulate(halving("async_halving", NINE_THOUSAND
                                                   ", stop_once: true, smaller_is_better: false, "
                                                   "max_concurrent_trials: 1"),
                                           in_fours);
    for (int i = 0; i < 12; i++)
        assert_int_equal(sim->lengths[i + 1], expected[i]);
}

// Every trial reports its metric at its rungs in turn, except those that exit.
struct scripted {
    double metrics[16];
    int64_t exits; // the trial that exits at its first operation
    int64_t lengths[16];
};

static void run_script(struct search *s, struct scripted *script)
{
    int64_t queue[64], closing[16];
    size_t head = 0, tail = 0;
    struct search_ops ops = start(s);
    for (bool over = false; !over;) {
        size_t n_closing = 0;
        if (head && queue[head - 1] == script->exits) closing[n_closing++] = script->exits;
        for (size_t i = 0; i < ops.n; i++) {
            const struct search_op *op = &ops.items[i];
            if (op->kind == SEARCH_CLOSE) closing[n_closing++] = op->trial;
            if (op->kind != SEARCH_VALIDATE_AFTER) continue;
            queue[tail++] = op->trial;
            script->lengths[op->trial] = op->length;
        }
        for (size_t i = 0; i < n_closing; i++)
            over = closed(s, closing[i]).n > 0; // the end is all that can follow
        if (over) break;
        assert_true(head < tail);
        int64_t trial = queue[head++];
        ops = trial == script->exits
                  ? exited(s, trial, SEARCH_ERRORED)
                  : validated(s, trial, script->lengths[trial], script->metrics[trial]);
    }
}

static void test_asha__an_exit_is_the_worst_result(void **state)
{
    (void)state;
    static const int64_t expected[] = {3000, 1000, 1000, 9000, 3000, 3000,
                                       3000, 1000, 1000, 1000, 1000, 1000};
    struct scripted script = {
        .exits = 3, .metrics = {0, .10, .11, .12, .01, .02, .03, .04, .05, .06, .07, .08, .09}};
    struct search *s =
        search_new(halving("async_halving", NINE_THOUSAND ", max_concurrent_trials: 0"));
    run_script(s, &script);
    for (int i = 0; i < 12; i++)
        assert_int_equal(script.lengths[i + 1], expected[i]);
    search_free(s);
}

static void test_asha__promotes_a_waiting_trial_when_there_is_room(void **state)
{
    (void)state;
    struct search *s = search_new(halving(
        "async_halving",
        "num_rungs: 2, max_length: 8, divisor: 2, max_trials: 4, max_concurrent_trials: 1"));
    assert_string_equal(show_ops(start(s)), "create 1, train 1 to 4");
    assert_string_equal(show_ops(validated(s, 1, 4, 0.1)), "create 2, train 2 to 4");
    assert_string_equal(show_ops(validated(s, 2, 4, 0.2)), "train 1 to 8");
    assert_string_equal(show_ops(validated(s, 1, 8, 0.1)), "close 1, create 3, train 3 to 4");
    assert_string_equal(show_ops(validated(s, 3, 4, 0.3)), "create 4, train 4 to 4");
    // The last result: trial 2 is promoted; the others have waited in vain.
    assert_string_equal(show_ops(validated(s, 4, 4, 0.4)), "train 2 to 8, close 3, close 4");
    assert_string_equal(show_ops(validated(s, 2, 8, 0.2)), "close 2");
    closed(s, 1);
    closed(s, 2);
    closed(s, 3);
    assert_string_equal(show_ops(closed(s, 4)), "end");
    search_free(s);
}

static void test_asha__numbers_that_are_none_are_the_worst(void **state)
{
    (void)state;
    static const double strange[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < STATIC_LEN(strange); i++) {
        struct search *s = search_new(halving(
            "async_halving",
            "num_rungs: 2, max_length: 8, divisor: 2, max_trials: 3, max_concurrent_trials: 3"));
        start(s);
        assert_string_equal(show_ops(validated(s, 1, 4, strange[i])), "");
        assert_string_equal(show_ops(validated(s, 2, 4, 1e300)), "train 2 to 8");
        search_free(s);
    }
}

static void test_asha__refused_hyperparameters_never_were(void **state)
{
    (void)state;
    struct search *s = search_new(halving(
        "async_halving",
        "num_rungs: 2, max_length: 8, divisor: 2, max_trials: 2, max_concurrent_trials: 2"));
    start(s);
    assert_string_equal(show_ops(exited(s, 1, SEARCH_INVALID_HP)),
                        "close 1, create 3, train 3 to 4");
    assert_string_equal(show_ops(validated(s, 2, 4, 0.5)), "");
    assert_string_equal(show_ops(validated(s, 3, 4, 0.1)), "train 3 to 8, close 2");
    // Refused after a promotion: its results are taken out, so another trial has to be found.
    assert_string_equal(show_ops(exited(s, 3, SEARCH_INVALID_HP)),
                        "close 3, create 4, train 4 to 4");
    assert_string_equal(show_ops(validated(s, 4, 4, 0.9)), "close 4");
    closed(s, 1);
    closed(s, 2);
    closed(s, 3);
    assert_string_equal(show_ops(closed(s, 4)), "end");
    search_free(s);
}

// Who moves up because a better one never was is promoted in its place.
static void test_asha__a_gap_is_filled_by_the_next(void **state)
{
    (void)state;
    struct search *s = search_new(halving(
        "async_halving",
        "num_rungs: 2, max_length: 8, divisor: 2, max_trials: 9, max_concurrent_trials: 3"));
    start(s);
    validated(s, 1, 4, 0.2);
    assert_string_equal(show_ops(validated(s, 2, 4, 0.1)), "train 2 to 8");
    assert_string_equal(show_ops(validated(s, 3, 4, 0.3)), "create 5, train 5 to 4");
    assert_string_equal(show_ops(exited(s, 2, SEARCH_INVALID_HP)), "close 2, train 1 to 8");
    search_free(s);
}

// A trial that is taken back leaves gaps in all of its rungs, but frees only its own place.
static void test_asha__gaps_are_filled_one_at_a_time(void **state)
{
    (void)state;
    struct search *s = search_new(halving(
        "async_halving",
        "num_rungs: 3, max_length: 16, divisor: 2, max_trials: 99, max_concurrent_trials: 8"));
    start(s);
    for (int i = 1; i <= 7; i++)
        validated(s, i, 4, i / 10.0);
    validated(s, 1, 8, 0.1);
    assert_string_equal(show_ops(validated(s, 2, 8, 0.2)), "train 1 to 16");
    validated(s, 3, 8, 0.3);
    // Trial 4 moves up in the first rung, trial 2 in the second.
    assert_string_equal(show_ops(exited(s, 1, SEARCH_INVALID_HP)), "close 1, train 2 to 16");
    assert_string_equal(show_ops(validated(s, 8, 4, 0.9)), "train 4 to 8");
    search_free(s);
}

static void test_asha__a_waiting_trial_may_be_ended(void **state)
{
    (void)state;
    struct search *s = search_new(halving(
        "async_halving",
        "num_rungs: 2, max_length: 8, divisor: 2, max_trials: 2, max_concurrent_trials: 2"));
    start(s);
    validated(s, 1, 4, 0.1);
    assert_string_equal(show_ops(closed(s, 1)), "");
    // It would be promoted now; being gone, it counts as the worst of the top rung.
    assert_string_equal(show_ops(validated(s, 2, 4, 0.5)), "close 2");
    assert_string_equal(show_ops(closed(s, 2)), "end");
    search_free(s);
}

static void test_asha__progress(void **state)
{
    (void)state;
    struct search *s = search_new(halving(
        "async_halving",
        "num_rungs: 2, max_length: 8, divisor: 2, max_trials: 2, max_concurrent_trials: 2"));
    start(s);
    assert_true(search_progress(s) == 0);
    validated(s, 1, 4, 0.1);
    assert_true(fabs(search_progress(s) - 1 / 2.4) < 1e-9);
    validated(s, 2, 4, 0.1);
    assert_true(fabs(search_progress(s) - 2 / 2.4) < 1e-9);
    validated(s, 1, 8, 0.1);
    closed(s, 1);
    closed(s, 2);
    assert_true(search_progress(s) == 1);
    search_free(s);
}

// Searches by a time metric hear of every validation.
static void test_asha__by_time_waits_for_the_rung(void **state)
{
    (void)state;
    struct search *s =
        search_new(halving("async_halving", "num_rungs: 3, time_metric: epochs, max_time: 900, "
                                            "divisor: 3, max_trials: 3, max_concurrent_trials: 1"));
    assert_string_equal(show_ops(start(s)), "create 1, train 1 to 100");
    assert_string_equal(show_ops(validated(s, 1, 60, 0.5)), "");
    assert_string_equal(show_ops(validated(s, 1, 120, 0.5)), "train 1 to 300");
    // A report that jumps over rungs counts in each of them.
    assert_string_equal(show_ops(validated(s, 1, 950, 0.5)), "close 1, create 2, train 2 to 100");
    assert_string_equal(show_ops(validated(s, 2, 900, 0.4)), "close 2, create 3, train 3 to 100");
    assert_string_equal(show_ops(validated(s, 3, 100, 0.6)), "close 3");
    search_free(s);
}

static void test_asha__by_time_stops_bad_trials(void **state)
{
    (void)state;
    expect_lengths("adaptive_asha",
                   "time_metric: t, max_time: 900, divisor: 3, max_trials: 10, mode: aggressive",
                   worse, "100:9 900:1");
    // Nine trials in two brackets: 6 with rungs at 10, 30, 90 and 3 with rungs at 30, 90.
    expect_lengths("adaptive_asha",
                   "time_metric: t, max_time: 90, divisor: 3, max_trials: 9, "
                   "max_concurrent_trials: 3",
                   worse, "10:5 30:2 90:2");
}

static void test_adaptive_asha__brackets_compete_apart(void **state)
{
    (void)state;
    expect_lengths("adaptive_asha", "max_length: 64, max_trials: 16", worse, "4:9 16:6 64:1");
    expect_lengths("adaptive_asha",
                   "max_length: 900, max_trials: 10, divisor: 3, max_rungs: 10, "
                   "max_concurrent_trials: 5",
                   worse, "100:5 300:4 900:1");
}

// Like the searches of old, whose budget may be less than one full trial; today's rules for
// configurations forbid that.
static struct exp_config *sync_config(const char *extra)
{
    struct exp_config *cfg = config_of(arena_printf(
        &arena, "searcher: {name: sync_halving, num_rungs: 4, max_length: 80000, budget: 90000%s}",
        extra));
    cfg->searcher.halving.budget.amount = 48000;
    return cfg;
}

static double worse_if_larger(int64_t trial, int64_t length)
{
    (void)length;
    return (double)(12 - trial) / 100;
}

static void test_sync_halving__waits_until_nobody_can_pass(void **state)
{
    (void)state;
    const struct simulated *sim = simulate(sync_config(""), worse);
    assert_string_equal(show_lengths(sim), "1250:9 5000:1 80000:1");
    assert_int_equal(sim->lengths[1], 80000);
    assert_int_equal(sim->lengths[2], 5000);
    assert_string_equal(show_lengths(simulate(sync_config(""), equal)), "1250:9 5000:1 80000:1");
    sim = simulate(sync_config(", smaller_is_better: false"), worse_if_larger);
    assert_int_equal(sim->lengths[1], 80000);
}

static void test_sync_halving__exits_are_the_worst(void **state)
{
    (void)state;
    struct search *s = search_new(sync_config(""));
    start(s);
    for (int i = 1; i <= 9; i++)
        assert_string_equal(show_ops(validated(s, i, 1250, i / 100.0)), "");
    assert_string_equal(show_ops(exited(s, 10, SEARCH_ERRORED)), "train 1 to 5000");
    // All have reported. Trial 2 goes on too; the others have waited in vain.
    assert_string_equal(show_ops(validated(s, 11, 1250, 0.5)),
                        "train 2 to 5000, close 3, close 4, close 5, close 6, close 7, close 8, "
                        "close 9, close 11");
    assert_string_equal(show_ops(exited(s, 2, SEARCH_ERRORED)), "");
    assert_string_equal(show_ops(validated(s, 1, 5000, 0.9)), "train 1 to 20000");
    search_free(s);
}

// When those who were to be promoted are gone, the search ends all the same.
static void test_sync_halving__ends_when_all_exit(void **state)
{
    (void)state;
    struct search *s = search_new(sync_config(""));
    start(s);
    for (int i = 1; i <= 11; i++)
        assert_string_equal(show_ops(exited(s, i, SEARCH_ERRORED)), "");
    for (int i = 1; i <= 10; i++)
        closed(s, i);
    assert_string_equal(show_ops(closed(s, 11)), "end failed");
    search_free(s);
}

static void test_adaptive__of_old(void **state)
{
    (void)state;
    expect_lengths("adaptive", "max_length: 3200, budget: 6400, bracket_rungs: [1, 2], divisor: 4",
                   worse, "800:1 3200:2");
    expect_lengths("adaptive_simple", "max_length: 6400, max_trials: 11, max_rungs: 3", worse,
                   "400:5 1600:4 6400:2");
}

RUN_TESTS(DOC_TEST(test_asha__promotes_one_in_divisor),
          DOC_TEST(test_asha__stopping_decides_at_once),
          DOC_TEST(test_asha__stopping_of_repeating_metrics),
          DOC_TEST(test_asha__an_exit_is_the_worst_result),
          DOC_TEST(test_asha__promotes_a_waiting_trial_when_there_is_room),
          DOC_TEST(test_asha__numbers_that_are_none_are_the_worst),
          DOC_TEST(test_asha__refused_hyperparameters_never_were),
          DOC_TEST(test_asha__a_gap_is_filled_by_the_next),
          DOC_TEST(test_asha__gaps_are_filled_one_at_a_time),
          DOC_TEST(test_asha__a_waiting_trial_may_be_ended), DOC_TEST(test_asha__progress),
          DOC_TEST(test_asha__by_time_waits_for_the_rung),
          DOC_TEST(test_asha__by_time_stops_bad_trials),
          DOC_TEST(test_adaptive_asha__brackets_compete_apart),
          DOC_TEST(test_sync_halving__waits_until_nobody_can_pass),
          DOC_TEST(test_sync_halving__exits_are_the_worst),
          DOC_TEST(test_sync_halving__ends_when_all_exit), DOC_TEST(test_adaptive__of_old))
