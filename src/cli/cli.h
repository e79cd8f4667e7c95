// cli/cli.h: the program det: finds the command, reads its options, runs it.
#pragma once

// What main() returns.
int cli_main(int argc, char **argv);
