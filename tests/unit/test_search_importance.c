// Which hyperparameter matters: the same shares as Optuna finds.
#include "support/search.h"

enum { N = 200 };

struct numbers {
    uint32_t x;
};

static double next(struct numbers *u)
{
    u->x = (uint32_t)((UINT64_C(1103515245) * u->x + 12345) % (UINT64_C(1) << 31));
    return u->x / 2147483648.0;
}

static struct importance_trial additive(struct numbers *u)
{
    double a = next(u), b = next(u), c = next(u);
    return (struct importance_trial){
        doc_of(arena_printf(&arena, "{a: %.17g, b: %.17g, c: %.17g}", a, b, c)),
        3 * a + b + 0.3 * c};
}

static struct importance_trial mixed(struct numbers *u)
{
    static const char *const kinds[] = {"adam", "sgd", "rms"};
    double a = next(u);
    int n = 1 + (int)(next(u) * 8), kind = (int)(next(u) * 3);
    return (struct importance_trial){
        doc_of(arena_printf(&arena, "{a: %.17g, inner: {n: %d, kind: %s}}", a, n, kinds[kind])),
        4 * a * a + 0.3 * n + (kind == 1 ? 2 : 0)};
}

static struct importance_trial logarithmic(struct numbers *u)
{
    double drop = next(u), lr = -5 + 4 * next(u);
    return (struct importance_trial){
        doc_of(arena_printf(&arena, "{drop: %.17g, lr: %.17g}", drop, pow(10, lr))),
        (lr + 3) * (lr + 3) + drop};
}

static struct importance_trial together(struct numbers *u)
{
    double a = next(u), b = next(u), c = next(u);
    return (struct importance_trial){
        doc_of(arena_printf(&arena, "{a: %.17g, b: %.17g, c: %.17g}", a, b, c)),
        ((a > 0.5) == (b > 0.5)) + 0.5 * c};
}

#define UNIT "{type: double, minval: 0, maxval: 1}"
#define THREE "{a: " UNIT ", b: " UNIT ", c: " UNIT "}"

static struct importance_list shares_of(const char *space,
                                        struct importance_trial (*make)(struct numbers *u))
{
    const struct exp_config *cfg = config_of(arena_printf(
        &arena, "searcher: {name: random, max_trials: 9, max_length: 9}\nhyperparameters: %s",
        space));
    struct numbers u = {1};
    struct importance_trial *trials = arena_array(&arena, N, sizeof *trials);
    struct importance_list out;
    for (size_t i = 0; i < N; i++)
        trials[i] = make(&u);
    search_importance(cfg, trials, N, &arena, &out);
    assert_int_equal(out.n_trials, N);
    return out;
}

static double share_of(const struct importance_list *list, const char *name)
{
    double sum = 0, share = NAN;
    for (size_t i = 0; i < list->items.n; i++) {
        sum += list->items.items[i].share;
        if (!strcmp(list->items.items[i].name, name)) share = list->items.items[i].share;
    }
    return share / sum;
}

#define MIXED                                                                               \
    "{a: " UNIT ", inner: {n: {type: int, minval: 1, maxval: 8}, kind: {type: categorical," \
    " vals: [adam, sgd, rms]}}}"

struct expected {
    const char *name;
    double share;
};

static void expect_shares(const struct importance_list *list, const struct expected *expected,
                          double tolerance)
{
    for (size_t i = 0; i < 3 && expected[i].name; i++) {
        double found = share_of(list, expected[i].name);
        if (!(fabs(found - expected[i].share) < tolerance))
            fail_msg("%s has %.3f, expected %.3f", expected[i].name, found, expected[i].share);
    }
    for (size_t i = 1; i < list->items.n; i++)
        assert_true(list->items.items[i - 1].share >= list->items.items[i].share);
}

// What tests/parity/importance.py prints; Optuna's shares are made to add up to 1. It measures
// integers from the least to the greatest, and takes a choice of three for three numbers between 0
// and 1, so that of the mixed case it is farther from the truth (the next test).
static void test_importance__is_that_of_optuna(void **state)
{
    (void)state;
    static const struct {
        const char *space;
        struct importance_trial (*make)(struct numbers *u);
        double tolerance;
        struct expected expected[3];
    } cases[] = {
        {THREE, additive, 0.02, {{"a", 0.920}, {"b", 0.078}, {"c", 0.002}}},
        {MIXED, mixed, 0.06, {{"a", 0.524}, {"inner.n", 0.119}, {"inner.kind", 0.357}}},
        {"{drop: " UNIT ", lr: {type: log, base: 10, minval: -5, maxval: -1}}",
         logarithmic,
         0.02,
         {{"drop", 0.030}, {"lr", 0.970}}},
        {THREE, together, 0.05, {{"a", 0.114}, {"b", 0.114}, {"c", 0.772}}},
    };
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        struct importance_list list = shares_of(cases[i].space, cases[i].make);
        expect_shares(&list, cases[i].expected, cases[i].tolerance);
    }
}

// Var(4 a^2) = 16 (1/5 - 1/9), Var(0.3 n) = 0.09 * 63/12, Var(2 [sgd]) = 4 * 1/3 * 2/3.
static void test_importance__is_the_share_of_the_variance(void **state)
{
    (void)state;
    static const struct expected expected[3] = {
        {"a", 0.511}, {"inner.n", 0.170}, {"inner.kind", 0.319}};
    struct importance_list list = shares_of(MIXED, mixed);
    expect_shares(&list, expected, 0.04);
}

// What only matters together is not said to matter alone.
static void test_importance__leaves_interactions_out(void **state)
{
    (void)state;
    struct importance_list list = shares_of(THREE, together);
    double sum = 0;
    for (size_t i = 0; i < list.items.n; i++)
        sum += list.items.items[i].share;
    assert_true(sum < 0.5);
}

static struct importance_list of_metrics(const char *space, const double *metrics, size_t n)
{
    const struct exp_config *cfg = config_of(arena_printf(
        &arena, "searcher: {name: random, max_trials: 9, max_length: 9}\nhyperparameters: %s",
        space));
    struct importance_trial *trials = arena_array(&arena, n, sizeof *trials);
    struct importance_list out;
    for (size_t i = 0; i < n; i++)
        trials[i] = (struct importance_trial){
            doc_of(arena_printf(&arena, "{a: %.17g}", (double)i / (double)n)), metrics[i]};
    search_importance(cfg, trials, n, &arena, &out);
    return out;
}

static void test_importance__is_not_known_of_too_little(void **state)
{
    (void)state;
    static const double few[] = {1, 2, 3}, equal[] = {1, 1, 1, 1, 1},
                        bad[] = {1, NAN, 3, INFINITY, 2}, good[] = {1, NAN, 2, 3, 4};
    assert_int_equal(of_metrics("{a: " UNIT "}", few, 3).items.n, 0);
    assert_int_equal(of_metrics("{a: " UNIT "}", equal, 5).items.n, 0);
    assert_int_equal(of_metrics("{a: " UNIT "}", bad, 5).items.n, 0);
    assert_int_equal(of_metrics("{a: 1}", good, 5).items.n, 0);
    struct importance_list list = of_metrics("{a: " UNIT "}", good, 5);
    assert_int_equal(list.items.n, 1);
    assert_int_equal(list.n_trials, 4);
    assert_true(list.items.items[0].share > 0.99);
}

RUN_TESTS(DOC_TEST(test_importance__is_that_of_optuna),
          DOC_TEST(test_importance__is_the_share_of_the_variance),
          DOC_TEST(test_importance__leaves_interactions_out),
          DOC_TEST(test_importance__is_not_known_of_too_little))
