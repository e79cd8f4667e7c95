// Small helpers: arena, UTF-8, suggestions.
#include "support/test.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/find.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "base/utf8.h"

static void test_arena__blocks_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    char *previous = NULL;
    for (size_t n = 0; n < 3000; n++) {
        char *p = arena_alloc(&arena, n);
        assert_true((uintptr_t)p % 16 == 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAA, n);
        if (previous && n > 1) assert_int_equal((unsigned char)previous[n - 2], 0xAA);
        previous = p;
    }
    assert_string_equal(arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
    arena_done(&arena);
}

static void test_utf8__code_points(void **state)
{
    (void)state;
    struct str s = STR("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    assert_int_equal(utf8_next(&s), 'a');
    assert_int_equal(utf8_next(&s), 0xE9);
    assert_int_equal(utf8_next(&s), 0x20AC);
    assert_int_equal(utf8_next(&s), 0x1F600);
    assert_int_equal(s.len, 0);
}

static void test_utf8__damage_is_passed_over_byte_by_byte(void **state)
{
    (void)state;
    // overlong, surrogate, beyond the end, cut off, stray continuation
    static const char *const bad[] = {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                      "\xE2\x82", "\x80",         "\xE0\x80\x80"};
    for (size_t i = 0; i < STATIC_LEN(bad); i++) {
        struct str s = str_from(bad[i]);
        size_t n = s.len;
        assert_int_equal(utf8_next(&s), -1);
        assert_int_equal(s.len, n - 1);
    }
}

static const char *suggest(const char *word)
{
    static const char *const words[] = {"max_trials", "max_rungs", "metric", "mode", "divisor"};
    struct nearest n = NEAREST_INIT(str_from(word));
    for (size_t i = 0; i < STATIC_LEN(words); i++)
        nearest_offer(&n, words[i]);
    return n.best ? n.best : "";
}

static void test_nearest__finds_slips_of_the_fingers(void **state)
{
    (void)state;
    assert_string_equal(suggest("max_trails"), "max_trials");
    assert_string_equal(suggest("maxtrials"), "max_trials");
    assert_string_equal(suggest("max_rung"), "max_rungs");
    assert_string_equal(suggest("metrics"), "metric");
    assert_string_equal(suggest("edom"), "");
    assert_string_equal(suggest("colour"), "");
    assert_string_equal(suggest(""), "");
    assert_string_equal(suggest("a_word_that_is_much_longer_than_any_field_we_have_got"), "");
}

static void test_find__is_that_of_strcasestr(void **state)
{
    (void)state;
    static const char letters[] = "aAbB[@{";
    char text[40], wanted[5];
    assert_true(find_any_case(STR("any"), STR("")));
    assert_false(find_any_case(STR(""), STR("x")));
    assert_true(find_any_case(STR("a long line: ERROR 7"), STR("error")));
    assert_true(find_any_case(STR("Straße"), STR("ße")));
    for (uint64_t i = 0; i < 20000; i++) {
        size_t n = rng_below(1, i, 0, sizeof text - 1), m = 1 + rng_below(1, i, 1, 4);
        for (size_t k = 0; k < n; k++)
            text[k] = letters[rng_below(2, i, k, 7)];
        for (size_t k = 0; k < m; k++)
            wanted[k] = letters[rng_below(3, i, k, 7)];
        text[n] = wanted[m] = 0;
        assert_int_equal(find_any_case((struct str){text, n}, (struct str){wanted, m}),
                         strcasestr(text, wanted) != NULL);
    }
}

RUN_TESTS(cmocka_unit_test(test_find__is_that_of_strcasestr),
          cmocka_unit_test(test_arena__blocks_are_zeroed_aligned_and_apart),
          cmocka_unit_test(test_utf8__code_points),
          cmocka_unit_test(test_utf8__damage_is_passed_over_byte_by_byte),
          cmocka_unit_test(test_nearest__finds_slips_of_the_fingers))
