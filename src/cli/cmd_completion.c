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

static void add_cases(struct buf *out)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = commands[i];
        buf_printf(out, "    '%s%s%s') words='", c->noun, c->verb ? " " : "",
                   c->verb ? c->verb : "");
        for (size_t o = 0; o < c->n_options; o++)
            buf_printf(out, "--%s ", c->options[o].name);
        buf_addz(out, "--help' ;;\n");
    }
}

static void add_verbs(struct buf *out)
{
    for (size_t i = 0; i < n_commands; i++) {
        const char *noun = commands[i]->noun;
        if (!commands[i]->verb || (i && !strcmp(commands[i - 1]->noun, noun))) continue;
        buf_printf(out, "    %s) words='", noun);
        for (size_t k = 0; k < n_commands; k++)
            if (commands[k]->verb && !strcmp(commands[k]->noun, noun))
                buf_printf(out, "%s ", commands[k]->verb);
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
    buf_addz(&out, "_det() {\n  local word=${COMP_WORDS[COMP_CWORD]} words=''\n"
                   "  case \"$COMP_CWORD ${word:0:1}\" in\n");
    buf_printf(&out, "  '1 '*) words='%s' ;;\n", buf_str(&nouns).ptr);
    buf_addz(&out, "  *' -') case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
    add_cases(&out);
    buf_addz(&out, "    esac ;;\n  '2 '*) case \"${COMP_WORDS[1]}\" in\n");
    add_verbs(&out);
    buf_addz(&out, "    esac ;;\n  esac\n"
                   "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                   "  [ -n \"$words\" ] || COMPREPLY=($(compgen -f -- \"$word\"))\n}\n"
                   "complete -o filenames -F _det det\n");
    print_data(buf_str(&out));
    buf_done(&out);
    buf_done(&nouns);
    return EXIT_OK;
}

const struct command cmd_completion = {
    .noun = "completion",
    .args = "SHELL",
    .min_args = 1,
    .max_args = 1,
    .help = "Prints a script that lets bash or zsh complete commands and options.",
    .example = "det completion bash > ~/.local/share/bash-completion/completions/det",
    .run = run_completion,
};
