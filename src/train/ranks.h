// train/ranks.h: what the loop does together with other ranks. With one rank nothing happens.
// Private to the layer.
#pragma once

#include "train/context.h"

// The trees of all ranks, as a list. mine is taken; NULL: none.
det_value *ranks_gather(const struct context_setup *setup, const char *what, det_value *mine,
                        det_err *err);

// Tables of metrics, one row per batch, become the same on all ranks.
enum rows_merge {
    ROWS_AVERAGE, // row i is the mean of all rows i: a global batch
    ROWS_IN_TURN, // the first row of each rank, the second of each, ...: the order of the dataset
    ROWS_OF_CHIEF,
};
int ranks_merge_rows(const struct context_setup *setup, det_metrics *rows, enum rows_merge how,
                     det_err *err);

int ranks_sum(const struct context_setup *setup, const char *what, int64_t *number, det_err *err);
int ranks_any(const struct context_setup *setup, const char *what, bool *flag, det_err *err);

// What rank 0 has: a number; a text on the heap, or NULL.
int ranks_share_int(const struct context_setup *setup, const char *what, int64_t *number,
                    det_err *err);
int ranks_share_text(const struct context_setup *setup, const char *what, char **text,
                     det_err *err);

// Models have the values of rank 0 from now on.
int ranks_share_models(const det_context *ctx, bool buffers_only, det_err *err);
