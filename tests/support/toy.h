// tests/support/toy.h: an engine of the tests' own, to show that the loop needs nothing of ours. Its
// tensors carry the gradient of their first value along (forward mode), its models are linear, its
// state is one object that nobody but itself can read, and it keeps metrics until they are asked
// for, as an engine on another device would.
#pragma once

#include "train/engine.h"
#include "value/value.h"

extern const det_engine toy_engine;

// What is alive, and what has happened; tests look at them.
struct toy_counts {
    int tensors, models, optimizers, loaders, iterators, blocks; // alive
    int read_calls, kept;                                        // of metrics
    int saved_elsewhere;                                         // by another thread
};
extern struct toy_counts toy_counts;

struct det_tensor {
    int refs;
    int n;
    double *value;
    struct det_module *model; // whose weights slope is of; NULL: no gradient
    double *slope;            // of value[0]
    struct det_tensor *next;  // of the same batch
};

struct det_module {
    int n;
    double *weight, *grad;
    bool has_grad, training, low_precision;
    double dropout, n_seen; // n_seen: its buffer
    bool counts;
};

struct det_optimizer {
    struct det_module *model[4];
    int n_models;
    double lr, momentum;
    double *velocity; // of the first model
    bool unscaled, overflowed, warned;
};

struct det_lr_scheduler {
    struct det_optimizer *opt;
    double (*rate)(const struct det_lr_scheduler *s);
    double base, factor;
    int64_t step;
};

struct det_scaler {
    double scale;
    int64_t interval, n_good;
    bool overflowed;
};

struct det_loader {
    int64_t samples, batch;
    int features;
    bool shuffle, is_ones;
    uint64_t seed;
};

struct toy_batch {
    int64_t n;
    int features;
    double *x, *y; // (n, features), (n)
    int64_t *number;
};

// New tensors belong to the present batch; NULL if an error is pending.
det_tensor *toy_tensor(int n, det_module *model);
const struct toy_batch *toy_batch_of(const det_value *batch);
bool toy_grad_enabled(void);
double toy_draw(void);
