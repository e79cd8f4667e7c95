// Samplers that learn: tpe, bohb, cmaes.
#include "support/search.h"

static double value_of(const struct doc *hparams, const char *name)
{
    double x = NAN;
    assert_true(doc_number(doc_find(hparams, name), &x));
    return x;
}

// A search over values of which a function says how good they are.
struct quest {
    double (*loss)(const struct doc *hparams);
    double losses[SIM_TRIALS];
    int64_t n;
};

static void quest_on_op(void *user, const struct search_op *op)
{
    struct quest *q = user;
    if (op->kind == SEARCH_CREATE) q->losses[++q->n] = q->loss(op->hparams);
}

static double quest_metric(void *user, int64_t trial, int64_t length)
{
    (void)length;
    return ((const struct quest *)user)->losses[trial];
}

static struct quest *seek(const char *text, double (*loss)(const struct doc *hparams))
{
    struct quest *q = arena_alloc(&arena, sizeof *q);
    q->loss = loss;
    const struct sim_world world = {.metric = quest_metric, .on_op = quest_on_op, .user = q};
    struct sim_result result;
    det_err err;
    struct search *s = search_new(config_of(text));
    if (search_simulate(s, &world, &result, &err)) fail_msg("%s", err.msg);
    search_free(s);
    return q;
}

static double mean_loss(const struct quest *q, int64_t from, int64_t to)
{
    double sum = 0;
    for (int64_t i = from; i <= to; i++)
        sum += q->losses[i];
    return sum / (double)(to - from + 1);
}

#define MIXED_SPACE                                        \
    "reproducibility: {experiment_seed: 1}\n"              \
    "hyperparameters:\n"                                   \
    "  lr: {type: log, base: 10, minval: -6, maxval: 0}\n" \
    "  layers: {type: int, minval: 1, maxval: 20}\n"       \
    "  kind: {type: categorical, vals: [a, b, c, d]}\n"    \
    "  dropout: {type: double, minval: 0, maxval: 1}\n"    \
    "  epochs: 10\n"

static double mixed_loss(const struct doc *hparams)
{
    double lr = log10(value_of(hparams, "lr")), layers = value_of(hparams, "layers");
    bool best_kind = str_eqz(doc_find(hparams, "kind")->text, "c");
    assert_in_range((int64_t)layers, 1, 20);
    assert_true(lr >= -6.0001 && lr <= 0.0001);
    return fabs(lr + 3) / 6 + fabs(layers - 7) / 20 + fabs(value_of(hparams, "dropout") - 0.2) +
           (best_kind ? 0 : 0.5);
}

static void test_tpe__learns_all_kinds_of_values(void **state)
{
    (void)state;
    const struct quest *q = seek("searcher: {name: tpe, max_trials: 120, max_length: 1, "
                                 "max_concurrent_trials: 4}\n" MIXED_SPACE,
                                 mixed_loss);
    assert_true(mean_loss(q, 91, 120) < 0.5 * mean_loss(q, 1, 10));
}

static void test_tpe__starts_like_random(void **state)
{
    (void)state;
    const struct quest *random = seek("searcher: {name: random, max_trials: 12, "
                                      "max_concurrent_trials: 1, max_length: 1}\n" MIXED_SPACE,
                                      mixed_loss);
    const struct quest *tpe = seek("searcher: {name: tpe, max_trials: 12, max_concurrent_trials: "
                                   "1, max_length: 1, n_startup_trials: 10}\n" MIXED_SPACE,
                                   mixed_loss);
    for (int i = 1; i <= 10; i++)
        assert_true(tpe->losses[i] == random->losses[i]);
    assert_true(tpe->losses[11] != random->losses[11]);
}

// Where trials fail nobody looks for long.
static double lower_half_fails(const struct doc *hparams)
{
    double x = value_of(hparams, "x");
    return x < 0.5 ? NAN : fabs(x - 0.8);
}

static void test_tpe__avoids_failures(void **state)
{
    (void)state;
    const struct quest *q = seek("searcher: {name: tpe, max_trials: 60, max_length: 1, "
                                 "max_concurrent_trials: 1}\n"
                                 "reproducibility: {experiment_seed: 2}\n"
                                 "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n",
                                 lower_half_fails);
    int n_failed = 0;
    for (int i = 31; i <= 60; i++)
        n_failed += isnan(q->losses[i]);
    assert_in_range(n_failed, 0, 10);
}

static void test_tpe__nothing_to_learn(void **state)
{
    (void)state;
    static const char *const samplers[] = {"tpe", "cmaes"};
    for (size_t i = 0; i < STATIC_LEN(samplers); i++) {
        const struct simulated *sim =
            simulate(config_of(arena_printf(&arena,
                                            "searcher: {name: %s, max_trials: 30, max_length: 2}\n"
                                            "hyperparameters: {a: 1, b: {type: categorical, "
                                            "vals: [x, y]}}\n",
                                            samplers[i])),
                     equal);
        assert_int_equal(sim->result.n_trials, 30);
    }
}

// The best of short trainings are not those of long ones: only the long ones are to be learned
// from.
static double deceptive(void *user, int64_t trial, int64_t length)
{
    double x = ((const struct quest *)user)->losses[trial];
    return length >= 16 ? x : 1 - x;
}

static double plain_x(const struct doc *hparams)
{
    return value_of(hparams, "x");
}

static void test_bohb__learns_from_the_longest_trainings(void **state)
{
    (void)state;
    struct quest *q = arena_alloc(&arena, sizeof *q);
    q->loss = plain_x;
    const struct sim_world world = {.metric = deceptive, .on_op = quest_on_op, .user = q};
    struct sim_result result;
    det_err err;
    struct search *s = search_new(
        config_of("searcher: {name: bohb, max_trials: 150, max_length: 16, bracket_rungs: [2], "
                  "max_concurrent_trials: 4, divisor: 2}\n"
                  "reproducibility: {experiment_seed: 1}\n"
                  "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"));
    if (search_simulate(s, &world, &result, &err)) fail_msg("%s", err.msg);
    search_free(s);
    assert_true(mean_loss(q, 101, 150) < 0.35);
}

static double far_sphere(const struct doc *hparams)
{
    double sum = 0;
    for (const struct doc *e = hparams->first; e; e = e->next)
        sum += pow(e->number - 2.5, 2);
    return sum;
}

static void test_cmaes__finds_a_minimum(void **state)
{
    (void)state;
    static const int concurrent[] = {1, 20};
    for (size_t i = 0; i < STATIC_LEN(concurrent); i++) {
        const struct quest *q =
            seek(arena_printf(&arena,
                              "searcher: {name: cmaes, max_trials: 600, max_length: 1, "
                              "max_concurrent_trials: %d}\n"
                              "reproducibility: {experiment_seed: 1}\n"
                              "hyperparameters:\n"
                              "  a: {type: double, minval: -10, maxval: 10}\n"
                              "  b: {type: double, minval: -10, maxval: 10}\n"
                              "  c: {type: double, minval: -10, maxval: 10}\n"
                              "  d: {type: double, minval: -10, maxval: 10}\n",
                              concurrent[i]),
                 far_sphere);
        assert_true(mean_loss(q, 551, 600) < (concurrent[i] == 1 ? 1e-6 : 0.01));
    }
}

// In one dimension, at the edge, and beyond the point where the distribution has become a point.
static void test_cmaes__survives_success(void **state)
{
    (void)state;
    const struct quest *q = seek("searcher: {name: cmaes, max_trials: 2000, max_length: 1, "
                                 "max_concurrent_trials: 1}\n"
                                 "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n",
                                 plain_x);
    double best = 1;
    for (int i = 1; i <= 2000; i++)
        best = fmin(best, q->losses[i]);
    assert_true(best < 1e-9);
}

static void test_cmaes__searches_integers_and_exponents(void **state)
{
    (void)state;
    const struct quest *q = seek("searcher: {name: cmaes, max_trials: 200, max_length: 1, "
                                 "max_concurrent_trials: 1}\n" MIXED_SPACE,
                                 mixed_loss);
    // Categories are drawn evenly: three in four cost 0.5.
    assert_true(mean_loss(q, 151, 200) < 0.375 + 0.2);
}

RUN_TESTS(DOC_TEST(test_tpe__learns_all_kinds_of_values), DOC_TEST(test_tpe__starts_like_random),
          DOC_TEST(test_tpe__avoids_failures), DOC_TEST(test_tpe__nothing_to_learn),
          DOC_TEST(test_bohb__learns_from_the_longest_trainings),
          DOC_TEST(test_cmaes__finds_a_minimum), DOC_TEST(test_cmaes__survives_success),
          DOC_TEST(test_cmaes__searches_integers_and_exponents))
