// Unit tables.c: tables, their keys and the orders of lists.
#include "db/tables.h"

#include "base/assert.h"
#include "base/buf.h"

static const struct sort experiment_sorts[] = {
    {"name", "name"},
    {"startTime", "startTime"},
    {"endTime", "endTime"},
    {"state", "state"},
    {"numTrials", "numTrials"},
    {"userId", "userId"},
    {"progress", "ifnull(progress, -1)"},
    {"searcherMetric", "searcherMetric"},
    {"bestTrialSearcherMetric", "ifnull(bestTrialSearcherMetric, INFINITY)"},
};

static const struct sort trial_sorts[] = {
    {"startTime", "startTime"},
    {"endTime", "endTime"},
    {"state", "state"},
    {"restarts", "restarts"},
    {"totalBatchesProcessed", "totalBatchesProcessed"},
    {"searcherMetricValue", "ifnull(searcherMetricValue, INFINITY)"},
};

static const struct sort checkpoint_sorts[] = {
    {"reportTime", "reportTime"},
    {"stepsCompleted", "stepsCompleted"},
    {"state", "state"},
    {"size", "size"},
    {"searcherMetric", "ifnull(searcherMetric, INFINITY)"},
};

static const struct sort allocation_sorts[] = {{"runId", "runId"}, {"startTime", "startTime"}};

static const struct sort user_sorts[] = {{"username", "username"}};

#define SORTS(array) (array), STATIC_LEN(array)

const struct table tables[N_NOUN] = {
    [NOUN_EXPERIMENT] = {"experiments", "experiment", &experiment_table, "id", "id",
                         SORTS(experiment_sorts)},
    [NOUN_TRIAL] = {"trials", "trial", &trial_table, "id", "id", SORTS(trial_sorts)},
    [NOUN_ALLOCATION] = {"allocations", "allocation", &allocation_table, "allocationId", "rowid",
                         SORTS(allocation_sorts)},
    [NOUN_CHECKPOINT] = {"checkpoints", "checkpoint", &checkpoint_table, "uuid", "rowid",
                         SORTS(checkpoint_sorts)},
    [NOUN_METRIC_REPORT] = {"metrics", "report", &metric_report_table, NULL, NULL, NULL, 0},
    [NOUN_METRIC_SUMMARY] = {"summaries", "summary", &metric_summary_table, NULL, NULL, NULL, 0},
    [NOUN_LOG_LINE] = {"logs", "log line", &log_line_table, "id", "id", NULL, 0},
    [NOUN_JOB] = {"jobs", "job", &job_table, "jobId", NULL, NULL, 0},
    [NOUN_USER] = {"users", "user", &user_table, "id", "id", SORTS(user_sorts)},
    [NOUN_SESSION] = {"sessions", "session", &session_table, NULL, NULL, NULL, 0},
    [NOUN_TEMPLATE] = {"templates", "template", &config_template_table, "name", "rowid", NULL, 0},
};

void table_add_columns(const struct table *t, struct buf *out)
{
    for (size_t i = 0; i < t->fields->n; i++)
        buf_printf(out, "%s\"%s\"", i ? "," : "", t->fields->fields[i].name);
}

void table_add_save(const struct table *t, struct buf *out)
{
    const struct field_table *f = t->fields;
    buf_printf(out, "INSERT INTO %s(", t->name);
    table_add_columns(t, out);
    buf_addz(out, ") VALUES(?1");
    for (size_t i = 1; i < f->n; i++)
        buf_printf(out, ",?%zu", i + 1);
    buf_printf(out, ") ON CONFLICT(\"%s\") DO UPDATE SET ", t->key);
    const char *comma = "";
    for (size_t i = 0; i < f->n; i++) {
        if (!strcmp(f->fields[i].name, t->key)) continue;
        buf_printf(out, "%s\"%s\"=excluded.\"%s\"", comma, f->fields[i].name, f->fields[i].name);
        comma = ",";
    }
}
