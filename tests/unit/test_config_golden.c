// Configurations next to what must come out of them: tests/golden/config/NAME.yaml and
// NAME.expected, which has the warnings and errors, and then the complete configuration if there
// was no error. NAME.below is a text of lower precedence. Names that start with "job-" are jobs.
// DET_UPDATE_GOLDEN=1 writes the expectations anew.
#include "support/docs.h"

#include "config/config.h"
#include <dirent.h>

#define FOLDER "tests/golden/config/"

static bool load(const char *name, const char *suffix, struct buf *out)
{
    char path[512], chunk[4096];
    snprintf(path, sizeof path, FOLDER "%s%s", name, suffix);
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_add(out, chunk, n);
    fclose(f);
    assert_true(buf_ok(out));
    return true;
}

static void save(const char *name, struct str text)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.expected", name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text.ptr, 1, text.len, f), text.len);
    fclose(f);
}

// The complete configuration, or NULL after errors.
static const struct doc *check(const char *name, struct str text, const struct config_opts *opts,
                               enum config_view view)
{
    if (!strncmp(name, "job-", 4)) {
        struct job_config job;
        return job_config_read(&arena, text, opts, &job, &diags)
                   ? NULL
                   : job_config_write(&arena, &job, view);
    }
    struct exp_config exp;
    return exp_config_read(&arena, text, opts, &exp, &diags) ? NULL
                                                             : exp_config_write(&arena, &exp, view);
}

// What was written must be accepted, and mean the same.
static void expect_round_trip(const char *name, struct str text, const struct config_opts *opts)
{
    const struct doc *first = check(name, text, opts, CONFIG_WHOLE);
    struct buf b = BUF_INIT(1 << 20);
    yaml_write(first, &b);
    const struct doc *second =
        check(name, buf_str(&b), &(struct config_opts){.default_name = "other"}, CONFIG_WHOLE);
    assert_non_null(second);
    assert_true(doc_equal(first, second));
    buf_done(&b);
}

static void run_case(const char *name)
{
    struct buf text = BUF_INIT(1 << 20), below = BUF_INIT(1 << 20);
    struct buf got = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20);
    assert_true(load(name, ".yaml", &text));
    struct config_opts opts = {.source = arena_printf(&arena, "%s.yaml", name), .default_seed = 1};
    struct config_text low;
    if (load(name, ".below", &below)) {
        low = (struct config_text){.source = "below", .text = buf_str(&below)};
        opts.below = &low;
        opts.n_below = 1;
    }
    const struct doc *doc = check(name, buf_str(&text), &opts, CONFIG_OWNER);
    diag_print(&diags, DIAG_WARNING, &got);
    diag_print(&diags, DIAG_ERROR, &got);
    if (doc) {
        yaml_write(doc, &got);
        expect_round_trip(name, buf_str(&text), &opts);
    }
    diags = DIAG_INIT(&arena);
    if (getenv("DET_UPDATE_GOLDEN")) save(name, buf_str(&got));
    assert_true(load(name, ".expected", &want));
    if (!str_eq(buf_str(&got), buf_str(&want)))
        fail_msg("%s: expected\n%s\nbut got\n%s", name, buf_str(&want).ptr, buf_str(&got).ptr);
    buf_done(&text);
    buf_done(&below);
    buf_done(&got);
    buf_done(&want);
}

static void test_config__golden_files(void **state)
{
    (void)state;
    DIR *d = opendir(FOLDER);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct str file = str_from(e->d_name);
        if (!str_ends(file, STR(".yaml"))) continue;
        run_case(arena_strndup(&arena, file.ptr, file.len - 5));
        n++;
    }
    closedir(d);
    assert_true(n >= 50);
}

RUN_TESTS(DOC_TEST(test_config__golden_files))
