// Unit backend.c: what is the same for both engines: statements, their rows, who may wait for them.
#include "db/backend.h"

#include "base/assert.h"
#include "db/db.h"
#include <math.h>

int backend_clean(det_err *err, int code)
{
    for (unsigned char *c = err ? (unsigned char *)err->msg : NULL; c && *c; c++)
        if (*c < ' ' || *c > '~') *c = *c == '\n' ? ' ' : '?';
    return code;
}

const struct backend *backend_of(const char *where)
{
    struct str s = str_from(where);
    bool is_url = str_starts(s, STR("postgresql://")) || str_starts(s, STR("postgres://"));
    return is_url ? &postgres_backend : &sqlite_backend;
}

// --- who may wait

static _Thread_local bool is_forbidden;

void db_forbid_reading(bool forbid)
{
    is_forbidden = forbid;
}

// That the calling thread may wait for the disk.
static void connection_check(void)
{
#ifdef DET_TESTS // for users, a turn that takes long is better than a master that ends
    ASSERT(!is_forbidden);
#endif
}

// --- connections

int connection_open(struct connection *c, const char *where, bool read_only, det_err *err)
{
    const struct backend *backend = backend_of(where);
    connection_check();
    *c = (struct connection){0};
    int rc = backend->open(c, where, read_only, err);
    if (!rc) c->backend = backend;
    return rc;
}

void connection_close(struct connection *c)
{
    if (c->backend) c->backend->close(c);
    *c = (struct connection){0};
}

int connection_flush(struct connection *c, det_err *err)
{
    return c->backend->flush(c, err);
}

int64_t connection_changes(struct connection *c)
{
    return c->backend->changes(c);
}

int connection_snapshot(struct connection *c, det_err *err)
{
    int rc = statement_run(c, SQL_SNAPSHOT, NULL, 0, err);
    return rc ? rc : connection_flush(c, err);
}

void connection_leave(struct connection *c)
{
    if (!c->backend->in_transaction(c)) return;
    statement_run(c, SQL_COMMIT, NULL, 0, NULL);
    connection_flush(c, NULL);
}

// --- statements

static const struct {
    enum noun noun;
    const char *text;
} texts[] = {
#define DB_STATEMENT_TEXT(name, noun, text) {noun, text},
    DB_STATEMENTS(DB_STATEMENT_TEXT)
#undef DB_STATEMENT_TEXT
};

void statement_write(enum statement id, const struct dialect *d, struct buf *out)
{
    struct buf whole = BUF_INIT(1 << 16);
    const char *text = texts[id].text, *columns = text ? strstr(text, "%s") : NULL;
    if (!text) {
        table_add_save(&tables[texts[id].noun], &whole);
    } else if (columns) {
        buf_add(&whole, text, (size_t)(columns - text));
        table_add_columns(&tables[texts[id].noun], &whole);
        buf_addz(&whole, columns + 2);
    } else {
        buf_addz(&whole, text);
    }
    dialect_write(d, buf_str(&whole), out);
    buf_done(&whole);
}

static void start(struct connection *c, struct rows *out)
{
    connection_check();
    out->c = c;
    out->handle = NULL;
    out->row = -1;
    out->n_rows = out->code = out->err.code = 0;
}

void rows_start(struct connection *c, enum statement id, const struct value *values, int n,
                struct rows *out)
{
    start(c, out);
    out->is_kept = true;
    c->backend->start(out, id, NULL, values, n);
}

void rows_start_text(struct connection *c, struct str text, const struct value *values, int n,
                     struct rows *out)
{
    struct buf own = BUF_INIT(1 << 18);
    start(c, out);
    out->is_kept = false;
    dialect_write(c->backend->dialect, text, &own);
    if (buf_ok(&own))
        c->backend->start(out, N_STATEMENT, buf_str(&own).ptr, values, n);
    else
        out->code = det_fail(&out->err, DET_ELIMIT, "the filter is too long");
    buf_done(&own);
}

bool rows_next(struct rows *r)
{
    return !r->code && r->c->backend->next(r);
}

int rows_end(struct rows *r, int code, det_err *err)
{
    r->c->backend->end(r);
    if (code) return code;
    if (!r->code) return 0;
    return det_fail(err, r->code, "%s", r->err.msg);
}

enum value_kind rows_kind(const struct rows *r, int column)
{
    return r->c->backend->kind(r, column);
}

bool rows_is_null(const struct rows *r, int column)
{
    return rows_kind(r, column) == VALUE_NULL;
}

int64_t rows_int(const struct rows *r, int column)
{
    return r->c->backend->integer(r, column);
}

double rows_real(const struct rows *r, int column)
{
    return r->c->backend->real(r, column);
}

double rows_value(const struct rows *r, int column)
{
    return rows_is_null(r, column) ? NAN : rows_real(r, column);
}

struct str rows_bytes(const struct rows *r, int column)
{
    return r->c->backend->bytes(r, column);
}

const char *rows_text(const struct rows *r, int column, struct arena *a)
{
    struct str text = rows_bytes(r, column);
    return text.ptr ? arena_strndup(a, text.ptr, text.len) : NULL;
}

int statement_run(struct connection *c, enum statement id, const struct value *values, int n,
                  det_err *err)
{
    connection_check();
    return c->backend->run(c, id, values, n, err);
}

int statement_number(struct connection *c, enum statement id, const struct value *values, int n,
                     int64_t otherwise, int64_t *out, det_err *err)
{
    struct rows r;
    rows_start(c, id, values, n, &r);
    bool is_there = rows_next(&r) && !rows_is_null(&r, 0);
    *out = is_there ? rows_int(&r, 0) : otherwise;
    return rows_end(&r, 0, err);
}
