// tests/support/lab.h: what tests of the loop need of an engine, so that one test serves several.
//
// lab_toy.c has an engine with structs of its own, which shows that the loop needs nothing of ours;
// lab_det.c is that of the library. A test is linked with either. Models are linear, without a
// bias: y = w x. What is not here is in the engine's own table: lab_engine->lr_step(schedule).
#pragma once

#include "support/errors.h"

#include "det/trainer.h"
#include "train/engine.h"

extern const det_engine *const lab_engine;
#define lab_init(...) det_init(.engine = lab_engine, __VA_ARGS__)

// --- data

struct lab_data {
    int64_t samples, batch;
    int features;
    bool shuffle;
};
// Random samples (x, y, number), the same for the same options; numbers are 0, 1, 2, ...
det_loader *lab_loader(struct lab_data data);
// 64 samples with x = y = 1.
det_loader *lab_ones(int64_t batch);
int64_t lab_batch_length(const det_value *batch);
int64_t lab_batch_number(const det_value *batch, int64_t i);
double lab_batch_sum(const det_value *batch); // of y

// --- models

struct lab_model {
    int features;    // inputs, and weights
    int hidden;      // units of a layer between, in engines that have such; 0: none
    double start;    // initial value of all weights; NaN: random
    double dropout;  // of inputs, while it trains
    bool has_buffer; // counts the samples it has trained with (det: a batch norm)
};
det_module *lab_model(struct lab_model model);
double lab_weight(const det_module *model, int i);
void lab_set_weight(det_module *model, int i, double value);
det_tensor *lab_weight_tensor(det_module *model); // the first weight, which changes with each step
bool lab_is_training(const det_module *model);
// All that a state dict has, as numbers: of weights and buffers. Returns how many.
int lab_state(const det_module *model, float *out, int max);

det_tensor *lab_loss(det_module *model, const det_value *batch); // mean squared error
det_tensor *lab_output(det_module *model, const det_value *batch);
det_tensor *lab_mean(det_tensor *t);
det_tensor *lab_times(det_tensor *t, double factor); // of a single number
double lab_item(det_tensor *t);
int lab_values(det_tensor *t, float *out, int max); // returns how many
void lab_free(det_tensor *t);                       // a reference less
bool lab_grad_enabled(void);
double lab_draw(void); // a random number

// --- optimizers, schedules, scalers

det_optimizer *lab_sgd(det_module *model, double lr, double momentum);
det_optimizer *lab_adam(det_module *model, double lr);     // or whatever else has a state
void lab_add_model(det_optimizer *opt, det_module *model); // its parameters, too
double lab_lr(const det_optimizer *opt);
det_lr_scheduler *lab_lr_counting(det_optimizer *opt);                // the rate is lr * steps
det_lr_scheduler *lab_lr_decaying(det_optimizer *opt, double factor); // lr * factor ^ steps
det_lr_scheduler *lab_lr_plateau(det_optimizer *opt);                 // wants a metric
det_scaler *lab_scaler(int64_t growth_interval);
double lab_scale(const det_scaler *scaler);

// --- tests: each has the same random numbers, memory of its own, and no error that waits

static inline int lab_setup(void **state)
{
    (void)state;
    lab_engine->seed(1);
    lab_engine->begin(0);
    return 0;
}

static inline int lab_teardown(void **state)
{
    (void)state;
    lab_engine->end();
    return det_check(NULL); // an error nobody asked about
}

#define LAB_TEST(function) cmocka_unit_test_setup_teardown(function, lab_setup, lab_teardown)
