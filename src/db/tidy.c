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

enum { MOVE_BYTES = 4 * CHUNK_BYTES, MOVE_LINES = 2000 };

// --- what there is to do

int tidy_start(struct db *db, det_err *err)
{
    struct connection *c = &db->writer;
    int64_t discard = 0, move = 0, count = 0;
    bool series = false;
    int rc = statement_number(c, SQL_HAS_DISCARDS, NULL, 0, 0, &discard, err);
    if (!rc) rc = statement_number(c, SQL_HAS_OLD_LINES, NULL, 0, 0, &move, err);
    if (!rc) rc = statement_number(c, SQL_HAS_UNCOUNTED, NULL, 0, 0, &count, err);
    if (!rc) rc = series_start(db, &series, err);
    db->tidy = (struct tidy){.discard = discard,
                             .move = move,
                             .count = count,
                             .series = series,
                             .shrink = db->backend->shrink != NULL};
    return rc;
}

bool tidy_is_due(const struct db *db, int64_t now_us)
{
    const struct tidy *t = &db->tidy;
    return (t->discard || t->move || t->count || t->series || t->shrink) &&
           now_us >= t->not_before_us;
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
        return log_run(c, SQL_CHUNK_DELETE, chunk->id, err);
    for (size_t i = 0; i < lines.n; i++)
        if (lines.items[i].time_us >= before_us) lines.items[n++] = lines.items[i];
    int rc = log_run(c, SQL_CHUNK_DELETE, chunk->id, err);
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
    const struct value values[] = {VALUE_OF_INT(trial_id), VALUE_OF_INT(before_us)};
    struct rows r;
    rows_start(c, SQL_CHUNK_TO_SHORTEN, values, 2, &r);
    *any = rows_next(&r);
    if (*any) log_read_chunk(&r, &arena, &chunk);
    int code = rows_end(&r, 0, err);
    if (!code && *any) code = shorten(c, &chunk, before_us, &arena, err);
    arena_done(&arena);
    return code;
}

struct discard {
    int64_t trial_id, before_us; // INT64_MAX: everything of the trial
};

static int find_discard(struct connection *c, struct discard *out, bool *any, det_err *err)
{
    struct rows r;
    rows_start(c, SQL_DISCARD_FIND, NULL, 0, &r);
    *any = rows_next(&r);
    if (*any) *out = (struct discard){rows_int(&r, 0), rows_int(&r, 1)};
    return rows_end(&r, 0, err);
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
        rc = i < N_LOG_PARTS ? log_run2(c, parts[i], d->trial_id, d->before_us, err)
                             : log_run(c, parts[i], d->trial_id, err);
        *any = connection_changes(c) > 0;
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
    log_forget(db);
    // Numbers of lines are never given again, also not those of the last ones.
    if (!rc) rc = log_run(c, SQL_LAST_LOG_ID_SAVE, db->next_log_id - 1, err);
    if (!rc && !more) rc = log_run(c, SQL_DISCARD_DONE, d.trial_id, err);
    db->tidy.shrink = db->backend->shrink != NULL;
    return rc;
}

// --- move

// A line that makes no sense is kept as far as it does.
static void read_line(const struct rows *r, struct arena *a, struct log_line *out)
{
    if (!record_read(r, &tables[NOUN_LOG_LINE], a, out, NULL) && out->log) return;
    *out = (struct log_line){.id = rows_int(r, 0),
                             .trial_id = rows_int(r, 1),
                             .time_us = rows_int(r, 2),
                             .log = rows_text(r, (int)log_line_table.n - 1, a)};
    if (!out->log) out->log = "";
}

static int find_lines(struct connection *c, int64_t trial_id, struct arena *a, struct growing *out,
                      det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(trial_id), VALUE_OF_INT(INT64_MIN),
                                   VALUE_OF_INT(INT64_MAX), VALUE_OF_INT(MOVE_LINES)};
    size_t n_bytes = 0;
    struct rows r;
    rows_start(c, SQL_OLD_LINES_UP, values, STATIC_LEN(values), &r);
    while (n_bytes < MOVE_BYTES && rows_next(&r)) {
        struct log_line *line = grow(out);
        read_line(&r, a, line);
        n_bytes += strlen(line->log);
    }
    return rows_end(&r, 0, err);
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
    return rc ? rc : log_run2(c, SQL_OLD_LINES_MOVED, lines[0].trial_id, lines[n - 1].id, err);
}

static int move(struct db *db, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct growing lines = {.arena = &arena, .size = sizeof(struct log_line)};
    int64_t trial_id = 0;
    int code =
        statement_number(&db->writer, SQL_OLD_LINES_TRIAL, NULL, 0, INT64_MIN, &trial_id, err);
    bool any = trial_id != INT64_MIN;
    if (!code && any) code = find_lines(&db->writer, trial_id, &arena, &lines, err);
    if (!code && any)
        code = move_lines(&db->writer, (struct log_line *)lines.items, lines.n, &arena, err);
    if (!any && !code) {
        db->tidy.move = false;
        db->tidy.shrink = db->backend->shrink != NULL;
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
    return log_run2(c, SQL_CHUNK_COUNTED, chunk->id, MAX(1, n), err);
}

static int count(struct db *db, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct growing list = {.arena = &arena, .size = sizeof(struct chunk)};
    struct rows r;
    rows_start(&db->writer, SQL_CHUNKS_UNCOUNTED, NULL, 0, &r);
    while (rows_next(&r))
        log_read_chunk(&r, &arena, grow(&list));
    int code = rows_end(&r, 0, err);
    for (size_t i = 0; !code && i < list.n; i++)
        code = count_lines(&db->writer, (struct chunk *)list.items + i, &arena, err);
    db->tidy.count = list.n > 0;
    arena_done(&arena);
    return code;
}

// --- slices

static int in_transaction(struct db *db, int (*work)(struct db *db, det_err *err), det_err *err)
{
    struct connection *c = &db->writer;
    int rc = db->backend->begin(db, err);
    if (!rc) rc = work(db, err);
    if (!rc) rc = connection_flush(c, err);
    if (!rc) rc = statement_run(c, SQL_COMMIT, NULL, 0, err);
    if (!rc) rc = connection_flush(c, err);
    if (rc) writer_roll_back(db);
    return rc;
}

int tidy_slice(struct db *db, det_err *err)
{
    struct tidy *t = &db->tidy;
    if (t->discard) return in_transaction(db, discard, err);
    if (t->move) return db->backend->has_space(db) ? in_transaction(db, move, err) : 0;
    if (t->count) return in_transaction(db, count, err);
    if (t->series) return db->backend->has_space(db) ? in_transaction(db, keep_series, err) : 0;
    return db->backend->shrink(db, err);
}
