// What holds for every search, whatever its configuration and the order of events. The number of
// random searches of each kind is the first argument.
#include "support/search.h"

#include "base/rng.h"

static int64_t n_rounds = 250;
static int64_t reborn_every = 12; // in one in so many rounds, at every event

// A stream of random numbers for one round.
struct luck {
    uint64_t seed, n;
};

static int64_t pick(struct luck *luck, int64_t n)
{
    return (int64_t)rng_below(luck->seed, 7, luck->n++, (uint64_t)n);
}

static const char *one_of(struct luck *luck, const char *const *items, int64_t n)
{
    return items[pick(luck, n)];
}

static const char *const modes[] = {"standard", "aggressive", "conservative"};
static const char *const divisors[] = {"2", "3", "4", "1.5", "10"};
static const char *const booleans[] = {"true", "false"};

static const char *common_fields(struct luck *luck)
{
    return arena_printf(&arena, "max_trials: %lld, max_length: %lld, max_concurrent_trials: %lld",
                        (long long)(1 + pick(luck, 24)), (long long)(1 + pick(luck, 100)),
                        (long long)pick(luck, 10));
}

static const char *halving_fields(struct luck *luck)
{
    return arena_printf(&arena, "divisor: %s, stop_once: %s", one_of(luck, divisors, 5),
                        one_of(luck, booleans, 2));
}

static const char *adaptive_fields(struct luck *luck)
{
    return arena_printf(&arena, "mode: %s, max_rungs: %lld%s", one_of(luck, modes, 3),
                        (long long)(1 + pick(luck, 6)),
                        pick(luck, 4) ? "" : ", bracket_rungs: [2, 5, 2]");
}

static const char *budget_fields(struct luck *luck)
{
    int64_t length = 1 + pick(luck, 100);
    return arena_printf(&arena, "max_length: %lld, budget: %lld, divisor: %s", (long long)length,
                        (long long)(length + 1 + pick(luck, 2 * length)),
                        one_of(luck, divisors, 3));
}

static const char *tpe_fields(struct luck *luck)
{
    return arena_printf(&arena, "n_startup_trials: %lld, n_ei_candidates: %lld, gamma: 0.%lld",
                        (long long)pick(luck, 8), (long long)(1 + pick(luck, 6)),
                        (long long)(1 + pick(luck, 4)));
}

static const char *pbt_fields(struct luck *luck)
{
    return arena_printf(&arena,
                        "population_size: %lld, num_rounds: %lld, length_per_round: %lld, "
                        "replace_function: {truncate_fraction: 0.%lld}, "
                        "explore_function: {resample_probability: 0.5, perturb_factor: 0.2}",
                        (long long)(1 + pick(luck, 8)), (long long)(1 + pick(luck, 6)),
                        (long long)(1 + pick(luck, 9)), (long long)pick(luck, 6));
}

static const char *fields_of(enum searcher_kind kind, struct luck *luck)
{
    switch (kind) {
    case SEARCHER_SINGLE:
        return pick(luck, 2) ? "max_length: 7" : "smaller_is_better: true";
    case SEARCHER_GRID:
        return arena_printf(&arena, "max_length: 3, max_concurrent_trials: %lld",
                            (long long)pick(luck, 10));
    case SEARCHER_ADAPTIVE_ASHA:
        return arena_printf(&arena, "%s, %s, %s", common_fields(luck), halving_fields(luck),
                            adaptive_fields(luck));
    case SEARCHER_BOHB:
        return arena_printf(&arena, "%s, %s, %s, %s", common_fields(luck), halving_fields(luck),
                            adaptive_fields(luck), tpe_fields(luck));
    case SEARCHER_TPE:
        return arena_printf(&arena, "%s, %s", common_fields(luck), tpe_fields(luck));
    case SEARCHER_CMAES:
        return arena_printf(&arena, "%s, population_size: %lld", common_fields(luck),
                            (long long)(2 + pick(luck, 8)));
    case SEARCHER_ASYNC_HALVING:
        return arena_printf(&arena, "%s, %s, num_rungs: %lld", common_fields(luck),
                            halving_fields(luck), (long long)(1 + pick(luck, 5)));
    case SEARCHER_ADAPTIVE:
        return arena_printf(&arena, "%s, %s", budget_fields(luck), adaptive_fields(luck));
    case SEARCHER_SYNC_HALVING:
        return arena_printf(&arena, "%s, num_rungs: %lld", budget_fields(luck),
                            (long long)(1 + pick(luck, 5)));
    case SEARCHER_ADAPTIVE_SIMPLE:
        return arena_printf(&arena, "max_trials: %lld, max_length: %lld, mode: %s, max_rungs: %lld",
                            (long long)(1 + pick(luck, 24)), (long long)(1 + pick(luck, 100)),
                            one_of(luck, modes, 3), (long long)(1 + pick(luck, 6)));
    case SEARCHER_PBT:
        return pbt_fields(luck);
    default:
        return common_fields(luck);
    }
}

static struct exp_config *random_config(enum searcher_kind kind, struct luck *luck)
{
    return config_of(arena_printf(&arena,
                                  "searcher: {name: %s, %s}\n"
                                  "reproducibility: {experiment_seed: %lld}\n"
                                  "hyperparameters:\n"
                                  "  a: {b: {type: int, minval: 1, maxval: 9, count: 3}}\n"
                                  "  c: {type: categorical, vals: [x, y, z]}\n"
                                  "  d: {type: log, base: 10, minval: -4, maxval: -1, count: 2}\n"
                                  "  e: {type: double, minval: -1, maxval: 2, count: 2}\n"
                                  "  f: 17\n",
                                  searcher_kind_name(kind), fields_of(kind, luck),
                                  (long long)pick(luck, 1000)));
}

// What this test knows of a trial.
struct known {
    int64_t length, last; // of its operation; of its last validation
    double metric;
    bool busy, closing, exited, closed;
};

enum { MOST_TRIALS = 2000 };

struct world {
    const struct exp_config *cfg;
    struct luck *luck;
    struct known trials[MOST_TRIALS + 1];
    int64_t n_trials, n_busy, n_open, n_invalid;
    bool over, rungs_differ; // rungs_differ: no two rungs have the same length
};

// Where trials of one competition wait at the same length, the best must go first.
static void check_promotion(const struct world *w, int64_t trial)
{
    const struct known *t = &w->trials[trial];
    enum searcher_kind kind = w->cfg->searcher.kind;
    bool one_bracket = kind == SEARCHER_ASYNC_HALVING || kind == SEARCHER_SYNC_HALVING;
    if (!t->last || !one_bracket || !w->rungs_differ) return;
    double sign = w->cfg->searcher.smaller_is_better ? 1 : -1;
    for (int64_t i = 1; i <= w->n_trials; i++) {
        const struct known *other = &w->trials[i];
        bool waits = i != trial && !other->busy && !other->exited && !other->closing;
        if (waits && other->last == t->last && isfinite(other->metric))
            assert_false(isfinite(t->metric) && sign * other->metric < sign * t->metric);
    }
}

static void carry_out(struct world *w, const struct search_op *op)
{
    if (op->kind == SEARCH_CREATE) {
        assert_int_equal(op->trial, ++w->n_trials);
        assert_in_range(w->n_trials, 1, MOST_TRIALS);
        w->n_open++;
    }
    struct known *t = &w->trials[op->trial];
    if (op->kind == SEARCH_VALIDATE_AFTER) {
        assert_false(t->busy || t->closing || t->exited);
        check_promotion(w, op->trial);
        assert_true(op->length >= t->last);
        t->busy = true;
        t->length = op->length;
        w->n_busy++;
    }
    if (op->kind == SEARCH_CLOSE) {
        assert_false(t->closing || t->closed);
        t->closing = true;
    }
    if (op->kind == SEARCH_SHUTDOWN) {
        assert_int_equal(w->n_open, 0);
        w->over = true;
    }
}

// Something that may happen now: to a trial that is busy, or has to close.
static struct search_event next_event(struct world *w)
{
    int64_t at = pick(w->luck, w->n_trials);
    for (int64_t i = 0; i < w->n_trials; i++) {
        int64_t trial = 1 + (at + i) % w->n_trials;
        struct known *t = &w->trials[trial];
        bool ends = !t->closed && !t->busy && (t->closing || t->exited);
        if (ends) {
            t->closed = true;
            w->n_open--;
            return (struct search_event){.kind = SEARCH_CLOSED, .trial = trial};
        }
        if (!t->busy) continue;
        t->busy = false;
        w->n_busy--;
        int64_t chance = pick(w->luck, 20);
        if (chance < 2) {
            t->exited = true;
            w->n_invalid += chance == 1;
            enum search_exit reason = chance ? SEARCH_INVALID_HP : pick(w->luck, 3);
            return (struct search_event){.kind = SEARCH_EXITED, .trial = trial, .reason = reason};
        }
        t->last = t->length;
        t->metric = chance == 2 ? NAN : (double)pick(w->luck, 10) / 10;
        return (struct search_event){
            .kind = SEARCH_VALIDATED, .trial = trial, .length = t->length, .metric = t->metric};
    }
    fail_msg("the search waits for nothing");
    return (struct search_event){0};
}

static int64_t most_busy(const struct exp_config *cfg, const struct search_plan *plan)
{
    int64_t n = 0, limit = cfg->searcher.max_concurrent_trials;
    for (size_t i = 0; i < plan->brackets.n; i++)
        n += plan->brackets.items[i].n_concurrent;
    if (limit >= (int64_t)plan->brackets.n) assert_in_range(n, 0, limit);
    return n;
}

static bool rungs_differ(const struct plan_bracket *b)
{
    for (size_t i = 1; i < b->rungs.n; i++)
        if (b->rungs.items[i].length == b->rungs.items[i - 1].length) return false;
    return true;
}

// The search as it comes back from its snapshot.
static struct search *reborn(const struct exp_config *cfg, struct search *s)
{
    struct buf first = BUF_INIT(1 << 24), second = BUF_INIT(1 << 24);
    det_err err;
    search_snapshot(s, &first);
    struct search *copy = search_restore(cfg, buf_str(&first), &err);
    if (!copy) fail_msg("%s", err.msg);
    search_snapshot(copy, &second);
    assert_string_equal(first.ptr, second.ptr);
    assert_true(search_progress(s) == search_progress(copy));
    buf_done(&first);
    buf_done(&second);
    return copy;
}

static void expect_same_ops(struct search_ops a, struct search_ops b)
{
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        const struct search_op *x = &a.items[i], *y = &b.items[i];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->trial, y->trial);
        assert_int_equal(x->length, y->length);
        assert_int_equal(x->source_trial, y->source_trial);
        assert_int_equal(x->trial_seed, y->trial_seed);
        assert_memory_equal(&x->request_id, &y->request_id, sizeof x->request_id);
        assert_true(!x->hparams == !y->hparams);
        if (x->hparams) assert_true(doc_equal(x->hparams, y->hparams));
    }
}

static void run_round(enum searcher_kind kind, struct luck *luck)
{
    struct world *w = arena_alloc(&arena, sizeof *w);
    w->cfg = random_config(kind, luck);
    w->luck = luck;
    struct search_plan plan;
    assert_int_equal(search_preview(w->cfg, &arena, &plan, NULL), 0);
    w->rungs_differ = rungs_differ(&plan.brackets.items[0]);
    const int64_t max_busy = most_busy(w->cfg, &plan);
    struct search *s = search_new(w->cfg);
    struct search_event event = {SEARCH_START};
    for (int n_events = 0; !w->over; n_events++) {
        assert_in_range(n_events, 0, 20000);
        if (n_events) event = next_event(w);
        bool copied = luck->seed % (uint64_t)reborn_every == 0;
        struct search *copy = copied ? reborn(w->cfg, s) : NULL;
        struct search_ops ops = tell(s, event);
        if (copied) expect_same_ops(ops, tell(copy, event));
        for (size_t i = 0; i < ops.n; i++)
            carry_out(w, &ops.items[i]);
        assert_in_range(w->n_busy, 0, max_busy);
        if (kind != SEARCHER_PBT) assert_in_range(w->n_trials, 0, plan.n_trials + w->n_invalid);
        if (copied && n_events % 2) { // half of the time, life goes on in the copy
            struct search *old = s;
            s = copy;
            copy = old;
        }
        search_free(copy);
    }
    search_free(s);
}

static void expect_properties(enum searcher_kind kind)
{
    for (int64_t i = 0; i < n_rounds; i++) {
        struct luck luck = {.seed = (uint64_t)i};
        run_round(kind, &luck);
        arena_done(&arena);
        diags = DIAG_INIT(&arena);
    }
}

#define PROPERTY_TEST(name, kind)                               \
    static void test_##name##__keeps_its_promises(void **state) \
    {                                                           \
        (void)state;                                            \
        expect_properties(kind);                                \
    }

PROPERTY_TEST(single, SEARCHER_SINGLE)
PROPERTY_TEST(random, SEARCHER_RANDOM)
PROPERTY_TEST(grid, SEARCHER_GRID)
PROPERTY_TEST(adaptive_asha, SEARCHER_ADAPTIVE_ASHA)
PROPERTY_TEST(async_halving, SEARCHER_ASYNC_HALVING)
PROPERTY_TEST(adaptive, SEARCHER_ADAPTIVE)
PROPERTY_TEST(adaptive_simple, SEARCHER_ADAPTIVE_SIMPLE)
PROPERTY_TEST(sync_halving, SEARCHER_SYNC_HALVING)
PROPERTY_TEST(pbt, SEARCHER_PBT)
PROPERTY_TEST(tpe, SEARCHER_TPE)
PROPERTY_TEST(bohb, SEARCHER_BOHB)
PROPERTY_TEST(cmaes, SEARCHER_CMAES)

int main(int argc, char **argv)
{
    if (argc > 1) n_rounds = strtol(argv[1], NULL, 10);
    if (argc > 1) reborn_every = 1;
    const struct CMUnitTest tests[] = {
        DOC_TEST(test_single__keeps_its_promises),
        DOC_TEST(test_random__keeps_its_promises),
        DOC_TEST(test_grid__keeps_its_promises),
        DOC_TEST(test_adaptive_asha__keeps_its_promises),
        DOC_TEST(test_async_halving__keeps_its_promises),
        DOC_TEST(test_adaptive__keeps_its_promises),
        DOC_TEST(test_adaptive_simple__keeps_its_promises),
        DOC_TEST(test_sync_halving__keeps_its_promises),
        DOC_TEST(test_pbt__keeps_its_promises),
        DOC_TEST(test_tpe__keeps_its_promises),
        DOC_TEST(test_bohb__keeps_its_promises),
        DOC_TEST(test_cmaes__keeps_its_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
