// Unit writer.c: the thread that writes. It takes everything that waits, does it in one transaction
// of the engine, which syncs, and reports. While it syncs the next batch gathers: the slower the
// disk, the larger the batches.
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
//
// A server can go away in the middle. Then the batch is unsettled: nobody is told anything before
// it has come back and says whether the transaction is in it; if not, it is done again.
//
// Between batches the writer tidies up (tidy.c) and does what the engine needs (its rest()), and
// looks whether the files are still there, which it also does before a batch is reported.
#include "db/tx.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/series_write.h"
#include "db/log_write.h"
#include "sys/clock.h"
#include <time.h>

enum {
    BATCH_MAX = 4096,
    LOOK_MS = 250,          // how often the files, a full disk and a lost server are looked at
    TIDY_EVERY_US = 100000, // at least, while others write without a pause
    PROBE_BYTES = 65536,
};

static int step(struct db *db, enum statement id, det_err *err)
{
    return statement_run(&db->writer, id, NULL, 0, err);
}

// apart: a failure is that of this statement, and not found out later.
static int run_op(struct db *db, const struct op *op, bool apart, det_err *err)
{
    struct connection *c = &db->writer;
    int rc =
        op->run ? op->run(db, op, err) : statement_run(c, op->statement, op->values, op->n, err);
    if (!rc && apart) rc = connection_flush(c, err);
    if (rc == DET_ESTATE && op->refusal) det_fail(err, rc, "%s", op->refusal);
    return rc;
}

static int run_ops(struct db_tx *tx, bool apart)
{
    int rc = 0;
    tx->err = (det_err){0};
    for (const struct op *op = tx->first; op && !rc; op = op->next)
        rc = run_op(tx->db, op, apart, &tx->err);
    return rc;
}

// It is the transaction that is wrong, not the disk or the file.
static bool is_refusal(int rc)
{
    return rc == DET_ESTATE || rc == DET_ELIMIT;
}

static void forget(struct db *db)
{
    series_forget(db);
    log_forget(db);
}

// What is wrong with this transaction is in tx->err, and nothing of it is kept. The result is the
// failure of the whole batch: no space, or a file that cannot be trusted.
static int run_apart(struct db_tx *tx, det_err *err)
{
    struct db *db = tx->db;
    int rc = step(db, SQL_SAVEPOINT, err);
    if (rc) return rc;
    rc = run_ops(tx, true);
    if (rc && !is_refusal(rc)) {
        *err = tx->err;
        return rc;
    }
    if (rc) forget(db);
    if (rc && (rc = step(db, SQL_ROLLBACK_TO, err))) return rc;
    return step(db, SQL_RELEASE, err);
}

static int run_together(struct db_tx *tx, det_err *err)
{
    int rc = run_ops(tx, false);
    if (rc) *err = tx->err;
    return rc;
}

// Some space must be there; no engine can make this small.
static int probe(struct db *db, det_err *err)
{
    static char text[PROBE_BYTES];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(' ' + (hash_bytes(&db->series_key, &i, sizeof i) & 63));
    const struct value values[] = {VALUE_OF_TEXT(STR("probe")),
                                   VALUE_OF_TEXT(((struct str){text, sizeof text}))};
    return statement_run(&db->writer, SQL_SETTING_SAVE, values, 2, err);
}

static int try_batch(struct db *db, const struct tx_queue *batch, bool is_full, bool apart,
                     det_err *err)
{
    struct connection *c = &db->writer;
    int rc = db->backend->begin(db, err);
    if (!rc && is_full) rc = probe(db, err); // even if the batch needs no space
    for (struct db_tx *tx = batch->first; tx && !rc; tx = tx->next)
        rc = apart ? run_apart(tx, err) : run_together(tx, err);
    if (!rc) rc = connection_flush(c, err);
    if (!rc) rc = step(db, SQL_COMMIT, err);
    if (!rc) rc = connection_flush(c, err);
    if (!rc) return 0;
    forget(db);
    writer_roll_back(db);
    return rc;
}

void writer_roll_back(struct db *db)
{
    struct connection *c = &db->writer;
    if (!db->backend->in_transaction(c)) return;
    step(db, SQL_ROLLBACK, NULL);
    connection_flush(c, NULL);
}

static int run_batch(struct db *db, const struct tx_queue *batch, bool is_full, det_err *err)
{
    int rc = try_batch(db, batch, is_full, false, err);
    return is_refusal(rc) ? try_batch(db, batch, is_full, true, err) : rc;
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

// No more than BATCH_MAX, so that the first of many need not wait for all.
static void take_batch(struct tx_queue *from, struct tx_queue *batch)
{
    for (int i = 0; i < BATCH_MAX && from->first; i++)
        queue_add(batch, queue_take(from));
}

static uint64_t count_new(const struct tx_queue *batch)
{
    uint64_t n_new = 0;
    for (struct db_tx *tx = batch->first; tx; tx = tx->next) {
        n_new += !tx->tried;
        tx->tried = true;
    }
    return n_new;
}

// --- batches

// Until there is something to do. The files, and on a full disk the disk, are looked at meanwhile.
static void wait_for_work(struct db *db)
{
    struct timespec until;
    if (db->waiting.first && !db->state && !db->checking) return;
    if (db->waiting.first && db->state == DB_BROKEN) return;
    if (db->stop || (!db->checking && !db->state && tidy_is_due(db, clock_mono_us()))) return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)LOOK_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&db->wake, &db->lock, &until);
}

// What was written to files that are gone counts for nothing.
static int write_batch(struct db *db, const struct tx_queue *batch, int state, det_err *err)
{
    int rc = db->backend->look(db, err);
    if (rc) return rc;
    rc = run_batch(db, batch, state == DET_ENOSPC, err);
    if (rc && rc != DET_ENOSPC && rc != DB_AWAY) det_wrap(err, "the database cannot be written");
    return rc ? rc : db->backend->look(db, err);
}

static bool has_discards(const struct tx_queue *batch)
{
    for (const struct db_tx *tx = batch->first; tx; tx = tx->next)
        if (tx->discards) return true;
    return false;
}

// With the lock held. rc: how an attempt to write ended.
static void note_attempt(struct db *db, int rc, const det_err *err)
{
    if (rc == DB_AWAY && db->state != DB_AWAY)
        db_note_locked(db, true, "%s; trying again", err->msg);
    if (!rc && db->state == DB_AWAY)
        db_note_locked(db, false, "the server of the database answers again");
    if (rc && rc != DET_ENOSPC && rc != DB_AWAY)
        db_break(db, rc, "%s; nothing is acknowledged any more", err->msg);
    else if (db->state != DB_BROKEN)
        db->state = rc;
    if (rc == DB_AWAY) db->problem = *err;
    db->log_is_long = db->writer_is_behind;
}

// With the lock held: tells everybody what became of a batch. kept: what is to be tried again.
static void settle(struct db *db, struct tx_queue *batch, struct tx_queue *kept)
{
    queue_join(kept, &db->waiting); // kept ones stay in front
    db->waiting = *kept;
    queue_join(&db->finished, batch);
    db_wake_owner(db);
    pthread_cond_broadcast(&db->idle);
}

// With the lock held; lets it go while it works.
static void do_batch(struct db *db)
{
    struct tx_queue batch = {NULL, NULL}, kept = {NULL, NULL};
    det_err err = db->problem;
    int state = db->state;
    take_batch(&db->waiting, &batch);
    pthread_mutex_unlock(&db->lock);
    int rc = state == DB_BROKEN ? DB_BROKEN : write_batch(db, &batch, state, &err);
    if (!rc && has_discards(&batch)) db->tidy.discard = true;
    pthread_mutex_lock(&db->lock);
    db->is_tidy = db->is_tidy && !db->tidy.discard && !db->tidy.series;
    note_attempt(db, rc, &err);
    if (db->state == DB_BROKEN) err = db->problem;
    if (rc == DB_AWAY && db->state == DB_AWAY) {
        db->unsettled = batch;
        db_wake_owner(db);
        pthread_cond_broadcast(&db->idle);
        return;
    }
    db->n_tried += count_new(&batch);
    if (rc) fail_batch(&batch, db->state, &err, &kept);
    if (!rc && batch.first) db->n_commits++;
    settle(db, &batch, &kept);
}

// With the lock held; lets it go while it works. The server was lost: tries to find it.
static void do_return(struct db *db)
{
    struct tx_queue none = {NULL, NULL};
    bool committed = false;
    det_err err = {0};
    pthread_mutex_unlock(&db->lock);
    int rc = db->backend->come_back(db, &committed, &err);
    pthread_mutex_lock(&db->lock);
    note_attempt(db, rc, &err);
    if (rc == DB_AWAY) return;
    if (rc) {
        db->n_tried += count_new(&db->unsettled);
        fail_batch(&db->unsettled, db->state, &db->problem, &none);
    }
    struct tx_queue done = rc || committed ? db->unsettled : none;
    struct tx_queue again = rc || committed ? none : db->unsettled;
    if (committed) {
        db->n_tried += count_new(&done);
        db->n_commits += done.first != NULL;
    }
    db->unsettled = none;
    settle(db, &done, &again);
}

// --- between batches

// With the lock held; lets it go while it works.
static void do_other_work(struct db *db)
{
    det_err err = {0};
    bool busy = db->waiting.first && !db->state;
    pthread_mutex_unlock(&db->lock);
    int64_t now_us = clock_mono_us();
    int rc = db->backend->rest(db, &err);
    if (!rc && tidy_is_due(db, now_us) && !db->writer_is_behind &&
        (!busy || now_us - db->tidied_us > TIDY_EVERY_US)) {
        rc = tidy_slice(db, &err);
        db->tidied_us = clock_mono_us();
    }
    pthread_mutex_lock(&db->lock);
    int before = db->state;
    note_attempt(db, rc ? rc : before == DET_ENOSPC ? DET_ENOSPC : 0, &err);
    db->is_tidy = !tidy_is_due(db, INT64_MAX);
    if (db->is_tidy || db->state) pthread_cond_broadcast(&db->idle);
    if (db->state != before) db_wake_owner(db);
}

void *writer_run(void *arg)
{
    struct db *db = arg;
    pthread_mutex_lock(&db->lock);
    for (bool done = false; !done;) {
        wait_for_work(db);
        bool stop = db->stop; // one that is asked for meanwhile comes after another batch
        bool held = db->checking && db->state != DB_BROKEN;
        if (db->state == DB_AWAY) do_return(db);
        if (db->state == DB_AWAY) held = true;
        if (!held && (db->waiting.first || db->state == DET_ENOSPC)) do_batch(db);
        if (!held && db->state != DB_BROKEN && db->state != DB_AWAY) do_other_work(db);
        done = stop && (!db->waiting.first || db->state || held);
    }
    pthread_mutex_unlock(&db->lock);
    return NULL;
}
