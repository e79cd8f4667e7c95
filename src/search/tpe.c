// Unit tpe.c: the sampler that asks where good results have been more often than bad ones.
//
// Results are split into the good (the best gamma of them) and the rest. Both give a density: one
// kernel around each point, and a wide one for what was never tried. Candidates are drawn from the
// density of the good; the one for which it exceeds that of the others most becomes a trial. Trials
// that are still training count among the others, so that it is not proposed twice.
//
// Bergstra, Bardenet, Bengio, Kegl: "Algorithms for hyper-parameter optimization" (2011). Kernels
// over all hyperparameters at once, and results of the longest trainings that there are enough of:
// Falkner, Klein, Hutter: "BOHB" (2018).
#include "search/method.h"

#include "base/assert.h"
#include <math.h>

enum { MOST_GOOD = 25 };

struct result {
    int64_t trial, length;
    double loss;
};

struct tpe {
    struct result *results; // in the order of arrival
    size_t n, cap;
};

// A density over points: the mean of kernels. The last one is that of the unknown.
struct density {
    size_t n, n_leaves;
    double *centers;    // (n, n_leaves): units of numbers, indexes of categories
    double *widths;     // (n, n_leaves): of numbers
    double *log_height; // (n): of each kernel at its center, which truncation to [0, 1] raises
};

static void tpe_done(struct search *s)
{
    struct tpe *t = s->sampler;
    free(t->results);
}

static void tpe_told(struct search *s, int64_t trial, double loss)
{
    struct tpe *t = s->sampler;
    if (t->n == t->cap) {
        t->cap = MAX(64, 2 * t->cap);
        t->results = xrealloc(t->results, t->cap * sizeof *t->results);
    }
    t->results[t->n++] = (struct result){trial, trial_at(s, trial)->length, loss};
}

static int by_loss(const void *a, const void *b)
{
    const struct result *x = a, *y = b;
    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

// The results at the greatest length that has enough of them, best first; 0: there is none.
static size_t choose_results(struct search *s, struct result **out)
{
    const struct tpe *t = s->sampler;
    size_t n_enough = (size_t)MAX(1, s->cfg->searcher.tpe.n_startup_trials), n = 0;
    int64_t length = INT64_MAX;
    if (t->n < n_enough) return 0;
    while (n < n_enough && length >= 0) {
        int64_t next = -1;
        for (size_t i = 0; i < t->n; i++)
            if (t->results[i].length < length) next = MAX(next, t->results[i].length);
        length = next;
        n = 0;
        for (size_t i = 0; i < t->n; i++)
            n += t->results[i].length == length;
    }
    if (n < n_enough) return 0;
    *out = arena_array(&s->ops_arena, n, sizeof **out);
    n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->results[i].length == length) (*out)[n++] = t->results[i];
    qsort(*out, n, sizeof **out, by_loss);
    return n;
}

static void density_init(struct density *d, struct search *s, size_t n_most)
{
    *d = (struct density){.n_leaves = s->n_leaves};
    size_t n = n_most + 1;
    d->centers = arena_array(&s->ops_arena, n * s->n_leaves, sizeof *d->centers);
    d->widths = arena_array(&s->ops_arena, n * s->n_leaves, sizeof *d->widths);
    d->log_height = arena_array(&s->ops_arena, n, sizeof *d->log_height);
}

static void density_add(struct density *d, const struct search *s, int64_t trial)
{
    const union hp_value *point = point_at(s, trial);
    double *center = d->centers + d->n++ * d->n_leaves;
    for (size_t i = 0; i < d->n_leaves; i++)
        center[i] = leaf_is_numeric(s->leaves[i]) ? leaf_to_unit(s->leaves[i], point[i])
                                                  : (double)point[i].integer;
}

static double normal_below(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752);
}

struct place {
    double x;
    size_t kernel;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->x != y->x) return x->x < y->x ? -1 : 1;
    return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

// A kernel is half as wide as the greater gap to its neighbours: narrow where points are dense.
static void set_widths(struct density *d, size_t leaf, struct place *places)
{
    const double narrowest = 1 / MIN(100, (double)d->n);
    for (size_t k = 0; k < d->n; k++)
        places[k] = (struct place){d->centers[k * d->n_leaves + leaf], k};
    qsort(places, d->n, sizeof *places, by_place);
    for (size_t i = 0; i < d->n; i++) {
        double left = i ? places[i].x - places[i - 1].x : 0;
        double right = i + 1 < d->n ? places[i + 1].x - places[i].x : 0;
        size_t k = places[i].kernel;
        bool is_last = k + 1 == d->n;
        double width = is_last ? 1 : MAX(MAX(left, right) / 2, narrowest);
        double c = places[i].x;
        d->widths[k * d->n_leaves + leaf] = width;
        d->log_height[k] -= log(width * (normal_below((1 - c) / width) - normal_below(-c / width)));
    }
}

// With all centers there, adds the kernel of the unknown and sets the widths.
static void density_finish(struct density *d, struct search *s)
{
    double *center = d->centers + d->n++ * d->n_leaves;
    struct place *places = arena_array(&s->ops_arena, d->n, sizeof *places);
    for (size_t i = 0; i < d->n_leaves; i++)
        center[i] = leaf_is_numeric(s->leaves[i]) ? 0.5 : -1;
    for (size_t i = 0; i < d->n_leaves; i++)
        if (leaf_is_numeric(s->leaves[i])) set_widths(d, i, places);
}

// The probability of a category: mostly that of the center, the more so the more kernels there are.
static double category_chance(const struct density *d, double center, double category, size_t n)
{
    double share = 1 / (double)d->n;
    if (center < 0) return 1 / (double)n;
    return (share + (center == category)) / (1 + share * (double)n);
}

static double log_density(const struct density *d, const struct search *s, const double *x,
                          double *scratch)
{
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < d->n; k++) {
        const double *center = d->centers + k * d->n_leaves;
        const double *width = d->widths + k * d->n_leaves;
        double far = 0, chance = 1;
        for (size_t i = 0; i < d->n_leaves; i++) {
            if (leaf_is_numeric(s->leaves[i]))
                far += pow((x[i] - center[i]) / width[i], 2);
            else if (s->leaves[i]->kind == HP_CATEGORICAL)
                chance *= category_chance(d, center[i], x[i], s->leaves[i]->categorical.n);
        }
        scratch[k] = d->log_height[k] - far / 2 + log(chance);
        most = MAX(most, scratch[k]);
    }
    for (size_t k = 0; k < d->n; k++)
        sum += exp(scratch[k] - most);
    return most + log(sum / (double)d->n);
}

static double draw_inside(struct mt *rng, double center, double width)
{
    double x;
    do
        x = center + width * mt_normal(rng);
    while (x < 0 || x > 1);
    return x;
}

static double draw_category(const struct density *d, struct mt *rng, double center, size_t n)
{
    double u = mt_unit(rng), category = 0;
    for (; category + 1 < (double)n; category++) {
        u -= category_chance(d, center, category, n);
        if (u < 0) break;
    }
    return category;
}

// A candidate: as values, and as the point they are at.
static void draw_candidate(const struct density *d, struct search *s, union hp_value *values,
                           double *x)
{
    size_t k = mt_upto(&s->rng, d->n - 1);
    const double *center = d->centers + k * d->n_leaves, *width = d->widths + k * d->n_leaves;
    for (size_t i = 0; i < d->n_leaves; i++) {
        const struct hparam *leaf = s->leaves[i];
        if (leaf_is_numeric(leaf)) {
            values[i] = leaf_from_unit(leaf, draw_inside(&s->rng, center[i], width[i]));
            x[i] = leaf_to_unit(leaf, values[i]);
        } else if (leaf->kind == HP_CATEGORICAL) {
            x[i] = draw_category(d, &s->rng, center[i], leaf->categorical.n);
            values[i].integer = (int64_t)x[i];
        }
    }
}

static void draw_best(struct search *s, const struct density *good, const struct density *others,
                      union hp_value *out)
{
    struct arena *arena = &s->ops_arena;
    union hp_value *values = arena_array(arena, s->n_leaves, sizeof *values);
    double *x = arena_array(arena, s->n_leaves, sizeof *x), best = -INFINITY;
    double *scratch = arena_array(arena, MAX(good->n, others->n), sizeof *scratch);
    for (int64_t i = 0; i < s->cfg->searcher.tpe.n_ei_candidates; i++) {
        draw_candidate(good, s, values, x);
        double gain = log_density(good, s, x, scratch) - log_density(others, s, x, scratch);
        if (i && !(gain > best)) continue;
        best = gain;
        memcpy(out, values, s->n_leaves * sizeof *out);
    }
}

static void tpe_draw(struct search *s, union hp_value *out)
{
    struct result *results;
    size_t n = choose_results(s, &results);
    if (!n) {
        random_sampler.draw(s, out);
        return;
    }
    size_t n_good = (size_t)ceil(s->cfg->searcher.tpe.gamma * (double)n);
    n_good = MAX(1, MIN(n_good, MIN(n, MOST_GOOD)));
    struct density good, others;
    density_init(&good, s, n_good);
    density_init(&others, s, n - n_good + (size_t)s->n_trials);
    for (size_t i = 0; i < n; i++)
        density_add(i < n_good ? &good : &others, s, results[i].trial);
    for (int64_t trial = 1; trial <= s->n_trials; trial++)
        if (trial_at(s, trial)->flags & IS_BUSY) density_add(&others, s, trial);
    density_finish(&good, s);
    density_finish(&others, s);
    draw_best(s, &good, &others, out);
}

static void tpe_snap(struct search *s, struct snap *io)
{
    struct tpe *t = s->sampler;
    size_t n = snap_size(io, "n", t->n, (size_t)s->n_trials * 64);
    if (!t->results) {
        t->results = xcalloc(n + 1, sizeof *t->results);
        t->n = t->cap = n;
    }
    struct result *r = t->results;
    snap_ints(io, "trial", &r->trial, n, sizeof *r, 1, s->n_trials);
    snap_ints(io, "length", &r->length, n, sizeof *r, 0, INT64_MAX);
    snap_doubles(io, "loss", &r->loss, n, sizeof *r);
}

const struct sampler tpe_sampler = {
    .size = sizeof(struct tpe),
    .done = tpe_done,
    .draw = tpe_draw,
    .told = tpe_told,
    .snap = tpe_snap,
};
