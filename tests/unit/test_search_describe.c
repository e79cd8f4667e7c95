// How far a search has come: who is in which rung, who goes on, where the cut is.
#include "support/search.h"

// "4: 1=0.2 promoted, 2=0.5 stopped cut 0.2; 16: 1 running | ..."; brackets are kept apart by |.
static const char *describe(const struct search *s)
{
    struct search_view view;
    struct buf b = BUF_INIT(1 << 16);
    search_describe(s, &arena, &view);
    for (size_t i = 0; i < view.brackets.n; i++) {
        const struct bracket_view *bracket = &view.brackets.items[i];
        if (i) buf_addz(&b, " | ");
        for (size_t k = 0; k < bracket->rungs.n; k++) {
            const struct rung_view *r = &bracket->rungs.items[k];
            buf_printf(&b, "%s%lld:", k ? "; " : "", (long long)r->length);
            for (size_t j = 0; j < r->results.n; j++) {
                const struct rung_result *result = &r->results.items[j];
                buf_printf(&b, "%s%lld", j ? ", " : " ", (long long)result->trial);
                if (!isnan(result->metric)) buf_printf(&b, "=%g", result->metric);
                buf_printf(&b, " %s", search_decision_name(result->decision));
            }
            if (!isnan(r->cutoff)) buf_printf(&b, " cut %g", r->cutoff);
        }
    }
    const char *text = arena_strdup(&arena, b.len ? b.ptr : "");
    buf_done(&b);
    return text;
}

#define HALVING(more)                                                                           \
    "searcher: {name: async_halving, max_length: 16, num_rungs: 2, divisor: 4, max_trials: 4, " \
    "max_concurrent_trials: 4" more "}\nhyperparameters: {}"

static void test_describe__follows_trials_through_rungs(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(HALVING("")));
    assert_string_equal(describe(s), "4:; 16:");
    start(s);
    assert_string_equal(describe(s), "4: 1 running, 2 running, 3 running, 4 running; 16:");
    validated(s, 1, 4, 0.5);
    validated(s, 2, 4, 0.2);
    validated(s, 3, 4, 0.9);
    assert_string_equal(describe(s),
                        "4: 2=0.2 waiting, 1=0.5 waiting, 3=0.9 waiting, 4 running; 16:");
    exited(s, 4, SEARCH_ERRORED);
    assert_string_equal(describe(s), "4: 2=0.2 promoted, 1=0.5 stopped, 3=0.9 stopped, 4 stopped "
                                     "cut 0.2; 16: 2 running");
    validated(s, 2, 16, 0.1);
    assert_string_equal(describe(s), "4: 2=0.2 promoted, 1=0.5 stopped, 3=0.9 stopped, 4 stopped "
                                     "cut 0.2; 16: 2=0.1 finished");
    search_free(s);
}

static void test_describe__shows_metrics_as_they_were_reported(void **state)
{
    (void)state;
    struct search *s = search_new(config_of(HALVING(", smaller_is_better: false")));
    start(s);
    validated(s, 1, 4, 0.5);
    validated(s, 2, 4, 0.2);
    validated(s, 3, 4, 0.9);
    validated(s, 4, 4, NAN);
    assert_string_equal(describe(s), "4: 3=0.9 promoted, 1=0.5 stopped, 2=0.2 stopped, 4 stopped "
                                     "cut 0.9; 16: 3 running");
    search_free(s);
}

static void test_describe__is_the_same_after_a_restart(void **state)
{
    (void)state;
    const struct exp_config *cfg =
        config_of("searcher: {name: adaptive_asha, max_length: 64, max_rungs: 3, divisor: 4, "
                  "max_trials: 12, mode: standard}\nhyperparameters: {}");
    struct search *s = search_new(cfg);
    struct buf snapshot = BUF_INIT(1 << 20);
    struct search_view view;
    det_err err;
    struct search_ops ops = start(s);
    for (size_t i = 0; i < ops.n && i < 9; i++)
        if (ops.items[i].kind == SEARCH_VALIDATE_AFTER) {
            validated(s, ops.items[i].trial, ops.items[i].length, 0.1 * (double)i);
            break;
        }
    search_describe(s, &arena, &view);
    assert_true(view.brackets.n > 1);
    search_snapshot(s, &snapshot);
    struct search *again = search_restore(cfg, buf_str(&snapshot), &err);
    if (!again) fail_msg("%s", err.msg);
    assert_string_equal(describe(again), describe(s));
    buf_done(&snapshot);
    search_free(again);
    search_free(s);
}

static void test_describe__has_nothing_to_say_of_flat_searches(void **state)
{
    (void)state;
    const struct exp_config *cfg =
        config_of("searcher: {name: random, max_trials: 3, max_length: 9}\nhyperparameters: {}");
    struct search *s = search_new(cfg);
    start(s);
    assert_string_equal(describe(s), "");
    assert_false(search_has_rungs(cfg));
    assert_true(search_has_rungs(config_of(HALVING(""))));
    search_free(s);
}

RUN_TESTS(DOC_TEST(test_describe__follows_trials_through_rungs),
          DOC_TEST(test_describe__shows_metrics_as_they_were_reported),
          DOC_TEST(test_describe__is_the_same_after_a_restart),
          DOC_TEST(test_describe__has_nothing_to_say_of_flat_searches))
