// optim/optimizer.h: the inside of optimizers. Private to the layer.
//
// The parameters of a group and their gradients lie in two blocks of memory (tensor/tensor.h:
// flat), each state tensor of the group in another block of the same layout. A step walks over them
// together.
#pragma once

#include "det/optim.h"
#include "optim/setting.h"
#include "optim/kernels/kernels.h"

// Hyperparameters of a group: the options with defaults filled in, and what schedules keep there.
struct hyper {
    union {
        double lr; // first in all of them
        det_sgd_opts sgd;
        det_adam_opts adam;
        det_rmsprop_opts rmsprop;
        det_adagrad_opts adagrad;
        det_lion_opts lion;
    };
    double initial_lr, max_lr, min_lr, max_momentum, base_momentum; // NaN: not set
};

enum step_form { STEP_NOT_SAVED, STEP_AS_INT, STEP_AS_TENSOR }; // in the state of a parameter

// One row of the table of optimizers.
struct optim_kind {
    const char *name; // torch's class
    const struct setting *settings;
    const char *state[UPDATE_MAX_STATE + 1]; // names of the state tensors, NULL at the end
    enum step_form step_form;
    bool eager;      // parameters have their state before the first step
    bool saves_none; // state tensors not in use are None in the state dict, instead of missing
    // State tensors in use with these settings, one bit each.
    unsigned (*uses)(const struct hyper *h);
    // Coefficients of a step; step counts from 1, fresh has a bit for each state tensor used the
    // first time. Returns the kernel.
    update_fn (*prepare)(const struct hyper *h, int64_t step, unsigned fresh, struct update *u);
    double (*initial_state)(const struct hyper *h); // NULL: 0
    // Checks combinations of options, once their defaults are filled in. NULL: all are fine.
    int (*resolve)(struct hyper *h, det_err *err);
};

extern const struct setting schedule_settings[]; // of every group, after those of the kind

struct param {
    det_tensor *tensor; // a reference
    int64_t step;       // how often it was updated
    unsigned has;       // bit i: state tensor i holds something
};

struct group {
    struct hyper hyper;
    struct param *param;
    int n;
    struct flat flat;
    det_tensor *state[UPDATE_MAX_STATE]; // (flat.n_elements) f32, NULL until used
};

struct det_optimizer {
    const struct optim_kind *kind;
    struct hyper defaults; // for new groups
    struct group **group;
    int n_groups;
    double *piece_sum; // room for one number per piece of the largest block
};

det_optimizer *optimizer_new(const struct optim_kind *kind, det_module *module,
                             const struct hyper *opts);
// Memory for the state tensors in mask, filled with initial values.
int group_allocate_state(const struct optim_kind *kind, struct group *g, unsigned mask);
// Elements of parameter i in a state tensor of its group.
float *param_state(const struct group *g, int state, int i);

// --- stretches of memory

enum {
    PIECE_ELEMENTS = 1 << 14
}; // what one thread takes at a time; fixed, so sums do not depend on threads

// Parameters first .. end - 1 of a group: all have gradients, lie one after the other in memory and
// have the same history. Padding between them is zero and stays zero.
struct run {
    int g, first, end;
    struct group *group;
    float *value, *grad;
    int64_t offset, n_elements; // offset: in the state blocks
};

// Multiplies all gradients; false if any of them was infinite or NaN.
bool optimizer_unscale(det_optimizer *opt, double factor);
