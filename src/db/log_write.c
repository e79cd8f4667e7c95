// Unit log_write.c: logs as chunks. db_logs_add() packs them in the caller's thread; all else is
// done by the writer thread.
//
// A task that prints a line now and then gives chunks of one line. They are open: when there are
// some of them, or enough text, they are joined. What is full is never touched again. Open chunks
// are always the last ones of their trial, for joining needs neighbours: before a full one is
// written, those that are open are joined and closed.
#include "db/log_write.h"

#include "base/assert.h"

enum { MAX_OPEN = 32 };

// --- for those who build transactions

// Columns of log_chunks behind id and lastId.
static void add_values(struct db_tx *tx, struct op *op, const struct chunk *c)
{
    op_int(op, c->trial_id);
    op_int(op, c->first_us);
    op_int(op, c->last_us);
    op_int(op, c->levels);
    op_int(op, c->ranks);
    op_int(op, c->sources);
    op_int(op, c->stdtypes);
    op_int(op, c->n_bytes);
    op_int(op, c->open);
    op_bytes(tx, op, VALUE_BLOB, c->bytes);
    op_int(op, c->n_lines);
}

enum { TRIAL = 0, OPEN = 8, N_LINES = 10, N_VALUES };

static int add_chunk(struct db *db, const struct op *op, det_err *err);

void db_logs_add(struct db_tx *tx, const struct log_line *lines, size_t n)
{
    struct arena arena = ARENA_INIT;
    size_t goal = chunk_goal(lines, n);
    struct log_line *numbered = arena_array(&arena, n, sizeof *numbered);
    for (size_t i = 0; i < n; i++) {
        ASSERT(lines[i].trial_id == lines[0].trial_id);
        numbered[i] = lines[i];
        numbered[i].id = (int64_t)i; // the writer knows from where they are counted
    }
    for (size_t done = 0; done < n;) {
        struct chunk chunk;
        size_t k = chunk_cut(numbered + done, n - done, goal);
        chunk_pack(numbered + done, k, &arena, &chunk);
        struct op *op = tx_add(tx, SQL_CHUNK_ADD, N_VALUES);
        add_values(tx, op, &chunk);
        op->run = add_chunk;
        done += k;
    }
    arena_done(&arena);
}

void db_log_add(struct db_tx *tx, const struct log_line *row)
{
    db_logs_add(tx, row, 1);
}

// --- for the writer

static int finish(struct connection *c, sqlite3_stmt *s, int rc, det_err *err)
{
    int code = rc == SQLITE_DONE ? 0 : sqlite_fail(c->sql, rc, err);
    if (s) sqlite3_reset(s);
    return code;
}

static int insert(struct connection *c, int64_t id, int64_t last_id, const struct value *values,
                  det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, SQL_CHUNK_ADD);
    int rc = s ? sqlite3_bind_int64(s, 1, id) : sqlite3_errcode(c->sql);
    if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 2, last_id);
    for (int i = 0; rc == SQLITE_OK && i < N_VALUES; i++)
        rc = value_bind(s, i + 3, &values[i]);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    return finish(c, s, rc, err);
}

int log_insert(struct connection *c, const struct chunk *chunk, det_err *err)
{
    struct db_tx scratch = {0};
    struct op *op = tx_add(&scratch, SQL_CHUNK_ADD, N_VALUES);
    add_values(&scratch, op, chunk);
    int rc = insert(c, chunk->id, chunk->last_id, op->values, err);
    arena_done(&scratch.arena);
    return rc;
}

int log_run(struct connection *c, enum statement id, int64_t a, int64_t b, det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, id);
    int rc = s ? sqlite3_bind_int64(s, 1, a) : sqlite3_errcode(c->sql);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(s) > 1) rc = sqlite3_bind_int64(s, 2, b);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    return finish(c, s, rc, err);
}

void log_read_chunk(sqlite3_stmt *s, struct arena *a, struct chunk *out)
{
    const char *bytes = sqlite3_column_blob(s, 11);
    size_t n = (size_t)sqlite3_column_bytes(s, 11);
    *out = (struct chunk){.id = sqlite3_column_int64(s, 0),
                          .last_id = sqlite3_column_int64(s, 1),
                          .trial_id = sqlite3_column_int64(s, 2),
                          .first_us = sqlite3_column_int64(s, 3),
                          .last_us = sqlite3_column_int64(s, 4),
                          .levels = sqlite3_column_int64(s, 5),
                          .ranks = sqlite3_column_int64(s, 6),
                          .sources = sqlite3_column_int64(s, 7),
                          .stdtypes = sqlite3_column_int64(s, 8),
                          .n_bytes = sqlite3_column_int64(s, 9),
                          .open = sqlite3_column_int(s, 10),
                          .n_lines = sqlite3_column_int64(s, 12),
                          .bytes = {arena_strndup(a, bytes, n), n}};
}

// The open chunks of a trial; fewer than MAX_OPEN and a few.
struct open_chunks {
    struct chunk *items;
    size_t n;
    int64_t n_bytes;
};

static int find_open(struct connection *c, int64_t trial_id, struct arena *a,
                     struct open_chunks *out, det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct chunk)};
    sqlite3_stmt *s = connection_statement(c, SQL_CHUNKS_OPEN);
    int rc = s ? sqlite3_bind_int64(s, 1, trial_id) : sqlite3_errcode(c->sql);
    while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct chunk *chunk = grow(&list);
        log_read_chunk(s, a, chunk);
        out->n_bytes += chunk->n_bytes;
        rc = SQLITE_OK;
    }
    out->items = (struct chunk *)list.items;
    out->n = list.n;
    return finish(c, s, rc, err);
}

// All lines of them in a row. DET_ECORRUPT if a chunk is damaged.
static int unpack_all(const struct open_chunks *open, struct arena *a, struct growing *out,
                      det_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < open->n; i++) {
        struct chunk_lines lines;
        rc = chunk_unpack(&open->items[i], NULL, a, &lines, err);
        for (size_t k = 0; !rc && k < lines.n; k++)
            *(struct log_line *)grow(out) = lines.items[k];
    }
    return rc;
}

// Damaged ones are left as they are: whoever reads them is told.
static int close_apart(struct connection *c, const struct open_chunks *open, det_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < open->n; i++)
        rc = log_run(c, SQL_CHUNK_CLOSE, open->items[i].id, 0, err);
    return rc;
}

static int join(struct connection *c, int64_t trial_id, bool close, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct open_chunks open = {0};
    struct growing lines = {.arena = &arena, .size = sizeof(struct log_line)};
    struct chunk joined;
    int rc = find_open(c, trial_id, &arena, &open, err);
    if (rc || !open.n) goto out;
    if (open.n == 1 || unpack_all(&open, &arena, &lines, NULL)) {
        if (close || open.n > 1) rc = close_apart(c, &open, err);
        goto out;
    }
    chunk_pack((struct log_line *)lines.items, lines.n, &arena, &joined);
    joined.open = joined.open && !close;
    for (size_t i = 0; !rc && i < open.n; i++)
        rc = log_run(c, SQL_CHUNK_DELETE, open.items[i].id, 0, err);
    if (!rc) rc = log_insert(c, &joined, err);
out:
    arena_done(&arena);
    return rc;
}

static int count_open(struct connection *c, int64_t trial_id, int64_t *n, int64_t *n_bytes,
                      det_err *err)
{
    sqlite3_stmt *s = connection_statement(c, SQL_CHUNKS_COUNT_OPEN);
    int rc = s ? sqlite3_bind_int64(s, 1, trial_id) : sqlite3_errcode(c->sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *n = sqlite3_column_int64(s, 0);
        *n_bytes = sqlite3_column_int64(s, 1);
        rc = SQLITE_DONE;
    }
    return finish(c, s, rc, err);
}

static int add_chunk(struct db *db, const struct op *op, det_err *err)
{
    struct connection *c = &db->writer;
    int64_t trial_id = op->values[TRIAL].integer, n_lines = op->values[N_LINES].integer;
    int64_t n_open = 0, n_bytes = 0, id = db->next_log_id;
    bool open = op->values[OPEN].integer;
    int rc = open ? 0 : join(c, trial_id, true, err);
    if (!rc) rc = insert(c, id, id + n_lines - 1, op->values, err);
    if (!rc) db->next_log_id += n_lines;
    if (!rc && open) rc = count_open(c, trial_id, &n_open, &n_bytes, err);
    if (!rc && (n_open > MAX_OPEN || n_bytes >= CHUNK_BYTES)) rc = join(c, trial_id, false, err);
    return rc;
}

int log_start(struct db *db, det_err *err)
{
    sqlite3_stmt *s = connection_statement(&db->writer, SQL_NEXT_LOG_ID);
    int rc = s ? sqlite3_step(s) : sqlite3_errcode(db->writer.sql);
    if (rc == SQLITE_ROW) {
        db->next_log_id = sqlite3_column_int64(s, 0);
        rc = SQLITE_DONE;
    }
    return finish(&db->writer, s, rc, err);
}
