// Unit sqlite.c: connections, prepared statements, and SQLite's errors as ours.
#include "db/sqlite.h"

#include "base/assert.h"
#include "base/buf.h"
#include "db/db.h"

int sqlite_clean(det_err *err, int code)
{
    for (unsigned char *c = err ? (unsigned char *)err->msg : NULL; c && *c; c++)
        if (*c < ' ' || *c > '~') *c = *c == '\n' ? ' ' : '?';
    return code;
}

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

// FULL: a commit is synced, not only ordered. Without it a power loss takes acknowledged writes.
// The way in which free pages are given back can only be chosen while a file is empty, and must be
// chosen before its mode. The writer copies the log into the file itself (see writer.c).
static const char setup[] = "PRAGMA auto_vacuum = INCREMENTAL;"
                            "PRAGMA journal_mode = WAL;"
                            "PRAGMA synchronous = FULL;"
                            "PRAGMA wal_autocheckpoint = 0;"
                            "PRAGMA journal_size_limit = 16777216;"
                            "PRAGMA temp_store = MEMORY;"
                            "PRAGMA cache_size = -16000;";

static const char setup_read_only[] = "PRAGMA query_only = 1; PRAGMA cache_size = -16000;";

static _Thread_local bool is_forbidden;

void db_forbid_reading(bool forbid)
{
    is_forbidden = forbid;
}

void connection_check(void)
{
#ifdef DET_TESTS // for users, a turn that takes long is better than a master that ends
    ASSERT(!is_forbidden);
#endif
}

int connection_open(struct connection *c, const char *path, bool read_only, det_err *err)
{
    connection_check();
    *c = (struct connection){0};
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
    connection_close(c);
    return code;
}

void connection_close(struct connection *c)
{
    for (int i = 0; i < N_STATEMENT; i++)
        sqlite3_finalize(c->statements[i]);
    sqlite3_close(c->sql);
    *c = (struct connection){0};
}

static const struct {
    enum noun noun;
    const char *text;
} texts[] = {
#define DB_STATEMENT_TEXT(name, noun, text) {noun, text},
    DB_STATEMENTS(DB_STATEMENT_TEXT)
#undef DB_STATEMENT_TEXT
};

static void write_statement(enum statement id, struct buf *out)
{
    const char *text = texts[id].text, *columns = text ? strstr(text, "%s") : NULL;
    if (!text) {
        table_add_save(&tables[texts[id].noun], out);
    } else if (columns) {
        buf_add(out, text, (size_t)(columns - text));
        table_add_columns(&tables[texts[id].noun], out);
        buf_addz(out, columns + 2);
    } else {
        buf_addz(out, text);
    }
}

sqlite3_stmt *connection_statement(struct connection *c, enum statement id)
{
    sqlite3_stmt **s = &c->statements[id];
    connection_check();
    if (*s) {
        sqlite3_reset(*s);
        sqlite3_clear_bindings(*s);
        return *s;
    }
    struct buf text = BUF_INIT(1 << 16);
    write_statement(id, &text);
    sqlite3_prepare_v3(c->sql, buf_str(&text).ptr, -1, SQLITE_PREPARE_PERSISTENT, s, NULL);
    buf_done(&text);
    return *s;
}

sqlite3_stmt *statement_start(struct connection *c, enum statement id, const struct value *values,
                              int n)
{
    sqlite3_stmt *s = connection_statement(c, id);
    for (int i = 0; s && i < n; i++)
        if (value_bind(s, i + 1, &values[i]) != SQLITE_OK) return NULL;
    return s;
}

int statement_end(struct connection *c, sqlite3_stmt *s, int rc, det_err *err)
{
    int code = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : sqlite_fail(c->sql, rc, err);
    if (s) sqlite3_reset(s);
    return code;
}

int statement_run(struct connection *c, enum statement id, const struct value *values, int n,
                  det_err *err)
{
    sqlite3_stmt *s = statement_start(c, id, values, n);
    return statement_end(c, s, s ? sqlite3_step(s) : sqlite3_errcode(c->sql), err);
}

int statement_number(struct connection *c, enum statement id, const struct value *values, int n,
                     int64_t otherwise, int64_t *out, det_err *err)
{
    sqlite3_stmt *s = statement_start(c, id, values, n);
    int rc = s ? sqlite3_step(s) : sqlite3_errcode(c->sql);
    bool is_there = rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL;
    *out = is_there ? sqlite3_column_int64(s, 0) : otherwise;
    return statement_end(c, s, rc, err);
}
