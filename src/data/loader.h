// data/loader.h: how loader, iterator and the making of batches fit together. Private to the layer.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"

struct det_loader {
    det_dataset *dataset;
    det_sampler *sampler;
    det_loader_opts opts;
};

// A batch: samples first .. first + n - 1 of an epoch.
struct span {
    uint64_t epoch;
    int64_t first, n;
};

// What one thread needs to make batches.
struct filler {
    const det_loader *loader;
    int64_t *index;      // of the samples of the batch
    det_value **samples; // of them, for the user's collate function
};

void filler_init(struct filler *f, const det_loader *loader);
void filler_done(struct filler *f);

// Makes a batch, in the memory of *batch if that is possible. err is needed. *batch may be NULL
// before, is NULL after a failure, and is otherwise what fill or the user's collate function made.
int filler_run(struct filler *f, const struct span *span, det_value **batch, det_err *err);
