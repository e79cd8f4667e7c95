// What is generated: the OpenAPI document and the text for Prometheus.
#include "support/test.h"

#include "doc/json.h"
#include "http/http.h"
#include <math.h>

struct trial {
    int64_t id;
    const char *name;
    LIST_OF(double) losses;
};

static int handle(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply_empty(req);
    return 0;
}

#define T(member) offsetof(struct trial, member)
static const struct field loss = {.name = "", .type = FIELD_DOUBLE};
// clang-format off
static const struct field rows[] = {
    {"id", FIELD_INT, T(id), .required = true, FIELD_MIN(1), .help = "Its number."},
    {"name", FIELD_STR, T(name), .help = "Its name."},
    {"losses", FIELD_LIST, T(losses), .item = &loss, .help = "All of them."},
    {"old", FIELD_OLD, .into = "name"},
};
static const struct field_table table = {.size = sizeof(struct trial), FIELD_ROWS(rows)};
static const struct http_route some[] = {
    {HTTP_GET, "/trials/{trial:int}", .handle = handle, .output = &table, .summary = "One trial."},
    {HTTP_GET, "/files/{path*}", HTTP_AUTH_NONE, .handle = handle, .content = HTTP_BYTES},
};
static const struct http_route others[] = {
    {HTTP_PATCH, "/trials/{trial:int}", .handle = handle, .input = &table, .query = &table},
};
// clang-format on

static const struct doc *down(const struct doc *doc, const char *path)
{
    struct str rest = str_from(path);
    while (rest.ptr) {
        struct str part = str_cut(&rest, '>');
        char key[64];
        snprintf(key, sizeof key, "%.*s", STR_ARG(part));
        doc = doc_find(doc, key);
    }
    if (!doc) fail_msg("no %s", path);
    return doc;
}

static void test_openapi__describes_every_route(void **state)
{
    (void)state;
    const struct http_table tables[] = {HTTP_TABLE(some), HTTP_TABLE(others)};
    struct buf out = BUF_INIT(1 << 20);
    const struct http_schema record = {"trial", &table};
    http_openapi(
        tables, 2,
        &(struct http_api_info){.title = "t", .version = "1", .schemas = &record, .n_schemas = 1},
        &out);
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *doc = json_parse(&arena, buf_str(&out), NULL, &diags);
    assert_non_null(doc);
    assert_int_equal(down(doc, "paths")->n, 2);
    const struct doc *get = down(doc, "paths>/trials/{trial}>get");
    assert_string_equal(down(get, "summary")->text.ptr, "One trial.");
    assert_string_equal(down(get, "operationId")->text.ptr, "getTrialsTrial");
    assert_string_equal(down(doc_at(down(get, "parameters"), 0), "schema>type")->text.ptr,
                        "integer");
    const struct doc *schema = down(get, "responses>200>content>application/json>schema");
    assert_string_equal(down(schema, "properties>losses>items>format")->text.ptr, "double");
    assert_string_equal(doc_at(down(schema, "required"), 0)->text.ptr, "id");
    assert_null(doc_find(down(schema, "properties"), "old"));
    const struct doc *patch = down(doc, "paths>/trials/{trial}>patch");
    down(patch, "requestBody>content>application/json>schema>properties>id>minimum");
    assert_int_equal(down(patch, "parameters")->n, 4);
    assert_int_equal(down(doc, "paths>/files/{path}>get>security")->n, 0);
    down(doc, "components>schemas>trial>properties>losses");
    arena_done(&arena);
    buf_done(&out);
}

static void test_prometheus__writes_families_and_samples(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 10);
    prom_family(&out, "det_trials", PROM_GAUGE, "Trials by state.");
    prom_sample(&out, "det_trials", "state=\"ACTIVE\"", 3);
    prom_sample(&out, "det_trials", NULL, INFINITY);
    assert_string_equal(out.ptr, "# HELP det_trials Trials by state.\n# TYPE det_trials gauge\n"
                                 "det_trials{state=\"ACTIVE\"} 3.0\ndet_trials +Inf\n");
    buf_done(&out);
}

RUN_TESTS(cmocka_unit_test(test_openapi__describes_every_route),
          cmocka_unit_test(test_prometheus__writes_families_and_samples))
