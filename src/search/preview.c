// Unit preview.c: search_preview(): what a search does if all goes well; search_describe(): what it
// has done so far.
#include "search/method.h"

struct plan_bracket *plan_add_bracket(struct search_plan *plan, struct arena *arena, size_t n_rungs)
{
    size_t n = plan->brackets.n;
    struct plan_bracket *items = plan->brackets.items;
    if (!(n & (n - 1))) { // full: 0, 1, 2, 4, 8 ... were made room for
        items = arena_array(arena, n ? 2 * n : 1, sizeof *items);
        if (n) memcpy(items, plan->brackets.items, n * sizeof *items);
        plan->brackets.items = items;
    }
    struct plan_bracket *b = &items[plan->brackets.n++];
    b->rungs.items = arena_array(arena, n_rungs, sizeof *b->rungs.items);
    b->rungs.n = n_rungs;
    return b;
}

static int by_length(const void *a, const void *b)
{
    const struct plan_rung *x = a, *y = b;
    return (x->length > y->length) - (x->length < y->length);
}

static void sum_up(struct search_plan *plan, struct arena *arena)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->brackets.n; i++)
        n += plan->brackets.items[i].rungs.n;
    struct plan_rung *all = arena_array(arena, n, sizeof *all);
    n = 0;
    for (size_t i = 0; i < plan->brackets.n; i++) {
        const struct plan_bracket *b = &plan->brackets.items[i];
        plan->n_trials += b->n_trials;
        memcpy(all + n, b->rungs.items, b->rungs.n * sizeof *all);
        n += b->rungs.n;
    }
    qsort(all, n, sizeof *all, by_length);
    plan->lengths.items = all;
    for (size_t i = 0; i < n; i++) {
        if (!all[i].n_trials) continue;
        plan->units += (double)all[i].length * (double)all[i].n_trials;
        struct plan_rung *last = plan->lengths.n ? &all[plan->lengths.n - 1] : NULL;
        if (last && last->length == all[i].length)
            last->n_trials += all[i].n_trials;
        else
            all[plan->lengths.n++] = all[i];
    }
}

const char *search_unit(const struct exp_config *cfg)
{
    const struct searcher_config *s = &cfg->searcher;
    if (s->max_length.unit == LENGTH_TIME) return s->time_metric;
    enum length_unit unit = s->kind == SEARCHER_PBT      ? s->pbt.length_per_round.unit
                            : s->kind == SEARCHER_CUSTOM ? s->custom.unit
                                                         : s->max_length.unit;
    return length_unit_name(unit == LENGTH_NONE ? LENGTH_UNITS : unit);
}

int search_preview(const struct exp_config *cfg, struct arena *arena, struct search_plan *out,
                   det_err *err)
{
    const struct schedule *schedule = method_of(cfg->searcher.kind)->schedule;
    if (!schedule->plan)
        return det_fail(err, DET_EUNSUPPORTED, "what a %s search does is known only to its program",
                        searcher_kind_name(cfg->searcher.kind));
    *out = (struct search_plan){0};
    schedule->plan(cfg, arena, out);
    sum_up(out, arena);
    return det_ok(err);
}

static const char *const decision_names[] = {
    [SEARCH_RUNS] = "running",  [SEARCH_WAITS] = "waiting",     [SEARCH_GOES_ON] = "promoted",
    [SEARCH_STOPS] = "stopped", [SEARCH_FINISHES] = "finished",
};

const char *search_decision_name(enum search_decision decision)
{
    return decision_names[decision];
}

void search_describe(const struct search *s, struct arena *arena, struct search_view *out)
{
    const struct schedule *schedule = s->method->schedule;
    *out = (struct search_view){0};
    if (schedule->describe) schedule->describe(s, arena, out);
}

bool search_has_rungs(const struct exp_config *cfg)
{
    return method_of(cfg->searcher.kind)->schedule->describe;
}
