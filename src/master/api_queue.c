// Unit api_queue.c: routes about the queue, the slots, and templates.
#include "master/routes.h"

#include "base/mem.h"
#include "base/number.h"
#include "master/events.h"
#include "master/feed.h"
#include "master/pool.h"

// --- jobs: live experiments and generic jobs, in the order of the queue

static int by_queue(const void *a, const void *b)
{
    const struct job *x = &(*(struct live_experiment *const *)a)->job,
                     *y = &(*(struct live_experiment *const *)b)->job;
    if (x->priority != y->priority) return x->priority < y->priority ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

// A job as it is now, for another thread.
struct job_shown {
    struct job row; // texts live as long as the request
    const char *name;
    bool has_no_pool;
    enum experiment_kind kind;
    int64_t user_id, wanted, held;
    size_t request; // of the picture
};

struct jobs_shown {
    struct picture *picture; // NULL: nothing waits
    struct job_shown *jobs;
    size_t n, total;
};

static void drop_jobs(void *found)
{
    picture_free(((struct jobs_shown *)found)->picture);
}

static void show_job(struct jobs_shown *all, struct live_experiment *e, struct arena *arena)
{
    struct job_shown *job = &all->jobs[all->n++];
    *job = (struct job_shown){.row = e->job,
                              .name = e->row.name ? arena_strdup(arena, e->row.name) : NULL,
                              .has_no_pool = !e->pool,
                              .kind = e->row.kind,
                              .user_id = e->row.user_id,
                              .wanted = e->n_requests * e->cfg.resources.slots,
                              .request = PICTURE_NONE};
    job->row.id = arena_strdup(arena, e->job.id);
    job->row.resource_pool = arena_strdup(arena, e->job.resource_pool);
    job->row.state = e->row.state == EXP_PAUSED ? JOB_PAUSED : JOB_QUEUED;
    if (!e->first_request) return;
    if (!all->picture) all->picture = picture_take(e->master);
    job->request = picture_find(all->picture, e->first_request);
}

static void add_held(struct jobs_shown *all, const struct live_allocation *a)
{
    int64_t id = a->trial->experiment->row.id;
    for (size_t i = 0; i < all->n; i++) {
        struct job_shown *job = &all->jobs[i];
        if (job->row.experiment_id != id) continue;
        job->wanted += a->row.slots;
        job->held += a->row.slots;
        if (job->row.state != JOB_BACKFILLED) job->row.state = JOB_SCHEDULED;
        if (a->backfilled) job->row.state = JOB_BACKFILLED;
    }
}

static void put_job(struct json_writer *w, const struct job_shown *job, struct picture *picture,
                    struct arena *arena)
{
    struct buf why = BUF_INIT(1024);
    picture_explain(picture, job->request, &why);
    if (job->has_no_pool)
        buf_printf(&why, "the configuration of the master has no resource pool '%s' any more",
                   job->row.resource_pool);
    json_open_map(w);
    const struct doc *doc = field_write(arena, &job_table, &job->row, false);
    for (const struct doc *d = doc->first; d; d = d->next) {
        json_keyn(w, d->key);
        json_put_doc(w, d);
    }
    json_key(w, "name");
    json_put_str(w, job->name);
    json_key(w, "type");
    json_put_str(w, job->kind == EXPERIMENT_GENERIC ? "TYPE_GENERIC" : "TYPE_EXPERIMENT");
    json_key(w, "userId");
    json_put_int(w, job->user_id);
    json_key(w, "requestedSlots");
    json_put_int(w, job->wanted);
    json_key(w, "allocatedSlots");
    json_put_int(w, job->held);
    json_key(w, "waiting");
    json_put_str(w, why.len ? buf_str(&why).ptr : NULL);
    json_close(w);
    buf_done(&why);
}

// By another thread.
static int answer_jobs(struct http_request *req, det_err *err)
{
    struct jobs_shown *all = req->found;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    (void)err;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "jobs");
    json_open_list(&w);
    for (size_t i = 0; i < all->n; i++)
        put_job(&w, &all->jobs[i], all->picture, req->arena);
    json_close(&w);
    api_put_pagination(&w, (int64_t)all->total, NULL);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int list_jobs(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    size_t n = m->experiments.n;
    struct live_experiment **live = arena_array(req->arena, n + 1, sizeof *live);
    struct jobs_shown *all = arena_alloc(req->arena, sizeof *all);
    const struct api_slice slice = api_slice(req->query, n);
    (void)err;
    for (size_t i = 0; i < n; i++)
        live[i] = m->experiments.items[i].value;
    qsort(live, n, sizeof *live, by_queue);
    all->jobs = arena_array(req->arena, slice.end - slice.first + 1, sizeof *all->jobs);
    all->total = n;
    for (size_t i = slice.first; i < slice.end; i++)
        show_job(all, live[i], req->arena);
    for (size_t i = 0; i < m->allocations.n; i++)
        add_held(all, m->allocations.items[i].value);
    req->found = all;
    req->drop = drop_jobs;
    return http_read(req, answer_jobs);
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
    events_mark(m, &(struct event_mark){.kind = EVENT_QUEUE});
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
    json_key(w, "resourcePool");
    json_put_str(w, slot->pool < 0 ? NULL : m->pools[slot->pool].cfg->name);
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
    const struct api_slice slice = api_slice(req->query, n);
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    (void)err;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "slots");
    json_open_list(&w);
    for (size_t i = slice.first; i < slice.end; i++)
        put_slot(&w, m, &slots[i]);
    json_close(&w);
    api_put_pagination(&w, (int64_t)n, NULL);
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
    events_mark(m, &(struct event_mark){.kind = EVENT_QUEUE});
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

// --- pools

static void count_pool(struct master *m, const struct pool *p, int64_t *in_use, int64_t *waiting)
{
    *in_use = *waiting = 0;
    for (size_t i = 0; i < m->allocations.n; i++) {
        const struct live_allocation *a = m->allocations.items[i].value;
        if (a->trial->experiment->pool == p) *in_use += a->row.slots;
    }
    for (size_t i = 0; i < m->experiments.n; i++) {
        const struct live_experiment *e = m->experiments.items[i].value;
        if (e->pool == p) *waiting += e->n_requests;
    }
}

static void put_pool(struct json_writer *w, struct master *m, const struct pool *p)
{
    static const char *const schedulers[] = {"priority", "fair_share", "round_robin"};
    struct sched_view view = pool_view(p);
    int64_t in_use, waiting;
    count_pool(m, p, &in_use, &waiting);
    json_open_map(w);
    json_key(w, "name");
    json_put_str(w, p->cfg->name);
    json_key(w, "description");
    json_put_str(w, p->cfg->description);
    json_key(w, "default");
    json_put_bool(w, p == pool_find(m, NULL));
    json_key(w, "slots");
    json_put_int(w, view.n_slots);
    json_key(w, "slotsInUse");
    json_put_int(w, in_use);
    json_key(w, "waiting");
    json_put_int(w, waiting);
    json_key(w, "scheduler");
    json_put_str(w, schedulers[p->cfg->scheduler.type]);
    json_key(w, "preemption");
    json_put_bool(w, p->cfg->scheduler.preemption);
    json_key(w, "defaultPriority");
    json_put_int(w, p->cfg->scheduler.default_priority);
    json_close(w);
}

static int list_pools(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct api_slice slice = api_slice(req->query, m->n_pools);
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    (void)err;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "resourcePools");
    json_open_list(&w);
    for (size_t i = slice.first; i < slice.end; i++)
        put_pool(&w, m, &m->pools[i]);
    json_close(&w);
    api_put_pagination(&w, (int64_t)m->n_pools, NULL);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
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

static int find_templates(struct db_reader *r, const struct db_filter *filter,
                          const struct db_page *page, struct arena *a, struct db_list *out,
                          det_err *err)
{
    (void)filter;
    return db_templates_list(r, page, a, out, err);
}

static int list_templates(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"templates", &config_template_table, "name",
                                         find_templates, NULL};
    return api_list(req, &what, &(struct db_filter){0}, req->query, err);
}

static int get_template(struct http_request *req, det_err *err)
{
    struct config_template t;
    int rc = db_template_find(req->reader, template_name(req), req->arena, &t, err);
    if (rc) return rc;
    api_reply_record(req, "template", &config_template_table, &t);
    return 0;
}

// Of a template that is there already, only its owner may change it, and it stays the owner's.
struct old_template {
    uint64_t read_at; // see record_writes_now()
    bool exists;
    int64_t owner_id;
};

static int read_template(struct http_request *req, det_err *err)
{
    struct old_template *old = arena_alloc(req->arena, sizeof *old);
    struct config_template t;
    old->read_at = record_writes_now(req->user);
    int rc = db_template_find(req->reader, template_name(req), req->arena, &t, err);
    if (rc && rc != DET_ENOTFOUND) return rc;
    old->exists = !rc;
    if (!rc) old->owner_id = t.user_id;
    req->found = old;
    return 0;
}

// A transaction to change a template with. NULL: return *rc.
static struct db_tx *begin_template(struct http_request *req, bool must_exist, int *rc,
                                    det_err *err)
{
    struct master *m = req->user;
    const struct old_template *old = req->found;
    int64_t id = api_hash(m, http_param(req, "name"));
    *rc = 0;
    if (record_is_stale(m, RECORD_TEMPLATE, id, old->read_at))
        *rc = api_again(req);
    else if (!old->exists && must_exist)
        *rc = det_fail(err, DET_ENOTFOUND, "there is no template '%.60s'", template_name(req));
    else if (!old->exists || !(*rc = auth_may_change(req, old->owner_id, err))) {
        struct db_tx *tx = api_begin(req, rc, err);
        if (tx) record_write_begin(m, RECORD_TEMPLATE, id);
        return tx;
    }
    return NULL;
}

static int put_template(struct http_request *req, det_err *err)
{
    const struct template_body *body = req->input;
    const struct old_template *old = req->found;
    const struct config_template t = {.name = template_name(req),
                                      .config = body->config,
                                      .user_id = old->exists ? old->owner_id
                                                             : identity_of(req)->session.user_id};
    int rc;
    struct db_tx *tx = begin_template(req, false, &rc, err);
    if (!tx) return rc;
    db_template_save(tx, &t);
    return api_finish(req, tx, 0, NULL);
}

static int delete_template(struct http_request *req, det_err *err)
{
    int rc;
    struct db_tx *tx = begin_template(req, true, &rc, err);
    if (!tx) return rc;
    db_template_delete(tx, template_name(req));
    return api_finish(req, tx, 0, NULL);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/jobs", .handle = list_jobs, .query = &api_slice_table,
     .summary = "The queue, in order."},
    {HTTP_PATCH, "/api/v1/jobs/{job}", .handle = patch_job, .input = &job_body_table,
     .summary = "Changes a job's place in the queue."},
    {HTTP_GET, "/api/v1/slots", .handle = list_slots, .query = &api_slice_table,
     .summary = "Slots and who has them."},
    {HTTP_POST, "/api/v1/slots/{slot:int}/enable", .auth = HTTP_AUTH_ADMIN, .handle = enable_slot,
     .summary = "Lets a slot take work."},
    {HTTP_POST, "/api/v1/slots/{slot:int}/disable", .auth = HTTP_AUTH_ADMIN, .handle = disable_slot,
     .summary = "Keeps new work from a slot."},
    {HTTP_GET, "/api/v1/resource-pools", .handle = list_pools, .query = &api_slice_table,
     .summary = "Pools of slots, how much of them is in use, and who waits."},
    {HTTP_GET, "/api/v1/templates", .read = list_templates, .handle = feed_answer,
     .query = &api_page_table, .summary = "Lists templates."},
    {HTTP_GET, "/api/v1/templates/{name}", .read = get_template, .summary = "Shows a template."},
    {HTTP_PUT, "/api/v1/templates/{name}", .read = read_template, .handle = put_template,
     .input = &template_body_table, .summary = "Makes or replaces a template."},
    {HTTP_DELETE, "/api/v1/templates/{name}", .read = read_template, .handle = delete_template,
     .summary = "Deletes a template."},
};

const struct http_table queue_routes = HTTP_TABLE(routes);
