// Unit health.c: whether the database can be written, and what its owner should know about it.
#include "db/tx.h"

#include "base/mem.h"
#include <stdarg.h>
#include <sys/eventfd.h>

// A check takes seconds for each of these many bytes; until then a client can wait for its answer.
enum { LARGE_BYTES = 256 << 20 };

void db_wake_owner(struct db *db)
{
    eventfd_write(db->event_fd, 1);
}

void db_break(struct db *db, int code, const char *fmt, ...)
{
    char text[DET_ERR_MSG_MAX];
    va_list args;
    if (db->state == DB_BROKEN) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    db->state = DB_BROKEN;
    det_fail(&db->problem, DB_BROKEN, "%s", text);
    db->is_damaged = code == DET_ECORRUPT;
    db->is_fenced = code == DB_FENCED;
    db->keeper.rescue = code == DB_FILES_GONE;
    pthread_cond_broadcast(&db->wake);
    pthread_cond_broadcast(&db->keeper.wake);
    db_wake_owner(db);
}

// --- notes

static void add_note(struct db *db, bool problem, const char *fmt, va_list args)
{
    struct note *note = xcalloc(1, sizeof *note);
    note->said.is_problem = problem;
    vsnprintf(note->said.text, sizeof note->said.text, fmt, args);
    *db->last_note = note;
    db->last_note = &note->next;
    db_wake_owner(db);
}

void db_note_locked(struct db *db, bool problem, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_note(db, problem, fmt, args);
    va_end(args);
}

void db_note(struct db *db, bool problem, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&db->lock);
    add_note(db, problem, fmt, args);
    pthread_mutex_unlock(&db->lock);
    va_end(args);
}

bool db_next_note(struct db *db, struct db_note *out)
{
    pthread_mutex_lock(&db->lock);
    struct note *note = db->notes;
    if (note) db->notes = note->next;
    if (!db->notes) db->last_note = &db->notes;
    pthread_mutex_unlock(&db->lock);
    if (!note) return false;
    *out = note->said;
    free(note);
    return true;
}

// --- states

int db_refuses(struct db *db, det_err *err)
{
    pthread_mutex_lock(&db->lock);
    int rc = 0;
    if (db->state == DB_BROKEN || db->state == DB_AWAY)
        rc = det_fail(err, DET_EUNREACHABLE, "%s", db->problem.msg);
    else if (db->state == DET_ENOSPC)
        rc = det_fail(err, DET_ENOSPC, "the disk that holds the database is full; free some space");
    else if (db->checking && db->n_bytes > LARGE_BYTES)
        rc = det_fail(err, DB_BROKEN, "the database is being checked; try again in some seconds");
    pthread_mutex_unlock(&db->lock);
    return rc;
}

static bool read_flag(struct db *db, const bool *flag)
{
    pthread_mutex_lock(&db->lock);
    bool value = *flag;
    pthread_mutex_unlock(&db->lock);
    return value;
}

bool db_is_checking(struct db *db)
{
    return read_flag(db, &db->checking);
}

bool db_is_damaged(struct db *db)
{
    return read_flag(db, &db->is_damaged);
}

bool db_is_fenced(struct db *db)
{
    return read_flag(db, &db->is_fenced);
}

bool db_is_busy(struct db *db)
{
    return read_flag(db, &db->log_is_long);
}

void db_wait_tidy(struct db *db)
{
    pthread_mutex_lock(&db->lock);
    while ((!db->is_tidy || db->waiting.first || db->keeper.copy_version) && !db->state)
        pthread_cond_wait(&db->idle, &db->lock);
    pthread_mutex_unlock(&db->lock);
}
