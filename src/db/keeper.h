// db/keeper.h: the thread that looks after the file without changing it: checks it when it is
// opened, and makes backups. Private to the layer.
#pragma once

#include "db/backend.h"
#include "sys/dir.h"
#include <pthread.h>

struct db;

struct keeper {
    struct connection c; // used by the thread only, once it runs
    pthread_t thread;
    bool started;
    int copy_version;    // the file was of this older version; a copy of it is kept; 0: none
    pthread_cond_t wake; // with the lock of the database; it guards what follows
    char *folder;        // of backups; NULL: none are made
    int64_t every_us, next_us;
    uint64_t n_saved; // commits that the latest backup has
    bool rescue;      // the files are gone: saves what is still open
    bool stop;
};

// Opens the connection. is_old: what there is now is kept in view until it was copied, whatever is
// written meanwhile.
int keeper_open(struct db *db, int old_version, det_err *err);

// Starts the thread, with the check if the database waits for it.
int keeper_start(struct db *db, det_err *err);

// Ends the thread, whatever it is doing; makes the last backup if last is true and it is needed.
void keeper_close(struct db *db, bool last);

// --- backup.c: what the thread does

// Copies the database, as it is at one moment, to a new file; patient: takes its time, so that
// others are not delayed. The file is there as a whole or not at all.
int backup_copy(struct db *db, const char *path, bool patient, det_err *err);

// DET_ENOSPC: there is too little for a copy as path.
int backup_check_space(struct db *db, const char *path, det_err *err);

// A backup in the folder, whose name has the time; those that are too many are removed.
int backup_make(struct db *db, const char *folder, bool patient, char *name, size_t size,
                det_err *err);

// Those in the folder, the oldest first.
int backup_list(const char *folder, struct arena *a, struct dir_entries *out, det_err *err);

// DET_ECORRUPT: SQLite's words about what is wrong first.
int backup_check(struct sqlite3 *sql, det_err *err);
int backup_check_file(const char *path, det_err *err);
