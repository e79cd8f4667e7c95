// Unit logs.c: output of tasks into the database, and from there to those who follow it.
#include "master/logs.h"

#include "base/json.h"
#include "base/mem.h"
#include "master/policy.h"
#include "sys/clock.h"
#include "sys/log.h"

enum { LINES_AT_ONCE = 500, BYTES_AT_ONCE = 256 << 10 };

// --- in

// A page of a task's output on its way into the database. One at a time of each allocation: so
// memory is limited, and a task that prints much is no more than one among others; the rest of its
// output waits in its spool (task/task.h), and if that is full, the task does.
struct pull {
    struct master *master;
    struct live_allocation *allocation; // not to be touched by the worker
    struct db_tx *tx;
    const struct policies *policies;
    uint64_t matched; // policies, before and after
    int64_t trial_id;
    const char *allocation_id;
    char *dir;
    int64_t offset; // where to read; then: where to go on
    int64_t n_lost_bytes;
    bool any;
    int rc;
    det_err err;
};

// "WARNING: ..." says its level.
static enum log_level level_of(struct str text)
{
    static const struct {
        struct str word;
        enum log_level level;
    } words[] = {
        {{"TRACE:", 6}, LOG_LEVEL_TRACE}, {{"DEBUG:", 6}, LOG_LEVEL_DEBUG},
        {{"INFO:", 5}, LOG_LEVEL_INFO},   {{"WARNING:", 8}, LOG_LEVEL_WARNING},
        {{"ERROR:", 6}, LOG_LEVEL_ERROR}, {{"CRITICAL:", 9}, LOG_LEVEL_CRITICAL},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_starts(text, words[i].word)) return words[i].level;
    return LOG_LEVEL_INFO;
}

// Texts end at the first NUL, which a task may well print.
static const char *line_text(const struct task_line *line, struct arena *arena)
{
    char *text = arena_alloc(arena, line->text.len + 2);
    for (size_t i = 0; i < line->text.len; i++)
        text[i] = line->text.ptr[i] ? line->text.ptr[i] : ' ';
    if (!line->partial) text[line->text.len] = '\n';
    return text;
}

static struct log_line line_of(const struct pull *p, const struct task_line *line,
                               struct arena *arena)
{
    static const char *const streams[] = {"stdout", "stderr", NULL};
    return (struct log_line){
        .trial_id = p->trial_id,
        .time_us = line->time_us,
        .level = level_of(line->text),
        .rank = {line->stream != TASK_SHIM, line->rank},
        .allocation_id = p->allocation_id,
        .source = line->stream == TASK_SHIM ? "shim" : "task",
        .stdtype = streams[line->stream],
        .log = line_text(line, arena),
    };
}

// By the worker: the slow part, of a size that the task decides. What is durable is removed from
// the spool, by which the shim knows that it can go on.
static void read_page(void *ctx)
{
    struct pull *p = ctx;
    struct arena arena = ARENA_INIT;
    struct task_page page = {0};
    task_log_trim(p->dir, p->offset);
    p->rc = task_log_read(p->dir, p->offset, &arena, &page, &p->err);
    struct log_line *lines = arena_array(&arena, page.lines.n, sizeof *lines);
    for (size_t i = 0; i < page.lines.n; i++) {
        lines[i] = line_of(p, &page.lines.items[i], &arena);
        if (page.lines.items[i].stream != TASK_SHIM)
            p->matched |= policies_match(p->policies, p->matched, lines[i].log);
    }
    p->n_lost_bytes = page.n_lost_bytes;
    p->any = page.lines.n > 0;
    if (p->any) db_logs_add(p->tx, lines, page.lines.n);
    if (!p->rc) p->offset = page.next;
    arena_done(&arena);
}

// Nothing of this allocation is on its way any more.
static void end_pull(struct pull *p)
{
    struct live_allocation *a = p->allocation;
    a->pulling = false;
    if (a->pull_again)
        logs_pull(a);
    else if (a->exited)
        allocation_drained(a);
    free(p->dir);
    free(p);
}

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct pull *p = ctx;
    if (code) log_warn("log of trial %lld: %s", (long long)p->trial_id, err->msg);
    logs_wake(p->master, p->trial_id);
    end_pull(p);
}

static void on_page(void *ctx)
{
    struct pull *p = ctx;
    struct live_allocation *a = p->allocation;
    struct live_trial *t = a->trial;
    if (p->rc) log_warn("allocation %s: %s", a->row.id, p->err.msg);
    if (p->n_lost_bytes)
        logs_say(t, LOG_LEVEL_WARNING, p->tx, "%lld bytes of output were too much to keep",
                 (long long)p->n_lost_bytes);
    policies_act(t, p->matched, p->tx);
    a->pull_again |= p->any; // there may be more
    a->row.log_offset = p->offset;
    if (p->any || p->n_lost_bytes) {
        allocation_save(a, p->tx);
        db_tx_submit_must(p->tx, on_durable, p);
        return;
    }
    db_tx_free(p->tx);
    end_pull(p);
}

void logs_pull(struct live_allocation *a)
{
    struct master *m = a->trial->experiment->master;
    const struct rm_alloc *found = rm_find(m->rm, a->row.token);
    a->pull_again = true;
    // Without space, and while the database has enough to do, output stays where it is.
    if (a->pulling || m->stopping || !found || db_refuses(m->db, NULL) || db_is_busy(m->db)) return;
    struct pull *p = xcalloc(1, sizeof *p);
    *p = (struct pull){.master = m,
                       .allocation = a,
                       .tx = db_tx_new(m->db),
                       .policies = a->trial->experiment->policies,
                       .matched = a->trial->policies_seen,
                       .trial_id = a->row.trial_id,
                       .allocation_id = a->row.id,
                       .dir = xstrdup(found->dir),
                       .offset = a->row.log_offset};
    a->pulling = true;
    a->pull_again = false;
    worker_run(m->log_worker, read_page, on_page, p);
}

void logs_pull_waiting(struct master *m)
{
    for (size_t i = 0; i < m->allocations.n; i++) {
        struct live_allocation *a = m->allocations.items[i].value;
        if (a->pull_again && !a->pulling) logs_pull(a);
    }
}

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
    struct master *master;
    struct http_stream *stream;
    struct log_filter filter; // lists live in the arena
    struct arena arena;
    bool idle; // it has everything there is
    struct follower *next;
};

static void closed(void *ctx)
{
    struct follower *f = ctx;
    struct follower **at = &f->master->followers;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    arena_done(&f->arena);
    free(f);
}

static void send_line(struct follower *f, const struct log_line *line, struct arena *arena)
{
    struct buf out = BUF_INIT(1 << 20);
    struct json_writer w;
    char id[32];
    snprintf(id, sizeof id, "%lld", (long long)line->id);
    json_init(&w, &out, 0);
    json_put_doc(&w, field_write(arena, &log_line_table, line, false));
    http_send_event(f->stream, id, NULL, buf_str(&out));
    buf_done(&out);
}

static void pull(void *ctx, struct http_stream *stream)
{
    struct follower *f = ctx;
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    det_err err;
    f->stream = stream;
    // Whether it has ended is looked at first: then no line can come after the last one found.
    bool ended = !set_find(&f->master->trials, f->filter.trial_id);
    if (db_logs_list(f->master->reader, &f->filter, &arena, &list, &err))
        log_warn("log of trial %lld: %s", (long long)f->filter.trial_id, err.msg);
    const struct log_line *lines = list.items;
    f->idle = !list.n && !ended;
    for (size_t i = 0; i < list.n && http_stream_queued(stream) < BYTES_AT_ONCE; i++) {
        send_line(f, &lines[i], &arena);
        f->filter.after_id = lines[i].id;
    }
    if (!list.n && ended) {
        http_send_event(stream, NULL, "end", STR("{}"));
        http_stream_end(stream);
    }
    arena_done(&arena);
}

static const struct doc *keep(struct follower *f, const struct doc *list)
{
    return list ? doc_copy(&f->arena, list) : NULL;
}

void logs_follow(struct http_request *req, const struct log_filter *filter)
{
    struct master *m = req->user;
    struct follower *f = xcalloc(1, sizeof *f);
    f->master = m;
    f->filter = *filter;
    f->filter.levels = keep(f, filter->levels);
    f->filter.ranks = keep(f, filter->ranks);
    f->filter.stdtypes = keep(f, filter->stdtypes);
    f->filter.sources = keep(f, filter->sources);
    f->filter.search = filter->search ? arena_strdup(&f->arena, filter->search) : NULL;
    f->filter.newest_first = false;
    f->filter.limit = LINES_AT_ONCE;
    f->next = m->followers;
    m->followers = f;
    const struct http_stream_opts opts = {
        .content_type = http_content_type(HTTP_EVENTS), .pull = pull, .closed = closed, .ctx = f};
    f->stream = http_stream_start(req, &opts);
}

static void wake(struct follower *f)
{
    if (f->idle) pull(f, f->stream);
}

void logs_wake(struct master *m, int64_t trial_id)
{
    for (struct follower *f = m->followers, *next; f; f = next) {
        next = f->next; // f may be gone
        if (f->filter.trial_id == trial_id) wake(f);
    }
}

void logs_wake_all(struct master *m)
{
    for (struct follower *f = m->followers, *next; f; f = next) {
        next = f->next;
        wake(f);
    }
}
