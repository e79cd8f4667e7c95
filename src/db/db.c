// Unit db.c: opening and closing a database.
#include "db/tx.h"

#include "base/mem.h"
#include "db/migrate.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

// SQLite would create the file readable by all; its companions get the mode of the file.
static int create_private(const char *path, det_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return det_fail(err, errno == ENOSPC ? DET_ENOSPC : DET_EIO, "cannot create '%s': %s", path,
                        strerror(errno));
    close(fd);
    return 0;
}

static int start_writer(struct db *db, det_err *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&db->lock, NULL);
    pthread_cond_init(&db->wake, &attr);
    pthread_cond_init(&db->idle, NULL);
    pthread_condattr_destroy(&attr);
    int rc = pthread_create(&db->thread, NULL, writer_run, db);
    if (rc) return det_fail(err, DET_EIO, "cannot start a thread: %s", strerror(rc));
    return 0;
}

int db_open(const char *path, struct db **out, det_err *err)
{
    struct db *db = xcalloc(1, sizeof *db);
    db->path = xstrdup(path);
    db->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = create_private(path, err);
    if (!rc) rc = connection_open(&db->writer, path, false, err);
    if (!rc) rc = migrate(db->writer.sql, path, err);
    if (!rc) rc = start_writer(db, err);
    if (!rc) {
        *out = db;
        return 0;
    }
    connection_close(&db->writer);
    close(db->event_fd);
    free(db->path);
    free(db);
    return det_wrap(err, "database '%s'", path);
}

static void free_all(struct tx_queue *q)
{
    for (struct db_tx *tx; (tx = queue_take(q));)
        db_tx_free(tx);
}

void db_close(struct db *db)
{
    if (!db) return;
    pthread_mutex_lock(&db->lock);
    db->stop = true;
    pthread_cond_signal(&db->wake);
    pthread_mutex_unlock(&db->lock);
    pthread_join(db->thread, NULL);
    free_all(&db->waiting);
    free_all(&db->finished);
    connection_close(&db->writer);
    pthread_mutex_destroy(&db->lock);
    pthread_cond_destroy(&db->wake);
    pthread_cond_destroy(&db->idle);
    close(db->event_fd);
    free(db->path);
    free(db);
}
