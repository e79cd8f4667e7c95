// det/accelerated.h: the Trainer of pytorch-accelerated.
//
//     DET_ACCEL_PARTIAL(decay, det_lr_step_decay, 7, 0.1);
//
//     det_module *model = det_nn_sequential(det_nn_flatten(), det_nn_linear(784, 10));
//     det_accel *trainer = det_accel_new(model, det_cross_entropy_with, det_optim_adam(model));
//     det_accel_train(trainer, train, .num_epochs = 8, .eval_dataset = eval,
//                     .per_device_batch_size = 32, .create_scheduler = decay);
//     det_accel_evaluate(trainer, test);
//     det_accel_save_checkpoint(trainer, "model.pth");
//     int rc = det_check(&err);
//     det_accel_free(trainer);
//
// What the trainer computes is a table of steps, each with a default: a trainer of one's own
// replaces some of them (det_accel_ops). What merely watches is a callback (det_accel_callback).
// A step always comes before the event of the same name.
//
//   create_train_dataloader            for each epoch:
//   create_eval_dataloader                 train_epoch_start        on_train_epoch_start
//   create_scheduler                       for each batch:
//   training_run_start                         on_train_step_start
//   on_training_run_start                      calculate_train_batch_loss
//   (epochs)                                   on_train_step_end    (before the backward pass)
//   training_run_end                           backward_step
//   on_training_run_end                        optimizer_step, scheduler_step,
//                                              optimizer_zero_grad  (once per update)
//                                          train_epoch_end          on_train_epoch_end
//                                          eval_epoch_start         on_eval_epoch_start
//                                          for each batch:
//                                              on_eval_step_start
//                                              calculate_eval_batch_loss
//                                              on_eval_step_end
//                                          eval_epoch_end           on_eval_epoch_end
//                                          training_run_epoch_end   on_training_run_epoch_end
//
// Errors are sticky (det/sticky.h), so that one det_check at the end tells of everything: functions
// that fail return NULL or false, NULL is accepted everywhere, and what comes after a failure does
// nothing. A step or callback that fails (det_raise) ends the run at once; det_accel_stop ends it in
// good order instead.
//
// With .trainer = det_init(), the program is what any trial is, by itself and as a task of a
// cluster: hyperparameters come from there, metrics and checkpoints go there, the searcher says how
// long to train, other processes (det-launch) share the batches, and a run that is paused or killed
// goes on at the very batch.
//
//     det_trainer *task = det_init();
//     det_module *model = build_network(det_hparam_int(task, "n_filters"));
//     det_accel *trainer = det_accel_new(model, det_cross_entropy_with, det_optim_adam(model),
//                                        .trainer = task);
//     const det_result *result = det_accel_train(trainer, train, .num_epochs = 8, .eval_dataset = eval);
//     if (result && result->stop_reason == DET_STOP_LENGTH) det_accel_evaluate(trainer, test);
#pragma once

#include <math.h>
#include <stdio.h>

#include "det/data.h"
#include "det/optim.h"
#include "det/tracking.h"
#include "det/trainer.h"

typedef struct det_accel det_accel;
typedef struct det_accel_callback det_accel_callback;

// --- run config: what a run was asked to do, and what follows from it

typedef struct det_accel_run_config {
    int64_t num_epochs;
    int64_t train_per_device_batch_size, eval_per_device_batch_size;
    det_loader_opts train_dl_kwargs, eval_dl_kwargs;
    int64_t gradient_accumulation_steps;
    double gradient_clip_value;     // INFINITY: none
    int64_t train_total_batch_size; // samples of an update, over all processes
    int64_t eval_total_batch_size;
    int64_t train_dataloader_len, eval_dataloader_len; // batches of an epoch in this process
    int64_t num_update_steps_per_epoch;                // over all processes
    int64_t num_local_update_steps_per_epoch;
    int64_t max_num_train_steps; // the run ends with this update; without a limit, never reached
    int num_processes;
    bool is_local_process_zero, is_world_process_zero, is_distributed;
    const char *mixed_precision; // "no", "bf16"
} det_accel_run_config;

DET_API det_value *det_accel_run_config_to_dict(const det_accel_run_config *c);

// --- schedulers: made inside of det_accel_train, when the numbers of the run are known

typedef det_lr_scheduler *(*det_accel_scheduler_fn)(det_optimizer *optimizer,
                                                    const det_accel_run_config *run);

// At file scope: a det_accel_scheduler_fn called name, which calls make with the optimizer and
// these arguments. They may be made of placeholders, whose value is that of the run:
//
//     DET_ACCEL_PARTIAL(one_cycle, det_lr_one_cycle, .max_lr = 0.1,
//                       .total_steps = DET_ACCEL_NUM_EPOCHS * DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH);
#define DET_ACCEL_PARTIAL(name, make, ...)                              \
    static det_lr_scheduler *name(det_optimizer *det_optimizer_,        \
                                  const det_accel_run_config *det_run_) \
    {                                                                   \
        (void)det_run_;                                                 \
        return make(det_optimizer_, __VA_ARGS__);                       \
    }                                                                   \
    struct det_accel // swallows the semicolon

#define DET_ACCEL_NUM_EPOCHS (det_run_->num_epochs)
#define DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH (det_run_->num_update_steps_per_epoch)
#define DET_ACCEL_PER_PROCESS_NUM_UPDATE_STEPS_PER_EPOCH \
    (det_run_->num_local_update_steps_per_epoch)
#define DET_ACCEL_TRAIN_DATALOADER_LEN (det_run_->train_dataloader_len)
#define DET_ACCEL_EVAL_DATALOADER_LEN (det_run_->eval_dataloader_len)

// --- the steps

// What of a loader is to be different from the default (get_default_train_dl_kwargs), as
// DET_ACCEL_DL_KWARGS(.num_workers = 0). What is negative or NULL is the default's.
typedef struct det_accel_dl_kwargs {
    int64_t batch_size;
    int num_workers, prefetch;
    int64_t seed;
    bool drop_last;         // or the default's
    det_sampler *sampler;   // instead of shuffling; handed over
    det_collate_fn collate; // with collate_user
    void *collate_user;
} det_accel_dl_kwargs;
#define DET_ACCEL_DL_KWARGS(...)                                                         \
    (&DET_OPTS(det_accel_dl_kwargs, .batch_size = -1, .num_workers = -1, .prefetch = -1, \
               .seed = -1, __VA_ARGS__))

typedef struct det_accel_train_opts {
    det_dataset *eval_dataset; // NULL: no evaluation
    // One of the two must be given, or a configuration has searcher.max_length; the smaller limit
    // counts. On a cluster the searcher decides.
    int64_t num_epochs;                  // negative, the default: not given
    int64_t max_num_train_steps;         // updates; negative, the default: not given
    int64_t per_device_batch_size;       // 8
    int64_t gradient_accumulation_steps; // 1
    double gradient_clip_value;          // gradients are cut to -value .. value; INFINITY: not
    det_accel_scheduler_fn create_scheduler;
    const det_accel_dl_kwargs *train_dataloader_kwargs, *eval_dataloader_kwargs; // NULL: none
    bool shuffle;            // true: the training set; not with a sampler
    bool keep_run_history;   // of previous runs
    const char *resume_from; // a file of det_accel_save_training_state
    // As of any training: where checkpoints go, which one to go on from, when they are made, the
    // file of metrics, who is told, when to stop. Lengths and data are those above.
    det_train_opts run;
} det_accel_train_opts;

typedef struct det_accel_batch_output {
    det_tensor *loss; // a single number
    det_tensor *model_outputs;
    int64_t batch_size;         // samples: the weight of the loss in the epoch's average
    int64_t num_items_in_batch; // not 0: loss is a sum over processes divided by this
    void *extra;                // the step's own, for callbacks
} det_accel_batch_output;

// A member that is NULL is the default's; det_accel_default has them all, so that a step of one's
// own can call what it replaces. create_* and calculate_* return something, all others change
// state.
typedef struct det_accel_ops {
    // setup
    det_loader *(*create_train_dataloader)(det_accel *t, int64_t batch_size,
                                           const det_accel_dl_kwargs *kwargs);
    det_loader_opts (*get_default_train_dl_kwargs)(det_accel *t, int64_t batch_size);
    det_loader *(*create_eval_dataloader)(det_accel *t, int64_t batch_size,
                                          const det_accel_dl_kwargs *kwargs);
    det_loader_opts (*get_default_eval_dl_kwargs)(det_accel *t, int64_t batch_size);
    det_lr_scheduler *(*create_scheduler)(det_accel *t); // NULL: constant rates

    // a training run
    void (*training_run_start)(det_accel *t);
    void (*training_run_epoch_end)(det_accel *t);
    void (*training_run_end)(det_accel *t);

    // a training epoch
    void (*train_epoch_start)(det_accel *t); // training mode
    det_accel_batch_output (*calculate_train_batch_loss)(det_accel *t, const det_value *batch);
    void (*backward_step)(det_accel *t, det_tensor *loss);
    void (*optimizer_step)(det_accel *t);
    void (*scheduler_step)(det_accel *t); // after each update; only called if there is a scheduler
    void (*optimizer_zero_grad)(det_accel *t);
    void (*train_epoch_end)(det_accel *t);

    // an evaluation epoch
    void (*eval_epoch_start)(det_accel *t); // evaluation mode
    det_accel_batch_output (*calculate_eval_batch_loss)(det_accel *t, const det_value *batch);
    void (*eval_epoch_end)(det_accel *t);

    // an evaluation run
    void (*evaluation_run_start)(det_accel *t);
    void (*evaluation_run_end)(det_accel *t);

    // Internal: whoever replaces these changes how the trainer itself works.
    void (*prepare_model_and_optimizer)(det_accel *t);
    void (*prepare_dataloaders)(det_accel *t);
    det_accel_run_config (*create_run_config)(det_accel *t, const det_accel_train_opts *asked);
    void (*run_training)(det_accel *t);
    void (*run_train_epoch)(det_accel *t, det_loader *loader);
    void (*clip_gradients)(det_accel *t); // only called if gradient_clip_value is finite
    void (*run_eval_epoch)(det_accel *t, det_loader *loader);
} det_accel_ops;

DET_API extern const det_accel_ops det_accel_default;

// --- callbacks

// Events of a callback; those that are NULL are skipped. self is the callback's own.
typedef struct det_accel_callback_ops {
    const char *name; // two callbacks of one name are refused
    void (*on_init_end)(void *self, det_accel *t);
    void (*on_training_run_start)(void *self, det_accel *t);
    void (*on_train_epoch_start)(void *self, det_accel *t);
    void (*on_train_step_start)(void *self, det_accel *t);
    // output->loss is divided by the batches of its update (gradient_accumulation_steps).
    void (*on_train_step_end)(void *self, det_accel *t, const det_value *batch,
                              const det_accel_batch_output *output);
    void (*on_train_epoch_end)(void *self, det_accel *t);
    void (*on_eval_epoch_start)(void *self, det_accel *t);
    void (*on_eval_step_start)(void *self, det_accel *t);
    void (*on_eval_step_end)(void *self, det_accel *t, const det_value *batch,
                             const det_accel_batch_output *output);
    void (*on_eval_epoch_end)(void *self, det_accel *t);
    void (*on_training_run_epoch_end)(void *self, det_accel *t);
    void (*on_training_run_end)(void *self, det_accel *t);
    void (*on_evaluation_run_start)(void *self, det_accel *t);
    void (*on_evaluation_run_end)(void *self, det_accel *t);
    void (*on_stop_training_error)(void *self, det_accel *t);
    void (*on_event)(void *self, det_accel *t, const char *event, void *arg); // of one's own
    // What of self belongs into a saved training state; both or neither.
    det_value *(*state_dict)(void *self);
    int (*load_state_dict)(void *self, const det_value *state, det_err *err);
    void (*free)(void *self);
} det_accel_callback_ops;

// self is handed over if ops->free is given. ops must live as long as the callback.
DET_API det_accel_callback *det_accel_callback_new(const det_accel_callback_ops *ops, void *self);
DET_API void det_accel_callback_free(det_accel_callback *c);

typedef struct det_accel_callbacks {
    det_accel_callback *const *items;
    int n;
} det_accel_callbacks;
// clang-format off
#define DET_ACCEL_CALLBACKS(...)                                                                         \
    {(det_accel_callback *const[]){__VA_ARGS__},                                                   \
     (int)(sizeof((det_accel_callback *const[]){__VA_ARGS__}) / sizeof(det_accel_callback *))}
// clang-format on

#define DET_ACCEL_CALLBACKS_NONE               \
    {                                          \
        (det_accel_callback *const[]){NULL}, 0 \
    }

// --- the trainer

// det_cross_entropy_with and the other losses of det/ops.h are such functions.
typedef det_tensor *(*det_accel_loss_fn)(det_tensor *outputs, det_tensor *targets,
                                         det_loss_opts opts);

typedef struct det_accel_opts {
    const det_accel_ops *ops; // steps to replace; must outlive the trainer
    void *self;               // for them: det_accel_self
    det_accel_callbacks
        callbacks; // handed over; DET_ACCEL_CALLBACKS_NONE: not even the default ones
    det_accel_history *run_history; // handed over
    det_loss_opts loss_opts;
    bool bf16; // losses are calculated in mixed precision
    int64_t
        seed; // of dropout and the order of samples; negative, the default: that of .trainer, or 42
    FILE *out; // NULL: stdout
    // Of det_init: what the program is a task of, and the other processes. Must outlive this. NULL: it
    // is by itself, whatever started it.
    det_trainer *trainer;
} det_accel_opts;

// Takes model and optimizer, also on failure.
#define DET_ACCEL_OPTS(...) DET_OPTS(det_accel_opts, .seed = -1, __VA_ARGS__)
#define det_accel_new(model, loss_func, optimizer, ...) \
    det_accel_new_with(model, loss_func, optimizer, DET_ACCEL_OPTS(__VA_ARGS__))
DET_API det_accel *det_accel_new_with(det_module *model, det_accel_loss_fn loss_func,
                                      det_optimizer *optimizer, det_accel_opts opts);
DET_API void det_accel_free(det_accel *t);

// Trains on a dataset, which stays the caller's. num_epochs is the length of the whole run, also of
// one that is resumed. The result is valid until the next training; its training and validation
// metrics are those of the run history. NULL on failure.
#define DET_ACCEL_TRAIN_OPTS(...)                                               \
    DET_OPTS(det_accel_train_opts, .num_epochs = -1, .max_num_train_steps = -1, \
             .per_device_batch_size = 8, .gradient_accumulation_steps = 1,      \
             .gradient_clip_value = (double)INFINITY, .shuffle = true, __VA_ARGS__)
#define det_accel_train(trainer, dataset, ...) \
    det_accel_train_with(trainer, dataset, DET_ACCEL_TRAIN_OPTS(__VA_ARGS__))
DET_API const det_result *det_accel_train_with(det_accel *t, det_dataset *dataset,
                                               det_accel_train_opts opts);

typedef struct det_accel_evaluate_opts {
    int64_t per_device_batch_size; // 8
    const det_accel_dl_kwargs *dataloader_kwargs;
} det_accel_evaluate_opts;

// One evaluation epoch; the run history is reset, the metric is called evaluation_loss. It is not
// reported to a cluster.
#define det_accel_evaluate(trainer, dataset, ...) \
    det_accel_evaluate_with(                      \
        trainer, dataset,                         \
        DET_OPTS(det_accel_evaluate_opts, .per_device_batch_size = 8, __VA_ARGS__))
DET_API bool det_accel_evaluate_with(det_accel *t, det_dataset *dataset,
                                     det_accel_evaluate_opts opts);

// Sums a tensor over all processes, in place: for metrics of one's own.
DET_API void det_accel_all_reduce(det_accel *t, det_tensor *x);

DET_API void *det_accel_self(det_accel *t);
DET_API det_module *det_accel_model(det_accel *t);
DET_API det_optimizer *det_accel_optimizer(det_accel *t);
DET_API det_lr_scheduler *det_accel_scheduler(det_accel *t); // NULL before a run and without one
DET_API det_accel_history *det_accel_run_history(det_accel *t);
DET_API const det_accel_run_config *det_accel_get_run_config(
    const det_accel *t); // NULL before a run
DET_API det_dataset *det_accel_train_dataset(det_accel *t);
DET_API det_dataset *det_accel_eval_dataset(det_accel *t);
DET_API det_loader *det_accel_train_dataloader(det_accel *t);
DET_API det_loader *det_accel_eval_dataloader(det_accel *t);
DET_API int64_t det_accel_step(const det_accel *t);         // batches of this epoch before this one
DET_API int64_t det_accel_n_steps(const det_accel *t);      // batches of this epoch
DET_API int64_t det_accel_updates(const det_accel *t);      // of the optimizer in this run
DET_API bool det_accel_is_intermediate(const det_accel *t); // evaluation amid a training epoch

// Ends the run in good order: the message is printed, on_stop_training_error follows, then
// *_run_end. Called from a step or a callback.
DET_API void det_accel_stop(det_accel *t, const char *fmt, ...) DET_PRINTF(2, 3);
// A line on det_accel_opts.out, once per machine.
DET_API void det_accel_print(det_accel *t, const char *fmt, ...) DET_PRINTF(2, 3);
// Calls on_event of all callbacks.
DET_API void det_accel_call_event(det_accel *t, const char *event, void *arg);
DET_API void det_accel_add_callback(det_accel *t, det_accel_callback *c); // taken

// --- checkpoints

typedef struct det_accel_save_opts {
    const det_value *checkpoint_kwargs; // a dict: further entries
    bool optimizer, scheduler;          // true: they are saved
} det_accel_save_opts;

// A .pth file for torch.load: model_state_dict, optimizer_state_dict, scheduler_state_dict.
#define det_accel_save_checkpoint(trainer, path, ...) \
    det_accel_save_checkpoint_with(                   \
        trainer, path,                                \
        DET_OPTS(det_accel_save_opts, .optimizer = true, .scheduler = true, __VA_ARGS__))
DET_API bool det_accel_save_checkpoint_with(det_accel *t, const char *path,
                                            det_accel_save_opts opts);

typedef struct det_accel_load_opts {
    bool optimizer, scheduler; // true: they are loaded, if the file has them
    det_value **content;       // not NULL: all that is in the file, for the caller to free
} det_accel_load_opts;
// DET_ESTATE if the file has a scheduler and the trainer none: train first, or .scheduler = false.
#define det_accel_load_checkpoint(trainer, path, ...) \
    det_accel_load_checkpoint_with(                   \
        trainer, path,                                \
        DET_OPTS(det_accel_load_opts, .optimizer = true, .scheduler = true, __VA_ARGS__))
DET_API bool det_accel_load_checkpoint_with(det_accel *t, const char *path,
                                            det_accel_load_opts opts);

// A file for .resume_from, with all that is needed to go on as if nothing had happened: model,
// optimizer, scheduler, history, callbacks, position. Possible in on_train_step_start (except while
// gradients are accumulated), on_train_epoch_end, on_training_run_epoch_end and
// on_training_run_end, where det_accel_is_resumable; DET_ESTATE elsewhere.
DET_API bool det_accel_save_training_state(det_accel *t, const char *path);
DET_API bool det_accel_is_resumable(const det_accel *t);

#include "det/accelerated_callbacks.h"
#include "det/finetuning.h"
