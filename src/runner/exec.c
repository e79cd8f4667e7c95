// Unit exec.c: 'det-run exec': runs a command with the Python that a configuration asks for. The
// master puts it in front of the commands of tasks.
#include "runner/exec.h"

#include "args/args.h"
#include "runner/python.h"
#include <errno.h>
#include <unistd.h>

static int run_command(const struct call *call, const char *python, struct arena *arena)
{
    char **argv = (char **)(uintptr_t)call->args; // a NULL is behind the last
    python_use(arena, python);
    execvp(argv[0], argv);
    bool is_missing = errno == ENOENT;
    print_error("cannot run '%s': %s", argv[0], strerror(errno));
    return is_missing ? 127 : 126; // what shells return
}

static int run(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    const char *lines[CALL_MAX_OPTIONS], *python = NULL;
    struct python_opts opts = {.python = call_option(call, "python"), .requirements = lines};
    det_err err;
    for (int i = 0; i < call->n_given; i++)
        if (!strcmp(call->given[i]->name, "requirement"))
            lines[opts.n_requirements++] = call->values[i];
    int rc = python_find(&opts, &arena, &python, &err);
    if (rc) print_error("%s", err.msg);
    int status = rc ? EXIT_FAILED : run_command(call, python, &arena);
    arena_done(&arena);
    return status;
}

static const struct option options[] = {
    {"python", 0, "PATH", "An interpreter or a virtual environment; python3 if not given."},
    {"requirement", 'r', "LINE",
     "A line of a file of requirements, such as 'numpy>=1.24' or '-r requirements.txt'; may be "
     "given "
     "several times."},
};

static const struct command command = {
    .program = "det-run",
    .noun = "exec",
    .args = "COMMAND [ARG...]",
    .min_args = 1,
    .max_args = INT16_MAX,
    .takes_rest = true,
    .help =
        "Runs a command with a Python of one's choice. Packages that are wanted are installed into "
        "a "
        "virtual environment, on top of those that the interpreter has; it is kept for the next "
        "time.",
    .example = "det-run exec --requirement torchmetrics -- python3 train.py",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run,
};

int exec_main(int argc, char **argv)
{
    return call_run(&command, argv, argc);
}
