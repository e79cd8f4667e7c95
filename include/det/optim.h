// det/optim.h: optimizers, gradient clipping, loss scaling and learning-rate schedules. Names,
// defaults, formulas and state dicts are torch's.
//
//     det_optimizer *opt = det_optim_adamw(net, .lr = 3e-4, .weight_decay = 0.1);
//     det_lr_scheduler *sched = det_lr_cosine_annealing(opt, 1000, 0);
//     ...
//     det_backward(loss);
//     det_optim_clip_grad_norm(opt, 1.0);
//     det_optim_step(opt);
//     det_optim_zero_grad(opt);
//     det_lr_scheduler_step(sched);
//
// An optimizer moves the parameters into one block of memory and their gradients into another, so a
// step is one pass over memory. Parameters without a gradient are left alone, as in torch. Failures
// set the sticky error (det_check) and return NULL or do nothing; NULL is accepted everywhere.
//
// Defaults stand in the macros; an option that is given means what it says, 0 included.
#pragma once

#include <math.h>

#include "det/nn.h"

// --- optimizers: over all parameters of a module

typedef struct det_sgd_opts {
    double lr;                                // must be given
    double momentum, dampening, weight_decay; // 0
    bool nesterov, maximize;
} det_sgd_opts;

typedef struct det_adam_opts {
    double lr, beta1, beta2, eps; // 1e-3, 0.9, 0.999, 1e-8
    double weight_decay;          // Adam: 0; AdamW: 0.01
    bool amsgrad, maximize;
} det_adam_opts;

typedef struct det_rmsprop_opts {
    double lr, alpha, eps; // 1e-2, 0.99, 1e-8
    double weight_decay, momentum;
    bool centered, maximize;
} det_rmsprop_opts;

typedef struct det_adagrad_opts {
    double lr, eps; // 1e-2, 1e-10
    double lr_decay, weight_decay, initial_accumulator_value;
    bool maximize;
} det_adagrad_opts;

typedef struct det_lion_opts {
    double lr, beta1, beta2; // 1e-4, 0.9, 0.99
    double weight_decay;
} det_lion_opts;

#define DET_ADAM_DEFAULTS .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define det_optim_sgd(module, ...) \
    det_optim_sgd_with(module, DET_OPTS(det_sgd_opts, .lr = (double)NAN, __VA_ARGS__))
#define det_optim_adam(module, ...) \
    det_optim_adam_with(module, DET_OPTS(det_adam_opts, DET_ADAM_DEFAULTS, __VA_ARGS__))
#define det_optim_adamw(module, ...) \
    det_optim_adamw_with(            \
        module, DET_OPTS(det_adam_opts, DET_ADAM_DEFAULTS, .weight_decay = 1e-2, __VA_ARGS__))
#define det_optim_rmsprop(module, ...) \
    det_optim_rmsprop_with(            \
        module, DET_OPTS(det_rmsprop_opts, .lr = 1e-2, .alpha = 0.99, .eps = 1e-8, __VA_ARGS__))
#define det_optim_adagrad(module, ...) \
    det_optim_adagrad_with(module,     \
                           DET_OPTS(det_adagrad_opts, .lr = 1e-2, .eps = 1e-10, __VA_ARGS__))
#define det_optim_lion(module, ...) \
    det_optim_lion_with(            \
        module, DET_OPTS(det_lion_opts, .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, __VA_ARGS__))
DET_API det_optimizer *det_optim_sgd_with(det_module *module, det_sgd_opts opts);
DET_API det_optimizer *det_optim_adam_with(det_module *module, det_adam_opts opts);
DET_API det_optimizer *det_optim_adamw_with(det_module *module, det_adam_opts opts);
DET_API det_optimizer *det_optim_rmsprop_with(det_module *module, det_rmsprop_opts opts);
DET_API det_optimizer *det_optim_adagrad_with(det_module *module, det_adagrad_opts opts);
DET_API det_optimizer *det_optim_lion_with(det_module *module, det_lion_opts opts);

// Another group of parameters with the optimizer's settings, except for those set afterwards with
// det_optim_set. Parameters may be in one group only. Returns the group's number or a negative
// code.
DET_API int det_optim_add_group(det_optimizer *opt, det_module *module);
DET_API int det_optim_add_params(det_optimizer *opt, det_tensor *const *params, int n);

DET_API void det_optim_free(det_optimizer *opt); // the parameters stay with their modules
DET_API void det_optim_step(det_optimizer *opt);
DET_API void det_optim_zero_grad(det_optimizer *opt);

DET_API int det_optim_n_groups(const det_optimizer *opt);
DET_API double det_optim_lr(const det_optimizer *opt, int group);
DET_API void det_optim_set_lr(det_optimizer *opt, int group, double lr);
// Any field of a group by torch's name: "lr", "momentum", "weight_decay", "beta1", ... An unknown
// name is an error listing the known ones.
DET_API double det_optim_get(const det_optimizer *opt, int group, const char *field);
DET_API void det_optim_set(det_optimizer *opt, int group, const char *field, double value);

// torch's layout: {"state": {0: {...}}, "param_groups": [{...}]}. Tensors are the optimizer's own.
// Loading changes nothing on failure.
DET_API det_value *det_optim_state_dict(const det_optimizer *opt);
DET_API int det_optim_load_state_dict(det_optimizer *opt, const det_value *state, det_err *err);

// --- gradients

// Scales all gradients so that their norm is at most max_norm; returns the norm before.
DET_API double det_optim_clip_grad_norm(det_optimizer *opt, double max_norm);
DET_API void det_optim_clip_grad_value(det_optimizer *opt, double limit);
DET_API void det_optim_scale_grads(det_optimizer *opt, double factor);
DET_API double det_optim_grad_norm(const det_optimizer *opt);

// --- loss scaling (torch's GradScaler)

typedef struct det_scaler_opts {
    double init_scale, growth_factor, backoff_factor; // 65536, 2, 0.5
    int64_t growth_interval;                          // 2000
    bool enabled;                                     // true
} det_scaler_opts;

#define det_scaler_new(...)                                                                       \
    det_scaler_new_with(DET_OPTS(det_scaler_opts, .init_scale = 65536, .growth_factor = 2,        \
                                 .backoff_factor = 0.5, .growth_interval = 2000, .enabled = true, \
                                 __VA_ARGS__))
DET_API det_scaler *det_scaler_new_with(det_scaler_opts opts);
DET_API void det_scaler_free(det_scaler *s);
DET_API det_tensor *det_scaler_scale(det_scaler *s, det_tensor *loss);
DET_API void det_scaler_unscale(det_scaler *s, det_optimizer *opt); // once per step at most
// Unscales if that has not been done, and steps unless a gradient is infinite or NaN. Returns
// whether it stepped.
DET_API bool det_scaler_step(det_scaler *s, det_optimizer *opt);
DET_API void det_scaler_update(det_scaler *s); // once per iteration, after all steps
DET_API double det_scaler_scale_value(const det_scaler *s);
DET_API det_value *det_scaler_state_dict(const det_scaler *s);
DET_API int det_scaler_load_state_dict(det_scaler *s, const det_value *state, det_err *err);

// --- schedules

// They work on one optimizer, several if need be, as long as it lives. Making one sets the rates of
// the first step, as in torch.

DET_API det_lr_scheduler *det_lr_step_decay(det_optimizer *opt, int64_t step_size, double gamma);
DET_API det_lr_scheduler *det_lr_multi_step(det_optimizer *opt, const int64_t *milestones, int n,
                                            double gamma);
DET_API det_lr_scheduler *det_lr_exponential(det_optimizer *opt, double gamma);
DET_API det_lr_scheduler *det_lr_cosine_annealing(det_optimizer *opt, int64_t t_max,
                                                  double eta_min);
DET_API det_lr_scheduler *det_lr_cosine_warm_restarts(det_optimizer *opt, int64_t t_0,
                                                      int64_t t_mult, double eta_min);
DET_API det_lr_scheduler *det_lr_linear_warmup(det_optimizer *opt, double start_factor,
                                               double end_factor, int64_t total_iters); // LinearLR
DET_API det_lr_scheduler *det_lr_polynomial(det_optimizer *opt, int64_t total_iters, double power);
// The factor for each group is factor(step, group, user).
DET_API det_lr_scheduler *det_lr_lambda(det_optimizer *opt,
                                        double (*factor)(int64_t step, int group, void *user),
                                        void *user);

typedef struct det_one_cycle_opts {
    double max_lr;
    int64_t total_steps;                            // going on after them is an error
    double pct_start, div_factor, final_div_factor; // 0.3, 25, 1e4
    bool linear;                                    // instead of cosine
    bool cycle_momentum;                            // true
    double base_momentum, max_momentum;             // 0.85, 0.95
    bool three_phase;
} det_one_cycle_opts;
#define det_lr_one_cycle(opt, ...)                                                              \
    det_lr_one_cycle_with(opt, DET_OPTS(det_one_cycle_opts, .pct_start = 0.3, .div_factor = 25, \
                                        .final_div_factor = 1e4, .cycle_momentum = true,        \
                                        .base_momentum = 0.85, .max_momentum = 0.95, __VA_ARGS__))
DET_API det_lr_scheduler *det_lr_one_cycle_with(det_optimizer *opt, det_one_cycle_opts opts);

typedef enum det_cyclic_mode {
    DET_CYCLIC_TRIANGULAR,
    DET_CYCLIC_TRIANGULAR2,
    DET_CYCLIC_EXP_RANGE
} det_cyclic_mode;
typedef struct det_cyclic_opts {
    double base_lr, max_lr;
    int64_t step_size_up, step_size_down; // 2000; negative, the default: as up
    det_cyclic_mode mode;
    double gamma;                       // DET_CYCLIC_EXP_RANGE: 1
    bool cycle_momentum;                // true
    double base_momentum, max_momentum; // 0.8, 0.9
} det_cyclic_opts;
#define det_lr_cyclic(opt, ...)                                                                   \
    det_lr_cyclic_with(opt, DET_OPTS(det_cyclic_opts, .step_size_up = 2000, .step_size_down = -1, \
                                     .gamma = 1, .cycle_momentum = true, .base_momentum = 0.8,    \
                                     .max_momentum = 0.9, __VA_ARGS__))
DET_API det_lr_scheduler *det_lr_cyclic_with(det_optimizer *opt, det_cyclic_opts opts);

typedef struct det_plateau_opts {
    bool max;                      // the metric should grow
    double factor, threshold, eps; // 0.1, 1e-4, 1e-8
    int64_t patience, cooldown;    // 10, 0
    double min_lr;
    bool abs_threshold;
} det_plateau_opts;
#define det_lr_plateau(opt, ...)                                                          \
    det_lr_plateau_with(opt, DET_OPTS(det_plateau_opts, .factor = 0.1, .threshold = 1e-4, \
                                      .eps = 1e-8, .patience = 10, __VA_ARGS__))
DET_API det_lr_scheduler *det_lr_plateau_with(det_optimizer *opt, det_plateau_opts opts);

// Schedules of pytorch-accelerated: functions of the number of updates n. They count from -1: the
// first det_lr_scheduler_step sets the values of n = 0, which hold until then as well.

typedef struct det_cosine_opts {
    int64_t total_num_epochs, num_update_steps_per_epoch; // must be given
    int64_t num_warmup_epochs, num_cooldown_epochs;       // inside of the total
    double k_decay;                                       // 1
    double lr_min;                                        // at the end and during cooldown: 1e-6
    double min_lr_ratio;             // not 0: instead of lr_min, this part of each group's rate
    double warmup_starting_lr;       // 1e-6
    double warmup_starting_lr_ratio; // not 0: instead, this part of each group's rate
    // With its two slips: the curve is cut off as many updates before its end as the warmup has,
    // and a warmup from a ratio rises as steeply as one from warmup_starting_lr.
    bool as_upstream;
} det_cosine_opts;
#define det_lr_cosine(opt, ...)                                                     \
    det_lr_cosine_with(opt, DET_OPTS(det_cosine_opts, .k_decay = 1, .lr_min = 1e-6, \
                                     .warmup_starting_lr = 1e-6, __VA_ARGS__))
DET_API det_lr_scheduler *det_lr_cosine_with(det_optimizer *opt, det_cosine_opts opts);

typedef struct det_wsd_opts {
    int64_t total_steps;                                  // or these two:
    int64_t total_num_epochs, num_update_steps_per_epoch; // (their product)
    int64_t num_warmup_steps;                             // -1: a tenth
    int64_t num_checkpoints;   // 1. k: decays end at 1/2^(k-1), ..., 1/2, 1 of the steps
    double decay_phase_ratio;  // of the steps since the previous checkpoint: 0.1
    double lr_min;             // a fraction of the group's rate: 1e-6
    double warmup_starting_lr; // 1e-6
    bool inverse_decay;        // 1 / (t / lr_min + 1 - t) instead of 1 - sqrt(t)
    bool is_continuation;      // no warmup; a loaded state keeps this length and starts afresh
} det_wsd_opts;
#define det_lr_wsd(opt, ...)                                                                    \
    det_lr_wsd_with(opt, DET_OPTS(det_wsd_opts, .num_checkpoints = 1, .decay_phase_ratio = 0.1, \
                                  .lr_min = 1e-6, .warmup_starting_lr = 1e-6, __VA_ARGS__))
DET_API det_lr_scheduler *det_lr_wsd_with(det_optimizer *opt, det_wsd_opts opts);

// The checkpoint periods of a warmup-stable-decay schedule, in updates; 0 periods for any other.
typedef struct det_wsd_period {
    int64_t period_start, period_end, decay_steps, pre_decay_step;
} det_wsd_period;
DET_API int det_lr_wsd_n_periods(const det_lr_scheduler *s);
DET_API det_wsd_period det_lr_wsd_period(const det_lr_scheduler *s, int index);

// Any field of det_optim_set: value(n, group, value at the start, user); NaN leaves it alone.
typedef double (*det_field_fn)(int64_t n, int group, double base, void *user);
DET_API det_lr_scheduler *det_lr_field(det_optimizer *opt, const char *field, det_field_fn value,
                                       void *user);

DET_API int64_t det_lr_scheduler_updates(const det_lr_scheduler *s); // n of the values set last
DET_API void det_lr_scheduler_free(det_lr_scheduler *s);
DET_API void det_lr_scheduler_step(det_lr_scheduler *s);
DET_API void det_lr_scheduler_step_metric(det_lr_scheduler *s, double metric); // plateau only
DET_API bool det_lr_scheduler_wants_metric(const det_lr_scheduler *s);
DET_API det_optimizer *det_lr_scheduler_optimizer(const det_lr_scheduler *s);
DET_API double det_lr_scheduler_last(const det_lr_scheduler *s, int group);
DET_API det_value *det_lr_scheduler_state_dict(const det_lr_scheduler *s);
DET_API int det_lr_scheduler_load_state_dict(det_lr_scheduler *s, const det_value *state,
                                             det_err *err);
