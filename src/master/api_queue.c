// Unit api_queue.c: routes about the queue, the slots, and templates.
#include "master/routes.h"

#include "base/mem.h"
#include "base/number.h"

// --- jobs: live experiments and generic jobs, in the order of the queue

static int by_queue(const void *a, const void *b)
{
    const struct job *x = &(*(struct live_experiment *const *)a)->job,
                     *y = &(*(struct live_experiment *const *)b)->job;
    if (x->priority != y->priority) return x->priority < y->priority ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

struct slots {
    int64_t wanted, held;
    bool backfilled;
    const struct live_allocation *pending;
};

static struct slots count_slots(const struct live_experiment *e)
{
    struct slots s = {0};
    for (size_t i = 0; i < e->trials.n; i++) {
        const struct live_trial *t = e->trials.items[i].value;
        const struct live_allocation *a = t->allocation;
        if (!a) continue;
        s.wanted += a->row.slots;
        if (a->row.state != ALLOCATION_PENDING) s.held += a->row.slots;
        if (a->row.state == ALLOCATION_PENDING) s.pending = a;
        s.backfilled = s.backfilled || a->backfilled;
    }
    return s;
}

static void put_job(struct json_writer *w, struct live_experiment *e, struct arena *arena)
{
    struct slots s = count_slots(e);
    struct job job = e->job;
    struct buf why = BUF_INIT(1024);
    enum job_state idle = e->row.state == RUN_PAUSED ? JOB_PAUSED : JOB_QUEUED;
    job.state = !s.held ? idle : s.backfilled ? JOB_BACKFILLED : JOB_SCHEDULED;
    if (s.pending) schedule_explain(e->master, s.pending, &why);
    json_open_map(w);
    const struct doc *doc = field_write(arena, &job_table, &job, false);
    for (const struct doc *d = doc->first; d; d = d->next) {
        json_keyn(w, d->key);
        json_put_doc(w, d);
    }
    json_key(w, "name");
    json_put_str(w, e->row.name);
    json_key(w, "type");
    json_put_str(w, e->row.kind == EXPERIMENT_GENERIC ? "TYPE_GENERIC" : "TYPE_EXPERIMENT");
    json_key(w, "userId");
    json_put_int(w, e->row.user_id);
    json_key(w, "requestedSlots");
    json_put_int(w, s.wanted);
    json_key(w, "allocatedSlots");
    json_put_int(w, s.held);
    json_key(w, "waiting");
    json_put_str(w, why.len ? buf_str(&why).ptr : NULL);
    json_close(w);
    buf_done(&why);
}

static int list_jobs(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    size_t n = m->experiments.n;
    struct live_experiment **all = arena_array(req->arena, n + 1, sizeof(struct live_experiment *));
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    (void)err;
    for (size_t i = 0; i < n; i++)
        all[i] = m->experiments.items[i].value;
    qsort(all, n, sizeof *all, by_queue);
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "jobs");
    json_open_list(&w);
    for (size_t i = 0; i < n; i++)
        put_job(&w, all[i], req->arena);
    json_close(&w);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

struct job_body {
    struct opt_int priority;
    double weight;
    const char *ahead_of;
};

#define F(kind, member, ...) .type = kind, .offset = offsetof(struct job_body, member), __VA_ARGS__
static const struct field job_fields[] = {
    {.name = "priority", F(FIELD_OPT_INT, priority, FIELD_RANGE(1, 99), .help = "1 is first.")},
    {.name = "weight", F(FIELD_DOUBLE, weight, FIELD_MIN(0), .help = "Its share.")},
    {.name = "aheadOf", F(FIELD_STR, ahead_of, .help = "The job to go right in front of.")},
};
#undef F
static const struct field_table job_body_table = {.size = sizeof(struct job_body),
                                                  FIELD_ROWS(job_fields)};

// By its name, or the number of its experiment.
static struct live_experiment *find_job(struct master *m, struct str id)
{
    int64_t number;
    bool is_number = number_to_int(id, 10, &number);
    for (size_t i = 0; i < m->experiments.n; i++) {
        struct live_experiment *e = m->experiments.items[i].value;
        if (str_eqz(id, e->job.id) || (is_number && number == e->row.id)) return e;
    }
    return NULL;
}

// Halfway between a job and the one in front of it.
static int move_ahead(struct master *m, struct live_experiment *e, const char *of, det_err *err)
{
    const struct live_experiment *other = find_job(m, str_from(of));
    double before = 0;
    if (!other || other == e)
        return det_fail(err, DET_ENOTFOUND, "there is no other job '%.60s' in the queue", of);
    for (size_t i = 0; i < m->experiments.n; i++) {
        const struct live_experiment *o = m->experiments.items[i].value;
        if (o != e && o->job.position < other->job.position && o->job.position > before)
            before = o->job.position;
    }
    e->job.position = (before + other->job.position) / 2;
    e->job.priority = other->job.priority;
    return 0;
}

static int patch_job(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct job_body *body = req->input;
    struct live_experiment *e = find_job(m, http_param(req, "job"));
    if (!e) return det_fail(err, DET_ENOTFOUND, "there is no such job in the queue");
    int rc = auth_may_change(req, e->row.user_id, err);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    if (body->ahead_of) rc = move_ahead(m, e, body->ahead_of, err);
    if (rc) return api_finish(req, tx, rc, NULL);
    if (body->priority.is_set) e->job.priority = body->priority.value;
    if (body->weight > 0) e->job.weight = body->weight;
    db_job_save(tx, &e->job);
    schedule_soon(m);
    return api_finish(req, tx, 0, NULL);
}

// --- slots

static void put_slot(struct json_writer *w, struct master *m, const struct rm_slot *slot)
{
    const struct live_allocation *a = set_find(&m->allocations, slot->token);
    json_open_map(w);
    json_key(w, "id");
    json_put_int(w, slot->id);
    json_key(w, "device");
    json_put_str(w, slot->name);
    json_key(w, "uuid");
    json_put_str(w, slot->uuid);
    json_key(w, "enabled");
    json_put_bool(w, !slot->disabled);
    json_key(w, "allocationId");
    json_put_str(w, a ? a->row.id : NULL);
    json_key(w, "trialId");
    if (a)
        json_put_int(w, a->row.trial_id);
    else
        json_put_null(w);
    json_close(w);
}

static int list_slots(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    size_t n;
    const struct rm_slot *slots = rm_slots(m->rm, &n);
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    (void)err;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "slots");
    json_open_list(&w);
    for (size_t i = 0; i < n; i++)
        put_slot(&w, m, &slots[i]);
    json_close(&w);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int set_slot(struct http_request *req, bool enabled, det_err *err)
{
    struct master *m = req->user;
    int64_t id = http_param_int(req, "slot");
    size_t n;
    rm_slots(m->rm, &n);
    if (id < 0 || id >= (int64_t)n)
        return det_fail(err, DET_ENOTFOUND, "there is no slot %lld", (long long)id);
    rm_enable_slot(m->rm, (int)id, enabled);
    schedule_soon(m);
    http_reply_empty(req);
    return 0;
}

static int enable_slot(struct http_request *req, det_err *err)
{
    return set_slot(req, true, err);
}

static int disable_slot(struct http_request *req, det_err *err)
{
    return set_slot(req, false, err);
}

// --- templates

struct template_body {
    const char *config;
};

static const struct field template_fields[] = {
    {.name = "config",
     .type = FIELD_STR,
     .offset = offsetof(struct template_body, config),
     .required = true,
     .help = "YAML."},
};
static const struct field_table template_body_table = {.size = sizeof(struct template_body),
                                                       FIELD_ROWS(template_fields)};

static const char *template_name(struct http_request *req)
{
    struct str name = http_param(req, "name");
    return arena_strndup(req->arena, name.ptr, name.len);
}

static int list_templates(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct db_list list = {0};
    int rc = db_templates_list(m->reader, NULL, req->arena, &list, err);
    if (rc) return rc;
    list.total = (int64_t)list.n;
    api_reply_list(req, "templates", &config_template_table, &list, "name");
    return 0;
}

static int get_template(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct config_template t;
    int rc = db_template_find(m->reader, template_name(req), req->arena, &t, err);
    if (rc) return rc;
    api_reply_record(req, "template", &config_template_table, &t);
    return 0;
}

// Of a template that is there already, only its owner may change it.
static int find_owner(struct http_request *req, int64_t *owner_id, det_err *err)
{
    struct master *m = req->user;
    struct config_template t;
    int rc = db_template_find(m->reader, template_name(req), req->arena, &t, err);
    if (!rc) *owner_id = t.user_id;
    return rc ? rc : auth_may_change(req, t.user_id, err);
}

static int put_template(struct http_request *req, det_err *err)
{
    const struct template_body *body = req->input;
    struct config_template t = {.name = template_name(req),
                                .config = body->config,
                                .user_id = identity_of(req)->session.user_id};
    int rc = find_owner(req, &t.user_id, err);
    if (rc && rc != DET_ENOTFOUND) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    db_template_save(tx, &t);
    return api_finish(req, tx, 0, NULL);
}

static int delete_template(struct http_request *req, det_err *err)
{
    int64_t owner_id;
    int rc = find_owner(req, &owner_id, err);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    db_template_delete(tx, template_name(req));
    return api_finish(req, tx, 0, NULL);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/jobs", .handle = list_jobs, .summary = "The queue, in order."},
    {HTTP_PATCH, "/api/v1/jobs/{job}", .handle = patch_job, .input = &job_body_table,
     .summary = "Changes a job's place in the queue."},
    {HTTP_GET, "/api/v1/slots", .handle = list_slots, .summary = "Slots and who has them."},
    {HTTP_POST, "/api/v1/slots/{slot:int}/enable", .auth = HTTP_AUTH_ADMIN, .handle = enable_slot,
     .summary = "Lets a slot take work."},
    {HTTP_POST, "/api/v1/slots/{slot:int}/disable", .auth = HTTP_AUTH_ADMIN, .handle = disable_slot,
     .summary = "Keeps new work from a slot."},
    {HTTP_GET, "/api/v1/templates", .handle = list_templates, .summary = "Lists templates."},
    {HTTP_GET, "/api/v1/templates/{name}", .handle = get_template, .summary = "Shows a template."},
    {HTTP_PUT, "/api/v1/templates/{name}", .handle = put_template, .input = &template_body_table,
     .summary = "Makes or replaces a template."},
    {HTTP_DELETE, "/api/v1/templates/{name}", .handle = delete_template,
     .summary = "Deletes a template."},
};

const struct http_table queue_routes = HTTP_TABLE(routes);
