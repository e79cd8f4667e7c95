// Benchmark of searches: scale of the scheduler, quality of samplers, cost per trial, value of
// early stopping. bench/search.py runs it, and Optuna beside it.
//
//     search functions                names, ranges and values of the test functions, to compare
//     search scale                    time of simulated searches of 1000, 10000, 100000 trials
//     search quality SAMPLER TRIALS   best values found on test functions, for 20 seeds
//     search overhead SAMPLER TRIALS  microseconds per trial, with a snapshot after every event
//     search curves FILE              early stopping against random search on recorded curves
#include "doc/json.h"
#include "base/mem.h"
#include "search/search.h"
#include "sys/fs.h"
#include <math.h>
#include <time.h>

#define PI 3.14159265358979323846

static void fail(const char *text)
{
    fprintf(stderr, "search: %s\n", text);
    exit(1);
}

// Of this process, so that others do not matter.
static double cpu_us(void)
{
    return (double)clock() * 1e6 / CLOCKS_PER_SEC;
}

static struct exp_config read_config(struct arena *arena, const char *text)
{
    struct exp_config cfg;
    struct diag_list diags = DIAG_INIT(arena);
    const struct config_opts opts = {.source = "bench", .entrypoint_optional = true};
    det_err err;
    if (exp_config_read(arena, str_from(text), &opts, &cfg, &diags)) {
        diag_fail(&diags, &err);
        fail(err.msg);
    }
    return cfg;
}

// --- scale

static double by_number(void *user, int64_t trial, int64_t length)
{
    (void)user;
    return (double)((uint64_t)trial * 2654435761u % 1000003) - log((double)length);
}

static void run_scale(int64_t n_trials)
{
    struct arena arena = ARENA_INIT;
    struct exp_config cfg = read_config(
        &arena, arena_printf(&arena,
                             "searcher: {name: adaptive_asha, max_length: 4096, max_trials: %lld, "
                             "max_concurrent_trials: 256}\n"
                             "hyperparameters:\n"
                             "  lr: {type: log, base: 10, minval: -5, maxval: -1}\n"
                             "  width: {type: int, minval: 8, maxval: 512}\n"
                             "  dropout: {type: double, minval: 0, maxval: 0.8}\n",
                             (long long)n_trials));
    const struct sim_world world = {.metric = by_number, .fail_rate = 0.01};
    struct sim_result result;
    struct buf snapshot = BUF_INIT((size_t)1 << 30);
    det_err err;
    struct search *s = search_new(&cfg);
    double start_us = cpu_us();
    if (search_simulate(s, &world, &result, &err)) fail(err.msg);
    double end_us = cpu_us();
    search_snapshot(s, &snapshot);
    double us = end_us - start_us;
    printf("{\"bench\": \"scale\", \"trials\": %lld, \"events\": %lld, \"seconds\": %.3f, "
           "\"us_per_event\": %.3f, \"snapshot_bytes\": %zu, \"snapshot_ms\": %.1f}\n",
           (long long)result.n_trials, (long long)result.n_events, us / 1e6,
           us / (double)result.n_events, snapshot.len, (cpu_us() - end_us) / 1e3);
    buf_done(&snapshot);
    search_free(s);
    arena_done(&arena);
}

// --- quality: the usual test functions; optima in the middle of the range are moved away from it

static double shifted(const double *x, int i)
{
    return x[i] - 0.37 - 0.11 * (i % 3);
}

static double sphere(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += shifted(x, i) * shifted(x, i);
    return sum;
}

static double rosenbrock(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i + 1 < n; i++)
        sum += 100 * pow(x[i + 1] - x[i] * x[i], 2) + pow(1 - x[i], 2);
    return sum;
}

static double rastrigin(const double *x, int n)
{
    double sum = 10 * n;
    for (int i = 0; i < n; i++)
        sum += shifted(x, i) * shifted(x, i) - 10 * cos(2 * PI * shifted(x, i));
    return sum;
}

static double ackley(const double *x, int n)
{
    double squares = 0, cosines = 0;
    for (int i = 0; i < n; i++) {
        squares += shifted(x, i) * shifted(x, i);
        cosines += cos(2 * PI * shifted(x, i));
    }
    return 20 + exp(1) - 20 * exp(-0.2 * sqrt(squares / n)) - exp(cosines / n);
}

static double griewank(const double *x, int n)
{
    double sum = 0, product = 1;
    for (int i = 0; i < n; i++) {
        double y = 60 * shifted(x, i);
        sum += y * y / 4000;
        product *= cos(y / sqrt(i + 1));
    }
    return 1 + sum - product;
}

static double levy(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double w = 1 + (x[i] - 1) / 4;
        if (i == 0) sum += pow(sin(PI * w), 2);
        if (i + 1 < n) sum += pow(w - 1, 2) * (1 + 10 * pow(sin(PI * w + 1), 2));
        if (i + 1 == n) sum += pow(w - 1, 2) * (1 + pow(sin(2 * PI * w), 2));
    }
    return sum;
}

static double styblinski(const double *x, int n)
{
    double sum = 39.16616570377142 * n;
    for (int i = 0; i < n; i++)
        sum += (pow(x[i], 4) - 16 * x[i] * x[i] + 5 * x[i]) / 2;
    return sum;
}

static double branin(const double *x, int n)
{
    (void)n;
    double a = x[0] * 15 - 5, b = x[1] * 15;
    return pow(b - 5.1 / (4 * PI * PI) * a * a + 5 / PI * a - 6, 2) +
           10 * (1 - 1 / (8 * PI)) * cos(a) + 10 - 0.39788735772973816;
}

static double hartmann(const double *x, int n)
{
    static const double alpha[] = {1, 1.2, 3, 3.2};
    static const double a[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
    static const double p[4][6] = {{.1312, .1696, .5569, .0124, .8283, .5886},
                                   {.2329, .4135, .8307, .3736, .1004, .9991},
                                   {.2348, .1451, .3522, .2883, .3047, .6650},
                                   {.4047, .8828, .8732, .5743, .1091, .0381}};
    double sum = 3.32236801141551;
    for (int k = 0; k < 4; k++) {
        double inner = 0;
        for (int i = 0; i < n; i++)
            inner += a[k][i] * pow(x[i] - p[k][i], 2);
        sum -= alpha[k] * exp(-inner);
    }
    return sum;
}

static double camel(const double *x, int n)
{
    (void)n;
    double a = x[0], b = x[1];
    return (4 - 2.1 * a * a + pow(a, 4) / 3) * a * a + a * b + (-4 + 4 * b * b) * b * b +
           1.0316284534898774;
}

static const struct function {
    const char *name;
    double (*value)(const double *x, int n);
    int n;
    double low, high;
} functions[] = {
    {"sphere", sphere, 5, -5, 5},         {"rosenbrock", rosenbrock, 5, -5, 10},
    {"rastrigin", rastrigin, 5, -5, 5},   {"ackley", ackley, 5, -30, 30},
    {"griewank", griewank, 5, -10, 10},   {"levy", levy, 5, -10, 10},
    {"styblinski", styblinski, 5, -5, 5}, {"branin", branin, 2, 0, 1},
    {"hartmann", hartmann, 6, 0, 1},      {"camel", camel, 2, -3, 3},
};

struct objective {
    const struct function *function;
    double *values; // of each trial
    size_t n, cap;
    double best;
};

static void on_op(void *user, const struct search_op *op)
{
    struct objective *o = user;
    double x[8];
    int n = 0;
    if (op->kind != SEARCH_CREATE) return;
    for (const struct doc *e = op->hparams->first; e; e = e->next)
        doc_number(e, &x[n++]);
    if (o->n == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 256;
        o->values = xrealloc(o->values, o->cap * sizeof *o->values);
    }
    o->values[o->n++] = o->function->value(x, n);
    o->best = fmin(o->best, o->values[o->n - 1]);
}

static double objective_metric(void *user, int64_t trial, int64_t length)
{
    (void)length;
    return ((struct objective *)user)->values[trial - 1];
}

static struct exp_config function_config(struct arena *arena, const struct function *f,
                                         const char *sampler, int n_trials, int seed)
{
    struct buf text = BUF_INIT(1 << 16);
    buf_printf(&text,
               "searcher: {name: %s, max_trials: %d, max_concurrent_trials: 1, max_length: 1}\n"
               "reproducibility: {experiment_seed: %d}\nhyperparameters:\n",
               sampler, n_trials, seed);
    for (int i = 0; i < f->n; i++)
        buf_printf(&text, "  x%d: {type: double, minval: %g, maxval: %g}\n", i, f->low, f->high);
    struct exp_config cfg = read_config(arena, arena_strdup(arena, text.ptr));
    buf_done(&text);
    return cfg;
}

static double minimize(const struct function *f, const char *sampler, int n_trials, int seed)
{
    struct arena arena = ARENA_INIT;
    struct exp_config cfg = function_config(&arena, f, sampler, n_trials, seed);
    struct objective o = {.function = f, .best = INFINITY};
    const struct sim_world world = {.metric = objective_metric, .on_op = on_op, .user = &o};
    struct sim_result result;
    det_err err;
    struct search *s = search_new(&cfg);
    if (search_simulate(s, &world, &result, &err)) fail(err.msg);
    search_free(s);
    free(o.values);
    arena_done(&arena);
    return o.best;
}

static void print_functions(void)
{
    static const double x[] = {0.1, 0.7, 0.3, 0.9, 0.4, 0.6};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        printf("{\"function\": \"%s\", \"n\": %d, \"low\": %g, \"high\": %g, \"value\": %.15g}\n",
               functions[i].name, functions[i].n, functions[i].low, functions[i].high,
               functions[i].value(x, functions[i].n));
}

enum { N_SEEDS = 20 };

static void run_quality(const char *sampler, int n_trials)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        printf("{\"bench\": \"quality\", \"function\": \"%s\", \"sampler\": \"%s\", \"best\": [",
               functions[i].name, sampler);
        for (int seed = 0; seed < N_SEEDS; seed++)
            printf("%s%.6g", seed ? ", " : "", minimize(&functions[i], sampler, n_trials, seed));
        printf("]}\n");
    }
}

// --- overhead: everything that happens for a trial besides training it

static void run_overhead(const char *sampler, int n_trials)
{
    struct arena arena = ARENA_INIT;
    struct exp_config cfg = function_config(&arena, &functions[0], sampler, n_trials, 1);
    struct objective o = {.function = &functions[0], .best = INFINITY};
    struct search *s = search_new(&cfg);
    struct buf snapshot = BUF_INIT((size_t)1 << 30);
    struct search_event event = {SEARCH_START};
    struct search_ops ops;
    det_err err;
    double start_us = cpu_us();
    int64_t trial = 0;
    for (bool over = false; !over;) {
        if (search_tell(s, &event, &ops, &err)) fail(err.msg);
        for (size_t i = 0; i < ops.n; i++) {
            on_op(&o, &ops.items[i]);
            over = over || ops.items[i].kind == SEARCH_SHUTDOWN;
            if (ops.items[i].kind == SEARCH_CREATE) trial = ops.items[i].trial;
        }
        buf_clear(&snapshot);
        search_snapshot(s, &snapshot);
        enum search_event_kind next =
            event.kind == SEARCH_VALIDATED ? SEARCH_CLOSED : SEARCH_VALIDATED;
        event = (struct search_event){
            .kind = next, .trial = trial, .length = 1, .metric = o.values[trial - 1]};
    }
    printf(
        "{\"bench\": \"overhead\", \"sampler\": \"%s\", \"trials\": %d, \"us_per_trial\": %.1f}\n",
        sampler, n_trials, (cpu_us() - start_us) / n_trials);
    buf_done(&snapshot);
    search_free(s);
    free(o.values);
    arena_done(&arena);
}

// --- curves: how many units until the best of random search is reached

enum { CURVE_LENGTH = 64, N_RANDOM = 64, N_ORDERS = 21 };

struct race {
    const struct curves *curves;
    const size_t *order; // trial n gets curve order[n - 1]
    double goal, units, reached_at;
    double trained[1 << 12];
};

static double race_metric(void *user, int64_t trial, int64_t length)
{
    struct race *r = user;
    size_t curve = r->order[(size_t)(trial - 1) % r->curves->n];
    double metric = curve_at(r->curves, (int64_t)curve + 1, length);
    r->units += (double)length - r->trained[trial];
    r->trained[trial] = (double)length;
    if (metric <= r->goal && r->reached_at < 0) r->reached_at = r->units;
    return metric;
}

// Units until a metric as good as the goal is seen; -1: never.
static double race(const struct curves *curves, const size_t *order, double goal)
{
    struct arena arena = ARENA_INIT;
    struct exp_config cfg = read_config(
        &arena, arena_printf(&arena,
                             "searcher: {name: adaptive_asha, max_length: %d, max_trials: %zu, "
                             "mode: aggressive}",
                             CURVE_LENGTH, curves->n));
    struct race *r = xcalloc(1, sizeof *r);
    *r = (struct race){.curves = curves, .order = order, .goal = goal, .reached_at = -1};
    const struct sim_world world = {.metric = race_metric, .user = r};
    struct sim_result result;
    det_err err;
    struct search *s = search_new(&cfg);
    if (search_simulate(s, &world, &result, &err)) fail(err.msg);
    double reached_at = r->reached_at;
    search_free(s);
    free(r);
    arena_done(&arena);
    return reached_at;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_curves(const char *path)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(64 << 20);
    struct curves curves;
    det_err err;
    if (fs_read(path, &text, &err) || curves_read(buf_str(&text), path, &arena, &curves, &err))
        fail(err.msg);
    double parts[N_ORDERS];
    uint64_t state = 1;
    size_t *order = arena_array(&arena, curves.n, sizeof *order);
    for (int i = 0; i < N_ORDERS; i++) {
        for (size_t k = 0; k < curves.n; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(state >> 33) % (k + 1);
            order[k] = order[at];
            order[at] = k;
        }
        double goal = INFINITY;
        for (size_t k = 0; k < N_RANDOM && k < curves.n; k++)
            goal = fmin(goal, curve_at(&curves, (int64_t)order[k] + 1, CURVE_LENGTH));
        double units = race(&curves, order, goal);
        parts[i] = units < 0 ? INFINITY : units / (N_RANDOM * CURVE_LENGTH);
    }
    qsort(parts, N_ORDERS, sizeof *parts, by_value);
    printf("{\"bench\": \"curves\", \"orders\": %d, \"random_units\": %d, \"median_part\": %.4f, "
           "\"worst_part\": %.4f}\n",
           N_ORDERS, N_RANDOM * CURVE_LENGTH, parts[N_ORDERS / 2], parts[N_ORDERS - 1]);
    buf_done(&text);
    arena_done(&arena);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int n_trials = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (!strcmp(mode, "functions"))
        print_functions();
    else if (!strcmp(mode, "scale"))
        for (int64_t n = 1000; n <= 100000; n *= 10)
            run_scale(n);
    else if (!strcmp(mode, "quality") && n_trials > 0)
        run_quality(argv[2], n_trials);
    else if (!strcmp(mode, "overhead") && n_trials > 0)
        run_overhead(argv[2], n_trials);
    else if (!strcmp(mode, "curves") && argc > 2)
        run_curves(argv[2]);
    else
        fail(
            "usage: search scale | quality SAMPLER TRIALS | overhead SAMPLER TRIALS | curves FILE");
    return 0;
}
