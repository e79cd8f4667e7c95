// Unit events.c: marks of what has changed become events. Changes are gathered for a moment, so
// that a record that changes a thousand times a second is not sent as often; what is sent is read
// from the database, so it is never ahead of the disk.
#include "master/events.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/routes.h"
#include "sys/log.h"

enum {
    GATHER_US = 50000,
    GATHER_MORE_US = 1000, // for each who watches: the more, the less often
    GATHER_MOST_US = 500000,
    PIECE_BYTES = 64 << 10,
    SENT_BYTES = 2 << 20, // to all watchers in one turn of the loop
    MAX_PARTS = 64,       // of a piece
    MAX_BYTES = 16 << 20,
    SAME_MARKS = 16, // the latest, which are looked through for one that says the same
};

struct events {
    struct loop_timer timer;
    struct event_mark *marks;
    size_t n, cap;
    bool is_sending; // one flush at a time, or an older state of a record might come last
};

// What one transaction after another has brought; read when all before it is durable, and sent.
struct flush {
    struct master *master;
    struct event_mark *marks;
    size_t n, at;
    size_t max_bytes; // of a piece: the more watchers, the fewer
    struct buf out;
    struct event parts[MAX_PARTS]; // their texts are in out, at the places of ptr - NULL
    size_t n_parts;
};

static int by_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_mark(const void *a, const void *b)
{
    const struct event_mark *x = a, *y = b;
    int order = by_number(x->kind, y->kind);
    if (!order) order = by_number(x->trial_id, y->trial_id);
    if (!order) order = by_number(x->experiment_id, y->experiment_id);
    if (!order) order = str_order(str_from(x->text), str_from(y->text));
    return order ? order : by_number(y->steps, x->steps); // the furthest first
}

static bool is_same(const struct event_mark *a, const struct event_mark *b)
{
    return a->kind == b->kind && a->trial_id == b->trial_id &&
           a->experiment_id == b->experiment_id && str_eq(str_from(a->text), str_from(b->text));
}

// --- in a thread that reads

// A text that is about to be made; out may still move.
static size_t begin_text(const struct flush *f)
{
    return f->out.len;
}

static struct str end_text(const struct flush *f, size_t begin)
{
    return (struct str){(const char *)(uintptr_t)begin, f->out.len - begin};
}

static struct event *add_part(struct flush *f, const struct event *part)
{
    f->parts[f->n_parts] = *part;
    return &f->parts[f->n_parts++];
}

static struct str put_record(struct flush *f, const char *name, const struct field_table *table,
                             const void *record, struct arena *arena)
{
    struct buf json = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    size_t begin = begin_text(f);
    json_init(&w, &json, 0);
    api_put_record(&w, arena, table, record);
    http_put_event(&f->out, NULL, name, buf_str(&json));
    buf_done(&json);
    return end_text(f, begin);
}

static void put_experiment(struct flush *f, struct experiment *row, struct arena *arena)
{
    const struct viewer anybody = {.all_private = f->master->cfg->private};
    struct event part = {.kind = EVENT_EXPERIMENT, .experiment_id = row->id};
    part.whole = part.shown = put_record(f, "experiment", &experiment_table, row, arena);
    if (!viewer_may_read(&anybody, row)) {
        part.owner_id = row->user_id;
        viewer_hide(&anybody, row);
        part.shown = put_record(f, "experiment", &experiment_table, row, arena);
    }
    add_part(f, &part);
}

static void put_trial(struct flush *f, const struct trial *row, struct arena *arena)
{
    struct event part = {
        .kind = EVENT_TRIAL, .experiment_id = row->experiment_id, .trial_id = row->id};
    part.whole = part.shown = put_record(f, "trial", &trial_table, row, arena);
    add_part(f, &part);
}

static void put_number(struct json_writer *w, const char *key, int64_t value)
{
    if (!value) return;
    json_key(w, key);
    json_put_int(w, value);
}

// What a mark itself says.
static void put_hint(struct flush *f, const struct event_mark *mark, const char *name)
{
    struct buf json = BUF_INIT(1 << 16);
    struct json_writer w;
    struct event part = {
        .kind = mark->kind, .experiment_id = mark->experiment_id, .trial_id = mark->trial_id};
    size_t begin = begin_text(f);
    json_init(&w, &json, 0);
    json_open_map(&w);
    put_number(&w, "experimentId", mark->experiment_id);
    put_number(&w, "trialId", mark->trial_id);
    if (mark->text) {
        json_key(&w, mark->kind == EVENT_METRICS ? "group" : "uuid");
        json_put_str(&w, mark->text);
    }
    if (mark->kind == EVENT_METRICS) {
        json_key(&w, "steps");
        json_put_int(&w, mark->steps);
    }
    json_close(&w);
    http_put_event(&f->out, NULL, name, buf_str(&json));
    buf_done(&json);
    part.whole = part.shown = end_text(f, begin);
    add_part(f, &part);
}

static void put_mark(struct flush *f, struct db_reader *r, const struct event_mark *mark)
{
    static const char *const names[] = {
        [EVENT_METRICS] = "metrics", [EVENT_CHECKPOINT] = "checkpoint",
        [EVENT_LOGS] = "logs",       [EVENT_RESOURCES] = "resources",
        [EVENT_TRIAL] = "trial",     [EVENT_EXPERIMENT] = "deleted",
        [EVENT_QUEUE] = "queue"};
    struct arena arena = ARENA_INIT;
    struct experiment e;
    struct trial t;
    if (mark->kind == EVENT_EXPERIMENT &&
        !db_experiment_find(r, mark->experiment_id, &arena, &e, NULL))
        put_experiment(f, &e, &arena);
    else if (mark->kind != EVENT_TRIAL)
        put_hint(f, mark, names[mark->kind]);
    else if (!db_trial_find(r, mark->trial_id, &arena, &t, NULL))
        put_trial(f, &t, &arena);
    arena_done(&arena);
}

// A piece of it.
static void read_some(void *ctx, void *own)
{
    struct flush *f = ctx;
    for (; f->at < f->n && f->out.len < f->max_bytes && f->n_parts < MAX_PARTS; f->at++)
        if (!f->at || !is_same(&f->marks[f->at], &f->marks[f->at - 1]))
            put_mark(f, own, &f->marks[f->at]);
}

// --- on the loop

static void free_marks(struct event_mark *marks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)(uintptr_t)marks[i].text);
    free(marks);
}

static void flush_done(struct flush *f)
{
    struct events *v = f->master->events;
    v->is_sending = false;
    if (v->n && !v->timer.place) loop_timer_set(f->master->loop, &v->timer, 0);
    free_marks(f->marks, f->n);
    buf_done(&f->out);
    free(f);
}

static void send_some(void *ctx);

static void go_on(struct flush *f)
{
    f->max_bytes = MIN(PIECE_BYTES, SENT_BYTES / (size_t)(1 + watch_n(f->master)));
    f->n_parts = 0;
    buf_clear(&f->out);
    worker_run(f->master->workers[WORK_READ], &(struct work){read_some, send_some, f, 0});
}

static void send_some(void *ctx)
{
    struct flush *f = ctx;
    if (!buf_ok(&f->out)) watch_missed(f->master);
    for (size_t i = 0; buf_ok(&f->out) && i < f->n_parts; i++) {
        struct event part = f->parts[i];
        part.whole.ptr = f->out.ptr + (uintptr_t)part.whole.ptr;
        part.shown.ptr = f->out.ptr + (uintptr_t)part.shown.ptr;
        watch_send(f->master, &part);
    }
    if (f->at == f->n)
        flush_done(f);
    else
        go_on(f);
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct flush *f = ctx;
    if (!code) {
        go_on(f);
        return;
    }
    log_warn("changes are not shown: %s", err->msg);
    watch_missed(f->master);
    flush_done(f);
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

static struct events *open_events(struct master *m)
{
    if (m->events) return m->events;
    m->events = xcalloc(1, sizeof *m->events);
    m->events->timer = (struct loop_timer){.fn = flush, .ctx = m};
    return m->events;
}

// Among the latest marks.
static bool is_marked(struct events *v, const struct event_mark *mark)
{
    for (size_t i = v->n; i > 0 && v->n - i < SAME_MARKS; i--) {
        struct event_mark *old = &v->marks[i - 1];
        if (!is_same(old, mark)) continue;
        old->steps = MAX(old->steps, mark->steps);
        return true;
    }
    return false;
}

void events_mark(struct master *m, const struct event_mark *mark)
{
    if (!watch_is_on(m)) {
        watch_missed(m);
        return;
    }
    struct events *v = open_events(m);
    if (is_marked(v, mark)) return;
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 64;
        v->marks = xrealloc(v->marks, v->cap * sizeof *v->marks);
    }
    v->marks[v->n] = *mark;
    if (mark->text) v->marks[v->n].text = xstrdup(mark->text);
    v->n++;
    if (!v->timer.place)
        loop_timer_set(m->loop, &v->timer,
                       MIN(GATHER_MOST_US, GATHER_US + GATHER_MORE_US * watch_n(m)));
}

void events_close(struct master *m)
{
    if (m->events) free_marks(m->events->marks, m->events->n);
    free(m->events);
    m->events = NULL;
    watch_close(m);
}
