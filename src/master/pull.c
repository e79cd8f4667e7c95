// Unit pull.c: output of tasks, from where their shims keep it into the database.
//
//     [something new] --> page (another thread) --> decisions (loop) --> durable --> next page
//                                                                            |
//                                     nothing new, and the task has ended --> the end of the run
//
// A page at a time, so a task that prints a gigabyte fills its shim's spool and nobody's memory; if
// that is full, the task waits (task/task.h).
// What patterns say about a page counts before the next one, and all of it before the end of the
// run.
#include "master/pull.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "master/events.h"
#include "master/logs.h"
#include "master/policy.h"
#include "sys/log.h"

// A page on its way.
struct pull {
    struct master *master;
    int64_t token, trial_id, offset; // where it begins
    char *dir, *allocation_id;
    struct policy_scan scan;
    struct db_tx *tx; // with its lines
    bool has_lines, has_samples;
    int64_t next, n_lost_bytes;
    int rc;
    det_err err;
};

static void free_pull(struct pull *p)
{
    policy_scan_end(&p->scan);
    db_tx_free(p->tx);
    free(p->dir);
    free(p->allocation_id);
    free(p);
}

// --- in another thread

// "[rank=3] ...": one process prints what several have said, as launch layers do. Passes over that;
// otherwise the rank that printed it.
static int64_t rank_of(const struct task_line *line, struct str *text)
{
    static const struct str mark = {"[rank=", 6}, end = {"] ", 2};
    struct str rest = *text;
    int64_t rank;
    if (!str_starts(rest, mark)) return line->rank;
    rest = (struct str){rest.ptr + mark.len, rest.len - mark.len};
    const char *close = memchr(rest.ptr, ']', MIN(rest.len, 8));
    const struct str number = {rest.ptr, close ? (size_t)(close - rest.ptr) : 0};
    rest = (struct str){rest.ptr + number.len, rest.len - number.len};
    if (!close || !number_to_int(number, 10, &rank) || rank < 0 || !str_starts(rest, end))
        return line->rank;
    *text = (struct str){rest.ptr + end.len, rest.len - end.len};
    return rank;
}

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
    struct str said = line->text;
    const int64_t rank = rank_of(line, &said);
    return (struct log_line){
        .trial_id = p->trial_id,
        .time_us = line->time_us,
        .level = level_of(said),
        .rank = {line->stream != TASK_SHIM, rank},
        .allocation_id = p->allocation_id,
        .source = line->stream == TASK_SHIM ? "shim" : "task",
        .stdtype = streams[line->stream],
        .log = line_text(line, arena),
    };
}

// What a task uses comes with its output, and is none.
static void add_sample(struct pull *p, const struct task_line *line)
{
    struct task_usage u;
    if (!task_usage_parse(line->text, &u)) return;
    const struct usage_sample sample = {line->time_us, u.cpu, u.memory_bytes, u.gpu,
                                        u.gpu_memory_bytes};
    db_sample_add(p->tx, p->trial_id, &sample);
    p->has_samples = true;
}

static void add_page(struct pull *p, const struct task_page *page, struct arena *arena)
{
    struct log_line *lines = arena_array(arena, page->lines.n, sizeof *lines);
    size_t n = 0;
    for (size_t i = 0; i < page->lines.n; i++) {
        const struct task_line *line = &page->lines.items[i];
        if (line->stream == TASK_USAGE) {
            add_sample(p, line);
            continue;
        }
        lines[n++] = line_of(p, line, arena);
        if (line->stream != TASK_SHIM) policy_scan_line(&p->scan, line->text);
    }
    if (n) db_logs_add(p->tx, lines, n);
    p->has_lines = n > 0;
    p->next = page->next;
    p->n_lost_bytes = page->n_lost_bytes;
}

// All before the page is stored: it is removed, by which the shim knows that it can go on.
static void read_page(void *job, void *own)
{
    struct pull *p = job;
    struct arena arena = ARENA_INIT;
    struct task_page page = {0};
    (void)own;
    task_log_trim(p->dir, p->offset);
    p->rc = task_log_read(p->dir, p->offset, &arena, &page, &p->err);
    if (!p->rc) add_page(p, &page, &arena);
    arena_done(&arena);
}

// --- on the loop

static void go_on(struct live_allocation *a, bool more)
{
    a->pulls = false;
    if (more || a->pull_again)
        pull_output(a);
    else if (a->has_exited)
        allocation_exited(a);
}

// What is stored of which run.
struct stored {
    struct master *master;
    int64_t token, trial_id;
    bool has_lines;
};

static void on_stored(void *ctx, int code, const det_err *err)
{
    struct stored *s = ctx;
    struct live_allocation *a = set_find(&s->master->allocations, s->token);
    if (code) // it will be, when there is space; until then the rest stays where it is
        log_warn("log of trial %lld: %s", (long long)s->trial_id, err->msg);
    if (s->has_lines) logs_wake(s->master, s->trial_id);
    if (a) go_on(a, true);
    free(s);
}

static void store(struct live_allocation *a, struct pull *p)
{
    struct stored *s = xmalloc(sizeof *s);
    *s = (struct stored){p->master, p->token, p->trial_id, p->has_lines || p->n_lost_bytes};
    if (p->has_samples)
        events_mark(p->master, &(struct event_mark){.kind = EVENT_RESOURCES,
                                                    .experiment_id = a->trial->row.experiment_id,
                                                    .trial_id = p->trial_id});
    if (p->n_lost_bytes)
        logs_say(a->trial, LOG_LEVEL_WARNING, p->tx, "%lld bytes of output were too much to keep",
                 (long long)p->n_lost_bytes);
    policies_note(a->trial, &p->scan, p->tx);
    a->row.log_offset = p->next;
    allocation_save(a, p->tx);
    db_tx_submit_must(p->tx, on_stored, s);
    p->tx = NULL;
}

static void on_page(void *job)
{
    struct pull *p = job;
    struct live_allocation *a = set_find(&p->master->allocations, p->token);
    if (p->rc) log_warn("allocation %lld: %s", (long long)p->token, p->err.msg);
    if (a && (p->rc || p->next == p->offset))
        go_on(a, false);
    else if (a)
        store(a, p);
    free_pull(p);
}

void pull_output(struct live_allocation *a)
{
    struct master *m = a->trial->experiment->master;
    const struct rm_alloc *run = rm_find(m->rm, a->row.token);
    // See pull_waiting(). Without space, and while the database has enough to do, output stays
    // where it is.
    a->pull_again = a->pulls || m->closes || db_refuses(m->db, NULL) || db_is_busy(m->db);
    if (a->pull_again) return;
    if (!run) {
        if (a->has_exited) allocation_exited(a);
        return;
    }
    struct pull *p = xcalloc(1, sizeof *p);
    *p = (struct pull){.master = m,
                       .token = a->row.token,
                       .trial_id = a->row.trial_id,
                       .offset = a->row.log_offset,
                       .dir = xstrdup(run->dir),
                       .allocation_id = xstrdup(a->row.id),
                       .tx = db_tx_new(m->db)};
    a->pulls = true;
    policy_scan_begin(&p->scan, a->trial);
    worker_run(m->workers[WORK_LOGS],
               &(struct work){read_page, on_page, p, a->trial->experiment->row.user_id});
}

void pull_waiting(struct master *m)
{
    for (size_t i = 0; i < m->allocations.n; i++) {
        struct live_allocation *a = m->allocations.items[i].value;
        if (a->pull_again && !a->pulls) pull_output(a);
    }
}
