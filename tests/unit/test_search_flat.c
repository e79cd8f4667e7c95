// Searches in which every trial trains for the full length: single, random, grid.
#include "support/search.h"

static void test_single__trains_one_trial(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: single, max_length: {epochs: 3}}"));
    assert_string_equal(show_ops(start(s)), "create 1, train 1 to 3, close 1");
    assert_string_equal(show_ops(validated(s, 1, 3, 0.5)), "");
    assert_string_equal(show_ops(closed(s, 1)), "end");
    assert_true(search_progress(s) == 1);
    search_free(s);
}

static void test_single__does_not_replace_refused_hyperparameters(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: single, max_length: 3}"));
    start(s);
    assert_string_equal(show_ops(exited(s, 1, SEARCH_INVALID_HP)), "");
    assert_string_equal(show_ops(closed(s, 1)), "end");
    search_free(s);
}

// Without a max_length the training code decides when it is done.
static void test_single__without_a_length(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: single}"));
    assert_string_equal(show_ops(start(s)), "create 1, train 1 to 0, close 1");
    assert_string_equal(show_ops(validated(s, 1, 77, 0.5)), "");
    assert_string_equal(show_ops(closed(s, 1)), "end");
    search_free(s);
}

static void test_random__keeps_as_many_open_as_allowed(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(
        "searcher: {name: random, max_trials: 4, max_concurrent_trials: 2, max_length: 5}"));
    assert_string_equal(show_ops(start(s)),
                        "create 1, train 1 to 5, close 1, create 2, train 2 to 5, close 2");
    assert_string_equal(show_ops(validated(s, 2, 5, NAN)), "");
    assert_string_equal(show_ops(closed(s, 2)), "create 3, train 3 to 5, close 3");
    assert_true(fabs(search_progress(s) - 0.25) < 1e-9);
    tell(s, (struct search_event){.kind = SEARCH_PROGRESS, .trial = 1, .units = 2.5});
    assert_true(fabs(search_progress(s) - 0.375) < 1e-9);
    assert_string_equal(show_ops(exited(s, 1, SEARCH_ERRORED)), "");
    assert_string_equal(show_ops(closed(s, 1)), "create 4, train 4 to 5, close 4");
    validated(s, 3, 5, 1);
    validated(s, 4, 5, 1);
    assert_string_equal(show_ops(closed(s, 3)), "");
    assert_string_equal(show_ops(closed(s, 4)), "end");
    search_free(s);
}

static void test_random__without_a_limit_starts_all(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(
        "searcher: {name: random, max_trials: 100, max_concurrent_trials: 0, max_length: 5}"));
    assert_int_equal(start(s).n, 300);
    search_free(s);
    s = search_new(config_of("searcher: {name: random, max_trials: 100, max_length: 5}"));
    assert_int_equal(start(s).n, 3 * 16);
    search_free(s);
}

static void test_random__refused_hyperparameters_do_not_count(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(
        "searcher: {name: random, max_trials: 1, max_concurrent_trials: 2, max_length: 5}"));
    start(s);
    assert_string_equal(show_ops(exited(s, 1, SEARCH_INVALID_HP)), "");
    assert_string_equal(show_ops(closed(s, 1)), "create 2, train 2 to 5, close 2");
    validated(s, 2, 5, 0.5);
    assert_string_equal(show_ops(closed(s, 2)), "end");
    search_free(s);
}

static const char *end_of(enum search_exit first, enum search_exit second)
{
    struct search *s =
        search_new(config_of("searcher: {name: random, max_trials: 2, max_length: 5}"));
    start(s);
    exited(s, 1, first);
    exited(s, 2, second);
    closed(s, 1);
    const char *text = show_ops(closed(s, 2));
    search_free(s);
    return text;
}

static void test_search__fails_only_if_every_trial_fails(void **state)
{
    (void)state;
    assert_string_equal(end_of(SEARCH_ERRORED, SEARCH_ERRORED), "end failed");
    assert_string_equal(end_of(SEARCH_CANCELED, SEARCH_CANCELED), "end canceled");
    assert_string_equal(end_of(SEARCH_ERRORED, SEARCH_CANCELED), "end");
    assert_string_equal(end_of(SEARCH_ERRORED, SEARCH_STOPPED), "end");
}

static void expect_error(struct search *s, struct search_event event, int code, const char *text)
{
    struct search_ops ops;
    det_err err;
    assert_int_equal(search_tell(s, &event, &ops, &err), code);
    assert_string_equal(err.msg, text);
    assert_int_equal(ops.n, 0);
}

static void test_search__refuses_what_cannot_be(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: single, max_length: 5}"));
    struct search_event done = {.kind = SEARCH_VALIDATED, .trial = 1, .length = 5};
    expect_error(s, done, DET_ESTATE, "the search has not started yet");
    start(s);
    expect_error(s, (struct search_event){SEARCH_START}, DET_ESTATE,
                 "the search has started already");
    expect_error(s, (struct search_event){.kind = SEARCH_CLOSED, .trial = 2}, DET_ENOTFOUND,
                 "the search has no trial 2");
    expect_error(s, (struct search_event){.kind = SEARCH_CLOSED}, DET_ENOTFOUND,
                 "the search has no trial 0");
    done.length = 4;
    expect_error(s, done, DET_EINVAL, "trial 1 should validate at length 5, not 4");
    validated(s, 1, 5, 0.5);
    done.length = 5;
    expect_error(s, done, DET_EINVAL, "trial 1 has no operation to complete");
    search_free(s);
}

static void test_search__ignores_repeated_exits_and_closings(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(
        "searcher: {name: random, max_trials: 3, max_concurrent_trials: 1, max_length: 5}"));
    start(s);
    exited(s, 1, SEARCH_ERRORED);
    assert_string_equal(show_ops(exited(s, 1, SEARCH_INVALID_HP)), "");
    assert_string_equal(show_ops(closed(s, 1)), "create 2, train 2 to 5, close 2");
    assert_string_equal(show_ops(closed(s, 1)), "");
    search_free(s);
}

// A trial that ends while it trains has exited; nobody waits for it.
static void test_search__understands_an_end_without_a_word(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: single, max_length: 5}"));
    start(s);
    assert_string_equal(show_ops(closed(s, 1)), "end");
    search_free(s);
}

// The values of the trials of a grid search, in the order of creation.
static const char *grid_of(const char *hparams)
{
    struct search *s = search_new(config_of(arena_printf(
        &arena, "searcher: {name: grid, max_concurrent_trials: 0, max_length: 1}\n%s", hparams)));
    struct search_ops ops = start(s);
    struct buf b = BUF_INIT(1 << 16);
    for (size_t i = 0; i < ops.n; i++)
        if (ops.items[i].kind == SEARCH_CREATE)
            buf_printf(&b, "%s%s", b.len ? " " : "", as_json(ops.items[i].hparams));
    const char *text = arena_strdup(&arena, b.ptr);
    buf_done(&b);
    search_free(s);
    return text;
}

static void test_search__knows_which_trials_are_open(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(
        "searcher: {name: random, max_trials: 2, max_concurrent_trials: 1, max_length: 5}"));
    assert_false(search_has_open(s, 1));
    start(s);
    assert_int_equal(search_n_trials(s), 1);
    assert_true(search_has_open(s, 1));
    assert_false(search_has_open(s, 0));
    assert_false(search_has_open(s, 2)); // not yet
    validated(s, 1, 5, 0.5);
    assert_true(search_has_open(s, 1)); // until it has ended
    closed(s, 1);
    assert_false(search_has_open(s, 1));
    assert_int_equal(search_n_trials(s), 2);
    validated(s, 2, 5, 0.5);
    closed(s, 2);
    assert_false(search_has_open(s, 2));
    search_free(s);
}

static void test_grid__starts_with_the_last_point(void **state)
{
    (void)state;
    assert_string_equal(
        grid_of("hyperparameters: {batch_size: {type: categorical, vals: [16, 32, 64]}}"),
        "{\"batch_size\":64} {\"batch_size\":32} {\"batch_size\":16}");
}

static void test_grid__last_axis_varies_fastest(void **state)
{
    (void)state;
    assert_string_equal(grid_of("hyperparameters:\n"
                                "  a: {type: int, minval: 0, maxval: 20, count: 3}\n"
                                "  b: {type: int, minval: 0, maxval: 10, count: 3}\n"),
                        "{\"a\":20,\"b\":10} {\"a\":20,\"b\":5} {\"a\":20,\"b\":0} "
                        "{\"a\":10,\"b\":10} {\"a\":10,\"b\":5} {\"a\":10,\"b\":0} "
                        "{\"a\":0,\"b\":10} {\"a\":0,\"b\":5} {\"a\":0,\"b\":0}");
}

static void test_grid__axes(void **state)
{
    (void)state;
    static const struct {
        const char *axis, *values; // from the last to the first
    } cases[] = {
        {"{type: int, minval: 0, maxval: 4, count: 5}", "4 3 2 1 0"},
        {"{type: int, minval: -4, maxval: -2, count: 3}", "-2 -3 -4"},
        {"{type: int, minval: 0, maxval: 2, count: 9}", "2 1 0"},
        {"{type: int, minval: 0, maxval: 5, count: 1}", "3"}, // half is rounded away from zero
        {"{type: int, minval: -5, maxval: 0, count: 1}", "-3"},
        {"{type: double, minval: 1, maxval: 2, count: 3}", "2.0 1.5 1.0"},
        {"{type: double, minval: 1, maxval: 2, count: 1}", "1.5"},
        {"{type: log, base: 10, minval: 1, maxval: 3, count: 3}", "1000.0 100.0 10.0"},
        {"{type: log, base: 10, minval: 1, maxval: 3, count: 1}", "100.0"},
        {"{type: categorical, vals: [x, [1, 2], null]}", "null [1,2] \"x\""},
        {"7", "7"},
        {"{}", "{}"},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct buf expected = BUF_INIT(1 << 10);
        struct str rest = str_from(cases[i].values);
        while (rest.ptr) {
            struct str value = str_cut(&rest, ' ');
            buf_printf(&expected, "%s{\"x\":%.*s}", expected.len ? " " : "", STR_ARG(value));
        }
        assert_string_equal(
            grid_of(arena_printf(&arena, "hyperparameters: {x: %s}", cases[i].axis)), expected.ptr);
        buf_done(&expected);
    }
}

static size_t n_distinct_points(const char *hparams)
{
    struct str rest = str_from(grid_of(hparams));
    const char *seen[64];
    size_t n = 0;
    while (rest.ptr) {
        struct str point = str_cut(&rest, ' ');
        bool is_new = true;
        for (size_t i = 0; i < n; i++)
            is_new = is_new && !str_eqz(point, seen[i]);
        if (is_new) seen[n++] = arena_strndup(&arena, point.ptr, point.len);
    }
    return n;
}

static void test_grid__has_every_point_once(void **state)
{
    (void)state;
    assert_int_equal(n_distinct_points("hyperparameters:\n"
                                       "  a: {type: int, minval: 0, maxval: 9, count: 2}\n"
                                       "  b: {type: int, minval: 0, maxval: 9, count: 3}\n"
                                       "  c: {type: int, minval: 0, maxval: 9, count: 4}\n"),
                     24);
    assert_int_equal(
        n_distinct_points("hyperparameters:\n"
                          "  a: {b: {c1: {type: categorical, vals: [3, 5]},\n"
                          "          c2: {type: int, minval: 7, maxval: 11, count: 2}}}\n"
                          "  d: {}\n"
                          "  f: {type: int, minval: 13, maxval: 17, count: 2}\n"
                          "  g: {type: log, base: 10, minval: 1, maxval: 2, count: 2}\n"),
        16);
}

static void test_grid__failed_points_count_as_done(void **state)
{
    (void)state;
    struct search *s =
        search_new(config_of("searcher: {name: grid, max_concurrent_trials: 2, max_length: 1}\n"
                             "hyperparameters: {a: {type: categorical, vals: [1, 2, 3]}}\n"));
    assert_string_equal(show_ops(start(s)),
                        "create 1, train 1 to 1, close 1, create 2, train 2 to 1, close 2");
    exited(s, 1, SEARCH_INVALID_HP);
    assert_string_equal(show_ops(closed(s, 1)), "create 3, train 3 to 1, close 3");
    exited(s, 2, SEARCH_ERRORED);
    assert_string_equal(show_ops(closed(s, 2)), "");
    validated(s, 3, 1, 0.1);
    assert_string_equal(show_ops(closed(s, 3)), "end");
    search_free(s);
}

static struct search_ops go_on(struct search *s)
{
    return tell(s, (struct search_event){.kind = SEARCH_GO_ON});
}

static void test_pace__creates_some_at_a_time(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: random, max_trials: 5, max_length: "
                                            "1, max_concurrent_trials: 5}"));
    search_set_pace(s, 2);
    assert_string_equal(show_ops(start(s)), "create 1, train 1 to 1, close 1, "
                                            "create 2, train 2 to 1, close 2");
    assert_true(search_has_more(s));
    exited(s, 1, SEARCH_ERRORED);
    closed(s, 1); // creates, too
    assert_int_equal(search_n_trials(s), 4);
    assert_true(search_has_more(s));
    assert_string_equal(show_ops(go_on(s)), "create 5, train 5 to 1, close 5");
    assert_false(search_has_more(s));
    assert_string_equal(show_ops(go_on(s)), "");
    search_free(s);
}

// Whoever saves it after any event has a search that creates the rest, with the same values.
static void test_pace__is_part_of_the_snapshot(void **state)
{
    (void)state;
    const char *text = "searcher: {name: async_halving, num_rungs: 2, max_trials: 40, max_length: "
                       "16, max_concurrent_trials: 40}\n"
                       "hyperparameters: {a: {type: double, minval: 0, maxval: 1}}";
    struct search *whole = search_new(config_of(text)), *s = search_new(config_of(text));
    struct search_ops all = start(whole), some;
    size_t at = 0;
    search_set_pace(s, 3);
    for (some = start(s); some.n; some = go_on(s)) {
        for (size_t i = 0; i < some.n; i++, at++) {
            assert_int_equal(some.items[i].kind, all.items[at].kind);
            if (some.items[i].kind == SEARCH_CREATE)
                assert_true(doc_equal(some.items[i].hparams, all.items[at].hparams));
        }
        struct buf b = BUF_INIT(1 << 20);
        search_snapshot(s, &b);
        search_free(s);
        s = search_restore(config_of(text), buf_str(&b), NULL);
        search_set_pace(s, 3);
        buf_done(&b);
    }
    assert_int_equal(at, all.n);
    search_free(whole);
    search_free(s);
}

static void test_pace__does_not_end_what_is_not_complete(void **state)
{
    (void)state;
    struct search *s = search_new(config_of("searcher: {name: async_halving, num_rungs: 1, "
                                            "max_trials: 2, max_length: 4}"));
    search_set_pace(s, 1);
    start(s);
    assert_true(search_has_more(s));
    exited(s, 1, SEARCH_ERRORED); // creates the other one
    assert_string_equal(show_ops(closed(s, 1)), "");
    exited(s, 2, SEARCH_ERRORED);
    assert_string_equal(show_ops(closed(s, 2)), "");
    assert_string_equal(show_ops(go_on(s)), "end failed");
    search_free(s);
}

RUN_TESTS(DOC_TEST(test_pace__creates_some_at_a_time), DOC_TEST(test_pace__is_part_of_the_snapshot),
          DOC_TEST(test_pace__does_not_end_what_is_not_complete),
          DOC_TEST(test_single__trains_one_trial),
          DOC_TEST(test_single__does_not_replace_refused_hyperparameters),
          DOC_TEST(test_single__without_a_length),
          DOC_TEST(test_random__keeps_as_many_open_as_allowed),
          DOC_TEST(test_random__without_a_limit_starts_all),
          DOC_TEST(test_random__refused_hyperparameters_do_not_count),
          DOC_TEST(test_search__fails_only_if_every_trial_fails),
          DOC_TEST(test_search__refuses_what_cannot_be),
          DOC_TEST(test_search__ignores_repeated_exits_and_closings),
          DOC_TEST(test_search__understands_an_end_without_a_word),
          DOC_TEST(test_search__knows_which_trials_are_open),
          DOC_TEST(test_grid__starts_with_the_last_point),
          DOC_TEST(test_grid__last_axis_varies_fastest), DOC_TEST(test_grid__axes),
          DOC_TEST(test_grid__has_every_point_once),
          DOC_TEST(test_grid__failed_points_count_as_done))
