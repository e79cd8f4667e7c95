// Unit metrics.c: tables of metrics. Filled by trials, read by callbacks, hosts and results.
//
// A workload fills one row per batch. Names are compared in the order in which the first row had
// them, so that a batch costs one comparison per metric; memory grows by doubling and is kept.
#include "train/metrics.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>

struct column {
    char *name;
    int64_t last_row; // the last one that has a value for it
};

// A number that the engine keeps, and its place in values.
struct kept {
    int64_t row;
    int column;
};

struct det_metrics {
    const det_engine *engine;
    struct column *columns;
    int n_columns, cap_columns;
    double *values; // (n_rows, n_columns)
    int64_t n_rows;
    size_t cap_values;
    int n_set; // values that the row being filled has
    int next;  // the column that is probably reported next
    bool filling;
    det_tensor *loss;
    struct kept *kept;
    det_tensor **kept_value; // the same
    int64_t n_kept, cap_kept;
};

det_metrics *metrics_new(const det_engine *engine)
{
    det_metrics *m = xcalloc(1, sizeof *m);
    m->engine = engine;
    return m;
}

static void forget_kept(det_metrics *m)
{
    for (int64_t i = 0; i < m->n_kept; i++)
        m->engine->kept_free(m->kept_value[i]);
    m->n_kept = 0;
}

void metrics_clear(det_metrics *m)
{
    forget_kept(m);
    for (int i = 0; i < m->n_columns; i++)
        free(m->columns[i].name);
    m->n_columns = m->n_set = m->next = 0;
    m->n_rows = 0;
    m->filling = false;
    m->loss = NULL;
}

void metrics_free(det_metrics *m)
{
    if (!m) return;
    metrics_clear(m);
    free(m->columns);
    free(m->values);
    free(m->kept);
    free(m->kept_value);
    free(m);
}

// --- filling

static double *row_at(const det_metrics *m, int64_t row)
{
    return m->values + (size_t)row * (size_t)m->n_columns;
}

static void reserve(det_metrics *m, size_t n_values)
{
    if (n_values <= m->cap_values) return;
    m->cap_values = MAX(n_values, 2 * m->cap_values);
    m->values = xrealloc(m->values, m->cap_values * sizeof *m->values);
}

static void column_add(det_metrics *m, const char *name)
{
    if (m->n_columns == m->cap_columns) {
        m->cap_columns = m->cap_columns ? 2 * m->cap_columns : 4;
        m->columns = xrealloc(m->columns, (size_t)m->cap_columns * sizeof *m->columns);
    }
    m->columns[m->n_columns++] = (struct column){xstrdup(name), -1};
    reserve(m, (size_t)m->n_columns);
}

void metrics_begin_row(det_metrics *m)
{
    ASSERT(!m->filling);
    reserve(m, (size_t)(m->n_rows + 1) * (size_t)m->n_columns);
    m->n_set = m->next = 0;
    m->loss = NULL;
    m->filling = true;
}

int metrics_end_row(det_metrics *m, int64_t batch_idx, det_err *err)
{
    ASSERT(m->filling);
    m->filling = false;
    if (m->n_set == m->n_columns) {
        m->n_rows++;
        return 0;
    }
    for (int i = 0; i < m->n_columns; i++)
        if (m->columns[i].last_row != m->n_rows)
            return det_fail(err, DET_EINVAL,
                            "batch %lld reports no metric '%s', but batches before it did: all "
                            "batches must report the same metrics",
                            (long long)batch_idx, m->columns[i].name);
    return DET_EINVAL;
}

int metrics_find(const det_metrics *m, const char *name)
{
    struct str wanted = str_from(name);
    for (int i = 0; m && i < m->n_columns; i++)
        if (str_eqz(wanted, m->columns[i].name)) return i;
    return -1;
}

// The column of a name in the row being filled; -1 if it may not be there.
static int column_for(det_metrics *m, const char *name)
{
    if (m->next < m->n_columns && str_eq(str_from(name), str_from(m->columns[m->next].name)))
        return m->next;
    int at = metrics_find(m, name);
    if (at >= 0) return at;
    if (m->n_rows > 0) {
        det_raise(DET_EINVAL,
                  "metric '%s' is reported, but batches before did not: all batches must report "
                  "the same metrics",
                  name);
        return -1;
    }
    column_add(m, name);
    return m->n_columns - 1;
}

// The column of a name that may be reported now, with a place in the row; -1: not.
static int claim(det_metrics *m, const char *name)
{
    if (!m || !name || !name[0]) {
        det_raise(DET_EINVAL, "det_metric: %s", m ? "the name is empty" : "there are no metrics");
        return -1;
    }
    if (!m->filling) {
        det_raise(DET_ESTATE, "det_metric: '%s' is reported outside of a batch", name);
        return -1;
    }
    int at = column_for(m, name);
    if (at < 0) return at;
    struct column *c = &m->columns[at];
    if (c->last_row == m->n_rows) {
        det_raise(DET_EINVAL, "metric '%s' is reported twice", name);
        return -1;
    }
    m->n_set++;
    c->last_row = m->n_rows;
    m->next = at + 1;
    return at;
}

void det_metric_number(det_metrics *m, const char *name, double value)
{
    int at = claim(m, name);
    if (at >= 0) row_at(m, m->n_rows)[at] = value;
}

static void keep(det_metrics *m, int column, det_tensor *value)
{
    if (m->n_kept == m->cap_kept) {
        m->cap_kept = m->cap_kept ? 2 * m->cap_kept : 64;
        m->kept = xrealloc(m->kept, (size_t)m->cap_kept * sizeof *m->kept);
        m->kept_value = xrealloc(m->kept_value, (size_t)m->cap_kept * sizeof *m->kept_value);
    }
    m->kept[m->n_kept] = (struct kept){m->n_rows, column};
    m->kept_value[m->n_kept++] = value;
}

void det_metric_tensor(det_metrics *m, const char *name, det_tensor *value)
{
    det_err err;
    double number = NAN;
    det_tensor *kept = NULL;
    if (!value) { // an error is pending; if not, this is one
        det_raise(DET_EINVAL, "det_metric: '%s' is NULL", name ? name : "");
        return;
    }
    if (m && m->engine->scalar(value, &number, &kept, &err)) {
        det_raise(err.code, "metric '%s' %s", name ? name : "", err.msg);
        return;
    }
    int at = claim(m, name);
    if (at < 0 && kept) m->engine->kept_free(kept);
    if (at < 0) return;
    row_at(m, m->n_rows)[at] = number;
    if (kept) keep(m, at, kept);
    if (str_eq(str_from(name), STR("loss"))) m->loss = value;
}

int metrics_read(det_metrics *m, det_err *err)
{
    if (!m->n_kept) return 0;
    double *number = xcalloc((size_t)m->n_kept, sizeof *number);
    int rc = m->engine->read_kept(m->kept_value, m->n_kept, number, err);
    for (int64_t i = 0; !rc && i < m->n_kept; i++)
        row_at(m, m->kept[i].row)[m->kept[i].column] = number[i];
    forget_kept(m);
    free(number);
    return rc ? det_wrap(err, "metrics") : 0;
}

det_tensor *metrics_loss(const det_metrics *m)
{
    return m->loss;
}

// --- reading

int det_metrics_len(const det_metrics *m)
{
    return m ? m->n_columns : 0;
}

const char *det_metrics_name(const det_metrics *m, int index)
{
    return m && index >= 0 && index < m->n_columns ? m->columns[index].name : NULL;
}

int64_t det_metrics_rows(const det_metrics *m)
{
    return m ? m->n_rows : 0;
}

double det_metrics_at(const det_metrics *m, int64_t row, int index)
{
    bool there = m && row >= 0 && row < m->n_rows && index >= 0 && index < m->n_columns;
    return there ? row_at(m, row)[index] : NAN;
}

double det_metrics_get(const det_metrics *m, const char *name)
{
    return det_metrics_at(m, 0, metrics_find(m, name));
}

int64_t metrics_find_nan(const det_metrics *m, int *column)
{
    for (int64_t row = 0; row < m->n_rows; row++)
        for (int i = 0; i < m->n_columns; i++)
            if (isnan(m->values[row * m->n_columns + i])) {
                *column = i;
                return row;
            }
    return -1;
}

// --- reducing

double reduce_values(det_combine kind, const double *values, const double *weights, int64_t n,
                     int64_t stride)
{
    double sum = 0, weight = 0, best = n ? values[0] : NAN;
    for (int64_t i = 0; i < n; i++) {
        double v = values[i * stride], w = weights ? weights[i] : 1;
        sum += kind == DET_COMBINE_AVG ? w * v : v;
        weight += w;
        // A NaN is worth knowing: it is the minimum and the maximum.
        if (isnan(v) || (kind == DET_COMBINE_MAX ? v > best : v < best)) best = v;
    }
    switch (kind) {
    case DET_COMBINE_SUM:
        return sum;
    case DET_COMBINE_MIN:
    case DET_COMBINE_MAX:
        return best;
    default:
        return sum / weight;
    }
}

static void set_number(det_metrics *m, const char *name, double value)
{
    int at = metrics_find(m, name);
    if (at < 0) {
        column_add(m, name);
        at = m->n_columns - 1;
    }
    m->values[at] = value;
    m->n_rows = 1;
}

void metrics_reduce(const det_metrics *m, metrics_kind_fn kind_of, void *user, det_metrics *out)
{
    metrics_clear(out);
    for (int i = 0; i < m->n_columns; i++) {
        det_combine kind = kind_of ? kind_of(user, m->columns[i].name) : DET_COMBINE_AVG;
        double value = reduce_values(kind, m->values + i, NULL, m->n_rows, m->n_columns);
        set_number(out, m->columns[i].name, value);
    }
    out->n_rows = 1;
}

void metrics_add_all(det_metrics *m, const det_metrics *from)
{
    for (int i = 0; i < det_metrics_len(from); i++)
        set_number(m, from->columns[i].name, det_metrics_at(from, 0, i));
}
