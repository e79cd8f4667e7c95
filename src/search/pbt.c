// Unit pbt.c: the schedule of population-based training.
//
// All members of a population train for one round; then the worst make room for copies of the best,
// which continue from their checkpoints with changed hyperparameters.
//
// Jaderberg, Dalibard, Osindero, Czarnecki, Donahue, Razavi, Vinyals, Green, Dunning, Simonyan,
// Fernando, Kavukcuoglu: "Population based training of neural networks" (2017).
#include "search/method.h"

#include "base/assert.h"
#include <math.h>

struct member {
    int64_t trial;
    double loss;  // of the latest round
    int64_t gone; // has exited
};

struct pbt {
    struct member *members; // population_size
    size_t n;
    int64_t n_rounds; // completed
};

static void pbt_init(struct search *s)
{
    struct pbt *p = s->schedule;
    size_t n = (size_t)s->cfg->searcher.pbt.population_size;
    p->members = arena_array(&s->arena, n, sizeof *p->members);
}

static void train_round(struct search *s, int64_t trial)
{
    int64_t length;
    if (__builtin_mul_overflow(s->cfg->searcher.pbt.length_per_round.amount,
                               ++trial_at(s, trial)->rung, &length))
        length = INT64_MAX;
    search_train(s, trial, length);
}

static void pbt_start(struct search *s)
{
    struct pbt *p = s->schedule;
    for (; p->n < (size_t)s->cfg->searcher.pbt.population_size; p->n++) {
        p->members[p->n].trial = search_create(s);
        train_round(s, p->members[p->n].trial);
    }
}

static double clamp(double x, double min, double max)
{
    return x < min ? min : x > max ? max : x;
}

static union hp_value perturb(const struct hparam *leaf, union hp_value old, double factor,
                              bool shrink)
{
    double by = shrink ? 1 - factor : 1 + factor;
    switch (leaf->kind) {
    case HP_INT: {
        double x = (double)old.integer * by, low = (double)leaf->integer.min;
        x = shrink ? floor(x) : ceil(x);
        if (x <= low) return (union hp_value){.integer = leaf->integer.min};
        if (x >= (double)leaf->integer.max) return (union hp_value){.integer = leaf->integer.max};
        return (union hp_value){.integer = (int64_t)x};
    }
    case HP_DOUBLE:
        return (union hp_value){.real = clamp(old.real * by, leaf->real.min, leaf->real.max)};
    case HP_LOG: {
        double a = pow(leaf->log.base, leaf->log.min), b = pow(leaf->log.base, leaf->log.max);
        return (union hp_value){.real = clamp(old.real * by, MIN(a, b), MAX(a, b))};
    }
    default:
        return old;
    }
}

// The draws are those of Determined: two for every hyperparameter that is kept, constants too.
static int64_t create_copy(struct search *s, int64_t source)
{
    const struct pbt_config *cfg = &s->cfg->searcher.pbt;
    union hp_value *values = arena_array(&s->ops_arena, s->n_leaves, sizeof *values);
    for (size_t i = 0; i < s->n_leaves; i++) {
        if (mt_unit(&s->rng) < cfg->resample_probability)
            values[i] = leaf_draw(s->leaves[i], &s->rng);
        else
            values[i] = perturb(s->leaves[i], point_at(s, source)[i], cfg->perturb_factor,
                                mt_unit(&s->rng) < 0.5);
    }
    return search_create_copy(s, values, source);
}

static int by_rank(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->gone != y->gone) return x->gone ? 1 : -1;
    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

// The last n_drop members make room. Those that are gone are replaced too, so the population stays
// as large as it was.
static void replace(struct search *s, size_t n_drop)
{
    struct pbt *p = s->schedule;
    size_t n_keep = p->n - n_drop;
    ASSERT(n_keep > 0);
    for (size_t i = n_keep; i < p->n; i++)
        if (!p->members[i].gone) search_close(s, p->members[i].trial);
    for (size_t i = 0; i < n_drop; i++) {
        int64_t trial = create_copy(s, p->members[i % n_keep].trial);
        p->members[n_keep + i] = (struct member){.trial = trial};
        train_round(s, trial);
    }
    for (size_t i = 0; i < n_keep; i++)
        train_round(s, p->members[i].trial);
}

static void end_round(struct search *s)
{
    struct pbt *p = s->schedule;
    const struct pbt_config *cfg = &s->cfg->searcher.pbt;
    size_t n_gone = 0;
    qsort(p->members, p->n, sizeof *p->members, by_rank);
    for (size_t i = 0; i < p->n; i++)
        n_gone += p->members[i].gone != 0;
    if (n_gone == p->n) return;
    if (++p->n_rounds < cfg->num_rounds) {
        size_t n_worst = (size_t)(cfg->truncate_fraction * (double)cfg->population_size);
        replace(s, MAX(n_worst, n_gone));
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        if (!p->members[i].gone) search_close(s, p->members[i].trial);
}

static void set_result(struct search *s, int64_t trial, double loss)
{
    struct pbt *p = s->schedule;
    bool all_done = true;
    for (size_t i = 0; i < p->n; i++) {
        struct member *m = &p->members[i];
        const struct candidate *t = trial_at(s, m->trial);
        if (m->trial == trial) m->loss = loss;
        m->gone = !!(t->flags & HAS_EXITED);
        all_done = all_done && !(t->flags & IS_BUSY);
    }
    if (all_done) end_round(s);
}

// A member that exits between two rounds has its result already.
static void pbt_exited(struct search *s, int64_t trial, bool was_busy)
{
    if (was_busy) set_result(s, trial, LOSS_WORST);
}

static double pbt_progress(const struct search *s)
{
    const struct pbt_config *cfg = &s->cfg->searcher.pbt;
    return s->units / ((double)cfg->length_per_round.amount * (double)cfg->population_size *
                       (double)cfg->num_rounds);
}

static void pbt_snap(struct search *s, struct snap *io)
{
    struct pbt *p = s->schedule;
    const struct pbt_config *cfg = &s->cfg->searcher.pbt;
    struct member *m = p->members;
    p->n = snap_size(io, "n", p->n, (size_t)cfg->population_size);
    if (p->n != (s->started ? (size_t)cfg->population_size : 0))
        snap_fail(io, "the population is not complete");
    snap_int(io, "n_rounds", &p->n_rounds, 0, cfg->num_rounds);
    snap_ints(io, "trial", &m->trial, p->n, sizeof *m, 1, s->n_trials);
    snap_ints(io, "gone", &m->gone, p->n, sizeof *m, 0, 1);
    snap_doubles(io, "loss", &m->loss, p->n, sizeof *m);
}

// As if the first members were the best.
static void pbt_plan(const struct exp_config *cfg, struct arena *arena, struct search_plan *out)
{
    const struct pbt_config *p = &cfg->searcher.pbt;
    int64_t n_worst = (int64_t)(p->truncate_fraction * (double)p->population_size);
    int64_t n_short = n_worst * p->num_rounds, length;
    if (__builtin_mul_overflow(p->length_per_round.amount, p->num_rounds, &length))
        length = INT64_MAX;
    struct plan_bracket *b = plan_add_bracket(out, arena, 2);
    b->n_trials = p->population_size + n_worst * (p->num_rounds - 1);
    b->n_concurrent = p->population_size;
    b->rungs.items[0] = (struct plan_rung){p->length_per_round.amount, n_short};
    b->rungs.items[1] = (struct plan_rung){length, p->population_size - n_worst};
}

const struct schedule pbt_schedule = {
    .size = sizeof(struct pbt),
    .init = pbt_init,
    .start = pbt_start,
    .validated = set_result,
    .exited = pbt_exited,
    .progress = pbt_progress,
    .snap = pbt_snap,
    .plan = pbt_plan,
};
