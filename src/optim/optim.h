// optim/optim.h: optimizers, for the layers above: their gradients as memory.
#pragma once

#include "det/optim.h"

// Calls visit for each stretch of gradients that lie side by side, in the order of parameters;
// those that there are none of are left out. visit may change them. What it returns, unless 0, ends
// the walk.
typedef int (*optim_visit_fn)(void *user, float *grads, int64_t n);
int optim_visit_grads(det_optimizer *opt, optim_visit_fn visit, void *user);
