// Unit help.c: the commands help and version.
#include "cli/cmd.h"

#include "det/version.h"

// verb may be the first word of two: "set" of "set name".
static bool matches(const struct command *c, const char *noun, const char *verb)
{
    if (noun && strcmp(c->noun, noun) != 0) return false;
    if (!verb) return true;
    size_t n = strlen(verb);
    return c->verb && !strncmp(c->verb, verb, n) && (!c->verb[n] || c->verb[n] == ' ');
}

bool help_is_begun(const char *noun, const char *verb)
{
    for (size_t i = 0; i < n_commands; i++)
        if (matches(commands[i], noun, verb)) return true;
    return false;
}

static void add_short_words(struct buf *out, const struct short_word *words)
{
    for (const struct short_word *s = words; s->word; s++)
        buf_printf(out, "%s%s %s", s == words ? "  " : ", ", s->shorter, s->word);
    buf_addc(out, '\n');
}

int help_print(const char *noun, const char *verb)
{
    struct buf out = BUF_INIT(1 << 20);
    const struct command *only = NULL;
    int n = 0;
    if (!noun) buf_addz(&out, "det trains deep-learning models.\n\n");
    buf_addz(&out, "Usage: det COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:\n");
    for (size_t i = 0; i < n_commands; i++) {
        if (!matches(commands[i], noun, verb) || (commands[i]->internal && !noun)) continue;
        only = n++ ? NULL : commands[i];
        help_summary(commands[i], &out);
    }
    buf_addz(&out, "\n'det help COMMAND' says more about one of them.\n");
    if (!noun) {
        buf_addz(&out, "Shorter words:\n");
        add_short_words(&out, short_nouns);
        add_short_words(&out, short_verbs);
    }
    if (only && noun) {
        buf_clear(&out);
        help_command(only, &out);
    }
    if (n)
        print_data(buf_str(&out));
    else
        print_error("there is no command '%s%s%s'; see 'det help'", noun, verb ? " " : "",
                    verb ? verb : "");
    buf_done(&out);
    return n ? EXIT_OK : EXIT_USAGE;
}

int help_print_man(void)
{
    struct buf out = BUF_INIT(1 << 20);
    buf_addz(&out, ".TH det 1\n.SH NAME\ndet \\- trains deep\\-learning models\n"
                   ".SH SYNOPSIS\n.B det\nCOMMAND [ARGUMENTS] [OPTIONS]\n.SH COMMANDS\n");
    for (size_t i = 0; i < n_commands; i++)
        if (!commands[i]->internal) help_man_section(commands[i], &out);
    buf_addz(&out,
             ".SH ENVIRONMENT\n"
             ".TP\n.B DET_MASTER\nAddress of the master to talk to. DETERMINED_MASTER is the "
             "same if it is not set.\n"
             ".TP\n.B DET_HOME\nWhere a master of this machine keeps everything.\n"
             ".TP\n.B DET_MASTER_CERT_FILE\nPEM: the certificate of a master on another "
             "machine, or that of its authority.\n"
             ".TP\n.B DET_MASTER_CERT_NAME\nThe name that must be in the certificate, if "
             "it is not the host of the address.\n"
             ".SH SIGNALS\nof the master, whose number is in master.json:\n"
             ".TP\n.B SIGHUP\nReads its configuration again, and the files of its certificate "
             "and key. The log says which changes are in force and which need a restart; "
             "what cannot be used changes nothing. The end of its terminal ends it.\n"

             ".TP\n.B SIGTERM, SIGINT\nStops it. Tasks go on.\n"
             ".SH SEE ALSO\n.BR det\\-run (1)\n");
    print_data(buf_str(&out));
    buf_done(&out);
    return EXIT_OK;
}

static int run_help(const struct call *call)
{
    char verb[64];
    snprintf(verb, sizeof verb, "%s%s%s", call->n_args > 1 ? call->args[1] : "",
             call->n_args > 2 ? " " : "", call->n_args > 2 ? call->args[2] : "");
    return help_print(call->n_args > 0 ? call->args[0] : NULL, *verb ? verb : NULL);
}

static int run_version(const struct call *call)
{
    if (call_option(call, "json"))
        print_data(STR("{\"version\": \"" DET_VERSION "\"}\n"));
    else
        print_data(STR("det " DET_VERSION "\n"));
    return EXIT_OK;
}

static const struct option version_options[] = {{"json", 0, NULL, "Prints JSON."}};

static const struct command rows[] = {
    {
        .noun = "help",
        .args = "[COMMAND]",
        .max_args = 3,
        .help = "Explains a command, or lists all of them.",
        .example = "det help config check",
        .run = run_help,
    },
    {
        .noun = "version",
        .args = "",
        .options = version_options,
        .n_options = 1,
        .help = "Prints the version of this program.",
        .example = "det version",
        .run = run_version,
    },
};

const struct command_table help_commands = COMMAND_TABLE(rows);
