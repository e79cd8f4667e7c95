// db/migrate.h: the schema and how older files become today's. Private to the layer.
#pragma once

#include "det/err.h"
#include <sqlite3.h>

// Brings the file to today's schema, in one transaction per version.
int migrate(sqlite3 *sql, const char *path, det_err *err);
