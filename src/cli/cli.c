// Unit cli.c: cli_main(): from argv to a row of the command table.
#include "cli/cli.h"

#include "base/nearest.h"
#include "cli/command.h"
#include <stdlib.h>

// --- short forms

const struct short_word short_nouns[] = {{"e", "experiment"}, {"t", "trial"}, {"c", "checkpoint"},
                                         {"j", "job"},        {"s", "slot"},  {"u", "user"},
                                         {"tpl", "template"}, {NULL, NULL}};
const struct short_word short_verbs[] = {
    {"ls", "list"},   {"lt", "list-trials"}, {"lc", "list-checkpoints"},
    {"rm", "delete"}, {"rm", "remove"},      {NULL, NULL}};

static bool has_verb(const char *noun, const char *verb)
{
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i]->verb && !strcmp(commands[i]->noun, noun) &&
            !strcmp(commands[i]->verb, verb))
            return true;
    return false;
}

static void expand(char **words, int n)
{
    for (const struct short_word *s = short_nouns; s->word; s++)
        if (!strcmp(words[0], s->shorter)) words[0] = (char *)(uintptr_t)s->word;
    for (const struct short_word *s = short_verbs; n > 1 && s->word; s++)
        if (!strcmp(words[1], s->shorter) && has_verb(words[0], s->word))
            words[1] = (char *)(uintptr_t)s->word;
}

// --- commands

// How many words a verb is ("set name" is two), if they are the next ones; else 0.
static int match_verb(const char *verb, char **words, int n)
{
    struct str rest = str_from(verb);
    int count = 0;
    while (rest.len) {
        struct str word = str_cut(&rest, ' ');
        if (count == n || !str_eqz(word, words[count])) return 0;
        count++;
    }
    return count;
}

// The row that most of the words name; *n_words says how many of them do. NULL if there is none.
static const struct command *find_command(char **words, int n, int *n_words)
{
    const struct command *found = NULL;
    *n_words = 0;
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = commands[i];
        if (!n || strcmp(words[0], c->noun) != 0) continue;
        int n_verb = c->verb ? match_verb(c->verb, words + 1, n - 1) : 0;
        if ((c->verb && !n_verb) || 1 + n_verb <= *n_words) continue;
        *n_words = 1 + n_verb;
        found = c;
    }
    return found;
}

static bool is_noun(const char *word)
{
    for (size_t i = 0; i < n_commands; i++)
        if (!strcmp(commands[i]->noun, word)) return true;
    return false;
}

// What was probably meant, among the nouns, or the verbs of a noun.
static const char *suggest(const char *word, const char *noun)
{
    struct nearest n = NEAREST_INIT(str_from(word));
    for (size_t i = 0; i < n_commands; i++) {
        const char *candidate = noun ? commands[i]->verb : commands[i]->noun;
        if (candidate && (!noun || !strcmp(commands[i]->noun, noun))) nearest_offer(&n, candidate);
    }
    return n.best;
}

static int dispatch(char **words, int n);

static int report_unknown(char **words, int n)
{
    bool known = is_noun(words[0]);
    if (known && n < 2 && has_verb(words[0], "list")) {
        char *list[] = {words[0], "list"};
        return dispatch(list, 2);
    }
    if (known && n < 2) {
        print_error("'det %s' needs a verb; see 'det help %s'", words[0], words[0]);
        return EXIT_USAGE;
    }
    if (known && help_is_begun(words[0], words[1])) {
        print_error("'det %s %s' needs another word; see 'det help %s %s'", words[0], words[1],
                    words[0], words[1]);
        return EXIT_USAGE;
    }
    const char *word = words[known], *best = suggest(word, known ? words[0] : NULL);
    const char *noun = known ? words[0] : "", *space = known ? " " : "";
    if (best)
        print_error("there is no command '%s%s%s'; did you mean 'det %s%s%s'?", noun, space, word,
                    noun, space, best);
    else
        print_error("there is no command '%s%s%s'; see 'det help%s%s'", noun, space, word, space,
                    noun);
    return EXIT_USAGE;
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return !strcmp(word, a) || !strcmp(word, b);
}

static int dispatch(char **words, int n)
{
    if (n == 0) {
        help_print(NULL, NULL);
        return EXIT_USAGE;
    }
    if (n > 2 && is_one_of(words[0], "-m", "--master")) { // for all commands, in front of them
        setenv("DET_MASTER", words[1], 1);
        return dispatch(words + 2, n - 2);
    }
    if (is_one_of(words[0], "-h", "--help")) return help_print(NULL, NULL);
    if (!strcmp(words[0], "--man")) return help_print_man();
    if (is_one_of(words[0], "-v", "--version")) words[0] = "version";
    expand(words, n);
    if (n > 1 && is_noun(words[0]) && is_one_of(words[1], "-h", "--help"))
        return help_print(words[0], NULL);
    if (n == 3 && help_is_begun(words[0], words[1]) && is_one_of(words[2], "-h", "--help"))
        return help_print(words[0], words[1]);
    int n_words;
    const struct command *command = find_command(words, n, &n_words);
    if (!command && words[0][0] == '-') {
        print_error("options come after the command; '%s' is none that stands alone", words[0]);
        return EXIT_USAGE;
    }
    return command ? call_run(command, words + n_words, n - n_words) : report_unknown(words, n);
}

int cli_main(int argc, char **argv)
{
    commands_open();
    int status = dispatch(argv + 1, argc > 0 ? argc - 1 : 0);
    if (!print_finish() && status == EXIT_OK) status = EXIT_FAILED;
    return status;
}
