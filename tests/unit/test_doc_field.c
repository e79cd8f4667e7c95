// Field tables: a small table of every type, through all four routines.
#include "support/docs.h"

#include "base/assert.h"
#include "doc/field.h"

struct point {
    int64_t x, y;
};

struct animal {
    int kind; // cat, dog, other
    const char *name;
    int64_t lives;
    double speed;
    const struct doc *rest;
};

struct thing {
    bool on;
    enum tri maybe;
    int64_t count;
    struct opt_int limit;
    double ratio;
    const char *title, *password;
    int colour;
    LIST_OF(const char *) words;
    LIST_OF(struct point) points;
    const struct doc *extra;
    struct point origin;
    struct animal pet;
};

#define T(member) offsetof(struct thing, member)
#define P(member) offsetof(struct point, member)
#define A(member) offsetof(struct animal, member)

static const char *const colours[] = {"", "red", "green", NULL};

// [x, y] is short for a map.
static const struct doc *convert_point(struct field_ctx *ctx, const struct doc *value)
{
    if (value->kind != DOC_LIST) return value;
    if (value->n != 2) {
        field_error(ctx, value, "must have two numbers");
        return NULL;
    }
    struct doc *map = doc_new(ctx->arena, DOC_MAP);
    doc_set(map, STR("x"), doc_share(ctx->arena, value->first));
    doc_set(map, STR("y"), doc_share(ctx->arena, value->last));
    return map;
}

static const struct doc *convert_dozens(struct field_ctx *ctx, const struct doc *value)
{
    return doc_new_int(ctx->arena, value->integer * 12);
}

static void check_point(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct point *p = self;
    if (p->x == p->y) field_error(ctx, map, "x and y must differ");
}

static const struct field point_rows[] = {{"x", FIELD_INT, P(x), .required = true},
                                          {"y", FIELD_INT, P(y), .def = "7"}};
static const struct field_table point_table = {
    .size = sizeof(struct point), FIELD_ROWS(point_rows), .check = check_point};
static const struct field point_item = {
    .name = "", .type = FIELD_TABLE, .table = &point_table, .convert = convert_point};
static const struct field word_item = {.name = "", .type = FIELD_STR};

static const struct field animal_rows[] = {{"name", FIELD_STR, A(name), .help = "Its name."}};
static const struct field cat_rows[] = {
    {"lives", FIELD_INT, A(lives), .def = "9", FIELD_RANGE(1, 9)}};
static const struct field dog_rows[] = {
    {"speed", FIELD_DOUBLE, A(speed), .required = true, FIELD_ABOVE(0)}};
static const struct field_variant animals[] = {
    {"cat", FIELD_ROWS(cat_rows)},
    {"dog", FIELD_ROWS(dog_rows)},
    {.tag = "other", .open = true, .rest_offset = A(rest)}};
static const struct field_table animal_table = {.size = sizeof(struct animal),
                                                FIELD_ROWS(animal_rows),
                                                .tag = "kind",
                                                .tag_offset = A(kind),
                                                .variants = animals,
                                                .n_variants = STATIC_LEN(animals)};

static const struct field thing_rows[] = {
    {"on", FIELD_BOOL, T(on), .def = "true"},
    {"maybe", FIELD_TRI, T(maybe), .help = "Who knows."},
    {"count", FIELD_INT, T(count), .def = "3", FIELD_MIN(1)},
    {"dozens", FIELD_OLD, .into = "count", .convert = convert_dozens},
    {"limit", FIELD_OPT_INT, T(limit), FIELD_RANGE(0, 10)},
    {"ratio", FIELD_DOUBLE, T(ratio), .def = "0.5"},
    {"title", FIELD_STR, T(title), .def = "none"},
    {"password", FIELD_STR, T(password), .secret = true},
    {"colour", FIELD_ENUM, T(colour), .values = colours},
    {"color", FIELD_OLD, .into = "colour"},
    {"words", FIELD_LIST, T(words), .item = &word_item, .merge = field_merge_append},
    {"points", FIELD_LIST, T(points), .item = &point_item, .merge = field_merge_union,
     .merge_key = "x"},
    {"extra", FIELD_MAP, T(extra), .def = "{}"},
    {"origin", FIELD_TABLE, T(origin), .table = &point_table, .def = "{x: 1}",
     .convert = convert_point},
    {"pet", FIELD_TABLE, T(pet), .table = &animal_table, .required = true},
    {"forgotten", FIELD_IGNORED, .help = "It was a mistake."},
    {"banned", FIELD_REFUSED, .help = "is for others"},
};
static const struct field_table thing_table = {.size = sizeof(struct thing),
                                               FIELD_ROWS(thing_rows)};

static struct field_ctx ctx(void)
{
    return (struct field_ctx){.arena = &arena, .diags = &diags};
}

static struct thing read_thing(const char *text)
{
    struct field_ctx c = ctx();
    struct thing t = {0};
    const struct doc *normal = field_normalize(&c, &thing_table, doc_of(text));
    if (normal) field_read(&c, &thing_table, normal, &t);
    return t;
}

static void expect_errors(const char *text, const char *messages)
{
    read_thing(text);
    assert_string_equal(take_diags(DIAG_ERROR), messages);
}

static void test_field__defaults(void **state)
{
    (void)state;
    struct thing t = read_thing("pet: {kind: cat}");
    assert_int_equal(diags.n_errors, 0);
    assert_true(t.on && t.maybe == TRI_UNSET && t.count == 3 && !t.limit.is_set && t.ratio == 0.5);
    assert_string_equal(t.title, "none");
    assert_null(t.password);
    assert_true(t.colour == 0 && !t.words.n && !t.points.n);
    assert_true(t.origin.x == 1 && t.origin.y == 7);
    assert_int_equal(t.pet.lives, 9);
}

static void test_field__values(void **state)
{
    (void)state;
    struct thing t = read_thing(
        "{on: false, maybe: true, count: 1e3, limit: 0, ratio: 2, title: x, colour: green,\n"
        " words: [a, b], points: [{x: 1, y: 2}, [3, 4]], extra: {q: [1]}, origin: [5, 6],\n"
        " pet: {kind: dog, name: Rex, speed: 1.5}}");
    assert_int_equal(diags.n_errors, 0);
    assert_true(!t.on && t.maybe == TRI_TRUE && t.count == 1000 && t.limit.is_set &&
                t.limit.value == 0);
    assert_true(t.ratio == 2 && t.colour == 2);
    assert_int_equal(t.words.n, 2);
    assert_string_equal(t.words.items[1], "b");
    assert_true(t.points.n == 2 && t.points.items[1].x == 3 && t.points.items[1].y == 4);
    assert_int_equal(doc_find(t.extra, "q")->n, 1);
    assert_int_equal(t.origin.y, 6);
    assert_true(t.pet.kind == 1 && t.pet.speed == 1.5);
    assert_string_equal(t.pet.name, "Rex");
}

static void test_field__null_is_absent(void **state)
{
    (void)state;
    struct thing t = read_thing("{on: null, count: null, limit: ~, title: null, words: null, "
                                "origin: null, pet: {kind: cat, lives: ~}}");
    assert_int_equal(diags.n_errors, 0);
    assert_true(t.on && t.count == 3 && !t.limit.is_set && t.origin.x == 1 && t.pet.lives == 9);
}

static void test_field__all_errors_at_once(void **state)
{
    (void)state;
    expect_errors(
        "on: 1\nmaybe: x\ncount: 0\nlimit: 11\nratio: .nan\ntitle: 5\ncolour: gren\nwords: [a, 1]\n"
        "points: [{x: 1, y: 1}, [1], {y: 1}]\nextra: 1\norigin: 4\npet: {kind: dog, speed: 0, "
        "lives: 2}\n",
        "t.yaml:1:5: on: must be true or false, found 1\n"
        "t.yaml:2:8: maybe: must be true or false, found 'x'\n"
        "t.yaml:3:8: count: must be at least 1, found 0\n"
        "t.yaml:4:8: limit: must be between 0 and 10, found 11\n"
        "t.yaml:5:8: ratio: must be a finite number, found nan\n"
        "t.yaml:6:8: title: must be a string, found 5; put it in quotes\n"
        "t.yaml:7:9: colour: must be one of red, green, found 'gren'; did you mean 'green'?\n"
        "t.yaml:8:12: words[1]: must be a string, found 1; put it in quotes\n"
        "t.yaml:9:10: points[0]: x and y must differ\n"
        "t.yaml:9:24: points[1]: must have two numbers\n"
        "t.yaml:9:29: points[2].x: required, but missing\n"
        "t.yaml:10:8: extra: must be a map, found 1\n"
        "t.yaml:11:9: origin: must be a map, found 4\n"
        "t.yaml:12:25: pet.speed: must be greater than 0, found 0\n"
        "t.yaml:12:28: pet.lives: does not go with 'kind: dog', only with cat\n");
}

static void test_field__unknown_keys_get_a_suggestion(void **state)
{
    (void)state;
    expect_errors("cuont: 2\nlives: 3\nspeling: 1\npet: {kind: cat, livs: 1, ratio: 1}\n",
                  "t.yaml:1:1: cuont: unknown field; did you mean 'count'?\n"
                  "t.yaml:2:1: lives: unknown here; did you mean pet.lives?\n"
                  "t.yaml:3:1: speling: unknown field\n"
                  "t.yaml:4:18: pet.livs: unknown field; did you mean 'lives'?\n"
                  "t.yaml:4:27: pet.ratio: unknown here; did you mean ratio at the top level?\n");
}

static void test_field__a_misspelt_field_is_not_missing_too(void **state)
{
    (void)state;
    expect_errors("pat: {knd: dog, sped: 1}\n",
                  "t.yaml:1:1: pat: unknown field; did you mean 'pet'?\n"
                  "t.yaml:1:7: pat.knd: unknown field; did you mean 'kind'?\n"
                  "t.yaml:1:17: pat.sped: unknown field; did you mean 'speed'?\n");
    expect_errors(
        "pet: kind:cat\n",
        "t.yaml:1:6: pet: must be a map, found 'kind:cat'; is a space missing after the ':'?\n");
}

static void test_field__missing_fields(void **state)
{
    (void)state;
    expect_errors("count: 1\n", "t.yaml:1:1: pet: required, but missing\n");
    expect_errors("pet: {}\n",
                  "t.yaml:1:6: pet.kind: required, but missing; one of cat, dog, other\n");
    expect_errors("pet: {kind: dog}\n", "t.yaml:1:6: pet.speed: required, but missing\n");
}

static void test_field__old_names_are_converted(void **state)
{
    (void)state;
    struct thing t = read_thing("{dozens: 2, color: red, pet: {kind: cat}}");
    assert_int_equal(diags.n_errors, 0);
    assert_true(t.count == 24 && t.colour == 1);
    expect_errors("dozens: 2\ncount: 3\npet: {kind: cat}\n",
                  "t.yaml:2:1: count: sets 'count', which line 1 sets already; use one of them\n");
}

static void test_field__ignored_and_refused(void **state)
{
    (void)state;
    read_thing("{forgotten: 1, pet: {kind: cat}}");
    assert_string_equal(take_diags(DIAG_WARNING),
                        "t.yaml:1:2: warning: forgotten: is ignored. It was a mistake.\n");
    expect_errors("{banned: 1, pet: {kind: cat}}", "t.yaml:1:2: banned: is for others\n");
}

static void test_field__open_variants_keep_other_keys(void **state)
{
    (void)state;
    struct thing t = read_thing("pet: {kind: other, name: Ed, legs: 8, lives: 100}");
    assert_int_equal(diags.n_errors, 0);
    assert_string_equal(as_json(t.pet.rest), "{\"legs\":8,\"lives\":100}");
}

static void test_field__writes_everything_and_reads_it_back(void **state)
{
    (void)state;
    struct thing t = read_thing(
        "{limit: 4, password: pw, words: [a], points: [[1, 2]], pet: {kind: other, legs: 8}}");
    const struct doc *d = field_write(&arena, &thing_table, &t, false);
    static const char json[] = "{\"on\":true,\"maybe\":null,\"count\":3,\"limit\":4,\"ratio\":0.5,"
                               "\"title\":\"none\",\"password\":\"pw\","
                               "\"colour\":null,\"words\":[\"a\"],\"points\":[{\"x\":1,\"y\":2}],"
                               "\"extra\":{},\"origin\":{\"x\":1,\"y\":7},"
                               "\"pet\":{\"kind\":\"other\",\"name\":null,\"legs\":8}}";
    assert_string_equal(as_json(d), json);
    struct thing again = read_thing(json);
    assert_int_equal(diags.n_errors, 0);
    assert_string_equal(as_json(field_write(&arena, &thing_table, &again, false)), json);
}

static void test_field__secrets_can_be_masked(void **state)
{
    (void)state;
    struct thing t = read_thing("{password: pw, pet: {kind: cat}}");
    const struct doc *d = field_write(&arena, &thing_table, &t, true);
    assert_string_equal(doc_find(d, "password")->text.ptr, "********");
}

static void expect_merged(const char *high, const char *low, const char *json)
{
    struct field_ctx c = ctx();
    const struct doc *h = field_normalize(&c, &thing_table, doc_of(high));
    const struct doc *l = field_normalize(&c, &thing_table, doc_of(low));
    assert_string_equal(as_json(field_merge(&c, &thing_table, h, l)), json);
    assert_int_equal(diags.n_errors, 0);
}

static void test_field__merging(void **state)
{
    (void)state;
    expect_merged("{count: 1, title: ~}", "{count: 2, title: x, ratio: 3}",
                  "{\"count\":1,\"title\":\"x\",\"ratio\":3}");
    expect_merged("{words: [a]}", "{words: [b, a]}", "{\"words\":[\"b\",\"a\",\"a\"]}");
    expect_merged("{points: [[1, 2], [3, 4]]}", "{points: [{x: 3}, {x: 5}]}",
                  "{\"points\":[{\"x\":1,\"y\":2},{\"x\":3,\"y\":4},{\"x\":5}]}");
    expect_merged("{origin: {x: 1}}", "{origin: [2, 3]}", "{\"origin\":{\"x\":1,\"y\":3}}");
    expect_merged("{extra: {a: {b: 1}, c: [1], e: ~}}",
                  "{extra: {a: {b: 2, d: 3}, c: {x: 1}, e: 4}}",
                  "{\"extra\":{\"a\":{\"b\":1,\"d\":3},\"c\":[1],\"e\":4}}");
}

static void test_field__merging_unions_keeps_the_chosen_variant(void **state)
{
    (void)state;
    expect_merged("{pet: {kind: cat}}", "{pet: {kind: dog, name: Rex, speed: 2}}",
                  "{\"pet\":{\"kind\":\"cat\",\"name\":\"Rex\"}}");
    expect_merged("{pet: {name: Tom}}", "{pet: {kind: dog, speed: 2}}",
                  "{\"pet\":{\"name\":\"Tom\",\"kind\":\"dog\",\"speed\":2}}");
}

static void test_field__only_so_many_errors_are_kept(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 16);
    buf_addz(&b, "pet: {kind: cat}\nwords:\n");
    for (int i = 0; i < 150; i++)
        buf_addz(&b, "- 1\n");
    read_thing(buf_str(&b).ptr);
    assert_int_equal(diags.n_errors, 150);
    const char *text = take_diags(DIAG_ERROR);
    assert_non_null(strstr(text, "words[99]: must be"));
    assert_null(strstr(text, "words[100]"));
    assert_non_null(strstr(text, "\n... and 50 more errors\n"));
    buf_done(&b);
}

RUN_TESTS(DOC_TEST(test_field__defaults), DOC_TEST(test_field__values),
          DOC_TEST(test_field__null_is_absent), DOC_TEST(test_field__all_errors_at_once),
          DOC_TEST(test_field__unknown_keys_get_a_suggestion),
          DOC_TEST(test_field__a_misspelt_field_is_not_missing_too),
          DOC_TEST(test_field__missing_fields), DOC_TEST(test_field__old_names_are_converted),
          DOC_TEST(test_field__ignored_and_refused),
          DOC_TEST(test_field__open_variants_keep_other_keys),
          DOC_TEST(test_field__writes_everything_and_reads_it_back),
          DOC_TEST(test_field__secrets_can_be_masked), DOC_TEST(test_field__merging),
          DOC_TEST(test_field__merging_unions_keeps_the_chosen_variant),
          DOC_TEST(test_field__only_so_many_errors_are_kept))
