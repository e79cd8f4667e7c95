// optim/optim.h: optimizers and scalers, for the layers above.
#pragma once

#include "det/optim.h"

// Calls visit for each stretch of gradients that lie side by side, in the order of parameters;
// those that there are none of are left out. visit may change them. What it returns, unless 0, ends
// the walk.
typedef int (*optim_visit_fn)(void *user, float *grads, int64_t n);
int optim_visit_grads(det_optimizer *opt, optim_visit_fn visit, void *user);

// How many parameters are in none of the models.
int optim_n_params_outside(const det_optimizer *opt, det_module *const *models, int n_models);

// As det_scaler_unscale, and nothing if that was done already.
void scaler_unscale_once(det_scaler *s, det_optimizer *opt);
// The optimizer may be unscaled and stepped again before the next det_scaler_update, which will
// know of all its gradients.
void scaler_again(det_scaler *s, const det_optimizer *opt);
