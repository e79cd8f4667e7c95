// search/forest.h: a forest of regression trees, and what it says about its features. Private to
// the layer.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { FOREST_MAX_VALUES = 64 }; // of a category

struct forest_data {
    size_t n, n_features;
    const double *x;        // (n_features, n): positions in [0, 1], or the index of a value
    const size_t *n_values; // (n_features): 0 for positions; at most FOREST_MAX_VALUES
    const double *y;        // (n)
};

// The share of the variance over the whole space that each feature explains alone, as the mean over
// the trees; all 0 if y does not vary.
void forest_shares(const struct forest_data *data, uint64_t seed, double *out);
