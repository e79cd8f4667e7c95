// tests/support/docs.h: an arena and a list of diagnostics for each test, and documents from
// literals.
//
//     RUN_TESTS(DOC_TEST(test_yaml__x), DOC_TEST(test_yaml__y))
#pragma once

#include "support/test.h"

#include "doc/diag.h"
#include "doc/json.h"
#include "doc/yaml.h"

static struct arena arena;
static struct diag_list diags;

static inline int docs_set_up(void **state)
{
    (void)state;
    diags = DIAG_INIT(&arena);
    return 0;
}

static inline int docs_tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

#define DOC_TEST(f) cmocka_unit_test_setup_teardown(f, docs_set_up, docs_tear_down)

// Must be valid YAML.
static inline struct doc *doc_of(const char *text)
{
    struct doc *d = yaml_parse(&arena, str_from(text), "t.yaml", &diags);
    assert_non_null(d);
    return d;
}

// Everything collected so far, as text; then the list is empty again.
static inline const char *take_diags(enum diag_level level)
{
    struct buf b = BUF_INIT(1 << 16);
    diag_print(&diags, level, &b);
    const char *text = arena_strdup(&arena, buf_str(&b).ptr);
    buf_done(&b);
    diags = DIAG_INIT(&arena);
    return text;
}

static inline const char *as_json(const struct doc *d)
{
    struct buf b = BUF_INIT(1 << 20);
    struct json_writer w;
    json_init(&w, &b, 0);
    json_put_doc(&w, d);
    const char *text = arena_strdup(&arena, buf_str(&b).ptr);
    buf_done(&b);
    return text;
}
