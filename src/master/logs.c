// Unit logs.c: what the master says in the log of a trial, and those who follow it.
#include "master/logs.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include "master/events.h"
#include "master/feed.h"
#include "sys/clock.h"
#include "sys/log.h"

// Of one read; then others have their turn.
enum { LINES_AT_ONCE = 500, EFFORT_BYTES = 16 << 20 };

void logs_say(struct live_trial *t, enum log_level level, struct db_tx *tx, const char *fmt, ...)
{
    struct arena arena = ARENA_INIT;
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(&arena, fmt, args);
    va_end(args);
    const struct log_line row = {.trial_id = t->row.id,
                                 .time_us = clock_unix_us(),
                                 .level = level,
                                 .source = "master",
                                 .log = arena_printf(&arena, "%s\n", text)};
    db_log_add(tx, &row);
    arena_done(&arena);
}

// --- out

struct follower {
    struct feed *feed;
    struct log_filter filter;
    int64_t number; // of all followers there ever were
    enum { FOLLOWS, TRIAL_ENDS, TRIAL_ENDED } trial;
    struct follower *next;
};

static void unfollow(struct feed *feed)
{
    struct follower *f = feed->source, **at = &feed->master->followers;
    while (*at && *at != f)
        at = &(*at)->next;
    if (*at) *at = f->next;
}

// When all that the trial's end has written is durable, no line can come any more.
struct last_line {
    struct master *master;
    int64_t follower;
};

static void on_ended(void *ctx, int code, const det_err *err)
{
    struct last_line *last = ctx;
    struct follower *f = last->master->followers;
    (void)code, (void)err;
    while (f && f->number != last->follower)
        f = f->next;
    if (f) {
        f->trial = TRIAL_ENDED;
        feed_wake(f->feed);
    }
    free(last);
}

static void look(struct feed *feed)
{
    struct follower *f = feed->source;
    struct master *m = feed->master;
    if (f->trial != FOLLOWS || set_find(&m->trials, f->filter.trial_id)) return;
    struct last_line *last = xmalloc(sizeof *last);
    *last = (struct last_line){m, f->number};
    f->trial = TRIAL_ENDS;
    db_tx_submit(db_tx_new(m->db), on_ended, last);
}

static void put_line(struct buf *out, const struct log_line *line, struct arena *arena)
{
    struct buf json = BUF_INIT(16 << 20);
    struct json_writer w;
    char id[32];
    snprintf(id, sizeof id, "%lld", (long long)line->id);
    json_init(&w, &json, 0);
    json_put_doc(&w, field_write(arena, &log_line_table, line, false));
    http_put_event(out, id, NULL, buf_str(&json));
    buf_done(&json);
}

static int next_lines(struct feed *feed, struct db_reader *r, det_err *err)
{
    struct follower *f = feed->source;
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_logs_list(r, &f->filter, &arena, &list, err);
    const struct log_line *lines = list.items;
    size_t n = 0;
    for (; !rc && n < list.n && feed->out.len < FEED_PIECE_BYTES; n++) {
        put_line(&feed->out, &lines[n], &arena);
        f->filter.after_id = lines[n].id;
    }
    if (n == list.n) f->filter.after_id = MAX(f->filter.after_id, list.seen);
    if (!rc && !list.n && !list.next) {
        feed->state = f->trial == TRIAL_ENDED ? FEED_ENDS : FEED_WAITS;
        if (f->trial == TRIAL_ENDED) http_put_event(&feed->out, NULL, "end", STR("{}"));
    }
    arena_done(&arena);
    return rc;
}

static const struct doc *keep(struct feed *feed, const struct doc *list)
{
    return list ? doc_copy(&feed->arena, list) : NULL;
}

void logs_read_from(struct http_request *req, const struct log_filter *filter)
{
    struct feed *feed = feed_new(
        req, &(struct feed_opts){
                 .next = next_lines, .before = look, .closed = unfollow, .content = HTTP_EVENTS});
    struct follower *f = arena_alloc(&feed->arena, sizeof *f);
    feed->source = f;
    f->feed = feed;
    f->filter = *filter;
    f->filter.levels = keep(feed, filter->levels);
    f->filter.ranks = keep(feed, filter->ranks);
    f->filter.stdtypes = keep(feed, filter->stdtypes);
    f->filter.sources = keep(feed, filter->sources);
    f->filter.search = filter->search ? arena_strdup(&feed->arena, filter->search) : NULL;
    f->filter.newest_first = false;
    f->filter.limit = LINES_AT_ONCE;
    f->filter.max_effort = EFFORT_BYTES;
}

int logs_follow(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct follower *f = ((struct feed *)req->found)->source;
    f->number = ++m->n_followers;
    f->next = m->followers;
    m->followers = f;
    return feed_answer(req, err);
}

void logs_wake(struct master *m, int64_t trial_id)
{
    events_mark(m, &(struct event_mark){.kind = EVENT_LOGS, .trial_id = trial_id});
    for (struct follower *f = m->followers; f; f = f->next)
        if (f->filter.trial_id == trial_id) feed_wake(f->feed);
}

void logs_wake_all(struct master *m)
{
    for (struct follower *f = m->followers; f; f = f->next)
        feed_wake(f->feed);
}
