// cli/command.h: the command table. A command is one row, next to its handler in the cmd_*.c file
// of its kind; parsing, help, suggestions and completion come from the row. Private to the layer.
#pragma once

#include "args/args.h"
#include "base/assert.h"

// All commands, those of a noun next to each other. Filled by commands_open().
extern const struct command **commands;
extern size_t n_commands;
void commands_open(void); // as often as one likes

// The rows of one file. The first member of a row is its struct command.
struct command_table {
    const void *rows;
    size_t n, row_bytes;
};
#define COMMAND_TABLE(array)                                                  \
    {                                                                         \
        .rows = (array), .n = STATIC_LEN(array), .row_bytes = sizeof *(array) \
    }

// The members of a row, for commands that differ in little.
#define COMMAND(noun_, verb_, args_, least, most, options_, run_, help_, example_)        \
    {                                                                                     \
        .noun = noun_, .verb = verb_, .args = args_, .min_args = least, .max_args = most, \
        .help = help_, .example = example_, .options = options_,                          \
        .n_options = STATIC_LEN(options_), .run = run_                                    \
    }

// Words that may be written shorter; both end with NULLs. A verb only where the noun has it.
struct short_word {
    const char *shorter, *word;
};
extern const struct short_word short_nouns[], short_verbs[];

// Help goes to stdout. noun NULL: all commands; verb NULL: all commands of the noun. EXIT_USAGE if
// there is none.
int help_print(const char *noun, const char *verb);

// Whether there are commands of the noun whose verb is this one, or begins with this word.
bool help_is_begun(const char *noun, const char *verb);

// The manual page of det, in roff, to stdout.
int help_print_man(void);
