// Unit flat.c: the schedule of searches in which every trial trains for the full length: single,
// random, grid, tpe, cmaes.
//
// As many trials as allowed are open at any time, until enough have been created. There is no state
// besides the trials.
#include "search/method.h"

#include "base/assert.h"

static int64_t max_trials(const struct exp_config *cfg, struct arena *arena)
{
    if (cfg->searcher.kind == SEARCHER_GRID) return grid_size(cfg, arena);
    return cfg->searcher.max_trials;
}

static int64_t max_open(const struct exp_config *cfg, int64_t n_trials)
{
    int64_t limit = cfg->searcher.max_concurrent_trials;
    return limit ? MIN(limit, n_trials) : n_trials;
}

struct flat {
    int64_t max_trials, max_open;
};

static void flat_init(struct search *s)
{
    struct flat *f = s->schedule;
    f->max_trials = max_trials(s->cfg, &s->arena);
    f->max_open = max_open(s->cfg, f->max_trials);
}

static int64_t n_counted(const struct search *s)
{
    return s->n_trials - (s->method->retries_invalid ? s->n_invalid : 0);
}

static void fill(struct search *s)
{
    const struct flat *f = s->schedule;
    while (s->n_trials - s->n_closed < f->max_open && n_counted(s) < f->max_trials &&
           search_may_create(s)) {
        int64_t trial = search_create(s);
        search_train(s, trial, s->cfg->searcher.max_length.amount);
        search_close(s, trial);
    }
}

// Everything was said when the trial was created.
static void flat_validated(struct search *s, int64_t trial, double loss)
{
    (void)s;
    (void)trial;
    (void)loss;
}

static void flat_exited(struct search *s, int64_t trial, bool was_busy)
{
    (void)s;
    (void)trial;
    (void)was_busy;
}

static void flat_closed(struct search *s, int64_t trial)
{
    (void)trial;
    fill(s);
}

static double flat_progress(const struct search *s)
{
    const struct flat *f = s->schedule;
    double full = (double)s->cfg->searcher.max_length.amount, done = 0;
    for (int64_t i = 1; i <= s->n_trials; i++) {
        const struct candidate *t = trial_at(s, i);
        if (t->flags & WAS_INVALID) continue;
        done += t->flags & IS_CLOSED ? 1 : full > 0 ? t->units / full : 0;
    }
    return done / (double)f->max_trials;
}

static void flat_plan(const struct exp_config *cfg, struct arena *arena, struct search_plan *out)
{
    struct plan_bracket *b = plan_add_bracket(out, arena, 1);
    b->n_trials = max_trials(cfg, arena);
    b->n_concurrent = max_open(cfg, b->n_trials);
    b->rungs.items[0] = (struct plan_rung){cfg->searcher.max_length.amount, b->n_trials};
}

const struct schedule flat_schedule = {
    .size = sizeof(struct flat),
    .init = flat_init,
    .start = fill,
    .go_on = fill,
    .validated = flat_validated,
    .exited = flat_exited,
    .closed = flat_closed,
    .progress = flat_progress,
    .plan = flat_plan,
};

static void random_draw(struct search *s, union hp_value *out)
{
    for (size_t i = 0; i < s->n_leaves; i++)
        out[i] = leaf_draw(s->leaves[i], &s->rng);
}

const struct sampler random_sampler = {.draw = random_draw};
