// Diagnostics: one error out of many, and nothing that harms the reader's terminal.
#include "support/docs.h"

static void test_diag__becomes_one_error(void **state)
{
    (void)state;
    det_err err;
    assert_int_equal(diag_fail(&diags, &err), 0);
    diag_add(&diags, DIAG_WARNING, (struct doc_pos){0}, NULL, "careful");
    diag_add(&diags, DIAG_ERROR, (struct doc_pos){"x", 1, 2}, "a.b", "bad %d", 7);
    diag_add(&diags, DIAG_ERROR, (struct doc_pos){0}, "c", "worse");
    assert_int_equal(diag_fail(&diags, &err), DET_EINVAL);
    assert_string_equal(err.msg, "x:1:2: a.b: bad 7 (and 1 more)");
}

// Text that is wrong must not get at the terminal of who reads the message, nor fill it.
static void test_diag__shows_no_control_characters_and_not_too_much(void **state)
{
    (void)state;
    diag_add(&diags, DIAG_ERROR, (struct doc_pos){0}, "a\x1b.\n", "\x1b[31m\xC2\x9B\xC3\xA9\xff\n");
    assert_string_equal(take_diags(DIAG_ERROR), "a?.?: ?[31m??\xC3\xA9??\n");
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    diag_add(&diags, DIAG_ERROR, (struct doc_pos){0}, longest, "%s", longest);
    const char *text = take_diags(DIAG_ERROR);
    assert_int_equal(strlen(text), 200 + 2 + 1000 + 1);
    assert_non_null(strstr(text, "x...: x"));
}

RUN_TESTS(DOC_TEST(test_diag__becomes_one_error),
          DOC_TEST(test_diag__shows_no_control_characters_and_not_too_much))
