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

// What --data says, or else what is usual: not where another master was started last.
static void set_home(const char *data, struct arena *arena)
{
    const char *usual = home_default(arena);
    if (data || usual) setenv("DET_HOME", data ? data : usual, 1);
}

// Whoever comes after us looks for the master that was started last; data NULL: where it usually
// is.
static bool tell_others(const char *data, const char *told)
{
    det_err err;
    if (!told && home_choose(data, &err)) {
        print_error("%s", err.msg);
        return false;
    }
    if (told && data && strcmp(told, data))
        say("Other commands look in $DET_HOME. For this one, say: export DET_HOME=", data);
    return true;
}

static int run_up(const struct call *call)
{
    const char *options[2 * CALL_MAX_OPTIONS + 1] = {NULL};
    char url[1024];
    struct arena arena = ARENA_INIT;
    int status = EXIT_OK;
    const char *data = call_option(call, "data"), *told = getenv("DET_HOME");
    told = told && *told ? arena_strdup(&arena, told) : NULL;
    set_home(data, &arena);
    hand_on(call, &arena, options);
    const char *file = call_option(call, "config");
    if (own_master_answers(url, sizeof url))
        say("A master is running already, at ", url);
    else if (call_option(call, "no-config") && !own_master_keep_config(NULL))
        status = EXIT_FAILED;
    else if (!own_master_start(options, OUTLIVES_US) || !own_master_answers(url, sizeof url))
        status = EXIT_FAILED;
    else
        say("The master is at ", arena_printf(&arena, "%s; 'det open' shows its web page.", url));
    // One that the master has refused is not remembered.
    if (status == EXIT_OK && file && !own_master_keep_config(file)) status = EXIT_FAILED;
    if (status == EXIT_OK && !tell_others(data, told)) status = EXIT_FAILED;
    arena_done(&arena);
    return status;
}

static int run_down(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    char url[1024];
    int status = EXIT_OK;
    const char *data = call_option(call, "data"), *usual = home_default(&arena);
    const char *home = data ? data : home_dir(&arena);
    bool is_usual = home && usual && !strcmp(home, usual);
    if (home) setenv("DET_HOME", home, 1);
    pid_t pid = (pid_t)doc_whole(home_master(&arena), "pid");
    if (pid <= 0 || !own_master_answers(url, sizeof url)) { // the number may be somebody else's now
        say("No master is running.", "");
    } else if (own_master_stop(pid)) {
        say("The master is stopped. Tasks that were running go on; ",
            arena_printf(&arena, "'det up%s%s' finds them again.", is_usual ? "" : " --data ",
                         is_usual ? "" : home));
    } else {
        status = EXIT_FAILED;
    }
    if (status == EXIT_OK && home) home_forget(home);
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
