// Unit metrics.c: reports of a trial in the order of their steps. The table has them group by
// group, so those of several groups are merged, a few of each at a time.
#include "db/reader.h"

#include "base/assert.h"

enum { FEWEST = 16 }; // of a group at a time

struct db_lane {
    const char *group;
    int64_t steps, run; // the last that was given
    // While a page is read:
    const struct metric_report *rows;
    size_t n, next;
    bool is_last; // there are none behind these rows
};

static void add_lane(struct db_metrics *m, struct growing *lanes, const char *group)
{
    struct db_lane *lane = grow(lanes);
    *lane = (struct db_lane){.group = group, .steps = m->after, .run = INT64_MAX};
}

// The groups of a trial.
static int find_lanes(struct db_reader *r, struct db_metrics *m, det_err *err)
{
    struct growing lanes = {.arena = m->arena, .size = sizeof(struct db_lane)};
    int rc = 0;
    if (m->group) {
        add_lane(m, &lanes, m->group);
    } else {
        const struct value id = VALUE_OF_INT(m->trial_id);
        struct rows rows;
        rows_start(&r->c, SQL_METRICS_GROUPS, &id, 1, &rows);
        while (rows_next(&rows))
            add_lane(m, &lanes, rows_text(&rows, 0, m->arena));
        rc = rows_end(&rows, 0, err);
    }
    if (rc) return rc;
    m->lanes = (struct db_lane *)(void *)lanes.items;
    m->n_lanes = lanes.n;
    m->is_open = true;
    return 0;
}

static int fill(struct db_reader *r, const struct db_metrics *m, struct db_lane *lane, int64_t n,
                struct arena *a, det_err *err)
{
    const struct metric_report *last = lane->n ? &lane->rows[lane->n - 1] : NULL;
    const struct value values[] = {VALUE_OF_INT(m->trial_id), VALUE_OF_TEXT(str_from(lane->group)),
                                   VALUE_OF_INT(last ? last->steps_completed : lane->steps),
                                   VALUE_OF_INT(last ? last->run_id : lane->run), VALUE_OF_INT(n)};
    struct db_list list = {0};
    struct rows rows;
    rows_start(&r->c, SQL_METRICS_AFTER, values, STATIC_LEN(values), &rows);
    int rc = collect(&rows, NOUN_METRIC_REPORT, a, &list, err);
    lane->rows = list.items;
    lane->n = list.n;
    lane->next = 0;
    lane->is_last = (int64_t)list.n < n;
    return rc;
}

// The lane whose next report comes first, with that report there; NULL: there is none.
static int next_lane(struct db_reader *r, const struct db_metrics *m, int64_t n_each,
                     struct arena *a, struct db_lane **out, det_err *err)
{
    struct db_lane *first = NULL;
    for (size_t i = 0; i < m->n_lanes; i++) {
        struct db_lane *lane = &m->lanes[i];
        if (lane->next == lane->n && !lane->is_last) {
            int rc = fill(r, m, lane, n_each, a, err);
            if (rc) return rc;
        }
        if (lane->next == lane->n) continue;
        int64_t steps = lane->rows[lane->next].steps_completed;
        if (!first || steps < first->rows[first->next].steps_completed) first = lane;
    }
    *out = first;
    return 0;
}

int db_metrics_page(struct db_reader *r, struct db_metrics *m, int64_t limit, struct arena *a,
                    struct db_list *out, det_err *err)
{
    struct growing page = {.arena = a, .size = sizeof(struct metric_report)};
    struct db_lane *lane;
    int rc = m->is_open ? 0 : find_lanes(r, m, err);
    if (rc) return rc;
    int64_t n_each = MAX(limit / MAX((int64_t)m->n_lanes, 1), FEWEST), last = -1;
    for (size_t i = 0; i < m->n_lanes; i++)
        m->lanes[i].n = m->lanes[i].next = m->lanes[i].is_last = 0;
    while (!(rc = next_lane(r, m, n_each, a, &lane, err)) && lane) {
        const struct metric_report *report = &lane->rows[lane->next];
        if ((int64_t)page.n >= limit && report->steps_completed != last) break;
        lane->next++;
        lane->steps = last = report->steps_completed;
        lane->run = report->run_id;
        if (m->skip > 0)
            m->skip--;
        else
            *(struct metric_report *)grow(&page) = *report;
    }
    if (rc) return rc;
    m->has_more = lane != NULL;
    *out = (struct db_list){.items = page.items, .n = page.n, .total = (int64_t)page.n};
    return 0;
}
