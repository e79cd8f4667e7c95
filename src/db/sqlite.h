// db/sqlite.h: SQLite, for the units that know it. Private to the layer.
#pragma once

#include "db/backend.h"
#include <sqlite3.h>

enum { DB_BUSY_MS = 10000 }; // how long another program may have the lock

// DET_ENOSPC for a full disk, DET_ECORRUPT for a damaged file, DET_ESTATE for a broken rule of the
// schema, else DET_EIO; with SQLite's words.
int sqlite_fail(sqlite3 *sql, int rc, det_err *err);

// For those who open files and prepare statements themselves.
struct connection sqlite_connection(sqlite3 *sql);
void sqlite_forget_statements(struct connection *c); // before sql is closed by others
struct rows sqlite_row(sqlite3_stmt *s);             // what s stands on

// --- sqlite_store.c: the file, its companions and the threads that look after it

int sqlite_prepare(struct db *db, const struct db_opts *opts, det_err *err);
int sqlite_start_threads(struct db *db, det_err *err);
void sqlite_stop_threads(struct db *db, bool good);
void sqlite_release(struct db *db, bool good);
int sqlite_look(struct db *db, det_err *err);
int sqlite_begin(struct db *db, det_err *err);
int sqlite_rest(struct db *db, det_err *err);
bool sqlite_has_space(struct db *db);
int sqlite_shrink(struct db *db, det_err *err);
