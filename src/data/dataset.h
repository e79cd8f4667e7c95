// data/dataset.h: what a dataset is. Private to the layer.
//
// There are two kinds. Samples of the general kind are made one by one, by item(). Samples that are
// tuples of tensors of known shapes have columns instead: gather() writes any number of them
// straight into the memory of a batch.
#pragma once

#include "det/data.h"

enum { DATASET_MAX_COLUMNS = 32 };

struct column {
    det_dtype dtype;
    int ndim;
    int64_t shape[DET_MAX_DIMS]; // of one sample
    size_t row_bytes;
};

struct dataset_ops {
    // One sample, made inside of a scope. NULL if there are columns.
    det_value *(*item)(const det_dataset *d, int64_t index, const det_draw *draw, det_err *err);
    // Writes samples index[0 .. n-1] to rows row, row + 1, ... of each column. Cannot fail.
    void (*gather)(const det_dataset *d, const int64_t *index, int64_t n, char *const *columns,
                   int64_t row);
    const char *(*class_name)(const det_dataset *d, int64_t label); // optional
    void (*free)(det_dataset *d);
};

// The first member of every dataset.
struct det_dataset {
    const struct dataset_ops *ops;
    int64_t length;
    int n_columns; // 0: of the general kind
    struct column columns[DATASET_MAX_COLUMNS];
};

// Brings the next row of a gather near: rows are in no order, so the processor cannot guess. Of a
// long row the beginning is enough.
static inline void prefetch_row(const void *row, size_t n_bytes)
{
    enum { LINE = 64, ENOUGH = 4096 };
    for (size_t at = 0; at < n_bytes && at < ENOUGH; at += LINE)
        __builtin_prefetch((const char *)row + at);
}

void column_init(struct column *c, det_dtype dtype, const int64_t *shape, int ndim);

// As det_dataset_item, for an index that is known to be good and without naming it in messages.
det_value *dataset_item(const det_dataset *d, int64_t index, const det_draw *draw, det_err *err);

// A batch of n samples: a tuple of tensors whose content is undefined. NULL: no memory.
det_value *columns_new_batch(const struct column *columns, int n_columns, int64_t n, det_err *err);
// The memory of its tensors.
void columns_memory(const det_value *batch, int n_columns, char **out);
