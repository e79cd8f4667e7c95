// db/tidy.h: work that nobody waits for, done by the writer thread in slices between the
// transactions of others. Private to the layer.
#pragma once

#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>

struct db;

// What is left to do. All of it is found again after a restart.
struct tidy {
    bool discard;          // logs and reports of what was deleted
    bool move;             // lines of an older version into chunks
    bool count;            // lines of chunks of an older version
    bool series;           // reports into spans (series_write.h)
    bool shrink;           // free space of the file back to the file system
    int64_t not_before_us; // of the monotonic clock: the disk has to be freed first
    int64_t n_trunks;      // of the list of free pages, done so far (see holes.c)
    bool said_no_space;
    bool shortened; // there were free pages at the end
};

// Looks what there is to do.
int tidy_start(struct db *db, det_err *err);

bool tidy_is_due(const struct db *db, int64_t now_us);

// Does some of it, for a few milliseconds, in a transaction of its own.
int tidy_slice(struct db *db, det_err *err);

// Gives some of the file's free pages back to the file system without moving anything: for files
// that SQLite cannot make shorter. *done: there is no more to give.
int holes_punch(struct db *db, bool *done, det_err *err);
