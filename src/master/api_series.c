// Unit api_series.c: routes for charts: metrics of many trials at once, thinned out, piece by
// piece.
#include "master/routes.h"

#include "base/assert.h"
#include "base/number.h"
#include "master/feed.h"
#include <math.h>

enum { MAX_TRIALS = 10000, MAX_NAMES = 100 };

struct series_query {
    const char *group, *trials;
    LIST_OF(const char *) names;
    int axis;
    struct opt_int from, to;
    int64_t max_points;
};

enum { AXIS_BATCH, AXIS_TIME };
static const char *const axes[] = {"batch", "time", NULL};
static const struct field text_item = {.type = FIELD_STR};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct series_query, member), __VA_ARGS__
#define SERIES_FIELDS                                                                             \
    {.name = "group", F(FIELD_STR, group, .def = "validation", .help = "Group of the metrics.")}, \
        {.name = "name",                                                                          \
         F(FIELD_LIST, names, .item = &text_item, .required = true, .help = "One or several.")},  \
        {.name = "axis",                                                                          \
         F(FIELD_ENUM, axis, .values = axes, .def = "batch",                                      \
           .help = "What stretches are of, and what from and to are.")},                          \
        {.name = "from", F(FIELD_OPT_INT, from, .help = "Batches, or ms since 1970.")},           \
        {.name = "to", F(FIELD_OPT_INT, to, .help = "Batches, or ms since 1970.")},               \
    {                                                                                             \
        .name = "maxDatapoints", F(FIELD_INT, max_points, .def = "1000", FIELD_RANGE(1, 10000),   \
                                   .help = "How many stretches of each metric at most.")          \
    }

static const struct field experiment_fields[] = {
    SERIES_FIELDS,
    {.name = "trials",
     F(FIELD_STR, trials, .def = "best:20",
       .help = "Numbers with commas between them, best:N or all.")},
};
static const struct field any_fields[] = {
    SERIES_FIELDS,
    {.name = "trials",
     F(FIELD_STR, trials, .required = true, .help = "Numbers with commas between them.")},
};
#undef F
static const struct field_table experiment_table_of_series = {.size = sizeof(struct series_query),
                                                              FIELD_ROWS(experiment_fields)};
static const struct field_table any_table = {.size = sizeof(struct series_query),
                                             FIELD_ROWS(any_fields)};

// --- which trials

static int read_numbers(struct str text, struct arena *a, struct db_list *out, det_err *err)
{
    int64_t *ids = arena_array(a, MAX_TRIALS, sizeof *ids);
    size_t n = 0;
    while (text.ptr) {
        struct str one = str_cut(&text, ',');
        if (n == MAX_TRIALS)
            return det_fail(err, DET_ELIMIT, "trials: at most %d at once", MAX_TRIALS);
        if (!number_to_int(one, 10, &ids[n++]))
            return det_fail(err, DET_EINVAL,
                            "trials must be numbers with commas between them, best:N or all, found "
                            "'%.*s'",
                            (int)MIN(one.len, 40), one.ptr);
    }
    *out = (struct db_list){.items = ids, .n = n};
    return 0;
}

// Trials by number that belong to another experiment are passed over when they are read.
static int find_trials(struct http_request *req, const struct series_query *q, struct arena *a,
                       struct db_list *out, det_err *err)
{
    static const struct str best = {"best:", 5};
    struct str text = str_from(q->trials);
    struct experiment e;
    int64_t limit = MAX_TRIALS;
    bool is_best = str_starts(text, best);
    if (!is_best && !str_eqz(text, "all")) return read_numbers(text, a, out, err);
    struct str count = {text.ptr + best.len, text.len - best.len};
    if (is_best && (!number_to_int(count, 10, &limit) || limit < 1))
        return det_fail(err, DET_EINVAL, "trials: best:N needs a number above 0, found '%.40s'",
                        text.ptr);
    int rc =
        db_experiment_find(req->reader, http_param_int(req, "experiment"), req->arena, &e, err);
    return rc ? rc : db_best_trials(req->reader, &e, MIN(limit, MAX_TRIALS), a, out, err);
}

// --- series, one after the other

struct listing {
    struct db_series ask;  // without trial and name
    int64_t experiment_id; // 0: any
    struct db_list trials;
    const char **names;
    size_t n_names, at; // at: trials times names
    struct json_writer w;
};

static void put_buckets(struct json_writer *w, const struct db_series *s, const char *key,
                        double (*value)(const struct db_bucket *b))
{
    json_key(w, key);
    json_open_list(w);
    for (size_t i = 0; i < s->n; i++)
        json_put_rounded(w, s->buckets[i].n ? value(&s->buckets[i]) : NAN);
    json_close(w);
}

static double last_of(const struct db_bucket *b)
{
    return b->last;
}

static double min_of(const struct db_bucket *b)
{
    return b->min;
}

static double max_of(const struct db_bucket *b)
{
    return b->max;
}

static void put_series(struct json_writer *w, const struct db_series *s)
{
    int64_t bucket = 1;
    for (size_t i = 0; i < s->n; i++)
        bucket = MAX(bucket, s->buckets[i].n);
    json_open_map(w);
    json_key(w, "trialId");
    json_put_int(w, s->trial_id);
    json_key(w, "group");
    json_put_str(w, s->group);
    json_key(w, "name");
    json_put_str(w, s->name);
    json_key(w, "x");
    json_open_list(w);
    for (size_t i = 0; i < s->n; i++)
        json_put_int(w, s->buckets[i].steps);
    json_close(w);
    if (s->by_time) {
        json_key(w, "t");
        json_open_list(w);
        for (size_t i = 0; i < s->n; i++)
            json_put_int(w, s->buckets[i].time_us / 1000);
        json_close(w);
    }
    put_buckets(w, s, "last", last_of);
    if (bucket > 1) put_buckets(w, s, "min", min_of);
    if (bucket > 1) put_buckets(w, s, "max", max_of);
    json_key(w, "n");
    json_put_int(w, s->n_points);
    json_key(w, "bucket");
    json_put_int(w, bucket);
    json_close(w);
}

static int put_next(struct listing *l, struct db_reader *r, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_series s = l->ask;
    struct trial row;
    s.trial_id = ((const int64_t *)l->trials.items)[l->at / l->n_names];
    s.name = l->names[l->at % l->n_names];
    l->at++;
    int rc = 0;
    bool is_own = !l->experiment_id || (!db_trial_find(r, s.trial_id, &arena, &row, NULL) &&
                                        row.experiment_id == l->experiment_id);
    if (is_own) rc = db_series_read(r, &s, &arena, err);
    if (!rc && s.n) put_series(&l->w, &s);
    arena_done(&arena);
    return rc;
}

static int next_series(struct feed *f, struct db_reader *r, det_err *err)
{
    struct listing *l = f->source;
    int rc = 0;
    if (!l->w.out) {
        json_init(&l->w, &f->out, 0);
        json_open_map(&l->w);
        json_key(&l->w, "series");
        json_open_list(&l->w);
    }
    while (!rc && l->at < l->trials.n * l->n_names && f->out.len < FEED_PIECE_BYTES)
        rc = put_next(l, r, err);
    if (rc || l->at < l->trials.n * l->n_names) return rc;
    json_close(&l->w);
    json_close(&l->w);
    f->state = FEED_ENDS;
    return 0;
}

static int64_t border(const struct series_query *q, struct opt_int given, int64_t otherwise)
{
    int64_t us;
    if (!given.is_set) return otherwise;
    if (q->axis == AXIS_BATCH) return given.value;
    return __builtin_mul_overflow(given.value, 1000, &us) ? otherwise : us;
}

static int get_series(struct http_request *req, int64_t experiment_id, det_err *err)
{
    const struct series_query *q = req->query;
    struct db_list trials = {0};
    if (!q->names.n || q->names.n > MAX_NAMES)
        return det_fail(err, DET_EINVAL, "name: 1 to %d of them, found %zu", MAX_NAMES, q->names.n);
    int rc = experiment_id ? find_trials(req, q, req->arena, &trials, err)
                           : read_numbers(str_from(q->trials), req->arena, &trials, err);
    if (rc) return rc;
    struct feed *f = feed_new(req, &(struct feed_opts){.next = next_series});
    struct listing *l = arena_alloc(&f->arena, sizeof *l);
    int64_t *ids = arena_array(&f->arena, trials.n + 1, sizeof *ids);
    if (trials.n) memcpy(ids, trials.items, trials.n * sizeof *ids);
    *l = (struct listing){.ask = {.group = arena_strdup(&f->arena, q->group),
                                  .by_time = q->axis == AXIS_TIME,
                                  .from = border(q, q->from, INT64_MIN),
                                  .to = border(q, q->to, INT64_MAX),
                                  .max_points = q->max_points},
                          .experiment_id = experiment_id,
                          .trials = {.items = ids, .n = trials.n},
                          .names = arena_array(&f->arena, q->names.n, sizeof *l->names),
                          .n_names = q->names.n};
    for (size_t i = 0; i < q->names.n; i++)
        l->names[i] = arena_strdup(&f->arena, q->names.items[i]);
    f->source = l;
    return feed_begin(f, err);
}

static int get_experiment_series(struct http_request *req, det_err *err)
{
    return get_series(req, http_param_int(req, "experiment"), err);
}

static int get_any_series(struct http_request *req, det_err *err)
{
    return get_series(req, 0, err);
}

// --- names

static int get_names(struct http_request *req, det_err *err)
{
    struct db_list list = {0};
    struct experiment e;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int64_t id = http_param_int(req, "experiment");
    int rc = db_experiment_find(req->reader, id, req->arena, &e, err);
    if (!rc) rc = db_metric_names(req->reader, id, req->arena, &list, err);
    if (rc) return rc;
    const struct metric_name *all = list.items;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "names");
    json_open_list(&w);
    for (size_t i = 0; i < list.n; i++) {
        json_open_map(&w);
        json_key(&w, "group");
        json_put_str(&w, all[i].group);
        json_key(&w, "name");
        json_put_str(&w, all[i].name);
        json_key(&w, "trials");
        json_put_int(&w, all[i].n_trials);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

// --- what a trial uses

struct usage_query {
    int64_t max_points;
};
static const struct field usage_fields[] = {
    {.name = "maxDatapoints",
     .type = FIELD_INT,
     .offset = offsetof(struct usage_query, max_points),
     .def = "1000",
     FIELD_RANGE(1, 10000),
     .help = "How many points at most."},
};
static const struct field_table usage_table = {.size = sizeof(struct usage_query),
                                               FIELD_ROWS(usage_fields)};

enum usage_column { USAGE_CPU, USAGE_MEMORY, USAGE_GPU, USAGE_GPU_MEMORY, N_USAGE };

static double usage_value(const struct usage_sample *s, enum usage_column column)
{
    const double values[N_USAGE] = {s->cpu, (double)s->memory_bytes, s->gpu,
                                    s->gpu_memory_bytes < 0 ? NAN : (double)s->gpu_memory_bytes};
    return values[column];
}

static bool is_known(const struct db_list *list, enum usage_column column)
{
    const struct usage_sample *all = list->items;
    for (size_t i = 0; i < list->n; i++)
        if (!isnan(usage_value(&all[i], column))) return true;
    return false;
}

static int get_resources(struct http_request *req, det_err *err)
{
    static const char *const names[N_USAGE] = {"cpu", "memory", "gpu", "gpuMemory"};
    const struct usage_query *q = req->query;
    struct db_list list = {0};
    struct trial row;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int64_t id = http_param_int(req, "trial");
    int rc = db_trial_find(req->reader, id, req->arena, &row, err);
    if (!rc) rc = db_samples_list(req->reader, id, q->max_points, req->arena, &list, err);
    if (rc) return rc;
    const struct usage_sample *all = list.items;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "t");
    json_open_list(&w);
    for (size_t i = 0; i < list.n; i++)
        json_put_int(&w, all[i].time_us / 1000);
    json_close(&w);
    for (enum usage_column c = 0; c < N_USAGE; c++) {
        if (!is_known(&list, c)) continue;
        json_key(&w, names[c]);
        json_open_list(&w);
        for (size_t i = 0; i < list.n; i++)
            json_put_rounded(&w, usage_value(&all[i], c));
        json_close(&w);
    }
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

#define AT "/api/v1/experiments/{experiment:int}"

static const struct http_route routes[] = {
    {HTTP_GET, AT "/series", .read = get_experiment_series, .handle = feed_answer,
     .query = &experiment_table_of_series,
     .summary = "Metrics of many trials over batches or time, thinned out for a chart."},
    {HTTP_GET, "/api/v1/series", .read = get_any_series, .handle = feed_answer, .query = &any_table,
     .summary = "The same for trials of any experiments."},
    {HTTP_GET, AT "/metricNames", .read = get_names,
     .summary = "Names of the metrics that its trials have reported."},
    {HTTP_GET, "/api/v1/trials/{trial:int}/resources", .read = get_resources, .query = &usage_table,
     .summary = "Processors, memory and GPUs that a trial has used, over time."},
};

const struct http_table series_routes = HTTP_TABLE(routes);
