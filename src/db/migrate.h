// db/migrate.h: the schema and how older databases become today's. Private to the layer.
#pragma once

#include "db/backend.h"

// The version of the schema; 0: it is empty. DET_EUNSUPPORTED: a newer program wrote it.
int migrate_version(struct connection *c, int *out, det_err *err);

// Whether that is an older one.
bool migrate_is_old(int version);

// Brings it to today's schema, in one transaction.
int migrate(struct connection *c, int version, det_err *err);
