// What is promised about the files: nothing is acknowledged that is kept nowhere; a damaged file is
// not written to; there are backups, and a way back.
#include "support/db.h"

#include "sys/fs.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

// --- helpers

static const char *beside(const char *suffix)
{
    return arena_printf(&arena, "%s%s", db_path, suffix);
}

static const char *backups(void)
{
    return arena_printf(&arena, "%s/backups", db_dir);
}

static struct db_tx *save(int i)
{
    char name[16];
    struct db_tx *tx = db_tx_new(db);
    snprintf(name, sizeof name, "%d", i);
    db_setting_save(tx, name, "x");
    return tx;
}

static bool is_saved(int i)
{
    char name[16];
    const char *text;
    snprintf(name, sizeof name, "%d", i);
    return !db_setting_find(reader, name, &arena, &text, &err);
}

static int count_saved(int n)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        k += is_saved(i);
    return k;
}

// Nobody writes meanwhile.
static void wait_until_broken(void)
{
    for (struct pollfd p = {.fd = db_fd(db), .events = POLLIN}; !db_is_broken(db);) {
        assert_int_equal(poll(&p, 1, 10000), 1);
        db_dispatch(db);
    }
}

static const char *wait_for_note(const char *part)
{
    static struct db_note note;
    for (struct pollfd p = {.fd = db_fd(db), .events = POLLIN};;) {
        while (db_next_note(db, &note))
            if (strstr(note.text, part)) return note.text;
        assert_int_equal(poll(&p, 1, 20000), 1);
        db_dispatch(db);
    }
}

static const char *recover(void)
{
    struct buf report = BUF_INIT(1 << 16);
    if (db_recover(db_path, backups(), &report, &err)) fail_msg("%s", err.msg);
    const char *text = arena_strdup(&arena, buf_str(&report).ptr);
    buf_done(&report);
    return text;
}

static size_t n_backups(void)
{
    struct dir_entries all = {0};
    int fd;
    if (dir_open(backups(), 0, &fd, NULL)) return 0;
    assert_int_equal(dir_list(fd, "backups", &arena, &all, &err), 0);
    close(fd);
    return all.n;
}

// --- files that are taken away

struct theft {
    void (*steal)(void);
    const char *said;
};

static void delete_database(void)
{
    assert_int_equal(unlink(db_path), 0);
}

static void delete_log(void)
{
    assert_int_equal(unlink(beside("-wal")), 0);
}

static void move_database(void)
{
    assert_int_equal(rename(db_path, beside(".moved")), 0);
}

static void replace_database(void)
{
    assert_int_equal(fs_create(beside(".other"), STR("something else"), &err), 0);
    assert_int_equal(rename(beside(".other"), db_path), 0);
}

static void cut_log(void)
{
    assert_int_equal(truncate(beside("-wal"), 100), 0);
}

static void cut_database(void)
{
    assert_int_equal(truncate(db_path, 0), 0);
}

static const struct theft thefts[] = {
    {delete_database, "is gone: it was deleted"},
    {delete_log, "is gone: it was deleted"},
    {move_database, "is gone: No such file"},
    {replace_database, "was replaced by another file"},
    {cut_log, "was cut from"},
    {cut_database, "was cut from"},
};

static void test_files__taken_away_are_noticed_before_the_next_acknowledgement(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof thefts / sizeof *thefts; i++) {
        if (i) db_set_up(state);
        must_run(save(0));
        db_stop(); // puts it into the file
        db_start();
        must_run(save(1)); // which is in the log
        thefts[i].steal();
        struct outcome o = run_tx(save(2));
        assert_int_equal(o.code, DET_EUNREACHABLE);
        assert_non_null(strstr(o.err.msg, thefts[i].said));
        assert_non_null(strstr(o.err.msg, "nothing is acknowledged any more"));
        assert_int_equal(db_refuses(db, &err), DET_EUNREACHABLE);
        assert_string_equal(err.msg, o.err.msg);
        if (i + 1 < sizeof thefts / sizeof *thefts) db_tear_down(state);
    }
}

static void test_files__taken_away_are_noticed_when_nobody_writes(void **state)
{
    (void)state;
    must_run(save(0));
    delete_log();
    wait_until_broken();
    assert_int_equal(run_tx(save(1)).code, DET_EUNREACHABLE);
}

// What is open is still all there.
static void test_files__taken_away_are_saved_and_come_back(void **state)
{
    (void)state;
    enum { N = 300 };
    for (size_t t = 0; t < 4; t++) { // those that leave the open files whole
        if (t) db_set_up(state);
        for (int i = 0; i < N / 2; i++)
            must_run(save(i));
        db_stop(); // some of it is in the file
        db_start();
        db_keep_backups(db, backups(), INT64_C(3600000000));
        for (int i = N / 2; i < N; i++)
            must_run(save(i));
        thefts[t].steal();
        wait_for_note("all that was acknowledged has been saved as");
        assert_int_equal(count_saved(N), N); // and can be read
        db_stop();
        assert_non_null(
            strstr(recover(), t == 1 ? "is newer, and takes its place" : "the newest backup is"));
        db_start();
        assert_int_equal(count_saved(N), N);
        must_run(save(N));
        if (t < 3) db_tear_down(state);
    }
}

static void test_files__of_others_are_left_alone(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 10);
    must_run(save(0));
    replace_database();
    unlink(beside("-wal"));
    assert_int_equal(fs_create(beside("-wal"), STR("their log"), &err), 0);
    wait_until_broken();
    db_stop();
    assert_int_equal(fs_read(beside("-wal"), &text, &err), 0);
    assert_string_equal(buf_str(&text).ptr, "their log");
    assert_int_equal(fs_read(db_path, &text, &err), 0);
    assert_string_equal(buf_str(&text).ptr, "something else");
    buf_done(&text);
    db_path[0] = 0; // nothing to open any more
    snprintf(db_path, sizeof db_path, "%s/new.db", db_dir);
    db_start();
}

static void write_and_be_killed(void)
{
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (!pid) {
        db_start();
        for (int i = 0; i < 50; i++)
            run_tx(save(i));
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void test_files__a_log_that_is_missing_after_a_kill_is_noticed(void **state)
{
    (void)state;
    struct db *other;
    db_stop();
    write_and_be_killed();
    assert_int_equal(unlink(beside("-wal")), 0);
    assert_int_equal(db_open(db_path, NULL, &other, &err), DET_ECORRUPT);
    assert_non_null(strstr(err.msg, "-wal' is missing"));
    assert_non_null(
        strstr(recover(), "what was acknowledged last before the master was killed is"));
    db_start();
    must_run(save(1));
    db_stop(); // in order: then there is no log, and nothing to be missed
    assert_int_equal(access(beside("-wal"), F_OK), -1);
    db_start();
    assert_true(is_saved(1));
}

// Somebody has looked at the database with another program, which puts the log into the file.
static void test_files__a_log_that_another_program_has_used_up_is_not_missed(void **state)
{
    (void)state;
    sqlite3 *sql;
    db_stop();
    write_and_be_killed();
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "SELECT * FROM settings", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sql);
    assert_int_equal(access(beside("-wal"), F_OK), -1);
    db_start();
    assert_int_equal(count_saved(50), 50);
}

// --- damage

static void fill(int n)
{
    for (int i = 0; i < n; i++) {
        struct db_tx *tx = db_tx_new(db);
        char name[32];
        snprintf(name, sizeof name, "user %d", i);
        db_user_save(tx, &(struct user){.id = i + 1, .username = name, .active = true});
        db_trial_save(tx, &(struct trial){.id = i + 1, .experiment_id = 1, .task_id = name});
        for (int k = 0; k < 20; k++)
            db_log_add(
                tx, &(struct log_line){.trial_id = i + 1, .log = "some text\n", .source = "task"});
        db_tx_submit(tx, NULL, NULL);
    }
    db_wait(db);
}

static void damage(int64_t at, size_t n)
{
    char bytes[4096];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 37 + 11);
    int fd = open(db_path, O_RDWR);
    assert_int_equal(pwrite(fd, bytes, n, at), n);
    close(fd);
}

static int64_t page_of(const char *table)
{
    sqlite3 *sql;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sql,
                                        "SELECT max(pageno) FROM dbstat WHERE name = ?1"
                                        " AND pagetype = 'leaf'",
                                        -1, &s, NULL),
                     SQLITE_OK);
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t page = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(sql);
    return page;
}

static struct buf read_database(void)
{
    struct buf out = BUF_INIT(64 << 20);
    assert_int_equal(fs_read(db_path, &out, &err), 0);
    return out;
}

static void test_damage__a_file_is_read_but_not_written(void **state)
{
    (void)state;
    struct user u;
    fill(500);
    db_stop();
    damage((page_of("trials") - 1) * 4096, 400);
    struct buf before = read_database();
    db_start();
    assert_int_equal(db_user_find(reader, 3, &arena, &u, &err), 0); // what is whole
    struct outcome o = run_tx(save(1));
    assert_int_equal(o.code, DET_EUNREACHABLE);
    assert_non_null(strstr(o.err.msg, "is damaged"));
    assert_true(db_is_damaged(db));
    db_stop();
    struct buf after = read_database();
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.ptr, after.ptr, after.len);
    buf_done(&before);
    buf_done(&after);
    recover();
    db_start();
}

static size_t count_trials(void)
{
    struct db_list list = {0};
    if (db_trials_list(reader, NULL, NULL, &arena, &list, &err)) fail_msg("%s", err.msg);
    return list.n;
}

static void test_damage__what_can_be_read_is_recovered(void **state)
{
    (void)state;
    fill(500);
    db_stop();
    damage((page_of("trials") - 1) * 4096, 400);
    const char *report = recover();
    assert_non_null(strstr(report, "is damaged: "));
    assert_non_null(strstr(report, "there is no backup"));
    assert_non_null(strstr(report, "users: 500, all"));
    assert_non_null(strstr(report, "trials: damaged; "));
    assert_non_null(strstr(report, "the damaged file is kept as"));
    db_start();
    size_t n = count_trials();
    assert_true(n > 300 && n < 500);
    must_run(save(1));
    assert_non_null(strstr((db_stop(), recover()), "is in order"));
    db_start();
}

static void test_damage__the_backup_has_what_cannot_be_read(void **state)
{
    (void)state;
    fill(500);
    db_keep_backups(db, backups(), INT64_C(3600000000));
    db_stop(); // makes one
    db_start();
    must_run(save(7)); // after the backup
    db_stop();
    damage((page_of("trials") - 1) * 4096, 400);
    const char *report = recover();
    assert_non_null(strstr(report, "are as they were in the backup"));
    db_start();
    assert_int_equal(count_trials(), 500);
    assert_true(is_saved(7));
}

static void test_damage__a_file_that_cannot_be_opened_is_taken_from_the_backup(void **state)
{
    (void)state;
    fill(100);
    db_keep_backups(db, backups(), INT64_C(3600000000));
    db_stop();
    damage(0, 4000);
    struct db *other;
    assert_int_equal(db_open(db_path, NULL, &other, &err), DET_ECORRUPT);
    assert_non_null(strstr(recover(), "what came after it is lost"));
    db_start();
    assert_int_equal(count_trials(), 100);
}

// SQLite does not look into texts. Whoever reads them says that they are damaged, which leads to recovery.
static void test_damage__a_state_that_is_not_known_is_called_damage(void **state)
{
    (void)state;
    struct db_list list = {0};
    fill(10);
    db_stop();
    run_sql("UPDATE trials SET state = 'STjTE_PAUSED' WHERE id = 3");
    db_start();
    assert_int_equal(db_trials_list(reader, NULL, NULL, &arena, &list, &err), DET_ECORRUPT);
    assert_non_null(strstr(err.msg, "is damaged: state is 'STjTE_PAUSED', which is not known"));
    db_stop();
    assert_non_null(strstr(recover(), "1 records of the table trials make no sense"));
    db_start();
    assert_int_equal(count_trials(), 9);
}

// Bytes of the schema itself: SQLite takes the file for whole.
static void test_damage__a_table_that_lost_its_name_is_missed(void **state)
{
    (void)state;
    fill(10);
    db_stop();
    run_sql("PRAGMA writable_schema = 1;"
            "UPDATE sqlite_schema SET name = 'log_chunkz', tbl_name = 'log_chunkz',"
            " sql = replace(sql, 'log_chunks', 'log_chunkz') WHERE tbl_name = 'log_chunks'");
    struct db *other;
    assert_int_equal(db_open(db_path, NULL, &other, &err), DET_ECORRUPT);
    const char *said = recover();
    assert_non_null(strstr(said, "the table log_chunks cannot be found"));
    assert_non_null(strstr(said, "log_chunks: damaged; 0 could be read"));
    assert_non_null(strstr(said, "trials: 10, all"));
    db_start();
    assert_int_equal(count_trials(), 10);
}

static void test_damage__without_anything_there_is_no_way_back(void **state)
{
    (void)state;
    struct buf report = BUF_INIT(1 << 16);
    fill(1);
    db_stop();
    damage(0, 4000);
    assert_int_equal(db_recover(db_path, backups(), &report, &err), DET_ENOTFOUND);
    assert_non_null(strstr(err.msg, "neither a database that can be read nor a backup"));
    buf_done(&report);
    unlink(db_path);
    unlink(beside("-live"));
    db_start();
}

// --- backups

static void test_backup__three_are_kept_and_none_without_a_change(void **state)
{
    (void)state;
    db_keep_backups(db, backups(), INT64_C(3600000000));
    for (int i = 0; i < 6; i++) {
        must_run(save(i));
        db_stop();
        db_start();
        db_keep_backups(db, backups(), INT64_C(3600000000));
    }
    assert_int_equal(n_backups(), 3);
    db_stop();
    assert_int_equal(n_backups(), 3);
    unlink(db_path);
    recover();
    db_start();
    assert_int_equal(count_saved(6), 6);
}

static void test_backup__is_made_while_others_write(void **state)
{
    (void)state;
    fill(2000);
    db_keep_backups(db, backups(), 1);
    for (int i = 0; !n_backups() && i < 100000; i++)
        must_run(save(i));
    assert_true(n_backups() > 0);
}

RUN_TESTS(DB_TEST(test_files__taken_away_are_noticed_before_the_next_acknowledgement),
          DB_TEST(test_files__taken_away_are_noticed_when_nobody_writes),
          DB_TEST(test_files__taken_away_are_saved_and_come_back),
          DB_TEST(test_files__of_others_are_left_alone),
          DB_TEST(test_files__a_log_that_is_missing_after_a_kill_is_noticed),
          DB_TEST(test_files__a_log_that_another_program_has_used_up_is_not_missed),
          DB_TEST(test_damage__a_file_is_read_but_not_written),
          DB_TEST(test_damage__what_can_be_read_is_recovered),
          DB_TEST(test_damage__the_backup_has_what_cannot_be_read),
          DB_TEST(test_damage__a_file_that_cannot_be_opened_is_taken_from_the_backup),
          DB_TEST(test_damage__a_state_that_is_not_known_is_called_damage),
          DB_TEST(test_damage__a_table_that_lost_its_name_is_missed),
          DB_TEST(test_damage__without_anything_there_is_no_way_back),
          DB_TEST(test_backup__three_are_kept_and_none_without_a_change),
          DB_TEST(test_backup__is_made_while_others_write))
