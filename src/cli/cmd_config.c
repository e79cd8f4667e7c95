// Unit cmd_config.c: det config: looks at configuration files, without a master.
#include "cli/cmd.h"

#include "base/json.h"
#include "base/yaml.h"
#include "config/config.h"
#include "sys/clock.h"
#include "sys/fs.h"

static int read_input(const char *path, struct buf *out, det_err *err)
{
    return fs_read(strcmp(path, "-") ? path : "/dev/stdin", out, err);
}

static const struct doc *check_text(struct arena *arena, struct str text,
                                    const struct config_opts *opts, bool job,
                                    struct diag_list *diags)
{
    if (job) {
        struct job_config cfg;
        int rc = job_config_read(arena, text, opts, &cfg, diags);
        return rc ? NULL : job_config_write(arena, &cfg, true);
    }
    struct exp_config cfg;
    int rc = exp_config_read(arena, text, opts, &cfg, diags);
    return rc ? NULL : exp_config_write(arena, &cfg, true);
}

static void print_doc(const struct doc *doc, bool json)
{
    struct buf out = BUF_INIT(64 << 20);
    if (json) {
        struct json_writer w;
        json_init(&w, &out, 2);
        json_put_doc(&w, doc);
        buf_addc(&out, '\n');
    } else {
        yaml_write(doc, &out);
    }
    print_data(buf_str(&out));
    buf_done(&out);
}

static void print_diags(const struct diag_list *diags)
{
    struct buf out = BUF_INIT(1 << 20);
    diag_print(diags, DIAG_WARNING, &out);
    print_warnings(buf_str(&out));
    buf_clear(&out);
    diag_print(diags, DIAG_ERROR, &out);
    print_errors(buf_str(&out));
    buf_done(&out);
}

static int run_check(const struct call *call)
{
    const char *path = call->args[0];
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    int status = EXIT_FAILED;
    det_err err;
    if (read_input(path, &text, &err)) {
        print_error("%s", err.msg);
        goto out;
    }
    const struct config_opts opts = {
        .source = strcmp(path, "-") ? path : "stdin",
        .default_seed = clock_unix_us() / 1000000,
    };
    const struct doc *doc =
        check_text(&arena, buf_str(&text), &opts, call_option(call, "job"), &diags);
    print_diags(&diags);
    if (doc) print_doc(doc, call_option(call, "json"));
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

const struct command cmd_config_check = {
    .noun = "config",
    .verb = "check",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .help =
        "Checks a configuration file and prints it with all defaults. Everything that is wrong is "
        "reported at once, with its place. '-' reads standard input.",
    .example = "det config check const.yaml",
    .options = check_options,
    .n_options = sizeof check_options / sizeof *check_options,
    .run = run_check,
};
