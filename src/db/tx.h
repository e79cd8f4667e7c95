// db/tx.h: transactions on their way to the writer thread. Private to the layer.
#pragma once

#include "db/db.h"
#include "db/sqlite.h"
#include <pthread.h>

// One statement with its values.
struct op {
    enum statement statement;
    const char *refusal; // what to say when it breaks a rule of the schema; NULL: SQLite's words
    int n, max;
    struct value *values;
    struct op *next;
};

struct db_tx {
    struct db *db;
    struct arena arena; // everything that the ops point to
    struct op *first, *last;
    bool must;  // try again for as long as the disk is full
    bool tried; // at least once
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

struct db {
    char *path;
    struct connection writer; // used by the thread only, once it runs
    pthread_t thread;
    pthread_mutex_t lock; // guards what follows
    pthread_cond_t wake;  // the writer: there is something to do
    pthread_cond_t idle;  // db_wait: everything was tried
    struct tx_queue waiting, finished;
    uint64_t n_submitted, n_tried;
    bool stop;
    int state;    // 0, DET_ENOSPC or DET_EIO
    int event_fd; // has a count while finished is not empty
};

// The writer thread.
void *writer_run(void *db);
