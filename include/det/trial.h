// det/trial.h: a trial: a model, its data, and what to do with one batch. The loop is not yours.
//
//     struct mnist { det_context *ctx; det_module *model; det_optimizer *opt; };
//
//     static int mnist_init(void *self, det_context *ctx, det_err *err)
//     {
//         struct mnist *m = self;
//         m->ctx = ctx;
//         m->model = det_wrap_model(ctx, build_network(det_hparam_int(ctx, "n_filters1")));
//         m->opt = det_wrap_optimizer(ctx, det_optim_sgd(m->model,
//                                     .lr = det_hparam_double(ctx, "learning_rate")));
//         return det_check(err);
//     }
//
//     static int mnist_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
//     {
//         struct mnist *m = self;
//         det_tensor *logp = det_forward(m->model, det_batch_at(step->batch, 0));
//         det_tensor *loss = det_nll_loss(logp, det_batch_at(step->batch, 1));
//         det_backward_loss(m->ctx, loss);
//         det_step_optimizer(m->ctx, m->opt);
//         det_metric(out, "loss", loss);
//         return det_check(err);
//     }
//
//     DET_TRIAL(MNistTrial) = {
//         .size = sizeof(struct mnist), .init = mnist_init, .train_batch = mnist_train_batch,
//         ... evaluate_batch, build_training_data_loader, build_validation_data_loader
//     };
//
// Everything that is wrapped is saved in checkpoints, and belongs to the context from then on. A
// trial whose state is all wrapped (or in a callback with state) ends with the same bits whether it
// was interrupted or not.
//
// Functions below that return nothing or an object fail by the sticky error (det/sticky.h), which
// the loop asks for after every call of an operation; an operation may also return a code itself.
//
// The loop holds models, optimizers and data by pointer (det/handles.h) and leaves everything that
// is done to them to an engine: that of this library (det/nn.h, det/optim.h, det/data.h), unless
// det_init names another one.
#pragma once

#include <math.h>

#include "det/handles.h"
#include "det/sticky.h"
#include "det/value.h"

typedef struct det_context det_context; // what a trial is given
typedef struct det_trainer det_trainer; // what trains it (det/trainer.h)

// --- settings: hyperparameters and other parts of a configuration

typedef struct det_config det_config;

DET_API const det_config *det_context_hparams(const det_context *ctx);
DET_API const det_config *det_trainer_hparams(const det_trainer *trainer);
DET_API const det_config *det_context_data_config(const det_context *ctx); // empty if there is none
DET_API const det_config *det_trainer_data_config(const det_trainer *trainer);
DET_API const det_config *det_context_experiment_config(const det_context *ctx);

// The value of a key; "optimizer.lr" is a key inside of a map, "layers.0" an item of a list. A key
// that is not there or of another type is an error that says where it should be defined; the result
// is then 0, false or "". A whole number is accepted as a double, and 1e3 as an int.
DET_API bool det_config_has(const det_config *config, const char *key);
DET_API int64_t det_config_int(const det_config *config, const char *key);
DET_API double det_config_double(const det_config *config, const char *key);
DET_API bool det_config_bool(const det_config *config, const char *key);
DET_API const char *det_config_str(const det_config *config, const char *key); // lives with config
DET_API int64_t det_config_len(const det_config *config, const char *key);     // of a list or map

// of: a det_context * or a det_trainer *
#define det_hparams(of) \
    _Generic((of),                               \
        det_context *: det_context_hparams,      \
        const det_context *: det_context_hparams, \
        det_trainer *: det_trainer_hparams)(of)
#define det_data_config(of) \
    _Generic((of),                                   \
        det_context *: det_context_data_config,      \
        const det_context *: det_context_data_config, \
        det_trainer *: det_trainer_data_config)(of)
#define det_hparam_int(of, key) det_config_int(det_hparams(of), key)
#define det_hparam_double(of, key) det_config_double(det_hparams(of), key)
#define det_hparam_bool(of, key) det_config_bool(det_hparams(of), key)
#define det_hparam_str(of, key) det_config_str(det_hparams(of), key)

// --- metrics

typedef struct det_metrics det_metrics;

// Reports a number, or the number in a tensor, under a name. All batches of a workload must report
// the same names; the loop averages.
#define det_metric(metrics, name, value)  \
    _Generic((value), det_tensor *        \
             : det_metric_tensor, default \
             : det_metric_number)(metrics, name, value)
DET_API void det_metric_tensor(det_metrics *metrics, const char *name, det_tensor *value);
DET_API void det_metric_number(det_metrics *metrics, const char *name, double value);

// Metrics are a table: one column per name, one row per batch (or one row for averages).
DET_API int det_metrics_len(const det_metrics *metrics); // names; NULL: 0
DET_API const char *det_metrics_name(const det_metrics *metrics, int index);
DET_API int64_t det_metrics_rows(const det_metrics *metrics);
DET_API double det_metrics_at(const det_metrics *metrics, int64_t row, int index);
DET_API double det_metrics_get(const det_metrics *metrics, const char *name); // row 0; NaN: none

// --- the operations of a trial

// One batch, as it is handed to an operation. Everything is borrowed until the operation returns.
typedef struct det_step {
    const det_value *batch; // det_batch_at, det_batch_get
    int64_t epoch_idx,
        batch_idx;     // from 0; batch_idx counts on over epochs. Validation: from 0 each
    det_module *model; // the first wrapped model: that of build_model
} det_step;

// How the values of a validation metric become one.
typedef enum det_combine {
    DET_COMBINE_AVG,
    DET_COMBINE_SUM,
    DET_COMBINE_MAX,
    DET_COMBINE_MIN
} det_combine;

typedef enum det_step_mode {
    DET_STEP_EVERY_EPOCH,
    DET_STEP_EVERY_BATCH,
    DET_STEP_EVERY_OPTIMIZER_STEP,
    DET_STEP_MANUAL, // det_lr_scheduler_step by the trial
} det_step_mode;

// What is NULL is not overridden. Operations that return int: 0, or a negative code with err
// filled. DET_EHPARAM says that the hyperparameters cannot work: the trial ends, but not as a
// failure.
typedef struct det_trial_ops {
    size_t size; // of self, which is zeroed memory; 0: self is NULL

    int (*init)(void *self, det_context *ctx, det_err *err);
    void (*done)(void *self); // what was wrapped is freed afterwards

    int (*train_batch)(void *self, const det_step *step, det_metrics *out, det_err *err);
    // Exactly one of these two. The second one gets the whole validation loader, on the chief only.
    int (*evaluate_batch)(void *self, const det_step *step, det_metrics *out, det_err *err);
    int (*evaluate_full_dataset)(void *self, det_loader *loader, det_metrics *out, det_err *err);
    det_combine (*evaluation_reducer)(void *self, const char *metric); // NULL: averages

    // Not needed if loaders are given to the trainer. Handed over.
    det_loader *(*build_training_data_loader)(void *self);
    det_loader *(*build_validation_data_loader)(void *self);

    void (*build_callbacks)(void *self, det_context *ctx); // calls det_add_callback

    // Records of a batch; NULL: the size of the first dim of its first tensor.
    int64_t (*batch_length)(void *self, const det_value *batch);

    // What det_predict collects: a tensor with one row per sample. NULL: the first wrapped model
    // applied to the first tensor of the batch.
    det_tensor *(*predict_batch)(void *self, const det_step *step);

    // If build_model is there, the loop makes model, optimizer and schedule after init, and
    // train_batch only computes: the loop runs backward on its metric "loss" (a tensor) and steps.
    // Hyperparameters clip_grad_l2_norm or clip_grad_val, if defined, clip gradients.
    det_module *(*build_model)(void *self);
    det_optimizer *(*optimizer)(void *self, det_module *model);
    det_lr_scheduler *(*create_lr_scheduler)(void *self, det_optimizer *opt, det_step_mode *mode);
} det_trial_ops;

// Defines the operations of a trial and makes them known under that name:
// DET_TRIAL(MNistTrial) = { .size = ..., .init = ... };
#define DET_TRIAL(Name)                                                  \
    extern const det_trial_ops Name;                                     \
    static det_trial_entry Name##_entry = {.name = #Name, .ops = &Name}; \
    __attribute__((constructor)) static void Name##_register(void)       \
    {                                                                    \
        det_trial_register(&Name##_entry);                               \
    }                                                                    \
    __attribute__((destructor)) static void Name##_unregister(void)      \
    {                                                                    \
        det_trial_unregister(&Name##_entry);                             \
    }                                                                    \
    const det_trial_ops Name

// A trial that programs can find by its name. One table of operations may serve several trials:
// arg tells them apart (det_context_arg).
typedef struct det_trial_entry {
    const char *name;
    const det_trial_ops *ops;
    void *arg;
    struct det_trial_entry *next;
} det_trial_entry;
DET_API void det_trial_register(det_trial_entry *entry);
DET_API void det_trial_unregister(det_trial_entry *entry);

// --- wrapping: in init only. Returns what was given, NULL for NULL.

DET_API det_module *det_wrap_model(det_context *ctx, det_module *model);

typedef struct det_wrap_opts {
    bool average_aggregated_gradients; // true: they are divided by the aggregation frequency
} det_wrap_opts;
#define det_wrap_optimizer(ctx, opt, ...) \
    det_wrap_optimizer_with(              \
        ctx, opt, DET_OPTS(det_wrap_opts, .average_aggregated_gradients = true, __VA_ARGS__))
DET_API det_optimizer *det_wrap_optimizer_with(det_context *ctx, det_optimizer *opt,
                                               det_wrap_opts opts);

// Steps the schedule at every frequency-th (1: every) epoch, batch or optimizer step. Its optimizer
// must be wrapped; one that wants a metric needs DET_STEP_MANUAL.
DET_API det_lr_scheduler *det_wrap_lr_scheduler(det_context *ctx, det_lr_scheduler *schedule,
                                                det_step_mode mode, int64_t frequency);

// Mixed precision. use_amp: models compute in bf16 and give f32, losses are scaled, gradients
// unscaled before they are clipped, steps with infinite gradients left out; all by itself.
// wrap_scaler: only keeps the scaler in checkpoints; scaling, autocast, det_step_optimizer(.scaler)
// and det_scaler_update are up to the trial. Either comes before det_wrap_model.
DET_API void det_use_amp(det_context *ctx);
DET_API det_scaler *det_wrap_scaler(det_context *ctx, det_scaler *scaler);

// --- in train_batch

// Instead of det_backward: scales the loss under det_use_amp.
#define det_backward_loss(ctx, loss, ...) \
    det_backward_loss_with(ctx, loss, (det_backward_opts){__VA_ARGS__})
DET_API void det_backward_loss_with(det_context *ctx, det_tensor *loss, det_backward_opts opts);

typedef struct det_step_opts {
    double clip_norm, clip_value;                 // INFINITY: not
    void (*clip)(det_optimizer *opt, void *user); // called before those two, with averaged,
    void *clip_user;                              // unscaled gradients
    bool zero_grads;                              // true: afterwards
    det_scaler *scaler;                           // of wrap_scaler
} det_step_opts;

// Instead of det_optim_step and det_optim_zero_grad. With an aggregation frequency of n it does
// nothing but in every n-th batch, where it divides the gradients by n first. A batch may have
// several optimizers and several steps of each, with a det_backward_loss before each step.
#define det_step_optimizer(ctx, opt, ...)                                                \
    det_step_optimizer_with(ctx, opt,                                                    \
                            DET_OPTS(det_step_opts, .clip_norm = (double)INFINITY,       \
                                     .clip_value = (double)INFINITY, .zero_grads = true, \
                                     __VA_ARGS__))
DET_API void det_step_optimizer_with(det_context *ctx, det_optimizer *opt, det_step_opts opts);
// Whether this batch is one that steps: always, unless gradients are aggregated. For what goes with
// a step: det_scaler_update of one's own scaler, a moving average of the weights.
DET_API bool det_context_is_update(const det_context *ctx);

// --- custom reducers: metrics that are not averages

// f gets the values of all updates since the workload began, of all ranks, in the order of the
// dataset.
typedef struct det_reducer det_reducer;
typedef double (*det_reducer_fn)(const double *values, int64_t n, void *user);

typedef struct det_reducer_ops {
    void (*reset)(void *self);                               // a workload begins
    det_value *(*per_slot_reduce)(void *self, det_err *err); // handed over
    // Runs on every rank; per_slot has one value per rank. With a name it must report exactly that
    // metric, without one any.
    int (*cross_slot_reduce)(void *self, const det_value *per_slot, det_metrics *out, det_err *err);
} det_reducer_ops;

typedef struct det_reducer_opts {
    bool for_training, for_validation; // both true
} det_reducer_opts;
#define DET_REDUCER_OPTS(...) \
    DET_OPTS(det_reducer_opts, .for_training = true, .for_validation = true, __VA_ARGS__)

#define det_wrap_reducer(ctx, name, ops, self, ...) \
    det_wrap_reducer_with(ctx, name, ops, self, DET_REDUCER_OPTS(__VA_ARGS__))
#define det_wrap_reducer_fn(ctx, name, fn, user, ...) \
    det_wrap_reducer_fn_with(ctx, name, fn, user, DET_REDUCER_OPTS(__VA_ARGS__))
DET_API det_reducer *det_wrap_reducer_with(det_context *ctx, const char *name,
                                           const det_reducer_ops *ops, void *self,
                                           det_reducer_opts opts);
DET_API det_reducer *det_wrap_reducer_fn_with(det_context *ctx, const char *name, det_reducer_fn fn,
                                              void *user, det_reducer_opts opts);
DET_API void det_reducer_update(det_reducer *reducer, double value); // of det_wrap_reducer_fn

// --- callbacks, in the order of life. All members are optional.

typedef struct det_callback_ops {
    int (*on_trial_startup)(void *self, int64_t first_batch_idx, const char *checkpoint,
                            det_err *err); // checkpoint: NULL if there is none
    int (*on_checkpoint_load_start)(void *self, det_value *checkpoint, det_err *err);
    int (*load_state_dict)(void *self, const det_value *state, det_err *err);
    int (*on_training_start)(void *self, det_err *err);
    int (*on_validation_start)(void *self, det_err *err);
    int (*on_validation_epoch_start)(void *self, det_err *err); // the two: evaluate_batch only
    int (*on_validation_epoch_end)(void *self, const det_metrics *batches, det_err *err);
    int (*on_validation_end)(void *self, const det_metrics *metrics, det_err *err);
    int (*on_training_epoch_start)(void *self, int64_t epoch_idx, det_err *err);
    int (*on_training_batch_end)(void *self, int64_t batch_idx, det_err *err);
    int (*on_training_epoch_end)(void *self, int64_t epoch_idx, det_err *err);
    int (*on_training_workload_end)(void *self, const det_metrics *averages,
                                    const det_metrics *batches, det_err *err);
    int (*on_checkpoint_save_start)(void *self, det_value *checkpoint, det_err *err); // may edit it
    det_value *(*state_dict)(void *self, det_err *err);                               // handed over
    int (*on_checkpoint_write_end)(void *self, const char *dir, det_err *err);        // chief only
    int (*on_checkpoint_upload_end)(void *self, const char *uuid, det_err *err);
    // Runs for every callback whose on_trial_startup was called, last one first, after errors too.
    void (*on_trial_shutdown)(void *self);
    void (*free)(void *self); // with the trial; self is handed over then
} det_callback_ops;

// In build_callbacks. Callbacks are called in the order of adding; the name is the key of the state
// in checkpoints, and must be new.
DET_API void det_add_callback(det_context *ctx, const char *name, const det_callback_ops *ops,
                              void *self);

// --- the rest of a context

DET_API void *det_context_arg(const det_context *ctx); // what the trial was built with
DET_API int64_t det_context_global_batch_size(const det_context *ctx); // the hyperparameter
DET_API int64_t det_context_per_slot_batch_size(const det_context *ctx);
DET_API int det_context_rank(const det_context *ctx);              // of this process, from 0
DET_API int det_context_size(const det_context *ctx);              // ranks, that is slots
DET_API int64_t det_context_trial_id(const det_context *ctx);      // 0: not on a cluster
DET_API int64_t det_context_experiment_id(const det_context *ctx); // 0: not on a cluster
DET_API uint64_t det_context_trial_seed(const det_context *ctx);
DET_API int64_t det_context_initial_batch(const det_context *ctx); // where this run began
// Of the batch being trained; an error before training.
DET_API int64_t det_context_current_epoch(const det_context *ctx);
DET_API int64_t det_context_current_batch(const det_context *ctx);
DET_API bool det_context_is_epoch_start(const det_context *ctx);
DET_API bool det_context_is_epoch_end(const det_context *ctx);
// The validation metric that tells what is best: the searcher's, or that of det_train. NULL: none is
// known. While it is trained.
DET_API const char *det_context_metric(const det_context *ctx, bool *larger_is_better);
// Puts a text into the metadata of all checkpoints to come, under a key.
DET_API void det_context_set_metadata(det_context *ctx, const char *key, const char *text);
// Ends training after this workload, with a checkpoint. On several ranks one that asks is enough.
DET_API void det_context_set_stop_requested(det_context *ctx, bool stop);
