// cli/cli.h: the program det: finds the command, reads its options, runs it.
#pragma once

// Exit statuses, the same for all commands.
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2, // wrong usage, or a configuration that is not valid
};

// What main() returns.
int cli_main(int argc, char **argv);
