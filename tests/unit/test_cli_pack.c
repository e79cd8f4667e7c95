// What of a folder is sent to the master.
#include "support/test.h"

#include "cli/pack.h"

static bool matches(const char *pattern, const char *path, bool folder)
{
    return pack_pattern_matches(str_from(pattern), path, folder);
}

static void test_pack__patterns_match_names_at_any_depth(void **state)
{
    (void)state;
    assert_true(matches("*.log", "a.log", false));
    assert_true(matches("*.log", "deep/er/a.log", false));
    assert_false(matches("*.log", "a.log.txt", false));
    assert_true(matches("data", "x/data", true));
}

static void test_pack__a_slash_at_the_end_means_folders(void **state)
{
    (void)state;
    assert_true(matches("build/", "build", true));
    assert_false(matches("build/", "build", false));
}

static void test_pack__a_slash_elsewhere_means_from_the_top(void **state)
{
    (void)state;
    assert_true(matches("/notes.md", "notes.md", false));
    assert_false(matches("/notes.md", "docs/notes.md", false));
    assert_true(matches("docs/*.md", "docs/notes.md", false));
    assert_false(matches("docs/*.md", "docs/old/notes.md", false));
}

static void test_pack__comments_and_empty_lines_match_nothing(void **state)
{
    (void)state;
    assert_false(matches("# *", "a", false));
    assert_false(matches("", "a", false));
    assert_false(matches("  ", "a", false));
}

RUN_TESTS(cmocka_unit_test(test_pack__patterns_match_names_at_any_depth),
          cmocka_unit_test(test_pack__a_slash_at_the_end_means_folders),
          cmocka_unit_test(test_pack__a_slash_elsewhere_means_from_the_top),
          cmocka_unit_test(test_pack__comments_and_empty_lines_match_nothing))
