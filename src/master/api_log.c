// Unit api_log.c: routes about logs.
#include "master/routes.h"

#include "base/number.h"
#include "master/logs.h"
#include "sys/clock.h"

struct log_query {
    bool follow;
    int64_t after, before, limit, after_us, before_us;
    int order_by;
    LIST_OF(const char *) levels, stdtypes, sources;
    LIST_OF(int64_t) ranks;
    const char *search;
};

static const struct field text_item = {.type = FIELD_STR}, int_item = {.type = FIELD_INT};

#define F(kind, member, ...) .type = kind, .offset = offsetof(struct log_query, member), __VA_ARGS__

static const struct field log_fields[] = {
    {.name = "follow", F(FIELD_BOOL, follow, .help = "Stream lines as they come.")},
    {.name = "after", F(FIELD_INT, after, .help = "Only lines after this number.")},
    {.name = "before", F(FIELD_INT, before, .help = "Only lines before this number.")},
    {.name = "limit",
     F(FIELD_INT, limit, .def = "1000", FIELD_RANGE(1, 100000), .help = "How many lines at most.")},
    {.name = "orderBy",
     F(FIELD_ENUM, order_by, .values = api_orders, .def = "ORDER_BY_ASC", .help = "Direction.")},
    {.name = "timestampAfter",
     F(FIELD_CODEC, after_us, .codec = &timestamp_codec, .help = "Later.")},
    {.name = "timestampBefore",
     F(FIELD_CODEC, before_us, .codec = &timestamp_codec, .help = "Earlier.")},
    {.name = "level", F(FIELD_LIST, levels, .item = &text_item, .help = "One of these levels.")},
    {.name = "stdtype", F(FIELD_LIST, stdtypes, .item = &text_item, .help = "stdout, stderr.")},
    {.name = "source", F(FIELD_LIST, sources, .item = &text_item, .help = "task, master, shim.")},
    {.name = "rankId", F(FIELD_LIST, ranks, .item = &int_item, .help = "One of these ranks.")},
    {.name = "searchText", F(FIELD_STR, search, .help = "Contained in the line.")},
};
#undef F
static const struct field_table log_query_table = {.size = sizeof(struct log_query),
                                                   FIELD_ROWS(log_fields)};

static struct log_filter filter_of(struct http_request *req, const struct log_query *q)
{
    struct doc *ranks = q->ranks.n ? doc_new(req->arena, DOC_LIST) : NULL;
    for (size_t i = 0; i < q->ranks.n; i++)
        doc_append(ranks, doc_new_int(req->arena, q->ranks.items[i]));
    return (struct log_filter){
        .trial_id = http_param_int(req, "trial"),
        .after_id = q->after,
        .before_id = q->before,
        .after_us = q->after_us,
        .before_us = q->before_us,
        .levels = api_list_doc(req->arena, q->levels.items, q->levels.n),
        .stdtypes = api_list_doc(req->arena, q->stdtypes.items, q->stdtypes.n),
        .sources = api_list_doc(req->arena, q->sources.items, q->sources.n),
        .ranks = ranks,
        .search = q->search,
        .newest_first = q->order_by,
        .limit = q->limit,
    };
}

static int get_logs(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct log_query *q = req->query;
    struct log_filter filter = filter_of(req, q);
    const char *last = http_header(req, "Last-Event-ID");
    struct trial row;
    struct experiment e;
    struct db_list list = {0};
    int rc = db_trial_find(m->reader, filter.trial_id, req->arena, &row, err);
    if (!rc) rc = db_experiment_find(m->reader, row.experiment_id, req->arena, &e, err);
    if (!rc) rc = auth_may_read(req, &e, err);
    if (rc) return rc;
    if (q->follow) {
        if (last) number_to_int(str_from(last), 10, &filter.after_id);
        logs_follow(req, &filter);
        return 0;
    }
    rc = db_logs_list(m->reader, &filter, req->arena, &list, err);
    if (rc) return rc;
    list.total = (int64_t)list.n;
    api_reply_list(req, "logs", &log_line_table, &list, "id");
    return 0;
}

// --- from tasks whose output the master cannot follow

struct line_body {
    int64_t time_us;
    int level;
    struct opt_int rank;
    const char *source, *stdtype, *agent_id, *container_id, *log;
};

struct logs_body {
    LIST_OF(struct line_body) logs;
};

#define F(kind, member, ...) .type = kind, .offset = offsetof(struct line_body, member), __VA_ARGS__

static const struct field line_fields[] = {
    {.name = "timestamp", F(FIELD_CODEC, time_us, .codec = &timestamp_codec, .help = "When.")},
    {.name = "level",
     F(FIELD_ENUM, level, .values = log_level_names, .def = "LOG_LEVEL_INFO", .help = "Level.")},
    {.name = "rankId", F(FIELD_OPT_INT, rank, .help = "Rank of the process.")},
    {.name = "source", F(FIELD_STR, source, .help = "Where it comes from.")},
    {.name = "stdtype", F(FIELD_STR, stdtype, .help = "stdout or stderr.")},
    {.name = "agentId", F(FIELD_STR, agent_id, .help = "Machine.")},
    {.name = "containerId", F(FIELD_STR, container_id, .help = "Container.")},
    {.name = "log", F(FIELD_STR, log, .required = true, .help = "The text.")},
};
#undef F
static const struct field_table line_table = {.size = sizeof(struct line_body),
                                              FIELD_ROWS(line_fields)};
static const struct field line_item = {.type = FIELD_TABLE, .table = &line_table};
static const struct field logs_fields[] = {
    {.name = "logs",
     .type = FIELD_LIST,
     .offset = offsetof(struct logs_body, logs),
     .item = &line_item,
     .required = true,
     .help = "Lines, in order."},
};
static const struct field_table logs_table = {.size = sizeof(struct logs_body),
                                              FIELD_ROWS(logs_fields)};

static int post_logs(struct http_request *req, det_err *err)
{
    const struct logs_body *body = req->input;
    const struct identity *who = identity_of(req);
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    for (size_t i = 0; i < body->logs.n; i++) {
        const struct line_body *l = &body->logs.items[i];
        const struct log_line row = {
            .trial_id = who->trial->row.id,
            .time_us = l->time_us ? l->time_us : clock_unix_us(),
            .level = (enum log_level)l->level,
            .rank = l->rank,
            .allocation_id = who->allocation->row.id,
            .agent_id = l->agent_id,
            .container_id = l->container_id,
            .source = l->source,
            .stdtype = l->stdtype,
            .log = l->log,
        };
        db_log_add(tx, &row);
    }
    return api_finish(req, tx, 0, NULL);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/trials/{trial:int}/logs", .handle = get_logs, .query = &log_query_table,
     .summary = "Output of a trial; with follow, as a stream of events."},
    {HTTP_POST, "/api/v1/task/logs", .auth = HTTP_AUTH_TASK, .handle = post_logs,
     .input = &logs_table, .max_body = 16 << 20, .summary = "Adds lines to the task's log."},
};

const struct http_table log_routes = HTTP_TABLE(routes);
