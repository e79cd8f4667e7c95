// Unit help.c: help texts from the command table, and the commands help and version.
#include "cli/cmd.h"

#include "base/buf.h"
#include "cli/print.h"

enum { LINE_MAX_CHARS = 80, OPTION_COLUMN = 24, COMMAND_COLUMN = 20 };

static struct str first_sentence(const char *help)
{
    const char *end = strstr(help, ". ");
    return end ? (struct str){help, (size_t)(end - help) + 1} : str_from(help);
}

static void pad(struct buf *out, size_t column, size_t at)
{
    do {
        buf_addc(out, ' ');
    } while (++at < column);
}

// Words from the given column on, in lines of at most 80 characters. The cursor is in that column
// already.
static void add_wrapped(struct buf *out, struct str text, size_t column)
{
    size_t at = column;
    while (text.ptr) {
        struct str word = str_cut(&text, ' ');
        if (at > column && at + 1 + word.len > LINE_MAX_CHARS) {
            buf_addc(out, '\n');
            if (column) pad(out, column, 0);
            at = column;
        } else if (at > column) {
            buf_addc(out, ' ');
            at++;
        }
        buf_add(out, word.ptr, word.len);
        at += word.len;
    }
    buf_addc(out, '\n');
}

static void add_option(struct buf *out, const struct option *o)
{
    size_t start = out->len;
    buf_addz(out, "  ");
    if (o->letter)
        buf_printf(out, "-%c, ", o->letter);
    else
        buf_addz(out, "    ");
    buf_printf(out, "--%s", o->name);
    if (o->arg) buf_printf(out, " %s", o->arg);
    pad(out, OPTION_COLUMN, out->len - start);
    add_wrapped(out, str_from(o->help), OPTION_COLUMN);
}

static void add_command(struct buf *out, const struct command *c)
{
    static const struct option help = {"help", 'h', NULL, "Shows this."};
    char name[64];
    command_name(c, name, sizeof name);
    buf_printf(out, "Usage: det %s%s%s%s\n\n", name, *c->args ? " " : "", c->args,
               c->n_options ? " [OPTIONS]" : "");
    add_wrapped(out, str_from(c->help), 0);
    buf_addz(out, "\nOptions:\n");
    for (size_t i = 0; i < c->n_options; i++)
        add_option(out, &c->options[i]);
    add_option(out, &help);
    buf_printf(out, "\nExample:\n  %s\n", c->example);
}

static void add_summary(struct buf *out, const struct command *c)
{
    char name[64];
    command_name(c, name, sizeof name);
    buf_printf(out, "  %s", name);
    pad(out, COMMAND_COLUMN, 2 + strlen(name));
    add_wrapped(out, first_sentence(c->help), COMMAND_COLUMN);
}

static bool matches(const struct command *c, const char *noun, const char *verb)
{
    if (noun && strcmp(c->noun, noun) != 0) return false;
    return !verb || (c->verb && !strcmp(c->verb, verb));
}

int help_print(const char *noun, const char *verb)
{
    struct buf out = BUF_INIT(1 << 20);
    const struct command *only = NULL;
    int n = 0;
    if (!noun) buf_addz(&out, "det trains deep-learning models.\n\n");
    buf_addz(&out, "Usage: det COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:\n");
    for (size_t i = 0; i < n_commands; i++) {
        if (!matches(commands[i], noun, verb)) continue;
        only = n++ ? NULL : commands[i];
        add_summary(&out, commands[i]);
    }
    buf_addz(&out, "\n'det help COMMAND' says more about one of them.\n");
    if (only && noun) {
        buf_clear(&out);
        add_command(&out, only);
    }
    if (n)
        print_data(buf_str(&out));
    else
        print_error("there is no command '%s%s%s'; see 'det help'", noun, verb ? " " : "",
                    verb ? verb : "");
    buf_done(&out);
    return n ? CLI_OK : CLI_USAGE;
}

static int run_help(const struct call *call)
{
    return help_print(call->n_args > 0 ? call->args[0] : NULL,
                      call->n_args > 1 ? call->args[1] : NULL);
}

const struct command cmd_help = {
    .noun = "help",
    .args = "[COMMAND]",
    .max_args = 2,
    .help = "Explains a command, or lists all of them.",
    .example = "det help config check",
    .run = run_help,
};

static int run_version(const struct call *call)
{
    (void)call;
    print_data(STR("det " DET_VERSION "\n"));
    return CLI_OK;
}

const struct command cmd_version = {
    .noun = "version",
    .args = "",
    .help = "Prints the version of this program.",
    .example = "det version",
    .run = run_version,
};
