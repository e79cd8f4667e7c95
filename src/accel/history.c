// Unit history.c: the run history: values of metrics by name. Called by loop.c and by users.
#include "accel/accel.h"

#include "base/buf.h"
#include "base/mem.h"
#include <math.h>

struct metric {
    char *name;
    double *value;
    int n, cap;
    int64_t recorded; // the latest value: the how-manieth of all
};

struct det_accel_history {
    struct metric *metric;
    int n;
    int64_t epoch;
    int64_t count; // of values ever recorded
    const char *prefix;
};

det_accel_history *det_accel_history_new(void)
{
    det_accel_history *h = xcalloc(1, sizeof *h);
    h->epoch = 1;
    return h;
}

static void metric_done(struct metric *m)
{
    free(m->name);
    free(m->value);
}

void det_accel_history_reset(det_accel_history *h)
{
    if (!h) return;
    for (int i = 0; i < h->n; i++)
        metric_done(&h->metric[i]);
    h->n = 0;
    h->epoch = 1;
}

void det_accel_history_free(det_accel_history *h)
{
    if (!h) return;
    det_accel_history_reset(h);
    free(h->metric);
    free(h);
}

static struct metric *find(const det_accel_history *h, const char *name)
{
    for (int i = 0; h && name && i < h->n; i++)
        if (str_eqz(str_from(h->metric[i].name), name)) return &h->metric[i];
    return NULL;
}

static struct metric *add(det_accel_history *h, const char *name)
{
    h->metric = xrealloc(h->metric, (size_t)(h->n + 1) * sizeof *h->metric);
    h->metric[h->n] = (struct metric){.name = xstrdup(name)};
    return &h->metric[h->n++];
}

void det_accel_history_update(det_accel_history *h, const char *name, double value)
{
    if (!h || !name) return;
    enum { NAME_MAX_BYTES = 4096 };
    struct buf full = BUF_INIT(NAME_MAX_BYTES);
    buf_printf(&full, "%s%s", h->prefix ? h->prefix : "", name);
    struct metric *m = find(h, buf_str(&full).ptr);
    if (!m) m = add(h, buf_str(&full).ptr);
    buf_done(&full);
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 16;
        m->value = xrealloc(m->value, (size_t)m->cap * sizeof *m->value);
    }
    m->value[m->n++] = value;
    m->recorded = ++h->count;
}

int64_t history_count(const det_accel_history *h)
{
    return h->count;
}

int history_news(const det_accel_history *h, int64_t since, det_metric_value *out)
{
    int n = 0;
    for (int i = 0; i < h->n; i++) {
        const struct metric *m = &h->metric[i];
        if (m->recorded > since) out[n++] = (det_metric_value){m->name, m->value[m->n - 1]};
    }
    return n;
}

int det_accel_history_n_metrics(const det_accel_history *h)
{
    return h ? h->n : 0;
}

const char *det_accel_history_name(const det_accel_history *h, int index)
{
    return h && index >= 0 && index < h->n ? h->metric[index].name : NULL;
}

const double *det_accel_history_values(const det_accel_history *h, const char *name, int *n)
{
    const struct metric *m = find(h, name);
    if (n) *n = m ? m->n : 0;
    return m ? m->value : NULL;
}

double det_accel_history_latest(const det_accel_history *h, const char *name)
{
    const struct metric *m = find(h, name);
    if (m) return m->value[m->n - 1];
    struct buf names = BUF_INIT(DET_ERR_MSG_MAX / 2);
    for (int i = 0; i < det_accel_history_n_metrics(h); i++)
        buf_printf(&names, "%s%s", i ? ", " : "", h->metric[i].name);
    det_raise(DET_ENOTFOUND, "run history: no metric '%s'; there are: %s", name ? name : "",
              names.len ? buf_str(&names).ptr : "none yet");
    buf_done(&names);
    return NAN;
}

void det_accel_history_delete(det_accel_history *h, const char *name)
{
    struct metric *m = find(h, name);
    if (!m) return;
    metric_done(m);
    size_t after = (size_t)(h->metric + h->n - (m + 1));
    memmove(m, m + 1, after * sizeof *m);
    h->n--;
}

int64_t det_accel_history_current_epoch(const det_accel_history *h)
{
    return h ? h->epoch : 0;
}

void det_accel_history_set_epoch(det_accel_history *h, int64_t epoch)
{
    if (h) h->epoch = epoch;
}

const char *det_accel_history_set_prefix(det_accel_history *h, const char *prefix)
{
    if (!h) return NULL;
    const char *before = h->prefix;
    h->prefix = prefix;
    return before;
}

// --- in a training state: {"current_epoch": 3, "metrics": {name: [values]}}

det_value *history_state(const det_accel_history *h)
{
    det_value *dict = det_value_dict();
    det_value_set(dict, "current_epoch", det_value_int(h->epoch));
    det_value *metrics = det_value_set(dict, "metrics", det_value_dict());
    for (int i = 0; i < h->n; i++) {
        det_value *list = det_value_set(metrics, h->metric[i].name, det_value_list());
        for (int k = 0; k < h->metric[i].n; k++)
            det_value_push(list, det_value_float(h->metric[i].value[k]));
    }
    return dict;
}

static int load_metric(det_accel_history *h, const char *name, const det_value *list, det_err *err)
{
    for (int k = 0; k < det_value_len(list); k++) {
        double value;
        int rc = det_value_as_float(det_value_at(list, k), &value, err);
        if (rc) return det_wrap(err, "metric '%s'", name);
        det_accel_history_update(h, name, value);
    }
    return 0;
}

int history_load(det_accel_history *h, const det_value *state, det_err *err)
{
    int64_t epoch;
    int rc = det_value_as_int(det_value_get(state, "current_epoch"), &epoch, err);
    if (rc) return det_wrap(err, "current_epoch");
    det_accel_history_reset(h);
    h->epoch = epoch;
    const det_value *metrics = det_value_get(state, "metrics");
    for (int i = 0; !rc && i < det_value_len(metrics); i++) {
        int64_t number;
        const char *name = det_value_key(metrics, i, &number);
        if (!name) return det_fail(err, DET_ECORRUPT, "metrics: a name is not a string");
        rc = load_metric(h, name, det_value_at(metrics, i), err);
    }
    return rc;
}
