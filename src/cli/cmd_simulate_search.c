// Unit cmd_simulate_search.c: det simulate-search: runs a search to its end against trials that
// only exist on paper.
#include "cli/cmd.h"

#include "doc/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include "doc/yaml.h"
#include "cli/input.h"
#include "search/search.h"
#include "sys/coprocess.h"

enum { CURVES_MAX_BYTES = 256 << 20, ANSWER_TIMEOUT_US = 60 * 1000000 };

enum order { ORDER_RANDOM, ORDER_WORSE, ORDER_BETTER, ORDER_EQUAL };
static const char *const order_names[] = {"random", "worse", "better", "equal"};

struct simulation {
    struct exp_config cfg;
    struct search *search;
    enum order order;
    const struct curves *curves; // or NULL
    int64_t n_planned;           // trials
    bool json;
    struct coprocess program; // of a custom search
    double best;
    int64_t best_trial;
    int64_t *lengths; // the last of each trial
    int64_t n_trials, cap_trials;
    struct sim_result result;
};

// With every trial worse than the one before it: 0.01, 0.02 ... if small is good.
static double metric_in_order(const struct simulation *sim, int64_t trial)
{
    bool rises = (sim->order == ORDER_WORSE) == sim->cfg.searcher.smaller_is_better;
    return (double)(rises ? trial : sim->n_planned + 1 - trial) / 100;
}

static double sim_metric(void *user, int64_t trial, int64_t length)
{
    const struct simulation *sim = user;
    if (sim->curves) return curve_at(sim->curves, trial, length);
    if (sim->order == ORDER_EQUAL) return 0.5;
    if (sim->order != ORDER_RANDOM) return metric_in_order(sim, trial);
    return rng_unit((uint64_t)sim->cfg.experiment_seed, (uint64_t)trial, (uint64_t)length);
}

static void print_line(struct json_writer *w)
{
    json_close(w);
    buf_addc(w->out, '\n');
    print_data(buf_str(w->out));
    buf_done(w->out);
}

static void open_line(struct json_writer *w, struct buf *out, const char *event, int64_t trial)
{
    json_init(w, out, 0);
    json_open_map(w);
    json_key(w, "event");
    json_put_str(w, event);
    if (!trial) return;
    json_key(w, "trial");
    json_put_int(w, trial);
}

static void print_create(const struct search_op *op)
{
    struct buf out = BUF_INIT(1 << 24);
    struct json_writer w;
    char id[UUID_TEXT_BYTES];
    uuid_format(op->request_id, id);
    open_line(&w, &out, "create", op->trial);
    json_key(&w, "request_id");
    json_put_str(&w, id);
    json_key(&w, "trial_seed");
    json_put_int(&w, op->trial_seed);
    json_key(&w, "hparams");
    json_put_doc(&w, op->hparams);
    if (op->source_trial) {
        json_key(&w, "source_trial");
        json_put_int(&w, op->source_trial);
    }
    print_line(&w);
}

static void print_event(const struct search_event *e)
{
    static const char *const reasons[] = {"errored", "canceled", "stopped", "invalid_hp"};
    static const char *const names[] = {"start", "validate", "progress", "exit", "close"};
    struct buf out = BUF_INIT(1 << 16);
    struct json_writer w;
    open_line(&w, &out, names[e->kind], e->trial);
    if (e->kind == SEARCH_VALIDATED) {
        json_key(&w, "length");
        json_put_int(&w, e->length);
        json_key(&w, "metric");
        json_put_double(&w, e->metric);
    } else if (e->kind == SEARCH_EXITED) {
        json_key(&w, "reason");
        json_put_str(&w, reasons[e->reason]);
    }
    print_line(&w);
}

static void sim_on_op(void *user, const struct search_op *op)
{
    struct simulation *sim = user;
    if (op->kind != SEARCH_CREATE) return;
    if (sim->n_trials == sim->cap_trials) {
        sim->cap_trials = sim->cap_trials ? 2 * sim->cap_trials : 64;
        sim->lengths = xrealloc(sim->lengths, (size_t)sim->cap_trials * sizeof *sim->lengths);
    }
    sim->lengths[sim->n_trials++] = 0;
    if (sim->json) print_create(op);
}

static void sim_on_event(void *user, const struct search_event *e)
{
    struct simulation *sim = user;
    if (e->kind == SEARCH_VALIDATED) {
        bool small = sim->cfg.searcher.smaller_is_better;
        bool better = small ? e->metric < sim->best : e->metric > sim->best;
        if (!sim->best_trial || better) {
            sim->best = e->metric;
            sim->best_trial = e->trial;
        }
        sim->lengths[e->trial - 1] = e->length;
    }
    if (sim->json && e->kind != SEARCH_START) print_event(e);
}

static int sim_ask(void *user, const struct search_event *event, struct buf *answer, det_err *err)
{
    struct simulation *sim = user;
    struct buf line = BUF_INIT(1 << 24);
    search_ask(sim->search, event, &line);
    int rc = coprocess_ask(&sim->program, buf_str(&line), ANSWER_TIMEOUT_US, answer, err);
    buf_done(&line);
    return rc;
}

static int start_program(struct simulation *sim, det_err *err)
{
    const struct entrypoint *e = &sim->cfg.searcher.custom.command;
    if (sim->cfg.searcher.kind != SEARCHER_CUSTOM) return det_ok(err);
    if (e->kind == ENTRYPOINT_NONE)
        return det_fail(err, DET_EINVAL, "searcher.command is not set: there is nobody to ask");
    const char *shell[] = {"sh", "-c", e->text, NULL};
    const char **argv = e->kind == ENTRYPOINT_EXEC ? xcalloc(e->argv.n + 1, sizeof *argv) : shell;
    for (size_t i = 0; argv != shell && i < e->argv.n; i++)
        argv[i] = e->argv.items[i];
    int rc = coprocess_open(&sim->program, argv, err);
    if (argv != shell) free(argv);
    return rc;
}

static const char *outcome_name(const struct simulation *sim)
{
    static const char *const names[] = {"completed", "canceled", "failed"};
    return names[sim->result.outcome];
}

static void print_shutdown(struct simulation *sim)
{
    struct buf out = BUF_INIT(1 << 16);
    struct json_writer w;
    open_line(&w, &out, "shutdown", 0);
    json_key(&w, "outcome");
    json_put_str(&w, outcome_name(sim));
    json_key(&w, "trials");
    json_put_int(&w, sim->n_trials);
    json_key(&w, "units");
    json_put_int(&w, (int64_t)sim->result.units);
    json_key(&w, "time");
    json_put_int(&w, (int64_t)sim->result.time);
    if (sim->best_trial) {
        json_key(&w, "best_trial");
        json_put_int(&w, sim->best_trial);
        json_key(&w, "best_metric");
        json_put_double(&w, sim->best);
    }
    print_line(&w);
}

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_summary(struct simulation *sim)
{
    const char *unit = search_unit(&sim->cfg);
    struct buf out = BUF_INIT(1 << 24);
    buf_printf(&out, "%s, %s: ", searcher_kind_name(sim->cfg.searcher.kind), outcome_name(sim));
    add_amount(&out, (double)sim->n_trials, "trials");
    buf_addz(&out, ", ");
    add_amount(&out, sim->result.units, unit);
    buf_addz(&out, " in all\n");
    if (sim->n_trials) qsort(sim->lengths, (size_t)sim->n_trials, sizeof *sim->lengths, by_length);
    for (int64_t i = 0, n; i < sim->n_trials; i += n) {
        for (n = 1; i + n < sim->n_trials && sim->lengths[i + n] == sim->lengths[i];)
            n++;
        buf_printf(&out, "  %8lld  trained for %lld %s\n", (long long)n, (long long)sim->lengths[i],
                   unit);
    }
    if (sim->best_trial) {
        buf_printf(&out, "best: trial %lld, ", (long long)sim->best_trial);
        buf_add_double(&out, sim->best);
        buf_addc(&out, '\n');
    }
    print_data(buf_str(&out));
    buf_done(&out);
}

// DET_EINVAL: the call was wrong.
static int read_options(const struct call *call, struct simulation *sim, struct sim_world *world,
                        det_err *err)
{
    const char *seed = call_option(call, "seed"), *order = call_option(call, "order");
    const char *fail_rate = call_option(call, "fail-rate");
    if (seed && (!number_to_int(str_from(seed), 10, &sim->cfg.experiment_seed) ||
                 sim->cfg.experiment_seed < 0 || sim->cfg.experiment_seed > INT32_MAX))
        return det_fail(err, DET_EINVAL, "--seed must be a number from 0 to %d, found '%s'",
                        INT32_MAX, seed);
    if (fail_rate && (!number_to_double(str_from(fail_rate), &world->fail_rate) ||
                      world->fail_rate < 0 || world->fail_rate > 1))
        return det_fail(err, DET_EINVAL, "--fail-rate must be a number from 0 to 1, found '%s'",
                        fail_rate);
    if (order && call_option(call, "curves"))
        return det_fail(err, DET_EINVAL, "give --order or --curves, not both");
    for (int i = 0; order && i < 4; i++)
        if (!strcmp(order, order_names[i])) {
            sim->order = (enum order)i;
            return det_ok(err);
        }
    if (order)
        return det_fail(err, DET_EINVAL,
                        "--order must be one of worse, better, equal, random, found '%s'", order);
    return det_ok(err);
}

static int read_curves(const char *path, struct arena *arena, struct curves *out, det_err *err)
{
    struct buf text = BUF_INIT(CURVES_MAX_BYTES);
    int rc = input_read(path, &text, err);
    if (!rc) rc = curves_read(buf_str(&text), input_name(path), arena, out, err);
    buf_done(&text);
    return rc;
}

static int simulate(const struct call *call, struct simulation *sim, struct arena *arena,
                    det_err *err)
{
    struct sim_world world = {.metric = sim_metric,
                              .on_op = sim_on_op,
                              .on_event = sim_on_event,
                              .ask = sim_ask,
                              .user = sim};
    const char *path = call_option(call, "curves");
    struct curves curves;
    struct search_plan plan;
    int rc = read_options(call, sim, &world, err);
    if (!rc && path) rc = read_curves(path, arena, &curves, err);
    if (!rc) rc = start_program(sim, err);
    if (rc) return rc;
    if (path) sim->curves = &curves;
    if (!search_preview(&sim->cfg, arena, &plan, NULL)) sim->n_planned = plan.n_trials;
    world.seed = (uint64_t)sim->cfg.experiment_seed;
    sim->search = search_new(&sim->cfg);
    rc = search_simulate(sim->search, &world, &sim->result, err);
    search_free(sim->search);
    coprocess_close(&sim->program);
    return rc;
}

static int run_simulate(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    struct simulation sim = {.program = COPROCESS_INIT, .json = call_option(call, "json")};
    det_err err;
    int status = input_read_search(call->args[0], &arena, &text, &sim.cfg);
    if (status == EXIT_OK) {
        int rc = simulate(call, &sim, &arena, &err);
        if (rc)
            print_error("%s", err.msg);
        else
            (sim.json ? print_shutdown : print_summary)(&sim);
        status = rc == DET_EINVAL ? EXIT_USAGE : rc ? EXIT_FAILED : EXIT_OK;
    }
    free(sim.lengths);
    buf_done(&text);
    arena_done(&arena);
    return status;
}

static const struct option simulate_options[] = {
    {"seed", 0, "N", "The seed of the experiment, instead of that of the file."},
    {"order", 0, "ORDER",
     "What trials report: each one 'worse' than the one before, 'better', 'equal', or 'random' "
     "(unless told otherwise)."},
    {"fail-rate", 0, "P", "The probability that an operation ends in an error, from 0 to 1."},
    {"curves", 0, "FILE",
     "What trials report: recorded curves, a line of JSON each: {\"curve\": [[1, 0.9], [2, 0.7]]}, "
     "lengths with metrics."},
    {"json", 0, NULL, "Prints every event as a line of JSON."},
};

static const struct command rows[] = {
    {
        .noun = "simulate-search",
        .args = "FILE",
        .min_args = 1,
        .max_args = 1,
        .help =
            "Runs a search to its end without training anything. Trials report made-up or recorded "
            "metrics. The program of a custom search is run.",
        .example = "det simulate-search adaptive.yaml --seed 7 --order worse",
        .options = simulate_options,
        .n_options = sizeof simulate_options / sizeof *simulate_options,
        .run = run_simulate,
    },
};

const struct command_table cmd_simulate_search_commands = COMMAND_TABLE(rows);
