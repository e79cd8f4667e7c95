// Unit help.c: help texts from the rows of commands.
#include "args/args.h"

enum { LINE_MAX_CHARS = 80, OPTION_COLUMN = 26, COMMAND_COLUMN = 32 };

static struct str first_sentence(const char *help)
{
    const char *end = strstr(help, ". ");
    return end ? (struct str){help, (size_t)(end - help) + 1} : str_from(help);
}

// Goes on in a column; on the next line if the cursor is beyond it.
static void pad(struct buf *out, size_t column, size_t at)
{
    if (at && at >= column) {
        buf_addc(out, '\n');
        at = 0;
    }
    for (; at < column; at++)
        buf_addc(out, ' ');
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
            pad(out, column, 0);
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

void help_command(const struct command *c, struct buf *out)
{
    static const struct option help = {"help", 'h', NULL, "Shows this."};
    char line[80];
    buf_printf(out, "Usage: %s%s%s%s%s\n\n", command_line(c, line, sizeof line),
               *c->args ? " " : "", c->takes_rest ? "[OPTIONS] " : "", c->args,
               c->n_options && !c->takes_rest ? " [OPTIONS]" : "");
    add_wrapped(out, str_from(c->help), 0);
    buf_addz(out, "\nOptions:\n");
    for (size_t i = 0; i < c->n_options; i++)
        add_option(out, &c->options[i]);
    add_option(out, &help);
    buf_printf(out, "\nExample:\n  %s\n", c->example);
}

void help_summary(const struct command *c, struct buf *out)
{
    char name[64];
    command_name(c, name, sizeof name);
    buf_printf(out, "  %s", name);
    pad(out, COMMAND_COLUMN, 2 + strlen(name));
    add_wrapped(out, first_sentence(c->help), COMMAND_COLUMN);
}

// --- manual pages

// Text that roff shows as it is: dashes stay dashes, and no line begins with a command.
static void put_roff(struct buf *out, struct str text)
{
    if (text.len && (text.ptr[0] == '.' || text.ptr[0] == '\'')) buf_addz(out, "\\&");
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '-' || c == '\\') buf_addc(out, '\\');
        buf_addz(out, c == '\\' ? "e" : (const char[]){c, 0});
    }
}

static void put_man_option(struct buf *out, const struct option *o)
{
    buf_addz(out, ".TP\n.B ");
    if (o->letter) buf_printf(out, "\\-%c, ", o->letter);
    buf_addz(out, "\\-\\-");
    put_roff(out, str_from(o->name));
    if (o->arg) buf_printf(out, " \\fI%s\\fR", o->arg);
    buf_addc(out, '\n');
    put_roff(out, str_from(o->help));
    buf_addc(out, '\n');
}

void help_man_section(const struct command *c, struct buf *out)
{
    char line[80];
    buf_addz(out, ".SS ");
    put_roff(out, str_from(command_line(c, line, sizeof line)));
    buf_printf(out, "%s%s%s\n", *c->args ? " " : "", c->args, c->n_options ? " [OPTIONS]" : "");
    put_roff(out, str_from(c->help));
    buf_addc(out, '\n');
    for (size_t i = 0; i < c->n_options; i++)
        put_man_option(out, &c->options[i]);
}

void help_man(const struct command *c, struct buf *out)
{
    char line[80];
    struct str name = str_from(command_line(c, line, sizeof line));
    buf_printf(out, ".TH \"%s\" 1\n.SH NAME\n", line);
    put_roff(out, name);
    buf_addz(out, " \\- ");
    put_roff(out, first_sentence(c->help));
    buf_addz(out, "\n.SH SYNOPSIS\n.B ");
    put_roff(out, name);
    buf_printf(out, "\n%s%s%s\n.SH DESCRIPTION\n", c->takes_rest ? "[OPTIONS] " : "", c->args,
               c->n_options && !c->takes_rest ? " [OPTIONS]" : "");
    put_roff(out, str_from(c->help));
    buf_addz(out, "\n.SH OPTIONS\n");
    for (size_t i = 0; i < c->n_options; i++)
        put_man_option(out, &c->options[i]);
    buf_addz(out, ".SH EXAMPLE\n");
    put_roff(out, str_from(c->example));
    buf_addc(out, '\n');
}
