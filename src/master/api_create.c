// Unit api_create.c: routes that make experiments, or let them go on: uploads, configurations.
#include "master/routes.h"

#include "base/mem.h"
#include "master/context.h"
#include "master/create.h"
#include "master/hidden.h"
#include "sys/log.h"

// --- model definitions

struct upload {
    struct http_request *req;
    const char *dir;
    struct context_info info;
    int rc;
    det_err err;
};

static void keep_upload(void *ctx)
{
    struct upload *u = ctx;
    u->rc = context_keep(u->req->body, u->dir, &u->info, &u->err);
}

static void answer_upload(void *ctx)
{
    struct upload *u = ctx;
    struct buf out = BUF_INIT(1024);
    struct json_writer w;
    if (u->rc) {
        http_reply_error(u->req, &u->err);
        return;
    }
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "context");
    json_put_str(&w, u->info.name);
    json_key(&w, "files");
    json_put_int(&w, u->info.n_files);
    json_key(&w, "bytes");
    json_put_int(&w, u->info.n_bytes);
    json_close(&w);
    http_reply_json(u->req, 200, &out);
}

static int post_context(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct upload *u = arena_alloc(req->arena, sizeof *u);
    (void)err;
    u->req = req;
    u->dir = arena_printf(req->arena, "%s/contexts", m->data_dir);
    worker_run(m->worker, keep_upload, answer_upload, u);
    return http_later(req);
}

// --- making

struct create_body {
    const char *config, *context, *template_name;
    int kind;
    bool activate, validate_only;
    struct opt_int parent_id;
};

static const char *const kind_names[] = {"TYPE_EXPERIMENT", "TYPE_GENERIC", NULL};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct create_body, member), __VA_ARGS__

static const struct field create_fields[] = {
    {.name = "config", F(FIELD_STR, config, .required = true, .help = "YAML or JSON.")},
    {.name = "context", F(FIELD_STR, context, .help = "Name of an uploaded model definition.")},
    {.name = "template", F(FIELD_STR, template_name, .help = "Name of a template.")},
    {.name = "type",
     F(FIELD_ENUM, kind, .values = kind_names, .def = "TYPE_EXPERIMENT",
       .help = "A search, or a generic job.")},
    {.name = "activate", F(FIELD_BOOL, activate, .def = "true", .help = "Start at once.")},
    {.name = "validateOnly", F(FIELD_BOOL, validate_only, .help = "Only check.")},
    {.name = "parentId", F(FIELD_OPT_INT, parent_id, .help = "The experiment it is a fork of.")},
};
#undef F

static const struct field_table create_table = {.size = sizeof(struct create_body),
                                                FIELD_ROWS(create_fields)};

static const struct doc *masked_config(struct live_experiment *e, struct arena *arena)
{
    return e->row.kind == EXPERIMENT_GENERIC ? doc_new(arena, DOC_NULL)
                                             : exp_config_write(arena, &e->cfg, CONFIG_OWNER);
}

static void put_created(struct buf *out, struct live_experiment *e, const struct diag_list *diags,
                        struct arena *arena)
{
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    json_key(&w, "experiment");
    api_put_record(&w, arena, &experiment_table, &e->row);
    json_key(&w, "config");
    json_put_doc(&w, masked_config(e, arena));
    api_put_warnings(&w, diags);
    json_close(&w);
}

struct creation {
    struct http_request *req;
    struct live_experiment *experiment;
    struct buf json;
};

static void on_created(void *ctx, int code, const det_err *err)
{
    struct creation *c = ctx;
    if (code) {
        experiment_free(c->experiment);
        buf_done(&c->json);
        http_reply_error(c->req, err);
        return;
    }
    log_info("experiment %lld: created", (long long)c->experiment->row.id);
    experiment_link(c->experiment);
    http_reply_json(c->req, 200, &c->json);
}

// All that is wrong with a configuration, in one message of as many lines.
static int describe_wrong(const struct diag_list *diags, int rc, det_err *err)
{
    struct buf lines = BUF_INIT(DET_ERR_MSG_MAX - 1);
    if (diags->n_errors < 2) return rc;
    diag_print(diags, DIAG_ERROR, &lines);
    det_fail(err, rc, "%s", buf_str(&lines).ptr);
    buf_done(&lines);
    return rc;
}

static int check_only(struct http_request *req, const struct create_input *in, det_err *err)
{
    struct diag_list diags = DIAG_INIT(req->arena);
    struct live_experiment *e;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    int rc = create_check(req->user, in, &diags, &e, err);
    if (rc) return describe_wrong(&diags, rc, err);
    put_created(&out, e, &diags, req->arena);
    experiment_free(e);
    http_reply_json(req, 200, &out);
    return 0;
}

static int create(struct http_request *req, const struct create_input *in, det_err *err)
{
    struct diag_list diags = DIAG_INIT(req->arena);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    struct live_experiment *e = create_experiment(req->user, in, &diags, tx, err);
    if (!e) {
        db_tx_free(tx);
        return describe_wrong(&diags, err->code, err);
    }
    struct creation *c = arena_alloc(req->arena, sizeof *c);
    *c = (struct creation){req, e, BUF_INIT(API_MAX_REPLY)};
    put_created(&c->json, e, &diags, req->arena);
    return api_finish_later(req, tx, on_created, c);
}

// What is forked must be readable, and what its configuration does not show is known to us.
static int read_parent(struct http_request *req, struct create_input *in, det_err *err)
{
    struct master *m = req->user;
    const struct viewer v = auth_viewer(req);
    struct experiment row = {0};
    struct str complete, original;
    bool owns = false;
    if (in->parent_id.is_set) {
        int64_t id = in->parent_id.value;
        int rc = db_experiment_find(m->reader, id, req->arena, &row, err);
        if (!rc) rc = auth_may_read(req, &row, err);
        if (!rc) rc = db_config_find(m->reader, id, req->arena, &complete, &original, err);
        if (rc) return rc;
        owns = viewer_owns(&v, row.user_id);
    }
    return hidden_fill(req->arena, owns ? &complete : NULL, &in->config, err);
}

static int post_experiment(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct create_body *body = req->input;
    struct config_text below = {.source = body->template_name};
    struct config_template t;
    struct create_input in = {
        .config = str_from(body->config),
        .context = body->context,
        .kind = (enum experiment_kind)body->kind,
        .user_id = identity_of(req)->session.user_id,
        .viewer = auth_viewer(req),
        .parent_id = body->parent_id,
        .activate = body->activate,
    };
    if (body->template_name) {
        int rc = db_template_find(m->reader, body->template_name, req->arena, &t, err);
        if (rc) return rc;
        below.text = str_from(t.config);
        in.below = &below;
        in.n_below = 1;
    }
    int rc = read_parent(req, &in, err);
    if (rc) return rc;
    return body->validate_only ? check_only(req, &in, err) : create(req, &in, err);
}

// --- going on after the end

struct continue_body {
    int64_t id;
    const char *changes;
};

static const struct field continue_fields[] = {
    {.name = "id",
     .type = FIELD_INT,
     .offset = offsetof(struct continue_body, id),
     .required = true,
     .help = "The experiment."},
    {.name = "overrideConfig",
     .type = FIELD_STR,
     .offset = offsetof(struct continue_body, changes),
     .def = "{}",
     .help = "What is different now, as YAML."},
};
static const struct field_table continue_table = {.size = sizeof(struct continue_body),
                                                  FIELD_ROWS(continue_fields)};

static int post_continue(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct continue_body *body = req->input;
    struct diag_list diags = DIAG_INIT(req->arena);
    struct experiment row;
    if (settle_is_pending(m, SETTLE_EXPERIMENT, body->id)) return api_again(req);
    int rc = db_experiment_find(m->reader, body->id, req->arena, &row, err);
    if (!rc) rc = auth_may_change(req, row.user_id, err);
    if (!rc && set_find(&m->experiments, body->id))
        rc = det_fail(err, DET_ESTATE, "experiment %lld has not ended yet", (long long)body->id);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    struct live_experiment *e = create_continue(m, &row, str_from(body->changes), &diags, tx, err);
    if (!e) {
        db_tx_free(tx);
        return describe_wrong(&diags, err->code, err);
    }
    struct buf out = BUF_INIT(API_MAX_REPLY);
    put_created(&out, e, &diags, req->arena);
    experiment_link(e); // at once: it can be continued only one time
    experiment_settle(e, tx);
    return api_finish(req, tx, 0, &out);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/api/v1/contexts", .handle = post_context, .max_body = CONTEXT_MAX_UPLOAD,
     .summary = "Keeps a model definition: a tar file, plain or compressed."},
    {HTTP_POST, "/api/v1/experiments", .handle = post_experiment, .input = &create_table,
     .max_body = 4 << 20, .summary = "Makes an experiment or a generic job."},
    {HTTP_POST, "/api/v1/experiments/continue", .handle = post_continue, .input = &continue_table,
     .max_body = 4 << 20, .summary = "Lets an experiment that has ended run on."},
};

const struct http_table create_routes = HTTP_TABLE(routes);
