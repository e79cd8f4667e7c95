// Configurations as structs: what the other layers see.
#include "support/docs.h"

#include "base/assert.h"
#include "config/config.h"

static struct exp_config read_exp(const char *text)
{
    struct exp_config cfg;
    int rc = exp_config_read(&arena, str_from(text), &(struct config_opts){.source = "t.yaml"},
                             &cfg, &diags);
    if (rc) fail_msg("%s", take_diags(DIAG_ERROR));
    return cfg;
}

static struct exp_config with(const char *section)
{
    return read_exp(arena_printf(&arena, "entrypoint: a\nsearcher: {name: single}\n%s\n", section));
}

static void test_config__text_is_kept_as_it_is(void **state)
{
    (void)state;
    static const char text[] = "# mine\nentrypoint:   a\nsearcher: {name: single}\n";
    struct exp_config cfg = read_exp(text);
    assert_true(str_eqz(cfg.text, text));
}

static void test_config__entrypoints(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum entrypoint_kind kind;
    } cases[] = {
        {"model_def:MNistTrial", ENTRYPOINT_CLASS},
        {"a.b_2.c:X_1", ENTRYPOINT_CLASS},
        {"python3 train.py", ENTRYPOINT_SHELL},
        {"a:b:c", ENTRYPOINT_SHELL},
        {"a-b:C", ENTRYPOINT_SHELL},
        {"'a:'", ENTRYPOINT_SHELL},
        {"':b'", ENTRYPOINT_SHELL},
        {"[python3, train.py]", ENTRYPOINT_EXEC},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct exp_config cfg = read_exp(
            arena_printf(&arena, "entrypoint: %s\nsearcher: {name: single}\n", cases[i].text));
        assert_int_equal(cfg.entrypoint.kind, cases[i].kind);
    }
    struct exp_config cfg = read_exp("{entrypoint_script: [a, b c], searcher: {name: single}}");
    assert_int_equal(cfg.entrypoint.argv.n, 2);
    assert_string_equal(cfg.entrypoint.argv.items[1], "b c");
}

static void test_config__hyperparameters_are_a_sorted_tree(void **state)
{
    (void)state;
    struct exp_config cfg =
        with("hyperparameters:\n"
             "  b: {type: int, minval: -3, maxval: 4}\n"
             "  a: {z: 1, y: {type: log, base: 2, minval: 0, maxval: 3, count: 4}, x: {}}\n"
             "  B: {type: categorical, vals: [u, 2]}\n"
             "  c: {type: double, minval: 0, maxval: 0.5}\n");
    const struct hparam *root = &cfg.hyperparameters;
    assert_true(root->kind == HP_GROUP && root->group.n == 4);
    const struct hparam *big_b = &root->group.items[0], *a = &root->group.items[1];
    const struct hparam *b = &root->group.items[2], *c = &root->group.items[3];
    assert_string_equal(big_b->name, "B"); // bytes: capitals first
    assert_true(big_b->kind == HP_CATEGORICAL && big_b->categorical.n == 2);
    assert_string_equal(big_b->categorical.vals[0]->text.ptr, "u");
    assert_true(b->kind == HP_INT && b->integer.min == -3 && b->integer.max == 4 &&
                !b->count.is_set);
    assert_true(c->kind == HP_DOUBLE && c->real.max == 0.5);
    assert_true(a->kind == HP_GROUP && a->group.items[0].kind == HP_GROUP);
    const struct hparam *y = &a->group.items[1];
    assert_true(y->kind == HP_LOG && y->log.base == 2 && y->log.max == 3 && y->count.value == 4);
    assert_string_equal(hparam_path(y, &arena), "a.y");
    assert_string_equal(hparam_path(b, &arena), "b");
    const struct hparam **leaves;
    assert_int_equal(hparam_leaves(root, &arena, &leaves), 5);
}

static void test_config__searcher_lengths_of_all_eras(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum length_unit unit;
        int64_t amount;
    } cases[] = {
        {"max_steps: 20", LENGTH_BATCHES, 2000},
        {"target_trial_steps: 3", LENGTH_BATCHES, 300},
        {"max_length: {epochs: 50}", LENGTH_EPOCHS, 50},
        {"max_length: {records: 7}", LENGTH_RECORDS, 7},
        {"max_length: 12", LENGTH_UNITS, 12},
        {"time_metric: t, max_time: 9", LENGTH_TIME, 9},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct exp_config cfg = read_exp(arena_printf(
            &arena, "entrypoint: a\nsearcher: {name: adaptive_asha, max_trials: 5, %s}\n",
            cases[i].text));
        assert_int_equal(cfg.searcher.max_length.unit, cases[i].unit);
        assert_int_equal(cfg.searcher.max_length.amount, cases[i].amount);
        assert_int_equal(cfg.searcher.time_metric != NULL, cases[i].unit == LENGTH_TIME);
    }
    assert_int_equal(with("").searcher.max_length.unit, LENGTH_NONE);
}

static void test_config__a_single_search_is_one_trial(void **state)
{
    (void)state;
    struct exp_config cfg = with("");
    assert_int_equal(cfg.searcher.kind, SEARCHER_SINGLE);
    assert_int_equal(cfg.searcher.max_trials, 1);
    assert_int_equal(cfg.searcher.max_concurrent_trials, 1);
    assert_string_equal(searcher_kind_name(SEARCHER_SYNC_HALVING), "sync_halving");
}

static void test_config__sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n_bytes;
    } cases[] = {{"0", 0},
                 {"1024", 1024},
                 {"1e3", 1000},
                 {"'10'", 10},
                 {"1kB", 1024},
                 {"1 KiB", 1024},
                 {"2m", 2 << 20},
                 {"1.5 GB", 3 << 29},
                 {"1TiB", 1LL << 40},
                 {"1P", 1LL << 50},
                 {"7b", 7}};
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct exp_config cfg =
            with(arena_printf(&arena, "resources: {shm_size: %s}", cases[i].text));
        assert_true(cfg.resources.shm_bytes.is_set);
        assert_int_equal(cfg.resources.shm_bytes.value, cases[i].n_bytes);
    }
    static const char *const wrong[] = {"1.gb", "1.", ".5 GB", "1..5", "-1", "gb", "", "1 kg"};
    for (size_t i = 0; i < STATIC_LEN(wrong); i++) {
        struct exp_config cfg;
        const char *text = arena_printf(
            &arena, "{entrypoint: a, searcher: {name: single}, resources: {shm_size: '%s'}}",
            wrong[i]);
        assert_int_equal(exp_config_read(&arena, str_from(text), NULL, &cfg, &diags), DET_EINVAL);
        assert_non_null(strstr(take_diags(DIAG_ERROR), "a size such as '4 GiB'"));
    }
    static const char *const bad[] = {"-1",   "4 QB",     "x",    "''", "1  kB",
                                      "1kbb", "9999999P", "'+5'", "kB", "1.5"};
    for (size_t i = 0; i < STATIC_LEN(bad); i++) {
        struct exp_config cfg;
        const char *text = arena_printf(
            &arena, "{entrypoint: a, searcher: {name: single}, resources: {shm_size: %s}}", bad[i]);
        assert_int_equal(exp_config_read(&arena, str_from(text), NULL, &cfg, &diags), DET_EINVAL);
        assert_non_null(strstr(take_diags(DIAG_ERROR), "must be a number of bytes"));
    }
}

static void test_config__built_in_log_policies_can_be_replaced(void **state)
{
    (void)state;
    assert_int_equal(with("").log_policies.n, 2);
    struct exp_config cfg =
        with("log_policies: [{name: CUDA OOM}, {pattern: x, action: exclude_node}]");
    assert_int_equal(cfg.log_policies.n, 3);
    assert_null(cfg.log_policies.items[0].pattern);
    assert_int_equal(cfg.log_policies.items[1].action, LOG_EXCLUDE_NODE);
    assert_string_equal(cfg.log_policies.items[2].name, "ECC Error");
}

static void test_config__name_and_seed_come_from_outside(void **state)
{
    (void)state;
    struct exp_config cfg;
    static const char text[] = "entrypoint: a\nsearcher: {name: single}\n";
    struct config_opts opts = {.default_seed = 99, .default_name = "given"};
    assert_int_equal(exp_config_read(&arena, str_from(text), &opts, &cfg, &diags), 0);
    assert_int_equal(cfg.experiment_seed, 99);
    assert_string_equal(cfg.name, "given");
    opts.default_name = NULL;
    assert_int_equal(exp_config_read(&arena, str_from(text), &opts, &cfg, &diags), 0);
    assert_string_equal(cfg.name,
                        arena_printf(&arena, "Experiment (%s)", config_petname(&arena, 99)));
    assert_string_not_equal(config_petname(&arena, 1), config_petname(&arena, 2));
}

static void test_config__an_entrypoint_can_be_left_out_to_look_at_a_search(void **state)
{
    (void)state;
    struct exp_config cfg;
    struct config_opts opts = {.entrypoint_optional = true};
    assert_int_equal(exp_config_read(&arena, STR("searcher: {name: single}"), &opts, &cfg, &diags),
                     0);
    assert_int_equal(cfg.entrypoint.kind, ENTRYPOINT_NONE);
    assert_int_equal(exp_config_read(&arena, STR("{searcher: {name: single}, entrypoint: 5}"),
                                     &opts, &cfg, &diags),
                     DET_EINVAL);
}

static void test_config__too_wide_is_refused(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    buf_addz(&b, "entrypoint: a\nsearcher: {name: single}\nlabels:\n");
    for (int i = 0; i < 5001; i++)
        buf_printf(&b, "- l%d\n", i);
    struct exp_config cfg;
    assert_int_equal(exp_config_read(&arena, buf_str(&b), NULL, &cfg, &diags), DET_EINVAL);
    assert_string_equal(take_diags(DIAG_ERROR), "4:1: more than 5000 entries in one list or map\n");
    buf_done(&b);
}

static void test_config__errors_of_a_template_name_the_template(void **state)
{
    (void)state;
    struct exp_config cfg;
    struct config_text below = {.source = "template 'gpu'",
                                .text = STR("resources: {slots_per_trial: -1}\n")};
    struct config_opts opts = {.source = "mine.yaml", .below = &below, .n_below = 1};
    assert_int_equal(exp_config_read(&arena, STR("{entrypoint: a, searcher: {name: single}}"),
                                     &opts, &cfg, &diags),
                     DET_EINVAL);
    assert_string_equal(take_diags(DIAG_ERROR), "template 'gpu':1:30: resources.slots_per_trial: "
                                                "must be between 0 and 1000000, found -1\n");
}

static void test_config__an_empty_name_is_refused_unless_it_is_an_old_one(void **state)
{
    (void)state;
    struct exp_config cfg;
    struct str text = STR("{name: ' ', entrypoint: a, searcher: {name: single}}");
    struct config_opts opts = {.is_new = true};
    assert_int_equal(exp_config_read(&arena, text, &opts, &cfg, &diags), DET_EINVAL);
    assert_non_null(strstr(take_diags(DIAG_ERROR), "name: must not be empty"));
    assert_int_equal(exp_config_read(&arena, text, NULL, &cfg, &diags), 0);
}

// The reference is generated from the tables: every row needs a sentence, and must be reachable.
static void expect_good_rows(const struct field_table *table, const struct field *rows, size_t n,
                             const char *path);

static void expect_good_table(const struct field_table *table, const char *path)
{
    expect_good_rows(table, table->fields, table->n, path);
    for (size_t v = 0; v < table->n_variants; v++)
        expect_good_rows(table, table->variants[v].fields, table->variants[v].n, path);
}

static void expect_good_rows(const struct field_table *table, const struct field *rows, size_t n,
                             const char *path)
{
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &rows[i];
        const char *here = arena_printf(&arena, "%s.%s", path, f->name);
        struct str help = str_from(f->help);
        if (f->type != FIELD_REFUSED && (help.len < 8 || !str_ends(help, STR("."))))
            fail_msg("%s: the help must be a sentence, is '%s'", here, f->help);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(rows[k].name, f->name)) fail_msg("%s is there twice", here);
        if (f->into && !field_find(table, NULL, str_from(f->into)))
            fail_msg("%s leads nowhere", here);
        if (f->type == FIELD_TABLE) expect_good_table(f->table, here);
        const struct field *item = f->type == FIELD_LIST ? f->item : NULL;
        if (item && item->type == FIELD_TABLE) expect_good_table(item->table, here);
    }
}

static void test_config__every_field_is_documented(void **state)
{
    (void)state;
    expect_good_table(&exp_config_table, "");
    expect_good_table(&job_config_table, "");
}

RUN_TESTS(DOC_TEST(test_config__text_is_kept_as_it_is), DOC_TEST(test_config__entrypoints),
          DOC_TEST(test_config__hyperparameters_are_a_sorted_tree),
          DOC_TEST(test_config__searcher_lengths_of_all_eras),
          DOC_TEST(test_config__a_single_search_is_one_trial),
          DOC_TEST(test_config__sizes_have_units),
          DOC_TEST(test_config__built_in_log_policies_can_be_replaced),
          DOC_TEST(test_config__name_and_seed_come_from_outside),
          DOC_TEST(test_config__an_entrypoint_can_be_left_out_to_look_at_a_search),
          DOC_TEST(test_config__too_wide_is_refused),
          DOC_TEST(test_config__errors_of_a_template_name_the_template),
          DOC_TEST(test_config__an_empty_name_is_refused_unless_it_is_an_old_one),
          DOC_TEST(test_config__every_field_is_documented))
