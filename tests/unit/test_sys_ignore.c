// What of a folder is no part of the code.
#include "support/test.h"

#include "sys/ignore.h"

static bool matches(const char *pattern, const char *path, bool folder)
{
    return ignore_has(str_from(pattern), path, folder);
}

static void test_ignore__patterns_match_names_at_any_depth(void **state)
{
    (void)state;
    assert_true(matches("*.log", "a.log", false));
    assert_true(matches("*.log", "deep/er/a.log", false));
    assert_false(matches("*.log", "a.log.txt", false));
    assert_true(matches("data", "x/data", true));
}

static void test_ignore__a_slash_at_the_end_means_folders(void **state)
{
    (void)state;
    assert_true(matches("build/", "build", true));
    assert_false(matches("build/", "build", false));
}

static void test_ignore__a_slash_elsewhere_means_from_the_top(void **state)
{
    (void)state;
    assert_true(matches("/notes.md", "notes.md", false));
    assert_false(matches("/notes.md", "docs/notes.md", false));
    assert_true(matches("docs/*.md", "docs/notes.md", false));
    assert_false(matches("docs/*.md", "docs/old/notes.md", false));
}

static void test_ignore__comments_and_empty_lines_match_nothing(void **state)
{
    (void)state;
    assert_false(matches("# *", "a", false));
    assert_false(matches("", "a", false));
    assert_false(matches("  ", "a", false));
}

static void test_ignore__the_last_line_that_matches_decides(void **state)
{
    (void)state;
    assert_false(matches("*.png\n!logo.png", "logo.png", false));
    assert_true(matches("!logo.png\n*.png", "logo.png", false));
    assert_true(matches("", "__pycache__", true));
    assert_false(matches("!__pycache__", "__pycache__", true));
}

RUN_TESTS(cmocka_unit_test(test_ignore__patterns_match_names_at_any_depth),
          cmocka_unit_test(test_ignore__a_slash_at_the_end_means_folders),
          cmocka_unit_test(test_ignore__a_slash_elsewhere_means_from_the_top),
          cmocka_unit_test(test_ignore__comments_and_empty_lines_match_nothing),
          cmocka_unit_test(test_ignore__the_last_line_that_matches_decides))
