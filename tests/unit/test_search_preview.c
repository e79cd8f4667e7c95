// How a search divides its trials: brackets, rungs, lengths.
#include "support/search.h"

// "3/12/6 [4 16 64]; 2/3/5 [16 64] = 4:9 16:7": rungs, trials, concurrency and lengths of each
// bracket; then how many trials end where.
static const char *preview_of(const char *searcher)
{
    struct search_plan plan;
    det_err err;
    const struct exp_config *cfg =
        config_of(arena_printf(&arena,
                               "searcher: {%s}\nhyperparameters:\n"
                               "  a: {type: int, minval: 0, maxval: 9, count: 4}\n",
                               searcher));
    if (search_preview(cfg, &arena, &plan, &err)) fail_msg("%s", err.msg);
    struct buf b = BUF_INIT(1 << 16);
    double units = 0;
    int64_t n_trials = 0;
    for (size_t i = 0; i < plan.brackets.n; i++) {
        const struct plan_bracket *p = &plan.brackets.items[i];
        buf_printf(&b, "%s%zu/%lld/%lld [", i ? "; " : "", p->rungs.n, (long long)p->n_trials,
                   (long long)p->n_concurrent);
        for (size_t k = 0; k < p->rungs.n; k++)
            buf_printf(&b, "%s%lld", k ? " " : "", (long long)p->rungs.items[k].length);
        buf_addc(&b, ']');
    }
    buf_addz(&b, " =");
    for (size_t i = 0; i < plan.lengths.n; i++) {
        const struct plan_rung *r = &plan.lengths.items[i];
        buf_printf(&b, " %lld:%lld", (long long)r->length, (long long)r->n_trials);
        units += (double)r->length * (double)r->n_trials;
        n_trials += r->n_trials;
    }
    assert_true(plan.units == units);
    assert_int_equal(plan.n_trials, n_trials);
    const char *text = arena_strdup(&arena, b.ptr);
    buf_done(&b);
    return text;
}

static void expect_preview(const char *searcher, const char *expected)
{
    assert_string_equal(preview_of(searcher), expected);
}

static void test_preview__of_flat_searches(void **state)
{
    (void)state;
    expect_preview("name: single, max_length: 9", "1/1/1 [9] = 9:1");
    expect_preview("name: random, max_trials: 20, max_length: 9", "1/20/16 [9] = 9:20");
    expect_preview("name: grid, max_length: 9", "1/4/4 [9] = 9:4");
    expect_preview("name: single", "1/1/1 [0] = 0:1");
}

static void test_preview__of_adaptive_asha(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *expected;
    } cases[] = {
        {"max_length: 64, max_trials: 16, mode: conservative",
         "3/12/6 [4 16 64]; 2/3/5 [16 64]; 1/1/5 [64] = 4:9 16:4 64:3"},
        {"max_length: 64, max_trials: 16", "3/12/8 [4 16 64]; 2/4/8 [16 64] = 4:9 16:5 64:2"},
        {"max_length: 64, max_trials: 16, mode: aggressive", "3/16/16 [4 16 64] = 4:12 16:3 64:1"},
        {"max_length: 64, max_trials: 50", "3/37/8 [4 16 64]; 2/13/8 [16 64] = 4:28 16:17 64:5"},
        {"max_length: 64, max_trials: 500",
         "4/344/6 [1 4 16 64]; 3/114/5 [4 16 64]; 2/42/5 [16 64] = 1:258 4:151 16:69 64:22"},
        {"max_length: 6400, max_trials: 128",
         "4/89/6 [100 400 1600 6400]; 3/29/5 [400 1600 6400]; 2/10/5 [1600 6400] = "
         "100:67 400:39 1600:18 6400:4"},
        {"max_length: 100, max_trials: 10, max_concurrent_trials: 2",
         "2/7/1 [25 100]; 1/3/1 [100] = 25:6 100:4"},
        {"max_length: 1000, max_trials: 10, divisor: 3, mode: conservative, "
         "max_concurrent_trials: 5",
         "3/7/2 [111 333 1000]; 2/2/2 [333 1000]; 1/1/1 [1000] = 111:5 333:2 1000:3"},
        {"max_length: 900, max_trials: 10, divisor: 3, max_concurrent_trials: 5, max_rungs: 10",
         "3/7/3 [100 300 900]; 2/3/2 [300 900] = 100:5 300:3 900:2"},
        {"max_length: 64, max_trials: 16, bracket_rungs: [1, 7]",
         "7/15/8 [1 1 1 1 4 16 64]; 1/1/8 [64] = 1:14 64:2"},
        {"max_length: 1, max_trials: 1", "1/1/16 [1] = 1:1"},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++)
        expect_preview(arena_printf(&arena, "name: adaptive_asha, %s", cases[i].fields),
                       cases[i].expected);
}

// The logarithm of 1000 divided by that of 10 is just below 3, that of 243 and 3 just below 5.
static void test_preview__cuts_logarithms(void **state)
{
    (void)state;
    expect_preview("name: adaptive_asha, max_length: 1000, max_trials: 100000, divisor: 10, "
                   "mode: aggressive",
                   "3/100000/16 [10 100 1000] = 10:90000 100:9000 1000:1000");
    expect_preview("name: adaptive_asha, max_length: 243, max_trials: 100000, divisor: 3, "
                   "mode: aggressive, max_rungs: 9",
                   "5/100000/16 [3 9 27 81 243] = 3:66667 9:22222 27:7408 81:2469 243:1234");
}

// All modes, by the number of rungs.
static void test_preview__modes(void **state)
{
    (void)state;
    static const char *const modes[] = {"standard", "aggressive", "conservative"};
    static const char *const expected[][5] = {
        {"1", "2 1", "3 2", "4 3 2", "5 4 3"},
        {"1", "2", "3", "4", "5"},
        {"1", "2 1", "3 2 1", "4 3 2 1", "5 4 3 2 1"},
    };
    for (size_t m = 0; m < STATIC_LEN(modes); m++) {
        for (int rungs = 1; rungs <= 5; rungs++) {
            struct search_plan plan;
            const struct exp_config *cfg =
                config_of(arena_printf(&arena,
                                       "searcher: {name: adaptive_asha, max_length: 100000, "
                                       "max_trials: 100000, mode: %s, max_rungs: %d}",
                                       modes[m], rungs));
            assert_int_equal(search_preview(cfg, &arena, &plan, NULL), 0);
            struct buf b = BUF_INIT(100);
            for (size_t i = 0; i < plan.brackets.n; i++)
                buf_printf(&b, "%s%zu", i ? " " : "", plan.brackets.items[i].rungs.n);
            assert_string_equal(b.ptr, expected[m][rungs - 1]);
            buf_done(&b);
        }
    }
}

// Trials and concurrency of brackets with given numbers of rungs, in Determined's own tests.
static void test_preview__shares_of_brackets(void **state)
{
    (void)state;
    static const struct {
        int trials, divisor, concurrent;
        const char *rungs, *expected;
    } cases[] = {
        {20, 3, 0, "3, 2, 1", "12/3 5/3 3/3"},  {50, 3, 0, "3, 4", "35/15 15/15"},
        {50, 4, 0, "3, 2", "37/13 13/13"},      {100, 4, 0, "4, 3, 2", "70/8 22/8 8/8"},
        {20, 3, 11, "3, 2, 1", "12/4 5/4 3/3"}, {20, 3, 1, "3, 2, 1", "12/1 5/1 3/1"},
        {2, 5, 0, "2, 1", "1/5 1/5"},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct search_plan plan;
        const struct exp_config *cfg = config_of(
            arena_printf(&arena,
                         "searcher: {name: adaptive_asha, max_length: 1000, max_trials: %d, "
                         "divisor: %d, max_concurrent_trials: %d, bracket_rungs: [%s]}",
                         cases[i].trials, cases[i].divisor, cases[i].concurrent, cases[i].rungs));
        assert_int_equal(search_preview(cfg, &arena, &plan, NULL), 0);
        struct buf b = BUF_INIT(100);
        for (size_t k = 0; k < plan.brackets.n; k++)
            buf_printf(&b, "%s%lld/%lld", k ? " " : "", (long long)plan.brackets.items[k].n_trials,
                       (long long)plan.brackets.items[k].n_concurrent);
        assert_string_equal(b.ptr, cases[i].expected);
        buf_done(&b);
    }
}

static void test_preview__of_async_halving(void **state)
{
    (void)state;
    expect_preview("name: async_halving, num_rungs: 3, max_trials: 16, max_length: 3000",
                   "3/16/16 [187 750 3000] = 187:12 750:3 3000:1");
    expect_preview("name: async_halving, num_rungs: 3, max_trials: 12, max_length: 9000, "
                   "divisor: 3, max_concurrent_trials: 0",
                   "3/12/9 [1000 3000 9000] = 1000:8 3000:3 9000:1");
    expect_preview("name: async_halving, num_rungs: 3, max_trials: 12, divisor: 3, "
                   "max_length: {records: 576000}",
                   "3/12/16 [64000 192000 576000] = 64000:8 192000:3 576000:1");
    expect_preview("name: async_halving, num_rungs: 3, max_trials: 12, divisor: 3, "
                   "max_length: {epochs: 12}",
                   "3/12/16 [1 4 12] = 1:8 4:3 12:1");
}

static void test_preview__of_synchronous_halving(void **state)
{
    (void)state;
    expect_preview("name: sync_halving, num_rungs: 3, max_length: 6400, budget: 102400",
                   "3/102/102 [400 1600 6400] = 400:77 1600:19 6400:6");
    expect_preview("name: adaptive, max_length: 6400, budget: 102400, max_rungs: 3",
                   "3/51/51 [400 1600 6400]; 2/18/18 [1600 6400] = 400:39 1600:23 6400:7");
    expect_preview("name: adaptive_simple, max_length: 6400, max_trials: 11, max_rungs: 3",
                   "3/6/6 [400 1600 6400]; 2/5/5 [1600 6400] = 400:5 1600:4 6400:2");
}

// Absurd divisors give absurd plans, but plans.
static void test_preview__survives_any_number(void **state)
{
    (void)state;
    static const char *const searchers[] = {
        "name: adaptive_asha, max_length: 9000000000000000000, max_trials: 10000000, "
        "divisor: 1.0000001, bracket_rungs: [64, 64, 1]",
        "name: adaptive_asha, max_length: 5, max_trials: 3, divisor: 1.0e+300, "
        "bracket_rungs: [64, 2]",
        "name: sync_halving, num_rungs: 64, max_length: 1, budget: 9000000000000000000, "
        "divisor: 1.0e+300",
        "name: sync_halving, num_rungs: 1, max_length: 1, budget: 9000000000000000000",
        "name: adaptive, max_length: 2, budget: 3, max_rungs: 64",
    };
    for (size_t i = 0; i < STATIC_LEN(searchers); i++) {
        struct search_plan plan;
        const struct exp_config *cfg =
            config_of(arena_printf(&arena, "searcher: {%s}", searchers[i]));
        assert_int_equal(search_preview(cfg, &arena, &plan, NULL), 0);
        assert_in_range(plan.n_trials, 1, 20000000);
        for (size_t k = 0; k < plan.lengths.n; k++)
            assert_true(plan.lengths.items[k].n_trials > 0 && plan.lengths.items[k].length > 0);
    }
}

RUN_TESTS(DOC_TEST(test_preview__of_flat_searches), DOC_TEST(test_preview__of_adaptive_asha),
          DOC_TEST(test_preview__cuts_logarithms), DOC_TEST(test_preview__modes),
          DOC_TEST(test_preview__shares_of_brackets), DOC_TEST(test_preview__of_async_halving),
          DOC_TEST(test_preview__of_synchronous_halving),
          DOC_TEST(test_preview__survives_any_number))
