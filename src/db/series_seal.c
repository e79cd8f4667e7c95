// Unit series_seal.c: reports into spans and chunks, and into summaries. Called by series_write.c.
#include "db/series_write.h"

#include "base/assert.h"
#include "doc/json.h"
#include <math.h>

// Reports with very many metrics make shorter spans: the writer has others to see to.
enum {
    SPAN_BYTES = 512 << 10,
    MAX_POINTS_BYTES = 64 << 20,
    READ_AT_ONCE = 16 * SPAN_REPORTS, // also if there are many of one step, from many runs
};

// --- columns

void columns_init(struct series_columns *c, const struct db *db)
{
    *c = (struct series_columns){.key = &db->series_key};
    c->last = &c->first;
}

void columns_done(struct series_columns *c)
{
    arena_done(&c->arena);
}

static struct series_column **bucket_of(const struct series_columns *c, struct str name)
{
    return &c->buckets[hash_bytes(c->key, name.ptr, name.len) % c->n_buckets];
}

static void add_buckets(struct series_columns *c)
{
    c->n_buckets = c->n_buckets ? 4 * c->n_buckets : 16;
    c->buckets = arena_array(&c->arena, c->n_buckets, sizeof(struct series_column *));
    for (struct series_column *x = c->first; x; x = x->next) {
        struct series_column **at = bucket_of(c, x->name);
        x->next_in_bucket = *at;
        *at = x;
    }
}

static struct series_column *find_column(struct series_columns *c, struct str name)
{
    if (c->n >= c->n_buckets) add_buckets(c);
    struct series_column **at = bucket_of(c, name);
    for (struct series_column *x = *at; x; x = x->next_in_bucket)
        if (str_eq(x->name, name)) return x;
    struct series_column *x = arena_alloc(&c->arena, sizeof *x);
    x->name = (struct str){arena_strndup(&c->arena, name.ptr, name.len), name.len};
    x->next_in_bucket = *at;
    *at = *c->last = x;
    c->last = &x->next;
    c->n++;
    return x;
}

// A number, or one of the words that JSON has no numbers for.
static bool read_value(const struct doc *d, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    if (doc_number(d, out)) return true;
    for (size_t i = 0; d->kind == DOC_STR && i < STATIC_LEN(words); i++)
        if (str_eqz(d->text, words[i].word)) {
            *out = words[i].value;
            return true;
        }
    return false;
}

void columns_add(struct series_columns *c, struct str metrics, int64_t steps, int64_t time_us)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct json_opts opts = {.source = "stored", .max_bytes = MAX_REPORT_BYTES};
    const struct doc *map = json_parse(&arena, metrics, &opts, &diags);
    struct point p = {.steps = steps, .time_us = time_us};
    for (const struct doc *d = map && map->kind == DOC_MAP ? map->first : NULL; d; d = d->next)
        if (read_value(d, &p.value)) points_add(&find_column(c, d->key)->points, &p, &c->arena);
    arena_done(&arena);
}

// --- chunks and spans

int series_mark(struct db *db, const struct series_group *g, int64_t *out, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name)};
    return statement_number(&db->writer, SQL_SPANS_MARK, values, 2, -1, out, err);
}

int series_put_chunk(struct db *db, const struct series_group *g, struct str name, int64_t span,
                     const struct points *points, det_err *err)
{
    const struct points_summary s = points_summarize(points);
    struct buf packed = BUF_INIT(MAX_POINTS_BYTES);
    points_pack(points, &packed);
    const struct value none = {.kind = VALUE_NULL};
    const struct value values[] = {
        VALUE_OF_INT(g->trial_id),
        VALUE_OF_TEXT(g->name),
        VALUE_OF_TEXT(name),
        VALUE_OF_INT(span),
        VALUE_OF_INT(s.count),
        VALUE_OF_INT(s.first_point.steps),
        VALUE_OF_INT(s.last_point.steps),
        VALUE_OF_INT(s.first_point.time_us),
        VALUE_OF_INT(s.last_point.time_us),
        s.count ? VALUE_OF_REAL(s.sum) : none,
        s.count ? VALUE_OF_REAL(s.min) : none,
        s.count ? VALUE_OF_REAL(s.max) : none,
        s.count ? VALUE_OF_REAL(s.last) : none,
        VALUE_OF_BLOB(buf_str(&packed)),
    };
    ASSERT(buf_ok(&packed));
    int rc = statement_run(&db->writer, SQL_POINTS_PUT, values, STATIC_LEN(values), err);
    buf_done(&packed);
    return rc;
}

// The reports of one span: enough of them, and all of the last step.
static int gather(struct db *db, const struct series_group *g, int64_t after, int64_t last,
                  struct series_columns *c, int64_t *end, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                   VALUE_OF_INT(after), VALUE_OF_INT(last),
                                   VALUE_OF_INT(READ_AT_ONCE)};
    size_t n = 0, n_bytes = 0;
    struct rows r;
    *end = after;
    rows_start(&db->writer, SQL_TAIL, values, STATIC_LEN(values), &r);
    while (rows_next(&r)) {
        int64_t steps = rows_int(&r, 0);
        struct str text = rows_bytes(&r, 2);
        bool is_enough = n >= SPAN_REPORTS || n_bytes >= SPAN_BYTES;
        if (is_enough && steps != *end) break;
        if (text.ptr) columns_add(c, text, steps, rows_int(&r, 1));
        n++;
        n_bytes += text.len;
        *end = steps;
    }
    return rows_end(&r, 0, err);
}

int series_seal(struct db *db, const struct series_group *g, int64_t after, int64_t last,
                int64_t *end, det_err *err)
{
    struct series_columns c;
    columns_init(&c, db);
    int rc = gather(db, g, after, last, &c, end, err);
    const struct value span[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                 VALUE_OF_INT(*end)};
    if (!rc && *end != after) rc = statement_run(&db->writer, SQL_SPAN_ADD, span, 3, err);
    for (const struct series_column *x = c.first; !rc && x; x = x->next)
        rc = series_put_chunk(db, g, x->name, *end, &x->points, err);
    columns_done(&c);
    return rc;
}

// --- summaries

// What values in a row come to.
struct total {
    struct str group, name;
    int64_t count;
    double sum, min, max, last;
};

static int merge_summary(struct db *db, int64_t trial_id, const struct total *t, det_err *err)
{
    const struct value values[] = {
        VALUE_OF_INT(trial_id), VALUE_OF_TEXT(t->group), VALUE_OF_TEXT(t->name),
        VALUE_OF_INT(t->count), VALUE_OF_REAL(t->sum),   VALUE_OF_REAL(t->min),
        VALUE_OF_REAL(t->max),  VALUE_OF_REAL(t->last),
    };
    if (!t->count) return 0;
    return statement_run(&db->writer, SQL_SUMMARY_MERGE, values, STATIC_LEN(values), err);
}

static int merge_chunks(struct db *db, int64_t trial_id, det_err *err)
{
    const struct value id = VALUE_OF_INT(trial_id);
    struct rows r;
    int code = 0;
    rows_start(&db->writer, SQL_POINTS_OF_TRIAL, &id, 1, &r);
    while (!code && rows_next(&r))
        code = merge_summary(db, trial_id,
                             &(struct total){.group = rows_bytes(&r, 0),
                                             .name = rows_bytes(&r, 1),
                                             .count = rows_int(&r, 2),
                                             .sum = rows_real(&r, 3),
                                             .min = rows_real(&r, 4),
                                             .max = rows_real(&r, 5),
                                             .last = rows_real(&r, 6)},
                             err);
    return rows_end(&r, code, err);
}

// The reports of a group that are in no span.
static int merge_tail(struct db *db, const struct series_group *g, det_err *err)
{
    int64_t mark = -1, end = 0;
    int rc = series_mark(db, g, &mark, err);
    for (bool more = true; more && !rc; mark = end) {
        struct series_columns c;
        columns_init(&c, db);
        rc = gather(db, g, mark, INT64_MAX, &c, &end, err);
        more = end != mark;
        for (const struct series_column *x = c.first; !rc && x; x = x->next) {
            const struct points_summary p = points_summarize(&x->points);
            rc = merge_summary(
                db, g->trial_id,
                &(struct total){g->name, x->name, p.count, p.sum, p.min, p.max, p.last}, err);
        }
        columns_done(&c);
    }
    return rc;
}

int series_summarize(struct db *db, int64_t trial_id, const struct series_group *groups, size_t n,
                     det_err *err)
{
    const struct value id = VALUE_OF_INT(trial_id);
    int rc = statement_run(&db->writer, SQL_SUMMARIES_CLEAR, &id, 1, err);
    if (!rc) rc = merge_chunks(db, trial_id, err);
    for (size_t i = 0; !rc && i < n; i++)
        rc = merge_tail(db, &groups[i], err);
    return rc;
}
