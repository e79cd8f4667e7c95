// Searches that a program decides: what it reads and what it may answer.
#include "support/search.h"

static struct search *custom(void)
{
    return search_new(config_of("searcher: {name: custom, command: [x], unit: batches, depth: 3}\n"
                                "hyperparameters: {a: {type: int, minval: 1, maxval: 9}}\n"
                                "reproducibility: {experiment_seed: 7}\n"));
}

static const char *ask(const struct search *s, struct search_event event)
{
    struct buf b = BUF_INIT(1 << 16);
    search_ask(s, &event, &b);
    const char *text = arena_strdup(&arena, b.ptr);
    buf_done(&b);
    return text;
}

static const char *answer(struct search *s, const char *line)
{
    struct search_ops ops;
    det_err err;
    if (search_answer(s, str_from(line), &ops, &err)) return arena_strdup(&arena, err.msg);
    return show_ops(ops);
}

static void test_custom__program_is_told_everything(void **state)
{
    (void)state;
    struct search *s = custom();
    const struct doc *line = doc_of(ask(s, (struct search_event){SEARCH_START}));
    assert_string_equal(as_json(doc_find(line, "event")), "\"start\"");
    assert_string_equal(as_json(doc_find(line, "seed")), "7");
    assert_string_equal(as_json(doc_find(line, "trials")), "0");
    assert_string_equal(as_json(doc_find(line, "state")), "null");
    assert_string_equal(as_json(doc_find(doc_find(line, "searcher"), "depth")), "3");
    assert_string_equal(as_json(doc_find(doc_find(doc_find(line, "hyperparameters"), "a"), "type")),
                        "\"int\"");
    assert_string_equal(ask(s,
                            (struct search_event){
                                .kind = SEARCH_VALIDATED, .trial = 1, .length = 5, .metric = 0.25}),
                        "{\"event\":\"validated\",\"trial\":1,\"length\":5,\"metric\":0.25}\n");
    assert_string_equal(
        ask(s, (struct search_event){.kind = SEARCH_VALIDATED, .trial = 1, .metric = NAN}),
        "{\"event\":\"validated\",\"trial\":1,\"length\":0,\"metric\":\"NaN\"}\n");
    assert_string_equal(
        ask(s,
            (struct search_event){.kind = SEARCH_EXITED, .trial = 2, .reason = SEARCH_INVALID_HP}),
        "{\"event\":\"exited\",\"trial\":2,\"reason\":\"invalid_hp\"}\n");
    assert_string_equal(ask(s, (struct search_event){.kind = SEARCH_CLOSED, .trial = 2}),
                        "{\"event\":\"closed\",\"trial\":2}\n");
    search_free(s);
}

#define CREATE "{\"op\": \"create\", \"hparams\": {\"a\": 2}}"

static void test_custom__program_decides(void **state)
{
    (void)state;
    struct search *s = custom();
    assert_string_equal(show_ops(start(s)), "");
    assert_string_equal(answer(s, "{\"operations\": [" CREATE ", "
                                  "{\"op\": \"validate_after\", \"trial\": 1, \"length\": 10}], "
                                  "\"progress\": 0.25}"),
                        "create 1, train 1 to 10");
    assert_true(search_progress(s) == 0.25);
    assert_string_equal(show_ops(validated(s, 1, 10, 0.5)), "");
    assert_string_equal(answer(s, "{\"operations\": [{\"op\": \"close\", \"trial\": 1}]}"),
                        "close 1");
    assert_string_equal(show_ops(closed(s, 1)), ""); // the program may still create more
    assert_string_equal(answer(s, "{\"operations\": [" CREATE "]}"), "create 2");
    exited(s, 2, SEARCH_ERRORED);
    assert_string_equal(answer(s, "{}"), "");
    closed(s, 2);
    assert_string_equal(answer(s, "{}"), "end");
    search_free(s);
}

static void test_custom__program_may_end_it(void **state)
{
    (void)state;
    struct search *s = custom();
    start(s);
    assert_string_equal(answer(s, "{\"operations\": [" CREATE ", {\"op\": \"shutdown\", "
                                  "\"outcome\": \"failed\"}, " CREATE "]}"),
                        "create 1, end failed");
    search_free(s);
}

static void test_custom__state_comes_back(void **state)
{
    (void)state;
    struct search *s = custom();
    struct buf saved = BUF_INIT(1 << 16);
    det_err err;
    start(s);
    answer(s, "{\"operations\": [" CREATE "], \"state\": {\"best\": [1, null, \"\\u00e9\"]}}");
    search_snapshot(s, &saved);
    struct search *copy = search_restore(
        config_of("searcher: {name: custom, command: [x], unit: batches}"), buf_str(&saved), &err);
    assert_non_null(copy);
    const struct doc *line = doc_of(ask(copy, (struct search_event){SEARCH_START}));
    assert_string_equal(as_json(doc_find(line, "state")), "{\"best\":[1,null,\"\u00e9\"]}");
    assert_string_equal(as_json(doc_find(line, "trials")), "1");
    buf_done(&saved);
    search_free(copy);
    search_free(s);
}

static void test_custom__refuses_nonsense(void **state)
{
    (void)state;
    static const struct {
        const char *answer, *message;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "an answer must be a map, not a list"},
        {"{\"operations\": 1}", "'operations' must be a list"},
        {"{\"progress\": \"x\"}", "'progress' must be a number"},
        {"{\"operations\": [1]}", "operations[0]: 'op' must be one of create"},
        {"{\"operations\": [" CREATE ", {\"op\": \"crate\"}]}", "operations[1]: 'op' must be one"},
        {"{\"operations\": [{\"op\": \"create\"}]}", "'hparams' must be a map"},
        {"{\"operations\": [{\"op\": \"close\", \"trial\": 2}]}",
         "'trial' must be a number from 1 to 1"},
        {"{\"operations\": [{\"op\": \"validate_after\", \"trial\": 1, \"length\": 9}]}",
         "'length' must be an integer of at least 10"},
        {"{\"operations\": [{\"op\": \"validate_after\", \"trial\": 1, \"length\": 10}, "
         "{\"op\": \"validate_after\", \"trial\": 1, \"length\": 20}]}",
         "operations[1]: trial 1 has an operation already"},
        {"{\"operations\": [{\"op\": \"close\", \"trial\": 1}, {\"op\": \"close\", \"trial\": 1}]}",
         "operations[1]: trial 1 has ended"},
        {"{\"operations\": [{\"op\": \"shutdown\", \"outcome\": 1}]}",
         "'outcome' must be completed, canceled or failed"},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct search *s = custom();
        start(s);
        answer(s, "{\"operations\": [" CREATE
                  ", {\"op\": \"validate_after\", \"trial\": 1, \"length\": 10}]}");
        validated(s, 1, 10, 1);
        const char *text = answer(s, cases[i].answer);
        if (!strstr(text, cases[i].message) || !strstr(text, "the answer of the search program: "))
            fail_msg("'%s' should have '%s'", text, cases[i].message);
        search_free(s);
    }
}

RUN_TESTS(DOC_TEST(test_custom__program_is_told_everything), DOC_TEST(test_custom__program_decides),
          DOC_TEST(test_custom__program_may_end_it), DOC_TEST(test_custom__state_comes_back),
          DOC_TEST(test_custom__refuses_nonsense))
