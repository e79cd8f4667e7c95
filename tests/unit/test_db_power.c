// Power losses: what was acknowledged is there afterwards, and the file is whole. The disk is one
// that forgets what was not synced (support/power.h).
//
//     test_db_power [ROUNDS]
#include "support/db.h"

#include "support/power.h"
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/wait.h>

// What the process that lost its power had acknowledged; shared with its parent.
static struct {
    int64_t n_acked; // transactions
    int64_t n_calls; // of a round without a loss
} * seen;

static int n_rounds = 60;

static struct db_tx *nth_tx(int64_t i)
{
    char name[32], text[600];
    struct db_tx *tx = db_tx_new(db);
    struct log_line lines[40];
    snprintf(name, sizeof name, "%lld", (long long)i);
    snprintf(text, sizeof text, "text of %lld %0*d\n", (long long)i, (int)(i * 37 % 500) + 1, 7);
    db_setting_save(tx, name, text);
    for (int k = 0; k < 40; k++)
        lines[k] = (struct log_line){.trial_id = 1 + i % 3, .time_us = i, .log = text};
    db_logs_add(tx, lines, (size_t)(1 + i * 7 % 40));
    if (i % 20 == 19) db_logs_delete(tx, 1 + i % 3, i - 10);
    return tx;
}

// Transactions from a number on, each of them acknowledged when it is reported.
static void work(int64_t first, int64_t n)
{
    if (db_open(db_path, NULL, &db, &err)) _exit(1);
    db_keep_backups(db, arena_printf(&arena, "%s/backups", db_dir), 1);
    for (int64_t i = first; i < first + n; i++) {
        if (run_tx(nth_tx(i)).code) _exit(1);
        seen->n_acked = i + 1;
    }
    db_close(db);
}

static void run_child(uint64_t seed, int64_t n_calls, int64_t n)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        power_on(db_dir, seed, n_calls);
        work(seen->n_acked, n);
        seen->n_calls = power_n_calls();
        power_off();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!power_was_lost(status))
        fail_msg("seed %llu, call %lld: status %x", (unsigned long long)seed, (long long)n_calls,
                 (unsigned)status);
}

static void check_file(void)
{
    sqlite3 *sql;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sql, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    sqlite3_close(sql);
}

static const char *find(int64_t i)
{
    char name[32];
    const char *text;
    snprintf(name, sizeof name, "%lld", (long long)i);
    return db_setting_find(reader, name, &arena, &text, &err) ? NULL : text;
}

static void check_acked(uint64_t seed)
{
    db_start();
    db_wait_tidy(db);
    for (int64_t i = 0; i < seen->n_acked; i++) {
        const char *text = find(i);
        struct db_list list;
        if (!text)
            fail_msg("seed %llu: transaction %lld of %lld is lost", (unsigned long long)seed,
                     (long long)i, (long long)seen->n_acked);
        if (i + 40 < seen->n_acked) continue; // older ones may have been deleted
        const struct log_filter f = {.trial_id = 1 + i % 3, .search = text, .limit = 100};
        assert_int_equal(db_logs_list(reader, &f, &arena, &list, &err), 0);
        bool deleted = false;
        for (int64_t k = i; k < seen->n_acked + 1; k++)
            deleted |= k % 20 == 19 && k % 3 == i % 3 && i < k - 10;
        if (!deleted) assert_int_equal(list.n, 1 + i * 7 % 40);
    }
    if (find(seen->n_acked)) seen->n_acked++; // it was, and nobody had heard of it
    db_stop();
    check_file();
}

static void test_power__nothing_acknowledged_is_lost(void **state)
{
    (void)state;
    enum { N = 12, LIVES = 10 };
    db_stop();
    for (int round = 0; round < n_rounds; round++) {
        uint64_t seed = (uint64_t)round + 1;
        if (round % LIVES == 0) { // a new disk now and then, else the one of the last loss
            db_tear_down(state);
            db_set_up(state);
            db_stop();
            unlink(db_path);
            unlink(arena_printf(&arena, "%s-live", db_path));
            seen->n_acked = 0;
        }
        int64_t n_calls =
            seen->n_calls ? 1 + (int64_t)(seed * 2654435761u % (uint64_t)seen->n_calls) : 0;
        run_child(seed, n_calls, N);
        check_acked(seed);
    }
    db_start();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {DB_TEST(test_power__nothing_acknowledged_is_lost)};
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 1) n_rounds = (int)strtol(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
