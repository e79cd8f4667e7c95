// db/log_write.h: what the writer thread does with logs. Private to the layer.
#pragma once

#include "db/chunk.h"
#include "db/reader.h"
#include "db/tx.h"

// Finds the number of the next line.
int log_start(struct db *db, det_err *err);

// A chunk whose lines have their numbers.
int log_insert(struct connection *c, const struct chunk *chunk, det_err *err);

// The chunk that s stands on; its columns are those of log_chunks, in order. Lives in the arena.
void log_read_chunk(sqlite3_stmt *s, struct arena *a, struct chunk *out);

// Runs a statement of one or two numbers; b is used if there is a second one.
int log_run(struct connection *c, enum statement id, int64_t a, int64_t b, det_err *err);
