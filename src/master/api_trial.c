// Unit api_trial.c: routes about trials, for people: finding, describing, killing; their metrics.
#include "master/routes.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/feed.h"
#include <math.h>

static int find_row(struct http_request *req, struct trial *out, det_err *err)
{
    return db_trial_find(req->reader, http_param_int(req, "trial"), req->arena, out, err);
}

// --- lists

static int list_trials(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"trials", &trial_table, "id", db_trials_list, NULL};
    const struct api_states *q = req->query;
    const struct db_filter filter = {
        .experiment_id = http_param_int(req, "experiment"),
        .states = api_list_doc(req->arena, q->states.items, q->states.n),
    };
    return api_list(req, &what, &filter, &q->page, err);
}

static int list_allocations(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"allocations", &allocation_table, "allocationId",
                                         db_allocations_list, NULL};
    const struct db_filter filter = {.trial_id = http_param_int(req, "trial")};
    return api_list(req, &what, &filter, req->query, err);
}

// --- runs

static void put_time(struct json_writer *w, const char *key, int64_t us)
{
    char text[TIME_TEXT_BYTES];
    time_format(us, text);
    json_key(w, key);
    json_put_str(w, us ? text : NULL);
}

static void put_batches(struct json_writer *w, const char *key, struct opt_int n)
{
    json_key(w, key);
    if (n.is_set)
        json_put_int(w, n.value);
    else
        json_put_null(w);
}

// next: the run after it, or NULL. What it had trained beyond the point where that one began does
// not count.
static void put_run(struct json_writer *w, const struct trial *t, const struct allocation *run,
                    const struct allocation *next)
{
    struct opt_int to = run->to_batch, back = {0};
    if (!to.is_set && !run->end_us && run->from_batch.is_set)
        to = (struct opt_int){true, MAX(t->total_batches, run->from_batch.value)};
    if (next && next->from_batch.is_set && to.is_set && next->from_batch.value < to.value)
        back = next->from_batch;
    json_open_map(w);
    json_key(w, "run");
    json_put_int(w, run->run_id);
    json_key(w, "state");
    json_put_str(w, allocation_state_names[run->state]);
    json_key(w, "slots");
    json_put_int(w, run->slots);
    put_time(w, "askedTime", run->start_us);
    put_time(w, "startTime", run->assigned_us);
    put_time(w, "endTime", run->end_us);
    put_batches(w, "fromBatch", run->from_batch);
    put_batches(w, "toBatch", to);
    put_batches(w, "rolledBackTo", back);
    json_key(w, "exit");
    json_put_str(w, run->end_us ? exit_kind_names[run->exit] : NULL);
    json_key(w, "reason");
    json_put_str(w, run->reason);
    json_close(w);
}

static int get_runs(struct http_request *req, det_err *err)
{
    enum { MAX_RUNS = 10000 };
    struct trial row = {0};
    struct db_list list = {0};
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = find_row(req, &row, err);
    const struct db_filter filter = {.trial_id = row.id};
    const struct db_page page = {.limit = MAX_RUNS};
    if (!rc) rc = db_allocations_list(req->reader, &filter, &page, req->arena, &list, err);
    if (rc) return rc;
    const struct allocation *runs = list.items;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "runs");
    json_open_list(&w);
    for (size_t i = 0; i < list.n; i++)
        put_run(&w, &row, &runs[i], i + 1 < list.n ? &runs[i + 1] : NULL);
    json_close(&w);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
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
    struct trial row;
    struct db_list summaries;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = find_row(req, &row, err);
    if (!rc) rc = db_metric_summaries(req->reader, row.id, req->arena, &summaries, err);
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

// It has ended: nothing to do, if it ever was.
static int kill_ended(struct http_request *req, det_err *err)
{
    struct trial row;
    int rc = find_row(req, &row, err);
    if (!rc) http_reply_empty(req);
    return rc;
}

static int kill_trial(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct live_trial *t = set_find(&m->trials, http_param_int(req, "trial"));
    if (!t) return http_read(req, kill_ended);
    int rc = auth_may_change(req, t->experiment->row.user_id, err);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    struct live_experiment *e = t->experiment;
    trial_do(t, TRIAL_KILL, tx);
    experiment_end_if_drained(e);
    return api_finish(req, tx, 0, NULL);
}

// --- metrics

struct metrics_query {
    const char *group, *name;
    int64_t after, limit, offset, max_points;
};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct metrics_query, member), __VA_ARGS__

static const struct field metrics_fields[] = {
    {.name = "group", F(FIELD_STR, group, .help = "Only of this group.")},
    {.name = "after", F(FIELD_INT, after, .def = "-1", .help = "Only of later steps.")},
    {.name = "offset", F(FIELD_INT, offset, FIELD_MIN(0), .help = "How many to pass over.")},
    {.name = "limit",
     F(FIELD_INT, limit, .def = "1000", FIELD_MIN(-1),
       .help = "How many reports about: those of the last step are complete; -1: all.")},
};
static const struct field_table metrics_table = {.size = sizeof(struct metrics_query),
                                                 FIELD_ROWS(metrics_fields)};

enum { REPORTS_AT_ONCE = 500 };

struct reports {
    struct db_metrics from;
    int64_t n_left, last; // step of the last one that was sent
    struct json_writer w;
};

static int put_reports(struct feed *f, struct db_reader *r, det_err *err)
{
    struct reports *s = f->source;
    struct arena arena = ARENA_INIT, record = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_metrics_page(r, &s->from, MIN(s->n_left, REPORTS_AT_ONCE), &arena, &list, err);
    const struct metric_report *all = list.items;
    for (size_t i = 0; !rc && i < list.n; i++) {
        api_put_record(&s->w, &record, &metric_report_table, &all[i]);
        arena_done(&record);
    }
    if (list.n) s->last = all[list.n - 1].steps_completed;
    s->n_left -= MIN(s->n_left, (int64_t)list.n);
    arena_done(&arena);
    return rc;
}

static int next_reports(struct feed *f, struct db_reader *r, det_err *err)
{
    struct reports *s = f->source;
    int rc = 0;
    if (!s->w.out) {
        json_init(&s->w, &f->out, 0);
        json_open_map(&s->w);
        json_key(&s->w, "metrics");
        json_open_list(&s->w);
    }
    do {
        rc = put_reports(f, r, err);
    } while (!rc && s->n_left && s->from.has_more && f->out.len < FEED_PIECE_BYTES);
    if (rc || (s->n_left && s->from.has_more)) return rc;
    json_close(&s->w);
    const char *next = arena_printf(&f->arena, "%lld", (long long)s->last);
    api_put_pagination(&s->w, -1, s->from.has_more ? next : NULL);
    json_close(&s->w);
    f->state = FEED_ENDS;
    return 0;
}

static int get_metrics(struct http_request *req, det_err *err)
{
    const struct metrics_query *q = req->query;
    struct trial row;
    int rc = find_row(req, &row, err);
    if (rc) return rc;
    struct feed *f = feed_new(req, &(struct feed_opts){.next = next_reports});
    struct reports *s = arena_alloc(&f->arena, sizeof *s);
    s->from = (struct db_metrics){.trial_id = row.id,
                                  .group = q->group ? arena_strdup(&f->arena, q->group) : NULL,
                                  .after = q->after,
                                  .skip = q->offset,
                                  .arena = &f->arena};
    s->n_left = q->limit < 0 ? INT64_MAX : q->limit;
    f->source = s;
    return feed_begin(f, err);
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

static void put_points(struct json_writer *w, const struct db_list *points)
{
    const struct metric_point *p = points->items;
    json_open_list(w);
    for (size_t i = 0; i < points->n; i++) {
        json_open_list(w);
        json_put_int(w, p[i].steps);
        json_put_double(w, (double)p[i].time_us / 1e6);
        json_put_double(w, p[i].value);
        json_close(w);
    }
    json_close(w);
}

static int get_series(struct http_request *req, det_err *err)
{
    const struct metrics_query *q = req->query;
    const struct metric_report which = {.trial_id = http_param_int(req, "trial"),
                                        .group = q->group};
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    struct db_list points = {0};
    int rc =
        db_metric_series(req->reader, &which, q->name, q->max_points, req->arena, &points, err);
    if (rc) return rc;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "total");
    json_put_int(&w, points.total);
    json_key(&w, "data");
    put_points(&w, &points);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

#define AT "/api/v1/trials/{trial:int}"

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/experiments/{experiment:int}/trials", .read = list_trials,
     .handle = feed_answer, .query = &api_states_table,
     .summary = "Lists the trials of an experiment."},
    {HTTP_GET, AT, .auth = HTTP_AUTH_ANY, .read = get_trial,
     .summary = "Describes a trial, with a summary of its metrics."},
    {HTTP_GET, AT "/allocations", .read = list_allocations, .handle = feed_answer,
     .query = &api_page_table, .summary = "Lists the runs of a trial."},
    {HTTP_GET, AT "/runs", .read = get_runs,
     .summary = "The runs of a trial: when, from which batch to which, and what did not count."},
    {HTTP_POST, AT "/kill", .handle = kill_trial, .summary = "Ends a trial at once."},
    {HTTP_GET, AT "/metrics", .auth = HTTP_AUTH_ANY, .read = get_metrics, .handle = feed_answer,
     .query = &metrics_table, .summary = "Reports of a trial, by step."},
    {HTTP_GET, AT "/series", .read = get_series, .query = &series_table,
     .summary = "One metric over steps, [step, unix time, value], thinned out for a chart."},
};

const struct http_table trial_routes = HTTP_TABLE(routes);
