// Unit launch.c: det-launch: a launch layer, for programs of any kind.
#include "runner/launch.h"

#include "args/args.h"
#include "base/arena.h"
#include "base/assert.h"
#include "doc/json.h"
#include "base/number.h"
#include "client/client.h"
#include "runner/slots.h"
#include <errno.h>
#include <sched.h>
#include <unistd.h>

// A task has been given slots.
static int count_slots_of_task(struct arena *arena, int64_t *out, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const char *ids = getenv("DET_SLOT_IDS");
    if (!ids)
        return det_fail(err, DET_EINVAL,
                        "how many slots? Give --slots N; only a task of a master knows it");
    const struct doc *list = json_parse(arena, str_from(ids), NULL, &diags);
    if (!list || list->kind != DOC_LIST)
        return det_fail(err, DET_EINVAL, "DET_SLOT_IDS must be a list, found '%s'", ids);
    *out = MAX((int64_t)list->n, 1);
    return 0;
}

static int count_slots(const struct call *call, struct arena *arena, int64_t *out, det_err *err)
{
    const char *text = call_option(call, "slots");
    if (!text) return count_slots_of_task(arena, out, err);
    if (number_to_int(str_from(text), 10, out) && *out >= 1 && *out <= SLOTS_MAX) return 0;
    return det_fail(err, DET_EINVAL, "--slots must be a number from 1 to %d, found '%s'", SLOTS_MAX,
                    text);
}

// The share of a rank, in order, if there is a processor for each. What it starts keeps to it.
static void take_processors(int rank, int n)
{
    cpu_set_t all, mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof all, &all) < 0 || CPU_COUNT(&all) < n) return;
    int first = rank * CPU_COUNT(&all) / n, end = (rank + 1) * CPU_COUNT(&all) / n, seen = 0;
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all)) continue;
        if (seen >= first && seen < end) CPU_SET(i, &mine);
        seen++;
    }
    sched_setaffinity(0, sizeof mine, &mine);
}

static int run_program(const struct call *call)
{
    char **argv = (char **)(uintptr_t)call->args; // a NULL is behind the last
    execvp(argv[0], argv);
    bool is_missing = errno == ENOENT;
    print_error("cannot run '%s': %s", argv[0], strerror(errno));
    return is_missing ? 127 : 126; // what shells return
}

static int launch(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    struct slots slots = {.is_rank = true};
    det_err err;
    int64_t n = 1;
    det_rendezvous machines = {0};
    int rc = count_slots(call, &arena, &n, &err);
    if (!rc) rc = client_rendezvous(&arena, (int)n, &machines, &err);
    arena_done(&arena);
    if (rc) {
        print_error("%s", err.msg);
        return EXIT_USAGE;
    }
    if (n > 1 || machines.size > 1) rc = slots_start((int)n, SLOTS_SIGNAL_ALL, &slots, &err);
    if (rc) print_error("%s", err.msg);
    if (rc) return EXIT_FAILED;
    if (!slots.is_rank) return slots.status;
    if (n > 1) take_processors(slots.rank, (int)n);
    return run_program(call);
}

static const struct option options[] = {
    {"slots", 'n', "N", "How many; by default those that the task was given."},
};

static const struct command command = {
    .program = "det-launch",
    .args = "COMMAND [ARG...]",
    .min_args = 1,
    .max_args = INT16_MAX,
    .takes_rest = true,
    .help =
        "Runs a command once for each slot of this machine, with RANK, WORLD_SIZE and the other "
        "variables that distributed programs look for. Programs with det_init find each other. "
        "Lines of ranks above 0 start with [rank=N]; the first failure ends all. It is a "
        "launch_layer for experiments and jobs.",
    .example = "det-launch --slots 2 ./train const.yaml",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = launch,
};

int launch_main(int argc, char **argv)
{
    return call_run(&command, argv + 1, argc > 0 ? argc - 1 : 0);
}
