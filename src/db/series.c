// Unit series.c: one metric over its steps, thinned out for a chart.
#include "db/reader.h"

#include "base/assert.h"
#include <math.h>

// Of the points of one stretch of steps, the least and the greatest.
struct bucket {
    int64_t index; // -1: none yet
    struct metric_point low, high;
};

static void flush(struct bucket *b, struct growing *out)
{
    bool low_first = b->low.steps <= b->high.steps;
    if (b->index < 0) return;
    *(struct metric_point *)grow(out) = low_first ? b->low : b->high;
    if (b->low.steps != b->high.steps)
        *(struct metric_point *)grow(out) = low_first ? b->high : b->low;
    b->index = -1;
}

static void add(struct bucket *b, int64_t index, const struct metric_point *p, struct growing *out)
{
    if (index != b->index) {
        flush(b, out);
        *b = (struct bucket){index, *p, *p};
        return;
    }
    if (p->value < b->low.value) b->low = *p;
    if (p->value > b->high.value) b->high = *p;
}

struct range {
    int64_t min, max, n;
};

static int find_range(struct db_reader *r, const struct metric_report *which, struct range *out,
                      det_err *err)
{
    sqlite3_stmt *s = connection_statement(&r->c, SQL_SERIES_RANGE);
    int rc = SQLITE_ERROR;
    if (s) {
        sqlite3_bind_int64(s, 1, which->trial_id);
        sqlite3_bind_text(s, 2, which->group, -1, SQLITE_STATIC);
        rc = sqlite3_step(s);
    }
    if (rc != SQLITE_ROW) return sqlite_fail(r->c.sql, sqlite3_errcode(r->c.sql), err);
    *out = (struct range){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                          sqlite3_column_int64(s, 2)};
    sqlite3_reset(s);
    return 0;
}

static int scan(struct db_reader *r, sqlite3_stmt *s, const struct range *range, int64_t n_buckets,
                struct growing *out, det_err *err)
{
    struct bucket b = {.index = -1};
    double width = (double)(range->max - range->min + 1) / (double)n_buckets;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        int type = sqlite3_column_type(s, 2);
        struct metric_point p = {sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                                 sqlite3_column_double(s, 2)};
        if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) continue;
        add(&b, (int64_t)((double)(p.steps - range->min) / width), &p, out);
    }
    flush(&b, out);
    return rc == SQLITE_DONE ? 0 : sqlite_fail(r->c.sql, rc, err);
}

int db_metric_series(struct db_reader *r, const struct metric_report *which, const char *name,
                     int64_t max_points, struct arena *a, struct db_list *out, det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct metric_point)};
    struct range range = {0};
    if (strchr(name, '"'))
        return det_fail(err, DET_EINVAL, "a metric's name cannot have a quotation mark in it");
    int rc = find_range(r, which, &range, err);
    if (rc) return rc;
    sqlite3_stmt *s = connection_statement(&r->c, SQL_SERIES);
    if (!s) return sqlite_fail(r->c.sql, sqlite3_errcode(r->c.sql), err);
    const char *path = arena_printf(a, "$.\"%s\"", name);
    sqlite3_bind_int64(s, 1, which->trial_id);
    sqlite3_bind_text(s, 2, which->group, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, path, -1, SQLITE_STATIC);
    // Two points of each stretch are kept; with few points, each is a stretch of its own.
    bool few = max_points < 1 || range.n <= max_points;
    int64_t n_buckets = few ? range.max - range.min + 1 : MAX(1, max_points / 2);
    rc = scan(r, s, &range, n_buckets, &list, err);
    sqlite3_reset(s);
    if (rc) return rc;
    *out = (struct db_list){.items = list.items, .n = list.n, .total = range.n};
    return 0;
}
