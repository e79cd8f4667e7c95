// Unit cmd_follow.c: det experiment logs, wait and config, det trial logs, det job logs.
#include "cli/cmd.h"

#include "base/number.h"
#include "cli/follow.h"
#include "cli/show.h"

static bool read_id(const char *text, int64_t *out)
{
    if (number_to_int(str_from(text), 10, out) && *out > 0) return true;
    print_error("'%s' is not the number of anything; 'list' shows numbers", text);
    return false;
}

static bool read_tail(const struct call *call, int64_t *out)
{
    const char *text = call_option(call, "tail");
    *out = -1;
    if (!text || (number_to_int(str_from(text), 10, out) && *out >= 0)) return true;
    print_error("--tail takes a number of lines, found '%s'", text);
    return false;
}

static int run_trial_logs(const struct call *call)
{
    struct remote r;
    int64_t id, tail;
    int status = EXIT_USAGE;
    if (!read_id(call->args[0], &id) || !read_tail(call, &tail)) return status;
    status = EXIT_FAILED;
    if (remote_open(&r, call)) {
        const struct follow_opts opts = {.goes_on = call_option(call, "follow"), .tail = tail};
        status = follow_logs(&r, id, &opts);
    }
    remote_close(&r);
    return status;
}

// One behind the other.
static int print_trials(struct remote *r, int64_t id, const struct follow_opts *opts)
{
    const struct doc *list =
        doc_find(remote_get(r, "/experiments/%lld/trials?limit=-1", (long long)id), "trials");
    int status = list ? EXIT_OK : EXIT_FAILED;
    for (const struct doc *t = list ? list->first : NULL; t && !status; t = t->next)
        status = follow_logs(r, doc_whole(t, "id"), opts);
    return status;
}

static int run_experiment_logs(const struct call *call)
{
    struct remote r;
    int64_t id, tail;
    int status = EXIT_USAGE;
    if (!read_id(call->args[0], &id) || !read_tail(call, &tail)) return status;
    status = EXIT_FAILED;
    bool is_job = !strcmp(call->command->noun, "job");
    const struct follow_opts opts = {
        .goes_on = call_option(call, "follow"), .names_trials = !is_job, .tail = tail};
    if (remote_open(&r, call))
        status = opts.goes_on ? follow_trials(&r, id, &opts) : print_trials(&r, id, &opts);
    remote_close(&r);
    return status;
}

static int run_wait(const struct call *call)
{
    struct remote r;
    int64_t id;
    if (!read_id(call->args[0], &id)) return EXIT_USAGE;
    int status = EXIT_FAILED;
    if (remote_open(&r, call)) status = follow_experiment(&r, id);
    remote_close(&r);
    return status;
}

static int run_config(const struct call *call)
{
    struct remote r;
    int status = EXIT_FAILED;
    const struct doc *answer = NULL;
    if (remote_open(&r, call))
        answer = remote_get(&r, "/experiments/%s", remote_segment(&r, call->args[0]));
    if (answer) status = show_doc(call, doc_find(answer, "config"));
    remote_close(&r);
    return status;
}

static const struct option log_options[] = {
    MASTER_OPTION,
    {"follow", 'f', NULL, "Goes on until it ends."},
    {"tail", 0, "N", "Shows the last N lines only."},
};

#define LOGS(noun_, run_, help_, example_) \
    COMMAND(noun_, "logs", "ID", 1, 1, log_options, run_, help_, example_)

static const struct option wait_options[] = {MASTER_OPTION};

static const struct option config_options[] = {
    MASTER_OPTION,
    {"json", 0, NULL, "Prints JSON instead of YAML."},
};

static const struct command rows[] = {
    LOGS("trial", run_trial_logs, "Shows what a trial printed.", "det trial logs 12 -f"),
    LOGS("experiment", run_experiment_logs, "Shows what the trials of an experiment printed.",
         "det experiment logs 7 --tail 20"),
    LOGS("job", run_experiment_logs, "Shows what a job printed.", "det job logs 7 -f"),
    {
        .noun = "experiment",
        .verb = "wait",
        .args = "ID",
        .min_args = 1,
        .max_args = 1,
        .help = "Waits until an experiment ends. The exit status is 0 if it completed.",
        .example = "det experiment wait 7",
        .options = wait_options,
        .n_options = STATIC_LEN(wait_options),
        .run = run_wait,
    },
    {
        .noun = "experiment",
        .verb = "config",
        .args = "ID",
        .min_args = 1,
        .max_args = 1,
        .help = "Prints the complete configuration of an experiment.",
        .example = "det experiment config 7",
        .options = config_options,
        .n_options = STATIC_LEN(config_options),
        .run = run_config,
    },
};

const struct command_table cmd_follow_commands = COMMAND_TABLE(rows);
