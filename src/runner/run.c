// Unit run.c: det-run from its call to the last line it prints.
#include "runner/runner.h"

#include "base/mem.h"
#include "base/nearest.h"
#include "client/client.h"
#include "runner/events.h"
#include "runner/exec.h"
#include "runner/module.h"
#include "runner/options.h"
#include "runner/python.h"
#include "runner/slots.h"
#include "runner/trace.h"
#include "storage/storage.h"
#include "sys/dir.h"
#include "train/train.h"
#include <errno.h>
#include <signal.h>
#include <unistd.h>

// --- Ctrl-C: once to stop after this batch, with a checkpoint; twice to stop at once

static volatile int stop_signal;
static bool is_silent; // a rank above 0, which leaves talking to rank 0

static void on_signal(int number)
{
    static const char text[] = "\nstopping after this batch, with a checkpoint; "
                               "once more to stop at once\n";
    if (stop_signal) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    stop_signal = number;
    if (is_silent) return;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) return; // nobody listens
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

// --- what is told to whom

struct run {
    struct run_options options;
    struct progress progress;
    struct events *events; // NULL: none
    struct trace *trace;   // NULL: none
    bool is_follower;      // it failed because another rank did
    det_err lost;          // the first failure to write events
};

static void write_events(struct run *run, const det_report *r)
{
    if (r->kind != DET_REPORT_TRAINING && r->kind != DET_REPORT_VALIDATION) return;
    for (int i = 0; i < det_metrics_len(r->metrics); i++) {
        char tag[256];
        const char *name = det_metrics_name(r->metrics, i);
        bool marks = r->kind == DET_REPORT_VALIDATION && strncmp(name, "val", 3) != 0;
        snprintf(tag, sizeof tag, "Determined/%s%s", marks ? "val_" : "", name);
        events_scalar(run->events, tag, r->batches, det_metrics_at(r->metrics, 0, i));
    }
    events_flush(run->events, run->lost.code ? NULL : &run->lost);
}

static bool leaves_nothing(const struct run *run)
{
    return run->options.test_mode && !client_is_task();
}

// "latest" and "best" in the folder of checkpoints. A link is replaced at once, never missing.
static void link_checkpoint(const struct run *run, const char *name, const char *uuid)
{
    static const char temporary[] = ".link";
    int dir = -1;
    det_err err;
    int rc = dir_open(run->options.checkpoint_dir, 0, &dir, &err);
    if (rc) {
        print_warning("%s", err.msg);
        return;
    }
    unlinkat(dir, temporary, 0);
    if (symlinkat(uuid, dir, temporary) || renameat(dir, temporary, dir, name))
        print_warning("cannot link '%s/%s' to the checkpoint: %s", run->options.checkpoint_dir,
                      name, strerror(errno));
    unlinkat(dir, temporary, 0);
    close(dir);
}

static void link_report(const struct run *run, const det_report *r)
{
    if (r->kind != DET_REPORT_CHECKPOINT || is_silent || client_is_task() || leaves_nothing(run))
        return;
    link_checkpoint(run, "latest", r->uuid);
    if (r->is_best) link_checkpoint(run, "best", r->uuid);
}

static void on_report(const det_report *r, void *user)
{
    struct run *run = user;
    link_report(run, r);
    if (!leaves_nothing(run) || r->kind != DET_REPORT_CHECKPOINT)
        progress_report(&run->progress, r);
    if (run->events) write_events(run, r);
    if (run->trace) trace_report(run->trace, r);
}

static void on_result(const det_result *result, void *user)
{
    struct run *run = user;
    if (is_silent) return;
    progress_result(&run->progress, result);
    if (leaves_nothing(run)) puts("a checkpoint was saved, loaded and removed again");
}

// --- where to go on

static void print_skipped(const struct ckpt_list *list)
{
    for (size_t i = 0; i < list->n_damaged; i++)
        print_warning("checkpoint '%s' is damaged and left aside: %s", list->damaged[i].name,
                      list->damaged[i].reason);
}

// The directory of the newest whole checkpoint; NULL without an error: there is none.
static int find_checkpoint(const struct run_options *o, struct arena *arena, const char **out,
                           det_err *err)
{
    struct store *store = NULL;
    struct ckpt_info newest;
    struct ckpt_list list = {0};
    int rc = store_open(o->checkpoint_dir, &store, err);
    if (!rc) rc = store_clean(store, NULL, err);
    if (!rc) {
        rc = ckpt_find_newest(store, 0, arena, &newest, &list, err);
        print_skipped(&list);
        if (!rc) *out = ckpt_file(store, newest.id, NULL, arena);
        if (rc == DET_ENOTFOUND) rc = det_ok(err);
    }
    store_close(store);
    return rc;
}

static int choose_start(const struct run_options *o, struct arena *arena, const char **out,
                        det_err *err)
{
    const char *newest = NULL;
    if (o->test_mode && !o->resume) return 0;
    int rc = find_checkpoint(o, arena, &newest, err);
    if (rc) return rc;
    if (o->resume && newest)
        printf("going on from %s\n", newest);
    else if (o->resume)
        printf("no checkpoint in '%s' yet: starting from the beginning\n", o->checkpoint_dir);
    else if (newest)
        print_warning("'%s' has checkpoints of another run; --resume would go on from the newest",
                      o->checkpoint_dir);
    *out = o->resume ? newest : NULL;
    return det_ok(err);
}

// A value for a name that the configuration does not have is allowed: a trial may have use for it.
// More often it is a mistake.
static void warn_of_new_hparams(const struct run_options *o)
{
    const struct hparam *known = o->config ? &o->config->hyperparameters : NULL;
    for (const struct doc *h = o->hparams && known ? o->hparams->first : NULL; h; h = h->next) {
        struct nearest near = NEAREST_INIT(h->key);
        bool found = false;
        for (size_t i = 0; i < known->group.n; i++) {
            found |= str_eqz(h->key, known->group.items[i].name);
            nearest_offer(&near, known->group.items[i].name);
        }
        if (found) continue;
        print_warning("--hparam %.*s: the configuration has no such hyperparameter%s%s%s",
                      STR_ARG(h->key), near.best ? "; did you mean '" : "",
                      near.best ? near.best : "", near.best ? "'?" : "");
    }
}

// --- running

static int train(struct run *run, const char *resume, det_err *err)
{
    const struct run_options *o = &run->options;
    struct train_task task = {.config = o->config,
                              .hparams = o->hparams,
                              .seed = o->seed,
                              .opts = {.max_length = o->length,
                                       .test_mode = o->test_mode,
                                       .limit_batches = o->limit_batches,
                                       .checkpoint_dir = o->checkpoint_dir,
                                       .code_dir = o->code_dir,
                                       .resume = resume,
                                       .metrics_file = o->metrics_file,
                                       .on_report = on_report,
                                       .report_user = run,
                                       .stop = &stop_signal},
                              .on_result = on_result,
                              .result_user = run,
                              .is_follower = &run->is_follower};
    task.trial = trial_find(o->trial, err);
    if (!task.trial) return DET_ENOTFOUND;
    catch_signals();
    return train_run(&task, err);
}

static int open_outputs(struct run *run, det_err *err)
{
    const struct run_options *o = &run->options;
    if (is_silent) return det_ok(err);
    if (o->tensorboard_dir) {
        run->events = events_open(o->tensorboard_dir, err);
        if (!run->events) return err->code;
    }
    if (o->trace_file) {
        run->trace = trace_open(o->trace_file, err);
        if (!run->trace) return err->code;
    }
    return det_ok(err);
}

static int close_outputs(struct run *run, det_err *err)
{
    if (run->events) events_close(run->events);
    int rc = trace_close(run->trace, err);
    if (!rc && run->lost.code) {
        *err = run->lost;
        rc = run->lost.code;
    }
    return rc;
}

static int train_here(struct run *run, struct arena *arena, det_err *err)
{
    const char *resume = NULL, *rank = getenv("RANK");
    is_silent = rank && strcmp(rank, "0") != 0;
    int rc = 0;
    if (!is_silent) warn_of_new_hparams(&run->options);
    if (!is_silent && !client_is_task()) rc = choose_start(&run->options, arena, &resume, err);
    if (!rc) rc = open_outputs(run, err);
    if (!rc) rc = train(run, resume, err);
    det_err closing;
    int closing_rc = close_outputs(run, &closing);
    if (rc || !closing_rc) return rc;
    *err = closing;
    return closing_rc;
}

static int split(const struct run_options *o, struct slots *out, det_err *err)
{
    if (client_is_task())
        return det_fail(err, DET_EINVAL,
                        "--slots is for runs without a master; an experiment has "
                        "resources.slots_per_trial");
    return slots_start(o->slots, SLOTS_SIGNAL_CHIEF, out, err);
}

// --- trials in Python

static char **given_argv;

static const char starter[] =
    "import sys\n"
    "try:\n"
    "    from determined.run import main\n"
    "except ModuleNotFoundError as error:\n"
    "    if error.name != 'determined':\n"
    "        raise\n"
    "    sys.exit(f'det-run: {sys.executable} has no package determined: install it there (pip '\n"
    "             'install det), or name another interpreter with environment.python or '\n"
    "             'DET_PYTHON')\n"
    "sys.exit(main(['det-run', *sys.argv[1:]]))\n";

// Becomes the interpreter, with the same arguments. Returns only on failure.
static int become_python(struct arena *arena, det_err *err)
{
    const struct python_opts opts = {.python = getenv("DET_PYTHON")};
    const char *python, **argv;
    size_t n = 0;
    int rc = python_find(&opts, arena, &python, err);
    if (rc) return rc;
    while (given_argv[n])
        n++;
    argv = arena_array(arena, n + 3, sizeof *argv);
    argv[0] = python;
    argv[1] = "-c";
    argv[2] = starter;
    for (size_t i = 1; i < n; i++)
        argv[i + 2] = given_argv[i];
    execv(python, (char **)(uintptr_t)argv);
    return det_fail(err, DET_EIO, "cannot run '%s': %s", python, strerror(errno));
}

static int load_module(const char *name, struct arena *arena, det_err *err)
{
    struct module module;
    int rc = module_find(name, arena, &module, err);
    if (rc) return rc;
    if (module.kind != MODULE_PYTHON) return module_load(&module, err);
    return become_python(arena, err);
}

// The trial is compiled and loaded once, whatever the number of ranks.
static int run_all(struct run *run, struct arena *arena, int *status, det_err *err)
{
    struct slots slots = {.is_rank = true};
    int rc = load_module(run->options.module, arena, err);
    if (!rc && run->options.slots > 1) rc = split(&run->options, &slots, err);
    if (!rc && slots.is_rank) rc = train_here(run, arena, err);
    *status = stop_signal ? 128 + stop_signal : slots.status;
    return rc;
}

static int run_command(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    struct run run = {0};
    det_err err = {0};
    int status = EXIT_USAGE;
    int rc = options_read(call, &arena, &run.options, &err);
    if (!rc) {
        progress_init(&run.progress, stdout);
        rc = run_all(&run, &arena, &status, &err);
        progress_done(&run.progress);
        if (rc) status = run.is_follower && !client_is_task() ? SLOTS_FOLLOWER : EXIT_FAILED;
    }
    if (rc) print_error("%s", err.msg);
    arena_done(&arena);
    if (!print_finish() && status == EXIT_OK) status = EXIT_FAILED;
    return status;
}

// clang-format off
static const struct option options[] = {
    {"config", 'c', "FILE", "An experiment configuration: hyperparameters, length, periods."},
    {"hparam", 'H', "NAME=VALUE", "Sets a hyperparameter; may be given several times."},
    {"epochs", 'e', "N", "Trains for N epochs."},
    {"batches", 'b', "N", "Trains for N batches."},
    {"resume", 'r', NULL, "Goes on from the newest checkpoint that is whole, if there is one."},
    {"test-mode", 0, NULL, "Trains and validates one batch, saves and loads a checkpoint: everything "
     "once, to see whether it works. Nothing is kept."},
    {"limit-batches", 0, "N", "Trains and validates with the first N batches of each epoch only, to "
     "try things out."},
    {"slots", 'n', "N", "Trains on N slots of this machine: as many processes, which share each "
     "batch and the processors."},
    {"seed", 's', "N", "Where all randomness starts; without it a new seed is drawn and shown."},
    {"checkpoint-dir", 'd', "DIR", "Where checkpoints are kept; by default that of the "
     "configuration, or 'checkpoints'. The links 'latest' and 'best' in it name two of them."},
    {"metrics", 'm', "FILE", "Appends all metrics as lines of JSON."},
    {"tensorboard", 0, "DIR", "Writes event files for TensorBoard."},
    {"trace", 0, "FILE", "Writes a timeline of the run for chrome://tracing."},
};
// clang-format on

static const struct command command = {
    .program = "det-run",
    .args = "[MODULE[:TRIAL]]",
    .max_args = 1,
    .help = "Trains a trial on this machine, without a master, or as a task of one. MODULE names "
            "MODULE.py, whose trial is a class; MODULE.c, which is compiled on the spot; or "
            "MODULE.so. TRIAL is the name of the class, or that given to DET_TRIAL, and may be "
            "left out if there is one only. Ctrl-C saves a checkpoint and stops; a second one "
            "stops at once.",
    .example = "det-run model_def:MNistTrial --hparam learning_rate=0.01 --epochs 3",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_command,
};

int run_main(int argc, char **argv)
{
    given_argv = argv;
    if (argc > 1 && !strcmp(argv[1], "exec")) return exec_main(argc - 2, argv + 2);
    return call_run(&command, argv + 1, argc > 0 ? argc - 1 : 0);
}
