// Unit trace.c: reports as events of the Trace Event Format: batches and validations take time, the
// rest happens at one moment.
#include "runner/trace.h"

#include "doc/json.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"

enum { EVENT_MAX_BYTES = 64 << 10 };

struct trace {
    FILE *file;
    char *path;
    int64_t start_us, last_us; // last_us: where the next batch begins
    bool has_events;
    struct buf event;
};

struct trace *trace_open(const char *path, det_err *err)
{
    FILE *file = fopen(path, "we");
    if (!file) {
        fs_fail(err, "create", path);
        return NULL;
    }
    struct trace *t = xcalloc(1, sizeof *t);
    int64_t now = clock_mono_us();
    *t = (struct trace){file, xstrdup(path), now, now, false, BUF_INIT(EVENT_MAX_BYTES)};
    fputs("{\"traceEvents\": [", file);
    return t;
}

static void put_event(struct trace *t, const char *name, int64_t from_us, int64_t to_us,
                      const det_report *r)
{
    struct json_writer w;
    buf_clear(&t->event);
    json_init(&w, &t->event, 0);
    json_open_map(&w);
    json_key(&w, "name");
    json_put_str(&w, name);
    json_key(&w, "ph");
    json_put_str(&w, to_us > from_us ? "X" : "i");
    json_key(&w, "pid");
    json_put_int(&w, 1);
    json_key(&w, "tid");
    json_put_int(&w, 1);
    json_key(&w, "ts");
    json_put_int(&w, from_us - t->start_us);
    json_key(&w, "dur");
    json_put_int(&w, to_us - from_us);
    json_key(&w, "args");
    json_open_map(&w);
    json_key(&w, "batches");
    json_put_int(&w, r->batches);
    for (int i = 0; i < det_metrics_len(r->metrics); i++) {
        json_key(&w, det_metrics_name(r->metrics, i));
        json_put_double(&w, det_metrics_at(r->metrics, 0, i));
    }
    json_close(&w);
    json_close(&w);
    fprintf(t->file, "%s\n%s", t->has_events ? "," : "", t->event.ptr);
    t->has_events = true;
}

void trace_report(struct trace *t, const det_report *r)
{
    int64_t now = clock_mono_us();
    switch (r->kind) {
    case DET_REPORT_BATCH:
        put_event(t, "batch", t->last_us, now, r);
        break;
    case DET_REPORT_TRAINING:
        put_event(t, "report", now, now, r);
        break;
    case DET_REPORT_VALIDATION:
        put_event(t, "validation", now - (int64_t)(r->seconds * 1e6), now, r);
        break;
    case DET_REPORT_CHECKPOINT:
        put_event(t, "checkpoint complete", now, now, r);
        break;
    case DET_REPORT_WARNING:
        put_event(t, r->text, now, now, r);
        break;
    }
    t->last_us = clock_mono_us();
}

int trace_close(struct trace *t, det_err *err)
{
    if (!t) return det_ok(err);
    fputs("\n]}\n", t->file);
    bool lost = ferror(t->file) != 0;
    if (fclose(t->file) != 0) lost = true;
    int rc = lost ? fs_fail(err, "write", t->path) : det_ok(err);
    buf_done(&t->event);
    free(t->path);
    free(t);
    return rc;
}
