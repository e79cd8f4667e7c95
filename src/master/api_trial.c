// Unit api_trial.c: routes about trials, for people: finding, describing, killing; their metrics.
#include "master/routes.h"

#include "base/mem.h"
#include <math.h>

static int find_row(struct http_request *req, struct trial *out, det_err *err)
{
    struct master *m = req->user;
    return db_trial_find(m->reader, http_param_int(req, "trial"), req->arena, out, err);
}

// --- lists

struct list_query {
    struct api_page page;
    LIST_OF(const char *) states;
};

static const struct field text_item = {.type = FIELD_STR};

static const struct field list_fields[] = {
    API_PAGE_FIELDS(struct list_query, page),
    {.name = "states",
     .type = FIELD_LIST,
     .offset = offsetof(struct list_query, states),
     .item = &text_item,
     .help = "One of these states."},
};

static const struct field_table list_table = {.size = sizeof(struct list_query),
                                              FIELD_ROWS(list_fields)};

static int list_trials(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"trials", &trial_table, "id", db_trials_list, NULL};
    const struct list_query *q = req->query;
    const struct db_filter filter = {
        .experiment_id = http_param_int(req, "experiment"),
        .states = api_list_doc(req->arena, q->states.items, q->states.n),
    };
    return api_list(req, &what, &filter, &q->page, err);
}

static const struct field page_fields[] = {API_PAGE_FIELDS(struct list_query, page)};
static const struct field_table page_table = {.size = sizeof(struct list_query),
                                              FIELD_ROWS(page_fields)};

static int list_allocations(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"allocations", &allocation_table, "allocationId",
                                         db_allocations_list, NULL};
    const struct list_query *q = req->query;
    const struct db_filter filter = {.trial_id = http_param_int(req, "trial")};
    return api_list(req, &what, &filter, &q->page, err);
}

// --- one

// {"training": {"loss": {"count": 3, ...}}, ...}
static void put_summaries(struct json_writer *w, const struct db_list *list)
{
    const struct metric_summary *s = list->items;
    json_key(w, "summaryMetrics");
    json_open_map(w);
    for (size_t i = 0; i < list->n; i++) {
        bool opens = !i || !str_eqz(str_from(s[i].group), s[i - 1].group);
        if (opens && i) json_close(w);
        if (opens) {
            json_key(w, s[i].group);
            json_open_map(w);
        }
        json_key(w, s[i].name);
        json_open_map(w);
        json_key(w, "count");
        json_put_int(w, s[i].count);
        const struct {
            const char *name;
            double value;
        } values[] = {{"min", s[i].min},
                      {"max", s[i].max},
                      {"mean", s[i].sum / (double)s[i].count},
                      {"last", s[i].last}};
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            json_key(w, values[j].name);
            json_put_double(w, values[j].value);
        }
        json_close(w);
    }
    if (list->n) json_close(w);
    json_close(w);
}

static int get_trial(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct trial row;
    struct db_list summaries;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = find_row(req, &row, err);
    if (!rc) rc = db_metric_summaries(m->reader, row.id, req->arena, &summaries, err);
    if (rc) return rc;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "trial");
    api_put_record(&w, req->arena, &trial_table, &row);
    put_summaries(&w, &summaries);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int kill_trial(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct live_trial *t = set_find(&m->trials, http_param_int(req, "trial"));
    struct trial row;
    if (!t) { // it has ended: nothing to do, if it ever was
        int rc = find_row(req, &row, err);
        if (!rc) http_reply_empty(req);
        return rc;
    }
    int rc = auth_may_change(req, t->experiment->row.user_id, err);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    struct live_experiment *e = t->experiment;
    trial_do(t, TRIAL_KILL, tx);
    experiment_settle(e, tx);
    return api_finish(req, tx, 0, NULL);
}

// --- metrics

struct metrics_query {
    const char *group, *name;
    int64_t after, limit, max_points;
};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct metrics_query, member), __VA_ARGS__

static const struct field metrics_fields[] = {
    {.name = "group", F(FIELD_STR, group, .help = "Only of this group.")},
    {.name = "after", F(FIELD_INT, after, .def = "-1", .help = "Only of later steps.")},
    {.name = "limit",
     F(FIELD_INT, limit, .def = "1000", FIELD_RANGE(1, 100000),
       .help = "How many reports at most.")},
};
static const struct field_table metrics_table = {.size = sizeof(struct metrics_query),
                                                 FIELD_ROWS(metrics_fields)};

static int get_metrics(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct metrics_query *q = req->query;
    struct db_list list = {0};
    int rc = db_metrics_list(m->reader, http_param_int(req, "trial"), q->group, q->after, q->limit,
                             req->arena, &list, err);
    if (rc) return rc;
    list.total = (int64_t)list.n;
    api_reply_list(req, "metrics", &metric_report_table, &list, "stepsCompleted");
    return 0;
}

static const struct field series_fields[] = {
    {.name = "group", F(FIELD_STR, group, .def = "validation", .help = "Group.")},
    {.name = "name", F(FIELD_STR, name, .required = true, .help = "Metric.")},
    {.name = "maxDatapoints",
     F(FIELD_INT, max_points, .def = "1000", FIELD_RANGE(2, 100000),
       .help = "How many points at most.")},
};
#undef F
static const struct field_table series_table = {.size = sizeof(struct metrics_query),
                                                FIELD_ROWS(series_fields)};

// Long series take a while: they are read in the background.
struct series {
    struct http_request *req;
    struct db *db;
    struct db_list points;
    int rc;
    det_err err;
};

static void read_series(void *ctx)
{
    struct series *s = ctx;
    const struct metrics_query *q = s->req->query;
    const struct metric_report which = {.trial_id = http_param_int(s->req, "trial"),
                                        .group = q->group};
    struct db_reader *reader = NULL;
    s->rc = db_reader_open(s->db, &reader, &s->err);
    if (!s->rc)
        s->rc = db_metric_series(reader, &which, q->name, q->max_points, s->req->arena, &s->points,
                                 &s->err);
    db_reader_close(reader);
}

static void answer_series(void *ctx)
{
    struct series *s = ctx;
    const struct metric_point *p = s->points.items;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    if (s->rc) {
        http_reply_error(s->req, &s->err);
        return;
    }
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "total");
    json_put_int(&w, s->points.total);
    json_key(&w, "data");
    json_open_list(&w);
    for (size_t i = 0; i < s->points.n; i++) {
        json_open_list(&w);
        json_put_int(&w, p[i].steps);
        json_put_double(&w, (double)p[i].time_us / 1e6);
        json_put_double(&w, p[i].value);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    http_reply_json(s->req, 200, &out);
}

static int get_series(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct series *s = arena_alloc(req->arena, sizeof *s);
    (void)err;
    s->req = req;
    s->db = m->db;
    worker_run(m->worker, read_series, answer_series, s);
    return http_later(req);
}

#define AT "/api/v1/trials/{trial:int}"

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/experiments/{experiment:int}/trials", .handle = list_trials,
     .query = &list_table, .summary = "Lists the trials of an experiment."},
    {HTTP_GET, AT, .auth = HTTP_AUTH_ANY, .handle = get_trial,
     .summary = "Describes a trial, with a summary of its metrics."},
    {HTTP_GET, AT "/allocations", .handle = list_allocations, .query = &page_table,
     .summary = "Lists the runs of a trial."},
    {HTTP_POST, AT "/kill", .handle = kill_trial, .summary = "Ends a trial at once."},
    {HTTP_GET, AT "/metrics", .auth = HTTP_AUTH_ANY, .handle = get_metrics, .query = &metrics_table,
     .summary = "Reports of a trial, by step."},
    {HTTP_GET, AT "/series", .handle = get_series, .query = &series_table,
     .summary = "One metric over steps, [step, unix time, value], thinned out for a chart."},
};

const struct http_table trial_routes = HTTP_TABLE(routes);
