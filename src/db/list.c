// Unit list.c: lists with filters, orders and pages. The statements are put together from fixed
// parts; what a client sends is only ever a bound value.
#include "db/reader.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/number.h"
#include <ctype.h>

enum { MAX_VALUES = 10000, DEFAULT_LIMIT = 100, MAX_TEXT = 1 << 18 };

struct query {
    struct buf where;      // " AND ..." and so on
    struct growing values; // struct value
};

// A condition about one value, which every ? in it stands for.
static void add(struct query *q, const char *condition, struct value v)
{
    *(struct value *)grow(&q->values) = v;
    buf_addz(&q->where, " AND ");
    for (const char *c = condition; *c; c++)
        if (*c == '?')
            buf_printf(&q->where, "?%zu", q->values.n);
        else
            buf_addc(&q->where, *c);
}

static struct value value_of_doc(const struct doc *d)
{
    return d->kind == DOC_INT ? VALUE_OF_INT(d->integer) : VALUE_OF_TEXT(d->text);
}

// The column has one of the values of a list.
static void add_any(struct query *q, const char *column, const struct doc *list)
{
    const char *comma = "";
    if (!list->first) {
        buf_addz(&q->where, " AND 1 = 0");
        return;
    }
    buf_printf(&q->where, " AND %s IN (", column);
    for (const struct doc *d = list->first; d; d = d->next) {
        *(struct value *)grow(&q->values) = value_of_doc(d);
        buf_printf(&q->where, "%s?%zu", comma, q->values.n);
        comma = ", ";
    }
    buf_addc(&q->where, ')');
}

// Small letters, as lower() makes them in either engine: of ASCII only.
static struct value lower_text(struct query *q, const char *text)
{
    char *copy = arena_strdup(q->values.arena, text);
    for (char *c = copy; *c; c++)
        if (isascii((unsigned char)*c)) *c = (char)tolower((unsigned char)*c);
    return VALUE_OF_TEXT(str_from(copy));
}

#define HAS_LABEL \
    "EXISTS (SELECT 1 FROM experiment_labels l WHERE l.experimentId = experiments.id AND "

// What people search experiments for: a part of the name, the description or a label; or the id.
static void add_search(struct query *q, const char *word)
{
    int64_t id;
    bool is_number = number_to_int(str_from(word), 10, &id);
    add(q,
        "(instr(lower(ifnull(name, '')), ?) > 0 OR instr(lower(ifnull(description, '')), ?) > 0"
        " OR " HAS_LABEL "instr(lower(l.label), ?) > 0)",
        lower_text(q, word));
    if (is_number) buf_printf(&q->where, " OR id = %lld", (long long)id);
    buf_addc(&q->where, ')');
}

// A filter can only have what the noun has; the master's handlers see to that.
static void add_filter(struct query *q, enum noun noun, const struct db_filter *f)
{
    if (!f) return;
    if (f->experiment_id) add(q, "experimentId = ?", VALUE_OF_INT(f->experiment_id));
    if (f->trial_id) add(q, "trialId = ?", VALUE_OF_INT(f->trial_id));
    if (f->states) add_any(q, "state", f->states);
    if (f->users) add_any(q, "userId", f->users);
    for (const struct doc *d = f->labels ? f->labels->first : NULL; d; d = d->next)
        add(q, HAS_LABEL "l.label = ?)", value_of_doc(d));
    if (f->name) add(q, "instr(lower(name), ?) > 0", lower_text(q, f->name));
    if (f->description) add(q, "instr(lower(description), ?) > 0", lower_text(q, f->description));
    if (f->search) add_search(q, f->search);
    if (f->has_below) add(q, "bestTrialSearcherMetric <= ?", VALUE_OF_REAL(f->below));
    if (f->has_above) add(q, "bestTrialSearcherMetric >= ?", VALUE_OF_REAL(f->above));
    if (f->ended_after_us) add(q, "endTime > ?", VALUE_OF_INT(f->ended_after_us));
    if (f->archived) add(q, "archived = ?", VALUE_OF_INT(f->archived == TRI_TRUE));
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

static void start(struct db_reader *r, const struct buf *text, const struct query *q,
                  struct rows *out)
{
    const struct value *values = (const struct value *)(const void *)q->values.items;
    rows_start_text(&r->c, buf_str(text), values, (int)q->values.n, out);
}

static int count(struct db_reader *r, const struct table *t, const struct query *q, int64_t *out,
                 det_err *err)
{
    struct buf text = BUF_INIT(MAX_TEXT);
    struct rows rows;
    buf_printf(&text, "SELECT count(*) FROM %s WHERE 1 = 1%.*s", t->name,
               STR_ARG(buf_str(&q->where)));
    start(r, &text, q, &rows);
    if (rows_next(&rows)) *out = rows_int(&rows, 0);
    buf_done(&text);
    return rows_end(&rows, 0, err);
}

static struct value cursor_value(const struct db_cursor *c)
{
    switch (c->kind) {
    case CURSOR_INT:
        return VALUE_OF_INT(c->integer);
    case CURSOR_REAL:
        return VALUE_OF_REAL(c->real);
    default:
        return VALUE_OF_TEXT(str_from(c->text));
    }
}

// To the row that rows stands on; column is that of the value, the next one that of the row's
// number.
static void cursor_move(struct db_cursor *c, const struct rows *rows, int column, struct arena *a)
{
    enum value_kind kind = rows_kind(rows, column);
    c->is_set = true;
    c->row = rows_int(rows, column + 1);
    c->kind = kind == VALUE_INT ? CURSOR_INT : kind == VALUE_REAL ? CURSOR_REAL : CURSOR_TEXT;
    c->integer = kind == VALUE_INT ? rows_int(rows, column) : 0;
    c->real = kind == VALUE_REAL ? rows_real(rows, column) : 0;
    c->text = kind == VALUE_TEXT ? rows_text(rows, column, a) : c->kind == CURSOR_TEXT ? "" : NULL;
}

// The key of a record in words; what is no number is none of a table whose keys are.
static struct value key_value(const struct table *t, const char *key)
{
    int64_t number = 0;
    if (strcmp(t->key, t->row) != 0) return VALUE_OF_TEXT(str_from(key));
    return number_to_int(str_from(key), 10, &number) ? VALUE_OF_INT(number) : (struct value){0};
}

// Where the page begins: no record is skipped one by one. The row number, which every index ends
// with, makes every order a total one.
static void add_start(struct query *q, const struct table *t, const struct db_page *page,
                      const char *by)
{
    const char *comma = *by ? ", " : "", sign = page->descending ? '<' : '>';
    const struct db_cursor *c = page->cursor;
    if (c && c->is_set) {
        buf_printf(&q->where, " AND (%s%s%s) %c (", by, comma, t->row, sign);
        if (*by) {
            *(struct value *)grow(&q->values) = cursor_value(c);
            buf_printf(&q->where, "?%zu, ", q->values.n);
        }
        *(struct value *)grow(&q->values) = VALUE_OF_INT(c->row);
        buf_printf(&q->where, "?%zu)", q->values.n);
    } else if (page->after) {
        buf_printf(&q->where, " AND (%s%s%s) %c (SELECT %s%s%s FROM %s WHERE \"%s\" = ?%zu)", by,
                   comma, t->row, sign, by, comma, t->row, t->name, t->key, q->values.n + 1);
        *(struct value *)grow(&q->values) = key_value(t, page->after);
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
    buf_printf(text, ", %s, %s", *by ? by : t->row, t->row);
    buf_printf(text, " FROM %s WHERE 1 = 1%.*s ORDER BY %s%s%s%s%s LIMIT %lld OFFSET %lld", t->name,
               STR_ARG(buf_str(&q->where)), by, *by ? direction : "", comma, t->row, direction,
               (long long)(limit < 0 ? INT64_MAX : limit), (long long)page->offset);
}

// The records of all rows, which are ended.
static int read_page(struct rows *rows, enum noun noun, struct db_cursor *cursor, struct arena *a,
                     struct db_list *out, det_err *err)
{
    const struct table *t = &tables[noun];
    struct growing list = {.arena = a, .size = t->fields->size};
    int code = 0;
    while (!code && rows_next(rows)) {
        code = record_read(rows, t, a, grow(&list), err);
        if (cursor) cursor_move(cursor, rows, (int)t->fields->n, a);
    }
    out->items = list.items;
    out->n = list.n;
    return rows_end(rows, code, err);
}

static int list(struct db_reader *r, enum noun noun, const struct db_filter *filter,
                const struct db_page *page, struct arena *a, struct db_list *out, det_err *err)
{
    static const struct db_page all = {.limit = -1};
    const struct table *t = &tables[noun];
    struct query q = {.where = BUF_INIT(MAX_TEXT),
                      .values = {.arena = a, .size = sizeof(struct value)}};
    struct buf text = BUF_INIT(MAX_TEXT);
    struct db_list found = {0};
    struct rows rows;
    if (!page) page = &all;
    const char *by = find_sort(t, page->sort);
    int rc = 0;
    if (!by) rc = det_fail(err, DET_EINVAL, "%ss cannot be sorted by '%.40s'", t->word, page->sort);
    if (rc) goto out;
    add_filter(&q, noun, filter);
    if (!buf_ok(&q.where) || q.values.n > MAX_VALUES)
        rc = det_fail(err, DET_ELIMIT, "the filter has too many values: %zu", q.values.n);
    if (!rc && page->want_total) rc = count(r, t, &q, &found.total, err);
    if (rc) goto out;
    add_page(&q, t, page, by, &text);
    start(r, &text, &q, &rows);
    rc = read_page(&rows, noun, page->cursor, a, &found, err);
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
