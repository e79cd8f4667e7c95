// Population-based training.
#include "support/search.h"

static struct exp_config *pbt(int population, int rounds, const char *truncate, const char *extra)
{
    return config_of(arena_printf(&arena,
                                  "searcher:\n"
                                  "  name: pbt\n"
                                  "  population_size: %d\n"
                                  "  num_rounds: %d\n"
                                  "  length_per_round: {batches: 200}\n"
                                  "  replace_function: {truncate_fraction: %s}\n"
                                  "%s",
                                  population, rounds, truncate, extra));
}

#define NO_CHANGE "  explore_function: {resample_probability: 0, perturb_factor: 0}\n"

static double as_number(int64_t trial, int64_t length)
{
    (void)length;
    return (double)trial;
}

static double odd_is_better(int64_t trial, int64_t length)
{
    (void)length;
    return trial % 2 ? (double)trial : -(double)trial;
}

static void test_pbt__replaces_the_worst(void **state)
{
    (void)state;
#define LARGER NO_CHANGE "  smaller_is_better: false\n"
    static const struct {
        int population, rounds;
        const char *truncate, *extra;
        double (*metric)(int64_t trial, int64_t length);
        const char *expected;
    } cases[] = {
        {2, 2, "0.5", LARGER, as_number, "200:2 400:1"},
        {3, 4, "0", LARGER, as_number, "800:3"},
        {2, 3, "0.5", LARGER, odd_is_better, "200:2 400:2"},
        {4, 8, "0.5", LARGER, as_number, "200:4 400:14"},
        {4, 8, "0.5", NO_CHANGE, as_number, "200:16 1600:2"},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        const struct exp_config *cfg =
            pbt(cases[i].population, cases[i].rounds, cases[i].truncate, cases[i].extra);
        assert_string_equal(show_lengths(simulate(cfg, cases[i].metric)), cases[i].expected);
    }
}

static void test_pbt__copies_start_from_checkpoints(void **state)
{
    (void)state;
    struct search *s = search_new(pbt(2, 4, "0.5", NO_CHANGE));
    assert_string_equal(show_ops(start(s)), "create 1, train 1 to 200, create 2, train 2 to 200");
    assert_string_equal(show_ops(validated(s, 2, 200, 0.6)), "");
    assert_string_equal(show_ops(validated(s, 1, 200, 0.5)),
                        "close 2, create 3 from 1, train 3 to 200, train 1 to 400");
    assert_string_equal(show_ops(closed(s, 2)), "");
    // The copy is better than what it was copied from.
    validated(s, 3, 200, 0.1);
    assert_string_equal(show_ops(exited(s, 1, SEARCH_ERRORED)),
                        "create 4 from 3, train 4 to 200, train 3 to 400");
    validated(s, 3, 400, 0.1);
    assert_string_equal(show_ops(validated(s, 4, 200, 0.2)),
                        "close 4, create 5 from 3, train 5 to 200, train 3 to 600");
    validated(s, 5, 200, 0.3);
    assert_string_equal(show_ops(validated(s, 3, 600, 0.1)), "close 3, close 5");
    closed(s, 1);
    closed(s, 3);
    closed(s, 4);
    assert_string_equal(show_ops(closed(s, 5)), "end");
    search_free(s);
}

static void test_pbt__stays_as_large_as_it_was(void **state)
{
    (void)state;
    struct search *s = search_new(pbt(4, 3, "0", NO_CHANGE));
    start(s);
    exited(s, 1, SEARCH_ERRORED);
    exited(s, 2, SEARCH_INVALID_HP);
    exited(s, 3, SEARCH_CANCELED);
    assert_string_equal(show_ops(validated(s, 4, 200, 0.5)),
                        "create 5 from 4, train 5 to 200, create 6 from 4, train 6 to 200, "
                        "create 7 from 4, train 7 to 200, train 4 to 400");
    search_free(s);
}

static void test_pbt__ends_when_all_are_gone(void **state)
{
    (void)state;
    struct search *s = search_new(pbt(2, 3, "0.5", NO_CHANGE));
    start(s);
    exited(s, 1, SEARCH_ERRORED);
    assert_string_equal(show_ops(exited(s, 2, SEARCH_ERRORED)), "");
    closed(s, 1);
    assert_string_equal(show_ops(closed(s, 2)), "end failed");
    search_free(s);
}

static const char space[] = "hyperparameters:\n"
                            "  cat: {type: categorical, vals: [0, 1, 2, 3, 4, 5, 6]}\n"
                            "  const: val\n"
                            "  double: {type: double, minval: 1, maxval: 100}\n"
                            "  int: {type: int, minval: 1, maxval: 100}\n"
                            "  log: {type: log, base: 10, minval: -4, maxval: -2}\n"
                            "reproducibility: {experiment_seed: %d}\n";

// The hyperparameters of the first trial and of its copy.
static void explore(const char *explore_function, int seed, const struct doc **old,
                    const struct doc **new)
{
    const char *extra = arena_printf(&arena, "  explore_function: {%s}\n%s", explore_function,
                                     arena_printf(&arena, space, seed));
    struct search *s = search_new(pbt(2, 2, "0.5", extra));
    struct search_ops ops = start(s);
    *old = doc_of(as_json(ops.items[0].hparams));
    validated(s, 1, 200, 0.1);
    ops = validated(s, 2, 200, 0.2);
    assert_int_equal(ops.items[1].kind, SEARCH_CREATE);
    *new = doc_of(as_json(ops.items[1].hparams));
    search_free(s);
}

static double value(const struct doc *hparams, const char *name)
{
    double x = 0;
    assert_true(doc_number(doc_find(hparams, name), &x));
    return x;
}

static void test_pbt__explores(void **state)
{
    (void)state;
    int n_shrunk = 0, n_resampled = 0;
    for (int seed = 0; seed < 100; seed++) {
        const struct doc *a, *b;
        explore("resample_probability: 0, perturb_factor: 0", seed, &a, &b);
        assert_true(doc_equal(a, b));
        explore("resample_probability: 0, perturb_factor: 0.5", seed, &a, &b);
        assert_true(value(a, "cat") == value(b, "cat"));
        double x = value(a, "double"), y = value(b, "double");
        assert_true(fabs(y - fmax(1, 0.5 * x)) < 1e-9 || fabs(y - fmin(100, 1.5 * x)) < 1e-9);
        n_shrunk += y < x;
        x = value(a, "int"), y = value(b, "int");
        assert_true(y == fmax(1, floor(0.5 * x)) || y == fmin(100, ceil(1.5 * x)));
        assert_in_range((int)(value(b, "log") * 1e6), 100, 10000);
        explore("resample_probability: 1, perturb_factor: 0", seed, &a, &b);
        n_resampled += value(a, "double") != value(b, "double");
    }
    assert_in_range(n_shrunk, 30, 70);
    assert_in_range(n_resampled, 99, 100);
}

RUN_TESTS(DOC_TEST(test_pbt__replaces_the_worst), DOC_TEST(test_pbt__copies_start_from_checkpoints),
          DOC_TEST(test_pbt__stays_as_large_as_it_was), DOC_TEST(test_pbt__ends_when_all_are_gone),
          DOC_TEST(test_pbt__explores))
