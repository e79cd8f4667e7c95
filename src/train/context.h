// train/context.h: the inside of det_context: what a trial has wrapped, and where it is.
#pragma once

#include "train/engine.h"
#include "train/metrics.h"
#include "train/settings.h"

struct wrapped_optimizer {
    det_optimizer *opt;
    bool average; // divide aggregated gradients by their number
};

struct wrapped_schedule {
    det_lr_scheduler *schedule;
    det_step_mode mode;
    int64_t frequency;
};

struct callback {
    char *name;
    const det_callback_ops *ops;
    void *self;
    bool started; // on_trial_startup was called, so on_trial_shutdown has to be
};

// What a context is made with. Documents and texts outlive it.
struct context_setup {
    const det_engine *engine;
    const struct doc *hparams, *data, *experiment; // NULL: none
    uint64_t seed;
    struct dist *ranks; // NULL: only this one
    int rank, size;
    int64_t trial_id, experiment_id;
    int64_t aggregation_frequency; // at least 1
    bool sum_aggregated_gradients;
    bool amp;  // the configuration asks for it
    bool lent; // what is wrapped stays its owner's
};

enum context_phase { PHASE_INIT, PHASE_READY, PHASE_TRAINING, PHASE_VALIDATION };

struct det_context {
    struct context_setup setup;
    void *arg; // of the trial
    struct det_config hparams, data, experiment;
    enum context_phase phase;

    det_module **models;
    int n_models;
    struct wrapped_optimizer *optimizers;
    int n_optimizers;
    struct wrapped_schedule *schedules;
    int n_schedules;
    det_scaler *scaler;
    bool amp;             // the loop scales and updates
    bool scaler_was_used; // since the last update
    struct callback *callbacks;
    int n_callbacks;
    struct det_reducer **reducers;
    int n_reducers;
    det_value *metadata; // texts by key; NULL: none

    // The position, kept by the loop.
    int64_t batch_idx; // being trained; -1: before training
    int64_t epoch_length, initial_batch;
    bool stop_requested;
    const char *metric; // that tells what is best; NULL: none
    bool larger_is_better;
};

det_context *context_new(const struct context_setup *setup);
void context_free(det_context *ctx); // and all that was wrapped

// After train_batch: the scaler and the schedules that step by themselves.
void context_batch_end(det_context *ctx);

void context_train_mode(det_context *ctx, bool training);

// --- reducers (reducer.c)

void reducers_reset(det_context *ctx);
// Adds what the reducers of this phase have made of the workload to out.
int reducers_finish(det_context *ctx, bool training, det_metrics *out, det_err *err);
void reducer_free(det_reducer *reducer);
// Between batches.
void reducers_next_batch(det_context *ctx);
// Values of several ranks in the order of the dataset: those of the first batch of each rank, of
// the second of each, ... per_rank has a list of batches for each rank, a batch is a list of
// numbers. out has room for all.
int reducer_interleave(const det_value *per_rank, double *out, int64_t *n, det_err *err);

// Calls a member of every callback that has it, in order; the first failure ends that. rc gets it.
#define CALLBACKS(ctx, rc, err, member, ...)                                                      \
    for (int cb_i = 0; !(rc) && cb_i < (ctx)->n_callbacks; cb_i++) {                              \
        struct callback *cb = &(ctx)->callbacks[cb_i];                                            \
        if (!cb->ops->member) continue;                                                           \
        det_ok(err);                                                                              \
        (rc) = callback_result(cb->ops->member(cb->self, __VA_ARGS__), cb->name, #member, (err)); \
    }
// What a function of the user's returned, or left in the sticky error; err, which was clear before,
// has a reason in any case.
int user_result(int rc, det_err *err);
int callback_result(int rc, const char *name, const char *member, det_err *err);
