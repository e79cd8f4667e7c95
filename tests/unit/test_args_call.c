// Options and arguments of a command, in every way they can be written.
#include "support/test.h"

#include "base/assert.h"
#include "base/str.h"
#include "args/args.h"

static const struct option options[] = {
    {"master", 'm', "ADDRESS", "The master."},
    {"follow", 'f', NULL, "Follows."},
    {"quiet", 'q', NULL, "Says less."},
    {"limit", 0, "N", "How many."},
};

static const struct command command = {.noun = "thing",
                                       .verb = "do",
                                       .args = "FILE [DIR]",
                                       .min_args = 1,
                                       .max_args = 2,
                                       .options = options,
                                       .n_options = STATIC_LEN(options)};

static const char *args[16];
static det_err err;

// Words separated by spaces.
static struct call parse(const char *line)
{
    static char text[256];
    static char *words[16];
    int n = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *rest = text, *word; (word = strsep(&rest, " "));)
        words[n++] = word;
    struct call call = {.command = &command, .args = args};
    call_parse(&call, words, n, &err);
    return call;
}

static void expect_error(const char *line, const char *message)
{
    parse(line);
    assert_int_equal(err.code, DET_EINVAL);
    assert_string_equal(err.msg, message);
}

static void test_call__options_may_stand_anywhere(void **state)
{
    (void)state;
    static const char *const lines[] = {"-f --master=x a b", "a -fm x b", "a b -mx -f",
                                        "--follow a --master x b", "-fmx a -- b"};
    for (size_t i = 0; i < STATIC_LEN(lines); i++) {
        struct call call = parse(lines[i]);
        assert_int_equal(err.code, 0);
        assert_int_equal(call.n_args, 2);
        assert_string_equal(call.args[0], "a");
        assert_string_equal(call.args[1], "b");
        assert_string_equal(call_option(&call, "master"), "x");
        assert_string_equal(call_option(&call, "follow"), "");
        assert_null(call_option(&call, "quiet"));
    }
}

static void test_call__dashes_as_arguments(void **state)
{
    (void)state;
    struct call call = parse("- -- --follow");
    assert_int_equal(call.n_args, 2);
    assert_string_equal(call.args[0], "-");
    assert_string_equal(call.args[1], "--follow");
    assert_null(call_option(&call, "follow"));
}

static void test_call__values_may_look_like_options(void **state)
{
    (void)state;
    struct call call = parse("a --limit -5 --master=--x=y");
    assert_string_equal(call_option(&call, "limit"), "-5");
    assert_string_equal(call_option(&call, "master"), "--x=y");
}

static void test_call__the_last_value_counts(void **state)
{
    (void)state;
    struct call call = parse("a --limit 1 --limit 2");
    assert_string_equal(call_option(&call, "limit"), "2");
}

static void test_call__help_needs_no_arguments(void **state)
{
    (void)state;
    assert_true(parse("--help").wants_help);
    assert_int_equal(err.code, 0);
    assert_true(parse("-qh").wants_help);
}

static void test_call__errors(void **state)
{
    (void)state;
    expect_error("a --limit", "the option '--limit' needs a value: N");
    expect_error("a -fm", "the option '-m' needs a value: ADDRESS");
    expect_error("a --follow=1", "the option '--follow' takes no value");
    expect_error("a --folow", "'det thing do' has no option '--folow'; did you mean '--follow'?");
    expect_error("a -fx", "'det thing do' has no option '-x'; see 'det thing do --help'");
    expect_error("-f", "too few arguments; usage: det thing do FILE [DIR]");
    expect_error("a b c", "too many arguments; usage: det thing do FILE [DIR]");
}

RUN_TESTS(cmocka_unit_test(test_call__options_may_stand_anywhere),
          cmocka_unit_test(test_call__dashes_as_arguments),
          cmocka_unit_test(test_call__values_may_look_like_options),
          cmocka_unit_test(test_call__the_last_value_counts),
          cmocka_unit_test(test_call__help_needs_no_arguments), cmocka_unit_test(test_call__errors))
