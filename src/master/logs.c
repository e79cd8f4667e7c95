// Unit logs.c: output of tasks into the database, and from there to those who follow it.
#include "master/logs.h"

#include "base/json.h"
#include "base/mem.h"
#include "master/policy.h"
#include "sys/clock.h"
#include "sys/log.h"

enum { LINES_AT_ONCE = 500, BYTES_AT_ONCE = 256 << 10 };

// --- in

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

static void add_line(struct live_allocation *a, const struct task_line *line, struct arena *arena,
                     struct db_tx *tx)
{
    static const char *const streams[] = {"stdout", "stderr", NULL};
    const struct log_line row = {
        .trial_id = a->row.trial_id,
        .time_us = line->time_us,
        .level = level_of(line->text),
        .rank = {line->stream != TASK_SHIM, line->rank},
        .allocation_id = a->row.id,
        .source = line->stream == TASK_SHIM ? "shim" : "task",
        .stdtype = streams[line->stream],
        .log = line_text(line, arena),
    };
    db_log_add(tx, &row);
    if (line->stream != TASK_SHIM) policies_apply(a->trial, row.log, tx);
}

struct wake {
    struct master *master;
    int64_t trial_id;
};

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct wake *w = ctx;
    if (code) log_warn("log of trial %lld: %s", (long long)w->trial_id, err->msg);
    logs_wake(w->master, w->trial_id);
    free(w);
}

// Reads one page. False: there is no more.
static bool pull_page(struct live_allocation *a, struct db_tx *tx)
{
    struct master *m = a->trial->experiment->master;
    struct arena arena = ARENA_INIT;
    struct task_page page;
    det_err err;
    bool more = false;
    if (rm_read_log(m->rm, a->row.token, a->row.log_offset, &arena, &page, &err)) {
        log_warn("allocation %s: %s", a->row.id, err.msg);
    } else {
        if (page.n_lost_bytes)
            logs_say(a->trial, LOG_LEVEL_WARNING, tx, "%lld bytes of output were too much to keep",
                     (long long)page.n_lost_bytes);
        for (size_t i = 0; i < page.lines.n; i++)
            add_line(a, &page.lines.items[i], &arena, tx);
        more = page.lines.n > 0;
        a->row.log_offset = page.next;
    }
    arena_done(&arena);
    return more;
}

void logs_pull(struct live_allocation *a, struct db_tx *tx)
{
    struct master *m = a->trial->experiment->master;
    struct db_tx *own = tx ? NULL : db_tx_new(m->db);
    bool any = false;
    if (!tx && db_is_full(m->db)) { // it is kept where it is until there is space
        db_tx_free(own);
        return;
    }
    while (pull_page(a, tx ? tx : own))
        any = true;
    if (tx) return; // who began it saves the offset
    if (!any) {
        db_tx_free(own);
        return;
    }
    struct wake *w = xmalloc(sizeof *w);
    *w = (struct wake){m, a->row.trial_id};
    allocation_save(a, own);
    db_tx_submit_must(own, on_durable, w);
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
