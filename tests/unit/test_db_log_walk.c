// Places in a log: how many lines there are, where they are, which of them have a text; in slices,
// whatever the lines came in.
#include "support/db.h"

#include "base/rng.h"

enum { TRIAL = 1, OTHER = 2 };

static int n_made;

static void add(int64_t trial, int n)
{
    static const char *const words[] = {"loss", "Error", "epoch", "ERROR:", "x"};
    struct log_line *lines = arena_array(&arena, (size_t)n, sizeof *lines);
    struct db_tx *tx = db_tx_new(db);
    for (int i = 0; i < n; i++, n_made++)
        lines[i] =
            (struct log_line){.trial_id = trial,
                              .time_us = 1000 * n_made,
                              .level = n_made % 7 == 3 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
                              .rank = {true, n_made % 3},
                              .source = "task",
                              .stdtype = n_made % 2 ? "stdout" : "stderr",
                              .log = arena_printf(&arena, "%s of line %d %s", words[n_made % 5],
                                                  n_made, n_made % 1000 == 77 ? "needle" : "")};
    db_logs_add(tx, lines, (size_t)n);
    must_run(tx);
}

// Small pieces that are joined, large ones that are not, and another trial's lines in between.
static void fill(void)
{
    for (int i = 0; i < 60; i++) {
        int size = (int)rng_below(7, 0, (uint64_t)i, 4);
        add(TRIAL, size == 0 ? 1 : size == 1 ? 40 : size == 2 ? 600 : 4000);
        if (i % 3) add(OTHER, 1 + i);
    }
}

static struct db_list all_of(struct log_filter f)
{
    struct db_list list = {0};
    f.search = NULL;
    f.limit = 1000000;
    f.max_effort = 0;
    if (db_logs_list(reader, &f, &arena, &list, &err)) fail_msg("%s", err.msg);
    return list;
}

static bool has(const struct log_filter *f, const struct log_line *line)
{
    return f->any_case ? strcasestr(line->log, f->search) : strstr(line->log, f->search);
}

// A walk to the end finds what reading everything finds.
static size_t expect_walk(const struct log_filter *f)
{
    struct db_list all = all_of(*f);
    const struct log_line *lines = all.items;
    struct log_walk walk = {0};
    size_t n_slices = 0, n_found = 0, n_expected = 0;
    int64_t marked = -1;
    do {
        if (db_logs_walk(reader, f, &walk, &arena, &err)) fail_msg("%s", err.msg);
        for (size_t i = 0; i < walk.marks.n; i++) {
            const struct log_mark *m = &walk.marks.items[i];
            assert_true(m->line > marked && m->line < (int64_t)all.n);
            assert_int_equal(m->id, lines[m->line].id);
            marked = m->line;
        }
        for (size_t i = 0; i < walk.found.n; i++, n_found++) {
            const struct log_mark *m = &walk.found.items[i];
            assert_int_equal(m->id, lines[m->line].id);
            assert_true(has(f, &lines[m->line]));
        }
        n_slices++;
    } while (!walk.at_end);
    for (size_t i = 0; f->search && i < all.n; i++)
        n_expected += has(f, &lines[i]);
    assert_int_equal(walk.n_lines, all.n);
    assert_int_equal(n_found, n_expected);
    assert_true(all.n < 2000 || marked > 0);
    return n_slices;
}

static const struct doc *list_of(const char *text)
{
    struct doc *list = doc_new(&arena, DOC_LIST);
    doc_append(list, doc_new_str(&arena, text));
    return list;
}

static void test_walk__finds_what_reading_everything_finds(void **state)
{
    (void)state;
    fill();
    struct log_filter f = {.trial_id = TRIAL};
    expect_walk(&f);
    f.search = "needle";
    expect_walk(&f);
    f.search = "error";
    f.any_case = true;
    assert_true(expect_walk(&f) > 3); // many matches are given some at a time
    f.levels = list_of("LOG_LEVEL_ERROR");
    f.search = "needle";
    expect_walk(&f);
    f.search = NULL;
    f.stdtypes = list_of("stderr");
    f.max_effort = 100000;
    assert_true(expect_walk(&f) > 3);
    f.levels = f.stdtypes = NULL;
    f.search = "nothing like this";
    assert_true(expect_walk(&f) > 3);
}

static void test_walk__goes_on_where_it_was(void **state)
{
    (void)state;
    struct log_filter f = {.trial_id = TRIAL};
    struct log_walk walk = {0};
    for (int i = 0; i < 200; i++) {
        add(TRIAL, 1 + i % 90);
        if (i % 2) add(OTHER, 2);
        if (db_logs_walk(reader, &f, &walk, &arena, &err)) fail_msg("%s", err.msg);
        assert_true(walk.at_end);
        assert_int_equal(walk.n_lines, all_of(f).n);
    }
}

static void test_walk__of_an_empty_log(void **state)
{
    (void)state;
    struct log_filter f = {.trial_id = TRIAL, .search = "x"};
    struct log_walk walk = {0};
    assert_int_equal(db_logs_walk(reader, &f, &walk, &arena, &err), 0);
    assert_true(walk.at_end);
    assert_int_equal(walk.n_lines + (int64_t)walk.found.n + (int64_t)walk.marks.n, 0);
}

// Chunks of before lines were counted are counted when they are read, until that is done for good.
static void test_walk__of_an_older_file(void **state)
{
    (void)state;
    fill();
    struct log_filter f = {.trial_id = TRIAL};
    size_t n = all_of(f).n;
    db_stop();
    run_sql("UPDATE log_chunks SET nLines = NULL");
    db_start();
    expect_walk(&f);
    f.search = "needle";
    expect_walk(&f);
    db_wait_tidy(db);
    expect_walk(&f);
    f.search = NULL;
    assert_int_equal(all_of(f).n, n);
    db_stop();
    run_sql("DELETE FROM log_chunks WHERE nLines IS NULL"); // there are none
    db_start();
    assert_int_equal(all_of(f).n, n);
}

RUN_TESTS(DB_TEST(test_walk__finds_what_reading_everything_finds),
          DB_TEST(test_walk__goes_on_where_it_was), DB_TEST(test_walk__of_an_empty_log),
          DB_TEST(test_walk__of_an_older_file))
