// search/bracket.h: how searches of the successive-halving family divide their trials. Private to
// the layer.
#pragma once

#include "search/search.h"

struct bracket_plan {
    int64_t n_trials;
    int64_t n_concurrent; // trials that may have an operation at the same time
    size_t n_rungs;
    int64_t *lengths; // absolute, of each rung, rising
    int64_t *starts;  // synchronous: how many trials each rung takes; NULL: up to the results
};

// The brackets of a search, those with most rungs first. They live in the arena.
size_t bracket_plans(const struct searcher_config *cfg, struct arena *arena,
                     struct bracket_plan **out);

// What a bracket does if nothing fails.
void bracket_preview(const struct bracket_plan *plan, double divisor, struct plan_bracket *out);
