// Unit plotted.c: GET .../metricNames and .../series. Called by cmd_plot.c.
#include "cli/plotted.h"

#include "base/number.h"
#include "entity/entity.h"
#include <math.h>

// --- which metrics there are

static int rank_of(const struct metric_ref *m, const char *searched)
{
    if (!strcmp(m->group, "validation")) return strcmp(m->name, searched) != 0;
    return strcmp(m->group, "training") != 0 ? 4 : strcmp(m->name, "loss") ? 3 : 2;
}

static void sort_metrics(struct metric_ref *all, size_t n, const char *searched)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && rank_of(&all[k], searched) < rank_of(&all[k - 1], searched); k--) {
            struct metric_ref m = all[k];
            all[k] = all[k - 1];
            all[k - 1] = m;
        }
}

bool plotted_metrics(struct remote *r, const struct doc *experiment, struct metric_ref **out,
                     size_t *n)
{
    const struct doc *answer =
        remote_get(r, "/experiments/%lld/metricNames", (long long)doc_whole(experiment, "id"));
    const struct doc *names = doc_find(answer, "names");
    *n = 0;
    if (!names) return false;
    *out = arena_array(&r->arena, names->n + 1, sizeof **out);
    for (const struct doc *m = names->first; m; m = m->next)
        (*out)[(*n)++] =
            (struct metric_ref){.group = doc_text(m, "group"), .name = doc_text(m, "name")};
    sort_metrics(*out, *n, doc_text(experiment, "searcherMetric"));
    return true;
}

// --- curves

// NaN and the infinities are texts in JSON.
static double number_of(const struct doc *d)
{
    double value;
    return doc_number(d, &value) ? value : NAN;
}

static double *numbers_of(struct arena *arena, const struct doc *list, size_t n)
{
    double *out = arena_array(arena, n + 1, sizeof *out);
    const struct doc *d = list->first;
    for (size_t i = 0; i < n; i++, d = d ? d->next : NULL)
        out[i] = number_of(d);
    return out;
}

// A moving average that forgets exponentially, corrected for its beginning.
static void smooth_values(double *y, size_t n, double weight)
{
    double sum = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(y[i])) continue;
        sum = sum * weight + (1 - weight) * y[i];
        norm = norm * weight + (1 - weight);
        y[i] = sum / norm;
    }
}

static double last_value(const double *y, size_t n)
{
    while (n && !isfinite(y[n - 1]))
        n--;
    return n ? y[n - 1] : NAN;
}

// ms since 1970 become seconds since the start of the trial.
static void count_from_start(double *t, size_t n, const struct doc *trial)
{
    int64_t start_us = 0;
    det_err err;
    if (time_parse(doc_text(trial, "startTime"), &start_us, &err)) start_us = 0;
    for (size_t i = 0; i < n; i++)
        t[i] = t[i] / 1e3 - (double)start_us / 1e6;
}

static bool read_line(struct remote *r, const struct plotted_query *q, const struct doc *series,
                      struct plot_line *out)
{
    const int64_t id = doc_whole(series, "trialId");
    const struct doc *x = doc_find(series, q->by_time ? "t" : "x"), *y = doc_find(series, "last");
    const struct doc *low = doc_find(series, "min"), *high = doc_find(series, "max");
    const struct doc *trial = doc_find(remote_get(r, "/trials/%lld", (long long)id), "trial");
    if (!x || !y || !trial) return false;
    const size_t n = y->n;
    double *at = numbers_of(&r->arena, x, n), *values = numbers_of(&r->arena, y, n);
    *out = (struct plot_line){.n = n, .x = at, .y = values};
    out->ink = (int)(doc_whole(trial, "number") - 1) % 1000;
    if (q->by_time) count_from_start(at, n, trial);
    if (q->smooth > 0) smooth_values(values, n, q->smooth);
    if (low && high && !(q->smooth > 0)) {
        out->low = numbers_of(&r->arena, low, n);
        out->high = numbers_of(&r->arena, high, n);
    }
    out->label = arena_printf(&r->arena, "trial %lld: %.4g", (long long)id, last_value(values, n));
    return true;
}

// A text as one item of a list in a query.
static const char *item_of(struct remote *r, const char *text)
{
    struct buf out = BUF_INIT(64 << 10);
    for (; *text; text++) {
        if (*text == ',' || *text == '\\') buf_addc(&out, '\\');
        buf_addc(&out, *text);
    }
    const char *item = remote_segment(r, buf_str(&out).ptr);
    buf_done(&out);
    return item;
}

bool plotted_read(struct remote *r, const struct plotted_query *q, const struct metric_ref *metric,
                  struct plot *out)
{
    const char *group = remote_segment(r, metric->group), *name = item_of(r, metric->name);
    const struct doc *answer = remote_get(
        r, "/experiments/%s/series?group=%s&name=%s&trials=%s&axis=%s&maxDatapoints=%d",
        q->experiment, group, name, q->trials, q->by_time ? "time" : "batch", q->max_points);
    const struct doc *list = doc_find(answer, "series");
    if (!list) return false;
    struct plot_line *lines = arena_array(&r->arena, list->n + 1, sizeof *lines);
    *out = (struct plot){
        .title = arena_printf(&r->arena, "%s.%s", metric->group, metric->name),
        .x_title = q->by_time ? "wall time" : "batches",
        .x_axis = q->by_time ? PLOT_SECONDS : PLOT_NUMBERS,
        .lines = lines,
    };
    for (const struct doc *s = list->first; s; s = s->next)
        if (!read_line(r, q, s, &lines[out->n_lines++])) return false;
    return true;
}
