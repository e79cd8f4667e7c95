// Unit samples.c: what trials used of their machines, thinned out for a chart.
#include "db/reader.h"

#include "base/assert.h"
#include <math.h>

// Samples of one stretch of time.
struct stretch {
    struct usage_sample sum; // of cpu and gpu; the most of memory; the latest time
    int64_t n, n_gpu;
};

static void read_sample(const struct rows *r, struct usage_sample *out)
{
    *out = (struct usage_sample){
        .time_us = rows_int(r, 0),
        .cpu = rows_real(r, 1),
        .memory_bytes = rows_int(r, 2),
        .gpu = rows_value(r, 3),
        .gpu_memory_bytes = rows_int(r, 4),
    };
}

static void add(struct stretch *t, const struct usage_sample *x)
{
    if (!t->n) t->sum = (struct usage_sample){.gpu_memory_bytes = -1};
    t->n++;
    t->sum.time_us = x->time_us;
    t->sum.cpu += x->cpu;
    t->sum.memory_bytes = MAX(t->sum.memory_bytes, x->memory_bytes);
    t->sum.gpu_memory_bytes = MAX(t->sum.gpu_memory_bytes, x->gpu_memory_bytes);
    if (isnan(x->gpu)) return;
    t->sum.gpu += x->gpu;
    t->n_gpu++;
}

static void flush(struct stretch *t, struct growing *out)
{
    if (!t->n) return;
    struct usage_sample *x = grow(out);
    *x = t->sum;
    x->cpu /= (double)t->n;
    x->gpu = t->n_gpu ? t->sum.gpu / (double)t->n_gpu : NAN;
    t->n = t->n_gpu = 0;
}

static struct growing thin_out(const struct usage_sample *all, size_t n, int64_t max_points,
                               struct arena *a)
{
    struct growing out = {.arena = a, .size = sizeof(struct usage_sample)};
    struct stretch now = {0};
    int64_t first = all[0].time_us, length = all[n - 1].time_us - first + 1, at = -1;
    bool few = (int64_t)n <= max_points;
    for (size_t i = 0; i < n; i++) {
        double place = (double)(all[i].time_us - first) / (double)length;
        int64_t next = few ? (int64_t)i : (int64_t)(place * (double)max_points);
        if (next != at) flush(&now, &out);
        at = next;
        add(&now, &all[i]);
    }
    flush(&now, &out);
    return out;
}

int db_samples_list(struct db_reader *r, int64_t trial_id, int64_t max_points, struct arena *a,
                    struct db_list *out, det_err *err)
{
    struct growing all = {.arena = a, .size = sizeof(struct usage_sample)};
    const struct value id = VALUE_OF_INT(trial_id);
    struct rows rows;
    rows_start(&r->c, SQL_SAMPLES_LIST, &id, 1, &rows);
    while (rows_next(&rows))
        read_sample(&rows, grow(&all));
    int code = rows_end(&rows, 0, err);
    if (code) return code;
    if (all.n) all = thin_out((const struct usage_sample *)all.items, all.n, MAX(1, max_points), a);
    *out = (struct db_list){.items = all.items, .n = all.n};
    return 0;
}
