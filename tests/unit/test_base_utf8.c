#include "base/utf8.h"
#include "support/test.h"

static bool valid(const char *s)
{
    return utf8_valid(str_from(s));
}

static void test_utf8__accepts_text_of_all_lengths(void **state)
{
    (void)state;
    assert_true(valid(""));
    assert_true(valid("ascii"));
    assert_true(
        valid("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
    assert_true(utf8_valid(STR("nul\0inside")));
}

static void test_utf8__refuses_what_is_not_text(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",             // starts in the middle
        "\xc0\xaf",         // overlong
        "\xe0\x9f\xbf",     // overlong
        "\xf0\x8f\xbf\xbf", // overlong
        "\xed\xa0\x80",     // surrogate
        "\xf4\x90\x80\x80", // beyond U+10FFFF
        "\xf5\x80\x80\x80", // no such lead byte
        "\xff",
        "\xe2\x82", // cut off
        "\xe2\x82x",
        "\xc3(",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (valid(bad[i])) fail_msg("case %zu was accepted", i);
}

RUN_TESTS(cmocka_unit_test(test_utf8__accepts_text_of_all_lengths),
          cmocka_unit_test(test_utf8__refuses_what_is_not_text))
