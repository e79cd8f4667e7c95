#include "cli/command.h"
#include "support/test.h"

// Every command explains itself.
static void test_commands__have_help_and_an_example(void **state)
{
    (void)state;
    commands_open();
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = commands[i];
        char name[64], prefix[80];
        snprintf(prefix, sizeof prefix, "det %s", command_name(c, name, sizeof name));
        assert_true(str_ends(str_from(c->help), STR(".")));
        assert_true(str_starts(str_from(c->example), str_from(prefix)));
        assert_non_null(c->args);
        assert_true(c->min_args <= c->max_args);
        for (size_t k = 0; k < c->n_options; k++)
            assert_true(str_ends(str_from(c->options[k].help), STR(".")));
    }
}

RUN_TESTS(cmocka_unit_test(test_commands__have_help_and_an_example))
