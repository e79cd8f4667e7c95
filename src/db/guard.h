// db/guard.h: whether the files of the database are still those that were opened. Private to the
// layer.
//
// A file that was deleted, moved or replaced goes on to exist for those who have it open, and
// SQLite writes to it without a complaint; but it will be gone with the process. So before anything
// is acknowledged, and now and then, the names are compared with what is open.
#pragma once

#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guarded {
    char *path;
    const char *word; // for people
    int fd;           // -1: it is not there yet
    off_t min_bytes;  // it cannot be shorter than that
};

struct guard {
    struct guarded db, wal;
    char *live_path; // <path>-live: it is there while the database is open, and as old as the
    int live_fd;     // latest commit
};

#define GUARD_INIT ((struct guard){.db.fd = -1, .wal.fd = -1, .live_fd = -1})

// The last process that used the database was killed, and the log (WAL) that it left is gone. Not
// if another program has copied it into the database and removed it, as SQLite does: then the
// database was written after the latest commit.
bool guard_is_wal_missing(const char *path);

// The file must exist. If the last process that used it was killed, the log (WAL) must be there,
// too: DET_ECORRUPT if not. To be called before SQLite opens the file: who closes a file drops all
// of the process's locks on it, so this keeps it open until guard_close().
int guard_open(struct guard *g, const char *path, bool is_new, det_err *err);
void guard_close(struct guard *g); // after SQLite has closed it

// SQLite has a log now. From here on a process that is killed leaves the file <path>-live.
int guard_watch_wal(struct guard *g, det_err *err);
// All is written, and SQLite is about to close the database and remove the log.
int guard_end(struct guard *g, det_err *err);

// DET_EIO: something is gone.
int guard_look(const struct guard *g, det_err *err);

// Something was written; the log has at least so many bytes now.
void guard_note_commit(struct guard *g, int64_t n_bytes);
void guard_expect_change(struct guard *g); // SQLite may have made the files shorter

int guard_fd(const struct guard *g); // of the database
