// Unit commands.c: the command table.
#include "cli/cmd.h"

#define COMMAND_ROW(name) &cmd_##name,
const struct command *const commands[] = {COMMANDS(COMMAND_ROW)};

const size_t n_commands = sizeof commands / sizeof *commands;
