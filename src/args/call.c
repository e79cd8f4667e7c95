// Unit call.c: options and arguments of one command, as getopt_long would take them: anywhere,
// --name value,
// --name=value, -n value, -nvalue, -abc; -- ends them and - is an argument.
#include "args/args.h"

#include "base/mem.h"
#include "base/nearest.h"

// Known to every command.
static const struct option help_option = {"help", 'h', NULL, "Shows this."};
static const struct option man_option = {"man", 0, NULL, "Shows this as a manual page."};

static const struct option *find_long(const struct command *c, struct str name)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (str_eqz(name, c->options[i].name)) return &c->options[i];
    if (str_eqz(name, man_option.name)) return &man_option;
    return str_eqz(name, help_option.name) ? &help_option : NULL;
}

static const struct option *find_short(const struct command *c, char letter)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].letter == letter) return &c->options[i];
    return letter == help_option.letter ? &help_option : NULL;
}

static int unknown_option(const struct command *c, struct str name, det_err *err)
{
    char full[80];
    struct nearest near = NEAREST_INIT(name);
    for (size_t i = 0; i < c->n_options; i++)
        nearest_offer(&near, c->options[i].name);
    command_line(c, full, sizeof full);
    const char *dashes = name.len > 1 ? "--" : "-";
    if (near.best)
        return det_fail(err, DET_EINVAL, "'%s' has no option '%s%.*s'; did you mean '--%s'?", full,
                        dashes, STR_ARG(name), near.best);
    return det_fail(err, DET_EINVAL, "'%s' has no option '%s%.*s'; see '%s --help'", full, dashes,
                    STR_ARG(name), full);
}

static int take(struct call *call, const struct option *o, const char *value, det_err *err)
{
    if (o == &help_option || o == &man_option) {
        call->wants_help |= o == &help_option;
        call->wants_man |= o == &man_option;
        return det_ok(err);
    }
    if (call->n_given == CALL_MAX_OPTIONS)
        return det_fail(err, DET_EINVAL, "more than %d options", CALL_MAX_OPTIONS);
    call->given[call->n_given] = o;
    call->values[call->n_given++] = value ? value : "";
    return det_ok(err);
}

// --name, --name=value, --name value. *i is the word it stands in, and moves on if the next one is
// used too.
static int parse_long(struct call *call, char **argv, int n, int *i, det_err *err)
{
    struct str rest = str_from(argv[*i] + 2);
    struct str name = str_cut(&rest, '=');
    const struct option *o = find_long(call->command, name);
    if (!o) return unknown_option(call->command, name, err);
    if (!o->arg && rest.ptr)
        return det_fail(err, DET_EINVAL, "the option '--%s' takes no value", o->name);
    if (!o->arg) return take(call, o, NULL, err);
    if (rest.ptr) return take(call, o, rest.ptr, err);
    if (*i + 1 == n)
        return det_fail(err, DET_EINVAL, "the option '--%s' needs a value: %s", o->name, o->arg);
    return take(call, o, argv[++*i], err);
}

// -abc: flags, of which the last one may take a value, right behind it or in the next word.
static int parse_short(struct call *call, char **argv, int n, int *i, det_err *err)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        const struct option *o = find_short(call->command, *p);
        if (!o) return unknown_option(call->command, (struct str){p, 1}, err);
        if (o->arg && p[1]) return take(call, o, p + 1, err);
        if (o->arg && *i + 1 == n)
            return det_fail(err, DET_EINVAL, "the option '-%c' needs a value: %s", *p, o->arg);
        int rc = take(call, o, o->arg ? argv[++*i] : NULL, err);
        if (rc || o->arg) return rc;
    }
    return det_ok(err);
}

static int check_count(const struct call *call, det_err *err)
{
    const struct command *c = call->command;
    char line[80];
    if (call->n_args >= c->min_args && call->n_args <= c->max_args) return det_ok(err);
    return det_fail(err, DET_EINVAL, "%s arguments; usage: %s%s%s",
                    call->n_args < c->min_args ? "too few" : "too many",
                    command_line(c, line, sizeof line), *c->args ? " " : "", c->args);
}

int call_parse(struct call *call, char **argv, int n, det_err *err)
{
    bool options_end = false;
    for (int i = 0; i < n; i++) {
        const char *word = argv[i];
        int rc = 0;
        if (options_end || word[0] != '-' || !word[1])
            call->args[call->n_args++] = word, options_end |= call->command->takes_rest;
        else if (!strcmp(word, "--"))
            options_end = true;
        else if (word[1] == '-')
            rc = parse_long(call, argv, n, &i, err);
        else
            rc = parse_short(call, argv, n, &i, err);
        if (rc) return rc;
    }
    return call->wants_help || call->wants_man ? det_ok(err) : check_count(call, err);
}

const char *call_option(const struct call *call, const char *name)
{
    for (int i = call->n_given - 1; i >= 0; i--)
        if (!strcmp(call->given[i]->name, name)) return call->values[i];
    return NULL;
}

const char *command_name(const struct command *c, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");
    return out;
}

const char *command_line(const struct command *c, char *out, size_t size)
{
    char name[64];
    snprintf(out, size, "%s%s%s", c->program ? c->program : "det", c->noun ? " " : "",
             c->noun ? command_name(c, name, sizeof name) : "");
    return out;
}

int call_run(const struct command *command, char **argv, int n)
{
    struct call call = {.command = command, .args = xcalloc((size_t)n + 1, sizeof *call.args)};
    struct buf help = BUF_INIT(1 << 20);
    det_err err;
    int status = EXIT_USAGE;
    if (call_parse(&call, argv, n, &err)) {
        print_error("%s", err.msg);
    } else if (call.wants_help || call.wants_man) {
        if (call.wants_man)
            help_man(command, &help);
        else
            help_command(command, &help);
        print_data(buf_str(&help));
        status = EXIT_OK;
    } else {
        status = command->run(&call);
    }
    buf_done(&help);
    free(call.args);
    return status;
}
