// Sets of numbered objects: whatever is added and removed, the others are found, in order.
#include "master/set.h"
#include "support/test.h"

#include "base/rng.h"
#include <stdbool.h>

enum { N_KEYS = 300, N_STEPS = 20000 };

static void expect_same(const struct set *s, const bool *is_in, int *values)
{
    size_t n = 0;
    for (int key = 0; key < N_KEYS; key++) {
        assert_int_equal(set_place(s, key), n);
        assert_ptr_equal(set_find(s, key), is_in[key] ? &values[key] : NULL);
        n += is_in[key];
    }
    assert_int_equal(s->n, n);
}

static void test_set__has_what_was_added_and_not_removed(void **state)
{
    (void)state;
    struct set s = {0};
    bool is_in[N_KEYS] = {false};
    int values[N_KEYS];
    set_remove(&s, 3);
    for (uint64_t i = 0; i < N_STEPS; i++) {
        int key = (int)(rng_u64(1, i, 0) % N_KEYS);
        if (is_in[key])
            set_remove(&s, key);
        else
            set_add(&s, key, &values[key]);
        is_in[key] = !is_in[key];
        if (i % 100 == 0) expect_same(&s, is_in, values);
    }
    set_done(&s);
}

// As trials come and go: new ones behind, old ones from the front.
static void test_set__memory_does_not_grow_with_what_has_gone(void **state)
{
    (void)state;
    struct set s = {0};
    int value;
    for (int64_t key = 0; key < N_STEPS; key++) {
        set_add(&s, key, &value);
        if (key >= 10) set_remove(&s, key - 10);
    }
    assert_int_equal(s.n, 10);
    assert_true(s.cap <= 64);
    set_done(&s);
}

RUN_TESTS(cmocka_unit_test(test_set__has_what_was_added_and_not_removed),
          cmocka_unit_test(test_set__memory_does_not_grow_with_what_has_gone))
