// Numbers as text: exact, shortest, and independent of the locale.
#include "support/test.h"

#include "base/assert.h"
#include "base/number.h"
#include "base/rng.h"
#include <locale.h>
#include <math.h>

static void expect_text(double value, const char *text)
{
    struct buf b = BUF_INIT(100);
    buf_add_double(&b, value);
    assert_string_equal(buf_str(&b).ptr, text);
    buf_done(&b);
}

static void test_number__doubles_are_as_short_as_they_can_be(void **state)
{
    (void)state;
    expect_text(1, "1.0");
    expect_text(-0.0, "-0.0");
    expect_text(0.1, "0.1");
    expect_text(1e-5, "1.0e-05");
    expect_text(0.00015335192657991558, "0.00015335192657991558");
    expect_text(3.5100442309980525e-05, "3.5100442309980525e-05");
    expect_text(1e22, "1.0e+22");
    expect_text(5e-324, "5.0e-324");
    expect_text(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_text(9007199254740992.0, "9007199254740992.0");
}

static void test_number__every_double_reads_back_as_itself(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        union {
            uint64_t bits;
            double value;
        } x = {.bits = rng_u64(1, 0, i)}, y;
        if (!isfinite(x.value)) continue;
        struct buf b = BUF_INIT(100);
        buf_add_double(&b, x.value);
        assert_true(number_to_double(buf_str(&b), &y.value));
        assert_true(x.bits == y.bits);
        buf_done(&b);
    }
}

static void expect_rounded(double value, const char *text)
{
    struct buf b = BUF_INIT(100);
    buf_add_rounded(&b, value);
    assert_string_equal(buf_str(&b).ptr, text);
    buf_done(&b);
}

static void test_number__rounded_ones_have_nine_digits(void **state)
{
    (void)state;
    expect_rounded(0, "0");
    expect_rounded(1, "1");
    expect_rounded(-2.5, "-2.5");
    expect_rounded(0.1, "0.1");
    expect_rounded(1.0 / 3, "0.333333333");
    expect_rounded(2e9 / 3, "666666667");
    expect_rounded(123456789012345.0, "123456789012345");
    expect_rounded(0.99999999996, "1");
    expect_rounded(1e-5, "0.00001");
    expect_rounded(9.99999999996e-6, "1e-5");
    expect_rounded(-1.5e-7, "-1.5e-7");
    expect_rounded(1e300, "1e300");
    for (uint64_t i = 0; i < 200000; i++) {
        double x = (rng_unit(2, 0, i) - 0.5) * pow(10, 60 * rng_unit(2, 1, i) - 30), y;
        struct buf b = BUF_INIT(100);
        buf_add_rounded(&b, x);
        assert_true(number_to_double(buf_str(&b), &y));
        assert_true(fabs(x - y) <= 1e-8 * fabs(x));
        buf_done(&b);
    }
}

static void test_number__reads_integers_to_the_last_bit(void **state)
{
    (void)state;
    int64_t i;
    assert_true(number_to_int(STR("9223372036854775807"), 10, &i) && i == INT64_MAX);
    assert_true(number_to_int(STR("-9223372036854775808"), 10, &i) && i == INT64_MIN);
    assert_true(number_to_int(STR("+7"), 10, &i) && i == 7);
    assert_true(number_to_int(STR("fF"), 16, &i) && i == 255);
    assert_true(number_to_int(STR("017"), 8, &i) && i == 15);
}

static void test_number__refuses_what_is_no_integer(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "-",   "+",   "1.0",
                                      "1e3", " 1",  "1 ",  "9223372036854775808",
                                      "8a",  "--1", "0x1", "-9223372036854775809"};
    int64_t i;
    for (size_t k = 0; k < STATIC_LEN(bad); k++)
        assert_false(number_to_int(str_from(bad[k]), 10, &i));
}

static void test_number__refuses_what_is_no_decimal(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     ".",   "-",   "e5",  "1e",   "1e+",
                                      "0x10", "inf", "nan", "1,5", "1.5 ", "1e999"};
    double d;
    for (size_t k = 0; k < STATIC_LEN(bad); k++)
        assert_false(number_to_double(str_from(bad[k]), &d));
    assert_true(number_to_double(STR("1e-999"), &d) && d == 0);
    assert_true(number_to_double(STR(".5"), &d) && d == 0.5);
    assert_true(number_to_double(STR("-2.E1"), &d) && d == -20);
}

// The program that we are a library of may have called setlocale().
static void test_number__does_not_follow_the_locale(void **state)
{
    (void)state;
    static const char *const with_comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < STATIC_LEN(with_comma) && !found; i++)
        found = setlocale(LC_NUMERIC, with_comma[i]) != NULL;
    if (!found) skip();
    double d;
    assert_true(number_to_double(STR("2.5"), &d) && d == 2.5);
    expect_text(2.5, "2.5");
    expect_text(1e22, "1.0e+22");
    setlocale(LC_NUMERIC, "C");
}

RUN_TESTS(cmocka_unit_test(test_number__doubles_are_as_short_as_they_can_be),
          cmocka_unit_test(test_number__every_double_reads_back_as_itself),
          cmocka_unit_test(test_number__rounded_ones_have_nine_digits),
          cmocka_unit_test(test_number__reads_integers_to_the_last_bit),
          cmocka_unit_test(test_number__refuses_what_is_no_integer),
          cmocka_unit_test(test_number__refuses_what_is_no_decimal),
          cmocka_unit_test(test_number__does_not_follow_the_locale))
