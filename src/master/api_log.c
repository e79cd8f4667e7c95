// Unit api_log.c: routes about logs.
#include "master/routes.h"

#include "base/assert.h"
#include "base/number.h"
#include "master/feed.h"
#include "master/logs.h"
#include "sys/clock.h"

// Which lines; all routes that read logs take it.
struct which {
    int64_t after_us, before_us;
    LIST_OF(const char *) levels, stdtypes, sources;
    LIST_OF(int64_t) ranks;
    const char *search;
};

static const struct field text_item = {.type = FIELD_STR}, int_item = {.type = FIELD_INT};

#define W(owner, kind, member, ...) \
    .type = kind, .offset = offsetof(owner, which.member), __VA_ARGS__
// clang-format off
#define WHICH_FIELDS(owner)                                                                        \
    {.name = "timestampAfter",                                                                     \
     W(owner, FIELD_CODEC, after_us, .codec = &timestamp_codec, .help = "Later.")},                \
    {.name = "timestampBefore",                                                                    \
     W(owner, FIELD_CODEC, before_us, .codec = &timestamp_codec, .help = "Earlier.")},             \
    {.name = "level",                                                                              \
     W(owner, FIELD_LIST, levels, .item = &text_item, .help = "One of these levels.")},            \
    {.name = "stdtype",                                                                            \
     W(owner, FIELD_LIST, stdtypes, .item = &text_item, .help = "stdout, stderr.")},               \
    {.name = "source",                                                                             \
     W(owner, FIELD_LIST, sources, .item = &text_item, .help = "task, master, shim.")},            \
    {.name = "rankId",                                                                             \
     W(owner, FIELD_LIST, ranks, .item = &int_item, .help = "One of these ranks.")},               \
    {.name = "searchText", W(owner, FIELD_STR, search, .help = "Contained in the line.")}
// clang-format on

struct log_query {
    bool follow;
    int64_t after, before, offset, limit;
    int order_by;
    struct which which;
};

#define F(kind, member, ...) .type = kind, .offset = offsetof(struct log_query, member), __VA_ARGS__

static const struct field log_fields[] = {
    {.name = "follow", F(FIELD_BOOL, follow, .help = "Stream lines as they come.")},
    {.name = "after", F(FIELD_INT, after, .help = "Only lines after this number.")},
    {.name = "before", F(FIELD_INT, before, .help = "Only lines before this number.")},
    {.name = "limit",
     F(FIELD_INT, limit, .def = "1000", FIELD_MIN(-1), .help = "How many lines at most; -1: all.")},
    {.name = "offset", F(FIELD_INT, offset, FIELD_MIN(0), .help = "How many lines to pass over.")},
    {.name = "orderBy",
     F(FIELD_ENUM, order_by, .values = api_orders, .def = "ORDER_BY_ASC", .help = "Direction.")},
    WHICH_FIELDS(struct log_query),
};
#undef F
static const struct field_table log_query_table = {.size = sizeof(struct log_query),
                                                   FIELD_ROWS(log_fields)};

static struct log_filter filter_of(struct http_request *req, const struct which *w)
{
    struct doc *ranks = w->ranks.n ? doc_new(req->arena, DOC_LIST) : NULL;
    for (size_t i = 0; i < w->ranks.n; i++)
        doc_append(ranks, doc_new_int(req->arena, w->ranks.items[i]));
    return (struct log_filter){
        .trial_id = http_param_int(req, "trial"),
        .after_us = w->after_us,
        .before_us = w->before_us,
        .levels = api_list_doc(req->arena, w->levels.items, w->levels.n),
        .stdtypes = api_list_doc(req->arena, w->stdtypes.items, w->stdtypes.n),
        .sources = api_list_doc(req->arena, w->sources.items, w->sources.n),
        .ranks = ranks,
        .search = w->search,
    };
}

static const struct doc *copy_doc(struct arena *arena, const struct doc *doc)
{
    return doc ? doc_copy(arena, doc) : NULL;
}

// Of one read; then others have their turn.
enum { LINES_AT_ONCE = 500, EFFORT_BYTES = 16 << 20 };

struct lines {
    struct log_filter filter;
    int64_t n_left, n_skip;
    int64_t last; // number of the last line that was sent
    bool more;    // there may be more
    struct json_writer w;
};

// *goes_on: it has found many lines, so the next read is likely to be short, too.
static int put_lines(struct feed *f, struct db_reader *r, bool *goes_on, det_err *err)
{
    struct lines *s = f->source;
    struct arena arena = ARENA_INIT, record = ARENA_INIT;
    struct db_list list = {0};
    s->filter.limit = MIN(s->n_left + s->n_skip, LINES_AT_ONCE);
    int rc = db_logs_list(r, &s->filter, &arena, &list, err);
    const struct log_line *all = list.items;
    for (size_t i = 0; !rc && i < list.n; i++) {
        s->last = all[i].id;
        if (s->n_skip > 0) {
            s->n_skip--;
            continue;
        }
        api_put_record(&s->w, &record, &log_line_table, &all[i]);
        arena_done(&record);
        s->n_left--;
    }
    s->more = list.next != 0;
    if (s->more) *(s->filter.newest_first ? &s->filter.before_id : &s->filter.after_id) = list.next;
    *goes_on = s->more && (int64_t)list.n == s->filter.limit;
    arena_done(&arena);
    return rc;
}

// There is another line behind the last one.
static bool has_next(struct lines *s, struct db_reader *r)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    s->filter.limit = 1;
    s->filter.max_effort = 0;
    bool found = s->last && !db_logs_list(r, &s->filter, &arena, &list, NULL) && list.n;
    arena_done(&arena);
    return found;
}

static int next_lines(struct feed *f, struct db_reader *r, det_err *err)
{
    struct lines *s = f->source;
    bool goes_on = true;
    int rc = 0;
    if (!s->w.out) {
        json_init(&s->w, &f->out, 0);
        json_open_map(&s->w);
        json_key(&s->w, "logs");
        json_open_list(&s->w);
    }
    while (!rc && goes_on && s->n_left && f->out.len < FEED_PIECE_BYTES)
        rc = put_lines(f, r, &goes_on, err);
    if (rc || (s->more && s->n_left)) return rc;
    json_close(&s->w);
    const char *next = arena_printf(&f->arena, "%lld", (long long)s->last);
    api_put_pagination(&s->w, -1, s->more && has_next(s, r) ? next : NULL);
    json_close(&s->w);
    f->state = FEED_ENDS;
    return 0;
}

static int list_logs(struct http_request *req, const struct log_filter *filter, det_err *err)
{
    const struct log_query *q = req->query;
    struct feed *f = feed_new(req, &(struct feed_opts){.next = next_lines});
    struct lines *s = arena_alloc(&f->arena, sizeof *s);
    s->filter = *filter;
    s->filter.levels = copy_doc(&f->arena, filter->levels);
    s->filter.ranks = copy_doc(&f->arena, filter->ranks);
    s->filter.stdtypes = copy_doc(&f->arena, filter->stdtypes);
    s->filter.sources = copy_doc(&f->arena, filter->sources);
    s->filter.search = filter->search ? arena_strdup(&f->arena, filter->search) : NULL;
    s->n_left = q->limit < 0 ? INT64_MAX / 2 : q->limit;
    s->n_skip = q->offset;
    s->more = true;
    s->filter.max_effort = EFFORT_BYTES;
    f->source = s;
    return feed_begin(f, err);
}

static int check_reader(struct http_request *req, det_err *err)
{
    struct trial row;
    struct experiment e;
    int rc = db_trial_find(req->reader, http_param_int(req, "trial"), req->arena, &row, err);
    if (!rc) rc = db_experiment_find(req->reader, row.experiment_id, req->arena, &e, err);
    return rc ? rc : auth_may_read(req, &e, err);
}

static int read_logs(struct http_request *req, det_err *err)
{
    const struct log_query *q = req->query;
    struct log_filter filter = filter_of(req, &q->which);
    const char *last = http_header(req, "Last-Event-ID");
    int rc = check_reader(req, err);
    filter.after_id = q->after;
    filter.before_id = q->before;
    filter.newest_first = q->order_by;
    if (rc || !q->follow) return rc ? rc : list_logs(req, &filter, err);
    if (last) number_to_int(str_from(last), 10, &filter.after_id);
    logs_read_from(req, &filter);
    return 0;
}

static int get_logs(struct http_request *req, det_err *err)
{
    const struct log_query *q = req->query;
    return q->follow ? logs_follow(req, err) : feed_answer(req, err);
}

// --- places in a log: how many lines there are, which of them have a text

struct walk_query {
    struct which which;
    const char *cursor;
    bool any_case;
};

#define F(kind, member, ...) \
    .type = kind, .offset = offsetof(struct walk_query, member), __VA_ARGS__
static const struct field walk_fields[] = {
    {.name = "cursor", F(FIELD_STR, cursor, .help = "Go on where an answer before has ended.")},
    {.name = "anyCase", F(FIELD_BOOL, any_case, .help = "ASCII letters match in either case.")},
    WHICH_FIELDS(struct walk_query),
};
#undef F
static const struct field_table walk_table = {.size = sizeof(struct walk_query),
                                              FIELD_ROWS(walk_fields)};

static int read_cursor(const char *text, struct log_walk *out, det_err *err)
{
    struct str rest = str_from(text ? text : "0.0"), seen = str_cut(&rest, '.');
    bool good = rest.ptr && number_to_int(seen, 10, &out->seen) &&
                number_to_int(rest, 10, &out->n_lines) && out->seen >= 0 && out->n_lines >= 0;
    if (good) return 0;
    return det_fail(err, DET_EINVAL, "cursor must be that of an answer before, found '%.40s'",
                    text);
}

// [[line, id], ...]
static void put_marks(struct json_writer *w, const char *key, const struct log_mark *marks,
                      size_t n)
{
    json_key(w, key);
    json_open_list(w);
    for (size_t i = 0; i < n; i++) {
        json_open_list(w);
        json_put_int(w, marks[i].line);
        json_put_int(w, marks[i].id);
        json_close(w);
    }
    json_close(w);
}

static int walk(struct http_request *req, bool searches, det_err *err)
{
    const struct walk_query *q = req->query;
    struct log_filter filter = filter_of(req, &q->which);
    struct log_walk at = {0};
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    filter.any_case = q->any_case;
    filter.max_effort = EFFORT_BYTES;
    if (!searches) filter.search = NULL;
    int rc = check_reader(req, err);
    if (!rc) rc = read_cursor(q->cursor, &at, err);
    if (!rc && searches && (!filter.search || !*filter.search))
        rc = det_fail(err, DET_EINVAL, "searchText: what to look for is missing");
    if (!rc) rc = db_logs_walk(req->reader, &filter, &at, req->arena, err);
    if (rc) return rc;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "lines");
    json_put_int(&w, at.n_lines);
    if (searches)
        put_marks(&w, "matches", at.found.items, at.found.n);
    else
        put_marks(&w, "marks", at.marks.items, at.marks.n);
    json_key(&w, "cursor");
    json_put_str(&w,
                 arena_printf(req->arena, "%lld.%lld", (long long)at.seen, (long long)at.n_lines));
    json_key(&w, "done");
    json_put_bool(&w, at.at_end);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int read_extent(struct http_request *req, det_err *err)
{
    return walk(req, false, err);
}

static int read_matches(struct http_request *req, det_err *err)
{
    return walk(req, true, err);
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

static struct log_line line_of(const struct line_body *l, const struct session *who)
{
    return (struct log_line){
        .trial_id = who->trial_id,
        .time_us = l->time_us ? l->time_us : clock_unix_us(),
        .level = (enum log_level)l->level,
        .rank = l->rank,
        .allocation_id = who->allocation_id,
        .agent_id = l->agent_id,
        .container_id = l->container_id,
        .source = l->source,
        .stdtype = l->stdtype,
        .log = l->log,
    };
}

static void drop_tx(void *found)
{
    db_tx_free(found);
}

// Packing them takes its time.
static int read_lines(struct http_request *req, det_err *err)
{
    const struct logs_body *body = req->input;
    const struct master *m = req->user;
    struct db_tx *tx = db_tx_new(m->db);
    struct log_line *lines = arena_array(req->arena, body->logs.n, sizeof *lines);
    (void)err;
    for (size_t i = 0; i < body->logs.n; i++)
        lines[i] = line_of(&body->logs.items[i], &identity_of(req)->session);
    db_logs_add(tx, lines, body->logs.n);
    req->found = tx;
    req->drop = drop_tx;
    return 0;
}

static int post_logs(struct http_request *req, det_err *err)
{
    struct db_tx *lines = req->found;
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    db_tx_free(tx);
    req->found = NULL; // taken
    return api_finish(req, lines, 0, NULL);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/trials/{trial:int}/logs", .read = read_logs, .handle = get_logs,
     .query = &log_query_table,
     .summary = "Output of a trial; with follow, as a stream of events."},
    {HTTP_GET, "/api/v1/trials/{trial:int}/logs/extent", .read = read_extent, .query = &walk_table,
     .summary = "Number of lines of a log, and where some of them are; until done, in slices."},
    {HTTP_GET, "/api/v1/trials/{trial:int}/logs/search", .read = read_matches, .query = &walk_table,
     .summary = "Lines of a log that contain a text; until done, in slices."},
    {HTTP_POST, "/api/v1/task/logs", .auth = HTTP_AUTH_TASK, .read = read_lines,
     .handle = post_logs, .input = &logs_table, .max_body = 16 << 20,
     .summary = "Adds lines to the task's log."},
};

const struct http_table log_routes = HTTP_TABLE(routes);
