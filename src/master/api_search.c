// Unit api_search.c: routes about searches: which trial is in which rung, which hyperparameter
// matters; and what a search that somebody is writing would do.
#include "master/routes.h"

#include "base/assert.h"
#include "base/rng.h"
#include "search/search.h"
#include <math.h>

// --- rungs

static void put_number(struct json_writer *w, const char *key, double value)
{
    json_key(w, key);
    json_put_rounded(w, value);
}

static void put_int(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, key);
    json_put_int(w, value);
}

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_put_str(w, text);
}

// What all answers begin with.
static void open_answer(struct json_writer *w, struct buf *out, const struct exp_config *cfg)
{
    json_init(w, out, 0);
    json_open_map(w);
    put_text(w, "method", searcher_kind_name(cfg->searcher.kind));
    put_text(w, "metric", cfg->searcher.metric);
    put_text(w, "unit", search_unit(cfg));
    json_key(w, "smallerIsBetter");
    json_put_bool(w, cfg->searcher.smaller_is_better);
}

// ids: those of trials by number; without them the numbers stand for themselves.
static void put_result(struct json_writer *w, const struct rung_result *r,
                       const struct db_list *ids)
{
    const struct trial_number *known = ids ? ids->items : NULL;
    size_t at = (size_t)r->trial - 1;
    if (ids && (at >= ids->n || known[at].number != r->trial)) return; // it is not there yet
    json_open_map(w);
    put_int(w, "trialId", known ? known[at].id : r->trial);
    put_number(w, "metric", r->metric);
    put_text(w, "decision", search_decision_name(r->decision));
    json_close(w);
}

static void put_view(struct json_writer *w, const struct search_view *view,
                     const struct db_list *ids)
{
    json_key(w, "brackets");
    json_open_list(w);
    for (size_t i = 0; i < view->brackets.n; i++) {
        const struct bracket_view *b = &view->brackets.items[i];
        json_open_map(w);
        json_key(w, "rungs");
        json_open_list(w);
        for (size_t k = 0; k < b->rungs.n; k++) {
            const struct rung_view *r = &b->rungs.items[k];
            json_open_map(w);
            put_int(w, "length", r->length);
            put_number(w, "cutoff", r->cutoff);
            json_key(w, "trials");
            json_open_list(w);
            for (size_t j = 0; j < r->results.n; j++)
                put_result(w, &r->results.items[j], ids);
            json_close(w);
            json_close(w);
        }
        json_close(w);
        json_close(w);
    }
    json_close(w);
}

static int read_stored(struct http_request *req, struct experiment *row, struct exp_config *cfg,
                       det_err *err)
{
    struct diag_list diags = DIAG_INIT(req->arena);
    const struct config_opts opts = {.source = "stored configuration"};
    struct str complete, original;
    int64_t id = http_param_int(req, "experiment");
    int rc = db_experiment_find(req->reader, id, req->arena, row, err);
    if (!rc && row->kind == EXPERIMENT_GENERIC)
        rc = det_fail(err, DET_EUNSUPPORTED, "experiment %lld is a job, not a search",
                      (long long)id);
    if (!rc) rc = db_config_find(req->reader, id, req->arena, &complete, &original, err);
    if (rc) return rc;
    return exp_config_read(req->arena, complete, &opts, cfg, &diags) ? diag_fail(&diags, err) : 0;
}

// A search without rungs has no brackets; neither has one that ended before rungs were kept.
static int get_search(struct http_request *req, det_err *err)
{
    struct experiment row;
    struct exp_config cfg;
    struct search_view view = {0};
    struct search *search = NULL;
    struct db_list ids = {0};
    struct str snapshot;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = read_stored(req, &row, &cfg, err);
    if (!rc) rc = db_trial_numbers(req->reader, row.id, req->arena, &ids, err);
    if (rc) return rc;
    if (search_has_rungs(&cfg) &&
        !db_searcher_find(req->reader, row.id, req->arena, &snapshot, NULL)) {
        search = search_restore(&cfg, snapshot, err);
        if (!search) return DET_ECORRUPT;
        search_describe(search, req->arena, &view);
    }
    open_answer(&w, &out, &cfg);
    put_view(&w, &view, &ids);
    json_close(&w);
    search_free(search);
    http_reply_json(req, 200, &out);
    return 0;
}

// --- importance

enum { ROWS_AT_ONCE = 1000, MAX_LOOKED_AT = 2000 };

struct importance_query {
    const char *metric, *group;
};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct importance_query, member), __VA_ARGS__
static const struct field importance_fields[] = {
    {.name = "metric",
     F(FIELD_STR, metric,
       .help = "Its best value counts; unless it is given, that of the searcher's metric.")},
    {.name = "group", F(FIELD_STR, group, .def = "validation", .help = "Group of the metric.")},
};
#undef F
static const struct field_table importance_table = {.size = sizeof(struct importance_query),
                                                    FIELD_ROWS(importance_fields)};

// Trials, every so manieth of very many, with their hyperparameters.
struct picked {
    LIST_OF(struct importance_trial) trials;
    int64_t *ids;
    size_t n_seen, step;
};

static int pick_trials(struct http_request *req, const struct experiment *row, struct picked *out,
                       det_err *err)
{
    struct db_cursor cursor = {0};
    const struct db_filter filter = {.experiment_id = row->id};
    const struct db_page page = {.cursor = &cursor, .limit = ROWS_AT_ONCE};
    size_t most = 2 * MAX_LOOKED_AT;
    int rc = 0;
    out->step = (size_t)MAX(0, row->n_trials) / MAX_LOOKED_AT + 1;
    out->trials.items = arena_array(req->arena, most, sizeof *out->trials.items);
    out->ids = arena_array(req->arena, most, sizeof *out->ids);
    for (bool more = true; !rc && more;) {
        struct arena scratch = ARENA_INIT;
        struct db_list list = {0};
        rc = db_trials_list(req->reader, &filter, &page, &scratch, &list, err);
        const struct trial *rows = list.items;
        for (size_t i = 0; !rc && i < list.n; i++) {
            if (out->n_seen++ % out->step || !rows[i].hparams || out->trials.n == most) continue;
            out->ids[out->trials.n] = rows[i].id;
            out->trials.items[out->trials.n++] = (struct importance_trial){
                doc_copy(req->arena, rows[i].hparams), rows[i].searcher_metric};
        }
        more = list.n == ROWS_AT_ONCE;
        arena_done(&scratch);
    }
    return rc;
}

// Another metric than the searcher's: both lists are in the order of trials.
static int set_metrics(struct http_request *req, const struct experiment *row, struct picked *p,
                       det_err *err)
{
    const struct importance_query *q = req->query;
    struct db_list list = {0};
    int rc = db_metric_values(req->reader, row->id, q->group, q->metric, req->arena, &list, err);
    if (rc) return rc;
    const struct metric_value *v = list.items, *end = v + list.n;
    for (size_t i = 0; i < p->trials.n; i++) {
        while (v < end && v->trial_id < p->ids[i])
            v++;
        bool found = v < end && v->trial_id == p->ids[i];
        p->trials.items[i].metric = !found ? NAN : row->smaller_is_better ? v->min : v->max;
    }
    return 0;
}

static int get_importance(struct http_request *req, det_err *err)
{
    const struct importance_query *q = req->query;
    struct experiment row;
    struct exp_config cfg;
    struct picked p = {0};
    struct importance_list list;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = read_stored(req, &row, &cfg, err);
    if (!rc) rc = pick_trials(req, &row, &p, err);
    if (!rc && q->metric) rc = set_metrics(req, &row, &p, err);
    if (rc) return rc;
    search_importance(&cfg, p.trials.items, p.trials.n, req->arena, &list);
    json_init(&w, &out, 0);
    json_open_map(&w);
    put_int(&w, "trials", (int64_t)list.n_trials);
    json_key(&w, "importance");
    json_open_list(&w);
    for (size_t i = 0; i < list.items.n; i++) {
        json_open_map(&w);
        put_text(&w, "name", list.items.items[i].name);
        put_number(&w, "value", list.items.items[i].share);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

// --- before there is an experiment

enum { MAX_SIMULATED = 20000 }; // trials

struct draft_body {
    struct api_draft draft;
};

static const struct field draft_fields[] = {API_DRAFT_FIELDS(struct draft_body, draft)};
static const struct field_table draft_table = {.size = sizeof(struct draft_body),
                                               FIELD_ROWS(draft_fields)};

static int read_draft(struct http_request *req, struct exp_config *cfg, struct search_plan *plan,
                      det_err *err)
{
    const struct draft_body *body = req->input;
    struct diag_list diags = DIAG_INIT(req->arena);
    struct config_opts opts;
    int rc = api_draft_opts(req, &body->draft, &opts, err);
    if (rc) return rc;
    if (exp_config_read(req->arena, str_from(body->draft.config), &opts, cfg, &diags))
        return diag_fail(&diags, err);
    return search_preview(cfg, req->arena, plan, err);
}

static void put_lengths(struct json_writer *w, const char *key, const struct plan_rung *items,
                        size_t n)
{
    json_key(w, key);
    json_open_list(w);
    for (size_t i = 0; i < n; i++) {
        json_open_map(w);
        put_int(w, "length", items[i].length);
        put_int(w, "trials", items[i].n_trials);
        json_close(w);
    }
    json_close(w);
}

static int post_preview(struct http_request *req, det_err *err)
{
    struct exp_config cfg;
    struct search_plan plan;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = read_draft(req, &cfg, &plan, err);
    if (rc) return rc;
    open_answer(&w, &out, &cfg);
    put_int(&w, "trials", plan.n_trials);
    put_number(&w, "units", plan.units);
    json_key(&w, "hasRungs");
    json_put_bool(&w, search_has_rungs(&cfg));
    put_lengths(&w, "lengths", plan.lengths.items, plan.lengths.n);
    json_key(&w, "brackets");
    json_open_list(&w);
    for (size_t i = 0; i < plan.brackets.n; i++) {
        const struct plan_bracket *b = &plan.brackets.items[i];
        json_open_map(&w);
        put_int(&w, "trials", b->n_trials);
        put_int(&w, "concurrent", b->n_concurrent);
        put_lengths(&w, "rungs", b->rungs.items, b->rungs.n);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

// Learning curves as they often are: they fall (or rise) towards a level of each trial's own.
static double likely_metric(void *user, int64_t trial, int64_t length)
{
    const struct exp_config *cfg = user;
    uint64_t seed = (uint64_t)cfg->experiment_seed;
    double level = 0.1 + 0.5 * rng_unit(seed, (uint64_t)trial, 0);
    double pace = 0.05 + 0.3 * rng_unit(seed, (uint64_t)trial, 1);
    double longest = (double)MAX(1, cfg->searcher.max_length.amount);
    double loss = level + 0.4 * exp(-(double)length / (pace * longest)) +
                  0.02 * rng_normal(seed, (uint64_t)trial, (uint64_t)length + 2);
    return cfg->searcher.smaller_is_better ? loss : 1 - loss;
}

static int post_simulate(struct http_request *req, det_err *err)
{
    struct exp_config cfg;
    struct search_plan plan;
    struct sim_result result;
    struct search_view view;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = read_draft(req, &cfg, &plan, err);
    if (!rc && plan.n_trials > MAX_SIMULATED)
        rc = det_fail(err, DET_ELIMIT,
                      "a search of %lld trials is not simulated here, only up to %d; 'det "
                      "simulate-search' does it",
                      (long long)plan.n_trials, MAX_SIMULATED);
    if (rc) return rc;
    struct search *search = search_new(&cfg);
    const struct sim_world world = {.metric = likely_metric, .user = &cfg};
    rc = search_simulate(search, &world, &result, err);
    if (!rc) {
        search_describe(search, req->arena, &view);
        open_answer(&w, &out, &cfg);
        put_int(&w, "trials", result.n_trials);
        put_number(&w, "units", result.units);
        put_view(&w, &view, NULL);
        json_close(&w);
        http_reply_json(req, 200, &out);
    }
    search_free(search);
    return rc;
}

#define AT "/api/v1/experiments/{experiment:int}"

static const struct http_route routes[] = {
    {HTTP_GET, AT "/search", .read = get_search,
     .summary = "Rungs of a search: which trial has reached which, and who goes on."},
    {HTTP_GET, AT "/importance", .read = get_importance, .query = &importance_table,
     .summary = "Share of each hyperparameter in the variance of a metric."},
    {HTTP_POST, "/api/v1/search/preview", .read = post_preview, .input = &draft_table,
     .max_body = 4 << 20, .summary = "What a search would train, from its configuration."},
    {HTTP_POST, "/api/v1/search/simulate", .read = post_simulate, .input = &draft_table,
     .max_body = 4 << 20, .summary = "Rungs of a search that is simulated, to look at."},
};

const struct http_table search_routes = HTTP_TABLE(routes);
