// Logs: kept in chunks of packed lines, found by number, time, level, rank, origin and text; moved
// from older files without changing a number; deleted so that the disk has the space again.
#include "support/db.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>

// --- helpers

static struct log_line a_line(int64_t trial, int i, const char *text)
{
    static const char *const streams[] = {"stdout", "stderr", NULL};
    return (struct log_line){.trial_id = trial,
                             .time_us = 1000000 + 1000 * i,
                             .level = i % 7 == 3 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
                             .rank = {i % 5 != 4, i % 5},
                             .allocation_id = "1.1.1",
                             .source = i % 11 == 5 ? "shim" : "task",
                             .stdtype = streams[i % 3],
                             .log = text};
}

// Lines first to last - 1 in one transaction, as a page of a task's output would be.
static void add_lines(int64_t trial, int first, int last)
{
    struct arena a = ARENA_INIT;
    struct log_line *lines = arena_array(&a, (size_t)(last - first), sizeof *lines);
    struct db_tx *tx = db_tx_new(db);
    for (int i = first; i < last; i++)
        lines[i - first] =
            a_line(trial, i, arena_printf(&a, "line %d of trial %lld\n", i, (long long)trial));
    db_logs_add(tx, lines, (size_t)(last - first));
    must_run(tx);
    arena_done(&a);
}

static struct db_list list_of(const struct log_filter *filter)
{
    struct db_list list = {0};
    if (db_logs_list(reader, filter, &arena, &list, &err)) fail_msg("%s", err.msg);
    return list;
}

static const struct log_line *line_at(const struct db_list *list, size_t i)
{
    return &((const struct log_line *)list->items)[i];
}

static void expect_lines(int64_t trial, int n, int64_t first_id)
{
    struct db_list list = list_of(&(struct log_filter){.trial_id = trial, .limit = 1000000});
    assert_int_equal(list.n, n);
    assert_int_equal(list.next, 0);
    for (int i = 0; i < n; i++) {
        char text[64];
        const struct log_line *l = line_at(&list, (size_t)i);
        struct log_line wanted = a_line(trial, i, text);
        snprintf(text, sizeof text, "line %d of trial %lld\n", i, (long long)trial);
        assert_string_equal(l->log, wanted.log);
        assert_int_equal(l->id, first_id + i);
        assert_int_equal(l->trial_id, trial);
        assert_int_equal(l->time_us, wanted.time_us);
        assert_int_equal(l->level, wanted.level);
        assert_int_equal(l->rank.is_set, wanted.rank.is_set);
        if (l->rank.is_set) assert_int_equal(l->rank.value, wanted.rank.value);
        assert_string_equal(l->source, wanted.source);
        assert_string_equal(l->allocation_id, "1.1.1");
        assert_null(l->agent_id);
        assert_int_equal(!l->stdtype, !wanted.stdtype);
        if (l->stdtype) assert_string_equal(l->stdtype, wanted.stdtype);
    }
}

// --- writing and reading

static void test_logs__come_back_as_they_were(void **state)
{
    (void)state;
    add_lines(1, 0, 1);
    expect_lines(1, 1, 1);
    add_lines(1, 1, 20000);
    expect_lines(1, 20000, 1);
    db_stop();
    db_start();
    expect_lines(1, 20000, 1);
    add_lines(1, 20000, 20001);
    expect_lines(1, 20001, 1);
}

static void test_logs__take_less_than_half_of_their_text(void **state)
{
    (void)state;
    ONLY_FILES();
    add_lines(1, 0, 50000);
    int64_t text = ask_database("SELECT sum(nBytes) FROM log_chunks");
    int64_t disk = ask_file("SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'log_chunks%'");
    assert_true(text > 1000000);
    assert_true(disk < text / 2);
}

// A task that prints now and then.
static void test_logs__line_by_line_become_few_chunks(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++)
        add_lines(1, i, i + 1);
    expect_lines(1, 2000, 1);
    assert_true(ask_database("SELECT count(*) FROM log_chunks") < 40);
    add_lines(1, 2000, 9000); // what is full comes after what is small
    expect_lines(1, 9000, 1);
    assert_int_equal(ask_database("SELECT count(*) FROM log_chunks WHERE open = 1"), 0);
    add_lines(1, 9000, 9001);
    expect_lines(1, 9001, 1);
}

static void test_logs__of_many_trials_have_numbers_in_one_row(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        for (int64_t trial = 1; trial <= 3; trial++)
            add_lines(trial, i, i + 1);
    struct db_list list = list_of(&(struct log_filter){.trial_id = 2});
    assert_int_equal(list.n, 100);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(line_at(&list, i)->id, 2 + 3 * i);
    list = list_of(&(struct log_filter){.trial_id = 2, .after_id = 100, .limit = 10});
    assert_int_equal(list.n, 10);
    assert_int_equal(line_at(&list, 0)->id, 101);
}

// The filters of db_logs_list() against all lines, one by one.
static bool should_match(const struct log_filter *f, int i, const char *level, int rank,
                         const char *source, const char *stdtype)
{
    char text[64];
    struct log_line l = a_line(f->trial_id, i, text);
    snprintf(text, sizeof text, "line %d of trial %lld\n", i, (long long)f->trial_id);
    return (!f->after_id || i + 1 > f->after_id) && (!f->before_id || i + 1 < f->before_id) &&
           (!f->after_us || l.time_us > f->after_us) &&
           (!f->before_us || l.time_us < f->before_us) &&
           (!level || !strcmp(log_level_names[l.level], level)) &&
           (rank < 0 || (l.rank.is_set && l.rank.value == rank)) &&
           (!source || !strcmp(l.source, source)) &&
           (!stdtype || (l.stdtype && !strcmp(l.stdtype, stdtype))) &&
           (!f->search || strstr(text, f->search));
}

static void test_logs__filters_agree_with_every_line(void **state)
{
    (void)state;
    enum { N = 10000 };
    add_lines(1, 0, N / 2);
    for (int i = N / 2; i < N / 2 + 50; i++)
        add_lines(1, i, i + 1);
    add_lines(1, N / 2 + 50, N);
    const struct {
        struct log_filter filter;
        const char *level;
        int rank;
        const char *source, *stdtype;
    } cases[] = {
        {{0}, NULL, -1, NULL, NULL},
        {{.after_id = 17}, NULL, -1, NULL, NULL},
        {{.before_id = 9000}, NULL, -1, NULL, NULL},
        {{.after_id = 3000, .before_id = 3001}, NULL, -1, NULL, NULL},
        {{.after_id = 3000, .before_id = 7000}, "LOG_LEVEL_ERROR", -1, NULL, NULL},
        {{.after_us = 3000000, .before_us = 3100000}, NULL, -1, NULL, NULL},
        {{.search = "line 77"}, NULL, -1, NULL, NULL},
        {{.search = "nowhere"}, NULL, -1, NULL, NULL},
        {{.search = "of trial 1"}, NULL, 2, "shim", NULL},
        {{0}, NULL, 3, NULL, "stderr"},
        {{0}, NULL, 70, NULL, NULL},
        {{0}, NULL, -1, "elsewhere", NULL},
    };
    for (size_t c = 0; c < 2 * (sizeof cases / sizeof *cases); c++) {
        struct log_filter f = cases[c / 2].filter;
        f.trial_id = 1;
        f.limit = N;
        f.newest_first = c % 2;
        if (cases[c / 2].level) f.levels = doc_of(arena_printf(&arena, "[%s]", cases[c / 2].level));
        if (cases[c / 2].rank >= 0)
            f.ranks = doc_of(arena_printf(&arena, "[%d]", cases[c / 2].rank));
        if (cases[c / 2].source)
            f.sources = doc_of(arena_printf(&arena, "[%s]", cases[c / 2].source));
        if (cases[c / 2].stdtype)
            f.stdtypes = doc_of(arena_printf(&arena, "[%s]", cases[c / 2].stdtype));
        struct db_list list = list_of(&f);
        size_t n = 0;
        for (int k = 0; k < N; k++) {
            int i = f.newest_first ? N - 1 - k : k;
            if (!should_match(&f, i, cases[c / 2].level, cases[c / 2].rank, cases[c / 2].source,
                              cases[c / 2].stdtype))
                continue;
            assert_true(n < list.n);
            assert_int_equal(line_at(&list, n++)->id, i + 1);
        }
        assert_int_equal(n, list.n);
    }
}

static void test_logs__page_by_page(void **state)
{
    (void)state;
    add_lines(1, 0, 5000);
    for (int down = 0; down < 2; down++) {
        struct log_filter f = {.trial_id = 1, .limit = 700, .newest_first = down};
        int64_t n = 0;
        for (struct db_list list; (list = list_of(&f)).n;) {
            for (size_t i = 0; i < list.n; i++, n++)
                assert_int_equal(line_at(&list, i)->id, down ? 5000 - n : n + 1);
            *(down ? &f.before_id : &f.after_id) = line_at(&list, list.n - 1)->id;
        }
        assert_int_equal(n, 5000);
    }
}

// A search through a long log is done in steps, each of which ends soon, found or not.
static void test_logs__a_search_ends_when_its_effort_is_spent(void **state)
{
    (void)state;
    add_lines(1, 0, 20000);
    struct log_filter f = {.trial_id = 1, .search = "line 19999", .max_effort = 100000};
    int n_steps = 0;
    struct db_list list;
    do {
        list = list_of(&f);
        f.after_id = list.next;
        n_steps++;
    } while (!list.n && list.next);
    assert_int_equal(list.n, 1);
    assert_int_equal(line_at(&list, 0)->id, 20000);
    assert_true(n_steps > 3);
}

static void test_logs__a_damaged_chunk_is_named_and_stops_nobody(void **state)
{
    (void)state;
    ONLY_FILES();
    struct db_list list;
    add_lines(1, 0, 5000);
    sqlite3 *sql;
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(sql,
                     "UPDATE log_chunks SET lines = substr(lines, 1, 300) || x'0000' ||"
                     " substr(lines, 303) WHERE id = 1",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(sql);
    struct log_filter f = {.trial_id = 1, .limit = 10000};
    assert_int_equal(db_logs_list(reader, &f, &arena, &list, &err), DET_ECORRUPT);
    assert_non_null(strstr(err.msg, "lines 1 to "));
    assert_non_null(strstr(err.msg, "of the log of trial 1 are damaged"));
    f.after_id = 4000;
    assert_int_equal(list_of(&f).n, 1000);
    add_lines(1, 5000, 5010);
    assert_int_equal(list_of(&f).n, 1010);
}

static void test_logs__many_empty_lines(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct log_line *lines = arena_array(&arena, N, sizeof *lines);
    for (int i = 0; i < N; i++)
        lines[i] = (struct log_line){.trial_id = 1, .log = "", .source = i % 2 ? "a" : "b"};
    struct db_tx *tx = db_tx_new(db);
    db_logs_add(tx, lines, N);
    must_run(tx);
    assert_int_equal(list_of(&(struct log_filter){.trial_id = 1, .limit = N}).n, N);
}

// --- deleting

static void test_logs__deleting_by_time_is_exact(void **state)
{
    (void)state;
    add_lines(1, 0, 10000);
    struct db_tx *tx = db_tx_new(db);
    db_logs_delete(tx, 1, 1000000 + 1000 * 7777);
    must_run(tx);
    db_wait_tidy(db);
    struct db_list list = list_of(&(struct log_filter){.trial_id = 1, .limit = 10000});
    assert_int_equal(list.n, 10000 - 7777);
    assert_int_equal(line_at(&list, 0)->id, 7778);
    add_lines(1, 10000, 10001);
    assert_int_equal(list_of(&(struct log_filter){.trial_id = 1, .after_id = 10000}).n, 1);
}

static void delete_experiment(int64_t id)
{
    struct db_tx *tx = db_tx_new(db);
    db_experiment_delete(tx, id);
    must_run(tx);
    db_wait_tidy(db);
}

static void save_trial(int64_t id)
{
    struct db_tx *tx = db_tx_new(db);
    db_trial_save(tx, &(struct trial){.id = id, .experiment_id = id, .task_id = "t"});
    must_run(tx);
}

static void test_logs__numbers_are_never_given_again(void **state)
{
    (void)state;
    int64_t next[3];
    save_trial(1);
    add_lines(1, 0, 500);
    delete_experiment(1);
    assert_int_equal(list_of(&(struct log_filter){.trial_id = 1}).n, 0);
    db_stop();
    db_start();
    add_lines(1, 0, 1);
    assert_int_equal(
        line_at(&(struct db_list[]){list_of(&(struct log_filter){.trial_id = 1})}[0], 0)->id, 501);
    assert_int_equal(db_next_ids(reader, &next[0], &next[1], &next[2], &err), 0);
}

// Text that cannot be compressed: what it takes on disk is what is given back.
static void add_noise(int64_t trial, int64_t n_bytes)
{
    uint64_t x = 88172645463325252ULL;
    while (n_bytes > 0) {
        struct arena a = ARENA_INIT;
        enum { N = 200, LENGTH = 1000 };
        struct log_line *lines = arena_array(&a, N, sizeof *lines);
        for (int i = 0; i < N; i++) {
            char *text = arena_alloc(&a, LENGTH + 1);
            for (int k = 0; k < LENGTH; k++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                text[k] = (char)(' ' + x % 90);
            }
            lines[i] = a_line(trial, i, text);
        }
        struct db_tx *tx = db_tx_new(db);
        db_logs_add(tx, lines, N);
        must_run(tx);
        n_bytes -= N * LENGTH;
        arena_done(&a);
    }
}

static int64_t disk_bytes(void)
{
    struct stat st;
    assert_int_equal(stat(db_path, &st), 0);
    return (int64_t)st.st_blocks * 512;
}

static void test_logs__deleted_ones_give_their_space_back(void **state)
{
    (void)state;
    ONLY_FILES();
    save_trial(1);
    add_lines(2, 0, 1000);
    add_noise(1, 20 << 20);
    add_lines(2, 1000, 2000);
    db_stop(); // all of it is in the file
    db_start();
    assert_true(disk_bytes() > 15 << 20);
    delete_experiment(1);
    assert_true(disk_bytes() < 5 << 20);
    assert_int_equal(list_of(&(struct log_filter){.trial_id = 2, .limit = 9999}).n, 2000);
}

// A file that SQLite cannot make shorter, as older versions made them.
static void test_logs__deleted_ones_give_their_space_back_in_older_files(void **state)
{
    (void)state;
    ONLY_FILES();
    db_stop();
    sqlite3 *sql;
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "PRAGMA auto_vacuum = NONE; VACUUM", NULL, NULL, NULL), 0);
    sqlite3_close(sql);
    db_start();
    save_trial(1);
    add_lines(2, 0, 1000);
    add_noise(1, 20 << 20);
    add_lines(2, 1000, 2000);
    db_stop();
    db_start();
    assert_int_equal(ask_file("PRAGMA auto_vacuum"), 0);
    assert_true(disk_bytes() > 15 << 20);
    delete_experiment(1);
    assert_true(disk_bytes() < 5 << 20);
    assert_int_equal(ask_file("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    add_noise(3, 10 << 20); // into the holes
    db_stop();
    db_start();
    assert_int_equal(list_of(&(struct log_filter){.trial_id = 2, .limit = 9999}).n, 2000);
    assert_int_equal(list_of(&(struct log_filter){.trial_id = 3, .limit = 99999}).n, 10600);
}

RUN_TESTS(DB_TEST(test_logs__come_back_as_they_were),
          DB_TEST(test_logs__take_less_than_half_of_their_text),
          DB_TEST(test_logs__line_by_line_become_few_chunks),
          DB_TEST(test_logs__of_many_trials_have_numbers_in_one_row),
          DB_TEST(test_logs__filters_agree_with_every_line), DB_TEST(test_logs__page_by_page),
          DB_TEST(test_logs__a_search_ends_when_its_effort_is_spent),
          DB_TEST(test_logs__a_damaged_chunk_is_named_and_stops_nobody),
          DB_TEST(test_logs__many_empty_lines), DB_TEST(test_logs__deleting_by_time_is_exact),
          DB_TEST(test_logs__numbers_are_never_given_again),
          DB_TEST(test_logs__deleted_ones_give_their_space_back),
          DB_TEST(test_logs__deleted_ones_give_their_space_back_in_older_files))
