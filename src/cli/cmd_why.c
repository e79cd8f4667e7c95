// Unit cmd_why.c: det why: what an experiment or a trial waits for, or why it ended.
#include "cli/cmd.h"

#include "base/assert.h"
#include "cli/follow.h"
#include "cli/show.h"
#include <limits.h>

enum { MAX_ASKED = 50 }; // trials whose runs the master is asked about

// The last things that the program itself printed: usually what went wrong.
static void add_last_words(struct remote *r, int64_t trial, struct buf *out)
{
    enum { PAGE = 20, N_SHOWN = 3 };
    const struct doc *page =
        remote_get(r, "/trials/%lld/logs?limit=%d&orderBy=ORDER_BY_DESC", (long long)trial, PAGE);
    const struct doc *lines = doc_find(page, "logs"), *shown[N_SHOWN];
    int n = 0;
    for (const struct doc *l = lines ? lines->first : NULL; l && n < N_SHOWN; l = l->next) {
        const struct doc *rank = doc_find(l, "rankId"); // not there: the master's own words
        if (rank && rank->kind == DOC_INT) shown[n++] = l;
    }
    while (n-- > 0) {
        struct str text = str_from(doc_text(shown[n], "log"));
        if (text.len && text.ptr[text.len - 1] == '\n') text.len--;
        buf_addz(out, "    | ");
        safe_add(out, text, SAFE_COLOURS);
        buf_addc(out, '\n');
    }
}

// Words of others, on the same line.
static void add_text(struct buf *out, const char *before, const char *text)
{
    buf_addz(out, before);
    safe_add(out, str_from(text), SAFE_LINE);
}

// "last report 14:03:11 (batch 300)": what hangs has an old one.
static void add_last_report(struct remote *r, const struct doc *trial, struct buf *out)
{
    int64_t batches = doc_whole(trial, "totalBatchesProcessed");
    const struct doc *page = remote_get(r, "/trials/%lld/metrics?after=%lld&limit=100",
                                        (long long)doc_whole(trial, "id"), (long long)batches - 1);
    const struct doc *reports = doc_find(page, "metrics");
    if (!reports) return;
    if (!reports->n) {
        buf_addz(out, ", no report yet");
        return;
    }
    buf_addz(out, ", last report ");
    show_value(out, doc_find(reports->last, "reportTime"), SHOW_TIME);
    buf_printf(out, " (batch %lld)", (long long)batches);
}

// A trial that runs, or waits for slots.
static bool explain_active(struct remote *r, struct buf *out, const struct doc *t)
{
    int64_t id = doc_whole(t, "id");
    const struct doc *answer = remote_get(r, "/trials/%lld/allocations?limit=-1", (long long)id);
    const struct doc *runs = doc_find(answer, "allocations");
    const struct doc *run = runs ? runs->last : NULL;
    for (const struct doc *a = runs ? runs->first : NULL; a; a = a->next)
        if (doc_whole(a, "runId") > doc_whole(run, "runId")) run = a;
    const char *state = doc_text(run, "state"), *doing = doc_text(t, "runnerState");
    bool runs_now = run && strcmp(state, "STATE_PENDING") && strcmp(state, "STATE_TERMINATED");
    if (!runs_now) return false;
    buf_printf(out, "  trial %lld: running since ", (long long)id);
    show_value(out, doc_find(run, "startTime"), SHOW_TIME);
    if (*doing) add_text(out, ", ", doing);
    add_last_report(r, t, out);
    if (doc_whole(t, "restarts"))
        buf_printf(out, ", restarted %lld times", (long long)doc_whole(t, "restarts"));
    buf_addc(out, '\n');
    return true;
}

// Sentences about one trial that runs, or did not go well; false if there is nothing to say.
static bool explain_trial(struct remote *r, struct buf *out, const struct doc *t, int *n_asked)
{
    int64_t restarts = doc_whole(t, "restarts");
    const char *reason = doc_text(t, "reason"), *doing = doc_text(t, "runnerState");
    bool active = !strcmp(doc_text(t, "state"), "STATE_ACTIVE");
    if (active && (*n_asked)++ < MAX_ASKED && explain_active(r, out, t)) return true;
    if (!*reason && !restarts && !*doing) return false;
    buf_printf(out, "  trial %lld: ", (long long)doc_whole(t, "id"));
    show_value(out, doc_find(t, "state"), SHOW_STATE);
    if (*doing) add_text(out, ", ", doing);
    if (restarts) buf_printf(out, ", restarted %lld times", (long long)restarts);
    if (*reason) add_text(out, ": ", reason);
    buf_addc(out, '\n');
    if (!strcmp(doc_text(t, "state"), "STATE_ERROR")) add_last_words(r, doc_whole(t, "id"), out);
    return true;
}

bool why_trials(struct remote *r, const char *experiment, int max, struct buf *out)
{
    const struct doc *answer = remote_get(r, "/experiments/%s/trials?limit=-1", experiment);
    const struct doc *list = doc_find(answer, "trials");
    const struct doc *t = list ? list->first : NULL;
    int n_asked = 0;
    for (; t && max > 0; t = t->next)
        max -= explain_trial(r, out, t, &n_asked);
    if (t) buf_printf(out, "  ... ('det why %s' goes on)\n", experiment);
    return list != NULL;
}

static void explain_queue(struct buf *out, const struct doc *jobs, int64_t experiment)
{
    for (const struct doc *j = jobs ? jobs->first : NULL; j; j = j->next) {
        if (doc_whole(j, "experimentId") != experiment) continue;
        const char *state = doc_text(j, "state");
        const char *words = !strcmp(state, "STATE_QUEUED")   ? "in the queue"
                            : !strcmp(state, "STATE_PAUSED") ? "paused; in the queue"
                                                             : "running";
        if (!strcmp(state, "STATE_SCHEDULED_BACKFILLED")) words = "running until others can";
        buf_printf(out, "  %s", words);
        buf_printf(out, ", priority %lld", (long long)doc_whole(j, "priority"));
        if (*doc_text(j, "waiting")) add_text(out, "; it ", doc_text(j, "waiting"));
        buf_addc(out, '\n');
    }
}

static bool explain(struct remote *r, const char *id, struct buf *out)
{
    const struct doc *answer = remote_get(r, "/experiments/%s", id);
    const struct doc *e = doc_find(answer, "experiment");
    const struct doc *jobs = e ? remote_get(r, "/jobs") : NULL;
    if (!jobs) return false;
    buf_printf(out, "Experiment %s is ", id);
    show_value(out, doc_find(e, "state"), SHOW_STATE);
    if (*doc_text(e, "reason")) add_text(out, ": ", doc_text(e, "reason"));
    buf_addc(out, '\n');
    explain_queue(out, doc_find(jobs, "jobs"), doc_whole(e, "id"));
    const char *missing = doc_text(remote_get(r, "/master/info"), "notInForce");
    if (*missing) buf_printf(out, "  note: %s\n", missing);
    return why_trials(r, id, INT_MAX, out);
}

static int run_why(const struct call *call)
{
    struct remote r;
    struct buf out = BUF_INIT(1 << 20);
    int status = EXIT_FAILED;
    if (remote_open(&r, call) && explain(&r, remote_segment(&r, call->args[0]), &out)) {
        print_log(buf_str(&out));
        status = EXIT_OK;
    }
    buf_done(&out);
    remote_close(&r);
    return status;
}

static const struct option why_options[] = {MASTER_OPTION};

static const struct command rows[] = {
    {
        .noun = "why",
        .args = "EXPERIMENT",
        .min_args = 1,
        .max_args = 1,
        .help =
            "Explains what an experiment is waiting for, or why it and its trials ended as they "
            "did.",
        .example = "det why 7",
        .options = why_options,
        .n_options = STATIC_LEN(why_options),
        .run = run_why,
    },
};

const struct command_table cmd_why_commands = COMMAND_TABLE(rows);
