// Unit postgres.c: PostgreSQL as an engine: connections, statements, and its errors as ours.
#include "db/postgres.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"
#include "db/tx.h"
#include "sys/clock.h"
#include <errno.h>
#include <math.h>
#include <poll.h>

enum {
    MAX_PENDING = 512,
    WRITER_WAIT_MS = 20000, // for an answer
    READER_WAIT_MS = 60000,
    MIN_VERSION = 140000, // pipelines; sessions that end when they are idle
};

// --- errors

static int lose(struct pg *pg, const char *what, det_err *err)
{
    char why[256];
    snprintf(why, sizeof why, "%s", what);
    why[strcspn(why, "\n")] = '\0';
    pg->is_lost = true;
    det_fail(err, pg->is_writer ? DB_AWAY : DET_EUNREACHABLE,
             "the server of the database cannot be reached: %s", why);
    return backend_clean(err, pg->is_writer ? DB_AWAY : DET_EUNREACHABLE);
}

// SQLSTATEs that begin with these letters.
static const struct {
    const char *state;
    int code;
} codes[] = {
    {"23", DET_ESTATE},                         // a rule of the schema
    {"22", DET_ELIMIT},                         // a value that cannot be stored
    {"54", DET_ELIMIT},                         // too large
    {"53100", DET_ENOSPC},  {"53", DB_AWAY},    // no memory, no connections: later
    {"08", DB_AWAY},        {"57P", DB_AWAY},   // it is being stopped or started
    {"25006", DB_AWAY},     {"25P", DB_AWAY},   // it is a copy of another server; too long idle
    {"40", DB_AWAY},        {"55", DB_AWAY},    // somebody else was faster
    {"58", DET_EIO},        {"42501", DET_EIO}, // permissions
    {"42", DET_ECORRUPT}, // all statements are ours: what they name is not there any more
    {"XX00", DET_ECORRUPT},
};

static int code_of(const char *state)
{
    for (size_t i = 0; state && i < STATIC_LEN(codes); i++)
        if (str_starts(str_from(state), str_from(codes[i].state))) return codes[i].code;
    return DET_EIO;
}

static int fail(struct pg *pg, const PGresult *r, det_err *err)
{
    const char *said = pq.resultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    int code = code_of(pq.resultErrorField(r, PG_DIAG_SQLSTATE));
    if (!said) said = pq.errorMessage(pg->conn);
    if (code == DB_AWAY || pq.status(pg->conn) == CONNECTION_BAD) return lose(pg, said, err);
    if (code == DET_ENOSPC) return det_fail(err, code, "the disk that holds the database is full");
    det_fail(err, code, "the database %s: %s", code == DET_ECORRUPT ? "is damaged" : "says", said);
    return backend_clean(err, code);
}

// The first failure counts: what comes after it failed because of it.
static void keep_failure(struct pg *pg, int code, const det_err *err)
{
    if (pg->code) return;
    pg->code = code;
    pg->err = *err;
}

// --- waiting

static int wait_for_socket(struct pg *pg, short events, det_err *err)
{
    struct pollfd p = {.fd = pq.socket(pg->conn), .events = events};
    int64_t end_us = clock_mono_us() + (pg->is_writer ? WRITER_WAIT_MS : READER_WAIT_MS) * 1000LL;
    for (;;) {
        int64_t left_ms = (end_us - clock_mono_us()) / 1000;
        int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (n > 0) return 0;
        if (n == 0) return lose(pg, "it does not answer", err);
        if (errno != EINTR) return lose(pg, strerror(errno), err);
    }
}

// Reads meanwhile, for the server may want to be listened to before it reads on.
static int send_all(struct pg *pg, det_err *err)
{
    for (int left; (left = pq.flush(pg->conn)) != 0;) {
        if (left < 0) return lose(pg, pq.errorMessage(pg->conn), err);
        int rc = wait_for_socket(pg, POLLIN | POLLOUT, err);
        if (rc) return rc;
        if (!pq.consumeInput(pg->conn)) return lose(pg, pq.errorMessage(pg->conn), err);
    }
    return 0;
}

// NULL, and rc 0: that was the last one of a statement.
static PGresult *next_result(struct pg *pg, int *rc, det_err *err)
{
    *rc = 0;
    while (pq.isBusy(pg->conn)) {
        *rc = wait_for_socket(pg, POLLIN, err);
        if (!*rc && !pq.consumeInput(pg->conn)) *rc = lose(pg, pq.errorMessage(pg->conn), err);
        if (*rc) return NULL;
    }
    pg->heard_us = clock_mono_us();
    return pq.getResult(pg->conn);
}

// --- what is pending

static void note_result(struct connection *c, const struct pending *p, const PGresult *r)
{
    struct pg *pg = c->pg;
    ExecStatusType status = pq.resultStatus(r);
    int64_t n = 0;
    det_err err = {0};
    bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!good && p->kind == PENDING_PREPARE) c->statements[p->id] = NULL;
    if (!good) {
        if (status != PGRES_PIPELINE_ABORTED) keep_failure(pg, fail(pg, r, &err), &err);
        return;
    }
    if (p->kind == PENDING_PREPARE) return;
    number_to_int(str_from(pq.cmdTuples((PGresult *)(uintptr_t)r)), 10, &n);
    pg->n_changed = n;
    if (p->kind == PENDING_ONE && n != 1) {
        det_fail(&err, p->otherwise, "a row that was there is gone");
        keep_failure(pg, p->otherwise, &err);
    }
}

// All results of one statement. *last: the rows of a query, which then are the caller's.
static int read_results(struct connection *c, const struct pending *p, PGresult **last,
                        det_err *err)
{
    int rc = 0;
    for (PGresult *r; (r = next_result(c->pg, &rc, err));) {
        note_result(c, p, r);
        if (p->kind == PENDING_QUERY && last && pq.resultStatus(r) == PGRES_TUPLES_OK)
            *last = r;
        else
            pq.clear(r);
    }
    return rc;
}

// Everything that was sent is done. The failure stays until it is asked for.
static int drain(struct connection *c, PGresult **last)
{
    struct pg *pg = c->pg;
    det_err err = {0};
    int rc = pg->is_lost ? DB_AWAY : 0;
    if (!rc && !pg->n_pending) return pg->code;
    if (!rc && !pq.pipelineSync(pg->conn)) rc = lose(pg, pq.errorMessage(pg->conn), &err);
    if (!rc) rc = send_all(pg, &err);
    for (int i = 0; !rc && i < pg->n_pending; i++)
        rc = read_results(c, &pg->pending[i], last, &err);
    PGresult *sync = rc ? NULL : next_result(pg, &rc, &err);
    pq.clear(sync);
    pg->n_pending = 0;
    if (rc) keep_failure(pg, rc, &err);
    return pg->code;
}

int pg_flush(struct connection *c, det_err *err)
{
    struct pg *pg = c->pg;
    int rc = drain(c, NULL);
    pg->code = 0;
    return rc ? det_fail(err, rc, "%s", pg->err.msg) : 0;
}

int64_t pg_changes(struct connection *c)
{
    return drain(c, NULL) ? 0 : c->pg->n_changed;
}

bool pg_in_transaction(struct connection *c)
{
    drain(c, NULL);
    PGTransactionStatusType status = pq.transactionStatus(c->pg->conn);
    return !c->pg->is_lost && (status == PQTRANS_INTRANS || status == PQTRANS_INERROR);
}

static void add_pending(struct connection *c, struct pending what)
{
    struct pg *pg = c->pg;
    if (pg->n_pending == pg->max_pending) {
        pg->max_pending = pg->max_pending ? 2 * pg->max_pending : 64;
        pg->pending = xrealloc(pg->pending, (size_t)pg->max_pending * sizeof *pg->pending);
    }
    pg->pending[pg->n_pending++] = what;
}

// --- values

struct parameters {
    struct arena arena;
    const char **values;
    int *lengths, *formats; // format 1: bytes as they are
};

// The server refuses texts that are none, or have a NUL in them.
static struct str valid_text(struct str text, struct arena *a)
{
    if (utf8_valid(text) && (!text.len || !memchr(text.ptr, 0, text.len))) return text;
    struct buf out = BUF_INIT(3 * text.len + 1);
    while (text.len) {
        struct str before = text;
        if (utf8_next(&text) > 0)
            buf_add(&out, before.ptr, before.len - text.len);
        else
            buf_addz(&out, "\xef\xbf\xbd");
    }
    struct str valid = {arena_strndup(a, buf_str(&out).ptr, out.len), out.len};
    buf_done(&out);
    return valid;
}

static void set_parameter(struct parameters *p, int i, const struct value *v)
{
    struct str bytes = v->bytes;
    switch (v->kind) {
    case VALUE_INT:
        p->values[i] = arena_printf(&p->arena, "%lld", (long long)v->integer);
        return;
    case VALUE_REAL:
        if (isinf(v->real))
            p->values[i] = v->real > 0 ? "Infinity" : "-Infinity";
        else if (!isnan(v->real))
            p->values[i] = arena_printf(&p->arena, "%.17g", v->real);
        return;
    case VALUE_TEXT:
    case VALUE_BLOB:
        if (v->kind == VALUE_TEXT) bytes = valid_text(bytes, &p->arena);
        p->values[i] = bytes.ptr ? bytes.ptr : "";
        p->lengths[i] = (int)bytes.len;
        p->formats[i] = 1;
        return;
    case VALUE_NULL:
        return;
    }
}

static void set_parameters(struct parameters *p, const struct value *values, int n)
{
    p->arena = ARENA_INIT;
    p->values = arena_array(&p->arena, (size_t)n + 1, sizeof *p->values);
    p->lengths = arena_array(&p->arena, (size_t)n + 1, sizeof *p->lengths);
    p->formats = arena_array(&p->arena, (size_t)n + 1, sizeof *p->formats);
    for (int i = 0; i < n; i++)
        set_parameter(p, i, &values[i]);
}

// --- statements

static int prepare(struct connection *c, enum statement id, const char *name, det_err *err)
{
    struct pg *pg = c->pg;
    struct buf text = BUF_INIT(1 << 16);
    static char is_prepared;
    if (c->statements[id]) return 0;
    statement_write(id, &postgres_dialect, &text);
    bool sent = pq.sendPrepare(pg->conn, name, buf_str(&text).ptr, 0, NULL);
    buf_done(&text);
    if (!sent) return lose(pg, pq.errorMessage(pg->conn), err);
    c->statements[id] = &is_prepared;
    add_pending(c, (struct pending){PENDING_PREPARE, id, 0});
    return 0;
}

int pg_submit(struct connection *c, struct pending what, const char *text,
              const struct value *values, int n, det_err *err)
{
    struct pg *pg = c->pg;
    struct parameters p;
    char name[16];
    snprintf(name, sizeof name, "s%d", (int)what.id);
    if (pg->is_lost) return lose(pg, "the connection was lost", err);
    if (pg->n_pending >= MAX_PENDING && drain(c, NULL)) return pg_flush(c, err);
    int rc = text ? 0 : prepare(c, what.id, name, err);
    if (rc) return rc;
    set_parameters(&p, values, n);
    bool sent = text
                    ? pq.sendQueryParams(pg->conn, text, n, NULL, p.values, p.lengths, p.formats, 1)
                    : pq.sendQueryPrepared(pg->conn, name, n, p.values, p.lengths, p.formats, 1);
    arena_done(&p.arena);
    if (!sent) return lose(pg, pq.errorMessage(pg->conn), err);
    add_pending(c, what);
    return 0;
}

PGresult *pg_query(struct connection *c, enum statement id, const char *text,
                   const struct value *values, int n, det_err *err)
{
    PGresult *rows = NULL;
    int rc = pg_submit(c, (struct pending){PENDING_QUERY, id, 0}, text, values, n, err);
    if (!rc && drain(c, &rows)) pg_flush(c, err);
    if (!rows && !rc && err && !err->code) det_fail(err, DET_EIO, "the database gave no rows");
    return rows;
}

// --- connections

static void ignore_notice(void *ctx, const char *text)
{
    (void)ctx, (void)text;
}

// A session that nobody uses ends, and with it what it has locked: that of a master whose machine or
// network hangs. What is acknowledged is on the server's disk, whatever the server's own settings.
static const char writer_setup[] =
    "SET idle_session_timeout = '6s'; SET idle_in_transaction_session_timeout = '6s';"
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local');";
static const char reader_setup[] = "SET default_transaction_read_only = on;";
static const char both_setup[] =
    "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3;"
    "SET tcp_user_timeout = '6s'; SET statement_timeout = 0; SET bytea_output = 'hex';"
    "SET extra_float_digits = 1;";

static int run_script(struct pg *pg, const char *text, det_err *err)
{
    PGresult *r = pq.exec(pg->conn, text);
    ExecStatusType status = pq.resultStatus(r);
    bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    int rc = good ? 0 : fail(pg, r, err);
    pq.clear(r);
    return rc;
}

static int check_server(struct pg *pg, det_err *err)
{
    const char *encoding = pq.parameterStatus(pg->conn, "server_encoding");
    if (pq.serverVersion(pg->conn) < MIN_VERSION)
        return det_fail(err, DET_EUNSUPPORTED, "the server is PostgreSQL %d; %d or newer is needed",
                        pq.serverVersion(pg->conn) / 10000, MIN_VERSION / 10000);
    if (!encoding || !str_eqz(str_from(encoding), "UTF8"))
        return det_fail(err, DET_EUNSUPPORTED,
                        "its encoding is %s; make one with CREATE DATABASE ... ENCODING 'UTF8'"
                        " TEMPLATE template0",
                        encoding ? encoding : "not known");
    return 0;
}

// Ours first: what the address says goes before them.
static PGconn *dial(const char *where)
{
    static const char *const keys[] = {"connect_timeout",      "keepalives_idle",
                                       "keepalives_interval",  "keepalives_count",
                                       "tcp_user_timeout",     "fallback_application_name",
                                       "target_session_attrs", "dbname",
                                       "client_encoding",      NULL};
    const char *const values[] = {"5",   "2",          "1",   "3",    "6000",
                                  "det", "read-write", where, "UTF8", NULL};
    return pq.connectdbParams(keys, values, 1);
}

static int connect_to(struct pg *pg, det_err *err)
{
    pg->conn = dial(pg->where);
    if (pq.status(pg->conn) != CONNECTION_OK) return lose(pg, pq.errorMessage(pg->conn), err);
    pg->is_lost = false;
    pg->heard_us = clock_mono_us();
    pq.setNoticeProcessor(pg->conn, ignore_notice, NULL);
    int rc = check_server(pg, err);
    if (!rc) rc = run_script(pg, both_setup, err);
    if (!rc) rc = run_script(pg, pg->is_writer ? writer_setup : reader_setup, err);
    if (rc) return rc;
    pq.setnonblocking(pg->conn, 1);
    return pq.enterPipelineMode(pg->conn) ? 0 : lose(pg, pq.errorMessage(pg->conn), err);
}

int pg_open(struct connection *c, const char *where, bool read_only, det_err *err)
{
    int rc = libpq_load(err);
    if (rc) return rc;
    c->pg = xcalloc(1, sizeof *c->pg);
    c->pg->where = xstrdup(where);
    c->pg->is_writer = !read_only;
    rc = connect_to(c->pg, err);
    if (rc) pg_close(c);
    return rc;
}

void pg_close(struct connection *c)
{
    pq.finish(c->pg->conn);
    free(c->pg->pending);
    free(c->pg->where);
    free(c->pg);
    c->pg = NULL;
}

// A server that was restarted has closed the connection. A reader finds that out before it begins, and
// opens another one.
int pg_revive(struct connection *c, det_err *err)
{
    struct pg *pg = c->pg;
    struct pollfd p = {.fd = pq.socket(pg->conn), .events = POLLIN};
    if (pg->is_writer || pg->n_pending) return 0;
    if (!pg->is_lost && pq.transactionStatus(pg->conn) != PQTRANS_IDLE) return 0;
    if (!pg->is_lost && poll(&p, 1, 0) > 0 && !pq.consumeInput(pg->conn)) pg->is_lost = true;
    if (!pg->is_lost && pq.status(pg->conn) == CONNECTION_OK) return 0;
    pq.finish(pg->conn);
    memset(c->statements, 0, sizeof c->statements);
    pg->code = 0;
    return connect_to(pg, err);
}

int pg_script(struct connection *c, const char *text, det_err *err)
{
    struct pg *pg = c->pg;
    int rc = pg_flush(c, err);
    if (rc) return rc;
    pq.exitPipelineMode(pg->conn);
    pq.setnonblocking(pg->conn, 0);
    rc = run_script(pg, text, err);
    pq.setnonblocking(pg->conn, 1);
    pq.enterPipelineMode(pg->conn);
    return rc;
}

// postgresql://user@host:port/name, or what else there is of it.
char *pg_name(const char *where)
{
    struct buf out = BUF_INIT(4096);
    PQconninfoOption *all = libpq_load(NULL) ? NULL : pq.conninfoParse(where, NULL);
    const char *user = "", *host = "", *port = "", *name = "";
    for (const PQconninfoOption *o = all; o && o->keyword; o++) {
        struct str key = str_from(o->keyword);
        if (!o->val) continue;
        if (str_eqz(key, "user")) user = o->val;
        if (str_eqz(key, "host")) host = o->val;
        if (str_eqz(key, "port")) port = o->val;
        if (str_eqz(key, "dbname")) name = o->val;
    }
    buf_printf(&out, "postgresql://%s%s%s%s%s/%s", user, *user ? "@" : "", host, *port ? ":" : "",
               port, name);
    if (all) pq.conninfoFree(all);
    return buf_take(&out);
}
