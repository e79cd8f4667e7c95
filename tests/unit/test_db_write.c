// What is promised about writing: together or not at all, in order, durable when reported; a full
// disk loses nothing that was reported and is survived.
#include "support/db.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_write__a_refused_transaction_leaves_nothing(void **state)
{
    (void)state;
    const char *text;
    struct db_tx *tx = db_tx_new(db);
    db_user_save(tx, &(struct user){.id = 1, .username = "ann"});
    must_run(tx);
    tx = db_tx_new(db);
    db_setting_save(tx, "a", "1");
    db_user_save(tx, &(struct user){.id = 2, .username = "ann"});
    struct outcome o = run_tx(tx);
    assert_int_equal(o.code, DET_ESTATE);
    assert_string_equal(o.err.msg, "there is a user of that name already");
    assert_int_equal(db_setting_find(reader, "a", &arena, &text, &err), DET_ENOTFOUND);
    assert_false(db_is_broken(db));
}

static void test_write__others_of_the_batch_are_not_touched(void **state)
{
    (void)state;
    struct outcome o[3] = {{0}};
    const char *text;
    for (int i = 0; i < 3; i++) {
        struct db_tx *tx = db_tx_new(db);
        db_user_save(tx, &(struct user){.id = i, .username = i == 1 ? "0" : i ? "2" : "0"});
        db_setting_save(tx, i == 1 ? "bad" : "good", "x");
        db_tx_submit(tx, note_outcome, &o[i]);
    }
    db_wait(db);
    assert_int_equal(o[0].code, 0);
    assert_int_equal(o[1].code, DET_ESTATE);
    assert_int_equal(o[2].code, 0);
    assert_int_equal(db_setting_find(reader, "good", &arena, &text, &err), 0);
    assert_int_equal(db_setting_find(reader, "bad", &arena, &text, &err), DET_ENOTFOUND);
}

static void test_write__a_key_is_used_once(void **state)
{
    (void)state;
    bool used;
    for (int i = 0; i < 2; i++) {
        struct db_tx *tx = db_tx_new(db);
        db_key_use(tx, "k", 1000);
        db_setting_save(tx, "times", i ? "2" : "1");
        struct outcome o = run_tx(tx);
        assert_int_equal(o.code, i ? DET_ESTATE : 0);
    }
    const char *times;
    assert_int_equal(db_setting_find(reader, "times", &arena, &times, &err), 0);
    assert_string_equal(times, "1");
    assert_int_equal(db_key_find(reader, "k", &used, &err), 0);
    assert_true(used);
    struct db_tx *tx = db_tx_new(db);
    db_keys_forget(tx, 1001);
    must_run(tx);
    assert_int_equal(db_key_find(reader, "k", &used, &err), 0);
    assert_false(used);
}

static void test_write__a_journal_keeps_its_last_number(void **state)
{
    (void)state;
    static const int64_t numbers[] = {1, 3, 2};
    int64_t last = -1;
    assert_int_equal(db_journal_find(reader, "j", &last, &err), 0);
    assert_int_equal(last, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct db_tx *tx = db_tx_new(db);
        db_journal_use(tx, "j", numbers[i], 1000);
        must_run(tx);
    }
    assert_int_equal(db_journal_find(reader, "j", &last, &err), 0);
    assert_int_equal(last, 3);
    struct db_tx *tx = db_tx_new(db);
    db_keys_forget(tx, 1001);
    must_run(tx);
    assert_int_equal(db_journal_find(reader, "j", &last, &err), 0);
    assert_int_equal(last, 0);
}

static int n_done;

static void expect_order(void *ctx, int code, const det_err *e)
{
    (void)e;
    assert_int_equal(code, 0);
    assert_int_equal((intptr_t)ctx, n_done++);
}

static void test_write__reports_in_order_through_a_descriptor(void **state)
{
    (void)state;
    n_done = 0;
    for (intptr_t i = 0; i < 1000; i++) {
        struct db_tx *tx = db_tx_new(db);
        db_setting_save(tx, "i", "x");
        db_tx_submit(tx, expect_order, (void *)i);
    }
    while (n_done < 1000) {
        struct pollfd p = {.fd = db_fd(db), .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        db_dispatch(db);
    }
}

static void test_write__closing_does_what_was_submitted(void **state)
{
    (void)state;
    const char *text;
    for (int i = 0; i < 5000; i++) {
        struct db_tx *tx = db_tx_new(db);
        db_setting_save(tx, "last", i == 4999 ? "yes" : "no");
        db_tx_submit(tx, NULL, NULL);
    }
    db_stop();
    db_start();
    assert_int_equal(db_setting_find(reader, "last", &arena, &text, &err), 0);
    assert_string_equal(text, "yes");
}

static void test_write__files_are_private(void **state)
{
    (void)state;
    ONLY_FILES();
    struct stat st;
    struct db_tx *tx = db_tx_new(db);
    db_setting_save(tx, "a", "1");
    must_run(tx);
    assert_int_equal(stat(db_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char wal[128];
    snprintf(wal, sizeof wal, "%s-wal", db_path);
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

// Stands in for the calls of SQLite that write: the disk can be full, or broken.
static _Atomic bool disk_full, disk_broken;

static ssize_t failing_pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    errno = disk_full ? ENOSPC : EIO;
    return disk_full || disk_broken ? -1 : pwrite(fd, bytes, n, offset);
}

static int failing_set_up(void **state)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    disk_full = disk_broken = false;
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)failing_pwrite);
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)failing_pwrite);
    return db_set_up(state);
}

static int failing_tear_down(void **state)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    disk_full = disk_broken = false;
    int rc = db_tear_down(state);
    vfs->xSetSystemCall(vfs, NULL, NULL);
    return rc;
}

#define FAILING_TEST(f) cmocka_unit_test_setup_teardown(f, failing_set_up, failing_tear_down)

static struct db_tx *save(const char *name)
{
    struct db_tx *tx = db_tx_new(db);
    db_setting_save(tx, name, "x");
    return tx;
}

static bool is_saved(const char *name)
{
    const char *text;
    return !db_setting_find(reader, name, &arena, &text, &err);
}

static void test_write__a_full_disk_is_survived(void **state)
{
    (void)state;
    ONLY_FILES();
    struct outcome must = {0};
    must_run(save("before"));
    disk_full = true;
    struct outcome o = run_tx(save("during"));
    assert_int_equal(o.code, DET_ENOSPC);
    assert_string_equal(o.err.msg, "the disk that holds the database is full");
    assert_true(db_is_full(db));
    assert_true(is_saved("before"));
    db_tx_submit_must(save("must"), note_outcome, &must); // tells, and tries again
    db_wait(db);
    assert_int_equal(must.code, DET_ENOSPC);
    assert_false(is_saved("must"));
    disk_full = false;
    must_run(save("after"));
    assert_false(db_is_full(db));
    assert_true(is_saved("must"));
    assert_false(is_saved("during"));
    assert_int_equal(must.n_calls, 1);
    db_stop();
    db_start();
    assert_true(is_saved("before") && is_saved("must") && is_saved("after"));
}

// Nobody needs to write for the database to notice.
static void test_write__finds_out_that_there_is_space_again(void **state)
{
    (void)state;
    ONLY_FILES();
    disk_full = true;
    assert_int_equal(run_tx(save("a")).code, DET_ENOSPC);
    disk_full = false;
    for (struct pollfd p = {.fd = db_fd(db), .events = POLLIN}; db_is_full(db);) {
        assert_int_equal(poll(&p, 1, 10000), 1); // it reports after each attempt
        db_dispatch(db);
    }
}

static void test_write__after_an_error_of_the_disk_nothing_is_promised(void **state)
{
    (void)state;
    ONLY_FILES();
    must_run(save("before"));
    disk_broken = true;
    struct outcome o = run_tx(save("during"));
    assert_int_equal(o.code, DET_EUNREACHABLE);
    disk_broken = false; // one that lost something once is not believed again
    o = run_tx(save("after"));
    assert_int_equal(o.code, DET_EUNREACHABLE);
    assert_true(db_is_broken(db));
    db_stop();
    db_start();
    assert_true(is_saved("before"));
    assert_false(is_saved("after"));
}

// A child writes and tells each promise through a pipe until it is killed.
static void write_until_killed(int pipe_fd)
{
    for (int i = 0;; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        struct outcome o = run_tx(save(name));
        if (o.code || write(pipe_fd, &i, sizeof i) != sizeof i) _exit(1);
    }
}

static void test_write__what_was_promised_survives_kill(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        int ends[2], last = -1, status;
        db_stop();
        unlink(db_path);
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            db_start();
            write_until_killed(ends[1]);
        }
        close(ends[1]);
        for (int i = 0; i < 5 + 7 * round; i++)
            assert_int_equal(read(ends[0], &last, sizeof last), sizeof last);
        kill(pid, SIGKILL);
        while (read(ends[0], &last, sizeof last) == sizeof last) // promises on their way
            continue;
        close(ends[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        db_start();
        for (int i = 0; i <= last; i++) {
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            assert_true(is_saved(name));
        }
    }
}

static void test_close__gives_the_lock_back_before_it_returns(void **state)
{
    (void)state;
    if (!getenv("DET_TEST_DB")) skip();
    PGconn *other = PQconnectdb(getenv("DET_TEST_DB"));
    for (int i = 0; i < 20; i++) {
        db_stop();
        PGresult *r = PQexec(other, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
        assert_string_equal(PQgetvalue(r, 0, 0), "0");
        PQclear(r);
        db_start();
    }
    PQfinish(other);
}

static void test_open__brings_older_files_up_to_date_and_keeps_a_copy(void **state)
{
    (void)state;
    char copy[128];
    int64_t last;
    struct db_tx *tx = db_tx_new(db);
    db_setting_save(tx, "old", "kept");
    must_run(tx);
    db_stop();
    run_sql("DROP TABLE journals; DROP TABLE log_chunks; DROP TABLE discards;"
            "DROP TABLE experiment_labels;"
            "DROP TABLE samples; DROP TABLE metric_spans; DROP TABLE metric_chunks; DROP TABLE "
            "metric_due;"
            "ALTER TABLE experiments DROP COLUMN logRetentionDays;"
            "ALTER TABLE allocations DROP COLUMN assignedTime;"
            "ALTER TABLE allocations DROP COLUMN fromBatch; ALTER TABLE allocations DROP COLUMN "
            "toBatch;"
            "ALTER TABLE experiments DROP COLUMN private;"
            "DELETE FROM settings WHERE name = 'last_log_id';"
            "PRAGMA user_version = 1"); // as version 1 was
    db_start();
    db_wait_tidy(db);
    assert_true(is_saved("old"));
    assert_int_equal(db_journal_find(reader, "j", &last, &err), 0);
    snprintf(copy, sizeof copy, "%s.v1", db_path);
    assert_int_equal(access(copy, F_OK), 0);
}

static void test_open__refuses_newer_and_foreign_files(void **state)
{
    (void)state;
    struct db *other;
    db_stop();
    run_sql("PRAGMA user_version = 9999");
    assert_int_equal(db_open(db_path, NULL, &other, &err), DET_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "version 9999"));
    FILE *f = fopen(db_path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("this is no database\n", f);
    fclose(f);
    assert_int_equal(db_open(db_path, NULL, &other, &err), DET_ECORRUPT);
    unlink(db_path);
    assert_int_equal(db_open("/proc/nonexistent/x.db", NULL, &other, &err), DET_EIO);
    db_start();
}

RUN_TESTS(DB_TEST(test_write__a_refused_transaction_leaves_nothing),
          DB_TEST(test_write__others_of_the_batch_are_not_touched),
          DB_TEST(test_write__a_key_is_used_once),
          DB_TEST(test_write__a_journal_keeps_its_last_number),
          DB_TEST(test_write__reports_in_order_through_a_descriptor),
          DB_TEST(test_write__closing_does_what_was_submitted),
          DB_TEST(test_write__files_are_private), FAILING_TEST(test_write__a_full_disk_is_survived),
          FAILING_TEST(test_write__finds_out_that_there_is_space_again),
          FAILING_TEST(test_write__after_an_error_of_the_disk_nothing_is_promised),
          DB_TEST(test_write__what_was_promised_survives_kill),
          DB_TEST(test_close__gives_the_lock_back_before_it_returns),
          DB_TEST(test_open__brings_older_files_up_to_date_and_keeps_a_copy),
          DB_TEST(test_open__refuses_newer_and_foreign_files))
