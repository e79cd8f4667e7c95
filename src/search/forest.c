// Unit forest.c: bagged regression trees, and their analysis of variance. Called by importance.c.
//
// A tree divides the space into boxes, in each of which it predicts one value. So what it predicts
// on average over all but one feature is a step function of that one, and its variance is a sum.
#include "search/forest.h"

#include "base/mem.h"
#include "base/rng.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N_TREES = 64, MAX_DEPTH = 64 };

// One feature of a box: an interval, or a set of values.
struct side {
    double low, high;
    uint64_t values;
};

struct leaf {
    double value;
    double volume; // share of the space
};

struct tree {
    const struct forest_data *data;
    uint64_t seed, stream, n_drawn;
    size_t *rows;     // (n): the rows drawn for this tree
    size_t *order;    // (n_features, n): places in rows, by feature
    size_t *scratch;  // (n)
    bool *goes_left;  // (n), by place
    size_t *features; // (n_features): in the order in which they are tried
    struct side *box; // (n_features): of the node that is being divided
    struct leaf *leaves;
    struct side *boxes; // (n_leaves, n_features)
    size_t n_leaves;
};

struct split {
    double gain;
    size_t feature;
    double at; // numbers up to this go left; or the one value that does
    bool is_value;
};

static double x_at(const struct tree *t, size_t feature, size_t place)
{
    return t->data->x[feature * t->data->n + t->rows[place]];
}

static double y_at(const struct tree *t, size_t place)
{
    return t->data->y[t->rows[place]];
}

static double gain_of(double left, size_t n_left, double right, size_t n_right)
{
    return left * left / (double)n_left + right * right / (double)n_right;
}

// Between two numbers of the node.
static void try_number(const struct tree *t, size_t feature, size_t begin, size_t end, double sum,
                       struct split *best)
{
    const size_t *order = t->order + feature * t->data->n;
    double left = 0;
    for (size_t i = begin; i + 1 < end; i++) {
        double x = x_at(t, feature, order[i]), next = x_at(t, feature, order[i + 1]);
        left += y_at(t, order[i]);
        if (x == next) continue;
        double gain = gain_of(left, i + 1 - begin, sum - left, end - i - 1);
        if (gain > best->gain) *best = (struct split){gain, feature, (x + next) / 2, false};
    }
}

// Between one value and the others.
static void try_values(const struct tree *t, size_t feature, size_t begin, size_t end, double sum,
                       struct split *best)
{
    const size_t *order = t->order + feature * t->data->n;
    double sums[FOREST_MAX_VALUES] = {0};
    size_t counts[FOREST_MAX_VALUES] = {0};
    for (size_t i = begin; i < end; i++) {
        size_t value = (size_t)x_at(t, feature, order[i]);
        sums[value] += y_at(t, order[i]);
        counts[value]++;
    }
    for (size_t v = 0; v < t->data->n_values[feature]; v++) {
        if (!counts[v] || counts[v] == end - begin) continue;
        double gain = gain_of(sums[v], counts[v], sum - sums[v], end - begin - counts[v]);
        if (gain > best->gain) *best = (struct split){gain, feature, (double)v, true};
    }
}

// Where few rows are left many features divide them equally well; none of them may be preferred.
static void shuffle_features(struct tree *t)
{
    for (size_t i = t->data->n_features; i > 1; i--) {
        size_t j = (size_t)rng_below(t->seed, t->stream, t->n_drawn++, i);
        size_t other = t->features[j];
        t->features[j] = t->features[i - 1];
        t->features[i - 1] = other;
    }
}

static bool find_split(struct tree *t, size_t begin, size_t end, struct split *best)
{
    double sum = 0, squares = 0;
    for (size_t i = begin; i < end; i++) {
        double y = y_at(t, t->order[i]);
        sum += y;
        squares += y * y;
    }
    double whole = sum * sum / (double)(end - begin);
    if (squares - whole <= 1e-12 * squares) return false; // all alike
    *best = (struct split){.gain = whole};
    shuffle_features(t);
    for (size_t i = 0; i < t->data->n_features; i++) {
        size_t f = t->features[i];
        (t->data->n_values[f] ? try_values : try_number)(t, f, begin, end, sum, best);
    }
    return best->gain > whole;
}

// Every feature keeps its own order on both sides.
static size_t divide(struct tree *t, size_t begin, size_t end, const struct split *s)
{
    size_t middle = begin;
    for (size_t i = begin; i < end; i++) {
        size_t place = t->order[i];
        double x = x_at(t, s->feature, place);
        t->goes_left[place] = s->is_value ? x == s->at : x <= s->at;
        middle += t->goes_left[place];
    }
    for (size_t f = 0; f < t->data->n_features; f++) {
        size_t *order = t->order + f * t->data->n, left = begin, n_right = 0;
        for (size_t i = begin; i < end; i++) {
            if (t->goes_left[order[i]])
                order[left++] = order[i];
            else
                t->scratch[n_right++] = order[i];
        }
        memcpy(order + left, t->scratch, n_right * sizeof *order);
    }
    return middle;
}

// The share of a feature's range that a side is.
static double extent(const struct forest_data *data, size_t feature, const struct side *side)
{
    if (!data->n_values[feature]) return side->high - side->low;
    return (double)__builtin_popcountll(side->values) / (double)data->n_values[feature];
}

static void add_leaf(struct tree *t, size_t begin, size_t end)
{
    size_t d = t->data->n_features;
    struct leaf leaf = {.volume = 1};
    for (size_t i = begin; i < end; i++)
        leaf.value += y_at(t, t->order[i]) / (double)(end - begin);
    for (size_t f = 0; f < d; f++)
        leaf.volume *= extent(t->data, f, &t->box[f]);
    memcpy(t->boxes + t->n_leaves * d, t->box, d * sizeof *t->box);
    t->leaves[t->n_leaves++] = leaf;
}

static void grow(struct tree *t, size_t begin, size_t end, int depth)
{
    struct split s;
    if (depth == MAX_DEPTH || !find_split(t, begin, end, &s)) {
        add_leaf(t, begin, end);
        return;
    }
    size_t middle = divide(t, begin, end, &s);
    struct side whole = t->box[s.feature], *side = &t->box[s.feature];
    uint64_t value = s.is_value ? UINT64_C(1) << (int)s.at : 0;
    if (s.is_value)
        side->values = value;
    else
        side->high = s.at;
    grow(t, begin, middle, depth + 1);
    *side = whole;
    if (s.is_value)
        side->values &= ~value;
    else
        side->low = s.at;
    grow(t, middle, end, depth + 1);
    *side = whole;
}

// --- the analysis

// At a place along a feature, the sum over the boxes there changes by this much.
struct change {
    double at, by;
};

static int by_place(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static double squares_along(const struct tree *t, size_t feature, struct change *changes)
{
    size_t n = 0, d = t->data->n_features;
    double sum = 0, squares = 0, at = 0;
    for (size_t i = 0; i < t->n_leaves; i++) {
        const struct side *side = &t->boxes[i * d + feature];
        double part = t->leaves[i].value * t->leaves[i].volume / (side->high - side->low);
        changes[n++] = (struct change){side->low, part};
        changes[n++] = (struct change){side->high, -part};
    }
    qsort(changes, n, sizeof *changes, by_place);
    for (size_t i = 0; i < n; i++) {
        squares += sum * sum * (changes[i].at - at);
        sum += changes[i].by;
        at = changes[i].at;
    }
    return squares;
}

static double squares_among(const struct tree *t, size_t feature)
{
    size_t n_values = t->data->n_values[feature], d = t->data->n_features;
    double sums[FOREST_MAX_VALUES] = {0}, squares = 0;
    for (size_t i = 0; i < t->n_leaves; i++) {
        uint64_t values = t->boxes[i * d + feature].values;
        double n = (double)__builtin_popcountll(values);
        double part = t->leaves[i].value * t->leaves[i].volume * (double)n_values / n;
        for (size_t v = 0; v < n_values; v++)
            if (values >> v & 1) sums[v] += part;
    }
    for (size_t v = 0; v < n_values; v++)
        squares += sums[v] * sums[v] / (double)n_values;
    return squares;
}

// Adds the shares of this tree. False if it predicts the same everywhere.
static bool analyse(const struct tree *t, struct change *changes, double *out)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < t->n_leaves; i++) {
        mean += t->leaves[i].value * t->leaves[i].volume;
        squares += t->leaves[i].value * t->leaves[i].value * t->leaves[i].volume;
    }
    double variance = squares - mean * mean;
    if (!(variance > 1e-12 * squares)) return false;
    for (size_t f = 0; f < t->data->n_features; f++) {
        double alone = t->data->n_values[f] ? squares_among(t, f) : squares_along(t, f, changes);
        out[f] += fmax(0, alone - mean * mean) / variance;
    }
    return true;
}

// --- the forest

struct by_x {
    double x;
    size_t place;
};

static int compare_x(const void *a, const void *b)
{
    const struct by_x *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return (p->place > q->place) - (p->place < q->place);
}

static void begin_tree(struct tree *t, struct by_x *sorted)
{
    size_t n = t->data->n;
    t->n_leaves = t->n_drawn = 0;
    for (size_t i = 0; i < n; i++)
        t->rows[i] = (size_t)rng_below(t->seed, t->stream, t->n_drawn++, n);
    for (size_t f = 0; f < t->data->n_features; f++) {
        for (size_t i = 0; i < n; i++)
            sorted[i] = (struct by_x){x_at(t, f, i), i};
        qsort(sorted, n, sizeof *sorted, compare_x);
        for (size_t i = 0; i < n; i++)
            t->order[f * n + i] = sorted[i].place;
        size_t n_values = t->data->n_values[f];
        t->features[f] = f;
        t->box[f] =
            (struct side){0, 1, n_values == 64 ? UINT64_MAX : (UINT64_C(1) << n_values) - 1};
    }
}

void forest_shares(const struct forest_data *data, uint64_t seed, double *out)
{
    size_t n = data->n, d = data->n_features, n_good = 0;
    struct by_x *sorted = xcalloc(n, sizeof *sorted);
    struct change *changes = xcalloc(2 * n, sizeof *changes);
    struct tree t = {
        .data = data,
        .seed = seed,
        .rows = xcalloc(n, sizeof *t.rows),
        .order = xcalloc(d * n, sizeof *t.order),
        .scratch = xcalloc(n, sizeof *t.scratch),
        .goes_left = xcalloc(n, sizeof *t.goes_left),
        .features = xcalloc(d, sizeof *t.features),
        .box = xcalloc(d, sizeof *t.box),
        .leaves = xcalloc(n, sizeof *t.leaves),
        .boxes = xcalloc(n * d, sizeof *t.boxes),
    };
    memset(out, 0, d * sizeof *out);
    for (; t.stream < N_TREES; t.stream++) {
        begin_tree(&t, sorted);
        grow(&t, 0, n, 0);
        n_good += analyse(&t, changes, out);
    }
    for (size_t f = 0; f < d && n_good; f++)
        out[f] /= (double)n_good;
    void *all[] = {sorted,      changes,    t.rows, t.order,  t.scratch,
                   t.goes_left, t.features, t.box,  t.leaves, t.boxes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}
