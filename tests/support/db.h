// tests/support/db.h: a fresh database in a directory of its own for each test, and an arena.
//
//     RUN_TESTS(DB_TEST(test_db__x), DB_TEST(test_db__y))
#pragma once

#include "support/docs.h"

#include "db/db.h"
#include "sys/dir.h"
#include <sqlite3.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

static struct db *db;
static struct db_reader *reader;
static char db_dir[64], db_path[96];
static det_err err;

static inline void db_start(void)
{
    if (db_open(db_path, &db, &err)) fail_msg("%s", err.msg);
    if (db_reader_open(db, &reader, &err)) fail_msg("%s", err.msg);
}

static inline void db_stop(void)
{
    db_reader_close(reader);
    db_close(db);
    reader = NULL;
    db = NULL;
}

static inline int db_set_up(void **state)
{
    snprintf(db_dir, sizeof db_dir, "/tmp/det-test-db-XXXXXX");
    assert_non_null(mkdtemp(db_dir));
    snprintf(db_path, sizeof db_path, "%s/det.db", db_dir);
    db_start();
    return docs_set_up(state);
}

static inline int db_tear_down(void **state)
{
    det_err ignored;
    int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);
    db_stop();
    assert_int_equal(dir_remove(tmp, db_dir + strlen("/tmp/"), &ignored), 0);
    close(tmp);
    return docs_tear_down(state);
}

#define DB_TEST(f) cmocka_unit_test_setup_teardown(f, db_set_up, db_tear_down)

// What a transaction came to.
struct outcome {
    int n_calls, code;
    det_err err;
};

static inline void note_outcome(void *ctx, int code, const det_err *e)
{
    struct outcome *o = ctx;
    o->n_calls++;
    o->code = code;
    o->err = *e;
}

// Submits and waits.
static inline struct outcome run_tx(struct db_tx *tx)
{
    struct outcome o = {0};
    db_tx_submit(tx, note_outcome, &o);
    db_wait(db);
    assert_int_equal(o.n_calls, 1);
    return o;
}

static inline void must_run(struct db_tx *tx)
{
    struct outcome o = run_tx(tx);
    if (o.code) fail_msg("%s", o.err.msg);
}

// By another program than ours, while no database is open.
static inline void run_sql(const char *text)
{
    sqlite3 *sql;
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sql);
}
