// Unit cmaes.c: the sampler that moves and shapes a normal distribution: CMA-ES.
//
// Numbers are searched in [0, 1]; categories are drawn evenly. A generation is over when population
// many results are there, whichever distribution they were drawn from: with many trials at a time,
// late ones are not lost. What lies too far off the present distribution is pulled closer.
//
// Hansen: "The CMA evolution strategy: a tutorial" (2016), its equations and constants, with
// negative weights. Late results: Hansen: "Injecting external solutions into CMA-ES" (2011).
#include "search/method.h"

#include "base/assert.h"
#include "search/eigen.h"
#include <math.h>

struct cma_result {
    int64_t trial;
    double loss;
};

struct cmaes {
    // Constant.
    size_t n, population, n_best; // n: dimensions
    size_t *leaves;               // (n) where they are
    double *weights;              // (population) by rank
    double mass;                  // effective number of the best
    double rate_mean, rate_path, rate_one, rate_rank, damping, mean_norm;
    // The distribution.
    int64_t n_generations;
    double sigma;
    double *mean, *path, *sigma_path; // (n)
    double *covariance;               // (n, n)
    double *axes, *lengths;           // (n, n), (n): of the covariance
    struct cma_result *results;       // (population) of this generation
    size_t n_results;
};

static double sum_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static double norm_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static double mass_of(const double *weights, size_t n)
{
    double sum = sum_of(weights, n), norm = norm_of(weights, n);
    return n ? sum * sum / (norm * norm) : 0;
}

// Table 1 of the tutorial.
static void set_constants(struct cmaes *c)
{
    double n = (double)c->n, population = (double)c->population;
    for (size_t i = 0; i < c->population; i++)
        c->weights[i] = log((population + 1) / 2) - log((double)i + 1);
    c->n_best = c->population / 2;
    size_t n_rest = c->population - c->n_best;
    double *rest = c->weights + c->n_best, mass = mass_of(c->weights, c->n_best);
    double mass_rest = mass_of(rest, n_rest), squared = (n + 1.3) * (n + 1.3);
    c->mass = mass;
    c->rate_one = 2 / (squared + mass);
    c->rate_rank =
        MIN(1 - c->rate_one - 1e-8, 2 * (mass - 2 + 1 / mass) / ((n + 2) * (n + 2) + mass));
    c->rate_mean = (mass + 2) / (n + mass + 5);
    c->damping = 1 + 2 * fmax(0, sqrt((mass - 1) / (n + 1)) - 1) + c->rate_mean;
    c->rate_path = (4 + mass / n) / (n + 4 + 2 * mass / n);
    c->mean_norm = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
    double positive = sum_of(c->weights, c->n_best), negative = -sum_of(rest, n_rest);
    double least = fmin(1 + c->rate_one / c->rate_rank, 1 + 2 * mass_rest / (mass + 2));
    least = fmin(least, (1 - c->rate_one - c->rate_rank) / (n * c->rate_rank));
    for (size_t i = 0; i < c->population; i++)
        c->weights[i] *= i < c->n_best ? 1 / positive : negative > 0 ? least / negative : 0;
}

static void set_axes(struct cmaes *c, struct arena *arena)
{
    double *copy = arena_array(arena, c->n * c->n, sizeof *copy);
    memcpy(copy, c->covariance, c->n * c->n * sizeof *copy);
    eigen_symmetric(c->n, copy, c->lengths, c->axes);
    for (size_t i = 0; i < c->n; i++)
        c->lengths[i] = sqrt(fmax(c->lengths[i], 1e-20));
}

static void reset(struct cmaes *c, double sigma)
{
    c->sigma = sigma;
    c->n_generations = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->mean[i] = 0.5;
        c->path[i] = c->sigma_path[i] = 0;
        c->lengths[i] = 1;
    }
    for (size_t i = 0; i < c->n * c->n; i++)
        c->covariance[i] = c->axes[i] = i % (c->n + 1) == 0;
}

static void cmaes_init(struct search *s)
{
    struct cmaes *c = s->sampler;
    const struct cmaes_config *cfg = &s->cfg->searcher.cmaes;
    c->leaves = arena_array(&s->arena, s->n_leaves, sizeof *c->leaves);
    for (size_t i = 0; i < s->n_leaves; i++)
        if (leaf_is_numeric(s->leaves[i])) c->leaves[c->n++] = i;
    if (!c->n) return; // nothing to learn
    size_t usual = 4 + (size_t)(3 * log((double)c->n));
    c->population = cfg->population_size.is_set ? (size_t)cfg->population_size.value : usual;
    double *all = arena_array(&s->arena, c->population + 4 * c->n + 2 * c->n * c->n, sizeof *all);
    c->weights = all;
    c->mean = c->weights + c->population;
    c->path = c->mean + c->n;
    c->sigma_path = c->path + c->n;
    c->lengths = c->sigma_path + c->n;
    c->covariance = c->lengths + c->n;
    c->axes = c->covariance + c->n * c->n;
    c->results = arena_array(&s->arena, c->population, sizeof *c->results);
    set_constants(c);
    reset(c, cfg->sigma0);
}

// out = axes * diag(lengths) * x: gives white noise the shape of the covariance
static void stretch(const struct cmaes *c, const double *x, double *out)
{
    for (size_t i = 0; i < c->n; i++) {
        out[i] = 0;
        for (size_t k = 0; k < c->n; k++)
            out[i] += c->axes[i * c->n + k] * c->lengths[k] * x[k];
    }
}

// out = covariance^(-1/2) * x
static void whiten(const struct cmaes *c, const double *x, double *out)
{
    for (size_t i = 0; i < c->n; i++)
        out[i] = 0;
    for (size_t k = 0; k < c->n; k++) {
        double along = 0;
        for (size_t i = 0; i < c->n; i++)
            along += c->axes[i * c->n + k] * x[i];
        for (size_t i = 0; i < c->n; i++)
            out[i] += c->axes[i * c->n + k] * along / c->lengths[k];
    }
}

enum { MOST_DRAWS = 100 };

// A point inside; after many draws that are not, the last one moved to the edge.
static void draw_point(const struct cmaes *c, struct mt *rng, double *normal, double *x)
{
    bool inside = false;
    for (int draw = 0; draw < MOST_DRAWS && !inside; draw++) {
        for (size_t i = 0; i < c->n; i++)
            normal[i] = mt_normal(rng);
        stretch(c, normal, x);
        inside = true;
        for (size_t i = 0; i < c->n; i++) {
            x[i] = c->mean[i] + c->sigma * x[i];
            inside = inside && x[i] >= 0 && x[i] <= 1;
        }
    }
    for (size_t i = 0; i < c->n; i++)
        x[i] = fmin(fmax(x[i], 0), 1);
}

static void cmaes_draw(struct search *s, union hp_value *out)
{
    const struct cmaes *c = s->sampler;
    double *x = arena_array(&s->ops_arena, 2 * c->n, sizeof *x);
    if (c->n) draw_point(c, &s->rng, x + c->n, x);
    for (size_t i = 0; i < s->n_leaves; i++)
        if (!leaf_is_numeric(s->leaves[i])) out[i] = leaf_draw(s->leaves[i], &s->rng);
    for (size_t i = 0; i < c->n; i++)
        out[c->leaves[i]] = leaf_from_unit(s->leaves[c->leaves[i]], x[i]);
}

static int by_loss(const void *a, const void *b)
{
    const struct cma_result *x = a, *y = b;
    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

// The steps from the mean to the results, best first, in units of sigma: (population, n), and how
// far each is in the present shape.
static void set_steps(const struct search *s, double *steps, double *norms, double *scratch)
{
    const struct cmaes *c = s->sampler;
    const double n = (double)c->n, far = sqrt(n) + 2 * n / (n + 2);
    for (size_t k = 0; k < c->population; k++) {
        const union hp_value *point = point_at(s, c->results[k].trial);
        double *step = steps + k * c->n;
        for (size_t i = 0; i < c->n; i++)
            step[i] = (leaf_to_unit(s->leaves[c->leaves[i]], point[c->leaves[i]]) - c->mean[i]) /
                      c->sigma;
        whiten(c, step, scratch);
        norms[k] = norm_of(scratch, c->n);
        for (size_t i = 0; norms[k] > far && i < c->n; i++)
            step[i] *= far / norms[k];
        norms[k] = fmin(norms[k], far);
    }
}

// Moves the mean, and the paths of the moves; returns whether the step size is not growing fast.
static bool move(struct cmaes *c, const double *steps, double *scratch)
{
    double *shift = scratch, *white = scratch + c->n;
    for (size_t i = 0; i < c->n; i++) {
        shift[i] = 0;
        for (size_t k = 0; k < c->n_best; k++)
            shift[i] += c->weights[k] * steps[k * c->n + i];
        c->mean[i] += c->sigma * shift[i];
    }
    whiten(c, shift, white);
    double keep = 1 - c->rate_mean, gain = sqrt(c->rate_mean * (2 - c->rate_mean) * c->mass);
    for (size_t i = 0; i < c->n; i++)
        c->sigma_path[i] = keep * c->sigma_path[i] + gain * white[i];
    double norm = norm_of(c->sigma_path, c->n);
    double converged = sqrt(1 - pow(keep, 2.0 * (double)c->n_generations));
    bool calm = norm / converged < (1.4 + 2 / ((double)c->n + 1)) * c->mean_norm;
    gain = calm ? sqrt(c->rate_path * (2 - c->rate_path) * c->mass) : 0;
    for (size_t i = 0; i < c->n; i++)
        c->path[i] = (1 - c->rate_path) * c->path[i] + gain * shift[i];
    c->sigma *= exp(c->rate_mean / c->damping * (norm / c->mean_norm - 1));
    return calm;
}

static void reshape(struct cmaes *c, const double *steps, const double *norms, bool calm)
{
    double lost = calm ? 0 : c->rate_one * c->rate_path * (2 - c->rate_path);
    double keep = 1 + lost - c->rate_one - c->rate_rank * sum_of(c->weights, c->population);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k < c->population; k++) {
                double w = c->weights[k], norm = fmax(norms[k], 1e-8);
                if (w < 0) w *= (double)c->n / (norm * norm);
                sum += w * steps[k * c->n + i] * steps[k * c->n + j];
            }
            double value = keep * c->covariance[i * c->n + j] +
                           c->rate_one * c->path[i] * c->path[j] + c->rate_rank * sum;
            c->covariance[i * c->n + j] = c->covariance[j * c->n + i] = value;
        }
}

// A distribution that has become a point, or is about to become infinite, starts again, elsewhere.
static bool is_alive(const struct cmaes *c)
{
    double widest = 0, narrowest = INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        widest = fmax(widest, c->lengths[i]);
        narrowest = fmin(narrowest, c->lengths[i]);
    }
    return isfinite(widest) && isfinite(c->sigma) && c->sigma * widest > 1e-11 &&
           c->sigma * widest < 1e3 && widest / narrowest < 1e7;
}

static void end_generation(struct search *s)
{
    struct cmaes *c = s->sampler;
    struct arena arena = ARENA_INIT;
    double *steps = arena_array(&arena, (c->n + 1) * c->population + 2 * c->n, sizeof *steps);
    double *norms = steps + c->n * c->population, *scratch = norms + c->population;
    qsort(c->results, c->population, sizeof *c->results, by_loss);
    c->n_results = 0;
    c->n_generations++;
    set_steps(s, steps, norms, scratch);
    reshape(c, steps, norms, move(c, steps, scratch));
    set_axes(c, &arena);
    if (!is_alive(c)) {
        reset(c, s->cfg->searcher.cmaes.sigma0);
        for (size_t i = 0; i < c->n; i++)
            c->mean[i] = mt_unit(&s->rng);
    }
    arena_done(&arena);
}

static void cmaes_told(struct search *s, int64_t trial, double loss)
{
    struct cmaes *c = s->sampler;
    if (!c->n) return;
    c->results[c->n_results++] = (struct cma_result){trial, loss};
    if (c->n_results == c->population) end_generation(s);
}

static void cmaes_snap(struct search *s, struct snap *io)
{
    struct cmaes *c = s->sampler;
    struct cma_result *r = c->results;
    if (!c->n) return;
    c->n_results = snap_size(io, "n", c->n_results, c->population - 1);
    snap_ints(io, "trial", &r->trial, c->n_results, sizeof *r, 1, s->n_trials);
    snap_doubles(io, "loss", &r->loss, c->n_results, sizeof *r);
    snap_int(io, "n_generations", &c->n_generations, 0, INT64_MAX / 2);
    snap_double(io, "sigma", &c->sigma);
    snap_doubles(io, "mean", c->mean, c->n, sizeof *c->mean);
    snap_doubles(io, "path", c->path, c->n, sizeof *c->path);
    snap_doubles(io, "sigma_path", c->sigma_path, c->n, sizeof *c->sigma_path);
    snap_doubles(io, "covariance", c->covariance, c->n * c->n, sizeof *c->covariance);
    if (io->out || io->rc) return;
    struct arena arena = ARENA_INIT;
    if (c->n_generations) set_axes(c, &arena); // the axes of the first are as they were set
    arena_done(&arena);
}

const struct sampler cmaes_sampler = {
    .size = sizeof(struct cmaes),
    .init = cmaes_init,
    .draw = cmaes_draw,
    .told = cmaes_told,
    .snap = cmaes_snap,
};
