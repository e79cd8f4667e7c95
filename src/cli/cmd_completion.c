// Unit cmd_completion.c: det completion: scripts that let shells complete commands and options,
// from the command table.
#include "cli/cmd.h"

#include "base/assert.h"

static void add_nouns(struct buf *out)
{
    for (size_t i = 0; i < n_commands; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen |= !strcmp(commands[k]->noun, commands[i]->noun);
        if (!seen) buf_printf(out, "%s%s", out->len ? " " : "", commands[i]->noun);
    }
}

static void add_short_nouns(struct buf *out)
{
    for (const struct short_word *s = short_nouns; s->word; s++)
        buf_printf(out, "    %s) noun=%s ;;\n", s->shorter, s->word);
}

// Two-word verbs first: the shell takes the first pattern that fits.
static void add_options(struct buf *out, bool two_words)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = commands[i];
        if ((c->verb && strchr(c->verb, ' ')) != two_words) continue;
        buf_printf(out, "    '%s%s%s '*) words='", c->noun, c->verb ? " " : "",
                   c->verb ? c->verb : "");
        for (size_t o = 0; o < c->n_options; o++)
            buf_printf(out, "--%s ", c->options[o].name);
        buf_addz(out, "--help' ;;\n");
    }
}

// No command before this one has a verb that begins with the first n characters of its verb.
static bool is_first(size_t i, size_t n)
{
    for (size_t k = 0; k < i; k++)
        if (commands[k]->verb && !strcmp(commands[k]->noun, commands[i]->noun) &&
            !strncmp(commands[k]->verb, commands[i]->verb, n))
            return false;
    return true;
}

// Characters of the first word of a verb of two, with the space; 0: it is one word.
static size_t first_word(const char *verb)
{
    const char *space = verb ? strchr(verb, ' ') : NULL;
    return space ? (size_t)(space - verb) + 1 : 0;
}

// What may follow a noun, each once.
static void add_verbs(struct buf *out)
{
    for (size_t i = 0; i < n_commands; i++) {
        const char *noun = commands[i]->noun;
        if (!commands[i]->verb || (i && !strcmp(commands[i - 1]->noun, noun))) continue;
        buf_printf(out, "    %s) words='", noun);
        for (size_t k = i; k < n_commands; k++) {
            const char *verb = commands[k]->verb;
            size_t n = first_word(verb);
            if (!verb || strcmp(commands[k]->noun, noun) != 0 || (n && !is_first(k, n))) continue;
            buf_printf(out, "%.*s ", (int)(n ? n - 1 : strlen(verb)), verb);
        }
        buf_addz(out, "' ;;\n");
    }
}

// What may follow the first word of a verb of two.
static void add_second_words(struct buf *out)
{
    for (size_t i = 0; i < n_commands; i++) {
        const char *verb = commands[i]->verb;
        size_t n = first_word(verb);
        if (!n || !is_first(i, n)) continue;
        buf_printf(out, "    '%s %.*s') words='", commands[i]->noun, (int)n - 1, verb);
        for (size_t k = i; k < n_commands; k++)
            if (commands[k]->verb && !strcmp(commands[k]->noun, commands[i]->noun) &&
                !strncmp(commands[k]->verb, verb, n))
                buf_printf(out, "%s ", commands[k]->verb + n);
        buf_addz(out, "' ;;\n");
    }
}

static int run_completion(const struct call *call)
{
    const char *shell = call->args[0];
    bool zsh = !strcmp(shell, "zsh");
    if (!zsh && strcmp(shell, "bash") != 0) {
        print_error("completion is for bash and zsh, not for '%s'", shell);
        return EXIT_USAGE;
    }
    struct buf out = BUF_INIT(1 << 20), nouns = BUF_INIT(1 << 16);
    add_nouns(&nouns);
    if (zsh) buf_addz(&out, "autoload -U +X bashcompinit && bashcompinit\n");
    buf_addz(&out, "_det() {\n"
                   "  local word=${COMP_WORDS[COMP_CWORD]} noun=${COMP_WORDS[1]} words=''\n"
                   "  case $noun in\n");
    add_short_nouns(&out);
    buf_addz(&out, "  esac\n  case \"$COMP_CWORD ${word:0:1}\" in\n");
    buf_printf(&out, "  '1 '*) words='%s' ;;\n", buf_str(&nouns).ptr);
    buf_addz(&out, "  *' -') case \"$noun ${COMP_WORDS[*]:2} \" in\n");
    add_options(&out, true);
    add_options(&out, false);
    buf_addz(&out, "    esac ;;\n  '2 '*) case $noun in\n");
    add_verbs(&out);
    buf_printf(&out, "    help) words='%s' ;;\n    completion) words='bash zsh' ;;\n",
               buf_str(&nouns).ptr);
    buf_addz(&out, "    esac ;;\n  '3 '*) case \"$noun ${COMP_WORDS[2]}\" in\n");
    add_second_words(&out);
    buf_addz(&out, "    esac ;;\n  esac\n"
                   "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                   "  [ -n \"$words\" ] || COMPREPLY=($(compgen -f -- \"$word\"))\n}\n"
                   "complete -o filenames -F _det det\n");
    print_data(buf_str(&out));
    buf_done(&out);
    buf_done(&nouns);
    return EXIT_OK;
}

static const struct command rows[] = {
    {
        .noun = "completion",
        .args = "SHELL",
        .min_args = 1,
        .max_args = 1,
        .help = "Prints a script that lets bash or zsh complete commands and options.",
        .example = "det completion bash > ~/.local/share/bash-completion/completions/det",
        .run = run_completion,
    },
};

const struct command_table cmd_completion_commands = COMMAND_TABLE(rows);
