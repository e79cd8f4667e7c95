// Unit tidy.c: the slices of db/tidy.h. Called by the writer thread.
//
//     discard   logs and metrics of deleted trials, logs that are too old
//     move      lines of a database of before there were chunks: rows of the table logs, by trial
//               and number, become chunks with the same numbers; in the same transaction the rows
//               go
//     count     chunks of a database of before their lines were counted
//     series    reports of metrics get into spans, which charts are made of (series_write.h)
//     shrink    pages that are free: the file gets shorter, or gets holes
//
// Each slice is a transaction, so a master that is killed goes on where it was.
#include "db/tidy.h"

#include "base/assert.h"
#include "db/log_write.h"
#include "db/series_write.h"
#include "sys/clock.h"
#include <sys/statvfs.h>

enum {
    MOVE_BYTES = 4 * CHUNK_BYTES,
    MOVE_LINES = 2000,
    SHRINK_PAGES = 256,      // at a time
    FEW_PAGES = 512,         // are left for what comes next
    NEEDED_BYTES = 64 << 20, // of the disk, to begin with anything that writes much
    LOOK_AGAIN_US = 10 * 1000000,
};

// --- what there is to do

static int read_number(struct connection *c, const char *text, int64_t *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->sql, text, -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) *out = sqlite3_column_int64(s, 0);
    int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
    sqlite3_finalize(s);
    return code;
}

int tidy_start(struct db *db, det_err *err)
{
    int64_t discard = 0, move = 0, count = 0;
    bool series = false;
    int rc = read_number(&db->writer, "SELECT EXISTS (SELECT 1 FROM discards)", &discard, err);
    if (!rc) rc = read_number(&db->writer, "SELECT EXISTS (SELECT 1 FROM logs)", &move, err);
    if (!rc)
        rc = read_number(&db->writer,
                         "SELECT EXISTS (SELECT 1 FROM log_chunks WHERE nLines IS NULL)", &count,
                         err);
    if (!rc) rc = series_start(db, &series, err);
    db->tidy = (struct tidy){
        .discard = discard, .move = move, .count = count, .series = series, .shrink = true};
    return rc;
}

bool tidy_is_due(const struct db *db, int64_t now_us)
{
    const struct tidy *t = &db->tidy;
    return (t->discard || t->move || t->count || t->series || t->shrink) &&
           now_us >= t->not_before_us;
}

static bool has_space(struct db *db)
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

// --- discard

// The lines of a chunk that are not too old, as a chunk.
static int shorten(struct connection *c, const struct chunk *chunk, int64_t before_us,
                   struct arena *a, det_err *err)
{
    struct chunk_lines lines;
    struct chunk rest;
    size_t n = 0;
    if (chunk_unpack(chunk, NULL, a, &lines, NULL)) // nobody can read it
        return log_run(c, SQL_CHUNK_DELETE, chunk->id, 0, err);
    for (size_t i = 0; i < lines.n; i++)
        if (lines.items[i].time_us >= before_us) lines.items[n++] = lines.items[i];
    int rc = log_run(c, SQL_CHUNK_DELETE, chunk->id, 0, err);
    if (rc || !n) return rc;
    chunk_pack(lines.items, n, a, &rest);
    rest.open = rest.open && chunk->open;
    return log_insert(c, &rest, err);
}

// *any: there was one.
static int shorten_next(struct connection *c, int64_t trial_id, int64_t before_us, bool *any,
                        det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct chunk chunk;
    sqlite3_stmt *s = connection_statement(c, SQL_CHUNK_TO_SHORTEN);
    int rc = s ? sqlite3_bind_int64(s, 1, trial_id) : sqlite3_errcode(c->sql);
    if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 2, before_us);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    *any = rc == SQLITE_ROW;
    if (*any) log_read_chunk(s, &arena, &chunk);
    int code = *any || rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
    if (s) sqlite3_reset(s);
    if (!code && *any) code = shorten(c, &chunk, before_us, &arena, err);
    arena_done(&arena);
    return code;
}

struct discard {
    int64_t trial_id, before_us; // INT64_MAX: everything of the trial
};

static int find_discard(struct connection *c, struct discard *out, bool *any, det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, SQL_DISCARD_FIND);
    int rc = s ? sqlite3_step(s) : sqlite3_errcode(c->sql);
    *any = rc == SQLITE_ROW;
    if (*any) *out = (struct discard){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1)};
    int code = *any || rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
    if (s) sqlite3_reset(s);
    return code;
}

// Statements that delete some at a time.
static int discard_some(struct connection *c, const struct discard *d, bool *any, det_err *err)
{
    enum { N_LOG_PARTS = 2 };
    static const enum statement parts[] = {SQL_CHUNKS_DISCARD,  SQL_OLD_LINES_DISCARD,
                                           SQL_METRICS_DISCARD, SQL_POINTS_DISCARD,
                                           SQL_SPANS_DISCARD,   SQL_SAMPLES_DISCARD};
    size_t n = d->before_us == INT64_MAX ? STATIC_LEN(parts) : N_LOG_PARTS;
    int rc = 0;
    *any = false;
    for (size_t i = 0; !rc && !*any && i < n; i++) {
        rc = log_run(c, parts[i], d->trial_id, d->before_us, err);
        *any = sqlite3_changes(c->sql) > 0;
    }
    if (!rc && !*any) rc = shorten_next(c, d->trial_id, d->before_us, any, err);
    return rc;
}

static int discard(struct db *db, det_err *err)
{
    struct connection *c = &db->writer;
    struct discard d = {0};
    bool any = false, more = false;
    int rc = find_discard(c, &d, &any, err);
    if (rc || !any) {
        db->tidy.discard = false;
        return rc;
    }
    rc = discard_some(c, &d, &more, err);
    // Numbers of lines are never given again, also not those of the last ones.
    if (!rc) rc = log_run(c, SQL_LAST_LOG_ID_SAVE, db->next_log_id - 1, 0, err);
    if (!rc && !more) rc = log_run(c, SQL_DISCARD_DONE, d.trial_id, 0, err);
    db->tidy.shrink = true;
    return rc;
}

// --- move

// A line that makes no sense is kept as far as it does.
static void read_line(sqlite3_stmt *s, struct arena *a, struct log_line *out)
{
    if (!record_read(s, &tables[NOUN_LOG_LINE], a, out, NULL) && out->log) return;
    *out = (struct log_line){.id = sqlite3_column_int64(s, 0),
                             .trial_id = sqlite3_column_int64(s, 1),
                             .time_us = sqlite3_column_int64(s, 2),
                             .log = column_text(s, (int)log_line_table.n - 1, a)};
    if (!out->log) out->log = "";
}

static int find_lines(struct connection *c, int64_t trial_id, struct arena *a, struct growing *out,
                      det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, SQL_OLD_LINES_UP);
    const int64_t values[] = {trial_id, INT64_MIN, INT64_MAX};
    size_t n_bytes = 0;
    int rc = s ? SQLITE_OK : sqlite3_errcode(c->sql);
    for (int i = 0; rc == SQLITE_OK && i < (int)STATIC_LEN(values); i++)
        rc = sqlite3_bind_int64(s, i + 1, values[i]);
    while (rc == SQLITE_OK && n_bytes < MOVE_BYTES && out->n < MOVE_LINES &&
           (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct log_line *line = grow(out);
        read_line(s, a, line);
        n_bytes += strlen(line->log);
        rc = SQLITE_OK;
    }
    int code = rc == SQLITE_OK || rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
    if (s) sqlite3_reset(s);
    return code;
}

static int move_lines(struct connection *c, const struct log_line *lines, size_t n, struct arena *a,
                      det_err *err)
{
    size_t goal = chunk_goal(lines, n);
    int rc = 0;
    for (size_t done = 0, k; !rc && done < n; done += k) {
        struct chunk chunk;
        k = chunk_cut(lines + done, n - done, goal);
        chunk_pack(lines + done, k, a, &chunk);
        chunk.open = false; // open ones are the last of a trial
        rc = log_insert(c, &chunk, err);
    }
    return rc ? rc : log_run(c, SQL_OLD_LINES_MOVED, lines[0].trial_id, lines[n - 1].id, err);
}

static int move(struct db *db, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct growing lines = {.arena = &arena, .size = sizeof(struct log_line)};
    sqlite3_stmt *s = connection_statement(&db->writer, SQL_OLD_LINES_TRIAL);
    int rc = s ? sqlite3_step(s) : sqlite3_errcode(db->writer.sql);
    bool any = rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL;
    int64_t trial_id = any ? sqlite3_column_int64(s, 0) : 0;
    int code = rc == SQLITE_ROW ? 0 : sqlite_fail(db->writer.sql, rc, err);
    if (s) sqlite3_reset(s);
    if (any) code = find_lines(&db->writer, trial_id, &arena, &lines, err);
    if (!code && any)
        code = move_lines(&db->writer, (struct log_line *)lines.items, lines.n, &arena, err);
    if (!any && !code) {
        db->tidy.move = false;
        db->tidy.shrink = true;
        db_note(db, false, "the logs of an older version have been moved");
    }
    arena_done(&arena);
    return code;
}

// --- series

static int keep_series(struct db *db, det_err *err)
{
    bool is_due;
    int rc = series_slice(db, &is_due, err);
    if (!rc) db->tidy.series = is_due;
    return rc;
}

// --- count

// A chunk that nobody can read has as many lines as it has numbers.
static int count_lines(struct connection *c, const struct chunk *chunk, struct arena *a,
                       det_err *err)
{
    struct chunk_lines lines = {0};
    int64_t n = chunk->last_id - chunk->id + 1;
    if (!chunk_unpack(chunk, NULL, a, &lines, NULL)) n = (int64_t)lines.n;
    return log_run(c, SQL_CHUNK_COUNTED, chunk->id, MAX(1, n), err);
}

static int count(struct db *db, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct growing list = {.arena = &arena, .size = sizeof(struct chunk)};
    sqlite3_stmt *s = connection_statement(&db->writer, SQL_CHUNKS_UNCOUNTED);
    int rc = s ? SQLITE_OK : sqlite3_errcode(db->writer.sql);
    while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        log_read_chunk(s, &arena, grow(&list));
        rc = SQLITE_OK;
    }
    int code = rc == SQLITE_DONE ? 0 : sqlite_fail(db->writer.sql, rc, err);
    if (s) sqlite3_reset(s);
    for (size_t i = 0; !code && i < list.n; i++)
        code = count_lines(&db->writer, (struct chunk *)list.items + i, &arena, err);
    db->tidy.count = list.n > 0;
    arena_done(&arena);
    return code;
}

// --- shrink

static int shrink(struct db *db, det_err *err)
{
    struct connection *c = &db->writer;
    int64_t n_free = 0, how = 0;
    bool done = true;
    char text[64];
    int rc = read_number(c, "PRAGMA freelist_count", &n_free, err);
    if (!rc) rc = read_number(c, "PRAGMA auto_vacuum", &how, err);
    if (rc) return rc;
    if (n_free > FEW_PAGES && how) {
        snprintf(text, sizeof text, "PRAGMA incremental_vacuum(%d)", SHRINK_PAGES);
        rc = sqlite3_exec(c->sql, text, NULL, NULL, NULL);
        rc = rc == SQLITE_OK ? 0 : sqlite_fail(c->sql, rc, err);
        db->tidy.shortened = true;
        done = false;
    } else if (n_free > FEW_PAGES) {
        rc = holes_punch(db, &done, err);
    } else if (db->tidy.shortened) { // the file is shorter when the log has been copied into it
        sqlite3_wal_checkpoint_v2(c->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        guard_expect_change(&db->guard);
        db->tidy.shortened = false;
    }
    db->tidy.shrink = !done;
    return rc;
}

// --- slices

static int in_transaction(struct db *db, int (*work)(struct db *db, det_err *err), det_err *err)
{
    struct connection *c = &db->writer;
    int rc = sqlite3_exec(c->sql, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return sqlite_fail(c->sql, rc, err);
    int code = work(db, err);
    if (!code && (rc = sqlite3_exec(c->sql, "COMMIT", NULL, NULL, NULL)) != SQLITE_OK)
        code = sqlite_fail(c->sql, rc, err);
    if (code && !sqlite3_get_autocommit(c->sql)) sqlite3_exec(c->sql, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

int tidy_slice(struct db *db, det_err *err)
{
    struct tidy *t = &db->tidy;
    if (t->discard) return in_transaction(db, discard, err);
    if (t->move) return has_space(db) ? in_transaction(db, move, err) : 0;
    if (t->count) return in_transaction(db, count, err);
    if (t->series) return has_space(db) ? in_transaction(db, keep_series, err) : 0;
    return shrink(db, err);
}
