// Unit api_create.c: routes that make experiments, or let them go on: uploads, configurations.
#include "master/routes.h"

#include "base/mem.h"
#include "master/code.h"
#include "master/create.h"
#include "master/hidden.h"
#include "sys/log.h"

// --- code

struct upload {
    struct http_request *req;
    const char *dir;
    struct code_info info;
    int rc;
    det_err err;
};

static void keep_upload(void *ctx, void *own)
{
    struct upload *u = ctx;
    (void)own;
    u->rc = code_keep(u->req->body, u->dir, &u->info, &u->err);
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
    json_key(&w, "code");
    json_put_str(&w, u->info.name);
    json_key(&w, "files");
    json_put_int(&w, u->info.n_files);
    json_key(&w, "bytes");
    json_put_int(&w, u->info.n_bytes);
    json_close(&w);
    http_reply_json(u->req, 200, &out);
}

static int post_code(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct upload *u = arena_alloc(req->arena, sizeof *u);
    (void)err;
    u->req = req;
    u->dir = arena_printf(req->arena, "%s/code", m->data_dir);
    worker_run(m->workers[WORK_FILES], &(struct work){keep_upload, answer_upload, u, api_who(req)});
    return http_later(req);
}

// --- making

struct create_body {
    const char *config, *code, *template_name, *python;
    int kind;
    bool activate, validate_only;
    struct opt_int parent_id;
};

// What is not said is what the parent is, or else a search.
enum { KIND_NOT_SAID, KIND_SEARCH, KIND_GENERIC };
static const char *const kind_names[] = {"", "TYPE_EXPERIMENT", "TYPE_GENERIC", NULL};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct create_body, member), __VA_ARGS__

static const struct field create_fields[] = {
    {.name = "config", F(FIELD_STR, config, .required = true, .help = "YAML or JSON.")},
    {.name = "code", F(FIELD_STR, code, .help = "Name of uploaded code.")},
    {.name = "template", F(FIELD_STR, template_name, .help = "Name of a template.")},
    {.name = "python",
     F(FIELD_STR, python,
       .help = "What environment.python is, if the configuration does not say it.")},
    {.name = "type",
     F(FIELD_ENUM, kind, .values = kind_names,
       .help = "A search, or a generic job. Without it, what the parent is; or a search.")},
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

// {"experiment": record, "config": ..., "warnings": [...]}: all but the record, which only the loop
// knows.
static void put_rest(struct buf *out, struct live_experiment *e, const struct diag_list *diags,
                     struct arena *arena)
{
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    json_key(&w, "config");
    json_put_doc(&w, masked_config(e, arena));
    api_put_warnings(&w, diags);
    json_close(&w);
}

static void put_created(struct buf *out, const struct live_experiment *e, struct str rest,
                        struct arena *arena)
{
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    json_key(&w, "experiment");
    api_put_record(&w, arena, &experiment_table, &e->row);
    buf_addc(out, ',');
    buf_add(out, rest.ptr + 1, rest.len - 1); // it closes the map
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

// What a thread that reads has made ready.
struct made {
    struct draft draft;
    struct create_input in;
    struct str rest; // of the answer
};

static struct made *made_new(struct http_request *req)
{
    struct made *x = arena_alloc(req->arena, sizeof *x);
    x->draft.arena = req->arena;
    x->draft.diags = (struct diag_list)DIAG_INIT(req->arena);
    req->found = x;
    req->drop = draft_free; // the draft comes first
    return x;
}

static int finish_made(struct http_request *req, struct made *x, int rc, det_err *err)
{
    struct buf rest = BUF_INIT(API_MAX_REPLY);
    if (rc) return describe_wrong(&x->draft.diags, rc, err);
    put_rest(&rest, x->draft.e, &x->draft.diags, req->arena);
    x->rest = (struct str){arena_strndup(req->arena, rest.ptr, rest.len), rest.len};
    buf_done(&rest);
    return 0;
}

// What is forked must be readable, and what its configuration does not show is known to us.
static int read_parent(struct http_request *req, struct create_input *in, det_err *err)
{
    const struct create_body *body = req->input;
    struct experiment row = {0};
    struct str complete, original;
    bool owns = false;
    if (body->parent_id.is_set) {
        int64_t id = body->parent_id.value;
        int rc = db_experiment_find(req->reader, id, req->arena, &row, err);
        if (!rc) rc = auth_may_read(req, &row, err);
        if (!rc) rc = db_config_find(req->reader, id, req->arena, &complete, &original, err);
        if (rc) return rc;
        owns = viewer_owns(&in->viewer, row.user_id);
        if (body->kind == KIND_NOT_SAID) in->kind = row.kind;
    }
    return hidden_fill(req->arena, owns ? &complete : NULL, &in->config, err);
}

// {"environment": {"python": ...}}: a text, since what is read from one lives as long as the
// experiment.
static struct str python_config(struct arena *arena, const char *python)
{
    struct buf out = BUF_INIT(1 << 20);
    struct json_writer w;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "environment");
    json_open_map(&w);
    json_key(&w, "python");
    json_put_str(&w, python);
    json_close(&w);
    json_close(&w);
    const char *text = arena_strndup(arena, buf_str(&out).ptr, out.len);
    buf_done(&out);
    return str_from(text);
}

// What a template says, and behind it what the caller has without having said it.
static int read_below(struct http_request *req, struct create_input *in, struct config_text *below,
                      det_err *err)
{
    const struct create_body *body = req->input;
    struct config_template t;
    in->below = below;
    if (body->template_name) {
        int rc = db_template_find(req->reader, body->template_name, req->arena, &t, err);
        if (rc) return rc;
        below[in->n_below++] =
            (struct config_text){.source = body->template_name, .text = str_from(t.config)};
    }
    if (body->python)
        below[in->n_below++] = (struct config_text){
            .source = "python", .text = python_config(req->arena, body->python)};
    return 0;
}

static int read_experiment(struct http_request *req, det_err *err)
{
    const struct create_body *body = req->input;
    struct config_text below[2];
    struct made *x = made_new(req);
    x->in = (struct create_input){
        .config = str_from(body->config),
        .code = body->code,
        .kind = body->kind == KIND_GENERIC ? EXPERIMENT_GENERIC : EXPERIMENT_SEARCH,
        .viewer = auth_viewer(req),
    };
    int rc = read_below(req, &x->in, below, err);
    if (!rc) rc = read_parent(req, &x->in, err);
    if (rc) return rc;
    rc = draft_new(req->user, req->reader, &x->in, &x->draft, err);
    x->in.below = NULL; // it is part of the configuration now
    return finish_made(req, x, rc, err);
}

static int post_experiment(struct http_request *req, det_err *err)
{
    const struct create_body *body = req->input;
    struct made *x = req->found;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    const struct create_who who = {identity_of(req)->session.user_id, body->parent_id,
                                   body->activate};
    int rc = draft_check(&x->draft, err);
    if (rc) return rc;
    if (body->validate_only) {
        put_created(&out, x->draft.e, x->rest, req->arena);
        http_reply_json(req, 200, &out);
        return 0;
    }
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    struct live_experiment *e = draft_begin(&x->draft, &x->in, &who, tx, err);
    if (!e) {
        db_tx_free(tx);
        return err->code;
    }
    struct creation *c = arena_alloc(req->arena, sizeof *c);
    *c = (struct creation){req, e, BUF_INIT(API_MAX_REPLY)};
    put_created(&c->json, e, x->rest, req->arena);
    return api_finish_later(req, tx, on_created, c);
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

static int read_ended(struct http_request *req, det_err *err)
{
    const struct continue_body *body = req->input;
    struct made *x = made_new(req);
    int rc =
        draft_continue(req->user, req->reader, body->id, str_from(body->changes), &x->draft, err);
    return finish_made(req, x, rc, err);
}

static int post_continue(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct continue_body *body = req->input;
    struct made *x = req->found;
    struct draft *d = &x->draft;
    int rc = auth_may_change(req, d->e->row.user_id, err);
    if (!rc && set_find(&m->experiments, body->id))
        rc = det_fail(err, DET_ESTATE, "experiment %lld has not ended yet", (long long)body->id);
    if (rc) return rc;
    if (record_is_stale(m, RECORD_EXPERIMENT, body->id, d->read_at)) return api_again(req);
    rc = draft_check(d, err);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    struct live_experiment *e = draft_go_on(d, &tx, err);
    if (!e) {
        db_tx_free(tx);
        return err->code;
    }
    struct buf out = BUF_INIT(API_MAX_REPLY);
    put_created(&out, e, x->rest, req->arena);
    experiment_link(e); // at once: it can be continued only one time
    experiment_end_if_drained(e);
    return api_finish(req, tx, 0, &out);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/api/v1/code", .handle = post_code, .max_body = CODE_MAX_UPLOAD,
     .summary = "Keeps the code of experiments: a tar file, plain or compressed."},
    {HTTP_POST, "/api/v1/experiments", .read = read_experiment, .handle = post_experiment,
     .input = &create_table, .max_body = 4 << 20,
     .summary = "Makes an experiment or a generic job."},
    {HTTP_POST, "/api/v1/experiments/continue", .read = read_ended, .handle = post_continue,
     .input = &continue_table, .max_body = 4 << 20,
     .summary = "Lets an experiment that has ended run on."},
};

const struct http_table create_routes = HTTP_TABLE(routes);
