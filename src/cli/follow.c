// Unit follow.c: logs and progress as they come.
#include "cli/follow.h"

#include "base/json.h"
#include "cli/show.h"
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 300, PAGE = 1000, MAX_EXPLAINED = 3 };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

// --- logs

static void print_line(const struct doc *line)
{
    struct buf out = BUF_INIT(4 << 20);
    const struct doc *time = doc_find(line, "timestamp"), *rank = doc_find(line, "rankId");
    const struct doc *log = doc_find(line, "log");
    buf_addc(&out, '[');
    show_value(&out, time, SHOW_TIME);
    buf_addz(&out, "] ");
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
    (void)ctx;
    if (!strcmp(event->type, "end")) return false;
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *line = json_parse(&arena, event->data, NULL, &diags);
    if (line) print_line(line);
    arena_done(&arena);
    return fflush(stdout) == 0; // whoever reads it waits for this line, or has gone
}

static int print_all(struct remote *r, int64_t trial)
{
    for (int64_t after = 0;;) {
        const struct doc *page = remote_get(r, "/trials/%lld/logs?limit=%d&after=%lld",
                                            (long long)trial, PAGE, (long long)after);
        const struct doc *lines = doc_find(page, "logs");
        if (!lines) return EXIT_FAILED;
        for (const struct doc *line = lines->first; line; line = line->next)
            print_line(line);
        bool more = doc_find(doc_find(page, "pagination"), "next"); // long lines make short pages
        if (!lines->n || (lines->n < PAGE && !more)) return EXIT_OK;
        after = doc_whole(lines->last, "id");
    }
}

static int print_tail(struct remote *r, int64_t trial, int64_t n)
{
    const struct doc *page = remote_get(r, "/trials/%lld/logs?limit=%lld&orderBy=ORDER_BY_DESC",
                                        (long long)trial, (long long)n);
    const struct doc *lines = doc_find(page, "logs");
    for (size_t i = lines ? lines->n : 0; i-- > 0;) // newest first
        print_line(doc_at(lines, i));
    return lines ? EXIT_OK : EXIT_FAILED;
}

int follow_logs(struct remote *r, int64_t trial, bool follow, int64_t tail)
{
    det_err err;
    if (follow) {
        const struct http_call call = {
            .path =
                arena_printf(&r->arena, "/api/v1/trials/%lld/logs?follow=true", (long long)trial),
            .timeout_us = -1};
        if (!http_call_events(r->client, &call, on_event, NULL, &err)) return EXIT_OK;
        print_error("%s", err.msg);
        return EXIT_FAILED;
    }
    return tail < 0 ? print_all(r, trial) : print_tail(r, trial, tail);
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

static void draw(const struct doc *experiment, bool last)
{
    enum { WIDTH = 30 };
    double progress = 0;
    const struct doc *known = doc_find(experiment, "progress");
    if (known) doc_number(known, &progress);
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < (int)(progress * WIDTH + 0.5) ? '#' : '.';
    bar[WIDTH] = 0;
    struct buf state = BUF_INIT(256), best = BUF_INIT(256);
    show_value(&state, doc_find(experiment, "state"), SHOW_STATE);
    show_value(&best, doc_find(experiment, "bestTrialSearcherMetric"), SHOW_PLAIN);
    fprintf(stderr, "\rexperiment %lld [%s] %3.0f %%  %s%s%s   ",
            (long long)doc_whole(experiment, "id"), bar, 100 * progress, buf_str(&state).ptr,
            best.len ? "  best " : "", buf_str(&best).ptr);
    if (last) fputc('\n', stderr);
    buf_done(&state);
    buf_done(&best);
}

static int report_end(struct remote *r, const struct doc *experiment)
{
    struct buf out = BUF_INIT(1 << 20);
    buf_printf(&out, "Experiment %lld: ", (long long)doc_whole(experiment, "id"));
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

int follow_experiment(struct remote *r, int64_t id)
{
    bool terminal = isatty(STDERR_FILENO);
    fflush(stdout); // what was said before is not held back until the end
    for (;; pause_ms(POLL_MS)) {
        const struct doc *answer = remote_get(r, "/experiments/%lld", (long long)id);
        const struct doc *experiment = doc_find(answer, "experiment");
        if (!experiment) return EXIT_FAILED;
        bool ended = follow_has_ended(doc_text(experiment, "state"));
        if (terminal) draw(experiment, ended);
        if (ended) return report_end(r, experiment);
    }
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
    if (trial && follow_logs(r, trial, true, -1)) return EXIT_FAILED;
    return follow_experiment(r, id);
}
