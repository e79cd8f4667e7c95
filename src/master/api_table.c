// Unit api_table.c: all trials of an experiment as columns, for tables and plots that need every
// one of them: values without names, and nothing that they do not show.
#include "master/routes.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/feed.h"

enum { ROWS_AT_ONCE = 1000, MAX_COLUMNS = 1000, MAX_METRICS = 50 };

struct table_query {
    LIST_OF(const char *) metrics;
};

static const struct field query_fields[] = {
    {.name = "metrics",
     .type = FIELD_LIST,
     .offset = offsetof(struct table_query, metrics),
     .item = &api_text_item,
     .help = "Columns of metrics, such as validation.error:last; also :min and :max."},
};
static const struct field_table query_table = {.size = sizeof(struct table_query),
                                               FIELD_ROWS(query_fields)};

struct column {
    const char *name;
    struct buf json; // a list of its values, without the end
    struct json_writer w;
    size_t n; // values so far
    struct column *next;
};

struct table {
    int64_t experiment_id;
    struct db_cursor cursor;
    struct column *first, *last;
    size_t n_columns, n_rows;
    const char **metrics;
    size_t n_metrics, metrics_done;
    LIST_OF(int64_t) ids;
    bool all_read;
    struct column *written; // the last one that was
    struct json_writer w;
};

static struct column *add_column(struct feed *f, struct table *t, const char *name)
{
    struct column *c = arena_alloc(&f->arena, sizeof *c);
    c->name = arena_strdup(&f->arena, name);
    c->json = BUF_INIT(API_MAX_REPLY);
    json_init(&c->w, &c->json, 0);
    json_open_list(&c->w);
    *(t->last ? &t->last->next : &t->first) = c;
    t->last = c;
    t->n_columns++;
    return c;
}

// The column of that name, where the next value of this row goes. It is looked for behind the one
// that was used before, since all rows have the same order. NULL: there are too many columns.
static struct json_writer *column(struct feed *f, struct column **hint, const char *name)
{
    struct table *t = f->source;
    struct str wanted = str_from(name);
    struct column *c = *hint ? (*hint)->next : t->first;
    while (c && !str_eqz(wanted, c->name))
        c = c->next;
    for (struct column *e = t->first; !c && e; e = e->next)
        if (str_eqz(wanted, e->name)) c = e;
    if (!c && t->n_columns == MAX_COLUMNS) return NULL;
    if (!c) c = add_column(f, t, name);
    for (; c->n < t->n_rows; c->n++)
        json_put_null(&c->w); // rows before it had none
    c->n++;
    *hint = c;
    return &c->w;
}

static void put_time(struct json_writer *w, int64_t us)
{
    if (us)
        json_put_int(w, us / 1000);
    else
        json_put_null(w);
}

// Nested ones get names with dots between them.
static void put_hparams(struct feed *f, struct column **hint, const char *name,
                        const struct doc *value, struct arena *scratch)
{
    if (value->kind == DOC_MAP) {
        for (const struct doc *e = value->first; e; e = e->next)
            put_hparams(f, hint, arena_printf(scratch, "%s.%.*s", name, STR_ARG(e->key)), e,
                        scratch);
        return;
    }
    struct json_writer *w = column(f, hint, name);
    if (w) json_put_doc(w, value);
}

static void put_row(struct feed *f, const struct trial *row, struct arena *scratch)
{
    struct table *t = f->source;
    struct column *hint = NULL;
    json_put_int(column(f, &hint, "id"), row->id);
    json_put_int(column(f, &hint, "number"), row->number);
    json_put_str(column(f, &hint, "state"), exp_state_names[row->state]);
    put_time(column(f, &hint, "startTime"), row->start_us);
    put_time(column(f, &hint, "endTime"), row->end_us);
    json_put_int(column(f, &hint, "batches"), row->total_batches);
    json_put_int(column(f, &hint, "restarts"), row->restarts);
    json_put_int(column(f, &hint, "runId"), row->run_id);
    json_put_rounded(column(f, &hint, "progress"), row->progress);
    json_put_rounded(column(f, &hint, "metric"), row->searcher_metric);
    json_put_str(column(f, &hint, "checkpoint"), row->latest_checkpoint);
    if (row->hparams) put_hparams(f, &hint, "hparams", row->hparams, scratch);
    t->n_rows++;
}

static void keep_id(struct table *t, int64_t id)
{
    if ((t->ids.n & (t->ids.n - 1)) == 0) // a power of two: all is full
        t->ids.items = xrealloc(t->ids.items, MAX(1, 2 * t->ids.n) * sizeof *t->ids.items);
    t->ids.items[t->ids.n++] = id;
}

static int read_rows(struct feed *f, struct db_reader *r, det_err *err)
{
    struct table *t = f->source;
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    const struct db_filter filter = {.experiment_id = t->experiment_id};
    const struct db_page page = {.cursor = &t->cursor, .limit = ROWS_AT_ONCE};
    int rc = db_trials_list(r, &filter, &page, &arena, &list, err);
    const struct trial *rows = list.items;
    for (size_t i = 0; !rc && i < list.n; i++) {
        put_row(f, &rows[i], &arena);
        keep_id(t, rows[i].id);
    }
    t->all_read = list.n < ROWS_AT_ONCE;
    arena_done(&arena);
    return rc;
}

enum kind { KIND_LAST, KIND_MIN, KIND_MAX, N_KIND };

struct asked {
    const char *group, *name;
    enum kind kind;
};

// "group.name:kind" taken apart. DET_EINVAL: it is not one.
static int read_asked(struct arena *a, const char *text, struct asked *out, det_err *err)
{
    static const char *const kinds[N_KIND] = {"last", "min", "max"};
    const char *dot = strchr(text, '.'), *colon = strrchr(text, ':');
    for (int i = 0; dot && colon && dot < colon && i < N_KIND; i++) {
        if (!str_eqz(str_from(colon + 1), kinds[i])) continue;
        *out = (struct asked){arena_strndup(a, text, (size_t)(dot - text)),
                              arena_strndup(a, dot + 1, (size_t)(colon - dot - 1)), (enum kind)i};
        return 0;
    }
    return det_fail(err, DET_EINVAL,
                    "metrics: '%.60s' is not like validation.error:last (or :min, :max)", text);
}

static double value_of(const struct metric_value *v, enum kind kind)
{
    const double values[N_KIND] = {v->last, v->min, v->max};
    return values[kind];
}

// A column of a metric: values come in the order of trials, as rows do.
static int read_values(struct feed *f, struct db_reader *r, const char *text, det_err *err)
{
    struct table *t = f->source;
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    struct asked asked = {0};
    int rc = read_asked(&arena, text, &asked, err);
    if (!rc)
        rc = db_metric_values(r, t->experiment_id, asked.group, asked.name, &arena, &list, err);
    if (!rc) {
        struct column *c = add_column(f, t, text);
        const struct metric_value *v = list.items, *end = v + list.n;
        for (size_t i = 0; i < t->ids.n; i++) {
            while (v < end && v->trial_id < t->ids.items[i])
                v++;
            if (v < end && v->trial_id == t->ids.items[i])
                json_put_rounded(&c->w, value_of(v, asked.kind));
            else
                json_put_null(&c->w);
        }
        c->n = t->n_rows;
    }
    arena_done(&arena);
    return rc;
}

static void write_column(struct feed *f, struct column *c)
{
    struct table *t = f->source;
    for (; c->n < t->n_rows; c->n++)
        json_put_null(&c->w);
    json_close(&c->w);
    json_open_map(&t->w);
    json_key(&t->w, "name");
    json_put_str(&t->w, c->name);
    json_key(&t->w, "values");
    json_put_json(&t->w, buf_str(&c->json));
    json_close(&t->w);
    buf_done(&c->json);
}

static void begin(struct feed *f)
{
    struct table *t = f->source;
    json_init(&t->w, &f->out, 0);
    json_open_map(&t->w);
    json_key(&t->w, "total");
    json_put_int(&t->w, (int64_t)t->n_rows);
    json_key(&t->w, "columns");
    json_open_list(&t->w);
}

static int next_piece(struct feed *f, struct db_reader *r, det_err *err)
{
    struct table *t = f->source;
    if (!t->all_read) return read_rows(f, r, err);
    if (t->metrics_done < t->n_metrics)
        return read_values(f, r, t->metrics[t->metrics_done++], err);
    if (!t->written) begin(f);
    struct column *c = t->written ? t->written->next : t->first;
    for (; c && f->out.len < FEED_PIECE_BYTES; c = c->next) {
        write_column(f, c);
        t->written = c;
    }
    if (c) return 0;
    json_close(&t->w);
    json_close(&t->w);
    f->state = FEED_ENDS;
    return 0;
}

static void drop_table(struct feed *f)
{
    struct table *t = f->source;
    for (struct column *c = t->first; c; c = c->next)
        buf_done(&c->json);
    free(t->ids.items);
}

static int get_table(struct http_request *req, det_err *err)
{
    const struct table_query *q = req->query;
    struct experiment e;
    struct asked asked;
    int64_t id = http_param_int(req, "experiment");
    int rc = db_experiment_find(req->reader, id, req->arena, &e, err);
    if (!rc && q->metrics.n > MAX_METRICS)
        rc = det_fail(err, DET_EINVAL, "metrics: at most %d at a time", MAX_METRICS);
    for (size_t i = 0; !rc && i < q->metrics.n; i++)
        rc = read_asked(req->arena, q->metrics.items[i], &asked, err);
    if (rc) return rc;
    struct feed *f = feed_new(req, &(struct feed_opts){.next = next_piece, .closed = drop_table});
    struct table *t = arena_alloc(&f->arena, sizeof *t);
    t->experiment_id = id;
    t->n_metrics = q->metrics.n;
    t->metrics = arena_array(&f->arena, q->metrics.n + 1, sizeof *t->metrics);
    for (size_t i = 0; i < q->metrics.n; i++)
        t->metrics[i] = arena_strdup(&f->arena, q->metrics.items[i]);
    f->source = t;
    return feed_begin(f, err);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/experiments/{experiment:int}/trialsTable", .read = get_table,
     .handle = feed_answer, .query = &query_table,
     .summary = "All trials of an experiment as columns, with their hyperparameters and metrics."},
};

const struct http_table table_routes = HTTP_TABLE(routes);
