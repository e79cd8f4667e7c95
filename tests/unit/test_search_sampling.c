// Random numbers and hyperparameters, drawn as NumPy and Determined draw them.
#include "support/search.h"

static const char *show_create(const struct search_op *op)
{
    char id[UUID_TEXT_BYTES];
    uuid_format(op->request_id, id);
    return arena_printf(&arena, "%s %lld %s", as_json(op->hparams), (long long)op->trial_seed, id);
}

static const struct search_op *nth_create(struct search_ops ops, size_t n)
{
    for (size_t i = 0; i < ops.n; i++)
        if (ops.items[i].kind == SEARCH_CREATE && n-- == 0) return &ops.items[i];
    fail_msg("too few trials were created");
    return NULL;
}

// The hyperparameters of the trials, with a fresh search of a seed.
static void expect_creates(const char *text, int seed, const char *const *expected, size_t n)
{
    struct search *s = search_new(
        config_of(arena_printf(&arena, "%sreproducibility: {experiment_seed: %d}", text, seed)));
    struct search_ops ops = start(s);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(show_create(nth_create(ops, i)), expected[i]);
    search_free(s);
}

static const char mnist[] = "searcher: {name: random, max_trials: 3, max_length: 1}\n"
                            "hyperparameters:\n"
                            "  learning_rate: {type: log, base: 10, minval: -5, maxval: -3}\n"
                            "  batch_size: {type: int, minval: 1, maxval: 64}\n";

static void test_sampling__is_that_of_determined(void **state)
{
    (void)state;
    static const char *const seed_0[] = {
        "{\"batch_size\":45,\"learning_rate\":0.00015335192657991558} 1491434855 "
        "c0cc21d8-43b3-4e9a-bb52-a2dbc3767d8b",
        "{\"batch_size\":10,\"learning_rate\":0.000176655593656432} 243580376 "
        "f2d66662-24b7-4570-973a-2b4c463c4be4",
        "{\"batch_size\":25,\"learning_rate\":3.5100442309980525e-05} 2061486254 "
        "c142487a-e67d-4eca-a74a-eacf57a86587",
    };
    static const char *const seed_42[] = {
        "{\"batch_size\":39,\"learning_rate\":0.0003918194347141737} 415968276 "
        "0e95f52e-6af4-43bb-87d4-99c7bcae4199",
    };
    expect_creates(mnist, 0, seed_0, 3);
    expect_creates(mnist, 42, seed_42, 1);
}

static void test_sampling__constants_draw_nothing(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "{\"a\":1,\"b\":{\"c\":\"x\"},\"d\":{}} 441365315 ac0a7f8c-2faa-4497-b5a6-16b7c0cc21d8",
    };
    expect_creates("searcher: {name: single, max_length: 1}\n"
                   "hyperparameters: {a: 1, b: {c: x}, d: {}}\n",
                   0, expected, 1);
}

static void test_sampling__draws_all_kinds_in_sorted_order(void **state)
{
    (void)state;
    struct search *s =
        search_new(config_of("searcher: {name: single, max_length: 1}\n"
                             "reproducibility: {experiment_seed: 0}\n"
                             "hyperparameters:\n"
                             "  log: {type: log, base: 10, minval: -2, maxval: 2}\n"
                             "  int: {type: int, minval: 0, maxval: 100}\n"
                             "  double: {type: double, minval: 0, maxval: 100}\n"
                             "  const: x\n"
                             "  cat: {type: categorical, vals: [0, 1, 2, 3, 4, 5, 6]}\n"));
    const struct search_op *op = nth_create(start(s), 0);
    assert_string_equal(as_json(op->hparams), "{\"cat\":4,\"const\":\"x\","
                                              "\"double\":59.28446182250183,\"int\":64,"
                                              "\"log\":2.5766385746135883}");
    // The next 64 bits, high word first, are 10051320526890433895: the first bytes of the
    // identifier.
    uint32_t high = 10051320526890433895u >> 32;
    for (int i = 0; i < 4; i++)
        assert_int_equal(op->request_id.bytes[i], (high >> (8 * i)) & 255);
    search_free(s);
}

static void test_sampling__range_of_one_value_draws_nothing(void **state)
{
    (void)state;
    struct search *a = search_new(config_of("searcher: {name: single}\n"
                                            "reproducibility: {experiment_seed: 3}\n"
                                            "hyperparameters:\n"
                                            "  a: {type: categorical, vals: [7]}\n"));
    struct search *b = search_new(config_of("searcher: {name: single}\n"
                                            "reproducibility: {experiment_seed: 3}\n"));
    assert_int_equal(nth_create(start(a), 0)->trial_seed, nth_create(start(b), 0)->trial_seed);
    search_free(a);
    search_free(b);
}

// Groups are walked through in sorted order too, so nesting changes nothing.
static void test_sampling__nested_is_as_flat(void **state)
{
    (void)state;
    static const char *const nested[] = {
        "{\"x\":{\"batch_size\":45,\"learning_rate\":0.00015335192657991558}} 1491434855 "
        "c0cc21d8-43b3-4e9a-bb52-a2dbc3767d8b",
    };
    expect_creates("searcher: {name: random, max_trials: 3, max_length: 1}\n"
                   "hyperparameters: {x: {\n"
                   "  learning_rate: {type: log, base: 10, minval: -5, maxval: -3},\n"
                   "  batch_size: {type: int, minval: 1, maxval: 64}}}\n",
                   0, nested, 1);
}

// NumPy: RandomState(42).randint(0, 10, 10) and RandomState(999).randint(0, 2**31, 3), which are
// Determined's own test values.
static void test_sampling__integers_are_masked_and_rejected(void **state)
{
    (void)state;
    static const int64_t small[] = {6, 3, 7, 4, 6, 9, 2, 6, 7, 4};
    static const int64_t large[] = {1303213504, 648491356, 118207333};
    struct buf text = BUF_INIT(1 << 12);
    buf_addz(&text, "searcher: {name: single}\nreproducibility: {experiment_seed: 42}\n"
                    "hyperparameters:\n");
    for (char c = 'a'; c < 'a' + 10; c++)
        buf_printf(&text, "  %c: {type: int, minval: 0, maxval: 9}\n", c);
    struct search *s = search_new(config_of(text.ptr));
    const struct doc *value = nth_create(start(s), 0)->hparams->first;
    for (size_t i = 0; i < STATIC_LEN(small); i++, value = value->next)
        assert_int_equal(value->integer, small[i]);
    search_free(s);
    s = search_new(config_of("searcher: {name: single}\nreproducibility: {experiment_seed: 999}\n"
                             "hyperparameters:\n"
                             "  a: {type: int, minval: 0, maxval: 2147483647}\n"
                             "  b: {type: int, minval: 0, maxval: 2147483647}\n"
                             "  c: {type: int, minval: 0, maxval: 2147483647}\n"));
    value = nth_create(start(s), 0)->hparams->first;
    for (size_t i = 0; i < STATIC_LEN(large); i++, value = value->next)
        assert_int_equal(value->integer, large[i]);
    search_free(s);
    buf_done(&text);
}

static void test_sampling__wide_ranges_use_64_bits(void **state)
{
    (void)state;
    struct search *s = search_new(
        config_of("searcher: {name: random, max_trials: 200, max_concurrent_trials: 0}\n"
                  "hyperparameters:\n"
                  "  a: {type: int, minval: -4000000000000000000, maxval: 4000000000000000000}\n"
                  "  b: {type: int, minval: -1, maxval: 4294967296}\n"));
    struct search_ops ops = start(s);
    bool above_32_bits = false;
    for (size_t i = 0; i < 200; i++) {
        const struct doc *hparams = nth_create(ops, i)->hparams;
        int64_t a = doc_find(hparams, "a")->integer, b = doc_find(hparams, "b")->integer;
        above_32_bits = above_32_bits || a > UINT32_MAX || a < -(int64_t)UINT32_MAX;
        assert_in_range(b + 1, 0, 4294967297);
    }
    assert_true(above_32_bits);
    search_free(s);
}

RUN_TESTS(DOC_TEST(test_sampling__is_that_of_determined),
          DOC_TEST(test_sampling__constants_draw_nothing),
          DOC_TEST(test_sampling__draws_all_kinds_in_sorted_order),
          DOC_TEST(test_sampling__range_of_one_value_draws_nothing),
          DOC_TEST(test_sampling__nested_is_as_flat),
          DOC_TEST(test_sampling__integers_are_masked_and_rejected),
          DOC_TEST(test_sampling__wide_ranges_use_64_bits))
