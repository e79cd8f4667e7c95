// JSON text to documents and back.
#include "support/docs.h"

#include "base/assert.h"
#include "doc/json.h"
#include <math.h>

static struct doc *parse(const char *text)
{
    return json_parse(&arena, str_from(text), &(struct json_opts){.source = "t.json"}, &diags);
}

static void expect_error(const char *text, const char *message)
{
    assert_null(parse(text));
    assert_string_equal(take_diags(DIAG_ERROR), message);
}

static void expect_written(const struct doc *d, int indent, const char *text)
{
    struct buf b = BUF_INIT(10000);
    struct json_writer w;
    json_init(&w, &b, indent);
    json_put_doc(&w, d);
    assert_string_equal(buf_str(&b).ptr, text);
    buf_done(&b);
}

static void test_json__kinds_and_values(void **state)
{
    (void)state;
    struct doc *d = parse("{\"a\": [1, -2.5, \"x\", true, null, {}], \"b\": 9007199254740993}");
    assert_int_equal(d->kind, DOC_MAP);
    const struct doc *a = doc_find(d, "a");
    assert_int_equal(a->n, 6);
    assert_int_equal(doc_at(a, 0)->integer, 1);
    assert_true(doc_at(a, 1)->number == -2.5);
    assert_string_equal(doc_at(a, 2)->text.ptr, "x");
    assert_true(doc_at(a, 3)->boolean);
    assert_int_equal(doc_at(a, 4)->kind, DOC_NULL);
    assert_int_equal(doc_at(a, 5)->n, 0);
    assert_true(doc_find(d, "b")->integer == 9007199254740993);
    assert_null(doc_find(d, "c"));
}

static void test_json__every_value_knows_its_place(void **state)
{
    (void)state;
    struct doc *d = parse("{\"\xC3\xA9\\\"}\": 1,\n  \"b\": [\"x,]\",\n\t{\"c\": -1e3}]}");
    const struct doc *b = doc_find(d, "b"), *c = doc_find(doc_at(b, 1), "c");
    assert_int_equal(d->first->pos.column, 10); // characters, not bytes
    assert_int_equal(b->key_pos.line, 2);
    assert_int_equal(b->key_pos.column, 3);
    assert_int_equal(b->pos.column, 8);
    assert_int_equal(c->pos.line, 3);
    assert_int_equal(c->pos.column, 8);
    assert_string_equal(c->pos.source, "t.json");
}

static void test_json__errors_name_the_place(void **state)
{
    (void)state;
    expect_error("{\"a\": 1,\n \"a\": 2}",
                 "t.json:2:4: not valid JSON: duplicate object key near '\"a\"'\n");
    expect_error("[1,\n 2", "t.json:2:2: not valid JSON: ']' expected near end of file\n");
    expect_error("{} x", "t.json:1:4: not valid JSON: end of file expected near 'x'\n");
    expect_error("", "t.json:1:1: not valid JSON: unexpected token near end of file\n");
}

static void test_json__refuses_what_is_not_strictly_json(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[01]",     "[1e999]", "[99999999999999999999]", "\"\\u0000\"", "[\"\xff\"]", "NaN", "[1,]",
        "{'a': 1}", "// x\n1", "[\"\\ud800\"]"};
    for (size_t i = 0; i < STATIC_LEN(bad); i++)
        assert_null(parse(bad[i]));
    assert_int_equal(diags.n_errors, STATIC_LEN(bad));
}

static void test_json__depth_and_size_are_limited(void **state)
{
    (void)state;
    char deep[2 * 65 + 1] = "";
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    expect_error(deep, "t.json:1:65: nested more than 64 levels deep\n");
    deep[64] = ']';
    deep[128] = 0;
    assert_non_null(parse(deep));
    assert_null(json_parse(&arena, STR("[1, 2]"), &(struct json_opts){.max_bytes = 5}, &diags));
    struct buf many = BUF_INIT(1 << 20);
    for (int i = 0; i < 100000; i++)
        buf_addc(&many, '[');
    assert_null(json_parse(&arena, buf_str(&many), NULL, &diags));
    buf_done(&many);
}

static void test_json__writes_what_it_read(void **state)
{
    (void)state;
    static const char text[] = "{\"b\":[1,-2.5,true,false,null],\"a\":{\"x\":{},\"y\":[]},\"\":"
                               "\"\\\"\\\\\\n\\u0001\xE2\x82\xAC\"}";
    expect_written(parse(text), 0, text);
}

static void test_json__indents(void **state)
{
    (void)state;
    expect_written(parse("{\"a\":[1,{\"b\":[]}]}"), 2,
                   "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ]\n}");
}

static void test_json__is_written_without_a_document(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    struct json_writer w;
    json_init(&w, &b, 0);
    json_open_map(&w);
    json_key(&w, "trial");
    json_put_int(&w, INT64_MIN);
    json_key(&w, "list");
    json_open_list(&w);
    json_put_double(&w, 0.1);
    json_put_bool(&w, true);
    json_put_null(&w);
    json_put_str(&w, NULL);
    json_open_map(&w);
    json_close(&w);
    json_close(&w);
    json_keyn(&w, STR("\"x\""));
    json_put_str(&w, "\t");
    json_close(&w);
    assert_string_equal(buf_str(&b).ptr,
                        "{\"trial\":-9223372036854775808,\"list\":[0.1,true,null,null,{}],"
                        "\"\\\"x\\\"\":\"\\t\"}");
    buf_done(&b);
}

static void test_json__not_a_number_is_a_string(void **state)
{
    (void)state;
    struct doc *list = doc_new(&arena, DOC_LIST);
    doc_append(list, doc_new_double(&arena, NAN));
    doc_append(list, doc_new_double(&arena, INFINITY));
    doc_append(list, doc_new_double(&arena, -INFINITY));
    expect_written(list, 0, "[\"NaN\",\"Infinity\",\"-Infinity\"]");
}

static void test_json__damaged_text_is_written_as_valid_json(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(100);
    struct json_writer w;
    json_init(&w, &b, 0);
    json_put_strn(&w, STR("a\xff\xC3(\xED\xA0\x80\xF0\x9F\x98\x80"));
    struct doc *d = json_parse(&arena, buf_str(&b), NULL, &diags);
    assert_non_null(d);
    assert_string_equal(
        d->text.ptr,
        "a\xEF\xBF\xBD\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80");
    buf_done(&b);
}

static void test_doc__a_copy_outlives_what_it_was_made_of(void **state)
{
    (void)state;
    struct arena other = ARENA_INIT;
    const char *text = "{\"a\":[1,2.5,true,null,{\"b\":\"x\"}],\"c\":\"\"}";
    struct diag_list ds = DIAG_INIT(&other);
    struct doc *copy = doc_copy(&arena, json_parse(&other, str_from(text), NULL, &ds));
    arena_done(&other);
    assert_string_equal(as_json(copy), text);
}

RUN_TESTS(DOC_TEST(test_json__kinds_and_values), DOC_TEST(test_json__every_value_knows_its_place),
          DOC_TEST(test_json__errors_name_the_place),
          DOC_TEST(test_json__refuses_what_is_not_strictly_json),
          DOC_TEST(test_json__depth_and_size_are_limited), DOC_TEST(test_json__writes_what_it_read),
          DOC_TEST(test_json__indents), DOC_TEST(test_json__is_written_without_a_document),
          DOC_TEST(test_json__not_a_number_is_a_string),
          DOC_TEST(test_json__damaged_text_is_written_as_valid_json),
          DOC_TEST(test_doc__a_copy_outlives_what_it_was_made_of))
