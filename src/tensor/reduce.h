// tensor/reduce.h: folds the elements of a tensor over some of its dims. Private to the layer.
//
// Every reduction is a set of kept positions and a set of reduced positions. In memory it is one of
//     columns   neighbouring outputs come from neighbouring elements
//     rows      the elements of one output are neighbours
// and anything else is copied into rows first. The work is cut into pieces by sizes alone, so the
// result is the same bits for any number of threads.
#pragma once

#include "tensor/axes.h"
#include "tensor/kernels/kernels.h"

struct reduction {
    det_tensor *x;             // reference: the input, or a copy in another order or type
    struct axes kept, reduced; // at least one each
    int64_t n_kept, n_reduced; // positions
    bool columns;
};

// Describes reducing x over the dims whose bits are set. 0 or DET_ENOMEM. End it with
// reduction_done.
int reduction_init(struct reduction *r, det_tensor *x, unsigned dims);
void reduction_done(struct reduction *r);

// What a fold accumulates in: f32 for f32 and bf16, f64 for f64, i64 for integers and bool.
det_dtype fold_dtype(det_dtype dtype);

struct fold_args {
    const void *centre; // like out
    double power;
    bool accumulate; // go on from what out holds
};

// out: one accumulator per kept position, row-major. 0 or DET_ENOMEM.
int reduce(const struct reduction *r, enum fold_id id, const struct fold_args *args, void *out);

// Gives input i of n the sum of g over the given dims as its gradient; what is left has its number
// of elements. For things that were added to every row, column or image.
void give_sum(struct node *n, int i, det_tensor *g, unsigned dims);

// --- folds of the types that training does not use
// ----------------------------------------------------

void fold_f64(enum fold_id id, bool columns, const struct fold_block *b);
void fold_i64(enum fold_id id, bool columns, const struct fold_block *b);
// Writes the value of an empty fold n times.
void fold_start(enum fold_id id, det_dtype accumulator, void *out, int64_t n);
