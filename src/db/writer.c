// Unit writer.c: the thread that writes. It takes everything that waits, does it in one transaction
// of SQLite, syncs, and reports. While it syncs the next batch gathers: the slower the disk, the
// larger the batches.
//
//     idle --> BEGIN --> the statements of each --> COMMIT
//       ^                    |                        |
//       |                    +--- the disk is full ---+
//       |                               | ROLLBACK; those that must are kept
//       +-- a moment, or a submission --+ for the next attempt
//
// A transaction that breaks a rule of the schema is rare, so a batch is first tried without
// savepoints (which copy every page that they change); if there is one in it, everything is rolled
// back and done again with each in a savepoint of its own.
#include "db/tx.h"

#include "base/assert.h"
#include "base/mem.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>

enum { BATCH_MAX = 4096, RETRY_MS = 250 };

static int step(struct connection *c, enum statement id, det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, id);
    int rc = s ? sqlite3_step(s) : sqlite3_errcode(c->sql);
    if (s) sqlite3_reset(s);
    return rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
}

static int run_op(struct connection *c, const struct op *op, det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, op->statement);
    int rc = s ? SQLITE_OK : sqlite3_errcode(c->sql);
    for (int i = 0; rc == SQLITE_OK && i < op->n; i++)
        rc = value_bind(s, i + 1, &op->values[i]);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    int code = rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
    if (code == DET_ESTATE && op->refusal) det_fail(err, code, "%s", op->refusal);
    if (s) sqlite3_reset(s);
    return code;
}

static int run_ops(struct connection *c, struct db_tx *tx)
{
    int rc = 0;
    tx->err = (det_err){0};
    for (const struct op *op = tx->first; op && !rc; op = op->next)
        rc = run_op(c, op, &tx->err);
    return rc;
}

// It is the transaction that is wrong, not the disk or the file.
static bool is_refusal(int rc)
{
    return rc == DET_ESTATE || rc == DET_ELIMIT;
}

// What is wrong with this transaction is in tx->err, and nothing of it is kept. The result is the
// failure of the whole batch: no space, or a file that cannot be trusted.
static int run_apart(struct connection *c, struct db_tx *tx, det_err *err)
{
    int rc = step(c, SQL_SAVEPOINT, err);
    if (rc) return rc;
    rc = run_ops(c, tx);
    if (rc && !is_refusal(rc)) {
        *err = tx->err;
        return rc;
    }
    if (rc && (rc = step(c, SQL_ROLLBACK_TO, err))) return rc;
    return step(c, SQL_RELEASE, err);
}

static int run_together(struct connection *c, struct db_tx *tx, det_err *err)
{
    int rc = run_ops(c, tx);
    if (rc) *err = tx->err;
    return rc;
}

// probe: some space must be there, even if the batch needs none.
static int try_batch(struct connection *c, const struct tx_queue *batch, bool probe, bool apart,
                     det_err *err)
{
    int rc = step(c, SQL_BEGIN, err);
    if (!rc && probe) rc = step(c, SQL_PROBE, err);
    for (struct db_tx *tx = batch->first; tx && !rc; tx = tx->next)
        rc = apart ? run_apart(c, tx, err) : run_together(c, tx, err);
    if (!rc) rc = step(c, SQL_COMMIT, err);
    if (rc && !sqlite3_get_autocommit(c->sql)) step(c, SQL_ROLLBACK, NULL);
    return rc;
}

static int run_batch(struct connection *c, const struct tx_queue *batch, bool probe, det_err *err)
{
    int rc = try_batch(c, batch, probe, false, err);
    return is_refusal(rc) ? try_batch(c, batch, probe, true, err) : rc;
}

// A stand-in that reports the failure of one that stays in the queue.
static struct db_tx *messenger(struct db_tx *tx)
{
    struct db_tx *m = db_tx_new(tx->db);
    m->done = tx->done;
    m->ctx = tx->ctx;
    tx->done = NULL;
    return m;
}

// Splits a failed batch: everybody hears of it; those that must happen are put in kept.
static void fail_batch(struct tx_queue *batch, int code, const det_err *err, struct tx_queue *kept)
{
    struct tx_queue failed = {NULL, NULL};
    for (struct db_tx *tx; (tx = queue_take(batch));) {
        struct db_tx *told = tx;
        if (tx->must && code == DET_ENOSPC) {
            told = tx->done ? messenger(tx) : NULL;
            queue_add(kept, tx);
        }
        if (told) {
            told->err = *err;
            told->err.code = code;
            queue_add(&failed, told);
        }
    }
    *batch = failed;
}

// No more than BATCH_MAX, so that the first of many need not wait for all. Returns how many of them
// are new.
static uint64_t take_batch(struct tx_queue *from, struct tx_queue *batch)
{
    uint64_t n_new = 0;
    for (int i = 0; i < BATCH_MAX && from->first; i++) {
        struct db_tx *tx = queue_take(from);
        n_new += !tx->tried;
        tx->tried = true;
        queue_add(batch, tx);
    }
    return n_new;
}

// Until there is something to do. On a full disk, that is also to find out whether it still is.
static void wait_for_work(struct db *db)
{
    struct timespec until;
    while (db->state != DET_ENOSPC && !db->waiting.first && !db->stop)
        pthread_cond_wait(&db->wake, &db->lock);
    if (db->state != DET_ENOSPC || db->stop) return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)RETRY_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&db->wake, &db->lock, &until);
}

static int write_batch(struct db *db, const struct tx_queue *batch, int state, det_err *err)
{
    if (state == DET_EIO)
        return det_fail(err, state, "the database could not be written before; restart the master");
    int rc = run_batch(&db->writer, batch, state == DET_ENOSPC, err);
    return rc && rc != DET_ENOSPC ? DET_EIO : rc;
}

// With the lock held; lets it go while it works.
static void do_batch(struct db *db)
{
    struct tx_queue batch = {NULL, NULL}, kept = {NULL, NULL};
    det_err err = {0};
    int state = db->state;
    uint64_t n_new = take_batch(&db->waiting, &batch);
    pthread_mutex_unlock(&db->lock);
    state = write_batch(db, &batch, state, &err);
    if (state) fail_batch(&batch, state, &err, &kept);
    pthread_mutex_lock(&db->lock);
    db->state = state;
    db->n_tried += n_new;
    queue_join(&kept, &db->waiting); // kept ones stay in front
    db->waiting = kept;
    queue_join(&db->finished, &batch);
    eventfd_write(db->event_fd, 1);
    pthread_cond_broadcast(&db->idle);
}

void *writer_run(void *arg)
{
    struct db *db = arg;
    pthread_mutex_lock(&db->lock);
    for (bool done = false; !done;) {
        wait_for_work(db);
        bool stop = db->stop; // one that is asked for meanwhile comes after another batch
        if (db->waiting.first || db->state == DET_ENOSPC) do_batch(db);
        done = stop && (!db->waiting.first || db->state);
    }
    pthread_mutex_unlock(&db->lock);
    return NULL;
}
