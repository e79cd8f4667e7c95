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
//
// Between batches it tidies up (tidy.c), copies the log (WAL) into the file, and looks whether the
// files are still there (guard.c), which it also does before a batch is reported.
#include "db/tx.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/series_write.h"
#include "sys/clock.h"
#include <errno.h>
#include <time.h>

enum {
    BATCH_MAX = 4096,
    LOOK_MS = 250,          // how often the files and a full disk are looked at
    TIDY_EVERY_US = 100000, // at least, while others write without a pause
    LOG_PAGES = 1000,       // of the log are copied into the file when they are so many
    LONG_LOG_PAGES = 16384, // so many are too many: those who can wait should
    LOG_HEADER_BYTES = 32,
    LOG_FRAME_BYTES = 24 + 4096,
};

static int step(struct connection *c, enum statement id, det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, id);
    int rc = s ? sqlite3_step(s) : sqlite3_errcode(c->sql);
    if (s) sqlite3_reset(s);
    return rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
}

static int run_op(struct db *db, const struct op *op, det_err *err)
{
    struct connection *c = &db->writer;
    if (op->run) return op->run(db, op, err);
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

static int run_ops(struct db_tx *tx)
{
    int rc = 0;
    tx->err = (det_err){0};
    for (const struct op *op = tx->first; op && !rc; op = op->next)
        rc = run_op(tx->db, op, &tx->err);
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
    rc = run_ops(tx);
    if (rc && !is_refusal(rc)) {
        *err = tx->err;
        return rc;
    }
    if (rc) series_forget(tx->db);
    if (rc && (rc = step(c, SQL_ROLLBACK_TO, err))) return rc;
    return step(c, SQL_RELEASE, err);
}

static int run_together(struct db_tx *tx, det_err *err)
{
    int rc = run_ops(tx);
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
        rc = apart ? run_apart(c, tx, err) : run_together(tx, err);
    if (!rc) rc = step(c, SQL_COMMIT, err);
    if (rc && !sqlite3_get_autocommit(c->sql)) step(c, SQL_ROLLBACK, NULL);
    if (rc && batch->first) series_forget(batch->first->db);
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

// --- the log (WAL)

static int note_log(void *ctx, sqlite3 *sql, const char *name, int n_pages)
{
    struct db *db = ctx;
    (void)sql, (void)name;
    db->wal_pages = n_pages;
    guard_note_commit(&db->guard, LOG_HEADER_BYTES + (int64_t)n_pages * LOG_FRAME_BYTES);
    return SQLITE_OK;
}

void writer_watch_log(struct db *db)
{
    sqlite3_wal_hook(db->writer.sql, note_log, db);
}

// Copies as much as readers allow; SQLite begins the log anew when all of it was copied and nobody
// reads it. Readers that follow on each other could prevent that for ever, so a log that is too
// long is given a moment in which no new reader begins with it.
static void shorten_log(struct db *db)
{
    int64_t now_us = clock_mono_us();
    int how = SQLITE_CHECKPOINT_PASSIVE, n_log = 0, n_copied = 0;
    if (db->wal_pages < LOG_PAGES) return;
    if (db->wal_pages >= LONG_LOG_PAGES / 2 && now_us - db->wal_tried_us > 1000000) {
        how = SQLITE_CHECKPOINT_RESTART;
        db->wal_tried_us = now_us;
        sqlite3_busy_timeout(db->writer.sql, 20);
    }
    if (!sqlite3_wal_checkpoint_v2(db->writer.sql, NULL, how, &n_log, &n_copied) &&
        n_log == n_copied)
        db->wal_pages = 0;
    sqlite3_busy_timeout(db->writer.sql, DB_BUSY_MS);
    guard_expect_change(&db->guard);
}

// --- batches

// Until there is something to do. The files, and on a full disk the disk, are looked at meanwhile.
static void wait_for_work(struct db *db)
{
    struct timespec until;
    if (db->waiting.first && db->state != DET_ENOSPC && !db->checking) return;
    if (db->stop || (!db->checking && !db->state && tidy_is_due(db, clock_mono_us()))) return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)LOOK_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&db->wake, &db->lock, &until);
}

static int look(const struct db *db, det_err *err)
{
    return guard_look(&db->guard, err) ? DB_FILES_GONE : 0;
}

// What was written to files that are gone counts for nothing.
static int write_batch(struct db *db, const struct tx_queue *batch, int state, det_err *err)
{
    int rc = look(db, err);
    if (rc) return rc;
    rc = run_batch(&db->writer, batch, state == DET_ENOSPC, err);
    if (rc && rc != DET_ENOSPC) det_wrap(err, "the database cannot be written");
    return rc ? rc : look(db, err);
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
    if (rc && rc != DET_ENOSPC)
        db_break(db, rc, "%s; nothing is acknowledged any more", err->msg);
    else if (db->state != DB_BROKEN)
        db->state = rc;
    db->log_is_long = db->wal_pages >= LONG_LOG_PAGES;
}

// With the lock held; lets it go while it works.
static void do_batch(struct db *db)
{
    struct tx_queue batch = {NULL, NULL}, kept = {NULL, NULL};
    det_err err = db->problem;
    int state = db->state;
    uint64_t n_new = take_batch(&db->waiting, &batch);
    pthread_mutex_unlock(&db->lock);
    int rc = state == DB_BROKEN ? DB_BROKEN : write_batch(db, &batch, state, &err);
    if (!rc && has_discards(&batch)) db->tidy.discard = true;
    pthread_mutex_lock(&db->lock);
    db->is_tidy = db->is_tidy && !db->tidy.discard && !db->tidy.series;
    note_attempt(db, rc, &err);
    if (db->state == DB_BROKEN) err = db->problem;
    if (rc) fail_batch(&batch, db->state, &err, &kept);
    if (!rc && batch.first) db->n_commits++;
    db->n_tried += n_new;
    queue_join(&kept, &db->waiting); // kept ones stay in front
    db->waiting = kept;
    queue_join(&db->finished, &batch);
    db_wake_owner(db);
    pthread_cond_broadcast(&db->idle);
}

// --- between batches

// With the lock held; lets it go while it works.
static void do_other_work(struct db *db)
{
    det_err err = {0};
    bool busy = db->waiting.first && !db->state;
    pthread_mutex_unlock(&db->lock);
    int64_t now_us = clock_mono_us();
    int rc = look(db, &err);
    if (!rc) shorten_log(db);
    if (!rc && tidy_is_due(db, now_us) && db->wal_pages < LONG_LOG_PAGES &&
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
        if (!held && (db->waiting.first || db->state == DET_ENOSPC)) do_batch(db);
        if (!held && db->state != DB_BROKEN) do_other_work(db);
        done = stop && (!db->waiting.first || db->state || held);
    }
    pthread_mutex_unlock(&db->lock);
    return NULL;
}
