// cli/command.h: the command table. A command is one row, next to its handler in cmd_*.c, and one
// entry in commands.c; parsing, help and suggestions come from the row. Private to the layer.
#pragma once

#include "args/args.h"

extern const struct command *const commands[];
extern const size_t n_commands;

// Nouns that may be written shorter; ends with NULLs.
struct short_noun {
    const char *shorter, *noun;
};
extern const struct short_noun short_nouns[];

// Help goes to stdout. noun NULL: all commands; verb NULL: all commands of the noun. EXIT_USAGE if
// there is none.
int help_print(const char *noun, const char *verb);

// Whether there are commands of the noun whose verb is this one, or begins with this word.
bool help_is_begun(const char *noun, const char *verb);

// The manual page of det, in roff, to stdout.
int help_print_man(void);
