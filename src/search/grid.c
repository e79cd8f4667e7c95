// Unit grid.c: the sampler that walks through a grid, backwards: the last point is the first trial.
//
// A point is the number of its trial; so there is no state.
#include "search/method.h"

#include "base/assert.h"
#include <math.h>

static int64_t leaves_size(const struct hparam *const *leaves, size_t n)
{
    int64_t size = 1;
    for (size_t i = 0; i < n; i++)
        size *= hparam_grid_count(leaves[i]);
    return size;
}

int64_t grid_size(const struct exp_config *cfg, struct arena *arena)
{
    const struct hparam **leaves;
    size_t n = hparam_leaves(&cfg->hyperparameters, arena, &leaves);
    return leaves_size(leaves, n);
}

// Where point i of n is between min and max; a single point is in the middle.
static double between(double min, double max, int64_t i, int64_t n)
{
    return n == 1 ? (min + max) / 2 : min + (double)i * (max - min) / (double)(n - 1);
}

static union hp_value axis_value(const struct hparam *leaf, int64_t i)
{
    int64_t n = hparam_grid_count(leaf);
    switch (leaf->kind) {
    case HP_INT:
        return (union hp_value){.integer = (int64_t)round(between(
                                    (double)leaf->integer.min, (double)leaf->integer.max, i, n))};
    case HP_DOUBLE:
        return (union hp_value){.real = between(leaf->real.min, leaf->real.max, i, n)};
    case HP_LOG:
        return (union hp_value){
            .real = pow(leaf->log.base, between(leaf->log.min, leaf->log.max, i, n))};
    default:
        return (union hp_value){.integer = i};
    }
}

static void grid_draw(struct search *s, union hp_value *out)
{
    int64_t point = leaves_size(s->leaves, s->n_leaves) - 1 - s->n_trials;
    ASSERT(point >= 0);
    for (size_t i = s->n_leaves; i-- > 0;) { // the last axis varies fastest
        int64_t n = hparam_grid_count(s->leaves[i]);
        out[i] = axis_value(s->leaves[i], point % n);
        point /= n;
    }
}

const struct sampler grid_sampler = {.draw = grid_draw};
