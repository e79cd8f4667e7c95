// Unit cmd_metrics.c: what a trial has reported, all of it, page by page: there may be millions of
// reports, and none of them is kept.
#include "cli/cmd.h"

#include "base/mem.h"
#include "base/number.h"
#include "cli/remote.h"
#include "cli/show.h"

enum { MAX_LINES = 64 << 20 };

static const struct column columns[] = {
    {"GROUP", "group", .as = SHOW_PLAIN},
    {"BATCHES", "stepsCompleted", .as = SHOW_PLAIN},
    {"METRICS", "metrics", .as = SHOW_PLAIN, .cut = true},
    {"TIME", "reportTime", .as = SHOW_TIME, .drop = 1},
};

// Calls fn with each page of reports until it returns false. False: the error was printed.
static bool each_page(struct remote *r, const char *trial,
                      bool (*fn)(void *ctx, const struct doc *reports), void *ctx)
{
    char after[32] = "-1";
    for (bool more = true; more;) {
        const struct arena kept = r->arena; // what a page needs is given back after it
        r->arena = (struct arena)ARENA_INIT;
        const struct doc *answer =
            remote_get(r, "/trials/%s/metrics?limit=1000&after=%s", trial, after);
        const struct doc *page = answer ? doc_find(answer, "pagination") : NULL;
        const struct doc *next = page ? doc_find(page, "next") : NULL;
        bool good = answer;
        more = good && fn(ctx, doc_find(answer, "metrics")) && next && next->kind == DOC_STR;
        if (more) snprintf(after, sizeof after, "%.*s", STR_ARG(next->text));
        arena_done(&r->arena);
        r->arena = kept;
        if (!good) return false;
    }
    return true;
}

// --- tables and documents

struct parts {
    const struct call *call;
    struct show_parts shown;
};

static bool show_page(void *ctx, const struct doc *reports)
{
    struct parts *p = ctx;
    show_part(p->call, &p->shown, reports, columns, STATIC_LEN(columns));
    return true;
}

// --- comma-separated values: a column for each metric. Their names are known when all reports have
// been seen, so these are asked for twice.

static const char *const fixed[] = {"group", "stepsCompleted", "reportTime"};

struct sheet {
    struct arena arena;
    struct str *names; // of the metrics
    size_t n, max;
    int64_t last;      // step of the last report when the names were looked for
    int64_t n_missing; // values of metrics that came later
};

static bool find_name(const struct sheet *s, struct str name, size_t *place)
{
    for (*place = 0; *place < s->n; ++*place)
        if (str_eq(s->names[*place], name)) return true;
    return false;
}

static bool find_names(void *ctx, const struct doc *reports)
{
    struct sheet *s = ctx;
    size_t place;
    for (const struct doc *r = reports->first; r; r = r->next) {
        const struct doc *metrics = doc_find(r, "metrics"), *steps = doc_find(r, "stepsCompleted");
        if (steps) doc_integer(steps, &s->last);
        for (const struct doc *m = metrics ? metrics->first : NULL; m; m = m->next) {
            if (find_name(s, m->key, &place)) continue;
            if (s->n == s->max) {
                s->max = s->max ? 2 * s->max : 16;
                s->names = xrealloc(s->names, s->max * sizeof *s->names);
            }
            const char *copy = arena_strndup(&s->arena, m->key.ptr, m->key.len);
            s->names[s->n++] = (struct str){copy, m->key.len};
        }
    }
    return true;
}

// A metric may have the name of another column.
static struct str title_of(struct sheet *s, struct str name)
{
    for (size_t i = 0; i < STATIC_LEN(fixed); i++)
        if (str_eqz(name, fixed[i]))
            return str_from(arena_printf(&s->arena, "metrics.%s", fixed[i]));
    return name;
}

static void print_titles(struct sheet *s)
{
    struct buf out = BUF_INIT(MAX_LINES);
    size_t n = STATIC_LEN(fixed);
    struct str *titles = arena_array(&s->arena, n + s->n, sizeof *titles);
    for (size_t i = 0; i < n; i++)
        titles[i] = str_from(fixed[i]);
    for (size_t i = 0; i < s->n; i++)
        titles[n + i] = title_of(s, s->names[i]);
    show_csv_line(&out, titles, n + s->n);
    print_data(buf_str(&out));
    buf_done(&out);
}

static struct str cell_of(const struct doc *value, struct arena *arena)
{
    struct buf text = BUF_INIT(MAX_LINES);
    show_csv_value(&text, value);
    struct str cell = {arena_strndup(arena, buf_str(&text).ptr, text.len), text.len};
    buf_done(&text);
    return cell;
}

static void print_report(struct sheet *s, const struct doc *report, struct buf *out)
{
    struct arena arena = ARENA_INIT;
    const size_t n = STATIC_LEN(fixed);
    struct str *cells = arena_array(&arena, n + s->n, sizeof *cells);
    const struct doc *metrics = doc_find(report, "metrics");
    size_t place;
    for (size_t i = 0; i < n + s->n; i++)
        cells[i] = STR("");
    for (size_t i = 0; i < n; i++)
        cells[i] = cell_of(doc_find(report, fixed[i]), &arena);
    for (const struct doc *m = metrics ? metrics->first : NULL; m; m = m->next)
        if (find_name(s, m->key, &place))
            cells[n + place] = cell_of(m, &arena);
        else
            s->n_missing++;
    show_csv_line(out, cells, n + s->n);
    arena_done(&arena);
}

static bool print_page(void *ctx, const struct doc *reports)
{
    struct sheet *s = ctx;
    struct buf out = BUF_INIT(MAX_LINES);
    bool more = true;
    for (const struct doc *r = reports->first; r && more; r = r->next) {
        const struct doc *steps = doc_find(r, "stepsCompleted");
        int64_t at = 0;
        more = !steps || !doc_integer(steps, &at) || at <= s->last;
        if (more) print_report(s, r, &out);
    }
    print_data(buf_str(&out));
    buf_done(&out);
    return more;
}

static bool print_sheet(struct remote *r, const char *trial)
{
    struct sheet s = {.last = -1};
    bool good = each_page(r, trial, find_names, &s);
    if (good) print_titles(&s);
    if (good) good = each_page(r, trial, print_page, &s);
    if (s.n_missing)
        print_error("%lld values of metrics that were reported meanwhile are missing; try again",
                    (long long)s.n_missing);
    free(s.names);
    arena_done(&s.arena);
    return good && !s.n_missing;
}

static int run_metrics(const struct call *call)
{
    struct parts parts = {.call = call};
    struct remote r;
    bool good = false;
    if (!remote_check_id(call)) return EXIT_USAGE;
    if (remote_open(&r, call)) {
        const char *trial = remote_segment(&r, call->args[0]);
        good = call_option(call, "csv") ? print_sheet(&r, trial)
                                        : each_page(&r, trial, show_page, &parts);
        if (good && !call_option(call, "csv"))
            show_part(call, &parts.shown, NULL, columns, STATIC_LEN(columns));
    }
    remote_close(&r);
    return good ? EXIT_OK : EXIT_FAILED;
}

static const struct option options[] = {MASTER_OPTION, FORMAT_OPTIONS};

static const struct command rows[] = {
    COMMAND("trial", "metrics", "ID", 1, 1, options, run_metrics,
            "Shows what a trial has reported; with --csv, a column for each metric.",
            "det trial metrics 12 --csv"),
};

const struct command_table cmd_metrics_commands = COMMAND_TABLE(rows);
