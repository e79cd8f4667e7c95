// Unit api_task.c: routes that tasks call, about themselves. Who calls was checked (auth.c): the
// trial and the allocation are the caller's own.
#include "master/routes.h"

#include "base/mem.h"
#include "master/batch.h"
#include "sys/clock.h"
#include <math.h>

enum { INVALID_HP_PATIENCE_US = 10 * 1000000, MAX_WAIT_S = 60 };

static struct live_trial *own_trial(struct http_request *req)
{
    return identity_of(req)->trial;
}

static struct live_allocation *own_allocation(struct http_request *req)
{
    return identity_of(req)->allocation;
}

// --- the searcher

static int get_operation(struct http_request *req, det_err *err)
{
    struct live_trial *t = own_trial(req);
    struct buf out = BUF_INIT(1024);
    struct json_writer w;
    (void)err;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "op");
    json_open_map(&w);
    json_key(&w, "validateAfter");
    json_open_map(&w);
    json_key(&w, "length");
    json_put_int(&w, t->row.operation.value);
    json_key(&w, "unit");
    json_put_str(&w, length_unit_name(t->experiment->cfg.searcher.max_length.unit));
    json_close(&w);
    json_close(&w);
    json_key(&w, "completed");
    json_put_bool(&w, !trial_has_work(t));
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

// A number, or one of the words that JSON has no numbers for.
static void read_metric(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                        void *member)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    (void)f;
    for (size_t i = 0; value->kind == DOC_STR && i < sizeof words / sizeof *words; i++)
        if (str_eqz(value->text, words[i].word)) {
            *(double *)member = words[i].value;
            return;
        }
    if (!doc_number(value, member))
        field_error(ctx, value, "must be a number, 'NaN', 'Infinity' or '-Infinity', found %s",
                    field_show(ctx, value));
}

static struct doc *write_metric(struct arena *arena, const void *member)
{
    return doc_new_double(arena, *(const double *)member);
}

static const struct field_codec metric_codec = {.size = sizeof(double),
                                                .syntax = "a number, NaN or an infinity",
                                                .read = read_metric,
                                                .write = write_metric};

struct operation_body {
    int64_t length;
};

struct completed_body {
    struct operation_body op;
    double metric;
};

static const struct field operation_fields[] = {
    {.name = "length",
     .type = FIELD_INT,
     .offset = offsetof(struct operation_body, length),
     FIELD_MIN(0),
     .help = "Its absolute length."},
};
static const struct field_table operation_table = {.size = sizeof(struct operation_body),
                                                   FIELD_ROWS(operation_fields)};
static const struct field completed_fields[] = {
    {.name = "op",
     .type = FIELD_TABLE,
     .offset = offsetof(struct completed_body, op),
     .table = &operation_table,
     .help = "The operation."},
    {.name = "searcherMetric",
     .type = FIELD_CODEC,
     .required = true,
     .offset = offsetof(struct completed_body, metric),
     .codec = &metric_codec,
     .help = "What the searcher is to know."},
};
static const struct field_table completed_table = {.size = sizeof(struct completed_body),
                                                   FIELD_ROWS(completed_fields)};

static int post_completed(struct http_request *req, det_err *err)
{
    const struct completed_body *body = req->input;
    struct live_trial *t = own_trial(req);
    struct live_experiment *e = t->experiment;
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    rc = report_completed(t, body->op.length, body->metric, tx, err);
    if (!rc) experiment_end_if_drained(e);
    return api_finish(req, tx, rc, NULL);
}

struct progress_body {
    double progress;
};

static const struct field progress_fields[] = {
    {.name = "progress",
     .type = FIELD_DOUBLE,
     .offset = offsetof(struct progress_body, progress),
     FIELD_MIN(0),
     .required = true,
     .help = "In units of the operation."},
};
static const struct field_table progress_table = {.size = sizeof(struct progress_body),
                                                  FIELD_ROWS(progress_fields)};

// Nothing that anybody would miss: it is not made durable for its own sake.
static int post_progress(struct http_request *req, det_err *err)
{
    const struct progress_body *body = req->input;
    struct live_trial *t = own_trial(req);
    struct live_experiment *e = t->experiment;
    struct search_ops ops;
    const struct search_event event = {
        .kind = SEARCH_PROGRESS, .trial = t->row.number, .units = body->progress};
    int rc = search_tell(e->search, &event, &ops, err);
    if (rc) return rc;
    t->row.progress = body->progress;
    e->row.progress = search_progress(e->search);
    http_reply_empty(req);
    return 0;
}

// --- metrics

struct report_body {
    const char *group;
    int64_t steps, time_us;
    const struct doc *metrics;
};

struct metrics_body {
    int64_t run_id;
    LIST_OF(struct report_body) reports;
};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct report_body, member), __VA_ARGS__

static const struct field report_fields[] = {
    {.name = "group", F(FIELD_STR, group, .required = true, .help = "training, validation, ...")},
    {.name = "stepsCompleted",
     F(FIELD_INT, steps, .required = true, FIELD_MIN(0), .help = "Batches trained by then.")},
    {.name = "reportTime",
     F(FIELD_CODEC, time_us, .codec = &timestamp_codec, .help = "Now, if missing.")},
    {.name = "metrics", F(FIELD_MAP, metrics, .required = true, .help = "Names and values.")},
};
#undef F
static const struct field_table report_table = {.size = sizeof(struct report_body),
                                                FIELD_ROWS(report_fields)};
static const struct field report_item = {.type = FIELD_TABLE, .table = &report_table};

static const struct field metrics_fields[] = {
    {.name = "trialRunId",
     .type = FIELD_INT,
     .offset = offsetof(struct metrics_body, run_id),
     .required = true,
     .help = "Which run reports."},
    {.name = "reports",
     .type = FIELD_LIST,
     .offset = offsetof(struct metrics_body, reports),
     .item = &report_item,
     .required = true,
     .help = "Up to 10000 of them, in order."},
};
static const struct field_table metrics_table = {.size = sizeof(struct metrics_body),
                                                 FIELD_ROWS(metrics_fields)};

static const struct metric_report *reports_of(struct http_request *req)
{
    const struct metrics_body *body = req->input;
    size_t n = body->reports.n;
    struct metric_report *all = arena_array(req->arena, n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        const struct report_body *r = &body->reports.items[i];
        all[i] = (struct metric_report){.trial_id = identity_of(req)->session.trial_id,
                                        .run_id = body->run_id,
                                        .group = r->group,
                                        .steps_completed = r->steps,
                                        .time_us = r->time_us ? r->time_us : clock_unix_us(),
                                        .metrics = r->metrics};
    }
    return all;
}

// By any thread.
static int prepare_metrics(struct http_request *req, det_err *err)
{
    const struct metrics_body *body = req->input;
    struct master *m = req->user;
    struct batch *b;
    int rc = batch_prepare(req, reports_of(req), body->reports.n, &b, err);
    if (rc) return rc;
    batch_encode(b, m->db, 0);
    req->found = b;
    req->drop = batch_free;
    return 0;
}

static int read_metrics(struct http_request *req, det_err *err)
{
    return batch_read(req->found, req->reader, req->arena, err);
}

static int post_metrics(struct http_request *req, det_err *err)
{
    const struct metrics_body *body = req->input;
    struct master *m = req->user;
    struct live_trial *t = own_trial(req);
    size_t n = body->reports.n, n_done;
    bool must_read;
    int rc = 0;
    if (!req->found && n > BATCH_SMALL) return http_read(req, prepare_metrics);
    if (!req->found) rc = prepare_metrics(req, err);
    if (rc) return rc;
    struct batch *b = req->found;
    struct db_tx *tx = api_begin_items(req, n, &n_done, &rc, err);
    if (!tx) return rc;
    db_tx_free(tx); // the batch has its own
    rc = batch_check(b, t, n_done, &must_read, err);
    if (rc) return rc;
    if (must_read) {
        if (batch_may_read(b, t)) return http_read(req, read_metrics);
        batch_ask(b, t, req->arena);
        return api_again(req);
    }
    if (!batch_is_encoded(b, n_done)) batch_encode(b, m->db, n_done);
    tx = batch_take(b, t, n_done);
    experiment_end_if_drained(t->experiment);
    return api_finish(req, tx, 0, NULL);
}

// --- state

struct early_exit_body {
    int reason;
};

static const char *const reasons[] = {"EXITED_REASON_INVALID_HP", "EXITED_REASON_INIT_INVALID_HP",
                                      NULL};
static const struct field early_exit_fields[] = {
    {.name = "reason",
     .type = FIELD_ENUM,
     .offset = offsetof(struct early_exit_body, reason),
     .values = reasons,
     .required = true,
     .help = "Why."},
};
static const struct field_table early_exit_table = {.size = sizeof(struct early_exit_body),
                                                    FIELD_ROWS(early_exit_fields)};

static int post_early_exit(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct live_allocation *a = own_allocation(req);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    if (!a->row.invalid_hp) { // every rank may say so
        a->row.invalid_hp = true;
        allocation_save(a, tx);
        loop_timer_set(m->loop, &a->timer, INVALID_HP_PATIENCE_US);
    }
    return api_finish(req, tx, 0, NULL);
}

struct runner_body {
    const char *state;
};

static const struct field runner_fields[] = {
    {.name = "state",
     .type = FIELD_STR,
     .offset = offsetof(struct runner_body, state),
     .required = true,
     .help = "What it is doing, for people."},
};
static const struct field_table runner_table = {.size = sizeof(struct runner_body),
                                                FIELD_ROWS(runner_fields)};

static int post_runner(struct http_request *req, det_err *err)
{
    const struct runner_body *body = req->input;
    struct live_trial *t = own_trial(req);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    t->row.runner_state = arena_printf(&t->arena, "%.64s", body->state);
    trial_save(t, tx);
    return api_finish(req, tx, 0, NULL);
}

// --- signals

static int post_ready(struct http_request *req, det_err *err)
{
    struct live_allocation *a = own_allocation(req);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    a->row.ready = true;
    schedule_soon(req->user); // it can give way now
    allocation_save(a, tx);
    return api_finish(req, tx, 0, NULL);
}

struct wait_query {
    int64_t timeout_s;
};

static const struct field wait_fields[] = {
    {.name = "timeout_seconds",
     .type = FIELD_INT,
     .offset = offsetof(struct wait_query, timeout_s),
     FIELD_RANGE(0, MAX_WAIT_S),
     .help = "How long to wait for it."},
};
static const struct field_table wait_table = {.size = sizeof(struct wait_query),
                                              FIELD_ROWS(wait_fields)};

static int get_preemption(struct http_request *req, det_err *err)
{
    const struct wait_query *q = req->query;
    (void)err;
    return wait_for_preemption(req, own_allocation(req), q->timeout_s * 1000000);
}

static int post_ack(struct http_request *req, det_err *err)
{
    struct live_allocation *a = own_allocation(req);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    a->row.preemption_acked = true;
    allocation_save(a, tx);
    return api_finish(req, tx, 0, NULL);
}

static int post_pending(struct http_request *req, det_err *err)
{
    struct live_allocation *a = own_allocation(req);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    a->row.ready = true;
    allocation_preempt(a, true, tx);
    return api_finish(req, tx, 0, NULL);
}

static int get_code(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct experiment *row = &own_trial(req)->experiment->row;
    if (!row->code) return det_fail(err, DET_ENOTFOUND, "the experiment has no code");
    const char *path = arena_printf(req->arena, "%s/code/%s", m->data_dir, row->code);
    return http_reply_file(req, path, "application/x-tar", NULL, err);
}

#define TRIAL "/api/v1/trials/{trial:int}"
#define ALLOC "/api/v1/allocations/{alloc}"
#define TASK .auth = HTTP_AUTH_TASK

static const struct http_route routes[] = {
    {HTTP_GET, TRIAL "/searcher/operation", TASK, .handle = get_operation,
     .summary = "How far to train next."},
    {HTTP_POST, TRIAL "/searcher/completed_operation", TASK, .handle = post_completed,
     .input = &completed_table, .summary = "An operation is complete; this came out."},
    {HTTP_POST, TRIAL "/progress", TASK, .handle = post_progress, .input = &progress_table,
     .summary = "How far the training has come."},
    {HTTP_POST, TRIAL "/metrics", TASK, .handle = post_metrics, .input = &metrics_table,
     .max_body = 16 << 20, .summary = "Reports metrics."},
    {HTTP_POST, TRIAL "/early_exit", TASK, .handle = post_early_exit, .input = &early_exit_table,
     .summary = "The hyperparameters cannot be used."},
    {HTTP_POST, TRIAL "/runner/metadata", TASK, .handle = post_runner, .input = &runner_table,
     .summary = "What the trial is doing."},
    {HTTP_POST, ALLOC "/ready", TASK, .handle = post_ready,
     .summary = "The task is up and can be asked to stop."},
    {HTTP_GET, ALLOC "/signals/preemption", TASK, .handle = get_preemption, .query = &wait_table,
     .summary = "Whether to stop; waits for it."},
    {HTTP_POST, ALLOC "/signals/ack_preemption", TASK, .handle = post_ack,
     .summary = "The task has saved what it needs and exits now."},
    {HTTP_POST, ALLOC "/signals/pending_preemption", TASK, .handle = post_pending,
     .summary = "The task wants to be stopped."},
    {HTTP_GET, "/api/v1/tasks/{task}/context_directory", TASK, .handle = get_code,
     .content = HTTP_BYTES, .summary = "The code of the task."},
};

const struct http_table task_routes = HTTP_TABLE(routes);
