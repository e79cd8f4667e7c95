// db/log_write.h: what the writer thread does with logs. Private to the layer.
#pragma once

#include "db/chunk.h"
#include "db/reader.h"
#include "db/tx.h"

// Finds the number of the next line.
int log_start(struct db *db, det_err *err);
void log_end(struct db *db);
// What is remembered may be wrong after a transaction that failed.
void log_forget(struct db *db);

// A chunk whose lines have their numbers.
int log_insert(struct connection *c, const struct chunk *chunk, det_err *err);

// The chunk that r stands on; its columns are those of log_chunks, in order. Lives in the arena.
void log_read_chunk(const struct rows *r, struct arena *a, struct chunk *out);

// Runs a statement of one number, or of two.
int log_run(struct connection *c, enum statement id, int64_t a, det_err *err);
int log_run2(struct connection *c, enum statement id, int64_t a, int64_t b, det_err *err);
