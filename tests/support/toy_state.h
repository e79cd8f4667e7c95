// tests/support/toy_state.h: states of the toy engine, as trees with blocks of numbers in them.
#pragma once

#include "support/toy.h"

struct toy_rng {
    uint64_t seed, step, op;
};
struct toy_rng *toy_rng(void);

// The only kind of object of this engine that is in trees; shared by references, from any thread.
struct toy_block {
    _Atomic int refs;
    int n;
    double value[];
};
det_value *toy_block_value(const double *values, int n);
const struct toy_block *toy_block_of(const det_value *v); // NULL: it is none

det_tensor *toy_forward(det_module *model, const struct toy_batch *b);

det_value *toy_model_state(const det_module *model);
int toy_model_load(det_module *model, const det_value *state, det_err *err);
det_value *toy_grads_state(const det_module *model);
int toy_grads_load(det_module *model, const det_value *state, det_err *err);
det_value *toy_optim_state(const det_optimizer *opt);
int toy_optim_load(det_optimizer *opt, const det_value *state, det_err *err);
det_value *toy_lr_state(const det_lr_scheduler *s);
int toy_lr_load(det_lr_scheduler *s, const det_value *state, det_err *err);
det_value *toy_scaler_state(const det_scaler *s);
int toy_scaler_load(det_scaler *s, const det_value *state, det_err *err);
det_value *toy_rng_state(void);
int toy_rng_load(const det_value *state, det_err *err);
det_value *toy_snapshot(const det_value *state, det_err *err);
int toy_save(const char *path, const det_value *snapshot, det_err *err);
det_value *toy_load(const char *path, det_err *err);
int toy_pack(const det_value *tree, struct buf *out, det_err *err);
det_value *toy_unpack(struct str bytes, det_err *err);
