// Unit db.c: opening and closing a database.
#include "db/tx.h"

#include "base/mem.h"
#include "db/log_write.h"
#include <sys/eventfd.h>
#include <unistd.h>

static int start_writer(struct db *db, det_err *err)
{
    pthread_mutex_lock(&db->lock);
    int rc = pthread_create(&db->thread, NULL, writer_run, db);
    pthread_mutex_unlock(&db->lock);
    return rc ? det_fail(err, DET_EIO, "cannot start a thread: %s", strerror(rc)) : 0;
}

static void init(struct db *db, const char *where)
{
    pthread_condattr_t attr;
    db->path = xstrdup(where);
    db->backend = backend_of(where);
    db->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    db->last_note = &db->notes;
    db->guard = GUARD_INIT;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&db->lock, NULL);
    pthread_cond_init(&db->wake, &attr);
    pthread_cond_init(&db->keeper.wake, &attr);
    pthread_cond_init(&db->idle, NULL);
    pthread_condattr_destroy(&attr);
}

static int open_all(struct db *db, const struct db_opts *opts, det_err *err)
{
    int rc = db->backend->prepare(db, opts, err);
    if (!rc) rc = log_start(db, err);
    if (!rc) rc = tidy_start(db, err);
    if (!rc) rc = start_writer(db, err);
    return rc ? rc : db->backend->start_threads(db, err);
}

static void free_all(struct tx_queue *q)
{
    for (struct db_tx *tx; (tx = queue_take(q));)
        db_tx_free(tx);
}

static void done(struct db *db)
{
    struct db_note ignored;
    free_all(&db->waiting);
    free_all(&db->finished);
    while (db_next_note(db, &ignored))
        continue;
    pthread_mutex_destroy(&db->lock);
    pthread_cond_destroy(&db->wake);
    pthread_cond_destroy(&db->idle);
    pthread_cond_destroy(&db->keeper.wake);
    close(db->event_fd);
    log_end(db);
    free(db->tails);
    free(db->name);
    free(db->path);
    free(db);
}

static void stop_writer(struct db *db)
{
    pthread_mutex_lock(&db->lock);
    db->stop = true;
    pthread_cond_signal(&db->wake);
    pthread_mutex_unlock(&db->lock);
    if (db->thread) pthread_join(db->thread, NULL);
}

int db_open(const char *where, const struct db_opts *opts, struct db **out, det_err *err)
{
    static const struct db_opts usual;
    struct db *db = xcalloc(1, sizeof *db);
    init(db, where);
    int rc = open_all(db, opts ? opts : &usual, err);
    if (!rc) {
        *out = db;
        return 0;
    }
    stop_writer(db);
    db->backend->stop_threads(db, false);
    db->backend->release(db, false);
    rc = det_wrap(err, "database '%s'", db_name(db));
    done(db);
    return rc;
}

const char *db_name(const struct db *db)
{
    return db->name ? db->name : db->path;
}

void db_close(struct db *db)
{
    if (!db) return;
    stop_writer(db);
    db->backend->stop_threads(db, true);
    db->backend->release(db, !db->state && !db->checking);
    done(db);
}
