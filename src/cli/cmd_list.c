// Unit cmd_list.c: commands that show what there is: lists and single records. A command is one row
// of `views`: what to ask the master for, and which members to show.
#include "cli/cmd.h"

#include "cli/remote.h"
#include "cli/show.h"

struct view {
    struct command command;
    const char *path;   // %s: the argument of the command
    const char *member; // of the answer: the list or record to show
    const struct column *columns;
    size_t n_columns;
    bool record;
    const char *beside[2]; // members of the answer that are shown with the record
    const char *table;     // a list in the record that is shown below it; NULL: none
    const struct column *table_columns;
    size_t n_table_columns;
    const char *usual; // added to the query unless --all is given; NULL: nothing
};

#define KEPT_CHECKPOINTS \
    "states=STATE_ACTIVE&states=STATE_COMPLETED&states=STATE_ERROR&states=STATE_PARTIALLY_DELETED"

#define COLUMNS(c) c, STATIC_LEN(c)

static const struct column experiment_columns[] = {
    {"ID", "id", .as = SHOW_PLAIN},
    {"NAME", "name", .as = SHOW_PLAIN, .cut = true},
    {"STATE", "state", .as = SHOW_STATE},
    {"PROGRESS", "progress", .as = SHOW_PERCENT, .drop = 1},
    {"TRIALS", "numTrials", .as = SHOW_PLAIN, .drop = 4},
    {"SEARCHER", "searcherType", .as = SHOW_PLAIN, .drop = 5},
    {"BEST", "bestTrialSearcherMetric", .as = SHOW_PLAIN},
    {"STARTED", "startTime", .as = SHOW_TIME, .drop = 2},
    {"ENDED", "endTime", .as = SHOW_TIME, .drop = 3},
};

static const struct column experiment_lines[] = {
    {"Experiment", "id", .as = SHOW_PLAIN},
    {"Name", "name", .as = SHOW_PLAIN},
    {"Description", "description", .as = SHOW_PLAIN},
    {"State", "state", .as = SHOW_STATE},
    {"Reason", "reason", .as = SHOW_PLAIN},
    {"Progress", "progress", .as = SHOW_PERCENT},
    {"Started", "startTime", .as = SHOW_TIME},
    {"Ended", "endTime", .as = SHOW_TIME},
    {"Searcher", "searcherType", .as = SHOW_PLAIN},
    {"Metric", "searcherMetric", .as = SHOW_PLAIN},
    {"Best value", "bestTrialSearcherMetric", .as = SHOW_PLAIN},
    {"Best trial", "bestTrialId", .as = SHOW_PLAIN},
    {"Trials", "numTrials", .as = SHOW_PLAIN},
    {"Labels", "labels", .as = SHOW_PLAIN},
    {"Forked from", "forkedFrom", .as = SHOW_PLAIN},
    {"Python", "config.environment.python", .as = SHOW_PLAIN},
    {"Archived", "archived", .as = SHOW_PLAIN},
    {"Warning", "warnings", .as = SHOW_LINES},
};

static const struct column trial_columns[] = {
    {"ID", "id", .as = SHOW_PLAIN},
    {"STATE", "state", .as = SHOW_STATE},
    {"BATCHES", "totalBatchesProcessed", .as = SHOW_PLAIN},
    {"METRIC", "searcherMetricValue", .as = SHOW_PLAIN},
    {"RESTARTS", "restarts", .as = SHOW_PLAIN, .drop = 2},
    {"HPARAMS", "hparams", .as = SHOW_PLAIN, .cut = true},
    {"STARTED", "startTime", .as = SHOW_TIME, .drop = 3},
    {"ENDED", "endTime", .as = SHOW_TIME, .drop = 1},
};

static const struct column trial_lines[] = {
    {"Trial", "id", .as = SHOW_PLAIN},
    {"Experiment", "experimentId", .as = SHOW_PLAIN},
    {"State", "state", .as = SHOW_STATE},
    {"Reason", "reason", .as = SHOW_PLAIN},
    {"Doing", "runnerState", .as = SHOW_PLAIN},
    {"Hyperparameters", "hparams", .as = SHOW_PLAIN},
    {"Seed", "seed", .as = SHOW_PLAIN},
    {"Batches", "totalBatchesProcessed", .as = SHOW_PLAIN},
    {"Best validation", "bestValidation.metrics.avgMetrics", .as = SHOW_PLAIN},
    {"Latest validation", "latestValidation.metrics.avgMetrics", .as = SHOW_PLAIN},
    {"Latest checkpoint", "latestCheckpoint", .as = SHOW_PLAIN},
    {"Runs", "runId", .as = SHOW_PLAIN},
    {"Restarts", "restarts", .as = SHOW_PLAIN},
    {"Started", "startTime", .as = SHOW_TIME},
    {"Ended", "endTime", .as = SHOW_TIME},
};

static const struct column checkpoint_columns[] = {
    {"UUID", "uuid", .as = SHOW_PLAIN},
    {"TRIAL", "trialId", .as = SHOW_PLAIN},
    {"STATE", "state", .as = SHOW_STATE, .drop = 1},
    {"BATCHES", "stepsCompleted", .as = SHOW_PLAIN},
    {"METRIC", "searcherMetric", .as = SHOW_PLAIN},
    {"SIZE", "size", .as = SHOW_BYTES},
    {"TIME", "reportTime", .as = SHOW_TIME, .drop = 2},
};

static const struct column checkpoint_lines[] = {
    {"Checkpoint", "uuid", .as = SHOW_PLAIN},
    {"Experiment", "experimentId", .as = SHOW_PLAIN},
    {"Trial", "trialId", .as = SHOW_PLAIN},
    {"State", "state", .as = SHOW_STATE},
    {"Batches", "stepsCompleted", .as = SHOW_PLAIN},
    {"Metric", "searcherMetric", .as = SHOW_PLAIN},
    {"Size", "size", .as = SHOW_BYTES},
    {"Files", "resources", .as = SHOW_PLAIN},
    {"Metadata", "metadata", .as = SHOW_PLAIN},
    {"Time", "reportTime", .as = SHOW_TIME},
};

static const struct column job_columns[] = {
    {"EXPERIMENT", "experimentId", .as = SHOW_PLAIN},
    {"NAME", "name", .as = SHOW_PLAIN, .cut = true},
    {"STATE", "state", .as = SHOW_STATE},
    {"PRIORITY", "priority", .as = SHOW_PLAIN},
    {"WEIGHT", "weight", .as = SHOW_PLAIN, .drop = 3},
    {"SLOTS", "allocatedSlots", .as = SHOW_PLAIN},
    {"WANTED", "requestedSlots", .as = SHOW_PLAIN},
    {"POOL", "resourcePool", .as = SHOW_PLAIN, .drop = 3},
    {"SUBMITTED", "submissionTime", .as = SHOW_TIME, .drop = 2},
    {"WAITS BECAUSE IT", "waiting", .as = SHOW_PLAIN, .cut = true},
    {"JOB", "jobId", .as = SHOW_PLAIN, .drop = 4},
};

static const struct column slot_columns[] = {
    {"SLOT", "id", .as = SHOW_PLAIN},
    {"POOL", "resourcePool", .as = SHOW_PLAIN},
    {"DEVICE", "device", .as = SHOW_PLAIN},
    {"ENABLED", "enabled", .as = SHOW_PLAIN},
    {"TRIAL", "trialId", .as = SHOW_PLAIN},
    {"ALLOCATION", "allocationId", .as = SHOW_PLAIN, .cut = true},
};

static const struct column pool_columns[] = {
    {"POOL", "name", .as = SHOW_PLAIN},
    {"DEFAULT", "default", .as = SHOW_PLAIN},
    {"SLOTS", "slots", .as = SHOW_PLAIN},
    {"IN USE", "slotsInUse", .as = SHOW_PLAIN},
    {"WAITING", "waiting", .as = SHOW_PLAIN},
    {"SCHEDULER", "scheduler", .as = SHOW_PLAIN},
    {"DESCRIPTION", "description", .as = SHOW_PLAIN, .cut = true},
};

static const struct column user_columns[] = {
    {"ID", "id", .as = SHOW_PLAIN},
    {"NAME", "username", .as = SHOW_PLAIN},
    {"ADMIN", "admin", .as = SHOW_PLAIN},
    {"ACTIVE", "active", .as = SHOW_PLAIN},
};

static const struct column master_lines[] = {
    {"Version", "version", .as = SHOW_PLAIN},
    {"Address", "url", .as = SHOW_PLAIN},
    {"Data", "dataDir", .as = SHOW_PLAIN},
    {"Configuration", "configFile", .as = SHOW_PLAIN},
    {"Cluster", "clusterId", .as = SHOW_PLAIN},
    {"Isolation of tasks", "isolation", .as = SHOW_PLAIN},
    {"Not in force", "notInForce", .as = SHOW_PLAIN},
    {"Memory of a task", "taskMemory", .as = SHOW_PLAIN},
    {"Processes of a task", "taskProcesses", .as = SHOW_PLAIN},
};

static const struct column setting_columns[] = {
    {"KEY", "key", .as = SHOW_PLAIN},
    {"VALUE", "value", .as = SHOW_PLAIN, .cut = true},
    {"FROM", "source", .as = SHOW_PLAIN},
    {"AFTER A RESTART", "afterRestart", .as = SHOW_PLAIN, .drop = 1},
};

static const struct column template_columns[] = {{"NAME", "name", .as = SHOW_PLAIN}};
static const struct column template_lines[] = {{"Template", "name", .as = SHOW_PLAIN},
                                               {"Configuration", "config", .as = SHOW_PLAIN}};

// The path with the argument and what options add to the query.
static const char *path_of(const struct view *v, const struct call *call, struct remote *r)
{
    const char *arg = call->n_args ? remote_segment(r, call->args[0]) : "";
    const char *percent = strstr(v->path, "%s"), *limit = call_option(call, "limit");
    const char *path = v->path;
    if (percent)
        path = arena_printf(&r->arena, "%.*s%s%s", (int)(percent - path), path, arg, percent + 2);
    if (v->usual && !call_option(call, "all"))
        path = arena_printf(&r->arena, "%s&%s", path, v->usual);
    return limit ? arena_printf(&r->arena, "%s&limit=%s", path, remote_segment(r, limit)) : path;
}

// JSON and the like have all of the record already.
static void show_below(const struct call *call, const struct doc *list, const struct view *v)
{
    if (!list || call_option(call, "json") || call_option(call, "yaml") || call_option(call, "csv"))
        return;
    print_data(STR("\n"));
    show_list(call, list, v->table_columns, v->n_table_columns);
}

// The record, and a member of the answer that is not in it.
static const struct doc *with_member(struct arena *arena, const struct doc *record,
                                     const struct doc *answer, const char *name)
{
    const struct doc *found = doc_find(answer, name);
    if (!found) return record;
    struct doc *both = doc_copy(arena, record);
    doc_set(both, str_from(name), doc_share(arena, found));
    return both;
}

static int run_view(const struct call *call)
{
    const struct view *v = (const void *)call->command; // its first member
    struct remote r;
    int status = EXIT_FAILED;
    const struct doc *answer = NULL;
    if (!remote_check_id(call)) return EXIT_USAGE;
    if (remote_open(&r, call)) answer = remote_get(&r, "%s", path_of(v, call, &r));
    if (answer) {
        const struct doc *shown = doc_find(answer, v->member);
        if (!shown) shown = answer;
        for (int i = 0; i < 2 && v->beside[i]; i++)
            shown = with_member(&r.arena, shown, answer, v->beside[i]);
        status = v->record ? show_record(call, shown, v->columns, v->n_columns)
                           : show_list(call, shown, v->columns, v->n_columns);
        if (v->table) show_below(call, doc_find(shown, v->table), v);
    }
    remote_close(&r);
    return status;
}

static const struct option view_options[] = {MASTER_OPTION, FORMAT_OPTIONS};
static const struct option experiment_options[] = {
    {"all", 'a', NULL, "Lists archived ones, too."},
    {"limit", 0, "N", "How many at most; 100 if not given, -1: all."},
    MASTER_OPTION,
    FORMAT_OPTIONS,
};
static const struct option checkpoint_options[] = {
    {"all", 'a', NULL, "Lists those whose files are deleted, too."},
    MASTER_OPTION,
    FORMAT_OPTIONS,
};

#define VIEW(options_, noun_, verb_, args_, n, help_, example_) \
    .command = COMMAND(noun_, verb_, args_, n, n, options_, run_view, help_, example_)

static const struct view views[] = {
    {VIEW(experiment_options, "experiment", "list", "", 0, "Lists experiments, the newest first.",
          "det experiment list"),
     .path = "/experiments?orderBy=ORDER_BY_DESC", .member = "experiments",
     COLUMNS(experiment_columns), .usual = "archived=false"},
    {VIEW(view_options, "experiment", "describe", "ID", 1, "Shows an experiment.",
          "det experiment describe 7"),
     .path = "/experiments/%s", .member = "experiment", COLUMNS(experiment_lines), .record = true,
     .beside = {"config", "warnings"}},
    {VIEW(view_options, "experiment", "list-trials", "ID", 1, "Lists the trials of an experiment.",
          "det experiment list-trials 7"),
     .path = "/experiments/%s/trials?limit=-1", .member = "trials", COLUMNS(trial_columns)},
    {VIEW(checkpoint_options, "experiment", "list-checkpoints", "ID", 1,
          "Lists the checkpoints of an experiment.", "det experiment list-checkpoints 7"),
     .path = "/experiments/%s/checkpoints?limit=-1", .member = "checkpoints",
     COLUMNS(checkpoint_columns), .usual = KEPT_CHECKPOINTS},
    {VIEW(view_options, "trial", "describe", "ID", 1, "Shows a trial.", "det trial describe 12"),
     .path = "/trials/%s", .member = "trial", COLUMNS(trial_lines), .record = true},
    {VIEW(checkpoint_options, "checkpoint", "list", "TRIAL", 1, "Lists the checkpoints of a trial.",
          "det checkpoint list 12"),
     .path = "/trials/%s/checkpoints?limit=-1", .member = "checkpoints",
     COLUMNS(checkpoint_columns), .usual = KEPT_CHECKPOINTS},
    {VIEW(view_options, "checkpoint", "describe", "UUID", 1, "Shows a checkpoint.",
          "det checkpoint describe 0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10"),
     .path = "/checkpoints/%s", .member = "checkpoint", COLUMNS(checkpoint_lines), .record = true},
    {VIEW(view_options, "job", "list", "", 0,
          "Shows the queue, and what everything in it waits for.", "det job list"),
     .path = "/jobs", .member = "jobs", COLUMNS(job_columns)},
    {VIEW(view_options, "slot", "list", "", 0, "Lists slots and what has them.", "det slot list"),
     .path = "/slots", .member = "slots", COLUMNS(slot_columns)},
    {VIEW(view_options, "resource-pool", "list", "", 0,
          "Lists the pools of slots, how much of them is in use, and how many trials wait.",
          "det resource-pool list"),
     .path = "/resource-pools", .member = "resourcePools", COLUMNS(pool_columns)},
    {VIEW(view_options, "user", "list", "", 0, "Lists users.", "det user list"), .path = "/users",
     .member = "users", COLUMNS(user_columns)},
    {VIEW(view_options, "user", "whoami", "", 0, "Shows who the master takes you for.",
          "det user whoami"),
     .path = "/me", .member = "user", COLUMNS(user_columns), .record = true},
    {VIEW(view_options, "master", "info", "", 0,
          "Shows the master: where it is, what tasks are kept from, and every key of its "
          "configuration with the place that its value comes from.",
          "det master info"),
     .path = "/master/info", .member = "", COLUMNS(master_lines), .record = true,
     .table = "settings", .table_columns = setting_columns,
     .n_table_columns = STATIC_LEN(setting_columns)},
    {VIEW(view_options, "template", "list", "", 0, "Lists templates of configurations.",
          "det template list"),
     .path = "/templates", .member = "templates", COLUMNS(template_columns)},
    {VIEW(view_options, "template", "describe", "NAME", 1, "Shows a template.",
          "det template describe gpu"),
     .path = "/templates/%s", .member = "template", COLUMNS(template_lines), .record = true},
};

const struct command_table cmd_list_commands = COMMAND_TABLE(views);
