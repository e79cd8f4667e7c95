// What sys/pattern.h promises: patterns mean what people expect, and end.
#include "support/test.h"

#include "base/buf.h"
#include "sys/pattern.h"

static enum pattern_result search(const char *pattern, struct str text)
{
    struct pattern *p = NULL;
    det_err err = {0};
    if (pattern_new(pattern, &p, &err)) fail_msg("'%s': %s", pattern, err.msg);
    struct matcher *m = matcher_new(10000000);
    enum pattern_result found = pattern_search(p, text, m);
    matcher_free(m);
    pattern_free(p);
    return found;
}

static void test_pattern__means_what_it_means_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool found;
    } cases[] = {
        {"CUDA out of memory", "RuntimeError: CUDA out of memory. Tried", true},
        {".*CUDA out of memory.*", "RuntimeError: CUDA out of memory. Tried", true},
        {".*CUDA out of memory.*", "RuntimeError: out of memory", false},
        {"error: [0-9]+", "error: 42", true},
        {"error: [0-9]+$", "error: 42 of 50", false},
        {"^(warn|error)", "an error", false},
        {"[[:digit:]]{3}", "a 12 b 345", true}, // POSIX
        {"(?P<code>\\d+)", "exit 7", true},     // RE2
        {"(?i)oom", "OOM killer", true},
        {"^.$", "\xc3\xa9", true}, // one character of two bytes
        {"\\bnan\\b", "loss: nan", true},
        {"a|.*", "x", true},
        {"x.*", "a x", true},
        {"x\\.*", "a x...", true},
        {".*?", "", true},
        {".*+x", "ax", false}, // possessive: nothing is left for the x
        {"\\Qa.*", "a.*", true},
        {"\\Qa.*", "abc", false},
        {"", "anything", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if ((search(cases[i].pattern, str_from(cases[i].text)) == PATTERN_FOUND) != cases[i].found)
            fail_msg("'%s' in '%s'", cases[i].pattern, cases[i].text);
}

static void test_pattern__looks_at_text_that_is_no_utf8(void **state)
{
    (void)state;
    assert_int_equal(search("end", STR("\xff\xfe\x80 end")), PATTERN_FOUND);
    assert_int_equal(search("e\\x00d", STR("e\0d")), PATTERN_FOUND);
    assert_int_equal(search("other", STR("\xff\xfe\x80 end")), PATTERN_MISSING);
}

static void test_pattern__that_is_none_is_refused_with_the_place(void **state)
{
    (void)state;
    struct pattern *p = NULL;
    det_err err;
    assert_int_equal(pattern_new("a(b", &p, &err), DET_EINVAL);
    assert_string_equal(err.msg, "missing closing parenthesis, at character 4");
    assert_int_equal(pattern_new(".*a**[", &p, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, "at character "));
    assert_int_equal(pattern_new("\\C", &p, &err), DET_EINVAL);
    assert_int_equal(pattern_new("\xff", &p, &err), DET_EINVAL);
    assert_null(p);
}

static void test_pattern__that_is_too_much_is_refused(void **state)
{
    (void)state;
    struct pattern *p = NULL;
    det_err err;
    struct buf text = BUF_INIT(10000);
    for (int i = 0; i <= PATTERN_MAX_BYTES; i++)
        buf_addc(&text, 'a');
    assert_int_equal(pattern_new(buf_str(&text).ptr, &p, &err), DET_ELIMIT);
    assert_string_equal(err.msg, "a pattern has at most 1000 bytes, this one has 1001");
    // Took 4.5 GB and 14 s with regcomp().
    assert_int_equal(
        pattern_new("((((((a{1,200}){1,200}){1,200}){1,200}){1,200}){1,200})", &p, &err),
        DET_ELIMIT);
    buf_clear(&text);
    for (int i = 0; i < 60; i++)
        buf_addc(&text, '(');
    buf_addc(&text, 'a');
    for (int i = 0; i < 60; i++)
        buf_addc(&text, ')');
    assert_int_equal(pattern_new(buf_str(&text).ptr, &p, &err), DET_ELIMIT);
    buf_done(&text);
    assert_null(p);
}

// Each of these would go on for seconds to ages in 64 KB of one letter.
static void test_search__ends(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "(a+)+b",
        "(a|aa)+$b",
        "a.*a.*a.*a.*a.*[qr]",
        "(?:.*?){9}[qr]",
        "(?:a|.*)*[qr]",
        "(.*)\\1[qr]",
        "(?s)(?=(.*))(?=(.*))(?=(.*))(?=(.*))\\1[qr]",
        "(*NO_START_OPT)(?:(?=.*)(?=.*)(?=.*).)*[qr]",
        "(?:(?=.*)(?=.*)(?=.*)a)*[qr]",
        "(a(?R)?a)b",
    };
    struct buf text = BUF_INIT(PATTERN_MAX_TEXT);
    for (int i = 0; i < PATTERN_MAX_TEXT; i++)
        buf_addc(&text, 'a');
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (search(patterns[i], buf_str(&text)) == PATTERN_FOUND)
            fail_msg("'%s' was found", patterns[i]);
    assert_int_equal(search("(?:.*?){9}[qr]", buf_str(&text)), PATTERN_GAVE_UP);
    buf_done(&text);
}

static void test_search__ends_when_the_budget_is_spent(void **state)
{
    (void)state;
    struct pattern *slow = NULL, *quick = NULL;
    struct buf text = BUF_INIT(PATTERN_MAX_TEXT);
    for (int i = 0; i < PATTERN_MAX_TEXT; i++)
        buf_addc(&text, 'a');
    assert_int_equal(pattern_new("(?:.*?){9}[qr]", &slow, NULL), 0);
    assert_int_equal(pattern_new("b", &quick, NULL), 0);
    struct matcher *m = matcher_new(3 * PATTERN_SEARCH_US);
    int n_given_up = 0;
    while (pattern_search(slow, buf_str(&text), m) == PATTERN_GAVE_UP)
        n_given_up++;
    assert_true(n_given_up >= 1 && n_given_up <= 3);
    assert_int_equal(pattern_search(quick, STR("b"), m), PATTERN_SPENT);
    matcher_free(m);
    pattern_free(slow);
    pattern_free(quick);
    pattern_free(NULL);
    matcher_free(NULL);
    buf_done(&text);
}

RUN_TESTS(cmocka_unit_test(test_pattern__means_what_it_means_elsewhere),
          cmocka_unit_test(test_pattern__looks_at_text_that_is_no_utf8),
          cmocka_unit_test(test_pattern__that_is_none_is_refused_with_the_place),
          cmocka_unit_test(test_pattern__that_is_too_much_is_refused),
          cmocka_unit_test(test_search__ends),
          cmocka_unit_test(test_search__ends_when_the_budget_is_spent))
