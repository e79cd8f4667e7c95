// cli/cmd.h: the tables of commands, in the order of the help. Each is in the file of its name.
// Private to the layer.
#pragma once

#include "cli/command.h"

// clang-format off
#define COMMAND_TABLES(T)                                                                          \
    T(cmd_up) T(cmd_open) T(cmd_master) T(cmd_create) T(cmd_list) T(cmd_follow) T(cmd_steer)       \
    T(cmd_metrics) T(cmd_plot) T(cmd_download) T(cmd_user) T(cmd_why) T(cmd_config)            \
    T(cmd_preview_search) T(cmd_simulate_search) T(cmd_completion) T(help)
// clang-format on

#define DECLARE_TABLE(file) extern const struct command_table file##_commands;
COMMAND_TABLES(DECLARE_TABLE)
