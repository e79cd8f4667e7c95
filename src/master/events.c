// Unit events.c: GET /api/v1/events. Changes are gathered for a moment, so that a record that
// changes a thousand times a second is not sent as often; what is sent is read from the database,
// so it is never ahead of the disk.
#include "master/events.h"

#include "base/json.h"
#include "base/mem.h"
#include "master/routes.h"
#include "sys/log.h"

enum { GATHER_US = 50000 };

struct mark {
    enum event_kind kind;
    int64_t id;
};

struct watcher {
    struct master *master;
    struct viewer viewer;
    struct http_stream *stream;
    struct watcher *next;
};

struct events {
    struct watcher *watchers;
    struct loop_timer timer;
    struct mark *marks;
    size_t n, cap;
};

// What one transaction after another has brought; sent when all before it is durable.
struct flush {
    struct master *master;
    struct mark *marks;
    size_t n;
};

static int by_mark(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void put_record(struct buf *out, const struct field_table *table, const void *record,
                       struct arena *arena)
{
    struct json_writer w;
    json_init(&w, out, 0);
    api_put_record(&w, arena, table, record);
}

static void send_experiment(struct master *m, struct experiment *row, struct arena *arena)
{
    struct buf whole = BUF_INIT(API_MAX_REPLY), hidden = BUF_INIT(API_MAX_REPLY);
    put_record(&whole, &experiment_table, row, arena);
    for (const struct watcher *x = m->events->watchers; x; x = x->next) {
        bool reads = viewer_may_read(&x->viewer, row);
        if (!reads && !hidden.len) {
            struct experiment shown = *row;
            viewer_hide(&x->viewer, &shown);
            put_record(&hidden, &experiment_table, &shown, arena);
        }
        http_send_event(x->stream, NULL, "experiment", buf_str(reads ? &whole : &hidden));
    }
    buf_done(&whole);
    buf_done(&hidden);
}

static void send_trial(struct master *m, const struct trial *row, struct arena *arena)
{
    struct buf out = BUF_INIT(API_MAX_REPLY);
    put_record(&out, &trial_table, row, arena);
    for (const struct watcher *x = m->events->watchers; x; x = x->next)
        http_send_event(x->stream, NULL, "trial", buf_str(&out));
    buf_done(&out);
}

static void send_mark(struct master *m, const struct mark *mark)
{
    struct arena arena = ARENA_INIT;
    struct experiment e;
    struct trial t;
    if (mark->kind == EVENT_EXPERIMENT &&
        !db_experiment_find(m->reader, mark->id, &arena, &e, NULL))
        send_experiment(m, &e, &arena);
    if (mark->kind == EVENT_TRIAL && !db_trial_find(m->reader, mark->id, &arena, &t, NULL))
        send_trial(m, &t, &arena);
    arena_done(&arena);
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct flush *f = ctx;
    if (code) log_warn("changes are not shown: %s", err->msg);
    for (size_t i = 0; !code && i < f->n; i++)
        if (!i || by_mark(&f->marks[i], &f->marks[i - 1])) send_mark(f->master, &f->marks[i]);
    free(f->marks);
    free(f);
}

static void flush(void *ctx)
{
    struct master *m = ctx;
    struct events *v = m->events;
    struct flush *f = xmalloc(sizeof *f);
    *f = (struct flush){m, v->marks, v->n};
    v->marks = NULL;
    v->n = v->cap = 0;
    if (f->n) qsort(f->marks, f->n, sizeof *f->marks, by_mark);
    db_tx_submit(db_tx_new(m->db), on_durable, f);
}

void events_mark(struct master *m, enum event_kind kind, int64_t id)
{
    struct events *v = m->events;
    if (!v || !v->watchers) return;
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 64;
        v->marks = xrealloc(v->marks, v->cap * sizeof *v->marks);
    }
    v->marks[v->n++] = (struct mark){kind, id};
    if (!v->timer.place) loop_timer_set(m->loop, &v->timer, GATHER_US);
}

static void closed(void *ctx)
{
    struct watcher *w = ctx;
    struct watcher **at = &w->master->events->watchers;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
}

static int get_events(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct watcher *w = xcalloc(1, sizeof *w);
    (void)err;
    if (!m->events) {
        m->events = xcalloc(1, sizeof *m->events);
        m->events->timer = (struct loop_timer){.fn = flush, .ctx = m};
    }
    const struct http_stream_opts opts = {.closed = closed, .ctx = w, .resyncs = true};
    *w = (struct watcher){.master = m, .viewer = auth_viewer(req), .next = m->events->watchers};
    m->events->watchers = w;
    w->stream = http_stream_start(req, &opts);
    return 0;
}

void events_close(struct master *m)
{
    if (!m->events) return;
    free(m->events->marks);
    free(m->events);
    m->events = NULL;
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/events", .handle = get_events, .content = HTTP_EVENTS,
     .summary = "Records of experiments and trials, whenever they change."},
};

const struct http_table event_routes = HTTP_TABLE(routes);
