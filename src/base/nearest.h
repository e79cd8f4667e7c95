// base/nearest.h: did you mean ...?
//   NEAREST_INIT  nearest_offer
//
//     struct nearest n = NEAREST_INIT(word);
//     for (...) nearest_offer(&n, candidate);
//     if (n.best) printf("did you mean '%s'?", n.best);
#pragma once

#include "base/str.h"

struct nearest {
    struct str word;
    const char *best; // the closest candidate so far; NULL: none is close enough for a slip
    size_t distance;
};

#define NEAREST_INIT(text) ((struct nearest){.word = (text)})

void nearest_offer(struct nearest *n, const char *candidate);
