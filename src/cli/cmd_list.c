// Unit cmd_list.c: commands that show what there is: lists and single records. A command is one row
// of `views`: what to ask the master for, and which members to show.
#include "cli/cmd.h"

#include "base/assert.h"
#include "cli/remote.h"
#include "cli/show.h"

struct view {
    const struct command *command;
    const char *path;   // %s: the argument of the command
    const char *member; // of the answer: the list or record to show
    const struct column *columns;
    size_t n_columns;
    bool record;
};

#define COLUMNS(c) c, STATIC_LEN(c)

static const struct column experiment_columns[] = {
    {"ID", "id", SHOW_PLAIN},
    {"NAME", "name", SHOW_PLAIN},
    {"STATE", "state", SHOW_STATE},
    {"PROGRESS", "progress", SHOW_PERCENT},
    {"TRIALS", "numTrials", SHOW_PLAIN},
    {"SEARCHER", "searcherType", SHOW_PLAIN},
    {"BEST", "bestTrialSearcherMetric", SHOW_PLAIN},
    {"STARTED", "startTime", SHOW_TIME},
    {"ENDED", "endTime", SHOW_TIME},
};

static const struct column experiment_lines[] = {
    {"Experiment", "id", SHOW_PLAIN},
    {"Name", "name", SHOW_PLAIN},
    {"Description", "description", SHOW_PLAIN},
    {"State", "state", SHOW_STATE},
    {"Reason", "reason", SHOW_PLAIN},
    {"Progress", "progress", SHOW_PERCENT},
    {"Started", "startTime", SHOW_TIME},
    {"Ended", "endTime", SHOW_TIME},
    {"Searcher", "searcherType", SHOW_PLAIN},
    {"Metric", "searcherMetric", SHOW_PLAIN},
    {"Best value", "bestTrialSearcherMetric", SHOW_PLAIN},
    {"Best trial", "bestTrialId", SHOW_PLAIN},
    {"Trials", "numTrials", SHOW_PLAIN},
    {"Labels", "labels", SHOW_PLAIN},
    {"Forked from", "forkedFrom", SHOW_PLAIN},
    {"Archived", "archived", SHOW_PLAIN},
};

static const struct column trial_columns[] = {
    {"ID", "id", SHOW_PLAIN},
    {"STATE", "state", SHOW_STATE},
    {"BATCHES", "totalBatchesProcessed", SHOW_PLAIN},
    {"METRIC", "searcherMetricValue", SHOW_PLAIN},
    {"RESTARTS", "restarts", SHOW_PLAIN},
    {"HPARAMS", "hparams", SHOW_PLAIN},
    {"STARTED", "startTime", SHOW_TIME},
    {"ENDED", "endTime", SHOW_TIME},
};

static const struct column trial_lines[] = {
    {"Trial", "id", SHOW_PLAIN},
    {"Experiment", "experimentId", SHOW_PLAIN},
    {"State", "state", SHOW_STATE},
    {"Reason", "reason", SHOW_PLAIN},
    {"Doing", "runnerState", SHOW_PLAIN},
    {"Hyperparameters", "hparams", SHOW_PLAIN},
    {"Seed", "seed", SHOW_PLAIN},
    {"Batches", "totalBatchesProcessed", SHOW_PLAIN},
    {"Best validation", "bestValidation.metrics.avgMetrics", SHOW_PLAIN},
    {"Latest validation", "latestValidation.metrics.avgMetrics", SHOW_PLAIN},
    {"Latest checkpoint", "latestCheckpoint", SHOW_PLAIN},
    {"Runs", "runId", SHOW_PLAIN},
    {"Restarts", "restarts", SHOW_PLAIN},
    {"Started", "startTime", SHOW_TIME},
    {"Ended", "endTime", SHOW_TIME},
};

static const struct column checkpoint_columns[] = {
    {"UUID", "uuid", SHOW_PLAIN},
    {"TRIAL", "trialId", SHOW_PLAIN},
    {"STATE", "state", SHOW_STATE},
    {"BATCHES", "stepsCompleted", SHOW_PLAIN},
    {"METRIC", "searcherMetric", SHOW_PLAIN},
    {"SIZE", "size", SHOW_BYTES},
    {"TIME", "reportTime", SHOW_TIME},
};

static const struct column checkpoint_lines[] = {
    {"Checkpoint", "uuid", SHOW_PLAIN},
    {"Experiment", "experimentId", SHOW_PLAIN},
    {"Trial", "trialId", SHOW_PLAIN},
    {"State", "state", SHOW_STATE},
    {"Batches", "stepsCompleted", SHOW_PLAIN},
    {"Metric", "searcherMetric", SHOW_PLAIN},
    {"Size", "size", SHOW_BYTES},
    {"Files", "resources", SHOW_PLAIN},
    {"Metadata", "metadata", SHOW_PLAIN},
    {"Time", "reportTime", SHOW_TIME},
};

static const struct column job_columns[] = {
    {"JOB", "jobId", SHOW_PLAIN},        {"EXPERIMENT", "experimentId", SHOW_PLAIN},
    {"STATE", "state", SHOW_STATE},      {"PRIORITY", "priority", SHOW_PLAIN},
    {"WEIGHT", "weight", SHOW_PLAIN},    {"SUBMITTED", "submissionTime", SHOW_TIME},
    {"WAITS FOR", "reason", SHOW_PLAIN},
};

static const struct column slot_columns[] = {
    {"SLOT", "id", SHOW_PLAIN},
    {"DEVICE", "device", SHOW_PLAIN},
    {"ENABLED", "enabled", SHOW_PLAIN},
    {"ALLOCATION", "allocationId", SHOW_PLAIN},
};

static const struct column user_columns[] = {
    {"ID", "id", SHOW_PLAIN},
    {"NAME", "username", SHOW_PLAIN},
    {"ADMIN", "admin", SHOW_PLAIN},
    {"ACTIVE", "active", SHOW_PLAIN},
};

static const struct column template_columns[] = {{"NAME", "name", SHOW_PLAIN}};
static const struct column template_lines[] = {{"Template", "name", SHOW_PLAIN},
                                               {"Configuration", "config", SHOW_PLAIN}};
static const struct column metric_columns[] = {
    {"GROUP", "group", SHOW_PLAIN},
    {"BATCHES", "stepsCompleted", SHOW_PLAIN},
    {"METRICS", "metrics", SHOW_PLAIN},
    {"TIME", "reportTime", SHOW_TIME},
};

static const struct view views[] = {
    {&cmd_experiment_list, "/experiments?orderBy=ORDER_BY_DESC", "experiments",
     COLUMNS(experiment_columns), false},
    {&cmd_experiment_describe, "/experiments/%s", "experiment", COLUMNS(experiment_lines), true},
    {&cmd_experiment_list_trials, "/experiments/%s/trials?limit=-1", "trials",
     COLUMNS(trial_columns), false},
    {&cmd_experiment_list_checkpoints, "/experiments/%s/checkpoints?limit=-1", "checkpoints",
     COLUMNS(checkpoint_columns), false},
    {&cmd_trial_describe, "/trials/%s", "trial", COLUMNS(trial_lines), true},
    {&cmd_trial_metrics, "/trials/%s/metrics", "metrics", COLUMNS(metric_columns), false},
    {&cmd_checkpoint_list, "/trials/%s/checkpoints?limit=-1", "checkpoints",
     COLUMNS(checkpoint_columns), false},
    {&cmd_checkpoint_describe, "/checkpoints/%s", "checkpoint", COLUMNS(checkpoint_lines), true},
    {&cmd_job_list, "/jobs", "jobs", COLUMNS(job_columns), false},
    {&cmd_slot_list, "/slots", "slots", COLUMNS(slot_columns), false},
    {&cmd_user_list, "/users", "users", COLUMNS(user_columns), false},
    {&cmd_user_whoami, "/me", "user", COLUMNS(user_columns), true},
    {&cmd_template_list, "/templates", "templates", COLUMNS(template_columns), false},
    {&cmd_template_describe, "/templates/%s", "template", COLUMNS(template_lines), true},
};

static const struct view *view_of(const struct call *call)
{
    for (size_t i = 0; i < STATIC_LEN(views); i++)
        if (views[i].command == call->command) return &views[i];
    ASSERT(!"a command without a view");
    return NULL;
}

static int run_view(const struct call *call)
{
    const struct view *v = view_of(call);
    struct remote r;
    int status = EXIT_FAILED;
    const struct doc *answer = NULL;
    if (remote_open(&r, call)) {
        const char *arg = call->n_args ? remote_segment(&r, call->args[0]) : "";
        const char *percent = strstr(v->path, "%s");
        answer = percent ? remote_get(&r, "%.*s%s%s", (int)(percent - v->path), v->path, arg,
                                      percent + 2)
                         : remote_get(&r, "%s", v->path);
    }
    if (answer) {
        const struct doc *shown = doc_find(answer, v->member);
        if (!shown) shown = answer;
        status = v->record ? show_record(call, shown, v->columns, v->n_columns)
                           : show_list(call, shown, v->columns, v->n_columns);
    }
    remote_close(&r);
    return status;
}

static const struct option view_options[] = {MASTER_OPTION, FORMAT_OPTIONS};

#define VIEW(symbol, noun_, verb_, args_, n, help_, example_)             \
    const struct command symbol = {.noun = noun_,                         \
                                   .verb = verb_,                         \
                                   .args = args_,                         \
                                   .min_args = n,                         \
                                   .max_args = n,                         \
                                   .help = help_,                         \
                                   .example = example_,                   \
                                   .options = view_options,               \
                                   .n_options = STATIC_LEN(view_options), \
                                   .run = run_view};

VIEW(cmd_experiment_list, "experiment", "list", "", 0, "Lists experiments, the newest first.",
     "det experiment list")
VIEW(cmd_experiment_describe, "experiment", "describe", "ID", 1, "Shows an experiment.",
     "det experiment describe 7")
VIEW(cmd_experiment_list_trials, "experiment", "list-trials", "ID", 1,
     "Lists the trials of an experiment.", "det experiment list-trials 7")
VIEW(cmd_experiment_list_checkpoints, "experiment", "list-checkpoints", "ID", 1,
     "Lists the checkpoints of an experiment.", "det experiment list-checkpoints 7")
VIEW(cmd_trial_describe, "trial", "describe", "ID", 1, "Shows a trial.", "det trial describe 12")
VIEW(cmd_trial_metrics, "trial", "metrics", "ID", 1, "Shows what a trial has reported.",
     "det trial metrics 12 --csv")
VIEW(cmd_checkpoint_list, "checkpoint", "list", "TRIAL", 1, "Lists the checkpoints of a trial.",
     "det checkpoint list 12")
VIEW(cmd_checkpoint_describe, "checkpoint", "describe", "UUID", 1, "Shows a checkpoint.",
     "det checkpoint describe 0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10")
VIEW(cmd_job_list, "job", "list", "", 0, "Shows the queue, and what everything in it waits for.",
     "det job list")
VIEW(cmd_slot_list, "slot", "list", "", 0, "Lists slots and what has them.", "det slot list")
VIEW(cmd_user_list, "user", "list", "", 0, "Lists users.", "det user list")
VIEW(cmd_user_whoami, "user", "whoami", "", 0, "Shows who the master takes you for.",
     "det user whoami")
VIEW(cmd_template_list, "template", "list", "", 0, "Lists templates of configurations.",
     "det template list")
VIEW(cmd_template_describe, "template", "describe", "NAME", 1, "Shows a template.",
     "det template describe gpu")
