#include "storage/storage.h"
#include "support/test.h"
#include <math.h>
#include <string.h>

// The ten checkpoints of the documentation's table, by number from 1. NaN: no validation.
#define WITHOUT(trial, step)                           \
    {                                                  \
        .trial_id = (trial), .steps_completed = (step) \
    }
#define WITH(trial, step, value)                                                              \
    {                                                                                         \
        .trial_id = (trial), .steps_completed = (step), .has_metric = true, .metric = (value) \
    }

static const struct keep_item documented[] = {
    WITHOUT(1, 1), WITHOUT(1, 2),   WITH(1, 3, 0.6), WITH(1, 4, 0.5), WITH(1, 5, 0.4),
    WITHOUT(2, 1), WITH(2, 2, 0.2), WITH(2, 3, 0.3), WITHOUT(2, 4),   WITHOUT(2, 5),
};
enum { N = sizeof documented / sizeof *documented };

// "5,7,10"
static const char *kept(const struct keep_item *items, size_t n, struct keep_policy policy)
{
    static char text[128];
    bool keep[32];
    size_t at = 0;
    text[0] = 0;
    keep_choose(items, n, &policy, keep);
    for (size_t i = 0; i < n; i++)
        if (keep[i])
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%zu", at ? "," : "", i + 1);
    return text;
}

static void test_keep__is_as_documented(void **state)
{
    (void)state;
    static const struct {
        int64_t experiment_best, trial_best, trial_latest;
        const char *kept;
    } rows[] = {
        {0, 0, 0, ""},
        {2, 0, 0, "7,8"},
        {5, 0, 0, "3,4,5,7,8"},
        {9, 0, 0, "3,4,5,7,8"},
        {0, 1, 0, "5,7"},
        {0, 0, 1, "5,10"},
        {0, 0, 3, "3,4,5,8,9,10"},
        {2, 1, 0, "5,7,8"},
        {2, 0, 1, "5,7,8,10"},
        {0, 1, 1, "5,7,10"},
        {2, 1, 1, "5,7,8,10"},
        {0, 0, KEEP_ALL, "1,2,3,4,5,6,7,8,9,10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(kept(documented, N,
                                 (struct keep_policy){rows[i].experiment_best, rows[i].trial_best,
                                                      rows[i].trial_latest, false}),
                            rows[i].kept);
}

static void test_keep__knows_what_is_better(void **state)
{
    (void)state;
    assert_string_equal(kept(documented, N, (struct keep_policy){2, 1, 0, true}), "3,4,8");
}

static void test_keep__ranks_nan_last_and_equals_by_order(void **state)
{
    (void)state;
    static const struct keep_item items[] = {WITH(1, 1, NAN), WITH(1, 2, 3.0), WITH(1, 3, 3.0),
                                             WITH(1, 4, INFINITY)};
    assert_string_equal(kept(items, 4, (struct keep_policy){.trial_best = 1}), "2");
    assert_string_equal(kept(items, 4, (struct keep_policy){.trial_best = 2}), "2,3");
    assert_string_equal(
        kept(items, 4, (struct keep_policy){.trial_best = 3, .larger_is_better = true}), "2,3,4");
}

static void test_keep__spares_what_is_pinned(void **state)
{
    (void)state;
    struct keep_item items[N];
    memcpy(items, documented, sizeof items);
    items[1].pinned = true;
    assert_string_equal(kept(items, N, (struct keep_policy){.trial_latest = 1}), "2,5,10");
    assert_string_equal(kept(items, 0, (struct keep_policy){.trial_latest = 1}), "");
}

RUN_TESTS(cmocka_unit_test(test_keep__is_as_documented),
          cmocka_unit_test(test_keep__knows_what_is_better),
          cmocka_unit_test(test_keep__ranks_nan_last_and_equals_by_order),
          cmocka_unit_test(test_keep__spares_what_is_pinned))
