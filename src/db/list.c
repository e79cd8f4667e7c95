// Unit list.c: lists with filters, orders and pages. The statements are put together from fixed
// parts; what a client sends is only ever a bound value.
#include "db/reader.h"

#include "base/assert.h"
#include "base/buf.h"

enum { MAX_VALUES = 16, DEFAULT_LIMIT = 100 };

struct query {
    struct arena *arena;
    struct buf where; // " AND ..." and so on
    struct value values[MAX_VALUES];
    int n;
};

static void add_value(struct query *q, struct value v)
{
    ASSERT(q->n < MAX_VALUES);
    q->values[q->n++] = v;
}

static void add_int(struct query *q, const char *condition, int64_t x)
{
    buf_printf(&q->where, " AND %s ?", condition);
    add_value(q, (struct value){.kind = VALUE_INT, .integer = x});
}

static void add_text(struct query *q, const char *condition, const char *text)
{
    buf_printf(&q->where, " AND %s", condition);
    add_value(q, (struct value){.kind = VALUE_TEXT, .bytes = str_from(text)});
}

// A list of values, as JSON: one parameter for any number of them.
static void add_list(struct query *q, const char *condition, const struct doc *list)
{
    struct str json = json_text(list, q->arena);
    buf_printf(&q->where, " AND %s", condition);
    add_value(q, (struct value){.kind = VALUE_TEXT, .bytes = json});
}

static void add_real(struct query *q, const char *condition, double x)
{
    buf_printf(&q->where, " AND %s ?", condition);
    add_value(q, (struct value){.kind = VALUE_REAL, .real = x});
}

// What people search experiments for.
#define MATCHES                                                                                  \
    "EXISTS (SELECT 1 FROM (SELECT lower(?) AS word) WHERE instr(lower(ifnull(name, '')), word)" \
    " > 0 OR instr(lower(ifnull(description, '')), word) > 0 OR word = CAST(id AS TEXT)"         \
    " OR EXISTS (SELECT 1 FROM json_each(labels) l WHERE instr(lower(l.value), word) > 0))"

// A filter can only have what the noun has; the master's handlers see to that.
static void add_filter(struct query *q, enum noun noun, const struct db_filter *f)
{
    if (!f) return;
    if (f->experiment_id) add_int(q, "experimentId =", f->experiment_id);
    if (f->trial_id) add_int(q, "trialId =", f->trial_id);
    if (f->states) add_list(q, "state IN (SELECT value FROM json_each(?))", f->states);
    if (f->users) add_list(q, "userId IN (SELECT value FROM json_each(?))", f->users);
    if (f->labels)
        add_list(q,
                 "NOT EXISTS (SELECT 1 FROM json_each(?) w WHERE w.value NOT IN"
                 " (SELECT value FROM json_each(labels)))",
                 f->labels);
    if (f->name) add_text(q, "instr(lower(name), lower(?)) > 0", f->name);
    if (f->description) add_text(q, "instr(lower(description), lower(?)) > 0", f->description);
    if (f->search) add_text(q, MATCHES, f->search);
    if (f->has_below) add_real(q, "bestTrialSearcherMetric <=", f->below);
    if (f->has_above) add_real(q, "bestTrialSearcherMetric >=", f->above);
    if (f->ended_after_us) add_int(q, "endTime >", f->ended_after_us);
    if (f->archived) add_int(q, "archived =", f->archived == TRI_TRUE);
    if (f->unfinished && noun == NOUN_ALLOCATION)
        buf_addz(&q->where, " AND state <> 'STATE_TERMINATED'");
    else if (f->unfinished)
        buf_addz(&q->where, " AND endTime = 0");
}

static const char *find_sort(const struct table *t, const char *field)
{
    if (!field || !strcmp(field, t->key)) return ""; // by row number alone
    for (size_t i = 0; i < t->n_sorts; i++)
        if (!strcmp(field, t->sorts[i].field)) return t->sorts[i].expression;
    return NULL;
}

static sqlite3_stmt *prepare(struct db_reader *r, const struct buf *text, const struct query *q,
                             det_err *err)
{
    sqlite3_stmt *s = NULL;
    connection_check();
    int rc = sqlite3_prepare_v2(r->c.sql, buf_str(text).ptr, -1, &s, NULL);
    for (int i = 0; rc == SQLITE_OK && i < q->n; i++)
        rc = value_bind(s, i + 1, &q->values[i]);
    if (rc == SQLITE_OK) return s;
    sqlite_fail(r->c.sql, rc, err);
    sqlite3_finalize(s);
    return NULL;
}

static int count(struct db_reader *r, const struct table *t, const struct query *q, int64_t *out,
                 det_err *err)
{
    struct buf text = BUF_INIT(1 << 16);
    buf_printf(&text, "SELECT count(*) FROM %s WHERE 1%.*s", t->name, STR_ARG(buf_str(&q->where)));
    sqlite3_stmt *s = prepare(r, &text, q, err);
    int rc = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (rc == SQLITE_ROW) *out = sqlite3_column_int64(s, 0);
    int code = rc == SQLITE_ROW ? 0 : sqlite_fail(r->c.sql, sqlite3_errcode(r->c.sql), err);
    sqlite3_finalize(s);
    buf_done(&text);
    return code;
}

static struct value cursor_value(const struct db_cursor *c)
{
    switch (c->kind) {
    case CURSOR_INT:
        return (struct value){.kind = VALUE_INT, .integer = c->integer};
    case CURSOR_REAL:
        return (struct value){.kind = VALUE_REAL, .real = c->real};
    default:
        return (struct value){.kind = VALUE_TEXT, .bytes = str_from(c->text)};
    }
}

// To the row that s stands on; its last two columns are the value and the row's number.
static void cursor_move(struct db_cursor *c, sqlite3_stmt *s, struct arena *a)
{
    int n = sqlite3_column_count(s), type = sqlite3_column_type(s, n - 2);
    c->is_set = true;
    c->row = sqlite3_column_int64(s, n - 1);
    c->kind = type == SQLITE_INTEGER ? CURSOR_INT
              : type == SQLITE_FLOAT ? CURSOR_REAL
                                     : CURSOR_TEXT;
    c->integer = sqlite3_column_int64(s, n - 2);
    c->real = sqlite3_column_double(s, n - 2);
    c->text = type == SQLITE_TEXT ? column_text(s, n - 2, a) : c->kind == CURSOR_TEXT ? "" : NULL;
}

// Where the page begins: no record is skipped one by one. The row number, which every index ends
// with, makes every order a total one.
static void add_start(struct query *q, const struct table *t, const struct db_page *page,
                      const char *by)
{
    const char *comma = *by ? ", " : "", sign = page->descending ? '<' : '>';
    const struct db_cursor *c = page->cursor;
    if (c && c->is_set) {
        buf_printf(&q->where, " AND (%s%srowid) %c (%s?)", by, comma, sign, *by ? "?, " : "");
        if (*by) add_value(q, cursor_value(c));
        add_value(q, (struct value){.kind = VALUE_INT, .integer = c->row});
    } else if (page->after) {
        buf_printf(&q->where, " AND (%s%srowid) %c (SELECT %s%srowid FROM %s WHERE \"%s\" = ?)", by,
                   comma, sign, by, comma, t->name, t->key);
        add_value(q, (struct value){.kind = VALUE_TEXT, .bytes = str_from(page->after)});
    }
}

static void add_page(struct query *q, const struct table *t, const struct db_page *page,
                     const char *by, struct buf *text)
{
    ASSERT(by);
    const char *comma = *by ? ", " : "", *direction = page->descending ? " DESC" : "";
    int64_t limit = page->limit ? page->limit : DEFAULT_LIMIT;
    add_start(q, t, page, by);
    buf_addz(text, "SELECT ");
    table_add_columns(t, text);
    buf_printf(text, ", %s, rowid", *by ? by : "rowid");
    buf_printf(text, " FROM %s WHERE 1%.*s ORDER BY %s%s%srowid%s LIMIT %lld OFFSET %lld", t->name,
               STR_ARG(buf_str(&q->where)), by, *by ? direction : "", comma, direction,
               (long long)limit, (long long)page->offset);
}

// The records of all rows of s, which is finalized.
static int read_page(struct db_reader *r, sqlite3_stmt *s, enum noun noun, struct db_cursor *cursor,
                     struct arena *a, struct db_list *out, det_err *err)
{
    const struct table *t = &tables[noun];
    struct growing rows = {.arena = a, .size = t->fields->size};
    int rc, code = 0;
    while (!code && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        code = record_read(s, t, a, grow(&rows), err);
        if (cursor) cursor_move(cursor, s, a);
    }
    if (!code && rc != SQLITE_DONE) code = sqlite_fail(r->c.sql, sqlite3_errcode(r->c.sql), err);
    sqlite3_finalize(s);
    out->items = rows.items;
    out->n = rows.n;
    return code;
}

static int list(struct db_reader *r, enum noun noun, const struct db_filter *filter,
                const struct db_page *page, struct arena *a, struct db_list *out, det_err *err)
{
    static const struct db_page all = {.limit = -1};
    const struct table *t = &tables[noun];
    struct query q = {.arena = a, .where = BUF_INIT(1 << 14)};
    struct buf text = BUF_INIT(1 << 16);
    struct db_list found = {0};
    if (!page) page = &all;
    const char *by = find_sort(t, page->sort);
    int rc = 0;
    if (!by) rc = det_fail(err, DET_EINVAL, "%ss cannot be sorted by '%.40s'", t->word, page->sort);
    if (rc) goto out;
    add_filter(&q, noun, filter);
    if (page->want_total) rc = count(r, t, &q, &found.total, err);
    if (rc) goto out;
    add_page(&q, t, page, by, &text);
    sqlite3_stmt *s = prepare(r, &text, &q, err);
    rc = s ? read_page(r, s, noun, page->cursor, a, &found, err) : err ? err->code : DET_EIO;
    if (!rc) *out = found;
out:
    buf_done(&text);
    buf_done(&q.where);
    return rc;
}

int db_experiments_list(struct db_reader *r, const struct db_filter *filter,
                        const struct db_page *page, struct arena *a, struct db_list *out,
                        det_err *err)
{
    return list(r, NOUN_EXPERIMENT, filter, page, a, out, err);
}

int db_trials_list(struct db_reader *r, const struct db_filter *filter, const struct db_page *page,
                   struct arena *a, struct db_list *out, det_err *err)
{
    return list(r, NOUN_TRIAL, filter, page, a, out, err);
}

int db_allocations_list(struct db_reader *r, const struct db_filter *filter,
                        const struct db_page *page, struct arena *a, struct db_list *out,
                        det_err *err)
{
    return list(r, NOUN_ALLOCATION, filter, page, a, out, err);
}

int db_checkpoints_list(struct db_reader *r, const struct db_filter *filter,
                        const struct db_page *page, struct arena *a, struct db_list *out,
                        det_err *err)
{
    return list(r, NOUN_CHECKPOINT, filter, page, a, out, err);
}

int db_users_list(struct db_reader *r, const struct db_page *page, struct arena *a,
                  struct db_list *out, det_err *err)
{
    return list(r, NOUN_USER, NULL, page, a, out, err);
}

int db_templates_list(struct db_reader *r, const struct db_page *page, struct arena *a,
                      struct db_list *out, det_err *err)
{
    return list(r, NOUN_TEMPLATE, NULL, page, a, out, err);
}
