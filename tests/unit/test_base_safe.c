#include "base/safe.h"
#include "support/test.h"

static void expect(enum safe_keep keep, struct str text, const char *wanted)
{
    struct buf out = BUF_INIT(4096);
    safe_add(&out, text, keep);
    assert_string_equal(buf_str(&out).ptr, wanted);
    buf_done(&out);
}

static void test_safe__leaves_text_of_all_languages(void **state)
{
    (void)state;
    static const char text[] = "plain \xc3\xa9 \xe6\xb5\x8b \xd7\xa9 \xf0\x9f\x8e\x89 \\x1b";
    for (int keep = SAFE_LINE; keep <= SAFE_COLOURS; keep++)
        expect((enum safe_keep)keep, str_from(text), text);
    expect(SAFE_LINE, STR(""), "");
}

static void test_safe__shows_what_a_terminal_would_obey(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"a\033]0;title\007b", "a\\x1b]0;title\\x07b"}, // renames the window
        {"\033[2J\033[1;1H", "\\x1b[2J\\x1b[1;1H"},     // clears the screen
        {"\033[6n", "\\x1b[6n"},                        // makes the terminal type an answer
        {"\xc2\x9b"
         "31m",
         "\\u009b31m"}, // the same by one character, C1
        {"\x9b"
         "31m",
         "\\x9b31m"},                                     // by one byte that is not UTF-8
        {"a\xe2\x80\xaetxt.exe", "a\\u202etxt.exe"},      // turns the direction of writing
        {"\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069"}, // isolates
        {"\xd8\x9c\xe2\x80\x8f\xe2\x80\x8e", "\\u061c\\u200f\\u200e"},
        {"a\xe2\x80\xa8"
         "b",
         "a\\u2028b"}, // another kind of line end
        {"a\bb\177\033c", "a\\x08b\\x7f\\x1bc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int keep = SAFE_LINE; keep <= SAFE_COLOURS; keep++)
            expect((enum safe_keep)keep, str_from(cases[i].text), cases[i].shown);
    expect(SAFE_LINES, STR("a\0b"), "a\\x00b");
}

static void test_safe__keeps_one_line_one_line(void **state)
{
    (void)state;
    expect(SAFE_LINE, STR("a\nb\tc\r\nd\re"), "a b c  d e");
    expect(SAFE_LINES, STR("a\nb\tc\r\nd\re"), "a\nb\tc\r\nd e");
}

static void test_safe__keeps_colours_of_logs_until_the_end_of_the_line(void **state)
{
    (void)state;
    expect(SAFE_COLOURS, STR("\033[1;31mred\033[0m\n"), "\033[1;31mred\033[0m\033[0m\n");
    expect(SAFE_COLOURS, STR("\033[38:5:3mx\ny\n"), "\033[38:5:3mx\033[0m\ny\n");
    expect(SAFE_COLOURS, STR("\033[mx"), "\033[mx\033[0m");
    expect(SAFE_LINES, STR("\033[31mred"), "\\x1b[31mred");
    expect(SAFE_COLOURS, STR("\033[31"), "\\x1b[31");          // cut off
    expect(SAFE_COLOURS, STR("\033[31;?m"), "\\x1b[31;?m");    // not a colour
    expect(SAFE_COLOURS, STR("\033[31\0m"), "\\x1b[31\\x00m"); // nor this
    expect(SAFE_COLOURS, STR("\033\033[31mx"), "\\x1b\033[31mx\033[0m");
}

RUN_TESTS(cmocka_unit_test(test_safe__leaves_text_of_all_languages),
          cmocka_unit_test(test_safe__shows_what_a_terminal_would_obey),
          cmocka_unit_test(test_safe__keeps_one_line_one_line),
          cmocka_unit_test(test_safe__keeps_colours_of_logs_until_the_end_of_the_line))
