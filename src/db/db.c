// Unit db.c: opening and closing a database.
#include "db/tx.h"

#include "base/mem.h"
#include "db/log_write.h"
#include "db/migrate.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// SQLite would create the file readable by all; its companions get the mode of the file. Nor would
// it make the name of a file durable that is there already.
static int create_private(const char *path, det_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return det_fail(err, errno == ENOSPC ? DET_ENOSPC : DET_EIO, "cannot create '%s': %s", path,
                        strerror(errno));
    close(fd);
    return fs_sync_directory_of(path, err);
}

static int start_threads(struct db *db, det_err *err)
{
    pthread_mutex_lock(&db->lock);
    int rc = pthread_create(&db->thread, NULL, writer_run, db);
    pthread_mutex_unlock(&db->lock);
    if (rc) return det_fail(err, DET_EIO, "cannot start a thread: %s", strerror(rc));
    return keeper_start(db, err);
}

static void init(struct db *db, const char *path)
{
    pthread_condattr_t attr;
    db->path = xstrdup(path);
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

// Of an older version: what it was like is kept in view for a copy before anything is changed.
static int bring_up_to_date(struct db *db, det_err *err)
{
    int version = 0;
    int rc = migrate_version(db->writer.sql, &version, err);
    bool is_old = migrate_is_old(version);
    char *copy = sqlite3_mprintf("%s.v%d", db->path, version);
    if (!rc && is_old && (rc = backup_check_space(db, copy, err)))
        det_wrap(err, "it is of an older version, and is copied before it is brought up to date");
    if (!rc) rc = keeper_open(db, is_old ? version : 0, err);
    if (!rc) rc = migrate(db->writer.sql, version, err);
    sqlite3_free(copy);
    return rc;
}

static int open_all(struct db *db, det_err *err)
{
    struct stat st = {0};
    bool is_new = stat(db->path, &st) < 0 || st.st_size == 0;
    int rc = is_new ? create_private(db->path, err) : 0;
    db->n_bytes = st.st_size;
    db->checking = !is_new; // one that was just made is whole
    if (!rc) rc = guard_open(&db->guard, db->path, is_new, err);
    if (!rc) rc = connection_open(&db->writer, db->path, false, err);
    if (!rc) rc = bring_up_to_date(db, err);
    if (!rc) rc = guard_watch_wal(&db->guard, err);
    if (!rc) rc = log_start(db, err);
    if (!rc) rc = tidy_start(db, err);
    if (rc) return rc;
    writer_watch_log(db);
    return start_threads(db, err);
}

static void free_all(struct tx_queue *q)
{
    for (struct db_tx *tx; (tx = queue_take(q));)
        db_tx_free(tx);
}

// A file that cannot be trusted is left as it is, with its log. So are files that are not ours.
static void close_files(struct db *db, bool good)
{
    if (good) guard_end(&db->guard, NULL);
    if (!good && db->writer.sql)
        sqlite3_db_config(db->writer.sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    connection_close(&db->writer);
    guard_close(&db->guard);
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
    free(db->tails);
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

int db_open(const char *path, struct db **out, det_err *err)
{
    struct db *db = xcalloc(1, sizeof *db);
    init(db, path);
    int rc = open_all(db, err);
    if (!rc) {
        *out = db;
        return 0;
    }
    stop_writer(db);
    keeper_close(db, false);
    close_files(db, false);
    done(db);
    return det_wrap(err, "database '%s'", path);
}

void db_close(struct db *db)
{
    if (!db) return;
    stop_writer(db);
    keeper_close(db, true);
    close_files(db, !db->state && !db->checking);
    done(db);
}
