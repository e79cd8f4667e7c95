// Differences of texts: what they say makes one text of the other, and is as short as can be.
#include "support/test.h"

#include "base/arena.h"
#include "base/diff.h"
#include "base/rng.h"

static void expect_diff(const char *before, const char *after, const char *wanted)
{
    struct buf out = BUF_INIT(1 << 20);
    enum diff_result made = diff_unified(str_from(before), str_from(after), &out);
    assert_int_equal(made, *wanted ? DIFF_MADE : DIFF_NONE);
    assert_string_equal(buf_str(&out).ptr, wanted);
    buf_done(&out);
}

static void test_diff__is_what_people_know(void **state)
{
    (void)state;
    expect_diff("a\nb\n", "a\nb\n", "");
    expect_diff("", "", "");
    expect_diff("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    expect_diff("", "a\n", "@@ -0,0 +1,1 @@\n+a\n");
    expect_diff("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
    expect_diff("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
    expect_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n",
                "@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n");
}

static void test_diff__far_changes_are_apart(void **state)
{
    (void)state;
    struct buf a = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16);
    for (int i = 0; i < 40; i++) {
        buf_printf(&a, "line %d\n", i);
        buf_printf(&b, "line %d%s\n", i, i == 5 || i == 8 || i == 30 ? "!" : "");
    }
    struct buf out = BUF_INIT(1 << 16);
    assert_int_equal(diff_unified(buf_str(&a), buf_str(&b), &out), DIFF_MADE);
    const char *first = strstr(buf_str(&out).ptr, "@@ -3,10 +3,10 @@\n");
    const char *second = strstr(buf_str(&out).ptr, "@@ -28,7 +28,7 @@\n");
    assert_non_null(first);
    assert_non_null(second);
    assert_null(strstr(second + 4, "\n@@"));
    buf_done(&a);
    buf_done(&b);
    buf_done(&out);
}

// Does what the differences say.
static void apply(struct str diff, struct str before, struct buf *out)
{
    size_t at = 0; // lines of before that were used
    while (diff.len) {
        size_t x, n;
        int length;
        assert_int_equal(sscanf(diff.ptr, "@@ -%zu,%zu +%*u,%*u @@%n", &x, &n, &length), 2);
        str_cut(&diff, '\n');
        for (; at < (n ? x - 1 : x); at++) {
            struct str line = str_cut(&before, '\n');
            buf_printf(out, "%.*s\n", STR_ARG(line));
        }
        while (diff.len && diff.ptr[0] != '@') {
            struct str line = str_cut(&diff, '\n');
            if (line.ptr[0] != '+') {
                struct str old = str_cut(&before, '\n');
                assert_true(str_eq(old, (struct str){line.ptr + 1, line.len - 1}));
                at++;
            }
            if (line.ptr[0] != '-') buf_printf(out, "%.*s\n", (int)line.len - 1, line.ptr + 1);
        }
    }
    if (before.ptr) buf_add(out, before.ptr, before.len);
}

static void test_diff__makes_one_text_of_the_other(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct buf a = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16), out = BUF_INIT(1 << 16),
                   made = BUF_INIT(1 << 16);
        uint64_t n = rng_below(seed, 0, 0, 30), kinds = 2 + rng_below(seed, 0, 1, 6);
        for (uint64_t i = 0; i < n; i++)
            buf_printf(&a, "%d\n", (int)rng_below(seed, 1, i, kinds));
        for (uint64_t i = 0; i < n; i++) {
            uint64_t what = rng_below(seed, 2, i, 6);
            if (what) buf_printf(&b, "%d\n", (int)rng_below(seed, 1, i, kinds));
            if (what == 1) buf_printf(&b, "%d\n", (int)rng_below(seed, 3, i, kinds));
        }
        enum diff_result r = diff_unified(buf_str(&a), buf_str(&b), &out);
        if (r == DIFF_NONE)
            assert_true(str_eq(buf_str(&a), buf_str(&b)));
        else {
            apply(buf_str(&out), buf_str(&a), &made);
            assert_string_equal(buf_str(&made).ptr, buf_str(&b).ptr);
        }
        buf_done(&a);
        buf_done(&b);
        buf_done(&out);
        buf_done(&made);
    }
}

static void test_diff__gives_up_on_what_is_too_much(void **state)
{
    (void)state;
    struct buf a = BUF_INIT(8 << 20), b = BUF_INIT(8 << 20), out = BUF_INIT(1 << 20);
    for (int i = 0; i < 5000; i++) {
        buf_printf(&a, "a %d\n", i);
        buf_printf(&b, "b %d\n", i);
    }
    assert_int_equal(diff_unified(buf_str(&a), buf_str(&b), &out), DIFF_TOO_MUCH);
    assert_int_equal(out.len, 0);
    for (int i = 0; i < 100000; i++)
        buf_addc(&a, '\n');
    assert_int_equal(diff_unified(buf_str(&a), buf_str(&b), &out), DIFF_TOO_MUCH);
    buf_done(&a);
    buf_done(&b);
    buf_done(&out);
}

RUN_TESTS(cmocka_unit_test(test_diff__is_what_people_know),
          cmocka_unit_test(test_diff__far_changes_are_apart),
          cmocka_unit_test(test_diff__makes_one_text_of_the_other),
          cmocka_unit_test(test_diff__gives_up_on_what_is_too_much))
