// Unit api_steer.c: routes that change experiments: their state, and what people write about them.
#include "master/routes.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/create.h"
#include "master/erase.h"
#include "master/events.h"

// --- states

static struct live_experiment *find_live(struct http_request *req)
{
    struct master *m = req->user;
    return set_find(&m->experiments, http_param_int(req, "experiment"));
}

// The record of an experiment that has ended.
struct ended {
    uint64_t read_at; // see record_writes_now()
    struct experiment row;
};

static int read_ended(struct http_request *req, det_err *err)
{
    struct ended *x = arena_alloc(req->arena, sizeof *x);
    x->read_at = record_writes_now(req->user);
    req->found = x;
    return db_experiment_find(req->reader, http_param_int(req, "experiment"), req->arena, &x->row,
                              err);
}

// What was read, if that still counts. NULL: return *rc.
static struct experiment *find_ended(struct http_request *req, int *rc)
{
    const struct master *m = req->user;
    struct ended *x = req->found;
    int64_t id = http_param_int(req, "experiment");
    if (record_write_is_pending(m, RECORD_EXPERIMENT, id)) {
        *rc = api_again(req);
        req->found = NULL;
        return NULL;
    }
    if (x && !record_is_stale(m, RECORD_EXPERIMENT, id, x->read_at)) return &x->row;
    *rc = http_read(req, read_ended);
    return NULL;
}

// The event either changes nothing, or is refused with words.
static int do_ended(struct http_request *req, enum experiment_event event, det_err *err)
{
    enum exp_state next;
    int rc;
    const struct experiment *row = find_ended(req, &rc);
    if (!row) return rc;
    rc = auth_may_change(req, row->user_id, err);
    if (!rc) rc = experiment_step(row->state, event, &next, err);
    if (!rc) http_reply_empty(req);
    return rc;
}

static void answer_empty(void *ctx, int code, const det_err *err)
{
    if (code)
        http_reply_error(ctx, err);
    else
        http_reply_empty(ctx);
}

// It had no processes: who has killed it and looks at it then sees that it has ended.
static void on_ending(void *ctx, int code, const det_err *err)
{
    struct http_request *req = ctx;
    struct master *m = req->user;
    struct live_experiment *e = find_live(req);
    if (code)
        http_reply_error(req, err);
    else if (e && e->ends)
        experiment_await_end(e, req);
    else
        db_tx_submit(db_tx_new(m->db), answer_empty, req);
}

static int do_event(struct http_request *req, enum experiment_event event, det_err *err)
{
    struct live_experiment *e = find_live(req);
    if (!e) return do_ended(req, event, err);
    int rc = auth_may_change(req, e->row.user_id, err);
    if (rc) return rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    rc = experiment_do(e, event, NULL, tx, err);
    if (rc) return api_finish(req, tx, rc, NULL);
    experiment_end_if_drained(e);
    return e->ends ? api_finish_must(req, tx, on_ending, req) : api_finish(req, tx, 0, NULL);
}

static int activate(struct http_request *req, det_err *err)
{
    return do_event(req, EXPERIMENT_ACTIVATE, err);
}

static int pause_experiment(struct http_request *req, det_err *err)
{
    return do_event(req, EXPERIMENT_PAUSE, err);
}

static int cancel(struct http_request *req, det_err *err)
{
    return do_event(req, EXPERIMENT_CANCEL, err);
}

static int kill_experiment(struct http_request *req, det_err *err)
{
    return do_event(req, EXPERIMENT_KILL, err);
}

// --- records

// The record to change: that of a live experiment, or a copy of the stored one.
struct edit {
    struct experiment *row;
    struct arena *arena; // of its texts
    struct live_experiment *live;
    struct db_tx *tx;
};

// Non-zero, or no transaction: return it.
static int begin_edit(struct http_request *req, struct edit *edit, det_err *err)
{
    int rc = 0;
    *edit = (struct edit){.live = find_live(req), .arena = req->arena};
    if (edit->live) {
        edit->row = &edit->live->row;
        edit->arena = &edit->live->arena;
    } else {
        edit->row = find_ended(req, &rc);
        if (!edit->row) return rc;
    }
    rc = auth_may_change(req, edit->row->user_id, err);
    if (!rc) edit->tx = api_begin(req, &rc, err);
    return rc;
}

static void save_edited(const struct http_request *req, const struct edit *edit)
{
    db_experiment_save(edit->tx, edit->row);
    if (!edit->live) record_write_begin(req->user, RECORD_EXPERIMENT, edit->row->id);
}

static int finish_edit(struct http_request *req, struct edit *edit)
{
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    save_edited(req, edit);
    events_mark(req->user,
                &(struct event_mark){.kind = EVENT_EXPERIMENT, .experiment_id = edit->row->id});
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "experiment");
    api_put_record(&w, req->arena, &experiment_table, edit->row);
    json_close(&w);
    return api_finish(req, edit->tx, 0, &out);
}

static int set_archived(struct http_request *req, bool archived, det_err *err)
{
    struct edit edit;
    enum exp_state same;
    int rc = begin_edit(req, &edit, err);
    if (rc || !edit.tx) return rc;
    rc = experiment_step(edit.row->state, EXPERIMENT_ARCHIVE, &same, err);
    if (rc) return api_finish(req, edit.tx, rc, NULL);
    edit.row->archived = archived;
    return finish_edit(req, &edit);
}

static int archive(struct http_request *req, det_err *err)
{
    return set_archived(req, true, err);
}

static int unarchive(struct http_request *req, det_err *err)
{
    return set_archived(req, false, err);
}

struct resources_body {
    struct opt_int priority, max_slots;
    double weight;
};

static const struct field text_item = {.type = FIELD_STR};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct resources_body, member), __VA_ARGS__
static const struct field resources_fields[] = {
    {.name = "priority", F(FIELD_OPT_INT, priority, FIELD_RANGE(1, 99), .help = "1 is first.")},
    {.name = "maxSlots", F(FIELD_OPT_INT, max_slots, FIELD_MIN(0), .help = "At a time.")},
    {.name = "weight", F(FIELD_DOUBLE, weight, FIELD_MIN(0), .help = "Its share.")},
};
static const struct field_table resources_table = {.size = sizeof(struct resources_body),
                                                   FIELD_ROWS(resources_fields)};
#undef F

struct patch {
    const char *name, *description, *notes;
    LIST_OF(const char *) labels;
    struct opt_int log_days;
    struct resources_body resources;
};

static void check_name(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    const char *name = *(const char *const *)member;
    if (!name[strspn(name, " \t\r\n")]) field_error(ctx, value, "must not be empty");
}

#define F(kind, member, ...) .type = kind, .offset = offsetof(struct patch, member), __VA_ARGS__
static const struct field patch_fields[] = {
    {.name = "name", F(FIELD_STR, name, .check = check_name, .help = "Name.")},
    {.name = "description", F(FIELD_STR, description, .help = "Description.")},
    {.name = "notes", F(FIELD_STR, notes, .help = "Notes.")},
    {.name = "labels", F(FIELD_LIST, labels, .item = &text_item, .help = "All labels.")},
    {.name = "logRetentionDays",
     F(FIELD_OPT_INT, log_days, FIELD_RANGE(-1, 32767),
       .help = "Days that logs are kept after the end of a trial; -1: for ever.")},
    {.name = "resources", F(FIELD_TABLE, resources, .table = &resources_table, .help = "Queue.")},
};
static const struct field_table patch_table = {.size = sizeof(struct patch),
                                               FIELD_ROWS(patch_fields)};
#undef F

static void set_text(const char **member, const char *text, struct arena *arena)
{
    if (text) *member = arena_strdup(arena, text);
}

static bool has_label(const struct experiment *row, const char *label)
{
    for (size_t i = 0; i < row->labels.n; i++)
        if (str_eqz(str_from(row->labels.items[i]), label)) return true;
    return false;
}

static void add_label(struct experiment *row, const char *label, struct arena *arena)
{
    const char **items = arena_array(arena, row->labels.n + 1, sizeof *items);
    if (has_label(row, label)) return;
    if (row->labels.n) memcpy(items, row->labels.items, row->labels.n * sizeof *items);
    items[row->labels.n] = arena_strdup(arena, label);
    row->labels.items = items;
    row->labels.n++;
}

static void remove_label(struct experiment *row, const char *label)
{
    size_t n = 0;
    for (size_t i = 0; i < row->labels.n; i++)
        if (!str_eqz(str_from(row->labels.items[i]), label))
            row->labels.items[n++] = row->labels.items[i];
    row->labels.n = n;
}

static int set_max_slots(struct edit *edit, const struct opt_int *max_slots, det_err *err)
{
    struct live_experiment *e = edit->live;
    if (!e || !max_slots->is_set) return 0;
    if (e->row.kind == EXPERIMENT_GENERIC)
        return det_fail(err, DET_EINVAL, "a job has one trial; its slots are resources.slots");
    e->cfg.resources.max_slots = *max_slots;
    create_save_config(e, edit->tx);
    return 0;
}

static void set_resources(struct edit *edit, const struct resources_body *r)
{
    struct live_experiment *e = edit->live;
    if (!e) return; // what has ended is in no queue
    if (r->priority.is_set) e->job.priority = r->priority.value;
    if (r->weight > 0) e->job.weight = r->weight;
    db_job_save(edit->tx, &e->job);
    events_mark(e->master, &(struct event_mark){.kind = EVENT_QUEUE});
    schedule_soon(e->master);
}

static int patch_experiment(struct http_request *req, det_err *err)
{
    const struct patch *p = req->input;
    struct edit edit;
    int rc = begin_edit(req, &edit, err);
    if (rc || !edit.tx) return rc;
    rc = set_max_slots(&edit, &p->resources.max_slots, err);
    if (rc) return api_finish(req, edit.tx, rc, NULL);
    set_text(&edit.row->name, p->name, edit.arena);
    set_text(&edit.row->description, p->description, edit.arena);
    set_text(&edit.row->notes, p->notes, edit.arena);
    if (p->log_days.is_set) edit.row->log_days = p->log_days;
    if (p->labels.items) {
        edit.row->labels.n = 0;
        for (size_t i = 0; i < p->labels.n; i++)
            add_label(edit.row, p->labels.items[i], edit.arena);
    }
    set_resources(&edit, &p->resources);
    return finish_edit(req, &edit);
}

static int put_label(struct http_request *req, det_err *err)
{
    struct edit edit;
    int rc = begin_edit(req, &edit, err);
    if (rc || !edit.tx) return rc;
    struct str label = http_param(req, "label");
    add_label(edit.row, arena_strndup(req->arena, label.ptr, label.len), edit.arena);
    return finish_edit(req, &edit);
}

static int delete_label(struct http_request *req, det_err *err)
{
    struct edit edit;
    int rc = begin_edit(req, &edit, err);
    if (rc || !edit.tx) return rc;
    struct str label = http_param(req, "label");
    remove_label(edit.row, arena_strndup(req->arena, label.ptr, label.len));
    return finish_edit(req, &edit);
}

static void on_deleting(void *ctx, int code, const det_err *err)
{
    struct http_request *req = ctx;
    if (code) {
        http_reply_error(req, err);
        return;
    }
    erase_later(req->user, http_param_int(req, "experiment"));
    http_reply_empty(req);
}

static int delete_experiment(struct http_request *req, det_err *err)
{
    struct edit edit;
    enum exp_state next;
    int rc = begin_edit(req, &edit, err);
    if (rc || !edit.tx) return rc;
    rc = experiment_step(edit.row->state, EXPERIMENT_DELETE, &next, err);
    if (rc) return api_finish(req, edit.tx, rc, NULL);
    ASSERT(!edit.live);
    edit.row->state = next;
    save_edited(req, &edit);
    return api_finish_later(req, edit.tx, on_deleting, req);
}

#define AT "/api/v1/experiments/{experiment:int}"

static const struct http_route routes[] = {
    {HTTP_POST, AT "/activate", .handle = activate, .summary = "Starts it, or lets it go on."},
    {HTTP_POST, AT "/pause", .handle = pause_experiment, .summary = "Lets it save and stop."},
    {HTTP_POST, AT "/cancel", .handle = cancel, .summary = "Lets it save and end."},
    {HTTP_POST, AT "/kill", .handle = kill_experiment, .summary = "Ends it at once."},
    {HTTP_POST, AT "/archive", .handle = archive, .summary = "Takes it out of lists."},
    {HTTP_POST, AT "/unarchive", .handle = unarchive, .summary = "Brings it back to lists."},
    {HTTP_PATCH, AT, .handle = patch_experiment, .input = &patch_table,
     .summary = "Changes name, description, notes, labels, place in the queue."},
    {HTTP_PUT, AT "/labels/{label}", .handle = put_label, .summary = "Adds a label."},
    {HTTP_DELETE, AT "/labels/{label}", .handle = delete_label, .summary = "Removes a label."},
    {HTTP_DELETE, AT, .handle = delete_experiment,
     .summary = "Deletes it with its checkpoints, in the background."},
};

const struct http_table steer_routes = HTTP_TABLE(routes);
