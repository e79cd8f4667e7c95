// What a row of the command table says about itself.
#include "args/args.h"
#include "support/test.h"

static const struct option options[] = {
    {"limit", 'l', "N", "How many. A long explanation that does not fit into one line of eighty."},
    {"dry-run", 0, NULL, "Does nothing."},
};

static const struct command command = {
    .program = "det-do",
    .args = "FILE",
    .help = "Does a thing. With C:\\x it does not, which takes more words than "
            "one line has room for.",
    .example = "det-do a.yaml --limit 3",
    .options = options,
    .n_options = 2};

static void expect_help(void (*help)(const struct command *c, struct buf *out), const char *text)
{
    struct buf out = BUF_INIT(10000);
    help(&command, &out);
    assert_string_equal(buf_str(&out).ptr, text);
    buf_done(&out);
}

static void test_help__is_in_columns(void **state)
{
    (void)state;
    expect_help(help_command,
                "Usage: det-do FILE [OPTIONS]\n"
                "\n"
                "Does a thing. With C:\\x it does not, which takes more words than one line has\n"
                "room for.\n"
                "\n"
                "Options:\n"
                "  -l, --limit N           How many. A long explanation that does not fit into\n"
                "                          one line of eighty.\n"
                "      --dry-run           Does nothing.\n"
                "  -h, --help              Shows this.\n"
                "\n"
                "Example:\n"
                "  det-do a.yaml --limit 3\n");
}

static void test_man__is_roff(void **state)
{
    (void)state;
    expect_help(
        help_man,
        ".TH \"det-do\" 1\n"
        ".SH NAME\n"
        "det\\-do \\- Does a thing.\n"
        ".SH SYNOPSIS\n"
        ".B det\\-do\n"
        "FILE [OPTIONS]\n"
        ".SH DESCRIPTION\n"
        "Does a thing. With C:\\ex it does not, which takes more words than one line has room "
        "for.\n"
        ".SH OPTIONS\n"
        ".TP\n"
        ".B \\-l, \\-\\-limit \\fIN\\fR\n"
        "How many. A long explanation that does not fit into one line of eighty.\n"
        ".TP\n"
        ".B \\-\\-dry\\-run\n"
        "Does nothing.\n"
        ".SH EXAMPLE\n"
        "det\\-do a.yaml \\-\\-limit 3\n");
}

RUN_TESTS(cmocka_unit_test(test_help__is_in_columns), cmocka_unit_test(test_man__is_roff))
