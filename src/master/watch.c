// Unit watch.c: those who watch, and what they want to hear of. Events have numbers and are kept
// for a while, so that a client that comes back gets what it has missed; one that has missed too
// much is told to read everything again ("resync").
#include "master/events.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "master/routes.h"
#include "sys/clock.h"
#include <sodium.h>

enum {
    MAX_TOPICS = 100,
    KEPT_EVENTS = 4096,
    KEPT_BYTES = 4 << 20,
    COME_BACK_US = 60 * 1000000, // events are kept for those who are away no longer
    ID_BYTES = 48,
};

// --- topics

enum topic_kind {
    TOPIC_EXPERIMENTS,
    TOPIC_TRIALS,
    TOPIC_QUEUE,
    TOPIC_EXPERIMENT, // from here on with a number
    TOPIC_METRICS,
    TOPIC_TRIAL,
    TOPIC_LOGS,
    N_TOPIC
};

static const char *const topic_names[] = {"experiments", "trials", "queue", "experiment",
                                          "metrics",     "trial",  "logs"};

struct topic {
    enum topic_kind kind;
    int64_t id;
};

static int read_topic(struct str text, struct topic *out, det_err *err)
{
    struct str number = text, name = str_cut(&number, ':');
    for (int i = 0; i < N_TOPIC; i++) {
        bool has_number = i >= TOPIC_EXPERIMENT;
        if (!str_eqz(name, topic_names[i]) || has_number != (number.ptr != NULL)) continue;
        *out = (struct topic){(enum topic_kind)i, 0};
        if (!has_number || number_to_int(number, 10, &out->id)) return 0;
    }
    return det_fail(err, DET_EINVAL,
                    "topics are experiments, trials, queue, experiment:ID, metrics:ID (of an "
                    "experiment), trial:ID and logs:ID (of a trial), with commas between them; "
                    "found '%.*s'",
                    (int)MIN(text.len, 60), text.ptr);
}

// --- what is kept

struct kept {
    uint64_t number;
    struct event event; // its texts are behind it
};

struct watcher {
    struct master *master;
    struct viewer viewer;
    struct http_stream *stream;
    struct topic *topics;
    size_t n_topics;
    struct watcher *next, *before;
};

struct watching {
    struct watcher *watchers;
    int64_t n_watchers;
    int64_t left_us;                // of the monotonic clock: when the last one went
    uint32_t epoch;                 // of this master: numbers begin anew with each
    uint64_t last;                  // number of the latest event
    uint64_t missed;                // up to this number there are none
    struct kept *kept[KEPT_EVENTS]; // by number, the oldest first, from `first` on
    size_t first, n_kept, n_bytes;
};

static size_t size_of(const struct event *e)
{
    return e->whole.len + (e->owner_id ? e->shown.len : 0);
}

static void drop_oldest(struct watching *w)
{
    struct kept *k = w->kept[w->first];
    w->missed = MAX(w->missed, k->number);
    w->n_bytes -= size_of(&k->event);
    w->first = (w->first + 1) % KEPT_EVENTS;
    w->n_kept--;
    free(k);
}

static void put_id(const struct watching *w, uint64_t number, char out[ID_BYTES])
{
    snprintf(out, ID_BYTES, "id: %08x-%llu\n", w->epoch, (unsigned long long)number);
}

// The event with its number in front.
static struct kept *keep(struct watching *w, const struct event *event)
{
    char id[ID_BYTES];
    put_id(w, ++w->last, id);
    size_t n_id = strlen(id), n_whole = n_id + event->whole.len, n_shown = n_id + event->shown.len;
    struct kept *k = xmalloc(sizeof *k + n_whole + (event->owner_id ? n_shown : 0));
    char *at = (char *)(k + 1);
    *k = (struct kept){.number = w->last, .event = *event};
    k->event.whole = k->event.shown = (struct str){at, n_whole};
    memcpy(at, id, n_id);
    memcpy(at + n_id, event->whole.ptr, event->whole.len);
    if (event->owner_id) {
        at += n_whole;
        k->event.shown = (struct str){at, n_shown};
        memcpy(at, id, n_id);
        memcpy(at + n_id, event->shown.ptr, event->shown.len);
    }
    while (w->n_kept && (w->n_kept == KEPT_EVENTS || w->n_bytes > KEPT_BYTES))
        drop_oldest(w);
    w->kept[(w->first + w->n_kept++) % KEPT_EVENTS] = k;
    w->n_bytes += size_of(&k->event);
    return k;
}

// --- those who watch

static bool wants(const struct watcher *x, const struct event *e)
{
    // Which topics an event belongs to; those with a number by the experiment's or the trial's.
    static const unsigned topics_of[] = {
        [EVENT_METRICS] = 1U << TOPIC_METRICS | 1U << TOPIC_TRIAL,
        [EVENT_CHECKPOINT] = 1U << TOPIC_EXPERIMENT | 1U << TOPIC_TRIAL,
        [EVENT_LOGS] = 1U << TOPIC_LOGS,
        [EVENT_RESOURCES] = 1U << TOPIC_TRIAL,
        [EVENT_TRIAL] = 1U << TOPIC_TRIALS | 1U << TOPIC_EXPERIMENT | 1U << TOPIC_TRIAL,
        [EVENT_EXPERIMENT] = 1U << TOPIC_EXPERIMENTS | 1U << TOPIC_EXPERIMENT,
        [EVENT_QUEUE] = 1U << TOPIC_QUEUE,
    };
    for (size_t i = 0; i < x->n_topics; i++) {
        const struct topic *t = &x->topics[i];
        if (!(topics_of[e->kind] >> t->kind & 1)) continue;
        bool by_trial = t->kind == TOPIC_TRIAL || t->kind == TOPIC_LOGS;
        if (t->kind < TOPIC_EXPERIMENT || t->id == (by_trial ? e->trial_id : e->experiment_id))
            return true;
    }
    return false;
}

static void send_to(const struct watcher *x, const struct event *e)
{
    bool may = !e->owner_id || viewer_owns(&x->viewer, e->owner_id);
    if (wants(x, e)) http_stream_write(x->stream, may ? e->whole : e->shown);
}

bool watch_is_on(struct master *m)
{
    const struct watching *w = m->watching;
    if (!w) return false;
    return w->watchers || clock_mono_us() - w->left_us < COME_BACK_US;
}

int64_t watch_n(const struct master *m)
{
    return m->watching ? m->watching->n_watchers : 0;
}

void watch_missed(struct master *m)
{
    struct watching *w = m->watching;
    if (!w) return;
    w->missed = ++w->last;
    while (w->n_kept)
        drop_oldest(w);
    for (const struct watcher *x = w->watchers; x; x = x->next)
        http_send_event(x->stream, NULL, "resync", STR("{}"));
}

void watch_send(struct master *m, const struct event *event)
{
    struct watching *w = m->watching;
    if (!w) return;
    const struct kept *k = keep(w, event);
    for (const struct watcher *x = w->watchers; x; x = x->next)
        send_to(x, &k->event);
}

void watch_close(struct master *m)
{
    while (m->watching && m->watching->n_kept)
        drop_oldest(m->watching);
    free(m->watching);
    m->watching = NULL;
}

static struct watching *open_watching(struct master *m)
{
    if (m->watching) return m->watching;
    m->watching = xcalloc(1, sizeof *m->watching);
    m->watching->epoch = randombytes_random();
    return m->watching;
}

static void closed(void *ctx)
{
    struct watcher *x = ctx;
    struct watching *w = x->master->watching;
    *(x->before ? &x->before->next : &w->watchers) = x->next;
    if (x->next) x->next->before = x->before;
    if (!--w->n_watchers) w->left_us = clock_mono_us();
    free(x->topics);
    free(x);
}

// --- coming back

// "<epoch>-<number>" of an event of this master.
static bool read_id(const struct watching *w, const char *text, uint64_t *out)
{
    struct str number = str_from(text), epoch = str_cut(&number, '-');
    int64_t e, n;
    if (!number.ptr || !number_to_int(epoch, 16, &e) || !number_to_int(number, 10, &n))
        return false;
    *out = (uint64_t)n;
    return (uint64_t)e == w->epoch && *out <= w->last;
}

// Tells where the stream is, and what the client has missed since the event it had last.
static void catch_up(const struct watching *w, const struct watcher *x, const char *last_id)
{
    char id[ID_BYTES + 2];
    uint64_t number = w->last;
    bool knows = !last_id || (read_id(w, last_id, &number) && number >= w->missed);
    for (size_t i = 0; knows && i < w->n_kept; i++) {
        const struct kept *k = w->kept[(w->first + i) % KEPT_EVENTS];
        if (k->number > number) send_to(x, &k->event);
    }
    put_id(w, w->last, id);
    http_stream_write(x->stream, str_from(id));
    http_stream_write(x->stream, knows ? STR("\n") : STR("event: resync\ndata: {}\n\n"));
}

static int begin(struct http_request *req, const struct topic *topics, size_t n,
                 const char *last_id)
{
    struct master *m = req->user;
    struct watching *w = open_watching(m);
    struct watcher *x = xcalloc(1, sizeof *x);
    const struct http_stream_opts opts = {.closed = closed, .ctx = x, .resyncs = true};
    *x = (struct watcher){.master = m, .viewer = auth_viewer(req), .n_topics = n};
    x->topics = xcalloc(n + 1, sizeof *x->topics);
    if (n) memcpy(x->topics, topics, n * sizeof *topics);
    x->next = w->watchers;
    if (x->next) x->next->before = x;
    w->watchers = x;
    w->n_watchers++;
    x->stream = http_stream_start(req, &opts);
    catch_up(w, x, last_id);
    return 0;
}

static int get_events(struct http_request *req, det_err *err)
{
    static const struct topic topics[] = {{TOPIC_EXPERIMENTS, 0}, {TOPIC_TRIALS, 0}};
    (void)err;
    return begin(req, topics, STATIC_LEN(topics), http_header(req, "Last-Event-ID"));
}

struct stream_query {
    const char *topics, *last_id;
};

static const struct field stream_fields[] = {
    {.name = "topics",
     .type = FIELD_STR,
     .offset = offsetof(struct stream_query, topics),
     .required = true,
     .help =
         "experiments, trials, queue, experiment:ID, metrics:ID, trial:ID, logs:ID, with commas "
         "between them."},
    {.name = "lastEventId",
     .type = FIELD_STR,
     .offset = offsetof(struct stream_query, last_id),
     .help = "The same as the header Last-Event-ID, which comes first."},
};
static const struct field_table stream_table = {.size = sizeof(struct stream_query),
                                                FIELD_ROWS(stream_fields)};

static int get_stream(struct http_request *req, det_err *err)
{
    const struct stream_query *q = req->query;
    const char *last_id = http_header(req, "Last-Event-ID");
    struct topic topics[MAX_TOPICS];
    size_t n = 0;
    for (struct str rest = str_from(q->topics); rest.ptr;) {
        if (n == MAX_TOPICS)
            return det_fail(err, DET_ELIMIT, "a stream has at most %d topics", MAX_TOPICS);
        int rc = read_topic(str_cut(&rest, ','), &topics[n++], err);
        if (rc) return rc;
    }
    return begin(req, topics, n, last_id ? last_id : q->last_id);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/stream", .handle = get_stream, .query = &stream_table,
     .content = HTTP_EVENTS,
     .summary = "What changes about the topics: records, and hints to read again."},
    {HTTP_GET, "/api/v1/events", .handle = get_events, .content = HTTP_EVENTS,
     .summary = "Records of experiments and trials, whenever they change."},
};

const struct http_table event_routes = HTTP_TABLE(routes);
