// det/accelerated.h: the Trainer of pytorch-accelerated.
//
//     DET_ACCEL_PARTIAL(decay, det_lr_step_decay, 7, 0.1);
//
//     det_module *model = det_nn_sequential(det_nn_flatten(), det_nn_linear(784, 10));
//     det_accel *trainer = det_accel_new(model, det_cross_entropy_with, det_optim_adam(model));
//     det_accel_train(trainer, train, &err, .num_epochs = 8, .eval_dataset = eval,
//                     .per_device_batch_size = 32, .create_scheduler = decay);
//     det_accel_evaluate(trainer, test, &err);
//     det_accel_save_checkpoint(trainer, "model.pth", &err);
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
// Errors: steps and callbacks fail by the sticky error (det_raise), which ends the run at once and
// comes out of det_accel_train. det_accel_stop ends a run in good order instead.
// Making a trainer or callback fails by the sticky error too: NULL is accepted everywhere, so the
// result of det_accel_train tells of everything before it.
#pragma once

#include <stdio.h>

#include "det/data.h"
#include "det/optim.h"
#include "det/tracking.h"

typedef struct det_accel det_accel;
typedef struct det_accel_callback det_accel_callback;

// --- run config: what a run was asked to do, and what follows from it

typedef struct det_accel_run_config {
    int64_t num_epochs;
    int64_t train_per_device_batch_size, eval_per_device_batch_size;
    det_loader_opts train_dl_kwargs, eval_dl_kwargs;
    int64_t gradient_accumulation_steps;
    double gradient_clip_value;     // 0: none
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

typedef struct det_accel_train_opts {
    det_dataset *eval_dataset;           // NULL: no evaluation
    int64_t num_epochs;                  // must be given, unless max_num_train_steps is
    int64_t max_num_train_steps;         // updates; the smaller of the two limits counts
    int64_t per_device_batch_size;       // 0: 8
    int64_t gradient_accumulation_steps; // 0: 1
    double gradient_clip_value;          // gradients are cut to -value .. value; 0: none
    det_accel_scheduler_fn create_scheduler;
    det_loader_opts train_dataloader_kwargs, eval_dataloader_kwargs; // members not 0 win
    bool keep_order;         // the training set is not shuffled
    bool keep_run_history;   // of previous runs
    const char *resume_from; // a file of det_accel_save_training_state
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
                                           const det_loader_opts *kwargs);
    det_loader_opts (*get_default_train_dl_kwargs)(det_accel *t, int64_t batch_size);
    det_loader *(*create_eval_dataloader)(det_accel *t, int64_t batch_size,
                                          const det_loader_opts *kwargs);
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
    void (*clip_gradients)(det_accel *t); // only called if there is a gradient_clip_value
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

// --- the trainer

// det_cross_entropy_with and the other losses of det/ops.h are such functions.
typedef det_tensor *(*det_accel_loss_fn)(det_tensor *outputs, det_tensor *targets,
                                         det_loss_opts opts);

// Several processes (or threads) that train one model together: each has a trainer of its own, with
// the same options, seed and initial weights, and the number of its place.
typedef struct det_accel_processes {
    int n;                                         // 0: 1
    int rank, local_rank;                          // among all, among those of this machine
    void (*all_reduce)(void *comm, det_tensor *t); // sums t over all of them, in place
    void *comm;
} det_accel_processes;

// The processes that det-launch has started, by its variables in the environment: the first thing
// such a program does. Alone, *out is that of one process. det_accel_leave ends it; a process that
// leaves early, or dies, makes the sums of the others fail, with its number.
DET_API int det_accel_join(det_accel_processes *out, det_err *err);
DET_API void det_accel_leave(det_accel_processes *p);

typedef struct det_accel_opts {
    const det_accel_ops *ops;       // steps to replace; must outlive the trainer
    void *self;                     // for them: det_accel_self
    det_accel_callbacks callbacks;  // handed over
    bool no_callbacks;              // not even the default ones
    det_accel_history *run_history; // handed over
    det_loss_opts loss_opts;
    bool bf16;     // losses are calculated in mixed precision
    uint64_t seed; // of dropout and the order of samples; 0: 42
    FILE *out;     // NULL: stdout
    det_accel_processes processes;
} det_accel_opts;

// Takes model and optimizer, also on failure.
#define det_accel_new(model, loss_func, optimizer, ...) \
    det_accel_new_with(model, loss_func, optimizer, (det_accel_opts){__VA_ARGS__})
DET_API det_accel *det_accel_new_with(det_module *model, det_accel_loss_fn loss_func,
                                      det_optimizer *optimizer, det_accel_opts opts);
DET_API void det_accel_free(det_accel *t);

// Trains on a dataset, which stays the caller's. num_epochs is the length of the whole run, also of
// one that is resumed.
#define det_accel_train(trainer, dataset, err, ...) \
    det_accel_train_with(trainer, dataset, (det_accel_train_opts){__VA_ARGS__}, err)
DET_API int det_accel_train_with(det_accel *t, det_dataset *dataset, det_accel_train_opts opts,
                                 det_err *err);

typedef struct det_accel_evaluate_opts {
    int64_t per_device_batch_size; // 0: 8
    det_loader_opts dataloader_kwargs;
} det_accel_evaluate_opts;

// One evaluation epoch; the run history is reset, the metric is called evaluation_loss.
#define det_accel_evaluate(trainer, dataset, err, ...) \
    det_accel_evaluate_with(trainer, dataset, (det_accel_evaluate_opts){__VA_ARGS__}, err)
DET_API int det_accel_evaluate_with(det_accel *t, det_dataset *dataset,
                                    det_accel_evaluate_opts opts, det_err *err);

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
    bool no_optimizer, no_scheduler;
} det_accel_save_opts;

// A .pth file for torch.load: model_state_dict, optimizer_state_dict, scheduler_state_dict.
#define det_accel_save_checkpoint(trainer, path, err, ...) \
    det_accel_save_checkpoint_with(trainer, path, (det_accel_save_opts){__VA_ARGS__}, err)
DET_API int det_accel_save_checkpoint_with(det_accel *t, const char *path, det_accel_save_opts opts,
                                           det_err *err);

typedef struct det_accel_load_opts {
    bool no_optimizer, no_scheduler; // left alone, even if the file has them
    det_value **content;             // not NULL: all that is in the file, for the caller to free
} det_accel_load_opts;
// DET_ESTATE if the file has a scheduler and the trainer none: train first, or no_scheduler.
#define det_accel_load_checkpoint(trainer, path, err, ...) \
    det_accel_load_checkpoint_with(trainer, path, (det_accel_load_opts){__VA_ARGS__}, err)
DET_API int det_accel_load_checkpoint_with(det_accel *t, const char *path, det_accel_load_opts opts,
                                           det_err *err);

// A file for .resume_from, with all that is needed to go on as if nothing had happened: model,
// optimizer, scheduler, history, callbacks, position. Possible in on_train_step_start (except while
// gradients are accumulated), on_train_epoch_end, on_training_run_epoch_end and
// on_training_run_end, where det_accel_is_resumable; DET_ESTATE elsewhere.
DET_API int det_accel_save_training_state(det_accel *t, const char *path, det_err *err);
DET_API bool det_accel_is_resumable(const det_accel *t);

#include "det/accelerated_callbacks.h"
#include "det/finetuning.h"
