// db/tx.h: transactions on their way to the writer thread. Private to the layer.
#pragma once

#include "base/hash.h"
#include "db/backend.h"
#include "db/db.h"
#include "db/guard.h"
#include "db/keeper.h"
#include "db/tidy.h"
#include <pthread.h>

// One statement with its values; or what the writer does with them instead.
struct op {
    enum statement statement;
    int (*run)(struct db *db, const struct op *op, det_err *err); // NULL: the statement alone
    const char
        *refusal; // what to say when it breaks a rule of the schema; NULL: the engine's words
    int n, max;
    struct value *values;
    struct op *next;
};

struct db_tx {
    struct db *db;
    struct arena arena; // everything that the ops point to
    struct op *first, *last;
    bool must;     // try again for as long as the disk is full
    bool tried;    // at least once
    bool discards; // gives the writer something to tidy up
    db_done_fn done;
    void *ctx;
    det_err err;
    struct db_tx *next;
};

struct tx_queue {
    struct db_tx *first, *last;
};

void queue_add(struct tx_queue *q, struct db_tx *tx);
struct db_tx *queue_take(struct tx_queue *q);
void queue_join(struct tx_queue *q, struct tx_queue *other); // all of other, which is then empty

// Appends a statement; values follow in the order of its parameters. Texts are copied.
struct op *tx_add(struct db_tx *tx, enum statement statement, int n_values);
void op_int(struct op *op, int64_t x);
void op_real(struct op *op, double x);
void op_text(struct db_tx *tx, struct op *op, const char *text); // NULL: null
void op_bytes(struct db_tx *tx, struct op *op, enum value_kind kind, struct str bytes);
// The fields of a record, from the first_field-th on.
void op_record(struct db_tx *tx, struct op *op, enum noun noun, const void *record,
               size_t first_field);

struct note {
    struct db_note said;
    struct note *next;
};

struct db {
    char *path; // of the file, or where the server is
    char *name; // the same for people, without a password; NULL: path
    const struct backend *backend;
    struct connection writer; // used by the thread only, once it runs; so is what follows:
    struct tidy tidy;
    struct series_tail *tails; // see series_write.c
    struct hash_key series_key;
    struct open_log *open_logs; // see log_write.c
    int64_t next_log_id;        // of the next line
    int64_t tidied_us;
    bool writer_is_behind; // log_is_long, of the writer
    struct guard guard;    // of SQLite
    int wal_pages;         // of SQLite: in the log (WAL) after the latest commit
    int64_t wal_tried_us;
    struct pg_lease *lease; // of PostgreSQL: see postgres_store.c
    pthread_t thread;
    pthread_mutex_t lock; // guards what follows
    pthread_cond_t wake;  // the writer: there is something to do
    pthread_cond_t idle;  // db_wait: everything was tried; db_wait_tidy: nothing is left to do
    struct tx_queue waiting, finished;
    struct tx_queue unsettled; // nobody knows whether it was committed; only while DB_AWAY
    struct note *notes, **last_note;
    uint64_t n_submitted, n_tried, n_commits;
    int64_t n_bytes; // of the file when it was opened
    bool stop;
    bool checking; // nothing is written before it is known that the file is whole
    bool is_tidy, log_is_long, is_damaged;
    int state;       // 0, DET_ENOSPC, DB_AWAY or DB_BROKEN
    det_err problem; // DB_AWAY, DB_BROKEN: why
    bool is_fenced;  // broken, because another has taken over
    int event_fd;    // has a count while finished or notes is not empty
    struct keeper keeper;
};

enum {
    DB_BROKEN = DET_EUNREACHABLE, // to clients: not now
    DB_FILES_GONE = 1,            // of db_break(): what is still open can be saved
    DB_AWAY = 2,                  // the server cannot be reached; what was submitted waits
    DB_FENCED = 3,                // of db_break(): another process has taken over
};

// The writer thread.
void *writer_run(void *db);
void writer_roll_back(struct db *db); // if there is something

// Nothing is written any more, for this reason. With the lock held. The first reason stays.
void db_break(struct db *db, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// A word for the owner's log. problem: a person has to do something.
void db_note(struct db *db, bool problem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void db_note_locked(struct db *db, bool problem, const char *fmt, ...) // with the lock held
    __attribute__((format(printf, 3, 4)));

void db_wake_owner(struct db *db); // there is something to dispatch
