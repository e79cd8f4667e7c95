// Unit api_config.c: routes that look at a configuration while somebody writes it.
#include "master/routes.h"

#include "config/config.h"
#include "doc/yaml.h"
#include "master/create.h"
#include "sys/clock.h"

struct check_body {
    struct api_draft draft;
    int kind;
};

static const char *const kind_names[] = {"TYPE_EXPERIMENT", "TYPE_GENERIC", NULL};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct check_body, member), __VA_ARGS__
static const struct field check_fields[] = {
    API_DRAFT_FIELDS(struct check_body, draft),
    {.name = "type",
     F(FIELD_ENUM, kind, .values = kind_names, .def = "TYPE_EXPERIMENT",
       .help = "Of an experiment, or of a generic job.")},
};
#undef F
static const struct field_table check_table = {.size = sizeof(struct check_body),
                                               FIELD_ROWS(check_fields)};

static const char source[] = "config";

static void put_position(struct json_writer *w, const char *key, int number)
{
    json_key(w, key);
    if (number > 0)
        json_put_int(w, number);
    else
        json_put_null(w);
}

// [{"line": 4, "column": 3, "path": "searcher.max_trials", "message": "must be ...", "missing": false}]
static void put_diags(struct json_writer *w, const char *key, const struct diag_list *diags,
                      enum diag_level level)
{
    json_key(w, key);
    json_open_list(w);
    for (const struct diag *d = diags->first; d; d = d->next) {
        // What a template says has its place in another text.
        bool is_here = !d->pos.source || d->pos.source == source;
        if (d->level != level) continue;
        json_open_map(w);
        put_position(w, "line", is_here ? d->pos.line : 0);
        put_position(w, "column", is_here ? d->pos.column : 0);
        json_key(w, "path");
        json_put_str(w, d->path);
        json_key(w, "message");
        json_put_str(w, d->text);
        json_key(w, "missing");
        json_put_bool(w, d->missing);
        if (!is_here) {
            json_key(w, "template");
            json_put_str(w, d->pos.source);
        }
        json_close(w);
    }
    json_close(w);
}

static const struct doc *read_config(struct http_request *req, const struct config_opts *opts,
                                     struct diag_list *diags)
{
    const struct check_body *body = req->input;
    struct str text = str_from(body->draft.config);
    struct exp_config cfg;
    struct job_config job;
    if (body->kind == EXPERIMENT_GENERIC) {
        int rc = job_config_read(req->arena, text, opts, &job, diags);
        return rc ? NULL : job_config_write(req->arena, &job, CONFIG_OWNER);
    }
    int rc = exp_config_read(req->arena, text, opts, &cfg, diags);
    return rc ? NULL : exp_config_write(req->arena, &cfg, CONFIG_OWNER);
}

// The complete configuration as YAML; null if it is wrong.
static void put_yaml(struct json_writer *w, const char *key, const struct doc *doc)
{
    struct buf text = BUF_INIT(16 << 20);
    json_key(w, key);
    if (doc) {
        yaml_write(doc, &text);
        json_put_strn(w, buf_str(&text));
    } else {
        json_put_null(w);
    }
    buf_done(&text);
}

int api_draft_opts(struct http_request *req, const struct api_draft *draft, struct config_opts *out,
                   det_err *err)
{
    struct config_text *below = arena_alloc(req->arena, sizeof *below);
    struct config_template t;
    *out = (struct config_opts){
        .source = source, .default_seed = clock_unix_us() / 1000000, .is_new = true};
    if (!draft->template_name) return 0;
    int rc = db_template_find(req->reader, draft->template_name, req->arena, &t, err);
    if (rc) return rc;
    *below = (struct config_text){.source = draft->template_name, .text = str_from(t.config)};
    out->below = below;
    out->n_below = 1;
    return 0;
}

static int check_config(struct http_request *req, det_err *err)
{
    const struct check_body *body = req->input;
    struct config_opts opts;
    struct diag_list diags = DIAG_INIT(req->arena);
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    int rc = api_draft_opts(req, &body->draft, &opts, err);
    if (rc) return rc;
    if (body->kind == EXPERIMENT_SEARCH) create_add_usual(req->user, req->arena, &opts);
    const struct doc *complete = read_config(req, &opts, &diags);
    json_init(&w, &out, 0);
    json_open_map(&w);
    put_diags(&w, "errors", &diags, DIAG_ERROR);
    put_diags(&w, "warnings", &diags, DIAG_WARNING);
    put_yaml(&w, "config", complete);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static const struct http_route routes[] = {
    {HTTP_POST, "/api/v1/configs/check", .read = check_config, .input = &check_table,
     .max_body = 4 << 20,
     .summary = "What is wrong with a configuration, with lines and columns; or all of it, with "
                "defaults."},
};

const struct http_table config_routes = HTTP_TABLE(routes);
