// db/migrate.h: the schema and how older files become today's. Private to the layer.
#pragma once

#include "det/err.h"
#include <sqlite3.h>
#include <stdbool.h>

// The version of the file; 0: it is empty. DET_EUNSUPPORTED: a newer program wrote it.
int migrate_version(sqlite3 *sql, int *out, det_err *err);

// Whether that is an older one.
bool migrate_is_old(int version);

// Brings the file to today's schema, in one transaction.
int migrate(sqlite3 *sql, int version, det_err *err);
