// Unit series.c: one metric over its steps, thinned out for a chart. Reads the chunks that the
// writer keeps (series_write.h), and the latest reports as they are.
#include "db/reader.h"

#include "base/assert.h"
#include "db/points.h"
#include "doc/json.h"
#include <math.h>

// --- the points of one metric

// What is known of a chunk without unpacking it.
struct piece {
    int64_t span, n;
    struct point first, last; // their values do not count
    double min, max, last_value;
};

struct lane {
    struct db_reader *r;
    const struct db_series *q;
    struct arena *arena;
    struct piece *pieces;
    size_t n_pieces;
    struct points tail;
};

static int64_t place_of(const struct db_series *q, const struct point *p)
{
    return q->by_time ? p->time_us : p->steps;
}

static bool is_inside(const struct db_series *q, const struct point *p)
{
    int64_t at = place_of(q, p);
    return at >= q->from && at <= q->to;
}

static void lane_values(const struct lane *l, int64_t from, struct value out[4])
{
    out[0] = VALUE_OF_INT(l->q->trial_id);
    out[1] = VALUE_OF_TEXT(str_from(l->q->group));
    out[2] = VALUE_OF_TEXT(str_from(l->q->name));
    out[3] = VALUE_OF_INT(from);
}

static struct piece read_piece(const struct rows *r)
{
    return (struct piece){
        .span = rows_int(r, 0),
        .n = rows_int(r, 1),
        .first = {.steps = rows_int(r, 2), .time_us = rows_int(r, 4)},
        .last = {.steps = rows_int(r, 3), .time_us = rows_int(r, 5)},
        .min = rows_real(r, 6),
        .max = rows_real(r, 7),
        .last_value = rows_real(r, 8),
    };
}

static int find_pieces(struct lane *l, det_err *err)
{
    struct growing list = {.arena = l->arena, .size = sizeof(struct piece)};
    struct value values[4];
    struct rows r;
    lane_values(l, l->q->by_time ? INT64_MIN : l->q->from, values);
    rows_start(&l->r->c, SQL_POINTS_OF, values, 4, &r);
    while (rows_next(&r)) {
        struct piece p = read_piece(&r);
        if (place_of(l->q, &p.first) > l->q->to && !l->q->by_time) break;
        if (place_of(l->q, &p.first) <= l->q->to && place_of(l->q, &p.last) >= l->q->from)
            *(struct piece *)grow(&list) = p;
    }
    l->pieces = (struct piece *)(void *)list.items;
    l->n_pieces = list.n;
    return rows_end(&r, 0, err);
}

// What is in no span yet.
static int read_tail(struct lane *l, det_err *err)
{
    struct value values[4];
    struct rows r;
    int64_t mark = -1;
    lane_values(l, 0, values);
    int rc = statement_number(&l->r->c, SQL_SPANS_MARK, values, 2, -1, &mark, err);
    if (rc) return rc;
    struct str name = json_quoted(str_from(l->q->name), l->arena);
    values[2] = VALUE_OF_INT(mark);
    rows_start(&l->r->c, SQL_SERIES_TAIL, values, 3, &r);
    while (rows_next(&r)) {
        struct point p = {rows_int(&r, 0), rows_int(&r, 1), 0};
        if (json_find_number(rows_bytes(&r, 2), name, &p.value) && is_inside(l->q, &p))
            points_add(&l->tail, &p, l->arena);
    }
    return rows_end(&r, 0, err);
}

// Every point of the pieces, in their order, and then of the tail.
static int each_point(struct lane *l, void (*use)(void *ctx, const struct point *p), void *ctx,
                      det_err *err)
{
    struct value values[4];
    int code = 0;
    for (size_t i = 0; !code && i < l->n_pieces; i++) {
        struct arena arena = ARENA_INIT;
        struct points points = {0};
        struct rows r;
        lane_values(l, l->pieces[i].span, values);
        rows_start(&l->r->c, SQL_POINTS_FIND, values, 4, &r);
        if (rows_next(&r)) code = points_unpack(rows_bytes(&r, 0), &arena, &points, err);
        for (size_t k = 0; !code && k < points.n; k++)
            if (is_inside(l->q, &points.items[k])) use(ctx, &points.items[k]);
        code = rows_end(&r, code, err);
        arena_done(&arena);
    }
    for (size_t i = 0; !code && i < l->tail.n; i++)
        use(ctx, &l->tail.items[i]);
    return code;
}

// --- buckets

struct thinning {
    struct db_bucket *all;
    size_t n;
    int64_t low;
    double width;
    bool by_time;
};

static void add_to(struct db_bucket *b, const struct point *at, const struct db_bucket *more)
{
    if (!b->n || more->min < b->min) b->min = more->min;
    if (!b->n || more->max > b->max) b->max = more->max;
    if (!b->n || at->steps >= b->steps) {
        b->steps = at->steps;
        b->time_us = at->time_us;
        b->last = more->last;
    }
    b->n += more->n;
}

static struct db_bucket *bucket_at(const struct thinning *t, const struct point *at)
{
    double place = (double)((t->by_time ? at->time_us : at->steps) - t->low) / t->width;
    return &t->all[place > 0 ? MIN((size_t)place, t->n - 1) : 0];
}

static void thin_point(void *ctx, const struct point *p)
{
    struct thinning *t = ctx;
    if (!isfinite(p->value)) return;
    add_to(bucket_at(t, p), p,
           &(struct db_bucket){.n = 1, .min = p->value, .max = p->value, .last = p->value});
}

static void thin_piece(struct thinning *t, const struct piece *p)
{
    if (!p->n) return;
    add_to(bucket_at(t, &p->last), &p->last,
           &(struct db_bucket){.n = p->n, .min = p->min, .max = p->max, .last = p->last_value});
}

static void keep_point(void *ctx, const struct point *p)
{
    struct growing *out = ctx;
    double x = p->value;
    *(struct db_bucket *)grow(out) = (struct db_bucket){p->steps, p->time_us, isfinite(x), x, x, x};
}

struct extent {
    int64_t low, high, n;
};

static void widen(struct extent *e, int64_t low, int64_t high, int64_t n)
{
    e->low = e->n ? MIN(e->low, low) : low;
    e->high = e->n ? MAX(e->high, high) : high;
    e->n += n;
}

static struct extent extent_of(const struct lane *l)
{
    struct extent e = {0};
    for (size_t i = 0; i < l->n_pieces; i++)
        widen(&e, MAX(place_of(l->q, &l->pieces[i].first), l->q->from),
              MIN(place_of(l->q, &l->pieces[i].last), l->q->to), l->pieces[i].n);
    for (size_t i = 0; i < l->tail.n; i++)
        widen(&e, place_of(l->q, &l->tail.items[i]), place_of(l->q, &l->tail.items[i]), 1);
    return e;
}

// All of them, each a bucket of its own.
static int keep_all(struct lane *l, struct db_series *out, det_err *err)
{
    struct growing list = {.arena = l->arena, .size = sizeof(struct db_bucket)};
    int rc = each_point(l, keep_point, &list, err);
    out->buckets = (struct db_bucket *)(void *)list.items;
    out->n = list.n;
    out->n_points = (int64_t)list.n;
    return rc;
}

static int thin(struct lane *l, const struct extent *e, struct db_series *out, det_err *err)
{
    size_t n = (size_t)out->max_points;
    struct thinning t = {.all = arena_array(l->arena, n, sizeof *t.all),
                         .n = n,
                         .low = e->low,
                         .width = ((double)e->high - (double)e->low + 1) / (double)n,
                         .by_time = out->by_time};
    bool coarse = l->n_pieces >= 2 * n; // pieces are shorter than buckets
    for (size_t i = 0; coarse && i < l->n_pieces; i++)
        thin_piece(&t, &l->pieces[i]);
    if (coarse) l->n_pieces = 0;
    int rc = each_point(l, thin_point, &t, err);
    out->buckets = t.all;
    out->n = 0;
    out->n_points = 0;
    for (size_t i = 0; i < n; i++) {
        if (!t.all[i].n) continue;
        out->n_points += t.all[i].n;
        t.all[out->n++] = t.all[i];
    }
    return rc;
}

// In one snapshot, until it is closed: reports may be on their way into a span.
static int lane_open(struct lane *l, det_err *err)
{
    int rc = connection_snapshot(&l->r->c, err);
    if (!rc) rc = find_pieces(l, err);
    return rc ? rc : read_tail(l, err);
}

static void lane_close(struct lane *l)
{
    connection_leave(&l->r->c);
    arena_done(l->arena);
}

int db_series_read(struct db_reader *r, struct db_series *s, struct arena *a, det_err *err)
{
    struct arena scratch = ARENA_INIT;
    struct lane l = {.r = r, .q = s, .arena = &scratch};
    ASSERT(s->max_points >= 1);
    int rc = lane_open(&l, err);
    struct extent e = extent_of(&l);
    if (!rc) rc = e.n <= s->max_points ? keep_all(&l, s, err) : thin(&l, &e, s, err);
    if (!rc) {
        struct db_bucket *kept = arena_array(a, s->n + 1, sizeof *kept);
        if (s->n) memcpy(kept, s->buckets, s->n * sizeof *kept);
        s->buckets = kept;
    }
    lane_close(&l);
    return rc;
}

// --- the least and the greatest point of each stretch, as points

struct spikes {
    struct growing out;
    int64_t low, index; // -1: no point yet
    double width;
    struct metric_point least, greatest;
};

static void flush(struct spikes *s)
{
    bool low_first = s->least.steps <= s->greatest.steps;
    if (s->index < 0) return;
    *(struct metric_point *)grow(&s->out) = low_first ? s->least : s->greatest;
    if (s->least.steps != s->greatest.steps)
        *(struct metric_point *)grow(&s->out) = low_first ? s->greatest : s->least;
    s->index = -1;
}

static void add_spike(void *ctx, const struct point *point)
{
    struct spikes *s = ctx;
    const struct metric_point p = {point->steps, point->time_us, point->value};
    int64_t index = (int64_t)((double)(p.steps - s->low) / s->width);
    if (!isfinite(p.value)) return;
    if (index != s->index) {
        flush(s);
        s->index = index;
        s->least = s->greatest = p;
    }
    if (p.value < s->least.value) s->least = p;
    if (p.value > s->greatest.value) s->greatest = p;
}

int db_metric_series(struct db_reader *r, const struct metric_report *which, const char *name,
                     int64_t max_points, struct arena *a, struct db_list *out, det_err *err)
{
    struct arena scratch = ARENA_INIT;
    const struct db_series all = {.trial_id = which->trial_id,
                                  .group = which->group,
                                  .name = name,
                                  .from = INT64_MIN,
                                  .to = INT64_MAX};
    struct lane l = {.r = r, .q = &all, .arena = &scratch};
    int rc = lane_open(&l, err);
    const struct extent e = extent_of(&l);
    // Two points of each stretch are kept; with few points, each is a stretch of its own.
    bool few = max_points < 1 || e.n <= max_points;
    double length = (double)e.high - (double)e.low + 1;
    struct spikes s = {.out = {.arena = a, .size = sizeof(struct metric_point)},
                       .low = e.low,
                       .index = -1,
                       .width = few ? 1 : length / (double)MAX(1, max_points / 2)};
    if (!rc) rc = each_point(&l, add_spike, &s, err);
    flush(&s);
    lane_close(&l);
    if (!rc) *out = (struct db_list){.items = s.out.items, .n = s.out.n, .total = e.n};
    return rc;
}

// --- of which trials there are which metrics

static int add_ids(struct db_reader *r, enum statement id, int64_t experiment_id, int64_t limit,
                   struct growing *out, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(experiment_id), VALUE_OF_INT(limit)};
    struct rows rows;
    rows_start(&r->c, id, values, 2, &rows);
    while (rows_next(&rows))
        *(int64_t *)grow(out) = rows_int(&rows, 0);
    return rows_end(&rows, 0, err);
}

int db_best_trials(struct db_reader *r, const struct experiment *e, int64_t limit, struct arena *a,
                   struct db_list *out, det_err *err)
{
    struct growing ids = {.arena = a, .size = sizeof(int64_t)};
    enum statement order = e->smaller_is_better ? SQL_SERIES_BEST : SQL_SERIES_BEST_DOWN;
    int rc = add_ids(r, order, e->id, limit, &ids, err);
    if (!rc) rc = add_ids(r, SQL_SERIES_OTHERS, e->id, limit - (int64_t)ids.n, &ids, err);
    if (!rc) *out = (struct db_list){.items = ids.items, .n = ids.n};
    return rc;
}

int db_trial_numbers(struct db_reader *r, int64_t experiment_id, struct arena *a,
                     struct db_list *out, det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct trial_number)};
    const struct value id = VALUE_OF_INT(experiment_id);
    struct rows rows;
    rows_start(&r->c, SQL_TRIAL_NUMBERS, &id, 1, &rows);
    while (rows_next(&rows))
        *(struct trial_number *)grow(&list) =
            (struct trial_number){rows_int(&rows, 0), rows_int(&rows, 1)};
    int code = rows_end(&rows, 0, err);
    if (!code) *out = (struct db_list){.items = list.items, .n = list.n};
    return code;
}

int db_metric_names(struct db_reader *r, int64_t experiment_id, struct arena *a,
                    struct db_list *out, det_err *err)
{
    struct growing names = {.arena = a, .size = sizeof(struct metric_name)};
    const struct value id = VALUE_OF_INT(experiment_id);
    struct rows rows;
    rows_start(&r->c, SQL_METRIC_NAMES, &id, 1, &rows);
    while (rows_next(&rows))
        *(struct metric_name *)grow(&names) = (struct metric_name){
            rows_text(&rows, 0, a), rows_text(&rows, 1, a), rows_int(&rows, 2)};
    int code = rows_end(&rows, 0, err);
    if (!code) *out = (struct db_list){.items = names.items, .n = names.n};
    return code;
}
