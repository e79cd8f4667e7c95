// tests/docs/headers.h: what the examples in headers take for granted.
#pragma once

#include "det/det.h"
#include <stdio.h>

extern det_err err;
extern det_tensor *x, *y, *loss, *outputs, *targets;
extern det_module *net, *model;
extern det_optimizer *opt, *optimizer;
extern det_dataset *train, *eval, *test;
extern det_trainer *trainer;
extern double strength;

struct digits {
    det_module *model;
};

extern int64_t epoch, batches;
void load(const char *folder);
void save(const char *folder);
double train_one_epoch(void);

void train_on(det_tensor *inputs, det_tensor *targets);
det_module *build_network(int64_t n_filters);
det_dataset *ones(void);
extern const det_trial_ops OneVar;
