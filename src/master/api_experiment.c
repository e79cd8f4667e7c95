// Unit api_experiment.c: routes that find and describe experiments.
#include "master/routes.h"

#include "doc/yaml.h"
#include "master/feed.h"

// --- finding

struct list_query {
    struct api_page page;
    LIST_OF(const char *) states, labels;
    LIST_OF(int64_t) users;
    const char *name, *description, *search;
    double below, above;
    int64_t ended_after_us;
    int archived;
};

static const struct field int_item = {.type = FIELD_INT};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct list_query, member), __VA_ARGS__

static const struct field list_fields[] = {
    API_PAGE_FIELDS(struct list_query, page),
    API_STATES_FIELD(struct list_query, states),
    {.name = "labels",
     F(FIELD_LIST, labels, .item = &api_text_item, .help = "All of these labels.")},
    {.name = "userIds", F(FIELD_LIST, users, .item = &int_item, .help = "Of these users.")},
    {.name = "name", F(FIELD_STR, name, .help = "Contained in the name.")},
    {.name = "description", F(FIELD_STR, description, .help = "Contained in the description.")},
    {.name = "search",
     F(FIELD_STR, search,
       .help = "Contained in the name, the description or a label; or the number itself.")},
    {.name = "metricBelow", F(FIELD_DOUBLE, below, .help = "The best metric is not above this.")},
    {.name = "metricAbove", F(FIELD_DOUBLE, above, .help = "The best metric is not below this.")},
    {.name = "endTimeAfter",
     F(FIELD_CODEC, ended_after_us, .codec = &timestamp_codec, .help = "Ended later.")},
    {.name = "archived", F(FIELD_TRI, archived, .help = "Only archived ones, or only others.")},
};
#undef F

static const struct field_table list_table = {.size = sizeof(struct list_query),
                                              FIELD_ROWS(list_fields)};

static void hide(const struct viewer *v, void *record)
{
    viewer_hide(v, record);
}

static int list_experiments(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"experiments", &experiment_table, "id",
                                         db_experiments_list, hide};
    const struct list_query *q = req->query;
    struct doc *users = q->users.n ? doc_new(req->arena, DOC_LIST) : NULL;
    for (size_t i = 0; i < q->users.n; i++)
        doc_append(users, doc_new_int(req->arena, q->users.items[i]));
    const struct db_filter filter = {
        .states = api_list_doc(req->arena, q->states.items, q->states.n),
        .labels = api_list_doc(req->arena, q->labels.items, q->labels.n),
        .users = users,
        .name = q->name,
        .description = q->description,
        .search = q->search,
        .has_below = http_query(req, "metricBelow") != NULL,
        .has_above = http_query(req, "metricAbove") != NULL,
        .below = q->below,
        .above = q->above,
        .ended_after_us = q->ended_after_us,
        .archived = (enum tri)q->archived,
    };
    return api_list(req, &what, &filter, &q->page, err);
}

static struct live_experiment *live(struct http_request *req)
{
    struct master *m = req->user;
    return set_find(&m->experiments, http_param_int(req, "experiment"));
}

static int find_row(struct http_request *req, struct experiment *out, det_err *err)
{
    return db_experiment_find(req->reader, http_param_int(req, "experiment"), req->arena, out, err);
}

int api_show_config(struct http_request *req, const struct experiment *row, const struct doc **out,
                    struct diag_list *warnings, det_err *err)
{
    struct diag_list diags = DIAG_INIT(req->arena);
    const struct config_opts opts = {.source = "stored configuration"};
    const struct viewer v = auth_viewer(req);
    enum config_view view = viewer_owns(&v, row->user_id) ? CONFIG_OWNER : CONFIG_PUBLIC;
    struct exp_config cfg;
    struct job_config job;
    struct str complete, original;
    int rc = db_config_find(req->reader, row->id, req->arena, &complete, &original, err);
    if (rc) return rc;
    config_warnings(req->arena, row->kind == EXPERIMENT_GENERIC, original, complete, warnings);
    if (row->kind == EXPERIMENT_GENERIC) {
        rc = job_config_read(req->arena, complete, &opts, &job, &diags);
        if (!rc) *out = job_config_write(req->arena, &job, view);
    } else {
        rc = exp_config_read(req->arena, complete, &opts, &cfg, &diags);
        if (!rc) *out = exp_config_write(req->arena, &cfg, view);
    }
    return rc ? diag_fail(&diags, err) : 0;
}

static const char *yaml_of(struct arena *arena, const struct doc *doc)
{
    struct buf out = BUF_INIT(YAML_MAX_BYTES);
    yaml_write(doc, &out);
    const char *text = arena_strndup(arena, buf_str(&out).ptr, out.len);
    buf_done(&out);
    return text;
}

// The text that was submitted. Comments are for those who own it; if something in it is hidden, the
// complete configuration stands for it, where that is known to be.
static const char *original_text(struct http_request *req, const struct experiment *row,
                                 struct str original, const char *complete)
{
    struct diag_list diags = DIAG_INIT(req->arena);
    const struct viewer v = auth_viewer(req);
    if (strstr(complete, FIELD_MASK)) return complete;
    if (viewer_owns(&v, row->user_id)) return arena_strndup(req->arena, original.ptr, original.len);
    const struct doc *doc = yaml_parse(req->arena, original, "config", &diags);
    return doc ? yaml_of(req->arena, doc) : complete;
}

static int get_config(struct http_request *req, det_err *err)
{
    struct experiment row;
    const struct doc *config = NULL;
    struct diag_list warnings = DIAG_INIT(req->arena);
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    struct str stored, original;
    int rc = find_row(req, &row, err);
    if (!rc) rc = api_show_config(req, &row, &config, &warnings, err);
    if (!rc) rc = db_config_find(req->reader, row.id, req->arena, &stored, &original, err);
    if (rc) return rc;
    const char *complete = yaml_of(req->arena, config);
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "original");
    json_put_str(&w, original_text(req, &row, original, complete));
    json_key(&w, "complete");
    json_put_str(&w, complete);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

// Why its trials wait for slots, if they do: what the scheduler sees, and their request in it.
struct waiting {
    struct picture *picture;
    size_t request;
    int64_t held; // slots that other trials of it have
};

static void drop_waiting(void *found)
{
    picture_free(((struct waiting *)found)->picture);
}

static void put_waiting(struct json_writer *w, const struct waiting *waiting)
{
    struct buf why = BUF_INIT(1024);
    if (!waiting) return;
    picture_explain(waiting->picture, waiting->request, &why);
    json_key(w, "waiting");
    json_put_strn(w, buf_str(&why));
    json_key(w, "allocatedSlots");
    json_put_int(w, waiting->held);
    buf_done(&why);
}

static int show_experiment(struct http_request *req, det_err *err)
{
    struct experiment row;
    const struct doc *config = NULL;
    struct diag_list warnings = DIAG_INIT(req->arena);
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    const struct viewer v = auth_viewer(req);
    int rc = find_row(req, &row, err);
    if (!rc) rc = api_show_config(req, &row, &config, &warnings, err);
    if (rc) return rc;
    viewer_hide(&v, &row);
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "experiment");
    api_put_record(&w, req->arena, &experiment_table, &row);
    json_key(&w, "config");
    json_put_doc(&w, config);
    api_put_warnings(&w, &warnings);
    put_waiting(&w, req->found);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int64_t count_held(const struct live_experiment *e)
{
    const struct set *all = &e->master->allocations;
    int64_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct live_allocation *a = all->items[i].value;
        if (a->trial->experiment == e) n += a->row.slots;
    }
    return n;
}

static int get_experiment(struct http_request *req, det_err *err)
{
    struct live_experiment *e = live(req);
    (void)err;
    if (e && e->first_request) {
        struct waiting *waiting = arena_alloc(req->arena, sizeof *waiting);
        waiting->picture = picture_take(e->master);
        waiting->request = picture_find(waiting->picture, e->first_request);
        waiting->held = count_held(e);
        req->found = waiting;
        req->drop = drop_waiting;
    }
    return http_read(req, show_experiment);
}

static int get_model_definition(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct experiment row;
    int rc = find_row(req, &row, err);
    if (!rc) rc = auth_may_read(req, &row, err);
    if (!rc && !row.code)
        rc = det_fail(err, DET_ENOTFOUND, "experiment %lld has no code", (long long)row.id);
    if (rc) return rc;
    const char *path = arena_printf(req->arena, "%s/code/%s", m->data_dir, row.code);
    const char *name = arena_printf(req->arena, "experiment_%lld_model_def.tar", (long long)row.id);
    return http_reply_file(req, path, "application/x-tar", name, err);
}

static int get_labels(struct http_request *req, det_err *err)
{
    struct db_list list;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = db_labels_list(req->reader, req->arena, &list, err);
    if (rc) return rc;
    const char *const *labels = list.items;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "labels");
    json_open_list(&w);
    const struct api_slice slice = api_slice(req->query, list.n);
    for (size_t i = slice.first; i < slice.end; i++)
        json_put_str(&w, labels[i]);
    json_close(&w);
    api_put_pagination(&w, (int64_t)list.n, NULL);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int best_metric(struct http_request *req, det_err *err)
{
    struct live_experiment *e = live(req);
    if (!e || !e->row.best_trial_id.is_set)
        return det_fail(err, DET_ENOTFOUND, "no validation has been reported yet");
    struct buf out = BUF_INIT(1024);
    struct json_writer w;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "metric");
    json_put_double(&w, e->row.best_metric);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

#define AT "/api/v1/experiments/{experiment:int}"

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/experiments", .read = list_experiments, .handle = feed_answer,
     .query = &list_table, .summary = "Lists experiments."},
    {HTTP_GET, "/api/v1/experiment/labels", .read = get_labels, .query = &api_slice_table,
     .summary = "Lists all labels."},
    {HTTP_GET, AT, .handle = get_experiment,
     .summary = "Describes an experiment, with its configuration; values of environment variables "
                "are shown to its owner and to administrators."},
    {HTTP_GET, AT "/config", .read = get_config,
     .summary = "The configuration as YAML: as it was submitted, and complete."},
    {HTTP_GET, AT "/model_def", .read = get_model_definition, .content = HTTP_BYTES,
     .summary = "The code as it was uploaded."},
    {HTTP_GET, AT "/searcher/best_searcher_validation_metric", .auth = HTTP_AUTH_ANY,
     .handle = best_metric, .summary = "The best value of the searcher's metric so far."},
};

const struct http_table experiment_routes = HTTP_TABLE(routes);
