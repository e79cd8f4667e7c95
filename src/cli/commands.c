// Unit commands.c: all commands there are, in the order of the help.
#include "cli/cmd.h"

const struct command *const commands[] = {
    &cmd_config_check, &cmd_master, &cmd_preview_search, &cmd_simulate_search,
    &cmd_shim,         &cmd_help,   &cmd_version,
};

const size_t n_commands = sizeof commands / sizeof *commands;
