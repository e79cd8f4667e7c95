// Unit events.c: GET /api/v1/events. Changes are gathered for a moment, so that a record that
// changes a thousand times a second is not sent as often; what is sent is read from the database,
// so it is never ahead of the disk.
#include "master/events.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include "master/routes.h"
#include "sys/log.h"

enum {
    GATHER_US = 50000,
    PIECE_BYTES = 64 << 10,
    SENT_BYTES = 2 << 20, // to all watchers in one turn of the loop
    MAX_PARTS = 64,       // of a piece
    MAX_BYTES = 16 << 20
};

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
    bool is_sending; // one flush at a time, or an older state of a record might come last
};

struct range {
    size_t start, end; // bytes of flush.out
};

// One event: as its owner and administrators see it, and as all others do.
struct part {
    int64_t owner_id;
    struct range whole, shown;
};

// What one transaction after another has brought; read when all before it is durable, and sent.
struct flush {
    struct master *master;
    struct mark *marks;
    size_t n, at;
    size_t max_bytes; // of a piece: the more watchers, the fewer
    struct buf out;
    struct part parts[MAX_PARTS];
    size_t n_parts;
};

static int by_mark(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void put_event(struct flush *f, struct range *out, const char *name,
                      const struct field_table *table, const void *record, struct arena *arena)
{
    struct buf json = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    json_init(&w, &json, 0);
    api_put_record(&w, arena, table, record);
    out->start = f->out.len;
    http_put_event(&f->out, NULL, name, buf_str(&json));
    out->end = f->out.len;
    buf_done(&json);
}

static void put_experiment(struct flush *f, struct experiment *row, struct arena *arena)
{
    const struct viewer anybody = {.all_private = f->master->cfg->private};
    struct part *part = &f->parts[f->n_parts++];
    *part = (struct part){.owner_id = row->user_id};
    put_event(f, &part->whole, "experiment", &experiment_table, row, arena);
    part->shown = part->whole;
    if (viewer_may_read(&anybody, row)) return;
    viewer_hide(&anybody, row);
    put_event(f, &part->shown, "experiment", &experiment_table, row, arena);
}

static void put_trial(struct flush *f, const struct trial *row, struct arena *arena)
{
    struct part *part = &f->parts[f->n_parts++];
    *part = (struct part){0};
    put_event(f, &part->whole, "trial", &trial_table, row, arena);
    part->shown = part->whole;
}

static void put_mark(struct flush *f, struct db_reader *r, const struct mark *mark)
{
    struct arena arena = ARENA_INIT;
    struct experiment e;
    struct trial t;
    if (mark->kind == EVENT_EXPERIMENT && !db_experiment_find(r, mark->id, &arena, &e, NULL))
        put_experiment(f, &e, &arena);
    if (mark->kind == EVENT_TRIAL && !db_trial_find(r, mark->id, &arena, &t, NULL))
        put_trial(f, &t, &arena);
    arena_done(&arena);
}

// A piece of it, in a thread that reads.
static void read_some(void *ctx, void *own)
{
    struct flush *f = ctx;
    for (; f->at < f->n && f->out.len < f->max_bytes && f->n_parts < MAX_PARTS; f->at++)
        if (!f->at || by_mark(&f->marks[f->at], &f->marks[f->at - 1]))
            put_mark(f, own, &f->marks[f->at]);
}

static void flush_done(struct flush *f)
{
    struct events *v = f->master->events;
    v->is_sending = false;
    if (v->n && !v->timer.place) loop_timer_set(f->master->loop, &v->timer, 0);
    free(f->marks);
    buf_done(&f->out);
    free(f);
}

static void send_to(const struct flush *f, const struct watcher *x)
{
    for (size_t i = 0; i < f->n_parts; i++) {
        const struct part *p = &f->parts[i];
        const struct range *at = viewer_owns(&x->viewer, p->owner_id) ? &p->whole : &p->shown;
        http_stream_write(x->stream, (struct str){f->out.ptr + at->start, at->end - at->start});
    }
}

static void send_some(void *ctx);

static void go_on(struct flush *f)
{
    size_t n_watchers = 1;
    for (const struct watcher *x = f->master->events->watchers; x; x = x->next)
        n_watchers++;
    f->max_bytes = MIN(PIECE_BYTES, SENT_BYTES / n_watchers);
    f->n_parts = 0;
    buf_clear(&f->out);
    worker_run(f->master->workers[WORK_READ], &(struct work){read_some, send_some, f, 0});
}

static void send_some(void *ctx)
{
    struct flush *f = ctx;
    struct events *v = f->master->events;
    for (const struct watcher *x = v->watchers; buf_ok(&f->out) && x; x = x->next)
        send_to(f, x);
    if (f->at == f->n || !v->watchers)
        flush_done(f);
    else
        go_on(f);
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct flush *f = ctx;
    if (code) log_warn("changes are not shown: %s", err->msg);
    if (code)
        flush_done(f);
    else
        go_on(f);
}

static void flush(void *ctx)
{
    struct master *m = ctx;
    struct events *v = m->events;
    if (v->is_sending || !v->n) return; // it comes when that is done
    struct flush *f = xmalloc(sizeof *f);
    *f = (struct flush){.master = m, .marks = v->marks, .n = v->n, .out = BUF_INIT(MAX_BYTES)};
    v->marks = NULL;
    v->n = v->cap = 0;
    v->is_sending = true;
    qsort(f->marks, f->n, sizeof *f->marks, by_mark);
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
