// engine/state.h: what checkpoints are made of. Private to the layer.
#pragma once

#include "engine/engine.h"

// Gradients that were accumulated, but not used yet: a list with one entry per parameter, its
// gradient or None. NULL if there are none.
det_value *state_grads(const det_module *model);
int state_load_grads(det_module *model, const det_value *state, det_err *err);

det_value *state_rng(void);
int state_load_rng(const det_value *state, det_err *err);

// A copy that is in no scope and of no history, so that another thread may have it.
det_value *state_snapshot(const det_value *state, det_err *err);
