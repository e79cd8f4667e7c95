// Unit follow.c: logs and progress as they come.
#include "cli/follow.h"

#include "doc/json.h"
#include "base/mem.h"
#include "cli/show.h"
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 300, PAGE = 1000, MAX_EXPLAINED = 3 };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

// --- logs

// A line of a log; with the number of its trial unless that is 0.
static void print_line(const struct doc *line, int64_t trial)
{
    struct buf out = BUF_INIT(4 << 20);
    const struct doc *time = doc_find(line, "timestamp"), *rank = doc_find(line, "rankId");
    const struct doc *log = doc_find(line, "log");
    buf_addc(&out, '[');
    show_value(&out, time, SHOW_TIME);
    buf_addz(&out, "] ");
    if (trial) buf_printf(&out, "[trial %lld] ", (long long)trial);
    bool says_rank = log && log->kind == DOC_STR && str_starts(log->text, STR("[rank="));
    if (rank && rank->kind == DOC_INT && !says_rank)
        buf_printf(&out, "[rank=%lld] ", (long long)rank->integer);
    if (log && log->kind == DOC_STR) buf_add(&out, log->text.ptr, log->text.len);
    if (!out.len || out.ptr[out.len - 1] != '\n') buf_addc(&out, '\n');
    print_log(buf_str(&out));
    buf_done(&out);
}

static bool on_event(void *ctx, const struct http_event *event)
{
    const int64_t *shown = ctx;
    if (!strcmp(event->type, "end")) return false;
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *line = json_parse(&arena, event->data, NULL, &diags);
    if (line) print_line(line, *shown);
    arena_done(&arena);
    return fflush(stdout) == 0; // whoever reads it waits for this line, or has gone
}

static int print_all(struct remote *r, int64_t trial, int64_t shown)
{
    for (int64_t after = 0;;) {
        const struct doc *page = remote_get(r, "/trials/%lld/logs?limit=%d&after=%lld",
                                            (long long)trial, PAGE, (long long)after);
        const struct doc *lines = doc_find(page, "logs");
        if (!lines) return EXIT_FAILED;
        for (const struct doc *line = lines->first; line; line = line->next)
            print_line(line, shown);
        bool more = doc_find(doc_find(page, "pagination"), "next"); // long lines make short pages
        if (!lines->n || (lines->n < PAGE && !more)) return EXIT_OK;
        after = doc_whole(lines->last, "id");
    }
}

// *after: the number of the last line.
static int print_tail(struct remote *r, int64_t trial, int64_t shown, int64_t n, int64_t *after)
{
    const struct doc *page = remote_get(r, "/trials/%lld/logs?limit=%lld&orderBy=ORDER_BY_DESC",
                                        (long long)trial, (long long)(n ? n : 1));
    const struct doc *lines = doc_find(page, "logs");
    for (size_t i = lines && n ? lines->n : 0; i-- > 0;) // newest first
        print_line(doc_at(lines, i), shown);
    if (lines && lines->n) *after = doc_whole(lines->first, "id");
    return lines ? EXIT_OK : EXIT_FAILED;
}

int follow_logs(struct remote *r, int64_t trial, const struct follow_opts *o)
{
    det_err err;
    int64_t shown = o->names_trials ? trial : 0, after = 0;
    int status = EXIT_OK;
    if (o->tail >= 0) status = print_tail(r, trial, shown, o->tail, &after);
    if (!o->goes_on) return o->tail < 0 ? print_all(r, trial, shown) : status;
    fflush(stdout);
    const struct http_call call = {.path = arena_printf(&r->arena,
                                                        "/api/v1/trials/%lld/logs?follow=true"
                                                        "&after=%lld",
                                                        (long long)trial, (long long)after),
                                   .timeout_us = -1};
    if (status || !http_call_events(r->client, &call, on_event, &shown, &err)) return status;
    print_error("%s", err.msg);
    return EXIT_FAILED;
}

// --- progress

bool follow_has_ended(const char *state)
{
    static const char *const ends[] = {"STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR",
                                       "STATE_DELETED"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(state, ends[i])) return true;
    return false;
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void clear_bar(void)
{
    fputs("\r\033[K", stderr);
}

// One line at the bottom of the terminal; the bar itself has what the words leave.
static void draw(const struct doc *experiment, bool is_job)
{
    enum { WIDTH = 30, LEAST = 5 };
    double progress = 0;
    const struct doc *known = doc_find(experiment, "progress");
    const struct doc *best = doc_find(experiment, "bestTrialSearcherMetric");
    if (known) doc_number(known, &progress);
    struct buf head = BUF_INIT(256), tail = BUF_INIT(1024), line = BUF_INIT(4096);
    buf_printf(&head, "%s %lld ", is_job ? "job" : "experiment",
               (long long)doc_whole(experiment, "id"));
    buf_printf(&tail, "%3.0f %%  ", 100 * progress);
    show_value(&tail, doc_find(experiment, "state"), SHOW_STATE);
    if (best && best->kind != DOC_NULL) {
        buf_addz(&tail, "  best ");
        show_value(&tail, best, SHOW_PLAIN);
    }
    int room = terminal_columns() - 1, width = room - (int)(head.len + tail.len) - 3;
    if (width > WIDTH) width = WIDTH;
    buf_addz(&line, buf_str(&head).ptr);
    for (int i = 0; width >= LEAST && i < width; i++)
        buf_printf(&line, "%s%c", i ? "" : "[", i < (int)(progress * width + 0.5) ? '#' : '.');
    if (width >= LEAST) buf_addz(&line, "] ");
    buf_addz(&line, buf_str(&tail).ptr);
    fprintf(stderr, "\r%.*s\033[K", room, buf_str(&line).ptr);
    buf_done(&head);
    buf_done(&tail);
    buf_done(&line);
}

static int report_end(struct remote *r, const struct doc *experiment, bool is_job)
{
    struct buf out = BUF_INIT(1 << 20);
    buf_printf(&out, "%s %lld: ", is_job ? "Job" : "Experiment",
               (long long)doc_whole(experiment, "id"));
    show_value(&out, doc_find(experiment, "state"), SHOW_STATE);
    if (*doc_text(experiment, "reason")) {
        buf_addz(&out, " (");
        show_value(&out, doc_find(experiment, "reason"), SHOW_PLAIN);
        buf_addc(&out, ')');
    }
    const struct doc *best = doc_find(experiment, "bestTrialSearcherMetric");
    if (best && best->kind != DOC_NULL) {
        buf_addz(&out, "; best ");
        show_value(&out, doc_find(experiment, "searcherMetric"), SHOW_PLAIN);
        buf_addc(&out, ' ');
        show_value(&out, best, SHOW_PLAIN);
        buf_printf(&out, " by trial %lld", (long long)doc_whole(experiment, "bestTrialId"));
    }
    buf_addc(&out, '\n');
    if (!strcmp(doc_text(experiment, "state"), "STATE_ERROR")) {
        char id[32];
        snprintf(id, sizeof id, "%lld", (long long)doc_whole(experiment, "id"));
        why_trials(r, id, MAX_EXPLAINED, &out);
    }
    print_log(buf_str(&out));
    buf_done(&out);
    return strcmp(doc_text(experiment, "state"), "STATE_COMPLETED") ? EXIT_FAILED : EXIT_OK;
}

// What was printed of one trial.
struct seen {
    int64_t trial, after; // number of the last line
    bool over;            // it has ended, and all of its lines were printed
};

struct follower {
    struct remote *remote;
    int64_t experiment;
    bool terminal, is_job, quiet;    // quiet: no bar, no report of the end
    const struct follow_opts *lines; // NULL: none are printed
    struct seen *seen;               // by their place in the list of trials
    size_t n;
};

// Prints what is new; false if it cannot be read.
static bool print_new(struct follower *f, struct remote *once, struct seen *s, bool ended)
{
    for (;;) {
        const struct doc *page = remote_get(once, "/trials/%lld/logs?limit=%d&after=%lld",
                                            (long long)s->trial, PAGE, (long long)s->after);
        const struct doc *lines = doc_find(page, "logs");
        if (!lines) return false;
        if (!lines->n) break;
        if (f->terminal) clear_bar();
        for (const struct doc *line = lines->first; line; line = line->next)
            print_line(line, f->lines->names_trials ? s->trial : 0);
        fflush(stdout);
        s->after = doc_whole(lines->last, "id");
    }
    s->over = ended;
    return true;
}

static bool begin_with_tail(struct follower *f, struct remote *once, struct seen *s)
{
    int64_t shown = f->lines->names_trials ? s->trial : 0;
    return !print_tail(once, s->trial, shown, f->lines->tail, &s->after);
}

static bool print_trials(struct follower *f, struct remote *once)
{
    const struct doc *answer =
        remote_get(once, "/experiments/%lld/trials?limit=-1", (long long)f->experiment);
    const struct doc *list = doc_find(answer, "trials");
    size_t i = 0;
    for (const struct doc *t = list ? list->first : NULL; t; t = t->next, i++) {
        if (i == f->n) {
            f->seen = xrealloc(f->seen, ++f->n * sizeof *f->seen);
            f->seen[i] = (struct seen){.trial = doc_whole(t, "id")};
            if (f->lines->tail >= 0 && !begin_with_tail(f, once, &f->seen[i])) return false;
        }
        bool ended = follow_has_ended(doc_text(t, "state"));
        if (!f->seen[i].over && !print_new(f, once, &f->seen[i], ended)) return false;
    }
    return list;
}

// One look. Returns -1 while it goes on, else the exit status.
static int look(struct follower *f, struct remote *once)
{
    const struct doc *answer = remote_get(once, "/experiments/%lld", (long long)f->experiment);
    const struct doc *experiment = doc_find(answer, "experiment");
    if (!experiment) return EXIT_FAILED;
    bool ended = follow_has_ended(doc_text(experiment, "state"));
    if (f->lines && !print_trials(f, once)) {
        if (f->quiet) return EXIT_FAILED;
        f->lines = NULL; // which was said; the end is to come
    }
    if (f->terminal && !ended) draw(experiment, f->is_job);
    if (!ended) return -1;
    if (f->terminal) clear_bar();
    return f->quiet ? EXIT_OK : report_end(once, experiment, f->is_job);
}

static int follow(struct follower *f)
{
    int status;
    f->terminal = !f->quiet && isatty(STDERR_FILENO);
    fflush(stdout); // what was said before is not held back until the end
    for (;; pause_ms(POLL_MS)) {
        struct remote once = *f->remote; // answers live as long as one look
        once.arena = (struct arena)ARENA_INIT;
        status = look(f, &once);
        arena_done(&once.arena);
        if (status >= 0) break;
    }
    free(f->seen);
    return status;
}

int follow_experiment(struct remote *r, int64_t id)
{
    return follow(&(struct follower){.remote = r, .experiment = id});
}

int follow_output(struct remote *r, int64_t id, bool is_job)
{
    const struct follow_opts lines = {.names_trials = !is_job, .tail = -1};
    return follow(
        &(struct follower){.remote = r, .experiment = id, .is_job = is_job, .lines = &lines});
}

int follow_trials(struct remote *r, int64_t id, const struct follow_opts *opts)
{
    return follow(&(struct follower){.remote = r, .experiment = id, .quiet = true, .lines = opts});
}

int follow_first_trial(struct remote *r, int64_t id)
{
    int64_t trial = 0;
    for (; !trial; pause_ms(POLL_MS)) {
        const struct doc *trials = remote_get(r, "/experiments/%lld/trials?limit=1", (long long)id);
        const struct doc *list = doc_find(trials, "trials");
        if (!list) return EXIT_FAILED;
        trial = doc_whole(list->first, "id");
        const struct doc *answer = remote_get(r, "/experiments/%lld", (long long)id);
        if (!answer) return EXIT_FAILED;
        if (!trial && follow_has_ended(doc_text(doc_find(answer, "experiment"), "state"))) break;
    }
    if (trial && follow_logs(r, trial, &(struct follow_opts){.goes_on = true, .tail = -1}))
        return EXIT_FAILED;
    return follow_experiment(r, id);
}
