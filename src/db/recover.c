// Unit recover.c: a whole database from a damaged one and its backups. Called while no master runs.
//
// The damaged file is only read, and kept. The newest backup that is whole is the ground; what can
// be read of the damaged file is newer, and goes on top. What comes out is checked, and then takes
// the place of the damaged file by being renamed.
#include "db/recover.h"

#include "db/keeper.h"
#include "db/migrate.h"
#include "db/tx.h"
#include "sys/fs.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct recovery {
    const char *path;   // of the database
    const char *backup; // NULL: there is none that is whole
    char *result;       // the new file, until it has its name
    char *aside;        // what the damaged one is called then
    struct arena arena;
    struct buf *report;
};

static bool exists(const char *path)
{
    struct stat st;
    return !stat(path, &st) && st.st_size > 0;
}

// --- the damaged file

// Nothing is written to it; its log is part of it.
static sqlite3 *open_damaged(const char *path)
{
    sqlite3 *sql = NULL;
    if (!exists(path)) return NULL;
    int rc = sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_db_config(sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        // "writable": tables can be read although what is said about others is damaged.
        rc = sqlite3_exec(sql,
                          "PRAGMA query_only = 1; PRAGMA writable_schema = 1;"
                          "SELECT count(*) FROM sqlite_schema",
                          NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) return sql;
    sqlite3_close(sql);
    return NULL;
}

// Whether there is anything to be mended.
static bool is_good(sqlite3 *sql, det_err *err)
{
    struct connection c = sqlite_connection(sql);
    int version = 0;
    if (!sql || backup_check(sql, err) || salvage_check(sql, err)) return false;
    if (!migrate_version(&c, &version, err) && version) return true;
    if (!err->code) det_fail(err, DET_ECORRUPT, "it is empty");
    return false;
}

// --- the new file

static void find_backup(struct recovery *r, const char *folder)
{
    struct dir_entries all = {0};
    det_err err;
    if (backup_list(folder, &r->arena, &all, &err)) return;
    for (size_t i = all.n; i > 0 && !r->backup; i--) {
        const char *path = arena_printf(&r->arena, "%s/%s", folder, all.items[i - 1].name);
        if (!backup_check_file(path, &err))
            r->backup = path;
        else
            buf_printf(r->report, "the backup '%s' is damaged, too: %s\n", path, err.msg);
    }
}

static int copy_file(const char *from, const char *to, det_err *err)
{
    struct str content;
    int rc = fs_map(from, &content, err);
    if (rc) return rc;
    rc = fs_create(to, content, err);
    fs_unmap(content);
    return rc;
}

static int open_result(struct recovery *r, sqlite3 **out, det_err *err)
{
    sqlite3 *sql = NULL;
    int version = 0;
    unlink(r->result); // of one that was interrupted
    int rc = r->backup ? copy_file(r->backup, r->result, err) : fs_create(r->result, STR(""), err);
    if (rc) return rc;
    chmod(r->result, 0600);
    rc = sqlite3_open_v2(r->result, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(sql,
                          "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = MEMORY;"
                          "PRAGMA synchronous = OFF",
                          NULL, NULL, NULL);
    struct connection c = sqlite_connection(sql);
    int code = rc == SQLITE_OK ? migrate_version(&c, &version, err) : sqlite_fail(sql, rc, err);
    if (!code) code = migrate(&c, version, err);
    sqlite_forget_statements(&c);
    if (code)
        sqlite3_close(sql);
    else
        *out = sql;
    return code;
}

static int sync_file(const char *path, det_err *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) < 0 ? fs_fail(err, "write", path) : 0;
    if (fd >= 0) close(fd);
    return rc;
}

static int make_result(struct recovery *r, sqlite3 *damaged, det_err *err)
{
    sqlite3 *sql = NULL;
    int rc = open_result(r, &sql, err);
    if (rc) return rc;
    if (damaged) {
        sqlite3_exec(sql, "BEGIN", NULL, NULL, NULL);
        rc = salvage(damaged, sql, r->report, err);
        int code = sqlite3_exec(sql, rc ? "ROLLBACK" : "COMMIT", NULL, NULL, NULL);
        if (!rc && code) rc = sqlite_fail(sql, code, err);
    }
    if (!rc) rc = backup_check(sql, err);
    sqlite3_close(sql);
    return rc ? rc : sync_file(r->result, err);
}

// --- the exchange

static int move(const char *from, const char *to, const char *suffix, struct arena *a, det_err *err)
{
    from = arena_printf(a, "%s%s", from, suffix);
    to = arena_printf(a, "%s%s", to, suffix);
    return access(from, F_OK) || !rename(from, to) ? 0 : fs_fail(err, "rename", from);
}

// The log goes first: without it the damaged file is no less damaged, but the new one must not
// find it.
static int exchange(struct recovery *r, det_err *err)
{
    int rc = move(r->path, r->aside, "-wal", &r->arena, err);
    unlink(arena_printf(&r->arena, "%s-shm", r->path));
    unlink(arena_printf(&r->arena, "%s-live", r->path));
    if (!rc) rc = fs_sync_directory_of(r->path, err);
    if (!rc) rc = move(r->path, r->aside, "", &r->arena, err);
    if (!rc && rename(r->result, r->path) < 0) rc = fs_fail(err, "rename", r->result);
    return rc ? rc : fs_sync_directory_of(r->path, err);
}

static void init(struct recovery *r, const char *path, struct buf *report)
{
    char when[32];
    struct tm now;
    time_t t = time(NULL);
    strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", gmtime_r(&t, &now));
    *r = (struct recovery){.path = path, .report = report};
    r->result = arena_printf(&r->arena, "%s.recovering", path);
    r->aside = arena_printf(&r->arena, "%s.damaged-%s", path, when);
}

static bool is_newer(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) || stat(b, &y)) return false;
    return x.st_mtim.tv_sec > y.st_mtim.tv_sec ||
           (x.st_mtim.tv_sec == y.st_mtim.tv_sec && x.st_mtim.tv_nsec > y.st_mtim.tv_nsec);
}

// A file that is whole, but of before what its log had. A backup that was made after the file was
// written last has all of that, and may have more.
static int recover_without_log(struct recovery *r, det_err *err)
{
    buf_printf(r->report,
               "its log, '%s-wal', is missing: what was acknowledged last before the master was "
               "killed is lost, unless it is in a backup\n",
               r->path);
    if (r->backup && is_newer(r->backup, r->path)) {
        buf_printf(r->report, "the backup '%s' is newer, and takes its place\n", r->backup);
        int rc = make_result(r, NULL, err);
        return rc ? rc : exchange(r, err);
    }
    unlink(arena_printf(&r->arena, "%s-live", r->path));
    return 0;
}

static int recover_damaged(struct recovery *r, const char *backups, sqlite3 *damaged, det_err *err)
{
    if (!r->backup && !damaged)
        return det_fail(err, DET_ENOTFOUND,
                        "there is neither a database that can be read nor a backup in '%s'",
                        backups);
    if (r->backup)
        buf_printf(r->report, "the newest backup is '%s'; %s\n", r->backup,
                   damaged ? "what can be read is newer, and replaces what it has"
                           : "what came after it is lost");
    else
        buf_addz(r->report, "there is no backup: what cannot be read is lost\n");
    bool was_there = exists(r->path);
    int rc = make_result(r, damaged, err);
    if (!rc) rc = exchange(r, err);
    if (!rc && was_there) buf_printf(r->report, "the damaged file is kept as '%s'\n", r->aside);
    return rc;
}

int db_recover(const char *path, const char *backups, struct buf *report, det_err *err)
{
    struct recovery r;
    det_err why = {0};
    int rc = 0;
    init(&r, path, report);
    // Before SQLite opens the file and makes a new log.
    bool log_is_missing = guard_is_wal_missing(path), was_there = exists(path);
    sqlite3 *sql = open_damaged(path);
    bool good = is_good(sql, &why);
    if (good)
        buf_printf(report, "'%s' is in order\n", path);
    else
        buf_printf(report, "'%s' is %s%s\n", path, was_there ? "damaged: " : "missing",
                   !was_there ? ""
                   : why.code ? why.msg
                              : "it cannot be opened");
    if (!good || log_is_missing) find_backup(&r, backups);
    if (!good)
        rc = recover_damaged(&r, backups, sql, err);
    else if (log_is_missing)
        rc = recover_without_log(&r, err);
    sqlite3_close(sql);
    if (rc) unlink(r.result);
    arena_done(&r.arena);
    return rc;
}
