// db/recover.h: what of a damaged file can be read. Private to the layer.
#pragma once

#include "base/buf.h"
#include "db/sqlite.h"

// Copies every row that can be read from one database to another, which has the schema of today and
// may have rows of a backup. A table that can be read from end to end replaces what is there; of
// one that cannot, the rows that can be read do. Adds to the report what was found and lost.
int salvage(sqlite3 *from, sqlite3 *to, struct buf *report, det_err *err);

// What SQLite does not see as damage. DET_ECORRUPT: there are rows that make no sense, or a table
// or a column of today's schema has another name.
int salvage_check(sqlite3 *sql, det_err *err);
