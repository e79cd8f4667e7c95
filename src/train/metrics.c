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

struct det_metrics {
    struct column *columns;
    int n_columns, cap_columns;
    double *values; // (n_rows, n_columns)
    int64_t n_rows;
    size_t cap_values;
    int n_set; // values that the row being filled has
    int next;  // the column that is probably reported next
    bool filling;
    det_tensor *loss;
};

det_metrics *metrics_new(void)
{
    return xcalloc(1, sizeof(det_metrics));
}

void metrics_clear(det_metrics *m)
{
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

void det_metric_number(det_metrics *m, const char *name, double value)
{
    if (!m || !name || !name[0]) {
        det_raise(DET_EINVAL, "det_metric: %s", m ? "the name is empty" : "there are no metrics");
        return;
    }
    if (!m->filling) {
        det_raise(DET_ESTATE, "det_metric: '%s' is reported outside of a batch", name);
        return;
    }
    int at = column_for(m, name);
    if (at < 0) return;
    struct column *c = &m->columns[at];
    if (c->last_row == m->n_rows) {
        det_raise(DET_EINVAL, "metric '%s' is reported twice", name);
        return;
    }
    m->n_set++;
    c->last_row = m->n_rows;
    row_at(m, m->n_rows)[at] = value;
    m->next = at + 1;
}

// The number is read here and not later: by then the tensor may have changed. Nothing waits for it,
// since operations on this machine have computed their results already.
void det_metric_tensor(det_metrics *m, const char *name, det_tensor *value)
{
    if (!value) { // an error is pending; if not, this is one
        det_raise(DET_EINVAL, "det_metric: '%s' is NULL", name ? name : "");
        return;
    }
    if (det_numel(value) != 1) {
        char text[96];
        det_raise(DET_ESHAPE, "metric '%s' is %s, not a single number", name,
                  det_describe(value, text, sizeof text));
        return;
    }
    det_metric_number(m, name, det_item(value));
    if (m && str_eq(str_from(name), STR("loss"))) m->loss = value;
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
