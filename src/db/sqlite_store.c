// Unit sqlite_store.c: the file of a database in SQLite and its companions: opening it, its log (WAL),
// its free pages, whether it is still there. Called by db.c and by the writer thread.
#include "db/sqlite.h"

#include "db/db.h"
#include "db/migrate.h"
#include "db/tx.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    LOG_PAGES = 1000,       // of the log are copied into the file when they are so many
    LONG_LOG_PAGES = 16384, // so many are too many: those who can wait should
    LOG_HEADER_BYTES = 32,
    LOG_FRAME_BYTES = 24 + 4096,
    SHRINK_PAGES = 256,      // at a time
    FEW_PAGES = 512,         // are left for what comes next
    NEEDED_BYTES = 64 << 20, // of the disk, to begin with anything that writes much
    LOOK_AGAIN_US = 10 * 1000000,
};

// --- opening

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

// Of an older version: what it was like is kept in view for a copy before anything is changed.
static int bring_up_to_date(struct db *db, det_err *err)
{
    int version = 0;
    int rc = migrate_version(&db->writer, &version, err);
    bool is_old = migrate_is_old(version);
    char *copy = sqlite3_mprintf("%s.v%d", db->path, version);
    if (!rc && is_old && (rc = backup_check_space(db, copy, err)))
        det_wrap(err, "it is of an older version, and is copied before it is brought up to date");
    if (!rc) rc = keeper_open(db, is_old ? version : 0, err);
    if (!rc) rc = migrate(&db->writer, version, err);
    sqlite3_free(copy);
    return rc;
}

static int note_log(void *ctx, sqlite3 *sql, const char *name, int n_pages)
{
    struct db *db = ctx;
    (void)sql, (void)name;
    db->wal_pages = n_pages;
    guard_note_commit(&db->guard, LOG_HEADER_BYTES + (int64_t)n_pages * LOG_FRAME_BYTES);
    return SQLITE_OK;
}

int sqlite_prepare(struct db *db, const struct db_opts *opts, det_err *err)
{
    struct stat st = {0};
    bool is_new = stat(db->path, &st) < 0 || st.st_size == 0;
    int rc = is_new ? create_private(db->path, err) : 0;
    (void)opts;
    db->n_bytes = st.st_size;
    db->checking = !is_new; // one that was just made is whole
    if (!rc) rc = guard_open(&db->guard, db->path, is_new, err);
    if (!rc) rc = connection_open(&db->writer, db->path, false, err);
    if (!rc) rc = bring_up_to_date(db, err);
    if (!rc) rc = guard_watch_wal(&db->guard, err);
    if (!rc) sqlite3_wal_hook(db->writer.sql, note_log, db);
    return rc;
}

int sqlite_start_threads(struct db *db, det_err *err)
{
    return keeper_start(db, err);
}

void sqlite_stop_threads(struct db *db, bool good)
{
    keeper_close(db, good);
}

// A file that cannot be trusted is left as it is, with its log. So are files that are not ours.
void sqlite_release(struct db *db, bool good)
{
    if (good) guard_end(&db->guard, NULL);
    if (!good && db->writer.sql)
        sqlite3_db_config(db->writer.sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    connection_close(&db->writer);
    guard_close(&db->guard);
}

// --- for the writer

int sqlite_look(struct db *db, det_err *err)
{
    return guard_look(&db->guard, err) ? DB_FILES_GONE : 0;
}

int sqlite_begin(struct db *db, det_err *err)
{
    return statement_run(&db->writer, SQL_BEGIN, NULL, 0, err);
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

int sqlite_rest(struct db *db, det_err *err)
{
    int rc = sqlite_look(db, err);
    if (!rc) shorten_log(db);
    db->writer_is_behind = db->wal_pages >= LONG_LOG_PAGES;
    return rc;
}

bool sqlite_has_space(struct db *db)
{
    struct statvfs fs;
    struct tidy *t = &db->tidy;
    if (statvfs(db->path, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= NEEDED_BYTES) {
        t->said_no_space = false;
        return true;
    }
    t->not_before_us = clock_mono_us() + LOOK_AGAIN_US;
    if (!t->said_no_space)
        db_note(db, true, "%s: less than %d MB are free",
                t->move ? "logs of an older version wait to be moved"
                        : "metrics wait to be prepared for charts",
                NEEDED_BYTES >> 20);
    t->said_no_space = true;
    return false;
}

// --- free pages

static int read_number(sqlite3 *sql, const char *text, int64_t *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(sql, text, -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) *out = sqlite3_column_int64(s, 0);
    int code = rc == SQLITE_ROW ? 0 : sqlite_fail(sql, rc, err);
    sqlite3_finalize(s);
    return code;
}

int sqlite_shrink(struct db *db, det_err *err)
{
    sqlite3 *sql = db->writer.sql;
    int64_t n_free = 0, how = 0;
    bool done = true;
    char text[64];
    int rc = read_number(sql, "PRAGMA freelist_count", &n_free, err);
    if (!rc) rc = read_number(sql, "PRAGMA auto_vacuum", &how, err);
    if (rc) return rc;
    if (n_free > FEW_PAGES && how) {
        snprintf(text, sizeof text, "PRAGMA incremental_vacuum(%d)", SHRINK_PAGES);
        rc = sqlite3_exec(sql, text, NULL, NULL, NULL);
        rc = rc == SQLITE_OK ? 0 : sqlite_fail(sql, rc, err);
        db->tidy.shortened = true;
        done = false;
    } else if (n_free > FEW_PAGES) {
        rc = holes_punch(db, &done, err);
    } else if (db->tidy.shortened) { // the file is shorter when the log has been copied into it
        sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        guard_expect_change(&db->guard);
        db->tidy.shortened = false;
    }
    db->tidy.shrink = !done;
    return rc;
}
