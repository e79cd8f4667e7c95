// Unit cmd_config.c: det config: looks at configuration files, without a master.
#include "cli/cmd.h"

#include "doc/yaml.h"
#include "cli/input.h"
#include "cli/show.h"
#include "config/config.h"
#include "sys/clock.h"

static const struct doc *check_text(struct arena *arena, struct str text,
                                    const struct config_opts *opts, bool job,
                                    struct diag_list *diags)
{
    if (job) {
        struct job_config cfg;
        int rc = job_config_read(arena, text, opts, &cfg, diags);
        return rc ? NULL : job_config_write(arena, &cfg, CONFIG_OWNER);
    }
    struct exp_config cfg;
    int rc = exp_config_read(arena, text, opts, &cfg, diags);
    return rc ? NULL : exp_config_write(arena, &cfg, CONFIG_OWNER);
}

static int run_check(const struct call *call)
{
    const char *path = call->args[0];
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    int status = EXIT_FAILED;
    det_err err;
    if (input_read(path, &text, &err)) {
        print_error("%s", err.msg);
        goto out;
    }
    const struct config_opts opts = {
        .source = input_name(path),
        .default_seed = clock_unix_us() / 1000000,
        .is_new = true,
    };
    const struct doc *doc =
        check_text(&arena, buf_str(&text), &opts, call_option(call, "job"), &diags);
    print_diags(&diags);
    if (doc) show_doc(call, doc);
    status = doc ? EXIT_OK : EXIT_USAGE;
out:
    buf_done(&text);
    arena_done(&arena);
    return status;
}

static const struct option check_options[] = {
    {"json", 0, NULL, "Prints JSON instead of YAML."},
    {"job", 0, NULL, "The file is that of a job ('det job run'), not of an experiment."},
};

static int run_reference(const struct call *call)
{
    struct buf out = BUF_INIT(1 << 20);
    config_reference(call_option(call, "job") ? &job_config_table : &exp_config_table, &out);
    print_data(buf_str(&out));
    buf_done(&out);
    return EXIT_OK;
}

static const struct option reference_options[] = {
    {"job", 0, NULL, "Of jobs ('det job run'), not of experiments."},
};

static const struct command rows[] = {
    {
        .noun = "config",
        .verb = "check",
        .args = "FILE",
        .min_args = 1,
        .max_args = 1,
        .help = "Checks a configuration file and prints it with all defaults. Everything that is "
                "wrong is "
                "reported at once, with its place. '-' reads standard input.",
        .example = "det config check const.yaml",
        .options = check_options,
        .n_options = sizeof check_options / sizeof *check_options,
        .run = run_check,
    },
    {
        .noun = "config",
        .verb = "reference",
        .args = "",
        .help = "Prints all keys of a configuration with their values, defaults and meaning, as "
                "Markdown.",
        .example = "det config reference",
        .options = reference_options,
        .n_options = sizeof reference_options / sizeof *reference_options,
        .run = run_reference,
    },
};

const struct command_table cmd_config_commands = COMMAND_TABLE(rows);
