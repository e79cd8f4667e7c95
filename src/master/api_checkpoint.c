// Unit api_checkpoint.c: routes about checkpoints.
#include "master/routes.h"

#include "base/mem.h"
#include "base/path.h"
#include "master/create.h"
#include "master/feed.h"
#include "master/reports.h"
#include "master/retention.h"
#include "sys/dir.h"
#include <math.h>
#include <unistd.h>

// --- from tasks

struct checkpoint_body {
    const char *uuid;
    int64_t run_id, steps;
    const struct doc *resources, *metadata;
};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct checkpoint_body, member), __VA_ARGS__

static const struct field checkpoint_fields[] = {
    {.name = "uuid", F(FIELD_STR, uuid, .required = true, .help = "Its name.")},
    {.name = "trialRunId", F(FIELD_INT, run_id, .required = true, .help = "Which run reports.")},
    {.name = "stepsCompleted",
     F(FIELD_INT, steps, .required = true, FIELD_MIN(0), .help = "Batches trained by then.")},
    {.name = "resources", F(FIELD_MAP, resources, .help = "Files and their sizes.")},
    {.name = "metadata", F(FIELD_MAP, metadata, .help = "Whatever the trial says about it.")},
};
#undef F
static const struct field_table body_table = {.size = sizeof(struct checkpoint_body),
                                              FIELD_ROWS(checkpoint_fields)};

static int64_t size_of(const struct doc *resources)
{
    int64_t total = 0, n;
    for (const struct doc *d = resources ? resources->first : NULL; d; d = d->next)
        if (doc_integer(d, &n) && n > 0) total += n;
    return total;
}

static int post_checkpoint(struct http_request *req, det_err *err)
{
    const struct checkpoint_body *body = req->input;
    const struct identity *who = identity_of(req);
    struct live_trial *t = who->trial;
    if (body->run_id != t->row.run_id)
        return det_fail(err, DET_ESTATE, "run %lld was replaced by run %lld",
                        (long long)body->run_id, (long long)t->row.run_id);
    struct checkpoint c = {
        .uuid = body->uuid,
        .allocation_id = who->allocation->row.id,
        .steps_completed = body->steps,
        .size_bytes = size_of(body->resources),
        .resources = body->resources,
        .metadata = body->metadata,
    };
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    rc = report_checkpoint(t, &c, tx, err);
    return api_finish(req, tx, rc, NULL);
}

// --- lists

static int list(struct http_request *req, struct db_filter filter, det_err *err)
{
    static const struct api_list what = {"checkpoints", &checkpoint_table, "uuid",
                                         db_checkpoints_list, NULL};
    const struct api_states *q = req->query;
    filter.states = api_list_doc(req->arena, q->states.items, q->states.n);
    return api_list(req, &what, &filter, &q->page, err);
}

static int list_of_experiment(struct http_request *req, det_err *err)
{
    return list(req, (struct db_filter){.experiment_id = http_param_int(req, "experiment")}, err);
}

// A trial and its experiment, if the caller may see them.
static int find_trial(struct http_request *req, struct trial *t, struct experiment *e, det_err *err)
{
    int rc = db_trial_find(req->reader, http_param_int(req, "trial"), req->arena, t, err);
    if (!rc) rc = db_experiment_find(req->reader, t->experiment_id, req->arena, e, err);
    return rc ? rc : auth_may_see(req, e, err);
}

static int list_of_trial(struct http_request *req, det_err *err)
{
    struct trial t;
    struct experiment e;
    int rc = find_trial(req, &t, &e, err);
    if (rc) return rc;
    return list(req, (struct db_filter){.trial_id = http_param_int(req, "trial")}, err);
}

// The one with the best value of the searcher's metric, and the most batches of equally good ones;
// without any value the latest.
static const struct checkpoint *choose_best(const struct db_list *list, bool smaller_is_better)
{
    const struct checkpoint *all = list->items, *best = NULL;
    for (size_t i = 0; i < list->n; i++) {
        double a = all[i].searcher_metric, b = best ? best->searcher_metric : NAN;
        if (!smaller_is_better) a = -a, b = -b;
        bool is_later = !best || all[i].steps_completed > best->steps_completed;
        if (isnan(a) ? isnan(b) && is_later : isnan(b) || a < b || (a == b && is_later))
            best = &all[i];
    }
    return best;
}

static int best_of_trial(struct http_request *req, det_err *err)
{
    static const char *const states[] = {"STATE_COMPLETED"};
    struct trial t;
    struct experiment e;
    struct db_list all = {0};
    int rc = find_trial(req, &t, &e, err);
    if (rc) return rc;
    const struct db_filter filter = {.trial_id = t.id,
                                     .states = api_list_doc(req->arena, states, 1)};
    rc = db_checkpoints_list(req->reader, &filter, NULL, req->arena, &all, err);
    if (rc) return rc;
    const struct checkpoint *best = choose_best(&all, e.smaller_is_better);
    if (!best) return det_fail(err, DET_ENOTFOUND, "trial %lld has no checkpoint", (long long)t.id);
    api_reply_record(req, "checkpoint", &checkpoint_table, best);
    return 0;
}

struct all_query {
    struct api_page page;
    LIST_OF(const char *) states;
    int64_t experiment_id;
};

static const struct field all_fields[] = {
    API_PAGE_FIELDS(struct all_query, page),
    API_STATES_FIELD(struct all_query, states),
    {.name = "experimentId",
     .type = FIELD_INT,
     .offset = offsetof(struct all_query, experiment_id),
     .help = "Only of this experiment."},
};
static const struct field_table all_table = {.size = sizeof(struct all_query),
                                             FIELD_ROWS(all_fields)};
_Static_assert(offsetof(struct all_query, states) == offsetof(struct api_states, states),
               "list() reads the beginning of it");

static int list_all(struct http_request *req, det_err *err)
{
    const struct all_query *q = req->query;
    return list(req, (struct db_filter){.experiment_id = q->experiment_id}, err);
}

// --- one

static int find(struct http_request *req, struct checkpoint *out, det_err *err)
{
    struct str uuid = http_param(req, "uuid");
    return db_checkpoint_find(req->reader, arena_strndup(req->arena, uuid.ptr, uuid.len),
                              req->arena, out, err);
}

static int get_checkpoint(struct http_request *req, det_err *err)
{
    struct checkpoint c;
    struct experiment e;
    int rc = find(req, &c, err);
    if (!rc) rc = db_experiment_find(req->reader, c.experiment_id, req->arena, &e, err);
    if (!rc) rc = auth_may_see(req, &e, err);
    if (rc) return rc;
    api_reply_record(req, "checkpoint", &checkpoint_table, &c);
    return 0;
}

// A task can put anything there, a link to a file that it may not read itself included.
static int open_file(const char *storage, const char *name, int *out, det_err *err)
{
    int dir = -1;
    int rc = dir_open(storage, 0, &dir, err);
    if (rc) return rc;
    rc = dir_open_file(dir, name, out, err);
    close(dir);
    if (!rc || rc == DET_ENOTFOUND) return rc;
    return det_fail(err, DET_EDENIED, "'%s' is no regular file of the checkpoint", name);
}

// One of the files that the record lists: no other name is ever opened.
static int get_file(struct http_request *req, det_err *err)
{
    struct checkpoint c;
    struct stored_at at;
    struct str name = http_param(req, "file");
    const char *file = arena_strndup(req->arena, name.ptr, name.len);
    int fd = -1;
    int rc = find(req, &c, err);
    if (!rc)
        rc = create_find_storage(req->user, req->reader, c.experiment_id, req->arena, &at, err);
    if (!rc) rc = auth_may_read(req, &at.row, err);
    if (rc) return rc;
    if (c.state != CHECKPOINT_COMPLETED || !path_is_plain(name) || !doc_find(c.resources, file))
        return det_fail(err, DET_ENOTFOUND, "checkpoint %s has no file '%.100s'", c.uuid, file);
    rc = open_file(at.dir, arena_printf(req->arena, "%s/%s", c.uuid, file), &fd, err);
    if (rc) return rc;
    return http_reply_open_file(req, fd, http_content_type(HTTP_BYTES), file, err);
}

struct doomed {
    struct checkpoint row;
    struct stored_at at;
};

static int find_doomed(struct http_request *req, det_err *err)
{
    struct doomed *d = arena_alloc(req->arena, sizeof *d);
    int rc = find(req, &d->row, err);
    req->found = d;
    return rc ? rc
              : create_find_storage(req->user, req->reader, d->row.experiment_id, req->arena,
                                    &d->at, err);
}

static int delete_checkpoint(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct doomed *d = req->found;
    struct checkpoint *c = &d->row;
    int rc = auth_may_change(req, d->at.row.user_id, err);
    if (rc) return rc;
    const struct live_trial *t = set_find(&m->trials, c->trial_id);
    if (t && t->row.latest_checkpoint && str_eqz(str_from(t->row.latest_checkpoint), c->uuid))
        return det_fail(err, DET_ESTATE, "trial %lld would resume from it", (long long)t->row.id);
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    checkpoints_remove(m, d->at.dir, &c, 1); // submitted first, so durable when this one is
    return api_finish(req, tx, 0, NULL);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/api/v1/checkpoints", .auth = HTTP_AUTH_TASK, .handle = post_checkpoint,
     .input = &body_table, .max_body = 4 << 20, .summary = "A checkpoint is in place."},
    {HTTP_GET, "/api/v1/checkpoints", .read = list_all, .handle = feed_answer, .query = &all_table,
     .summary = "Lists the checkpoints of all experiments."},
    {HTTP_GET, "/api/v1/experiments/{experiment:int}/checkpoints", .read = list_of_experiment,
     .handle = feed_answer, .query = &api_states_table,
     .summary = "Lists the checkpoints of an experiment."},
    {HTTP_GET, "/api/v1/trials/{trial:int}/checkpoints", .auth = HTTP_AUTH_JOB,
     .read = list_of_trial, .handle = feed_answer, .query = &api_states_table,
     .summary = "Lists the checkpoints of a trial."},
    {HTTP_GET, "/api/v1/trials/{trial:int}/best_checkpoint", .auth = HTTP_AUTH_JOB,
     .read = best_of_trial,
     .summary = "The checkpoint with the best value of the searcher's metric; without any, the "
                "latest."},
    {HTTP_GET, "/api/v1/checkpoints/{uuid}", .auth = HTTP_AUTH_JOB, .read = get_checkpoint,
     .summary = "Describes a checkpoint."},
    {HTTP_GET, "/api/v1/checkpoints/{uuid}/files/{file*}", .auth = HTTP_AUTH_JOB, .read = get_file,
     .content = HTTP_BYTES, .summary = "One file of a checkpoint."},
    {HTTP_DELETE, "/api/v1/checkpoints/{uuid}", .read = find_doomed, .handle = delete_checkpoint,
     .summary = "Deletes a checkpoint."},
};

const struct http_table checkpoint_routes = HTTP_TABLE(routes);
