// Unit metrics.c: reports of metrics and of what a trial is doing.
#include "client/core.h"

#include "doc/json.h"
#include "sys/clock.h"
#include <math.h>
#include <time.h>

// --- what a report looks like (docs/protocol.md)

static void put_now(struct json_writer *w)
{
    char text[40];
    int64_t now_us = clock_unix_us();
    time_t seconds = (time_t)(now_us / 1000000);
    struct tm t;
    gmtime_r(&seconds, &t);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(text + n, sizeof text - n, ".%06lldZ", (long long)(now_us % 1000000));
    json_key(w, "reportTime");
    json_put_str(w, text);
}

static void open_report(struct json_writer *w, struct buf *body, const det_core *core,
                        const char *group, int64_t batches)
{
    json_init(w, body, 0);
    json_open_map(w);
    json_key(w, "trialRunId");
    json_put_int(w, core->info.run_id);
    json_key(w, "reports");
    json_open_list(w);
    json_open_map(w);
    json_key(w, "group");
    json_put_str(w, group);
    json_key(w, "stepsCompleted");
    json_put_int(w, batches);
    put_now(w);
    json_key(w, "metrics");
}

static int send_report(det_core *core, struct json_writer *w, int64_t batches, det_err *err)
{
    json_close(w); // the report
    json_close(w); // all of them
    json_close(w);
    int rc = core_report(core, core_trial_path(core, "metrics").text, w->out, err);
    if (!rc) core->last_batches = batches;
    return rc;
}

static int check(const det_core *core, const char *group, int64_t batches, det_err *err)
{
    int rc = core_check_chief(core, "reporting metrics", err);
    if (rc) return rc;
    if (!*group || strchr(group, '.'))
        return det_fail(err, DET_EINVAL,
                        "the group of metrics '%.60s' must not be empty or have "
                        "a dot in it",
                        group);
    if (batches < 0)
        return det_fail(err, DET_EINVAL, "batches_trained must be at least 0, found %lld",
                        (long long)batches);
    return det_ok(err);
}

static int report_numbers(det_core *core, const char *group, int64_t batches,
                          const det_metric_value *metrics, int n, det_err *err)
{
    int rc = check(core, group, batches, err);
    if (rc) return rc;
    struct buf body = BUF_INIT(JOURNAL_MAX_LINE);
    struct json_writer w;
    open_report(&w, &body, core, group, batches);
    json_open_map(&w);
    for (int i = 0; i < n; i++) {
        json_key(&w, metrics[i].name);
        json_put_double(&w, metrics[i].value);
    }
    json_close(&w);
    rc = send_report(core, &w, batches, err);
    buf_done(&body);
    return rc;
}

int det_core_report_training_metrics(det_core *core, int64_t batches_trained,
                                     const det_metric_value *metrics, int n, det_err *err)
{
    return report_numbers(core, "training", batches_trained, metrics, n, err);
}

int det_core_report_validation_metrics(det_core *core, int64_t batches_trained,
                                       const det_metric_value *metrics, int n, det_err *err)
{
    return report_numbers(core, "validation", batches_trained, metrics, n, err);
}

int det_core_report_metrics(det_core *core, const char *group, int64_t batches_trained,
                            const char *json, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct buf body = BUF_INIT(JOURNAL_MAX_LINE);
    const struct json_opts opts = {.source = "metrics", .max_bytes = JOURNAL_MAX_LINE};
    int rc = check(core, group, batches_trained, err);
    if (rc) return rc;
    const struct doc *doc = json_parse(&arena, str_from(json), &opts, &diags);
    if (!doc)
        rc = diag_fail(&diags, err);
    else if (doc->kind != DOC_MAP)
        rc = det_fail(err, DET_EINVAL, "metrics must be a JSON object, found %s",
                      doc_kind_name(doc->kind));
    if (!rc) {
        struct json_writer w;
        open_report(&w, &body, core, group, batches_trained);
        json_put_doc(&w, doc);
        rc = send_report(core, &w, batches_trained, err);
    }
    buf_done(&body);
    arena_done(&arena);
    return rc;
}

// --- small things

static int report_text(det_core *core, const char *path, const char *key, const char *text,
                       det_err *err)
{
    struct buf body = BUF_INIT(64 << 10);
    struct json_writer w;
    json_init(&w, &body, 0);
    json_open_map(&w);
    json_key(&w, key);
    json_put_str(&w, text);
    json_close(&w);
    int rc = core_report(core, core_trial_path(core, path).text, &body, err);
    buf_done(&body);
    return rc;
}

int det_core_set_status(det_core *core, const char *text, det_err *err)
{
    int rc = core_check_chief(core, "setting the status", err);
    return rc ? rc : report_text(core, "runner/metadata", "state", text, err);
}

int det_core_report_invalid_hparams(det_core *core, det_err *err)
{
    if (core->info.rank) return det_ok(err); // every rank may find out; one of them says so
    return report_text(core, "early_exit", "reason", "EXITED_REASON_INVALID_HP", err);
}

int det_core_best_validation(det_core *core, double *out, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct api_path path;
    struct doc *answer;
    if (core->info.is_local) return det_ok(err);
    snprintf(path.text, sizeof path.text,
             "/api/v1/experiments/%lld/searcher/best_searcher_validation_metric",
             (long long)core->info.experiment_id);
    int rc = core_ask(core, path.text, &arena, &answer, err);
    if (!rc) rc = doc_number(doc_find(answer, "metric"), out) ? 1 : 0;
    arena_done(&arena);
    return rc == DET_ENOTFOUND ? det_ok(err) : rc;
}
