// cli/command.h: the command table. A command is one row, next to its handler in cmd_*.c, and one
// entry in commands.c; parsing, help and suggestions come from the row. Private to the layer.
#pragma once

#include "cli/cli.h"
#include "det/err.h"
#include <stdbool.h>
#include <stddef.h>

struct option {
    const char *name; // long, without the dashes
    char letter;      // 0: none
    const char *arg;  // what it takes, in capitals; NULL: it is a flag
    const char *help; // a sentence
};

struct call;

struct command {
    const char *noun, *verb; // "config", "check"; a command of one word has no verb
    const char *args;        // "FILE [DIR]"
    int min_args, max_args;
    const char *help;    // the first sentence is what lists show
    const char *example; // a complete line
    const struct option *options;
    size_t n_options;
    int (*run)(const struct call *call); // returns the exit status
};

extern const struct command *const commands[];
extern const size_t n_commands;

enum { CALL_MAX_OPTIONS = 32 };

// One call of a command: its arguments and options, checked against the row.
struct call {
    const struct command *command;
    const char **args;
    int n_args;
    const struct option *given[CALL_MAX_OPTIONS];
    const char *values[CALL_MAX_OPTIONS];
    int n_given;
    bool wants_help;
};

// The value of an option, or "" for a flag; NULL if it was not given. The last one counts.
const char *call_option(const struct call *call, const char *name);

// Sorts argv (n words, after those of the command) into args and options. DET_EINVAL for what the
// row does not know. args has room for n pointers.
int call_parse(struct call *call, char **argv, int n, det_err *err);

// "config check"
const char *command_name(const struct command *c, char *out, size_t size);

// Help goes to stdout. noun NULL: all commands; verb NULL: all commands of the noun. CLI_USAGE if
// there is none.
int help_print(const char *noun, const char *verb);
