// Snapshots that are not what they should be.
#include "support/search.h"

static const char *snapshot_of(const struct exp_config *cfg, int n_validated)
{
    struct search *s = search_new(cfg);
    struct buf b = BUF_INIT(1 << 20);
    start(s);
    for (int i = 1; i <= n_validated; i++)
        validated(s, i, 4, i);
    search_snapshot(s, &b);
    const char *text = arena_strdup(&arena, b.ptr);
    buf_done(&b);
    search_free(s);
    return text;
}

static const struct exp_config *asha(void)
{
    return config_of("searcher: {name: async_halving, num_rungs: 2, max_length: 16, max_trials: 9, "
                     "max_concurrent_trials: 4}");
}

static const char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    if (!at) fail_msg("'%s' is not in %s", old, text);
    return arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void expect_refused(const struct exp_config *cfg, const char *text, const char *message)
{
    det_err err;
    struct search *s = search_restore(cfg, str_from(text), &err);
    assert_null(s);
    if (!strstr(err.msg, message)) fail_msg("'%s' should have '%s'", err.msg, message);
}

static void test_snapshot__damage_is_noticed(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *message;
    } cases[] = {
        {"\"version\":1", "\"version\":2", "an integer from 1 to 1 is missing"},
        {"\"kind\":4", "\"kind\":3", "an integer from 4 to 4 is missing"},
        {"\"started\":1", "\"started\":\"x\"", "'started' should be an integer"},
        {"\"rng\":\"", "\"rng\":\"0", "'rng' should be 4992 hexadecimal digits"},
        {"\"rng_at\":", "\"rng_at\":9", "an integer from 0 to 624 is missing"},
        {"\"trials\":{\"n\":6", "\"trials\":{\"n\":7", "items instead of"},
        {"\"trials\":{\"n\":6", "\"trials\":{\"n\":99999999999", "an integer from 0 to"},
        {"\"flags\":[", "\"flags\":[1000,", "items instead of"},
        {"\"flags\":[0", "\"flags\":[1000", "an integer from 0 to 127"},
        {"\"bracket\":[[0,6]", "\"bracket\":[[1,6]", "trials and rungs do not fit"},
        {"\"bracket\":[[0,6]", "\"bracket\":[[0,7]", "items instead of"},
        {"\"bracket\":[[0,6]", "\"bracket\":[[0,6],[]", "a list is not [value, count]"},
        {"\"bracket\":[[0,6]", "\"bracket\":[[0,6],[0,0]", "a list is not [value, count]"},
        {"\"bracket\":[[0,6]", "\"bracket\":[[0,6,0]", "items instead of"},
        {"\"bracket\":[[0,6]", "\"bracket\":[[[0],6]", "an integer from 0"},
        {"\"flags\":[", "\"flags\":[[0,9223372036854775807],[0,9223372036854775807],[0,2],",
         "items instead of"},
        {"\"rung\":[0", "\"rung\":[2", "trials and rungs do not fit"},
        {"\"schedule\":{", "\"schedul\":{", "'schedule' should be a map"},
        {"\"trial\":[1", "\"trial\":[99", "an integer from 1 to 6"},
        {"\"loss\":[1.0", "\"loss\":[\"x\"", "a number is missing"},
    };
    const char *good = snapshot_of(asha(), 2);
    search_free(search_restore(asha(), str_from(good), NULL));
    for (size_t i = 0; i < STATIC_LEN(cases); i++)
        expect_refused(asha(), replaced(good, cases[i].old, cases[i].new), cases[i].message);
    expect_refused(asha(), "", "not valid JSON");
    expect_refused(asha(), "[]", "'version' should be an integer");
    expect_refused(asha(), "{", "not valid JSON");
}

static void test_snapshot__is_of_one_kind_of_search(void **state)
{
    (void)state;
    expect_refused(config_of("searcher: {name: single, max_length: 4}"), snapshot_of(asha(), 0),
                   "damaged");
}

// Before the start there is something to restore too.
static void test_snapshot__of_a_search_that_has_not_started(void **state)
{
    (void)state;
    struct search *s = search_new(asha());
    struct buf b = BUF_INIT(1 << 20);
    search_snapshot(s, &b);
    struct search *copy = search_restore(asha(), buf_str(&b), NULL);
    assert_non_null(copy);
    assert_string_equal(show_ops(start(copy)), show_ops(start(s)));
    search_free(copy);
    search_free(s);
    buf_done(&b);
}

RUN_TESTS(DOC_TEST(test_snapshot__damage_is_noticed),
          DOC_TEST(test_snapshot__is_of_one_kind_of_search),
          DOC_TEST(test_snapshot__of_a_search_that_has_not_started))
