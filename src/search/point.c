// Unit point.c: values of hyperparameters: drawn, as documents, as positions in [0, 1]. Called by
// search.c and the samplers.
#include "search/method.h"

#include "base/assert.h"
#include <math.h>

union hp_value leaf_draw(const struct hparam *leaf, struct mt *rng)
{
    switch (leaf->kind) {
    case HP_INT: {
        uint64_t min = (uint64_t)leaf->integer.min, span = (uint64_t)leaf->integer.max - min;
        return (union hp_value){.integer = (int64_t)(min + mt_upto(rng, span))};
    }
    case HP_DOUBLE:
        return (union hp_value){.real = mt_uniform(rng, leaf->real.min, leaf->real.max)};
    case HP_LOG:
        return (union hp_value){
            .real = pow(leaf->log.base, mt_uniform(rng, leaf->log.min, leaf->log.max))};
    case HP_CATEGORICAL:
        return (union hp_value){.integer = (int64_t)mt_upto(rng, leaf->categorical.n - 1)};
    case HP_CONST:
    case HP_GROUP:
        break;
    }
    return (union hp_value){0};
}

static const struct doc *value_to_doc(const struct hparam *leaf, union hp_value value,
                                      struct arena *arena)
{
    switch (leaf->kind) {
    case HP_INT:
        return doc_new_int(arena, value.integer);
    case HP_DOUBLE:
    case HP_LOG:
        return doc_new_double(arena, value.real);
    case HP_CATEGORICAL:
        return leaf->categorical.vals[value.integer];
    case HP_CONST:
    case HP_GROUP:
        break;
    }
    return leaf->constant;
}

struct doc *point_to_doc(const struct search *s, const union hp_value *values, struct arena *arena)
{
    const struct doc **docs = arena_array(arena, s->n_leaves, sizeof *docs);
    for (size_t i = 0; i < s->n_leaves; i++)
        docs[i] = value_to_doc(s->leaves[i], values[i], arena);
    return hparam_assemble(&s->cfg->hyperparameters, docs, arena);
}

bool leaf_is_numeric(const struct hparam *leaf)
{
    return leaf->kind == HP_INT || leaf->kind == HP_DOUBLE || leaf->kind == HP_LOG;
}

// The ends of the range in the scale in which it is searched, and a value in that scale.
static double leaf_low(const struct hparam *leaf)
{
    return leaf->kind == HP_INT      ? (double)leaf->integer.min - 0.5
           : leaf->kind == HP_DOUBLE ? leaf->real.min
                                     : leaf->log.min;
}

static double leaf_high(const struct hparam *leaf)
{
    return leaf->kind == HP_INT      ? (double)leaf->integer.max + 0.5
           : leaf->kind == HP_DOUBLE ? leaf->real.max
                                     : leaf->log.max;
}

static double leaf_scale(const struct hparam *leaf, union hp_value value)
{
    return leaf->kind == HP_INT      ? (double)value.integer
           : leaf->kind == HP_DOUBLE ? value.real
                                     : log(value.real) / log(leaf->log.base);
}

double leaf_to_unit(const struct hparam *leaf, union hp_value value)
{
    ASSERT(leaf_is_numeric(leaf));
    double low = leaf_low(leaf), unit = (leaf_scale(leaf, value) - low) / (leaf_high(leaf) - low);
    return unit > 0 ? MIN(unit, 1) : 0;
}

union hp_value leaf_from_unit(const struct hparam *leaf, double unit)
{
    ASSERT(leaf_is_numeric(leaf));
    double low = leaf_low(leaf), x = low + (leaf_high(leaf) - low) * unit;
    if (leaf->kind == HP_DOUBLE) return (union hp_value){.real = x};
    if (leaf->kind == HP_LOG) return (union hp_value){.real = pow(leaf->log.base, x)};
    x = round(x);
    if (x <= (double)leaf->integer.min) return (union hp_value){.integer = leaf->integer.min};
    if (x >= (double)leaf->integer.max) return (union hp_value){.integer = leaf->integer.max};
    return (union hp_value){.integer = (int64_t)x};
}
