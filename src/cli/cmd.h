// cli/cmd.h: the rows in the cmd_*.c files. Private to the layer.
#pragma once

#include "cli/command.h"

extern const struct command cmd_config_check, cmd_help, cmd_master, cmd_preview_search, cmd_shim,
    cmd_simulate_search, cmd_version;
