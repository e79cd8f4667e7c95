// YAML text to documents and back: the core schema, friendly errors, limits, quoting.
#include "support/docs.h"

#include "base/assert.h"

static void expect_json(const char *yaml, const char *json)
{
    assert_string_equal(as_json(doc_of(yaml)), json);
}

static void expect_error(const char *yaml, const char *message)
{
    assert_null(yaml_parse(&arena, str_from(yaml), "t.yaml", &diags));
    assert_string_equal(take_diags(DIAG_ERROR), message);
}

static void test_yaml__plain_scalars_follow_the_core_schema(void **state)
{
    (void)state;
    expect_json("[null, ~, Null, '', \"null\"]", "[null,null,null,\"\",\"null\"]");
    expect_json("[true, False, TRUE, yes, on, NO]", "[true,false,true,\"yes\",\"on\",\"NO\"]");
    expect_json("[0, -1, +2, 010, 0o17, 0xfF, 1_000]", "[0,-1,2,10,15,255,\"1_000\"]");
    expect_json("[1.5, 1., .5, 1e3, -2.5E-3, 1.e1]", "[1.5,1.0,0.5,1000.0,-0.0025,10.0]");
    expect_json("[.inf, -.Inf, .NAN]", "[\"Infinity\",\"-Infinity\",\"NaN\"]");
    expect_json("[1.2.3, 1e, 0x, 0o8, ., -, 12:30, 2020-01-01]",
                "[\"1.2.3\",\"1e\",\"0x\",\"0o8\",\".\",\"-\",\"12:30\",\"2020-01-01\"]");
    expect_json("", "null");
    expect_json("# nothing\n", "null");
}

static void test_yaml__warns_where_older_readers_see_something_else(void **state)
{
    (void)state;
    doc_of("a: no\nb: 'no'\nc: 0777\nd: 1_000\ne: 12:30\nf: none\n");
    assert_string_equal(
        take_diags(DIAG_WARNING),
        "t.yaml:1:4: warning: no is a string here, but a boolean for readers of YAML 1.1\n"
        "t.yaml:3:4: warning: 0777 is an integer here, but an octal number for readers "
        "of YAML 1.1\n"
        "t.yaml:4:4: warning: 1_000 is a string here, but a number for readers of YAML 1.1\n"
        "t.yaml:5:4: warning: 12:30 is a string here, but a number in base 60 for readers "
        "of YAML 1.1\n");
}

static void test_yaml__tags_choose_the_type(void **state)
{
    (void)state;
    expect_json("[!!str 5, !!float 5, !!int '7', !!null '', !!bool 'true', ! 5]",
                "[\"5\",5.0,7,null,true,\"5\"]");
    expect_json("!!map {a: !!seq [1]}", "{\"a\":[1]}");
    expect_error("a: !!python/object:os.system x\n",
                 "t.yaml:1:4: 'x' with the tag 'tag:yaml.org,2002:python/object:os.system' is not "
                 "supported\n");
    expect_error("a: !!int x\n",
                 "t.yaml:1:4: 'x' with the tag 'tag:yaml.org,2002:int' is not supported\n");
    expect_error("a: !!set {x}\n",
                 "t.yaml:1:4: a map with the tag 'tag:yaml.org,2002:set' is not supported\n");
}

static void test_yaml__every_value_knows_its_place(void **state)
{
    (void)state;
    struct doc *d = doc_of("a: 1\n\xC3\xA9: {b: [x,\n   y]}\n");
    const struct doc *e = d->last, *y = doc_at(doc_find(e, "b"), 1);
    assert_int_equal(e->key_pos.line, 2);
    assert_int_equal(e->key_pos.column, 1);
    assert_int_equal(e->pos.column, 4);
    assert_int_equal(y->pos.line, 3);
    assert_int_equal(y->pos.column, 4);
}

static void test_yaml__explains_common_mistakes(void **state)
{
    (void)state;
    expect_error("a:\n\tb: 1\n", "t.yaml:2:1: a tab is used to indent; YAML wants spaces\n");
    expect_error("a: |\n x\n\ty\n", "t.yaml:3:1: a tab is used to indent; YAML wants spaces\n");
    expect_error("a: [1, 2\nb: 3\n",
                 "t.yaml:1:4: this '[' is not closed, or a ',' is missing before line 2\n");
    expect_error("a: {b: 1\n",
                 "t.yaml:1:4: this '{' is not closed, or a ',' is missing before line 2\n");
    expect_error("a: \"x\nb: 1\n", "t.yaml:1:4: this quote is never closed\n");
    expect_error("a: 'x\n--- b\n", "t.yaml:1:4: this quote is never closed\n");
    expect_error("a:\n  b: 1\n c: 2\n",
                 "t.yaml:3:2: this line is indented like none of the lines above it\n");
    expect_error("a:\n - b\n- c\n",
                 "t.yaml:3:1: a list item where 'key: value' is expected; indent it like "
                 "the list it belongs to\n");
    expect_error("s:\n  name:single\n  b: 1\n", "t.yaml:2:7: a space is missing after the ':'\n");
    expect_error("s:\n  b: 1\n  name:single\n", "t.yaml:3:7: a space is missing after the ':'\n");
    expect_error(
        "a: b: c\n",
        "t.yaml:1:5: a second ': ' in one line; put the value in quotes if it belongs to it\n");
    expect_error("x: a\n  b: c\n",
                 "t.yaml:2:4: no ':' is expected here; is this line indented too far, or a "
                 "quote missing?\n");
    expect_error("a: b\nc\n",
                 "t.yaml:2:1: this line should be 'key: value', but there is no ': ' in it\n");
    expect_error("a: @x\n", "t.yaml:1:4: a value cannot start with '@'; put it in quotes\n");
    expect_error("a: \"x\" y\n",
                 "t.yaml:1:8: unexpected text after a value; if it belongs to it, put the whole "
                 "value in quotes\n");
    expect_error(
        "a: ]\n",
        "t.yaml:1:4: a value is missing here, or it starts with a character that needs quotes\n");
    expect_error("- a\nb: c\n",
                 "t.yaml:2:1: a list item ('- ...') is expected here; check the indentation\n");
    expect_error("a: 1\nb: \x01\n", "t.yaml:2:4: control character 0x01 is not allowed\n");
    expect_error("a: 1\nb: \xff\n", "t.yaml:2:4: this is not UTF-8 text (byte 0xff)\n");
    expect_error("a: 99999999999999999999\n", "t.yaml:1:4: the number 99999999999999999999 is too "
                                              "large; if it is text, put it in quotes\n");
    expect_error("a: 1e999\n",
                 "t.yaml:1:4: the number 1e999 is too large; if it is text, put it in quotes\n");
    expect_error("a: \"x\\0y\"\n", "t.yaml:1:4: NUL characters are not allowed\n");
    expect_error("a: 1\n---\nb: 2\n",
                 "t.yaml:2:1: a second document starts here; one is expected\n");
    expect_error("? [x]\n: 3\n", "t.yaml:1:3: a key must be a single value, not a list\n");
}

static void test_yaml__duplicate_keys_name_both_lines(void **state)
{
    (void)state;
    expect_error("a: 1\nb:\n  c: 1\n  d: 2\n  'c': 3\n",
                 "t.yaml:5:3: duplicate key 'c'; it is in line 3 already\n");
    expect_json("a: {c: 1}\nb: {c: 2}\n", "{\"a\":{\"c\":1},\"b\":{\"c\":2}}");
}

static void test_yaml__aliases_and_merge_keys(void **state)
{
    (void)state;
    expect_json("a: &x [1, 2]\nb: *x\nc: [*x, *x]\n",
                "{\"a\":[1,2],\"b\":[1,2],\"c\":[[1,2],[1,2]]}");
    expect_json("a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}");
    expect_json("d: &d {a: 1, b: 2}\ne: {<<: *d, b: 3}\n",
                "{\"d\":{\"a\":1,\"b\":2},\"e\":{\"b\":3,\"a\":1}}");
    expect_json("e: {<<: [{a: 1}, {a: 2, b: 2}], c: 3}\n", "{\"e\":{\"c\":3,\"a\":1,\"b\":2}}");
    expect_json("'<<': 1\n", "{\"<<\":1}");
    expect_error("a: *x\n", "t.yaml:1:4: the alias *x has no anchor &x before it\n");
    expect_error("a: &x [1, *x]\n", "t.yaml:1:11: the alias *x is inside of what it stands for\n");
    expect_error("a: {<<: 5}\n", "t.yaml:1:9: '<<' must be followed by a map or a list of maps\n");
}

static void test_yaml__bombs_are_refused(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 21);
    buf_addz(&b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++)
        buf_printf(&b, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1,
                   i - 1, i - 1, i - 1, i - 1);
    expect_error(buf_str(&b).ptr, "t.yaml:6:35: more than 100000 values, aliases expanded\n");

    buf_clear(&b); // the bytes of text count too
    buf_addz(&b, "a: &a ");
    for (int i = 0; i < 500000; i++)
        buf_addc(&b, 'x');
    buf_addz(&b, "\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n");
    expect_error(buf_str(&b).ptr,
                 "t.yaml:2:33: more than 4194304 bytes of text, aliases expanded\n");

    buf_clear(&b);
    buf_addz(&b, "a: &a x\nb: [");
    for (int i = 0; i < 1001; i++)
        buf_addz(&b, "*a, ");
    buf_addz(&b, "]\n");
    expect_error(buf_str(&b).ptr, "t.yaml:2:4005: more than 1000 aliases\n");
    buf_done(&b);
}

static void test_yaml__size_and_depth_are_limited(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 21);
    for (int i = 0; i < 100000; i++)
        buf_addc(&b, '[');
    expect_error(buf_str(&b).ptr, "t.yaml:1:65: nested more than 64 levels deep\n");

    buf_clear(&b); // an alias must not get deeper either
    buf_addz(&b, "a: &a [[[[[[[[[[x]]]]]]]]]]\nb: ");
    for (int i = 0; i < 55; i++)
        buf_addc(&b, '[');
    buf_addz(&b, "*a");
    expect_error(buf_str(&b).ptr, "t.yaml:2:59: nested more than 64 levels deep\n");

    buf_clear(&b);
    for (int i = 0; i < (1 << 20) + 1; i++)
        buf_addc(&b, '#');
    expect_error(buf_str(&b).ptr, "t.yaml: 1048577 bytes of YAML; the limit is 1048576\n");
    buf_done(&b);
}

// Wide maps and lists must not take quadratic time: 90,000 keys are read at once.
static void test_yaml__wide_maps_are_read(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 21);
    for (int i = 0; i < 45000; i++)
        buf_printf(&b, "key%d: 1\n", i);
    assert_int_equal(doc_of(buf_str(&b).ptr)->n, 45000);
    buf_done(&b);
}

static const char *written(const struct doc *d)
{
    struct buf b = BUF_INIT(1 << 20);
    yaml_write(d, &b);
    const char *text = arena_strdup(&arena, buf_str(&b).ptr);
    buf_done(&b);
    return text;
}

static void test_yaml__writes_block_style(void **state)
{
    (void)state;
    assert_string_equal(
        written(doc_of("{a: {b: [1, {c: 2, d: [3, 4]}, [5]], e: {}, f: []}, g: null}")),
        "a:\n"
        "  b:\n"
        "  - 1\n"
        "  - c: 2\n"
        "    d:\n"
        "    - 3\n"
        "    - 4\n"
        "  - - 5\n"
        "  e: {}\n"
        "  f: []\n"
        "g: null\n");
    assert_string_equal(written(doc_of("a: \"x\\ny\\n\"\nb: \"x\\n\\n y\"\n")),
                        "a: |\n  x\n  y\nb: |-\n  x\n\n   y\n");
}

// Strings that must not come back as something else, here or in a YAML 1.1 reader.
static const char *const need_quotes[] = {
    "",      "null", "~",  "true", "No",  "y",    "5",    "1e3",      ".5",           "0x1",
    "1_000", "- a",  "-",  "? x",  ": x", "a: b", "a #b", "#a",       "a:",           " a",
    "a ",    "[a",   "{a", "*a",   "&a",  "!a",   "|",    ">",        "'a",           "\"a",
    "%a",    "@a",   "`a", "<<",   "=",   "...",  "---",  ".inf",     "12:30",        "a\tb",
    "\x7f",  "+1",   "..", ".",    "~a",  ">a",   ",a",   "\xC2\x85", "\xEF\xBB\xBF", "2020-01-01",
};
static const char *const need_none[] = {
    "a",        "/x/y",   "./x",     "a:b", "a#b",  "python3 -m x --y=z",
    "\xC3\xA9", "a, [b]", "nothing", "(x)", "$HOME"};

static void test_yaml__quotes_what_needs_quotes(void **state)
{
    (void)state;
    for (size_t i = 0; i < STATIC_LEN(need_quotes); i++) {
        const struct doc *d = doc_new_str(&arena, need_quotes[i]);
        const char *text = written(d);
        assert_int_equal(text[0], '"');
        assert_true(doc_equal(doc_of(text), d));
    }
    for (size_t i = 0; i < STATIC_LEN(need_none); i++) {
        const struct doc *d = doc_new_str(&arena, need_none[i]);
        assert_string_equal(written(d), arena_printf(&arena, "%s\n", need_none[i]));
        assert_true(doc_equal(doc_of(written(d)), d));
    }
}

static void test_yaml__keys_are_quoted_like_values(void **state)
{
    (void)state;
    struct doc *map = doc_new(&arena, DOC_MAP);
    static const char *const keys[] = {"a b", "<<", "1", "null", "a: b", "x\ny", ""};
    for (size_t i = 0; i < STATIC_LEN(keys); i++)
        doc_set(map, str_from(keys[i]), doc_new_int(&arena, (int64_t)i));
    char *longest = arena_alloc(&arena, 3001);
    memset(longest, 'k', 3000);
    doc_set(map, str_from(longest), doc_new_str(&arena, "v"));
    assert_true(doc_equal(doc_of(written(map)), map));
}

RUN_TESTS(DOC_TEST(test_yaml__plain_scalars_follow_the_core_schema),
          DOC_TEST(test_yaml__warns_where_older_readers_see_something_else),
          DOC_TEST(test_yaml__tags_choose_the_type),
          DOC_TEST(test_yaml__every_value_knows_its_place),
          DOC_TEST(test_yaml__explains_common_mistakes),
          DOC_TEST(test_yaml__duplicate_keys_name_both_lines),
          DOC_TEST(test_yaml__aliases_and_merge_keys), DOC_TEST(test_yaml__bombs_are_refused),
          DOC_TEST(test_yaml__size_and_depth_are_limited), DOC_TEST(test_yaml__wide_maps_are_read),
          DOC_TEST(test_yaml__writes_block_style), DOC_TEST(test_yaml__quotes_what_needs_quotes),
          DOC_TEST(test_yaml__keys_are_quoted_like_values))
