// Unit postgres_store.c: who may write to a database in a server. Called by db.c and by the writer
// thread.
//
// The session that writes has an advisory lock for as long as it lives; another process that wants to
// write waits for it. Whoever gets it counts the epoch up, and every transaction changes the row that
// has it, so one that comes from an earlier epoch changes nothing: a session that seemed dead and was
// not, or one behind a program that shares sessions. A session of which nothing is heard for some
// seconds is ended by the server, so whoever holds the lock asks for something every second.
//
// The same row has the number of the last transaction of the epoch. When the connection is lost in
// the middle of a commit, it tells afterwards whether that happened.
#include "db/postgres.h"

#include "base/mem.h"
#include "db/db.h"
#include "db/migrate.h"
#include "db/tx.h"
#include "sys/clock.h"
#include <poll.h>
#include <unistd.h>

enum { ASK_EVERY_US = 1000000, TRY_LOCK_MS = 300 };

struct pg_lease {
    int64_t epoch;
    int64_t batch; // of the latest transaction that was begun
};

// --- the lock

static int try_lock(struct db *db, bool *got, det_err *err)
{
    int64_t answer = 0;
    int rc = statement_number(&db->writer, SQL_CLUSTER_LOCK, NULL, 0, -1, &answer, err);
    if (!rc && answer < 0)
        rc = det_fail(err, DET_ENOTFOUND,
                      "the schema to use (search_path) is not there; make it with CREATE SCHEMA");
    *got = answer > 0;
    return rc;
}

// Who has it, in the words that they left.
static void find_holder(struct db *db, struct arena *a, const char **out)
{
    struct rows r;
    *out = "another process";
    rows_start(&db->writer, SQL_CLUSTER_HOLDER, NULL, 0, &r);
    if (rows_next(&r) && !rows_is_null(&r, 0)) *out = rows_text(&r, 0, a);
    rows_end(&r, 0, NULL);
}

static bool is_stopped(const struct db_opts *opts)
{
    struct pollfd p = {.fd = opts->stop_fd, .events = POLLIN};
    int n = poll(&p, opts->stop_fd > 0, TRY_LOCK_MS);
    return n > 0;
}

// The server may be restarted while one waits.
static int try_again(struct db *db, bool *got, det_err *err)
{
    if (!db->writer.backend && connection_open(&db->writer, db->path, false, err)) return 0;
    int rc = try_lock(db, got, err);
    if (rc == DB_AWAY) connection_close(&db->writer);
    return rc == DB_AWAY ? 0 : rc;
}

static int wait_for_lock(struct db *db, const struct db_opts *opts, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const char *holder = NULL;
    bool got = false;
    int rc = try_lock(db, &got, err);
    if (!rc && !got) find_holder(db, &arena, &holder);
    if (!rc && !got && !opts->standby)
        rc = det_fail(err, DET_ESTATE, "it is used by %s", holder);
    else if (!rc && !got)
        opts->standby(opts->ctx, holder);
    while (!rc && !got) {
        if (is_stopped(opts)) rc = det_fail(err, DET_ECANCELED, "the wait was ended");
        if (!rc) rc = try_again(db, &got, err);
    }
    arena_done(&arena);
    return rc;
}

// --- opening

static int bring_up_to_date(struct db *db, det_err *err)
{
    int version = 0;
    int rc = migrate_version(&db->writer, &version, err);
    if (!rc) rc = migrate(&db->writer, version, err);
    if (!rc && migrate_is_old(version))
        db_note(db, false, "the database was of version %d, and was brought up to date", version);
    return rc;
}

static const char *own_name(const struct db_opts *opts, char *host, size_t size)
{
    if (opts->holder) return opts->holder;
    if (gethostname(host, size)) return "a program";
    host[size - 1] = '\0';
    return host;
}

// All sessions of earlier epochs are over, and what they had begun.
static int begin_epoch(struct db *db, const struct db_opts *opts, det_err *err)
{
    char host[256];
    const struct value name = VALUE_OF_TEXT(str_from(own_name(opts, host, sizeof host)));
    int rc = statement_run(&db->writer, SQL_CLUSTER_BEGIN, &name, 1, err);
    if (!rc) rc = connection_flush(&db->writer, err);
    if (!rc)
        rc = statement_number(&db->writer, SQL_CLUSTER_EPOCH, NULL, 0, 0, &db->lease->epoch, err);
    return rc;
}

// What makes promises that the server may not keep.
static void look_at_settings(struct db *db)
{
    struct rows r;
    rows_start(&db->writer, SQL_SERVER_SETTINGS, NULL, 0, &r);
    while (rows_next(&r)) {
        struct str name = rows_bytes(&r, 0);
        db_note(db, true,
                "%.*s is off at the server of the database: a power loss can take what was"
                " acknowledged",
                STR_ARG(name));
    }
    rows_end(&r, 0, NULL);
}

int pg_prepare(struct db *db, const struct db_opts *opts, det_err *err)
{
    db->name = pg_name(db->path);
    db->lease = xcalloc(1, sizeof *db->lease);
    int rc = connection_open(&db->writer, db->path, false, err);
    if (!rc) rc = wait_for_lock(db, opts, err);
    if (!rc) rc = bring_up_to_date(db, err);
    if (!rc) rc = begin_epoch(db, opts, err);
    if (!rc) look_at_settings(db);
    if (rc == DB_AWAY && err) err->code = DET_EUNREACHABLE;
    return rc == DB_AWAY ? DET_EUNREACHABLE : rc;
}

int pg_start_threads(struct db *db, det_err *err)
{
    (void)db, (void)err;
    return 0;
}

void pg_stop_threads(struct db *db, bool good)
{
    (void)db, (void)good;
}

// The server ends a session some time after its connection was closed. So the lock is given back first,
// and whoever opens the database next need not wait.
void pg_release(struct db *db, bool good)
{
    int64_t ignored;
    if (good && db->writer.backend)
        statement_number(&db->writer, SQL_CLUSTER_UNLOCK, NULL, 0, 0, &ignored, NULL);
    connection_close(&db->writer);
    free(db->lease);
    db->lease = NULL;
}

// --- for the writer

int pg_look(struct db *db, det_err *err)
{
    (void)db, (void)err;
    return 0;
}

static int fenced(det_err *err)
{
    return det_fail(err, DB_FENCED, "another process has taken over the database");
}

int pg_begin(struct db *db, det_err *err)
{
    struct connection *c = &db->writer;
    const struct value values[] = {VALUE_OF_INT(++db->lease->batch),
                                   VALUE_OF_INT(db->lease->epoch)};
    int rc = statement_run(c, SQL_BEGIN, NULL, 0, err);
    if (rc) return rc;
    const struct pending fence = {PENDING_ONE, SQL_CLUSTER_FENCE, DB_FENCED};
    return pg_submit(c, fence, NULL, values, 2, err);
}

int pg_rest(struct db *db, det_err *err)
{
    int64_t epoch = 0;
    if (clock_mono_us() - db->writer.pg->heard_us < ASK_EVERY_US) return 0;
    int rc = statement_number(&db->writer, SQL_CLUSTER_EPOCH, NULL, 0, 0, &epoch, err);
    return rc || epoch == db->lease->epoch ? rc : fenced(err);
}

bool pg_has_space(struct db *db)
{
    (void)db;
    return true;
}

// Whether the epoch is still ours, and what was committed last.
static int look_back(struct db *db, bool *committed, det_err *err)
{
    struct rows r;
    int64_t epoch = 0, batch = 0;
    rows_start(&db->writer, SQL_CLUSTER_LAST, NULL, 0, &r);
    if (rows_next(&r)) {
        epoch = rows_int(&r, 0);
        batch = rows_int(&r, 1);
    }
    int rc = rows_end(&r, 0, err);
    if (!rc && epoch != db->lease->epoch) rc = fenced(err);
    *committed = batch == db->lease->batch;
    return rc;
}

// The lock of the session before may be held for some seconds more. Only when it is free is it known
// what became of the last transaction.
int pg_come_back(struct db *db, bool *committed, det_err *err)
{
    bool got = false;
    connection_close(&db->writer);
    int rc = connection_open(&db->writer, db->path, false, err);
    if (!rc) rc = try_lock(db, &got, err);
    if (!rc) rc = look_back(db, committed, err);
    if (!rc && !got)
        rc = det_fail(err, DB_AWAY, "the server of the database still has the session before");
    if (rc == DET_EUNREACHABLE) rc = DB_AWAY;
    return rc;
}
