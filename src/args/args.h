// args/args.h: what a program is told on its command line, and how it answers: tables of options,
// their help, messages to people. det and det-run share it.
//
//     static const struct option options[] = {{"json", 'j', NULL, "Prints JSON."}};
//     const struct command c = {.noun = "config", .verb = "check", .args = "FILE", .min_args = 1,
//                               .max_args = 1, .options = options, .n_options = 1, ...};
//     struct call call = {.command = &c, .args = args};
//     if (call_parse(&call, argv + 3, argc - 3, &err)) print_error("%s", err.msg);
#pragma once

#include "base/buf.h"
#include "doc/diag.h"
#include "base/safe.h"
#include "det/err.h"

// Exit statuses, the same for all programs and commands.
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2, // wrong usage, or a configuration that is not valid
};

struct option {
    const char *name; // long, without the dashes
    char letter;      // 0: none
    const char *arg;  // what it takes, in capitals; NULL: it is a flag
    const char *help; // a sentence
};

struct call;

struct command {
    const char *program;     // NULL: det
    const char *noun, *verb; // "config", "check"; a command of one word has no verb, and one that
                             // is the whole program has neither
    const char *args;        // "FILE [DIR]"
    int min_args, max_args;
    bool internal;       // for programs: no list of commands has it
    bool takes_rest;     // what follows the first argument is for somebody else, options too
    const char *help;    // the first sentence is what lists show
    const char *example; // a complete line
    const struct option *options;
    size_t n_options;
    int (*run)(const struct call *call); // returns the exit status
};

enum { CALL_MAX_OPTIONS = 128 };

// One call of a command: its arguments and options, checked against the row.
struct call {
    const struct command *command;
    const char **args;
    int n_args;
    const struct option *given[CALL_MAX_OPTIONS]; // in the order of the command line
    const char *values[CALL_MAX_OPTIONS];         // "" for flags
    int n_given;
    bool wants_help, wants_man; // --help, --man: arguments are then not counted
};

// Sorts argv (n words, after those of the command) into args and options. DET_EINVAL for what the
// row does not know. args has room for n pointers.
int call_parse(struct call *call, char **argv, int n, det_err *err);

// The value of an option, or "" for a flag; NULL if it was not given. The last one counts.
const char *call_option(const struct call *call, const char *name);

// The whole life of a call: parses, runs or explains, reports. Returns the exit status.
int call_run(const struct command *command, char **argv, int n);

// "config check", and as it is typed: "det config check".
const char *command_name(const struct command *c, char *out, size_t size);
const char *command_line(const struct command *c, char *out, size_t size);

// Usage, options and an example, in lines of at most 80 characters.
void help_command(const struct command *c, struct buf *out);

// The same as a manual page, in roff.
void help_man(const struct command *c, struct buf *out);
// As a section of the page of a program with many commands.
void help_man_section(const struct command *c, struct buf *out);

// "  name   first sentence of its help"
void help_summary(const struct command *c, struct buf *out);

// --- messages: data to stdout, the rest to stderr. All of it is made harmless for terminals
// (base/safe.h); use safe_add() for the parts of a line that must not contain another line.

void print_data(struct str text);
void print_log(struct str text); // the same, with its colours

// Whether somebody who sees colours reads stdout.
bool print_has_colours(void);

// "det: ..." and a newline, in red on a terminal.
void print_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void print_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Warnings, then errors, in lines of their own, yellow or red on a terminal.
void print_diags(const struct diag_list *diags);

// False, after saying so, if something written to stdout did not get there.
bool print_finish(void);
