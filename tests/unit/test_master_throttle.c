// How many passwords are tried: by anybody at a name, by an address at all names, and by those who
// have been right before.
#include "master/throttle.h"
#include "support/test.h"

#include <stdio.h>

static const struct hash_key key = {{1, 2}};
static const int64_t second = 1000000, minute = 60 * 1000000;

static struct throttle *t;
static int64_t now;

static int setup(void **state)
{
    (void)state;
    t = throttle_new(&key);
    now = 1000 * minute;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    throttle_free(t);
    return 0;
}

static bool take(const char *name, const char *address)
{
    struct guess guess;
    int64_t wait_us;
    return throttle_take(t, name, address, now, &guess, &wait_us);
}

static bool take_right(const char *name, const char *address)
{
    struct guess guess;
    int64_t wait_us;
    if (!throttle_take(t, name, address, now, &guess, &wait_us)) return false;
    throttle_was_right(t, &guess);
    return true;
}

static int take_many(const char *name, const char *address, int n)
{
    int taken = 0;
    while (n--)
        taken += take(name, address);
    return taken;
}

static void test_name__is_guessed_five_times_a_minute_by_all_together(void **state)
{
    (void)state;
    char address[32];
    int taken = 0;
    for (int i = 0; i < 400; i++) {
        snprintf(address, sizeof address, "10.0.0.%d", i % 200);
        taken += take("ann", address);
    }
    assert_int_equal(taken, 5);
    assert_int_equal(take_many("bob", "10.0.0.1", 400), 5); // another name
    now += minute;
    assert_int_equal(take_many("ann", "10.0.0.1", 400), 5);
}

static void test_refusal__says_how_long_it_lasts(void **state)
{
    (void)state;
    struct guess guess;
    int64_t wait_us;
    take_many("ann", "a", 5);
    now += 20 * second;
    assert_false(throttle_take(t, "ann", "a", now, &guess, &wait_us));
    assert_int_equal(wait_us, 40 * second);
    now += wait_us;
    assert_true(throttle_take(t, "ann", "a", now, &guess, &wait_us));
}

static void test_right_one__does_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(take_right("ann", "a"));
    assert_int_equal(take_many("ann", "b", 10), 5);
}

static void test_known_address__gets_through_whatever_others_do(void **state)
{
    (void)state;
    assert_true(take_right("ann", "home"));
    for (int i = 0; i < 10; i++, now += 5 * minute) { // known for good
        take_many("ann", "elsewhere", 400);
        assert_false(take("ann", "another"));
        assert_true(take_right("ann", "home"));
        assert_false(take("ann", "another")); // and nobody else gains by it
    }
    take_many("bob", "elsewhere", 400);
    assert_false(take("bob", "home")); // it is known for ann, not for bob
}

static void test_known_address__has_five_guesses_more(void **state)
{
    (void)state;
    assert_true(take_right("ann", "home"));
    assert_int_equal(take_many("ann", "home", 400), 10);
    now += minute;
    take_many("ann", "elsewhere", 400);
    assert_int_equal(take_many("ann", "home", 400), 5);
}

static void test_address__cannot_try_many_names(void **state)
{
    (void)state;
    char name[32];
    int taken = 0;
    assert_true(take_right("ann", "a"));
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "name %d", i);
        taken += take(name, "a");
    }
    assert_int_equal(taken, 60);
    assert_true(take("name 1", "b"));
    assert_true(take_right("ann", "a")); // who is known there gets through
}

// The memory is fixed, and yet no count can be driven out of it.
static void test_count__is_not_forgotten_for_others(void **state)
{
    (void)state;
    char text[32];
    take_many("ann", "a", 5);
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "%d", i);
        take(text, text);
    }
    assert_false(take("ann", "b"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

RUN_TESTS(T(test_name__is_guessed_five_times_a_minute_by_all_together),
          T(test_refusal__says_how_long_it_lasts), T(test_right_one__does_not_count),
          T(test_known_address__gets_through_whatever_others_do),
          T(test_known_address__has_five_guesses_more), T(test_address__cannot_try_many_names),
          T(test_count__is_not_forgotten_for_others))
