// Unit log_write.c: logs as chunks. db_logs_add() packs them in the caller's thread; all else is
// done by the writer thread.
//
// A task that prints a line now and then gives chunks of one line. They are open: when there are
// some of them, or enough text, they are joined. What is full is never touched again. Open chunks
// are always the last ones of their trial, for joining needs neighbours: before a full one is
// written, those that are open are joined and closed.
#include "db/log_write.h"

#include "base/assert.h"
#include "base/mem.h"

enum { MAX_OPEN = 32, N_OPEN_LOGS = 1024 };

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

enum { TRIAL = 0, N_BYTES = 7, OPEN = 8, N_LINES = 10, N_VALUES };

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

static int insert(struct connection *c, int64_t id, int64_t last_id, const struct value *values,
                  det_err *err)
{
    struct value all[2 + N_VALUES] = {VALUE_OF_INT(id), VALUE_OF_INT(last_id)};
    memcpy(all + 2, values, N_VALUES * sizeof *values);
    return statement_run(c, SQL_CHUNK_ADD, all, 2 + N_VALUES, err);
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

int log_run(struct connection *c, enum statement id, int64_t a, det_err *err)
{
    const struct value value = VALUE_OF_INT(a);
    return statement_run(c, id, &value, 1, err);
}

int log_run2(struct connection *c, enum statement id, int64_t a, int64_t b, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(a), VALUE_OF_INT(b)};
    return statement_run(c, id, values, 2, err);
}

void log_read_chunk(const struct rows *r, struct arena *a, struct chunk *out)
{
    struct str bytes = rows_bytes(r, 11);
    *out = (struct chunk){
        .id = rows_int(r, 0),
        .last_id = rows_int(r, 1),
        .trial_id = rows_int(r, 2),
        .first_us = rows_int(r, 3),
        .last_us = rows_int(r, 4),
        .levels = rows_int(r, 5),
        .ranks = rows_int(r, 6),
        .sources = rows_int(r, 7),
        .stdtypes = rows_int(r, 8),
        .n_bytes = rows_int(r, 9),
        .open = rows_int(r, 10) != 0,
        .n_lines = rows_int(r, 12),
        .bytes = {arena_strndup(a, bytes.ptr ? bytes.ptr : "", bytes.len), bytes.len}};
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
    const struct value id = VALUE_OF_INT(trial_id);
    struct rows r;
    rows_start(c, SQL_CHUNKS_OPEN, &id, 1, &r);
    while (rows_next(&r)) {
        struct chunk *chunk = grow(&list);
        log_read_chunk(&r, a, chunk);
        out->n_bytes += chunk->n_bytes;
    }
    out->items = (struct chunk *)list.items;
    out->n = list.n;
    return rows_end(&r, 0, err);
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
        rc = log_run(c, SQL_CHUNK_CLOSE, open->items[i].id, err);
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
        rc = log_run(c, SQL_CHUNK_DELETE, open.items[i].id, err);
    if (!rc) rc = log_insert(c, &joined, err);
out:
    arena_done(&arena);
    return rc;
}

// --- what is remembered of trials that print, so that most lines cost no reading

struct open_log {
    int64_t trial_id; // 0: nobody
    int64_t n, n_bytes;
};

void log_forget(struct db *db)
{
    memset(db->open_logs, 0, N_OPEN_LOGS * sizeof *db->open_logs);
}

// Its open chunks, counted if need be.
static int find_open_log(struct db *db, int64_t trial_id, struct open_log **out, det_err *err)
{
    struct open_log *log = *out = &db->open_logs[(uint64_t)trial_id % N_OPEN_LOGS];
    const struct value id = VALUE_OF_INT(trial_id);
    struct rows r;
    if (log->trial_id == trial_id) return 0;
    *log = (struct open_log){0};
    rows_start(&db->writer, SQL_CHUNKS_COUNT_OPEN, &id, 1, &r);
    if (rows_next(&r)) *log = (struct open_log){trial_id, rows_int(&r, 0), rows_int(&r, 1)};
    return rows_end(&r, 0, err);
}

static int add_chunk(struct db *db, const struct op *op, det_err *err)
{
    struct connection *c = &db->writer;
    int64_t trial_id = op->values[TRIAL].integer, n_lines = op->values[N_LINES].integer;
    int64_t id = db->next_log_id;
    bool open = op->values[OPEN].integer;
    struct open_log *log = NULL;
    int rc = find_open_log(db, trial_id, &log, err);
    bool is_due = !rc && !open && log->n;
    if (is_due) rc = join(c, trial_id, true, err);
    if (!rc) rc = insert(c, id, id + n_lines - 1, op->values, err);
    if (rc) return rc;
    db->next_log_id += n_lines;
    log->n = open ? log->n + 1 : 0;
    log->n_bytes = open ? log->n_bytes + op->values[N_BYTES].integer : 0;
    if (log->n <= MAX_OPEN && log->n_bytes < CHUNK_BYTES) return 0;
    log->trial_id = 0; // to be counted again
    return join(c, trial_id, false, err);
}

int log_start(struct db *db, det_err *err)
{
    db->open_logs = xcalloc(N_OPEN_LOGS, sizeof *db->open_logs);
    return statement_number(&db->writer, SQL_NEXT_LOG_ID, NULL, 0, 1, &db->next_log_id, err);
}

void log_end(struct db *db)
{
    free(db->open_logs);
}
