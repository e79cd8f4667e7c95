// Unit postgres_rows.c: rows and their columns as PostgreSQL sends them; the table of the engine.
#include "db/postgres.h"

#include <endian.h>

// Numbers of types (pg_type.oid); they are part of the protocol and do not change.
enum { TYPE_BOOL = 16, TYPE_BYTEA = 17, TYPE_INT8 = 20, TYPE_INT4 = 23, TYPE_FLOAT8 = 701 };

static void start(struct rows *r, enum statement id, const char *text, const struct value *values,
                  int n)
{
    r->code = pg_revive(r->c, &r->err);
    if (!r->code) r->handle = pg_query(r->c, id, text, values, n, &r->err);
    if (r->handle)
        r->n_rows = pq.ntuples(r->handle);
    else if (!r->code)
        r->code = r->err.code;
}

static bool next(struct rows *r)
{
    return ++r->row < r->n_rows;
}

static void end(struct rows *r)
{
    pq.clear(r->handle);
}

static int run(struct connection *c, enum statement id, const struct value *values, int n,
               det_err *err)
{
    int rc = pg_revive(c, err);
    if (rc) return rc;
    return pg_submit(c, (struct pending){PENDING_RUN, id, 0}, NULL, values, n, err);
}

// --- columns

static enum value_kind kind(const struct rows *r, int column)
{
    if (pq.getisnull(r->handle, r->row, column)) return VALUE_NULL;
    switch (pq.ftype(r->handle, column)) {
    case TYPE_BOOL:
    case TYPE_INT4:
    case TYPE_INT8:
        return VALUE_INT;
    case TYPE_FLOAT8:
        return VALUE_REAL;
    case TYPE_BYTEA:
        return VALUE_BLOB;
    default:
        return VALUE_TEXT;
    }
}

// A number is sent with its first byte in front.
static uint64_t read_bits(const struct rows *r, int column)
{
    const char *bytes = pq.getvalue(r->handle, r->row, column);
    uint64_t wide;
    uint32_t narrow;
    switch (pq.getlength(r->handle, r->row, column)) {
    case 1:
        return (unsigned char)bytes[0];
    case 4:
        memcpy(&narrow, bytes, sizeof narrow);
        return (uint64_t)(int64_t)(int32_t)be32toh(narrow);
    case 8:
        memcpy(&wide, bytes, sizeof wide);
        return be64toh(wide);
    default:
        return 0;
    }
}

static double real(const struct rows *r, int column)
{
    uint64_t bits = read_bits(r, column);
    double x;
    if (kind(r, column) == VALUE_INT) return (double)(int64_t)bits;
    if (kind(r, column) != VALUE_REAL) return 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int64_t integer(const struct rows *r, int column)
{
    switch (kind(r, column)) {
    case VALUE_INT:
        return (int64_t)read_bits(r, column);
    case VALUE_REAL:
        return (int64_t)real(r, column);
    default:
        return 0;
    }
}

static struct str bytes(const struct rows *r, int column)
{
    if (pq.getisnull(r->handle, r->row, column)) return (struct str){NULL, 0};
    return (struct str){pq.getvalue(r->handle, r->row, column),
                        (size_t)pq.getlength(r->handle, r->row, column)};
}

// --- the schema

static int version(struct connection *c, int *out, det_err *err)
{
    int64_t is_there = 0, number = 0;
    int rc = statement_number(c, SQL_CLUSTER_IS_THERE, NULL, 0, 0, &is_there, err);
    if (!rc && is_there) rc = statement_number(c, SQL_CLUSTER_VERSION, NULL, 0, 0, &number, err);
    *out = (int)number;
    return rc;
}

static int set_version(struct connection *c, int number, det_err *err)
{
    const struct value value = VALUE_OF_INT(number);
    int rc = pg_script(c,
                       "CREATE TABLE IF NOT EXISTS cluster(one BIGINT PRIMARY KEY CHECK(one = 1),"
                       " version BIGINT NOT NULL, epoch BIGINT NOT NULL, batch BIGINT NOT NULL,"
                       " holder TEXT);"
                       "INSERT INTO cluster VALUES(1, 0, 0, 0) ON CONFLICT(one) DO NOTHING",
                       err);
    return rc ? rc : statement_run(c, SQL_CLUSTER_SET_VERSION, &value, 1, err);
}

const struct backend postgres_backend = {
    .name = "PostgreSQL",
    .dialect = &postgres_dialect,
    .open = pg_open,
    .close = pg_close,
    .start = start,
    .next = next,
    .end = end,
    .kind = kind,
    .integer = integer,
    .real = real,
    .bytes = bytes,
    .run = run,
    .flush = pg_flush,
    .changes = pg_changes,
    .in_transaction = pg_in_transaction,
    .script = pg_script,
    .version = version,
    .set_version = set_version,
    .prepare = pg_prepare,
    .start_threads = pg_start_threads,
    .stop_threads = pg_stop_threads,
    .release = pg_release,
    .look = pg_look,
    .begin = pg_begin,
    .rest = pg_rest,
    .has_space = pg_has_space,
    .come_back = pg_come_back,
};
