// Unit series_write.c: what the writer does about series when reports come, runs are rolled back
// and trials end; and what is due afterwards. Called by the writer thread.
#include "db/series_write.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/reader.h"
#include "doc/json.h"
#include "sys/clock.h"
#include "sys/entropy.h"

enum {
    N_TAILS = 2048,
    CHUNK_MOST = 4 * SPAN_REPORTS, // points that late reports make a chunk grow to
    SLICE_US = 4000,
    TRIALS_AT_ONCE = 100,
};

// --- what is remembered of a group, so that most reports cost nothing

struct series_tail {
    uint64_t key;  // hash of the group; 0: nobody
    int64_t mark;  // the last step that is in a span
    int64_t last;  // the last step of all; -1: there is none
    int64_t n;     // reports behind the mark, about
    bool is_noted; // in metric_due
};

static uint64_t key_of(const struct db *db, const struct series_group *g)
{
    struct hash_key key = db->series_key;
    key.k[0] ^= (uint64_t)g->trial_id;
    uint64_t hash = hash_bytes(&key, g->name.ptr, g->name.len);
    return hash ? hash : 1;
}

static int count_tail(struct db *db, const struct series_group *g, int64_t mark, int64_t *out,
                      det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                   VALUE_OF_INT(mark), VALUE_OF_INT(SPAN_DUE)};
    return statement_number(&db->writer, SQL_TAIL_COUNT, values, STATIC_LEN(values), 0, out, err);
}

static int find_tail(struct db *db, const struct series_group *g, struct series_tail **out,
                     det_err *err)
{
    uint64_t key = key_of(db, g);
    struct series_tail *t = *out = &db->tails[key % N_TAILS];
    if (t->key == key) return 0;
    *t = (struct series_tail){0};
    int rc = series_mark(db, g, &t->mark, err);
    if (!rc) rc = count_tail(db, g, t->mark, &t->n, err);
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name)};
    if (!rc) rc = statement_number(&db->writer, SQL_METRICS_LAST, values, 2, -1, &t->last, err);
    if (!rc) t->key = key;
    return rc;
}

void series_forget(struct db *db)
{
    memset(db->tails, 0, N_TAILS * sizeof *db->tails);
}

// --- reports

// The points of a metric in a span; none if it has none there.
static int read_points(struct db *db, const struct series_group *g, struct str name, int64_t span,
                       struct arena *a, struct points *out, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                   VALUE_OF_TEXT(name), VALUE_OF_INT(span)};
    struct rows r;
    rows_start(&db->writer, SQL_POINTS_FIND, values, STATIC_LEN(values), &r);
    int code = rows_next(&r) ? points_unpack(rows_bytes(&r, 0), a, out, err) : 0;
    return rows_end(&r, code, err);
}

// A span that late reports have made too long is cut into several.
static int cut_span(struct db *db, const struct series_group *g, int64_t span, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                   VALUE_OF_INT(span)};
    int64_t at = -1, end = 0;
    int rc = statement_number(&db->writer, SQL_SPAN_BEFORE, values, 3, -1, &at, err);
    if (!rc) rc = statement_run(&db->writer, SQL_SPAN_DELETE, values, 3, err);
    if (!rc) rc = statement_run(&db->writer, SQL_POINTS_DELETE, values, 3, err);
    for (bool more = true; !rc && more; at = end) {
        rc = series_seal(db, g, at, span, &end, err);
        more = end != at && end < span;
    }
    return rc;
}

// A report of a step that is in a span already: its points are put there.
static int add_late(struct db *db, const struct series_group *g, int64_t steps, int64_t time_us,
                    struct str metrics, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                   VALUE_OF_INT(steps)};
    struct series_columns c;
    int64_t span = steps;
    size_t longest = 0;
    columns_init(&c, db);
    columns_add(&c, metrics, steps, time_us);
    int rc = statement_number(&db->writer, SQL_SPAN_OF, values, 3, steps, &span, err);
    for (const struct series_column *x = c.first; !rc && x; x = x->next) {
        struct points points = {0};
        rc = read_points(db, g, x->name, span, &c.arena, &points, err);
        points_insert(&points, &x->points.items[0], &c.arena);
        longest = MAX(longest, points.n);
        if (!rc) rc = series_put_chunk(db, g, x->name, span, &points, err);
    }
    columns_done(&c);
    return rc || longest <= CHUNK_MOST ? rc : cut_span(db, g, span, err);
}

static int note_due(struct db *db, const struct series_group *g, bool whole, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name),
                                   VALUE_OF_INT(whole)};
    db->tidy.series = true;
    return statement_run(&db->writer, SQL_DUE_ADD, values, STATIC_LEN(values), err);
}

enum {
    REPORT_TRIAL,
    REPORT_RUN,
    REPORT_GROUP,
    REPORT_STEPS,
    REPORT_TIME,
    REPORT_METRICS,
    N_REPORT
};

// What is there, with what is new in it. NULL: it cannot be read, and is replaced.
static struct str merge(struct str old, struct str more, struct arena *a)
{
    const struct json_opts opts = {.source = "stored", .max_bytes = MAX_REPORT_BYTES};
    struct diag_list diags = DIAG_INIT(a);
    struct doc *into = json_parse(a, old, &opts, &diags);
    const struct doc *from = json_parse(a, more, &opts, &diags);
    if (!into || !from || into->kind != DOC_MAP || from->kind != DOC_MAP) return more;
    for (const struct doc *d = from->first; d; d = d->next)
        doc_set(into, d->key, doc_share(a, d));
    return json_text(into, a);
}

// There are reports of this step or of later ones: one may be of the same run.
static int add_to_earlier(struct db *db, const struct value *v, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct value all[N_REPORT];
    struct rows r;
    memcpy(all, v, sizeof all);
    rows_start(&db->writer, SQL_METRICS_FIND, v, REPORT_STEPS + 1, &r);
    bool is_there = rows_next(&r);
    if (is_there)
        all[REPORT_METRICS].bytes = merge(rows_bytes(&r, 0), v[REPORT_METRICS].bytes, &arena);
    int rc = rows_end(&r, 0, err);
    enum statement id = is_there ? SQL_METRICS_CHANGE : SQL_METRICS_ADD;
    if (!rc) rc = statement_run(&db->writer, id, all, N_REPORT, err);
    arena_done(&arena);
    return rc;
}

int series_add_report(struct db *db, const struct op *op, det_err *err)
{
    const struct value *v = op->values;
    const struct series_group g = {v[REPORT_TRIAL].integer, v[REPORT_GROUP].bytes};
    int64_t steps = v[REPORT_STEPS].integer;
    struct series_tail *t;
    int rc = find_tail(db, &g, &t, err);
    if (rc) return rc;
    rc = steps > t->last ? statement_run(&db->writer, SQL_METRICS_ADD, v, N_REPORT, err)
                         : add_to_earlier(db, v, err);
    if (rc) return rc;
    t->last = MAX(t->last, steps);
    if (steps <= t->mark)
        return add_late(db, &g, steps, v[REPORT_TIME].integer, v[REPORT_METRICS].bytes, err);
    if (++t->n < SPAN_DUE || t->is_noted) return 0;
    t->is_noted = true;
    return note_due(db, &g, false, err);
}

// --- runs and trials

static int find_groups(struct db *db, int64_t trial_id, struct growing *out, det_err *err)
{
    const struct value id = VALUE_OF_INT(trial_id);
    struct rows r;
    rows_start(&db->writer, SQL_METRICS_GROUPS, &id, 1, &r);
    while (rows_next(&r))
        *(struct series_group *)grow(out) =
            (struct series_group){trial_id, str_from(rows_text(&r, 0, out->arena))};
    return rows_end(&r, 0, err);
}

// Trial, run, group, steps.
static int outdate(struct db *db, const struct value *v, const struct series_group *g, det_err *err)
{
    bool is_own = str_eq(g->name, v[2].bytes);
    const struct value values[] = {v[0], VALUE_OF_TEXT(g->name),
                                   VALUE_OF_INT(v[3].integer + !is_own), v[1]};
    return statement_run(&db->writer, SQL_METRICS_OUTDATE, values, STATIC_LEN(values), err);
}

// What is behind the step is in no span afterwards; what is left of it there gets into new ones.
int series_roll_back(struct db *db, const struct op *op, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct growing groups = {.arena = &arena, .size = sizeof(struct series_group)};
    const struct value *v = op->values, from[] = {v[0], v[3]};
    int rc = find_groups(db, v[0].integer, &groups, err);
    const struct series_group *all = (struct series_group *)(void *)groups.items;
    for (size_t i = 0; !rc && i < groups.n; i++)
        rc = outdate(db, v, &all[i], err);
    if (!rc) rc = statement_run(&db->writer, SQL_SPANS_DELETE_FROM, from, 2, err);
    if (!rc) rc = statement_run(&db->writer, SQL_POINTS_DELETE_FROM, from, 2, err);
    if (!rc) rc = series_summarize(db, v[0].integer, all, groups.n, err);
    for (size_t i = 0; !rc && i < groups.n; i++) {
        db->tails[key_of(db, &all[i]) % N_TAILS] = (struct series_tail){0};
        rc = note_due(db, &all[i], false, err);
    }
    arena_done(&arena);
    return rc;
}

int series_end_trial(struct db *db, const struct op *op, det_err *err)
{
    db->tidy.series = true;
    return statement_run(&db->writer, SQL_DUE_ADD_TRIAL, op->values, op->n, err);
}

// --- what is due

int series_start(struct db *db, bool *is_due, det_err *err)
{
    int64_t below = 0, trial = 0;
    db->tails = xcalloc(N_TAILS, sizeof *db->tails);
    int rc = entropy_read(&db->series_key, sizeof db->series_key, err);
    if (!rc) rc = statement_number(&db->writer, SQL_SERIES_BELOW, NULL, 0, 0, &below, err);
    if (!rc) rc = statement_number(&db->writer, SQL_DUE_FIND, NULL, 0, 0, &trial, err);
    *is_due = below || trial;
    return rc;
}

// Nothing is due of it any more.
static int mark_done(struct db *db, const struct series_group *g, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(g->trial_id), VALUE_OF_TEXT(g->name)};
    db->tails[key_of(db, g) % N_TAILS] = (struct series_tail){0};
    return statement_run(&db->writer, SQL_DUE_DONE, values, STATIC_LEN(values), err);
}

static int seal_next(struct db *db, const struct series_group *g, bool whole, det_err *err)
{
    int64_t mark = 0, n = 0, end = 0;
    int rc = series_mark(db, g, &mark, err);
    if (!rc) rc = count_tail(db, g, mark, &n, err);
    if (rc) return rc;
    if (n < (whole ? SPAN_FEWEST : SPAN_DUE)) return mark_done(db, g, err);
    rc = series_seal(db, g, mark, INT64_MAX, &end, err);
    struct series_tail *t = &db->tails[key_of(db, g) % N_TAILS];
    if (t->key == key_of(db, g)) t->mark = end;
    return rc;
}

// Trials of a database of before there were spans, the latest first, become due. *any: there was
// one.
static int convert(struct db *db, bool *any, det_err *err)
{
    int64_t below = 0, trial = 0;
    int rc = statement_number(&db->writer, SQL_SERIES_BELOW, NULL, 0, 0, &below, err);
    *any = !rc && below;
    for (int i = 0; !rc && below && i < TRIALS_AT_ONCE; i++) {
        struct value v = VALUE_OF_INT(below);
        rc = statement_number(&db->writer, SQL_TRIAL_BELOW, &v, 1, 0, &trial, err);
        if (!rc && !trial) {
            db_note(db, false, "the metrics of an older version have been prepared for charts");
            return statement_run(&db->writer, SQL_SERIES_BELOW_DELETE, NULL, 0, err);
        }
        below = trial;
        v = VALUE_OF_INT(below);
        if (!rc) rc = statement_run(&db->writer, SQL_DUE_ADD_TRIAL, &v, 1, err);
        if (!rc) rc = statement_run(&db->writer, SQL_SERIES_BELOW_SAVE, &v, 1, err);
    }
    return rc;
}

int series_slice(struct db *db, bool *is_due, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const int64_t end_us = clock_mono_us() + SLICE_US;
    int rc = 0;
    *is_due = true;
    do {
        struct rows r;
        rows_start(&db->writer, SQL_DUE_FIND, NULL, 0, &r);
        bool any = rows_next(&r), whole = any && rows_int(&r, 2);
        struct series_group g = {any ? rows_int(&r, 0) : 0, STR("")};
        if (any) g.name = str_from(rows_text(&r, 1, &arena));
        rc = rows_end(&r, 0, err);
        if (!rc) rc = any ? seal_next(db, &g, whole, err) : convert(db, is_due, err);
    } while (!rc && *is_due && clock_mono_us() < end_us);
    arena_done(&arena);
    if (rc) series_forget(db);
    return rc;
}
