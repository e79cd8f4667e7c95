// Unit input.c: reads files for commands.
#include "cli/input.h"

#include "args/args.h"
#include "sys/clock.h"
#include "sys/fs.h"

int input_read(const char *path, struct buf *out, det_err *err)
{
    return fs_read(strcmp(path, "-") ? path : "/dev/stdin", out, err);
}

const char *input_name(const char *path)
{
    return strcmp(path, "-") ? path : "stdin";
}

int input_read_search(const char *path, struct arena *arena, struct buf *text,
                      struct exp_config *out)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct config_opts opts = {
        .source = input_name(path),
        .default_seed = clock_unix_us() / 1000000,
        .entrypoint_optional = true,
    };
    det_err err;
    if (input_read(path, text, &err)) {
        print_error("%s", err.msg);
        return EXIT_FAILED;
    }
    int rc = exp_config_read(arena, buf_str(text), &opts, out, &diags);
    print_diags(&diags);
    return rc ? EXIT_USAGE : EXIT_OK;
}

void add_amount(struct buf *out, double amount, const char *units)
{
    struct str word = str_from(units);
    if (amount == 1 && str_ends(word, STR("s"))) word.len--;
    if (amount == 1 && str_ends(word, STR("batche"))) word.len--;
    buf_printf(out, "%.0f %.*s", amount, STR_ARG(word));
}
