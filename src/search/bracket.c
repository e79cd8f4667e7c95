// Unit bracket.c: brackets, rungs, lengths. Called by halving.c.
//
// Whole numbers are cut, not rounded, and logarithms divided, because Determined does so: 10^3 has
// three rungs of divisor 10 and not four, as ln(1000) / ln(10) is just below 3.
#include "search/bracket.h"

#include "base/assert.h"
#include <math.h>

enum { MOST_TRIALS = 10000000 }; // as in the configuration

// The whole part of a number that is not negative. Divisors are any numbers, their powers too.
static int64_t cut(double x)
{
    return x >= 0x1p62 ? INT64_C(1) << 62 : x > 0 ? (int64_t)x : 0;
}

static int64_t rungs_for(int64_t n, double divisor)
{
    return cut(log((double)n) / log(divisor)) + 1;
}

static int64_t most_rungs(const struct searcher_config *cfg)
{
    const struct halving_config *h = &cfg->halving;
    bool synchronous = cfg->kind == SEARCHER_ADAPTIVE || cfg->kind == SEARCHER_ADAPTIVE_SIMPLE;
    if (synchronous) return h->max_rungs;
    int64_t by_length = rungs_for(cfg->max_length.amount, h->divisor);
    int64_t by_trials = rungs_for(cfg->max_trials, h->divisor);
    return MIN(h->max_rungs, MIN(by_length, by_trials));
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

// The number of rungs of each bracket, most first.
static size_t choose_rungs(const struct searcher_config *cfg, struct arena *arena, int64_t **out)
{
    const struct halving_config *h = &cfg->halving;
    if (cfg->kind == SEARCHER_ASYNC_HALVING || cfg->kind == SEARCHER_SYNC_HALVING) {
        *out = arena_alloc(arena, sizeof **out);
        **out = h->num_rungs;
        return 1;
    }
    if (h->bracket_rungs.n) {
        *out = arena_array(arena, h->bracket_rungs.n, sizeof **out);
        memcpy(*out, h->bracket_rungs.items, h->bracket_rungs.n * sizeof **out);
        qsort(*out, h->bracket_rungs.n, sizeof **out, descending);
        return h->bracket_rungs.n;
    }
    int64_t most = most_rungs(cfg), least = 1;
    if (h->mode == MODE_STANDARD) least = (most - 1) / 2 + 1;
    if (h->mode == MODE_AGGRESSIVE) least = most;
    size_t n = (size_t)(most - least + 1);
    *out = arena_array(arena, n, sizeof **out);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = most - (int64_t)i;
    return n;
}

// divisor^(rungs above this one)
static double steps_to_top(const struct bracket_plan *b, double divisor, size_t rung)
{
    return pow(divisor, (double)(b->n_rungs - 1 - rung));
}

static void set_lengths(struct bracket_plan *b, int64_t max_length, double divisor,
                        struct arena *arena)
{
    b->lengths = arena_array(arena, b->n_rungs, sizeof *b->lengths);
    for (size_t i = 0; i < b->n_rungs; i++)
        b->lengths[i] = MAX(1, cut((double)max_length / steps_to_top(b, divisor, i)));
}

static int64_t even_share(int64_t total, size_t n, size_t i)
{
    return total / (int64_t)n + ((int64_t)i < total % (int64_t)n);
}

// A bracket gets trials in proportion to divisor^(rungs - 1) / rungs, what cutting loses goes to
// the first.
static void share_trials(struct bracket_plan *brackets, size_t n, int64_t max_trials,
                         double divisor)
{
    double total = 0;
    int64_t given = 0;
    for (size_t i = 0; i < n; i++)
        total += steps_to_top(&brackets[i], divisor, 0) / (double)brackets[i].n_rungs;
    for (size_t i = 0; i < n; i++) {
        double weight = steps_to_top(&brackets[i], divisor, 0) / (double)brackets[i].n_rungs;
        brackets[i].n_trials = MAX(1, cut(weight / total * (double)max_trials));
        given += brackets[i].n_trials;
    }
    brackets[0].n_trials += MAX(0, max_trials - given);
}

static void share_concurrency(struct bracket_plan *brackets, size_t n, int64_t limit,
                              double divisor)
{
    int64_t each = MAX(brackets[n - 1].n_trials, cut(divisor));
    for (size_t i = 0; i < n; i++)
        brackets[i].n_concurrent = limit ? even_share(MAX(limit, (int64_t)n), n, i) : each;
}

// async_halving: enough for one trial to reach the top.
static int64_t own_concurrency(const struct bracket_plan *b, double divisor)
{
    double enough = steps_to_top(b, divisor, 0);
    return MAX(1, MIN(cut(enough), b->n_trials));
}

// The units that all rungs together train, with their starts.
static double expected_units(const struct bracket_plan *b)
{
    double units = 0;
    for (size_t i = 0; i < b->n_rungs; i++) {
        int64_t below = i ? b->lengths[i - 1] : 0;
        units += (double)(b->lengths[i] - below) * (double)b->starts[i];
    }
    return units;
}

// How many trials every rung takes when a budget is to be spent.
static void starts_for_budget(struct bracket_plan *b, int64_t budget, double divisor)
{
    for (size_t i = 0; i < b->n_rungs; i++)
        b->starts[i] = MAX(1, cut(steps_to_top(b, divisor, i)));
    double part = (double)budget / expected_units(b);
    for (size_t i = 0; i < b->n_rungs; i++) {
        int64_t most = i ? b->starts[i - 1] : MOST_TRIALS;
        int64_t start = cut(part * (double)b->starts[i]);
        b->starts[i] = start < 1 ? 1 : MIN(start, most);
    }
}

static void starts_for_trials(struct bracket_plan *b, int64_t n_trials, double divisor)
{
    for (size_t i = 0; i < b->n_rungs; i++)
        b->starts[i] = MAX(1, cut((double)n_trials / pow(divisor, (double)i)));
}

static void plan_synchronous(const struct searcher_config *cfg, struct bracket_plan *brackets,
                             size_t n, struct arena *arena)
{
    const double divisor = cfg->halving.divisor;
    const int64_t budget = cfg->halving.budget.amount / (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        struct bracket_plan *b = &brackets[i];
        b->starts = arena_array(arena, b->n_rungs, sizeof *b->starts);
        if (cfg->kind == SEARCHER_ADAPTIVE_SIMPLE)
            starts_for_trials(b, even_share(cfg->max_trials, n, i), divisor);
        else
            starts_for_budget(b, budget, divisor);
        b->n_trials = b->n_concurrent = b->starts[0];
    }
}

static void plan_asynchronous(const struct searcher_config *cfg, struct bracket_plan *brackets,
                              size_t n)
{
    double divisor = cfg->halving.divisor;
    int64_t limit = cfg->max_concurrent_trials;
    share_trials(brackets, n, cfg->max_trials, divisor);
    if (cfg->kind == SEARCHER_ASYNC_HALVING)
        brackets[0].n_concurrent = limit ? limit : own_concurrency(&brackets[0], divisor);
    else
        share_concurrency(brackets, n, limit, divisor);
}

size_t bracket_plans(const struct searcher_config *cfg, struct arena *arena,
                     struct bracket_plan **out)
{
    int64_t *rungs;
    size_t n = choose_rungs(cfg, arena, &rungs);
    ASSERT(n > 0);
    struct bracket_plan *brackets = *out = arena_array(arena, n, sizeof **out);
    for (size_t i = 0; i < n; i++) {
        brackets[i].n_rungs = (size_t)rungs[i];
        set_lengths(&brackets[i], cfg->max_length.amount, cfg->halving.divisor, arena);
    }
    bool synchronous = cfg->kind == SEARCHER_ADAPTIVE || cfg->kind == SEARCHER_ADAPTIVE_SIMPLE ||
                       cfg->kind == SEARCHER_SYNC_HALVING;
    if (synchronous)
        plan_synchronous(cfg, brackets, n, arena);
    else
        plan_asynchronous(cfg, brackets, n);
    return n;
}

void bracket_preview(const struct bracket_plan *plan, double divisor, struct plan_bracket *out)
{
    int64_t here = plan->n_trials;
    out->n_trials = plan->n_trials;
    out->n_concurrent = plan->n_concurrent;
    for (size_t i = 0; i < plan->n_rungs; i++) {
        int64_t next = 0;
        if (i + 1 < plan->n_rungs)
            next = plan->starts ? plan->starts[i + 1] : MAX(1, cut((double)here / divisor));
        out->rungs.items[i] = (struct plan_rung){plan->lengths[i], here - next};
        here = next;
    }
}
