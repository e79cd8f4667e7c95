// cli/command.h: the command table. A command is one row, next to its handler in cmd_*.c, and one
// entry in commands.c; parsing, help and suggestions come from the row. Private to the layer.
#pragma once

#include "args/args.h"
#include "base/assert.h"

extern const struct command *const commands[];
extern const size_t n_commands;

// A row of the table for commands that differ in little.
#define COMMAND(symbol, noun_, verb_, args_, least, most, options_, run_, help_, example_) \
    const struct command symbol = {.noun = noun_,                                          \
                                   .verb = verb_,                                          \
                                   .args = args_,                                          \
                                   .min_args = least,                                      \
                                   .max_args = most,                                       \
                                   .help = help_,                                          \
                                   .example = example_,                                    \
                                   .options = options_,                                    \
                                   .n_options = STATIC_LEN(options_),                      \
                                   .run = run_};

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
