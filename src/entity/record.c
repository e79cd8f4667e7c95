// Unit record.c: the field tables of the records. A field here is a column (see db/) and a key of
// the API's JSON.
#include "entity/record.h"

#include "base/assert.h"
#include "entity/entity.h"
#include <math.h>

const char *const log_level_names[] = {
    "LOG_LEVEL_UNSPECIFIED", "LOG_LEVEL_TRACE", "LOG_LEVEL_DEBUG",    "LOG_LEVEL_INFO",
    "LOG_LEVEL_WARNING",     "LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL", NULL,
};

static void read_time(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                      void *member)
{
    (void)f;
    det_err err;
    if (value->kind != DOC_STR || time_parse(value->text.ptr, member, &err))
        field_error(ctx, value, "must be a time such as 2026-01-31T10:20:30Z, found %s",
                    field_show(ctx, value));
}

static struct doc *write_time(struct arena *arena, const void *member)
{
    int64_t us = *(const int64_t *)member;
    char text[TIME_TEXT_BYTES];
    if (!us) return doc_new(arena, DOC_NULL);
    time_format(us, text);
    return doc_new_str(arena, text);
}

const struct field_codec timestamp_codec = {
    .size = sizeof(int64_t), .syntax = "a time (RFC 3339)", .read = read_time, .write = write_time};

static void read_value(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                       void *member)
{
    (void)f;
    if (!doc_number(value, member))
        field_error(ctx, value, "must be a number, found %s", field_show(ctx, value));
}

static struct doc *write_value(struct arena *arena, const void *member)
{
    double x = *(const double *)member;
    return isnan(x) ? doc_new(arena, DOC_NULL) : doc_new_double(arena, x);
}

const struct field_codec value_codec = {
    .size = sizeof(double), .syntax = "a number", .read = read_value, .write = write_value};

static const struct field text_item = {.type = FIELD_STR};

// ROW(struct, key, type, member, help, more)
#define ROW(noun, key, kind, member, text, ...)                                           \
    {                                                                                     \
        .name = key, .type = kind, .offset = offsetof(struct noun, member), .help = text, \
        __VA_ARGS__                                                                       \
    }
#define TIME(noun, key, member, text) \
    ROW(noun, key, FIELD_CODEC, member, text, .codec = &timestamp_codec)
#define VALUE(noun, key, member, text) \
    ROW(noun, key, FIELD_CODEC, member, text, .codec = &value_codec)

static const char *const kind_names[] = {"TYPE_EXPERIMENT", "TYPE_GENERIC", NULL};

static const struct field experiment_rows[] = {
    ROW(experiment, "id", FIELD_INT, id, "Number of the experiment."),
    ROW(experiment, "type", FIELD_ENUM, kind, "A search, or a generic job.", .values = kind_names),
    ROW(experiment, "state", FIELD_ENUM, state, "Its state.", .values = exp_state_names),
    ROW(experiment, "name", FIELD_STR, name, "Name."),
    ROW(experiment, "description", FIELD_STR, description, "Description."),
    ROW(experiment, "notes", FIELD_STR, notes, "Notes."),
    ROW(experiment, "labels", FIELD_LIST, labels, "Labels.", .item = &text_item),
    ROW(experiment, "archived", FIELD_BOOL, archived, "Out of sight, but kept."),
    ROW(experiment, "userId", FIELD_INT, user_id, "Who created it."),
    ROW(experiment, "forkedFrom", FIELD_OPT_INT, forked_from, "The experiment it came from."),
    VALUE(experiment, "progress", progress, "Part done, 0 to 1."),
    TIME(experiment, "startTime", start_us, "When it was created."),
    TIME(experiment, "endTime", end_us, "When it ended."),
    ROW(experiment, "numTrials", FIELD_INT, n_trials, "How many trials it has."),
    ROW(experiment, "searcherType", FIELD_STR, searcher_type, "Search method."),
    ROW(experiment, "searcherMetric", FIELD_STR, searcher_metric, "What the search optimizes."),
    ROW(experiment, "smallerIsBetter", FIELD_BOOL, smaller_is_better, "Direction of the metric."),
    ROW(experiment, "bestTrialId", FIELD_OPT_INT, best_trial_id, "The best trial so far."),
    VALUE(experiment, "bestTrialSearcherMetric", best_metric, "The best trial's metric."),
    ROW(experiment, "resourcePool", FIELD_STR, resource_pool, "Where it runs."),
    ROW(experiment, "jobId", FIELD_STR, job_id, "Its entry in the queue."),
    ROW(experiment, "modelDefinition", FIELD_STR, code,
        "Name of its stored files; not shown to those who may not read them."),
    ROW(experiment, "reason", FIELD_STR, reason, "Why it ended as it did."),
    ROW(experiment, "private", FIELD_BOOL, private,
        "Code, logs and files are for the owner and administrators."),
    ROW(experiment, "logRetentionDays", FIELD_OPT_INT, log_days,
        "Days that logs are kept after the end of a trial; -1: for ever."),
};

static const struct field trial_rows[] = {
    ROW(trial, "id", FIELD_INT, id, "Number of the trial."),
    ROW(trial, "experimentId", FIELD_INT, experiment_id, "Its experiment."),
    ROW(trial, "number", FIELD_INT, number, "Which of the experiment's trials it is, from 1."),
    ROW(trial, "requestId", FIELD_STR, request_id, "What the searcher knows it by."),
    ROW(trial, "taskId", FIELD_STR, task_id, "Its task."),
    ROW(trial, "state", FIELD_ENUM, state, "Its state.", .values = exp_state_names),
    ROW(trial, "hparams", FIELD_MAP, hparams, "Its hyperparameters."),
    ROW(trial, "seed", FIELD_INT, seed, "Seed of its random numbers."),
    ROW(trial, "restarts", FIELD_INT, restarts, "Failures so far."),
    ROW(trial, "runId", FIELD_INT, run_id, "How often it was started."),
    TIME(trial, "startTime", start_us, "When it was created."),
    TIME(trial, "endTime", end_us, "When it ended."),
    ROW(trial, "totalBatchesProcessed", FIELD_INT, total_batches, "Batches trained."),
    VALUE(trial, "searcherMetricValue", searcher_metric, "Best value of the searcher's metric."),
    ROW(trial, "bestValidation", FIELD_MAP, best_validation, "Best validation."),
    ROW(trial, "latestValidation", FIELD_MAP, latest_validation, "Latest validation."),
    ROW(trial, "latestCheckpoint", FIELD_STR, latest_checkpoint, "Where it would resume."),
    ROW(trial, "warmStartCheckpointUuid", FIELD_STR, warm_start_checkpoint, "Where it began."),
    ROW(trial, "operation", FIELD_OPT_INT, operation, "Length that the searcher wants next."),
    ROW(trial, "closing", FIELD_BOOL, closing, "The searcher wants nothing after that."),
    ROW(trial, "runnerState", FIELD_STR, runner_state, "What it says it is doing."),
    VALUE(trial, "progress", progress, "Progress as it reported it."),
    ROW(trial, "reason", FIELD_STR, reason, "Why it ended as it did."),
};

static const struct field allocation_rows[] = {
    ROW(allocation, "allocationId", FIELD_STR, id, "Task and run."),
    ROW(allocation, "taskId", FIELD_STR, task_id, "Its task."),
    ROW(allocation, "trialId", FIELD_INT, trial_id, "Its trial."),
    ROW(allocation, "runId", FIELD_INT, run_id, "Number of the run, from 1."),
    ROW(allocation, "state", FIELD_ENUM, state, "Its state.", .values = allocation_state_names),
    ROW(allocation, "slots", FIELD_INT, slots, "Slots it holds."),
    TIME(allocation, "startTime", start_us, "When it was asked for."),
    TIME(allocation, "endTime", end_us, "When it ended."),
    ROW(allocation, "isReady", FIELD_BOOL, ready, "The task is up."),
    ROW(allocation, "preempt", FIELD_BOOL, preempt, "It was asked to stop."),
    ROW(allocation, "kill", FIELD_BOOL, kill, "It was ordered to stop."),
    ROW(allocation, "preemptionAcked", FIELD_BOOL, preemption_acked, "It agreed to stop."),
    ROW(allocation, "invalidHp", FIELD_BOOL, invalid_hp, "It refused its hyperparameters."),
    ROW(allocation, "exit", FIELD_ENUM, exit, "How it ended.", .values = exit_kind_names),
    ROW(allocation, "exitStatus", FIELD_INT, exit_status, "Exit status; 128 + n: signal n."),
    ROW(allocation, "reason", FIELD_STR, reason, "How it ended, in words."),
    ROW(allocation, "token", FIELD_INT, token, "What the resource manager knows it by."),
    ROW(allocation, "logOffset", FIELD_INT, log_offset, "How much of its output is in the log."),
    TIME(allocation, "assignedTime", assigned_us, "When it got its slots."),
    ROW(allocation, "fromBatch", FIELD_OPT_INT, from_batch, "Batches trained when it began."),
    ROW(allocation, "toBatch", FIELD_OPT_INT, to_batch, "Batches trained when it ended."),
};

static const struct field checkpoint_rows[] = {
    ROW(checkpoint, "uuid", FIELD_STR, uuid, "Name of the checkpoint."),
    ROW(checkpoint, "taskId", FIELD_STR, task_id, "The task that wrote it."),
    ROW(checkpoint, "allocationId", FIELD_STR, allocation_id, "The run that wrote it."),
    ROW(checkpoint, "experimentId", FIELD_INT, experiment_id, "Its experiment."),
    ROW(checkpoint, "trialId", FIELD_INT, trial_id, "Its trial."),
    ROW(checkpoint, "state", FIELD_ENUM, state, "Its state.", .values = checkpoint_state_names),
    TIME(checkpoint, "reportTime", time_us, "When it was reported."),
    ROW(checkpoint, "stepsCompleted", FIELD_INT, steps_completed, "Batches trained by then."),
    ROW(checkpoint, "size", FIELD_INT, size_bytes, "Bytes of all its files."),
    ROW(checkpoint, "resources", FIELD_MAP, resources, "Its files and their sizes."),
    ROW(checkpoint, "metadata", FIELD_MAP, metadata, "What the trial says about it."),
    VALUE(checkpoint, "searcherMetric", searcher_metric, "Validation at the same step."),
};

static const struct field metric_report_rows[] = {
    ROW(metric_report, "trialId", FIELD_INT, trial_id, "Trial."),
    ROW(metric_report, "trialRunId", FIELD_INT, run_id, "Run that reported."),
    ROW(metric_report, "group", FIELD_STR, group, "training, validation or another name."),
    ROW(metric_report, "stepsCompleted", FIELD_INT, steps_completed, "Batches trained by then."),
    TIME(metric_report, "reportTime", time_us, "When."),
    ROW(metric_report, "metrics", FIELD_MAP, metrics, "Names and values."),
};

static const struct field metric_summary_rows[] = {
    ROW(metric_summary, "group", FIELD_STR, group, "Group of the metric."),
    ROW(metric_summary, "name", FIELD_STR, name, "Name of the metric."),
    ROW(metric_summary, "count", FIELD_INT, count, "How many reports."),
    VALUE(metric_summary, "sum", sum, "Sum of the values."),
    VALUE(metric_summary, "min", min, "Least value."),
    VALUE(metric_summary, "max", max, "Greatest value."),
    VALUE(metric_summary, "last", last, "Latest value."),
};

static const struct field log_line_rows[] = {
    ROW(log_line, "id", FIELD_INT, id, "Number of the line."),
    ROW(log_line, "trialId", FIELD_INT, trial_id, "Its trial."),
    TIME(log_line, "timestamp", time_us, "When it was written."),
    ROW(log_line, "level", FIELD_ENUM, level, "Level.", .values = log_level_names),
    ROW(log_line, "rankId", FIELD_OPT_INT, rank, "Rank of the process."),
    ROW(log_line, "allocationId", FIELD_STR, allocation_id, "Run."),
    ROW(log_line, "agentId", FIELD_STR, agent_id, "Machine."),
    ROW(log_line, "containerId", FIELD_STR, container_id, "Container."),
    ROW(log_line, "source", FIELD_STR, source, "Where it comes from."),
    ROW(log_line, "stdtype", FIELD_STR, stdtype, "stdout or stderr."),
    ROW(log_line, "log", FIELD_STR, log, "The text."),
};

static const struct field job_rows[] = {
    ROW(job, "jobId", FIELD_STR, id, "Name of the job."),
    ROW(job, "experimentId", FIELD_INT, experiment_id, "What it runs."),
    ROW(job, "state", FIELD_ENUM, state, "Its state.", .values = job_state_names),
    ROW(job, "priority", FIELD_INT, priority, "1 (first) to 99."),
    ROW(job, "weight", FIELD_DOUBLE, weight, "Its share."),
    ROW(job, "resourcePool", FIELD_STR, resource_pool, "Where it runs."),
    TIME(job, "submissionTime", submit_us, "When it was submitted."),
    ROW(job, "position", FIELD_DOUBLE, position, "Place in the queue."),
};

static const struct field user_rows[] = {
    ROW(user, "id", FIELD_INT, id, "Number of the user."),
    ROW(user, "username", FIELD_STR, username, "Name to log in with."),
    ROW(user, "displayName", FIELD_STR, display_name, "Name to show."),
    ROW(user, "admin", FIELD_BOOL, admin, "May manage users."),
    ROW(user, "active", FIELD_BOOL, active, "May log in."),
    TIME(user, "modifiedAt", modified_us, "Last change."),
};

static const struct field session_rows[] = {
    ROW(session, "userId", FIELD_INT, user_id, "Whose it is."),
    ROW(session, "allocationId", FIELD_STR, allocation_id, "The run it speaks for."),
    ROW(session, "trialId", FIELD_INT, trial_id, "The trial of that run."),
    TIME(session, "expiresAt", expires_us, "When it ends."),
};

static const struct field config_template_rows[] = {
    ROW(config_template, "name", FIELD_STR, name, "Name of the template."),
    ROW(config_template, "config", FIELD_STR, config, "YAML text."),
    ROW(config_template, "userId", FIELD_INT, user_id, "Who wrote it."),
};

#define TABLE(noun) \
    const struct field_table noun##_table = {.size = sizeof(struct noun), FIELD_ROWS(noun##_rows)}

TABLE(experiment);
TABLE(trial);
TABLE(allocation);
TABLE(checkpoint);
TABLE(metric_report);
TABLE(metric_summary);
TABLE(log_line);
TABLE(job);
TABLE(user);
TABLE(session);
TABLE(config_template);
