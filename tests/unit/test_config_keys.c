// Every key of the tables is obeyed, or has no effect and says so, and no default says anything.
// scripts/check-fields looks whether the members of keys that are obeyed are read by anybody.
#include "support/docs.h"

#include "config/config.h"

// What a row of that type can hold, and differs from its default. Need not be right: what is wrong
// is reported besides.
static const char *other_value(const struct field *f)
{
    switch (f->type) {
    case FIELD_BOOL:
        return f->def && !strcmp(f->def, "true") ? "false" : "true";
    case FIELD_INT:
    case FIELD_OPT_INT:
    case FIELD_DOUBLE:
        return f->def && !strcmp(f->def, "3") ? "2" : "3";
    case FIELD_ENUM:
        return f->values[1];
    case FIELD_LIST:
        return f->item->type == FIELD_STR   ? "[a=b]"
               : f->item->type == FIELD_INT ? "[1]"
                                            : "[{a: b}]";
    case FIELD_MAP:
        return "{a: 1}";
    default:
        return "other";
    }
}

// A section that differs from its defaults.
static const char *other_section(const struct field_table *table)
{
    const struct field *f = table->fields;
    while (f->type >= FIELD_OLD)
        f++;
    const char *value = f->type == FIELD_TABLE ? other_section(f->table) : other_value(f);
    return arena_printf(&arena, "{%s: %s}", f->name, value);
}

// How many warnings say that the key has no effect, if a document of that table has it.
static int count_warnings(const struct field_table *table, const struct field_variant *v,
                          const struct field *f, const char *value)
{
    const char *tag = v && *v->tag ? arena_printf(&arena, "%s: %s, ", table->tag, v->tag) : "";
    const struct doc *doc = doc_of(arena_printf(&arena, "{%s%s: %s}", tag, f->name, value));
    struct diag_list said = DIAG_INIT(&arena);
    struct field_ctx ctx = {.arena = &arena, .diags = &said, .user = &(int64_t[4]){100}};
    const struct doc *normal = field_normalize(&ctx, table, doc);
    void *out = arena_alloc(&arena, table->size);
    if (normal) field_read(&ctx, table, normal, out);
    int n = 0;
    for (const struct diag *d = said.first; d; d = d->next)
        n += d->level == DIAG_WARNING && strstr(d->text, "has no effect. ") == d->text &&
             !strcmp(d->path, f->name);
    return n;
}

static int n_rows, n_without;

static void expect_table(const struct field_table *table, const char *path);

static void expect_row(const struct field_table *table, const struct field_variant *v,
                       const struct field *f, const char *path)
{
    const char *here = arena_printf(&arena, "%s.%s", path, f->name);
    const struct field *item = f->type == FIELD_LIST ? f->item : f;
    if (f->type >= FIELD_OLD) return; // these say what they are, or are another row's name
    n_rows++;
    n_without += f->no_effect != NULL;
    const char *value = f->type == FIELD_TABLE ? other_section(f->table) : other_value(f);
    int said = count_warnings(table, v, f, value);
    if (said != (f->no_effect != NULL)) fail_msg("%s: %s: %d warnings", here, value, said);
    if (f->no_effect && !str_ends(str_from(f->no_effect), STR(".")))
        fail_msg("%s: why it has no effect must be a sentence", here);
    const char *def = f->def && *f->def ? f->def : f->type == FIELD_STR && f->def ? "''" : "null";
    if (count_warnings(table, v, f, def)) fail_msg("%s: %s is its default", here, def);
    if (item->type == FIELD_TABLE && !f->no_effect) expect_table(item->table, here);
}

static void expect_table(const struct field_table *table, const char *path)
{
    for (size_t i = 0; i < table->n; i++)
        expect_row(table, NULL, &table->fields[i], path);
    for (size_t v = 0; v < table->n_variants; v++)
        for (size_t i = 0; i < table->variants[v].n; i++)
            expect_row(table, &table->variants[v], &table->variants[v].fields[i], path);
}

static void test_keys__are_obeyed_or_named_in_a_warning(void **state)
{
    (void)state;
    expect_table(&exp_config_table, "");
    expect_table(&job_config_table, "");
    assert_true(n_rows > 100 && n_without > 20);
}

static void test_keys__storage_that_would_lose_checkpoints_is_refused(void **state)
{
    (void)state;
    static const bool kept[] = {[STORAGE_DEFAULT] = true,
                                [STORAGE_SHARED_FS] = true,
                                [STORAGE_DIRECTORY] = true,
                                [STORAGE_AZURE] = false};
    det_err err;
    for (int kind = 0; kind <= STORAGE_AZURE; kind++) {
        struct storage_config s = {.kind = (enum storage_kind)kind};
        assert_int_equal(storage_check(&s, &err), kept[kind] ? 0 : DET_EUNSUPPORTED);
    }
    assert_non_null(strstr(err.msg, "azure is refused: det writes checkpoints to directories"));
}

static void expect_said(const char *original, const char *complete, const char *lines)
{
    struct diag_list said = DIAG_INIT(&arena);
    struct buf out = BUF_INIT(1 << 16);
    config_warnings(&arena, false, str_from(original), str_from(complete), &said);
    diag_print(&said, DIAG_WARNING, &out);
    assert_string_equal(buf_str(&out).ptr, lines);
    buf_done(&out);
}

#define RUNS "{entrypoint: a, searcher: {name: single}, "

static void test_warnings__are_found_again_in_the_texts_that_are_kept(void **state)
{
    (void)state;
    expect_said("{}", "{}", "");
    expect_said(RUNS "data_layer: {}}", RUNS "name: a}",
                "warning: data_layer: is ignored. It has no meaning any more.\n");
    expect_said(RUNS "debug: true}", RUNS "debug: true}",
                "warning: debug: has no effect. Programs decide by themselves how much they "
                "log.\n");
    expect_said("{}", RUNS "pbs: {slots_per_node: 4}}", // by a template
                "warning: pbs: has no effect. The master starts tasks by itself.\n");
}

static void test_warnings__are_about_what_was_asked_for(void **state)
{
    (void)state;
    expect_said(RUNS "resources: {resource_pool: default}}", "{}", "");
    expect_said(RUNS "environment: {environment_variables: [A=b]}}", "{}", "");
    expect_said(RUNS "resources: {slots: 2, slots_per_trial: 1}}", "{}",
                "warning: resources.slots: is ignored: it is for jobs (det job run); an experiment "
                "sets slots_per_trial\n");
    expect_said(RUNS "environment: {environment_variables: {gpu: [A=b]}}}", "{}",
                "warning: environment.environment_variables: variables for CUDA and ROCm devices "
                "have no effect. All slots are processors: set those of cpu, or one list for "
                "all.\n");
}

RUN_TESTS(DOC_TEST(test_keys__are_obeyed_or_named_in_a_warning),
          DOC_TEST(test_keys__storage_that_would_lose_checkpoints_is_refused),
          DOC_TEST(test_warnings__are_found_again_in_the_texts_that_are_kept),
          DOC_TEST(test_warnings__are_about_what_was_asked_for))
