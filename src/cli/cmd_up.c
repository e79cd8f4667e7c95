// Unit cmd_up.c: det up and det down: a master in the background.
#include "cli/cmd.h"

#include "base/assert.h"
#include "cli/own_master.h"
#include "cli/remote.h"
#include <stdlib.h>

static void say(const char *text, const char *url)
{
    struct buf line = BUF_INIT(8192);
    buf_printf(&line, "%s%s\n", text, url);
    print_data(buf_str(&line));
    buf_done(&line);
}

// Options that 'det master' knows, too.
static void hand_on(const struct call *call, struct arena *arena, const char **options)
{
    int n = 0;
    for (int i = 0; i < call->n_given; i++) {
        if (!strcmp(call->given[i]->name, "no-config")) continue;
        options[n++] = arena_printf(arena, "--%s", call->given[i]->name);
        if (call->given[i]->arg) options[n++] = call->values[i];
    }
}

static int run_up(const struct call *call)
{
    const char *options[2 * CALL_MAX_OPTIONS + 1] = {NULL};
    char url[1024];
    struct arena arena = ARENA_INIT;
    int status = EXIT_OK;
    if (call_option(call, "data")) setenv("DET_HOME", call_option(call, "data"), 1);
    hand_on(call, &arena, options);
    const char *file = call_option(call, "config");
    if (own_master_answers(url, sizeof url))
        say("A master is running already, at ", url);
    else if (call_option(call, "no-config") && !own_master_keep_config(NULL))
        status = EXIT_FAILED;
    else if (!own_master_start(options, OUTLIVES_US) || !own_master_answers(url, sizeof url))
        status = EXIT_FAILED;
    else
        say("The master is at ", url);
    // One that the master has refused is not remembered.
    if (status == EXIT_OK && file && !own_master_keep_config(file)) status = EXIT_FAILED;
    arena_done(&arena);
    return status;
}

static int run_down(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    char url[1024];
    int status = EXIT_OK;
    if (call_option(call, "data")) setenv("DET_HOME", call_option(call, "data"), 1);
    pid_t pid = (pid_t)doc_whole(home_master(&arena), "pid");
    if (pid <= 0 || !own_master_answers(url, sizeof url)) // the number may be somebody else's now
        say("No master is running.", "");
    else if (own_master_stop(pid))
        say("The master is stopped. Tasks that were running go on; 'det up' finds them again.", "");
    else
        status = EXIT_FAILED;
    arena_done(&arena);
    return status;
}

static const struct option up_options[] = {
    OWN_MASTER_OPTIONS // its rows end with a comma
    {"no-config", 0, NULL, "Uses no configuration, and forgets the one of an earlier --config."},
};

static const struct option down_options[] = {
    {"data", 'd', "DIR", "Where the master keeps everything."},
};

static const struct command rows[] = {
    {
        .noun = "up",
        .args = "",
        .help = "Starts a master on this machine, in the background, unless one is running. The "
                "file of "
                "--config is used by every 'det up' that follows.",
        .example = "det up",
        .options = up_options,
        .n_options = STATIC_LEN(up_options),
        .run = run_up,
    },
    {
        .noun = "down",
        .args = "",
        .help = "Stops the master of this machine. Tasks go on without it.",
        .example = "det down",
        .options = down_options,
        .n_options = STATIC_LEN(down_options),
        .run = run_down,
    },
};

const struct command_table cmd_up_commands = COMMAND_TABLE(rows);
