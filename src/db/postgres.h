// db/postgres.h: PostgreSQL, for the units that know it. Private to the layer.
//
// Statements without rows are sent and not waited for (libpq's pipeline), so that a transaction of a
// thousand of them takes two exchanges with the server: what has gone wrong is known when something
// is read, or at flush().
#pragma once

#include "db/backend.h"
#include "db/libpq.h"

enum pending_kind { PENDING_PREPARE, PENDING_RUN, PENDING_ONE, PENDING_QUERY };

// A statement whose result is not known yet.
struct pending {
    enum pending_kind kind;
    enum statement id;
    int otherwise; // of PENDING_ONE: what has gone wrong if it changed no row
};

struct pg {
    PGconn *conn;
    char *where;
    bool is_writer;
    bool is_lost; // the server does not answer any more
    int n_pending, max_pending;
    struct pending *pending;
    int64_t n_changed; // by the last of them
    int code;          // the first failure since the last flush
    det_err err;
    int64_t heard_us; // when the server answered last
};

int pg_open(struct connection *c, const char *where, bool read_only, det_err *err);
void pg_close(struct connection *c);
int pg_revive(struct connection *c, det_err *err);

// Sends a statement of this number, or a text. Its result is not waited for.
int pg_submit(struct connection *c, struct pending what, const char *text,
              const struct value *values, int n, det_err *err);
// The same, and waits for the rows; NULL after an error.
PGresult *pg_query(struct connection *c, enum statement id, const char *text,
                   const struct value *values, int n, det_err *err);
int pg_flush(struct connection *c, det_err *err);
int64_t pg_changes(struct connection *c);
bool pg_in_transaction(struct connection *c);
int pg_script(struct connection *c, const char *text, det_err *err);

char *pg_name(const char *where); // without a password; the caller's

// --- postgres_store.c: who may write

int pg_prepare(struct db *db, const struct db_opts *opts, det_err *err);
int pg_start_threads(struct db *db, det_err *err);
void pg_stop_threads(struct db *db, bool good);
void pg_release(struct db *db, bool good);
int pg_look(struct db *db, det_err *err);
int pg_begin(struct db *db, det_err *err);
int pg_rest(struct db *db, det_err *err);
bool pg_has_space(struct db *db);
int pg_come_back(struct db *db, bool *committed, det_err *err);
