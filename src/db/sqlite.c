// Unit sqlite.c: SQLite as an engine: connections, statements, and its errors as ours.
#include "db/sqlite.h"

int sqlite_fail(sqlite3 *sql, int rc, det_err *err)
{
    int code = DET_EIO;
    switch (rc & 0xFF) {
    case SQLITE_FULL:
        return det_fail(err, DET_ENOSPC, "the disk that holds the database is full");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: // all statements are ours: what they name is not there any more
        code = DET_ECORRUPT;
        break;
    case SQLITE_CONSTRAINT:
        code = DET_ESTATE;
        break;
    case SQLITE_TOOBIG:
        code = DET_ELIMIT;
        break;
    }
    return det_fail(err, code, "the database %s: %s", code == DET_ECORRUPT ? "is damaged" : "says",
                    sql ? sqlite3_errmsg(sql) : "no memory");
}

struct connection sqlite_connection(sqlite3 *sql)
{
    return (struct connection){.backend = &sqlite_backend, .sql = sql};
}

struct rows sqlite_row(sqlite3_stmt *s)
{
    static struct connection any = {.backend = &sqlite_backend};
    return (struct rows){.c = &any, .handle = s, .is_kept = true};
}

// --- a connection

// FULL: a commit is synced, not only ordered. Without it a power loss takes acknowledged writes.
// The way in which free pages are given back can only be chosen while a file is empty, and must be
// chosen before its mode. The writer copies the log into the file itself (see sqlite_store.c).
static const char setup[] = "PRAGMA auto_vacuum = INCREMENTAL;"
                            "PRAGMA journal_mode = WAL;"
                            "PRAGMA synchronous = FULL;"
                            "PRAGMA wal_autocheckpoint = 0;"
                            "PRAGMA journal_size_limit = 16777216;"
                            "PRAGMA temp_store = MEMORY;"
                            "PRAGMA cache_size = -16000;";

static const char setup_read_only[] = "PRAGMA query_only = 1; PRAGMA cache_size = -16000;";

void sqlite_forget_statements(struct connection *c)
{
    for (int i = 0; i < N_STATEMENT; i++)
        sqlite3_finalize(c->statements[i]);
    memset(c->statements, 0, sizeof c->statements);
}

static void close_it(struct connection *c)
{
    sqlite_forget_statements(c);
    sqlite3_close(c->sql);
}

static int open_it(struct connection *c, const char *path, bool read_only, det_err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (read_only ? 0 : SQLITE_OPEN_CREATE);
    int rc = sqlite3_open_v2(path, &c->sql, flags, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(c->sql, 1);
        sqlite3_busy_timeout(c->sql, DB_BUSY_MS);
        sqlite3_db_config(c->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        rc = sqlite3_exec(c->sql, read_only ? setup_read_only : setup, NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) return 0;
    int code = sqlite_fail(c->sql, rc, err);
    det_wrap(err, "cannot open '%s'", path);
    close_it(c);
    return code;
}

// --- statements

// Prepared at first use; reset and without values. NULL after an error, which is SQLite's.
static sqlite3_stmt *find_statement(struct connection *c, enum statement id)
{
    sqlite3_stmt *s = c->statements[id];
    if (s) {
        sqlite3_reset(s);
        sqlite3_clear_bindings(s);
        return s;
    }
    struct buf text = BUF_INIT(1 << 16);
    statement_write(id, &sqlite_dialect, &text);
    sqlite3_prepare_v3(c->sql, buf_str(&text).ptr, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    buf_done(&text);
    c->statements[id] = s;
    return s;
}

static int bind(sqlite3_stmt *s, int index, const struct value *v)
{
    switch (v->kind) {
    case VALUE_INT:
        return sqlite3_bind_int64(s, index, v->integer);
    case VALUE_REAL:
        return sqlite3_bind_double(s, index, v->real);
    case VALUE_TEXT:
        return sqlite3_bind_text64(s, index, v->bytes.ptr, v->bytes.len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case VALUE_BLOB:
        return sqlite3_bind_blob64(s, index, v->bytes.ptr, v->bytes.len, SQLITE_STATIC);
    case VALUE_NULL:
        break;
    }
    return sqlite3_bind_null(s, index);
}

static int bind_all(struct connection *c, sqlite3_stmt *s, const struct value *values, int n)
{
    int rc = s ? SQLITE_OK : sqlite3_errcode(c->sql);
    for (int i = 0; rc == SQLITE_OK && i < n; i++)
        rc = bind(s, i + 1, &values[i]);
    return rc;
}

static void start(struct rows *r, enum statement id, const char *text, const struct value *values,
                  int n)
{
    struct connection *c = r->c;
    sqlite3_stmt *s = NULL;
    if (text)
        sqlite3_prepare_v2(c->sql, text, -1, &s, NULL);
    else
        s = find_statement(c, id);
    r->handle = s;
    int rc = bind_all(c, s, values, n);
    if (rc != SQLITE_OK) r->code = sqlite_fail(c->sql, rc, &r->err);
}

static bool next(struct rows *r)
{
    int rc = sqlite3_step(r->handle);
    if (rc == SQLITE_ROW) return true;
    if (rc != SQLITE_DONE) r->code = sqlite_fail(r->c->sql, rc, &r->err);
    return false;
}

static void end(struct rows *r)
{
    if (r->is_kept)
        sqlite3_reset(r->handle);
    else
        sqlite3_finalize(r->handle);
}

static int run(struct connection *c, enum statement id, const struct value *values, int n,
               det_err *err)
{
    sqlite3_stmt *s = find_statement(c, id);
    int rc = bind_all(c, s, values, n);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    int code = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : sqlite_fail(c->sql, rc, err);
    sqlite3_reset(s);
    return code;
}

static int flush(struct connection *c, det_err *err)
{
    (void)c, (void)err;
    return 0;
}

static int64_t changes(struct connection *c)
{
    return sqlite3_changes64(c->sql);
}

static bool in_transaction(struct connection *c)
{
    return !sqlite3_get_autocommit(c->sql);
}

// --- columns

static enum value_kind kind(const struct rows *r, int column)
{
    switch (sqlite3_column_type(r->handle, column)) {
    case SQLITE_INTEGER:
        return VALUE_INT;
    case SQLITE_FLOAT:
        return VALUE_REAL;
    case SQLITE_TEXT:
        return VALUE_TEXT;
    case SQLITE_BLOB:
        return VALUE_BLOB;
    default:
        return VALUE_NULL;
    }
}

static int64_t integer(const struct rows *r, int column)
{
    return sqlite3_column_int64(r->handle, column);
}

static double real(const struct rows *r, int column)
{
    return sqlite3_column_double(r->handle, column);
}

static struct str bytes(const struct rows *r, int column)
{
    int type = sqlite3_column_type(r->handle, column);
    if (type == SQLITE_NULL) return (struct str){NULL, 0};
    const char *ptr = type == SQLITE_BLOB ? sqlite3_column_blob(r->handle, column)
                                          : (const char *)sqlite3_column_text(r->handle, column);
    size_t n = (size_t)sqlite3_column_bytes(r->handle, column);
    return (struct str){ptr ? ptr : "", n};
}

// --- the schema

static int script(struct connection *c, const char *text, det_err *err)
{
    int rc = sqlite3_exec(c->sql, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sqlite_fail(c->sql, rc, err);
}

static int version(struct connection *c, int *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->sql, "PRAGMA user_version", -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) *out = sqlite3_column_int(s, 0);
    int code = rc == SQLITE_ROW ? 0 : sqlite_fail(c->sql, rc, err);
    sqlite3_finalize(s);
    return code;
}

static int set_version(struct connection *c, int number, det_err *err)
{
    char text[64];
    snprintf(text, sizeof text, "PRAGMA user_version = %d", number);
    return script(c, text, err);
}

const struct backend sqlite_backend = {
    .name = "SQLite",
    .dialect = &sqlite_dialect,
    .open = open_it,
    .close = close_it,
    .start = start,
    .next = next,
    .end = end,
    .kind = kind,
    .integer = integer,
    .real = real,
    .bytes = bytes,
    .run = run,
    .flush = flush,
    .changes = changes,
    .in_transaction = in_transaction,
    .script = script,
    .version = version,
    .set_version = set_version,
    .prepare = sqlite_prepare,
    .start_threads = sqlite_start_threads,
    .stop_threads = sqlite_stop_threads,
    .release = sqlite_release,
    .look = sqlite_look,
    .begin = sqlite_begin,
    .rest = sqlite_rest,
    .has_space = sqlite_has_space,
    .shrink = sqlite_shrink,
};
