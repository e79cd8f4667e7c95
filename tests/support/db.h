// tests/support/db.h: a fresh database in a directory of its own for each test, and an arena.
//
//     RUN_TESTS(DB_TEST(test_db__x), DB_TEST(test_db__y))
//
// With DET_TEST_DB=postgresql://... the database of a test is a schema of its own in that server. A
// test of what only a file has begins with ONLY_FILES().
#pragma once

#include "support/docs.h"

#include "db/db.h"
#include "db/dialect.h"
#include "sys/dir.h"
#include <sqlite3.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <math.h>
#include <unistd.h>

static struct db *db;
static struct db_reader *reader;
static char db_dir[64], db_path[512], db_schema[64];
static int n_databases;
static det_err err;

#define ONLY_FILES()                       \
    do {                                   \
        if (getenv("DET_TEST_DB")) skip(); \
    } while (0)

// By another program than ours: what stands in the first row and column, as a number.
static inline int64_t ask_server(const char *where, const char *text)
{
    PGconn *conn = PQconnectdb(where);
    PGresult *r = PQexec(conn, text);
    int64_t x = 0;
    if (PQresultStatus(r) == PGRES_TUPLES_OK)
        x = PQntuples(r) ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : 0;
    else if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(r);
    PQfinish(conn);
    return x;
}

static inline int64_t ask_file(const char *text)
{
    sqlite3 *sql;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    sqlite3_busy_timeout(sql, 10000);
    if (sqlite3_prepare_v2(sql, text, -1, &s, NULL)) fail_msg("%s", sqlite3_errmsg(sql));
    int64_t x = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    sqlite3_close(sql);
    return x;
}

// In the words of db/dialect.h.
static inline int64_t ask_database(const char *text)
{
    bool on_server = getenv("DET_TEST_DB");
    struct buf words = BUF_INIT(1 << 16);
    dialect_write(on_server ? &postgres_dialect : &sqlite_dialect, str_from(text), &words);
    int64_t x =
        (on_server ? ask_server(db_path, buf_str(&words).ptr) : ask_file(buf_str(&words).ptr));
    buf_done(&words);
    return x;
}

static inline void ignore_standby(void *ctx, const char *holder)
{
    (void)ctx, (void)holder;
}

// A server takes a moment to see that the session of a killed process is over; like the master, we wait.
static inline void db_start(void)
{
    const struct db_opts opts = {.standby = ignore_standby};
    if (db_open(db_path, &opts, &db, &err)) fail_msg("%s", err.msg);
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
    if (getenv("DET_TEST_DB")) {
        char text[128];
        snprintf(db_schema, sizeof db_schema, "test_%d_%d", (int)getpid(), n_databases++);
        snprintf(text, sizeof text, "CREATE SCHEMA %s", db_schema);
        ask_server(getenv("DET_TEST_DB"), text);
        snprintf(db_path, sizeof db_path, "%s?options=-csearch_path%%3D%s", getenv("DET_TEST_DB"),
                 db_schema);
    }
    db_start();
    return docs_set_up(state);
}

static inline int db_tear_down(void **state)
{
    det_err ignored;
    int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);
    db_stop();
    if (getenv("DET_TEST_DB")) {
        char text[128];
        snprintf(text, sizeof text, "DROP SCHEMA %s CASCADE", db_schema);
        ask_server(getenv("DET_TEST_DB"), text);
    }
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
    ONLY_FILES();
    assert_int_equal(sqlite3_open(db_path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sql);
}
