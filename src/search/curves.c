// Unit curves.c: recorded learning curves. Called by whoever simulates.
#include "search/search.h"

#include "doc/json.h"

enum { CURVES_MAX = 1000000 };

static int read_point(const struct doc *pair, double *length, double *metric, det_err *err)
{
    const struct doc *x = doc_at(pair, 0), *y = doc_at(pair, 1);
    bool good = x && y && pair->n == 2 && doc_number(x, length) && doc_number(y, metric);
    if (good) return det_ok(err);
    return det_fail(err, DET_EINVAL, "every point must be [length, metric]");
}

static int read_curve(const struct doc *doc, struct arena *arena, struct curve *out, det_err *err)
{
    const struct doc *list = doc_find(doc, "curve");
    if (!list || list->kind != DOC_LIST || !list->n)
        return det_fail(err, DET_EINVAL, "'curve' must be a list of [length, metric]");
    double *lengths = arena_array(arena, list->n, sizeof *lengths);
    double *metrics = arena_array(arena, list->n, sizeof *metrics);
    size_t i = 0;
    for (const struct doc *e = list->first; e; e = e->next, i++) {
        int rc = read_point(e, &lengths[i], &metrics[i], err);
        if (rc) return rc;
        if (i && lengths[i] <= lengths[i - 1])
            return det_fail(err, DET_EINVAL, "lengths must rise, %g comes after %g", lengths[i],
                            lengths[i - 1]);
    }
    *out = (struct curve){list->n, lengths, metrics};
    return det_ok(err);
}

static int read_line(struct str line, struct arena *arena, struct curve *out, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct doc *doc = json_parse(arena, line, NULL, &diags);
    return doc ? read_curve(doc, arena, out, err) : diag_fail(&diags, err);
}

static size_t count_lines(struct str text)
{
    size_t n = 0;
    while (text.ptr)
        n += str_cut(&text, '\n').len > 0;
    return n;
}

int curves_read(struct str text, const char *source, struct arena *arena, struct curves *out,
                det_err *err)
{
    size_t n = count_lines(text);
    if (!n || n > CURVES_MAX)
        return det_fail(err, DET_EINVAL, "%s: must have 1 to %d lines, found %zu", source,
                        CURVES_MAX, n);
    struct curve *items = arena_array(arena, n, sizeof *items);
    size_t i = 0;
    for (int line_no = 1; text.ptr; line_no++) {
        struct str line = str_cut(&text, '\n');
        if (!line.len) continue;
        if (read_line(line, arena, &items[i++], err))
            return det_wrap(err, "%s:%d", source, line_no);
    }
    *out = (struct curves){n, items};
    return det_ok(err);
}

double curve_at(const struct curves *curves, int64_t trial, int64_t length)
{
    const struct curve *c = &curves->items[(size_t)(trial - 1) % curves->n];
    double x = (double)length;
    size_t low = 0, high = c->n - 1; // the point is between these two
    if (x <= c->lengths[low]) return c->metrics[low];
    if (x >= c->lengths[high]) return c->metrics[high];
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (c->lengths[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    double part = (x - c->lengths[low]) / (c->lengths[high] - c->lengths[low]);
    return c->metrics[low] + part * (c->metrics[high] - c->metrics[low]);
}
