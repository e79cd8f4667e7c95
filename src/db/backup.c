// Unit backup.c: copies of the database, made while it is in use; see db/keeper.h.
#include "db/keeper.h"

#include "base/arena.h"
#include "db/sqlite.h"
#include "db/tx.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    N_KEPT = 3,
    PAGES_AT_ONCE = 256,
    NEAR_S = 50 * 60,         // backups nearer to each other than that are thinned out
    RESERVE_BYTES = 64 << 20, // that a backup does not take from others
};

int backup_check(sqlite3 *sql, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(sql, "PRAGMA quick_check(1)", -1, &s, NULL), code = 0;
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    const char *said = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (said && !str_eqz(str_from(said), "ok"))
        code = backend_clean(err, det_fail(err, DET_ECORRUPT, "%s", said));
    else if (!said)
        code = sqlite_fail(sql, rc, err);
    sqlite3_finalize(s);
    return code;
}

// --- one copy

static int fail(sqlite3 *sql, int rc, const char *path, det_err *err)
{
    sqlite_fail(sql, rc, err);
    return det_wrap(err, "cannot make '%s'", path);
}

int backup_check_space(struct db *db, const char *path, det_err *err)
{
    struct statvfs fs;
    struct stat st;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (fstat(guard_fd(&db->guard), &st) < 0 || statvfs(folder, &fs) < 0) return 0;
    uint64_t n_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t n_needed = (uint64_t)st.st_blocks * 512 + RESERVE_BYTES;
    if (n_free >= n_needed) return 0;
    return det_fail(err, DET_ENOSPC, "'%s' needs %llu MB, and %llu MB are free; free some space",
                    path, (unsigned long long)(n_needed >> 20), (unsigned long long)(n_free >> 20));
}

// As long as the work before took: half of the disk is left to others.
static void rest(int64_t since_us)
{
    int64_t us = clock_mono_us() - since_us;
    if (us > 50000) us = 50000;
    nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
}

static bool is_stopped(struct db *db)
{
    pthread_mutex_lock(&db->lock);
    bool stop = db->keeper.stop;
    pthread_mutex_unlock(&db->lock);
    return stop;
}

// In one transaction of the source: it stays as it was when that began.
static int copy_pages(struct db *db, sqlite3 *to, int fd, bool patient, det_err *err)
{
    sqlite3 *from = db->keeper.c.sql;
    bool own = sqlite3_get_autocommit(from);
    if (own) sqlite3_exec(from, "BEGIN", NULL, NULL, NULL);
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
    int rc = b ? SQLITE_OK : sqlite3_errcode(to);
    while (rc == SQLITE_OK) {
        int64_t begin_us = clock_mono_us();
        rc = sqlite3_backup_step(b, patient ? PAGES_AT_ONCE : -1);
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); // not all of it at the end
        if (patient && rc == SQLITE_OK) rest(begin_us);
        if (patient && is_stopped(db)) rc = SQLITE_INTERRUPT;
    }
    if (b) sqlite3_backup_finish(b);
    if (own) sqlite3_exec(from, "COMMIT", NULL, NULL, NULL);
    return rc == SQLITE_DONE ? 0 : sqlite_fail(to, rc, err);
}

// Nobody else knows the file, and a crash makes it worthless: SQLite need not be careful. At the
// end it is a database in one file, without a log beside it.
static int copy(struct db *db, const char *temp, bool patient, det_err *err)
{
    sqlite3 *to = NULL;
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return fs_fail(err, "create", temp);
    int rc = sqlite3_open_v2(temp, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(to,
                          "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                          "PRAGMA cache_size = -1000",
                          NULL, NULL, NULL);
    int code = rc == SQLITE_OK ? copy_pages(db, to, fd, patient, err) : fail(to, rc, temp, err);
    if (!code && (rc = sqlite3_exec(to, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL)))
        code = fail(to, rc, temp, err);
    sqlite3_close(to);
    if (!code && fsync(fd) < 0) code = fs_fail(err, "write", temp);
    close(fd);
    return code;
}

int backup_check_file(const char *path, det_err *err)
{
    sqlite3 *sql = NULL;
    int rc = sqlite3_open_v2(path, &sql, SQLITE_OPEN_READONLY, NULL);
    int code = rc == SQLITE_OK ? backup_check(sql, err) : fail(sql, rc, path, err);
    sqlite3_close(sql);
    return code;
}

int backup_copy(struct db *db, const char *path, bool patient, det_err *err)
{
    char *temp = sqlite3_mprintf("%s.tmp", path);
    unlink(temp); // of one that was interrupted
    int rc = backup_check_space(db, path, err);
    if (!rc) rc = copy(db, temp, patient, err);
    if (!rc) rc = backup_check_file(temp, err);
    if (!rc && rename(temp, path) < 0) rc = fs_fail(err, "create", path);
    if (!rc) rc = fs_sync_directory_of(path, err);
    if (rc) unlink(temp);
    sqlite3_free(temp);
    return rc;
}

// --- backups

static int64_t time_of(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (int64_t)st.st_mtime;
}

int backup_list(const char *folder, struct arena *a, struct dir_entries *out, det_err *err)
{
    struct dir_entries all = {0}, found = {0};
    int dir = -1;
    int rc = dir_open(folder, 0, &dir, err);
    if (!rc) rc = dir_list(dir, folder, a, &all, err);
    if (dir >= 0) close(dir);
    if (rc) return rc;
    found.items = all.items;
    for (size_t i = 0; i < all.n; i++) {
        struct str name = str_from(all.items[i].name);
        if (all.items[i].kind == DIR_FILE && str_starts(name, STR("det-")) &&
            str_ends(name, STR(".db")))
            found.items[found.n++] = all.items[i];
    }
    *out = found;
    return 0;
}

// Too many: the one before the newest goes if it is near to its elder, else the oldest. So whoever
// restarts the master ten times in a row still has a backup of an hour ago.
static void thin_out(const char *folder)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries all = {0};
    int dir = -1;
    if (backup_list(folder, &arena, &all, NULL) || dir_open(folder, 0, &dir, NULL)) goto out;
    while (all.n > N_KEPT) {
        size_t at = all.n - 2;
        const char *name = all.items[at].name;
        if (time_of(dir, name) - time_of(dir, all.items[at - 1].name) >= NEAR_S) at = 0;
        unlinkat(dir, all.items[at].name, 0);
        memmove(all.items + at, all.items + at + 1, (all.n - at - 1) * sizeof *all.items);
        all.n--;
    }
out:
    if (dir >= 0) close(dir);
    arena_done(&arena);
}

int backup_make(struct db *db, const char *folder, bool patient, char *name, size_t size,
                det_err *err)
{
    struct arena arena = ARENA_INIT;
    int64_t now_us = clock_unix_us();
    time_t now_s = now_us / 1000000;
    struct tm now;
    int dir = -1;
    int rc = dir_open(folder, DIR_CREATE | DIR_DURABLE, &dir, err);
    if (dir >= 0) close(dir);
    if (!rc) {
        size_t n = strftime(name, size, "det-%Y%m%dT%H%M%S", gmtime_r(&now_s, &now));
        snprintf(name + n, size - n, ".%06dZ.db", (int)(now_us % 1000000));
        rc = backup_copy(db, arena_printf(&arena, "%s/%s", folder, name), patient, err);
    }
    if (!rc) thin_out(folder);
    arena_done(&arena);
    return rc;
}
