// tests/support/op_cases.h: turns the test inputs in the operation table into calls.
//
// A case is "inputs; attributes; torch expression":
//
//     x:f[a,3,H] w:f[5,3] -; stride=2 dims=a*3,1; F.some_function(x, w, stride=2)
//
// An input is name:kind[sizes], or - for an optional one left out. Kinds: f normal, p positive,
// u in (-0.9, 0.9), o above 1, d away from integers and halves (no kinks), n normal with NaN and infinities
// among them, c probabilities along the last dim; and, without gradients: b bool, iN integers below
// N (a number or a letter), s plus or minus one, w positive. Lower-case letters are random sizes
// 1 .. 5, capitals 6 .. 12. Attributes are numbers or comma-separated lists; letters, * and + may
// be used. In front of a case: "dense|" contiguous inputs only; "exact|" a random operation, only
// shapes are compared with torch (its own tests check the values); "stops|" a part of the gradient
// is left out on purpose, as torch does, so it is not the derivative.
#pragma once

#include "tensor/node.h"

enum { CASE_MAX_IN = 8 };

enum case_layout { LAYOUT_DENSE, LAYOUT_TRANSPOSED, LAYOUT_STEPPED, N_LAYOUTS };

struct op_case {
    const struct op *op;
    const char *text;
    bool dense_only, shapes_only, gradient_stops;
    int n_in;
    char name[CASE_MAX_IN][16]; // empty: left out
    char kind[CASE_MAX_IN];
    int64_t below[CASE_MAX_IN]; // integer kinds
    int64_t shape[CASE_MAX_IN][DET_MAX_DIMS];
    int ndim[CASE_MAX_IN];
    int64_t letter[128]; // sizes drawn for letters
    _Alignas(16) char attr[NODE_ATTR_BYTES];
    char attr_text[128];
    char expr[256];
};

// Parses one case; sizes and values are a function of seed. Aborts on a malformed case.
void case_parse(struct op_case *c, const struct op *op, const char *text, uint64_t seed);

// Input i as a tensor of the current scope, floats in dtype. NULL if left out.
det_tensor *case_input(const struct op_case *c, int i, det_dtype dtype, enum case_layout layout,
                       uint64_t seed);
bool case_input_is_float(const struct op_case *c, int i);
