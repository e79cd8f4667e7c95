// Unit keeper.c: the thread of db/keeper.h.
#include "db/keeper.h"

#include "base/mem.h"
#include "db/sqlite.h"
#include "db/tx.h"
#include "sys/clock.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NICE = 10 }; // nobody waits for a backup

int keeper_open(struct db *db, int old_version, det_err *err)
{
    struct keeper *k = &db->keeper;
    int rc = connection_open(&k->c, db->path, true, err);
    k->copy_version = old_version;
    if (!rc && old_version) {
        int code = sqlite3_exec(k->c.sql, "BEGIN; SELECT * FROM sqlite_schema", NULL, NULL, NULL);
        if (code != SQLITE_OK) rc = sqlite_fail(k->c.sql, code, err);
    }
    return rc;
}

// --- the check

static void check(struct db *db)
{
    det_err err = {0};
    int rc = backup_check(db->keeper.c.sql, &err);
    pthread_mutex_lock(&db->lock);
    if (rc && !db->keeper.stop)
        db_break(db, DET_ECORRUPT, "the database '%s' is damaged: %s", db->path, err.msg);
    if (!rc) db->checking = false;
    pthread_cond_broadcast(&db->wake);
    pthread_mutex_unlock(&db->lock);
    db_wake_owner(db);
}

// --- backups

// For the case that somebody wants to go back.
static void copy_old_version(struct db *db)
{
    struct keeper *k = &db->keeper;
    det_err err;
    char *path = sqlite3_mprintf("%s.v%d", db->path, k->copy_version);
    remove(path); // of an upgrade that was interrupted
    if (backup_copy(db, path, true, &err))
        db_note(db, true, "the database was brought up to date; of how it was no copy is kept: %s",
                err.msg);
    else
        db_note(db, false, "the database was brought up to date; '%s' is how it was", path);
    sqlite3_free(path);
    sqlite3_exec(k->c.sql, "COMMIT", NULL, NULL, NULL);
    pthread_mutex_lock(&db->lock);
    k->copy_version = 0;
    pthread_cond_broadcast(&db->idle);
    pthread_mutex_unlock(&db->lock);
}

// With the lock held; lets it go while it works.
static void make_backup(struct db *db, bool patient)
{
    struct keeper *k = &db->keeper;
    bool rescue = k->rescue;
    uint64_t n_commits = db->n_commits;
    char name[64];
    det_err err;
    pthread_mutex_unlock(&db->lock);
    int rc = backup_make(db, k->folder, patient, name, sizeof name, &err);
    if (rc)
        db_note(db, true, "no backup could be made: %s", err.msg);
    else if (rescue)
        db_note(db, true, "all that was acknowledged has been saved as '%s/%s'", k->folder, name);
    pthread_mutex_lock(&db->lock);
    if (!rc) k->n_saved = n_commits;
    k->rescue = false;
    k->next_us = clock_mono_us() + k->every_us;
}

static bool backup_is_due(const struct db *db)
{
    const struct keeper *k = &db->keeper;
    if (!k->folder) return false;
    if (k->rescue) return true;
    return !db->state && clock_mono_us() >= k->next_us && db->n_commits != k->n_saved;
}

// --- the thread

static void wait_for_work(struct db *db)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++; // often enough for something that happens every hour
    pthread_cond_timedwait(&db->keeper.wake, &db->lock, &until);
}

static void *keeper_main(void *arg)
{
    struct db *db = arg;
    struct keeper *k = &db->keeper;
    if (db->checking) check(db); // others wait for it
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    if (k->copy_version && !db_is_broken(db)) copy_old_version(db);
    pthread_mutex_lock(&db->lock);
    while (!k->stop) {
        if (backup_is_due(db))
            make_backup(db, true);
        else
            wait_for_work(db);
    }
    pthread_mutex_unlock(&db->lock);
    return NULL;
}

int keeper_start(struct db *db, det_err *err)
{
    int rc = pthread_create(&db->keeper.thread, NULL, keeper_main, db);
    if (rc) return det_fail(err, DET_EIO, "cannot start a thread: %s", strerror(rc));
    db->keeper.started = true;
    return 0;
}

void keeper_close(struct db *db, bool last)
{
    struct keeper *k = &db->keeper;
    if (k->started) {
        pthread_mutex_lock(&db->lock);
        k->stop = true;
        sqlite3_interrupt(k->c.sql);
        pthread_cond_signal(&k->wake);
        pthread_mutex_unlock(&db->lock);
        pthread_join(k->thread, NULL);
        pthread_mutex_lock(&db->lock);
        if (last && k->folder && !db->state && !db->checking && db->n_commits != k->n_saved)
            make_backup(db, false);
        pthread_mutex_unlock(&db->lock);
    }
    connection_close(&k->c);
    free(k->folder);
}

void db_keep_backups(struct db *db, const char *folder, int64_t every_us)
{
    struct keeper *k = &db->keeper;
    pthread_mutex_lock(&db->lock);
    free(k->folder);
    k->folder = xstrdup(folder);
    k->every_us = every_us;
    k->next_us = clock_mono_us() + every_us;
    pthread_mutex_unlock(&db->lock);
}
