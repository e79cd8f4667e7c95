// db/backend.h: the engines that can hold the database, behind one table; and how everything else in
// the layer speaks to them. Private to the layer.
//
//     struct rows r;
//     rows_start(c, SQL_TRIAL_NUMBERS, &id, 1, &r);       // an error is kept until the end
//     while (rows_next(&r)) add(rows_int(&r, 0), rows_int(&r, 1));
//     return rows_end(&r, 0, err);
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "db/dialect.h"
#include "db/sql.h"
#include "db/tables.h"
#include "det/err.h"
#include <stdint.h>

struct backend;
struct db;
struct db_opts;

// Values that a record's fields are stored as.
enum value_kind { VALUE_NULL, VALUE_INT, VALUE_REAL, VALUE_TEXT, VALUE_BLOB };

struct value {
    enum value_kind kind;
    int64_t integer;
    double real; // NaN is stored as a null
    struct str bytes;
};

#define VALUE_OF_INT(x) ((struct value){.kind = VALUE_INT, .integer = (x)})
#define VALUE_OF_REAL(x) ((struct value){.kind = VALUE_REAL, .real = (x)})
#define VALUE_OF_TEXT(s) ((struct value){.kind = VALUE_TEXT, .bytes = (s)})
#define VALUE_OF_BLOB(s) ((struct value){.kind = VALUE_BLOB, .bytes = (s)})

// One connection and its prepared statements. Used by one thread.
struct connection {
    const struct backend *backend; // NULL: it is closed
    struct sqlite3 *sql;           // of SQLite
    struct pg *pg;                 // of PostgreSQL
    void *statements[N_STATEMENT]; // prepared ones; the engine's
};

// A statement that gives rows, and where in them one is.
struct rows {
    struct connection *c;
    void *handle;    // the engine's
    int row, n_rows; // of PostgreSQL
    bool is_kept;    // the statement is one of the connection's
    int code;        // what went wrong, if it is not 0
    det_err err;
};

struct backend {
    const char *name;
    const struct dialect *dialect;

    // --- a connection

    int (*open)(struct connection *c, const char *where, bool read_only, det_err *err);
    void (*close)(struct connection *c);
    // text NULL: the statement of this number, else one that is used once.
    void (*start)(struct rows *r, enum statement id, const char *text, const struct value *values,
                  int n);
    bool (*next)(struct rows *r);
    void (*end)(struct rows *r);
    enum value_kind (*kind)(const struct rows *r, int column);
    int64_t (*integer)(const struct rows *r, int column);
    double (*real)(const struct rows *r, int column);
    struct str (*bytes)(const struct rows *r, int column); // until the next row; ptr NULL: null
    // A statement without rows. It may be done later: in order, and before anything else is told.
    int (*run)(struct connection *c, enum statement id, const struct value *values, int n,
               det_err *err);
    int (*flush)(struct connection *c, det_err *err); // what was put off is done
    int64_t (*changes)(struct connection *c);         // rows that the last one changed; flushes
    bool (*in_transaction)(struct connection *c);
    // Any number of statements without values.
    int (*script)(struct connection *c, const char *text, det_err *err);
    int (*version)(struct connection *c, int *out, det_err *err); // of the schema; 0: it is empty
    int (*set_version)(struct connection *c, int version, det_err *err);

    // --- the database as a whole; by the thread that opens it, then by the writer

    // Opens db->writer and brings the schema up to date.
    int (*prepare)(struct db *db, const struct db_opts *opts, det_err *err);
    int (*start_threads)(struct db *db, det_err *err); // its own, after the writer's
    void (*stop_threads)(struct db *db, bool good);    // good: nothing went wrong
    void (*release)(struct db *db, bool good);         // closes db->writer and everything else
    int (*look)(struct db *db, det_err *err);          // that it is still what was opened
    int (*begin)(struct db *db, det_err *err);         // a transaction of the writer
    int (*rest)(struct db *db, det_err *err);   // between batches, four times a second or more
    bool (*has_space)(struct db *db);           // for work that writes much
    int (*shrink)(struct db *db, det_err *err); // gives some free space back
    // The connection was lost: DB_AWAY, or it is there again. *committed: the transaction that was
    // under way is in the database.
    int (*come_back)(struct db *db, bool *committed, det_err *err);
};

extern const struct backend sqlite_backend, postgres_backend;

const struct backend *backend_of(const char *where); // a path, or postgresql://...

// --- connections

int connection_open(struct connection *c, const char *where, bool read_only, det_err *err);
void connection_close(struct connection *c);
int connection_flush(struct connection *c, det_err *err);
int64_t connection_changes(struct connection *c);
// From here on everything is read as it is now, until it is left.
int connection_snapshot(struct connection *c, det_err *err);
void connection_leave(struct connection *c);

// --- statements

void statement_write(enum statement id, const struct dialect *d, struct buf *out);

// A statement with values for its first parameters.
void rows_start(struct connection *c, enum statement id, const struct value *values, int n,
                struct rows *out);
// The same for one that was put together, in the words of db/sql.h.
void rows_start_text(struct connection *c, struct str text, const struct value *values, int n,
                     struct rows *out);
bool rows_next(struct rows *r);
// The end of it. code: what the caller found wrong with the rows, which then is the result, and is
// in err.
int rows_end(struct rows *r, int code, det_err *err);

enum value_kind rows_kind(const struct rows *r, int column); // a text may be called a blob
bool rows_is_null(const struct rows *r, int column);
int64_t rows_int(const struct rows *r, int column);      // a null is 0
double rows_real(const struct rows *r, int column);      // a null is 0
double rows_value(const struct rows *r, int column);     // a null is NaN
struct str rows_bytes(const struct rows *r, int column); // until the next row; ptr NULL: null
const char *rows_text(const struct rows *r, int column, struct arena *a); // NULL for a null

// One that gives no rows.
int statement_run(struct connection *c, enum statement id, const struct value *values, int n,
                  det_err *err);
// One that gives a row with a number; a null, and no row, are `otherwise`.
int statement_number(struct connection *c, enum statement id, const struct value *values, int n,
                     int64_t otherwise, int64_t *out, det_err *err);

// --- records

// The value of a field, with texts in the arena.
struct value value_of(const struct field *f, const void *record, struct arena *a);

// Fills a record from the row that r stands on. Its columns are those of the table, in order.
int record_read(const struct rows *r, const struct table *t, struct arena *a, void *out,
                det_err *err);

// A document as JSON in the arena.
struct str json_text(const struct doc *doc, struct arena *a);

// What an engine says about damage may quote from it. Makes that one line that can be shown.
int backend_clean(det_err *err, int code); // returns the code
