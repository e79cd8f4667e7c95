// Unit commands.c: the command table: the rows of all files, sorted by their nouns.
#include "cli/cmd.h"

enum { MAX_COMMANDS = 256 };

#define TABLE_ROW(file) &file##_commands,
static const struct command_table *const tables[] = {COMMAND_TABLES(TABLE_ROW)};

static const struct command *sorted[MAX_COMMANDS];
const struct command **commands = sorted;
size_t n_commands;

// Behind the last command with the same noun.
static void insert(const struct command *c)
{
    size_t at = n_commands;
    ASSERT(n_commands < MAX_COMMANDS);
    for (size_t i = 0; i < n_commands; i++)
        if (!strcmp(sorted[i]->noun, c->noun)) at = i + 1;
    memmove(sorted + at + 1, sorted + at, (n_commands - at) * sizeof *sorted);
    sorted[at] = c;
    n_commands++;
}

void commands_open(void)
{
    n_commands = 0;
    for (size_t t = 0; t < STATIC_LEN(tables); t++)
        for (size_t i = 0; i < tables[t]->n; i++)
            insert((const void *)((const char *)tables[t]->rows + i * tables[t]->row_bytes));
}
