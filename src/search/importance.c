// Unit importance.c: search_importance(): trials as numbers, for forest.c.
#include "search/method.h"

#include "search/forest.h"
#include <math.h>

enum { MIN_TRIALS = 4, MAX_TRIALS = 2000, MAX_FEATURES = 64 };

// The value of a leaf among the hyperparameters of a trial.
static const struct doc *find_value(const struct doc *hparams, const struct hparam *leaf)
{
    if (!leaf->name) return hparams;
    return doc_find(leaf->parent ? find_value(hparams, leaf->parent) : hparams, leaf->name);
}

static size_t n_values_of(const struct hparam *leaf)
{
    bool is_category = leaf->kind == HP_CATEGORICAL && leaf->categorical.n <= FOREST_MAX_VALUES;
    return is_category ? leaf->categorical.n : 0;
}

// False if the trial has something else there than the search could have drawn.
static bool read_value(const struct hparam *leaf, const struct doc *value, double *out)
{
    union hp_value v;
    if (!value) return false;
    if (leaf->kind == HP_CATEGORICAL) {
        size_t i = 0;
        while (i < leaf->categorical.n && !doc_equal(leaf->categorical.vals[i], value))
            i++;
        *out = n_values_of(leaf) ? (double)i : ((double)i + 0.5) / (double)leaf->categorical.n;
        return i < leaf->categorical.n;
    }
    bool good = leaf->kind == HP_INT ? doc_integer(value, &v.integer) : doc_number(value, &v.real);
    if (!good || (leaf->kind == HP_LOG && !(v.real > 0))) return false;
    *out = leaf_to_unit(leaf, v);
    return true;
}

// Leaves that can differ between trials.
static size_t varied_leaves(const struct exp_config *cfg, struct arena *arena,
                            const struct hparam ***out)
{
    size_t n = hparam_leaves(&cfg->hyperparameters, arena, out), n_varied = 0;
    for (size_t i = 0; i < n && n_varied < MAX_FEATURES; i++) {
        const struct hparam *leaf = (*out)[i];
        bool is_category = leaf->kind == HP_CATEGORICAL && leaf->categorical.n > 1;
        if (is_category || leaf_is_numeric(leaf)) (*out)[n_varied++] = leaf;
    }
    return n_varied;
}

struct table {
    const struct hparam **leaves;
    size_t n_leaves, n;
    double *rows; // (n, n_leaves)
    double *y;
};

static void read_trial(struct table *t, const struct importance_trial *trial)
{
    double *row = t->rows + t->n * t->n_leaves;
    if (!isfinite(trial->metric)) return;
    for (size_t f = 0; f < t->n_leaves; f++)
        if (!read_value(t->leaves[f], find_value(trial->hparams, t->leaves[f]), &row[f])) return;
    t->y[t->n++] = trial->metric;
}

// Sums of squares are only as exact as the values are near 0; the shares do not depend on the unit.
static void normalise(double *y, size_t n)
{
    double mean = 0, most = 0;
    for (size_t i = 0; i < n; i++)
        mean += y[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(y[i] - mean));
    for (size_t i = 0; i < n; i++)
        y[i] = most > 0 ? (y[i] - mean) / most : 0;
}

// The greatest first; equal ones stay as they are. They are few.
static void sort_shares(struct importance *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct importance one = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].share < one.share; at--)
            items[at] = items[at - 1];
        items[at] = one;
    }
}

static void ask_forest(const struct table *t, struct arena *arena, struct importance_list *out)
{
    size_t d = t->n_leaves, *n_values = arena_array(arena, d, sizeof *n_values);
    double *x = arena_array(arena, d * t->n, sizeof *x);
    double *shares = arena_array(arena, d, sizeof *shares), sum = 0;
    for (size_t f = 0; f < d; f++) {
        n_values[f] = n_values_of(t->leaves[f]);
        for (size_t i = 0; i < t->n; i++)
            x[f * t->n + i] = t->rows[i * d + f];
    }
    const struct forest_data data = {t->n, d, x, n_values, t->y};
    forest_shares(&data, 1, shares);
    out->n_trials = t->n;
    out->items.items = arena_array(arena, d, sizeof *out->items.items);
    for (size_t f = 0; f < d; f++) {
        sum += shares[f];
        out->items.items[f] =
            (struct importance){hparam_path(t->leaves[f], arena), fmin(1, shares[f])};
    }
    if (sum > 0) out->items.n = d;
    sort_shares(out->items.items, out->items.n);
}

void search_importance(const struct exp_config *cfg, const struct importance_trial *trials,
                       size_t n, struct arena *arena, struct importance_list *out)
{
    struct table t = {0};
    size_t step = n / MAX_TRIALS + 1;
    *out = (struct importance_list){0};
    t.n_leaves = varied_leaves(cfg, arena, &t.leaves);
    if (!t.n_leaves) return;
    t.rows = arena_array(arena, (n / step + 1) * t.n_leaves, sizeof *t.rows);
    t.y = arena_array(arena, n / step + 1, sizeof *t.y);
    for (size_t i = 0; i < n; i += step)
        read_trial(&t, &trials[i]);
    if (t.n < MIN_TRIALS) return;
    normalise(t.y, t.n);
    ask_forest(&t, arena, out);
}
