// accel/accel.h: the inside of the trainer of pytorch-accelerated.
#pragma once

#include "det/accelerated.h"
#include "dist/dist.h"
#include "tensor/tensor.h"
#include "train/train.h"

// The mean of losses, each weighted by the samples it stands for.
struct loss_tracker {
    double total;
    int64_t count;
};

void loss_tracker_update(struct loss_tracker *l, double loss, int64_t n);
double loss_tracker_average(const struct loss_tracker *l); // NaN if there was none

struct callback_list {
    det_accel_callback **item;
    int n;
};

struct det_accel_callback {
    const det_accel_callback_ops *ops;
    void *self;
};

// Takes the callbacks, also on failure. False: the sticky error is set.
bool callbacks_add(struct callback_list *list, det_accel_callback *c);
void callbacks_done(struct callback_list *list);

enum eval_kind { EVAL_OF_EPOCH, EVAL_INTERMEDIATE, EVAL_ALONE };

// What the host of the training knows of, and hears (hosted.c).
struct hosted {
    det_length target;        // to train to next
    bool is_over;             // nobody wants more
    int n_evals;              // evaluations within evaluations
    int64_t n_seen;           // values of the history that were reported, or belong to earlier runs
    int64_t part_batches;     // trained since the last report
    struct loss_tracker part; // the same
    int64_t start_us;         // of it, or of the evaluation
};

// What is going on, for messages.
struct place {
    int64_t epoch; // from 1; 0: there are none
    const char *what;
    bool has_batches; // det_accel.step is the one at hand
};

struct det_accel {
    det_accel_ops ops; // complete
    void *self;
    det_module *model;
    det_optimizer *optimizer;
    det_lr_scheduler *scheduler;
    det_accel_loss_fn loss_func;
    det_loss_opts loss_opts;
    det_accel_history *history;
    struct callback_list callbacks;
    det_trainer *trainer;
    bool owns_trainer;  // it is nobody's task
    struct dist *ranks; // of the trainer; NULL: alone
    bool bf16;
    int64_t asked_seed; // negative: that of the trainer
    uint64_t seed;      // of this run
    FILE *out;

    // this run
    det_dataset *train_dataset, *eval_dataset;
    det_loader *train_loader, *eval_loader;
    det_loader_opts train_dl_kwargs, eval_dl_kwargs;
    bool shuffle;
    det_accel_scheduler_fn create_scheduler;
    const det_result *result; // of the last run; NULL: there is none
    det_accel_run_config config;
    bool has_config;
    int64_t limit_batches; // of an epoch; 0: none
    enum eval_kind eval_kind;

    // where it is
    int64_t first_epoch;   // the history's number of epoch 0
    int64_t epoch;         // of this run, from 0
    bool train_done;       // the training part of this epoch is over
    int64_t step, n_steps; // batches of this epoch: before this one, all
    int64_t n_batches;     // of training in this run so far
    int64_t updates;
    int64_t eval_batch; // batches trained before the last evaluation of an epoch; -1: none
    double batch_loss;  // of the last batch
    struct loss_tracker loss;
    det_value *callback_states; // to be loaded when the resumed run has started
    struct training *run;       // NULL: an evaluation run
    struct hosted hosted;
    bool resumable; // between two updates, at a point that a saved state can name
    bool stopping;  // det_accel_stop was called
    bool leaving;   // somebody wants the run to go on later
    char stop_message[256];
    struct place place;
    const char *failed_callback; // NULL: it was not a callback, or nothing has failed
};

// That of the next run, unless it goes on with another one.
uint64_t accel_seed(const det_accel *t);

// Neither stopping, leaving nor failed: go on.
bool accel_running(const det_accel *t);

// Remembers the callback that has just been called, if it was the first thing to fail.
void accel_note_callback(det_accel *t, const char *name);

// Calls an event of all callbacks, until one of them ends the run.
#define EVENT(t, event, ...)                                                  \
    do {                                                                      \
        for (int i_ = 0; i_ < (t)->callbacks.n && accel_running(t); i_++) {   \
            det_accel_callback *c_ = (t)->callbacks.item[i_];                 \
            if (c_->ops->event) c_->ops->event(c_->self, (t), ##__VA_ARGS__); \
            accel_note_callback((t), c_->ops->name);                          \
        }                                                                     \
    } while (0)

// A step without result, unless the run has ended.
#define STEP(t, step_, ...)                                       \
    do {                                                          \
        if (accel_running(t)) (t)->ops.step_((t), ##__VA_ARGS__); \
    } while (0)

// --- run_config.c

// What follows from what was asked for, the lengths of the loaders and the number of processes,
// which config has already.
void run_config_resolve(det_accel_run_config *config, const det_accel_train_opts *asked);
// DET_EINVAL if no evaluation is possible: fewer samples than processes need for one batch each.
// *warning: why a gather over all processes would hang, or NULL.
int run_config_check_eval(const det_accel_run_config *config, int64_t n_samples,
                          const char **warning, det_err *err);
// What a loss is multiplied by before the backward pass. window: batches of this update.
double run_config_loss_factor(const det_accel_run_config *config, int64_t window,
                              bool has_num_items);

// --- loop.c: the defaults of run_training, run_train_epoch and run_eval_epoch

void loop_run_training(det_accel *t);
void loop_run_train_epoch(det_accel *t, det_loader *loader);
void loop_run_eval_epoch(det_accel *t, det_loader *loader);
void loop_run_evaluation(det_accel *t);
// An evaluation amid a training epoch, which then goes on as before, in training mode.
void loop_run_intermediate_eval(det_accel *t);
// The same, which counts like that of an epoch.
void loop_run_eval_amid(det_accel *t);

// --- processes.c

int processes_rank(const det_accel *t);
int processes_count(const det_accel *t);
// Gradients become the mean over all processes.
void processes_average_gradients(det_accel *t);
// The sum of both over all processes.
struct loss_tracker processes_sum_losses(det_accel *t, struct loss_tracker l);

// --- checkpoint.c

det_value *checkpoint_dict(const det_accel *t, const det_accel_save_opts *opts);
int checkpoint_restore(det_accel *t, const det_value *dict, const det_accel_load_opts *opts,
                       det_err *err);
int checkpoint_write(const det_accel *t, const char *path, const det_value *dict, det_err *err);
bool accel_raise(const det_err *err); // false

// --- training_state.c

int training_state_load(det_accel *t, const char *path, det_err *err);
// What of it is not the model's, the optimizer's or the scheduler's.
void training_state_put(det_accel *t, det_value *dict);
int training_state_take(det_accel *t, const det_value *dict, det_err *err);
// Gives callbacks their states, which on_training_run_start would have cleared.
void training_state_resume_callbacks(det_accel *t);

// --- hosted.c: a run as a training of the trainer: lengths, reports, checkpoints, leaving

void hosted_init(det_accel *t);
void hosted_start(det_accel *t); // asks for the first length
void hosted_go_on(det_accel *t); // behind what was trained before
bool hosted_wants_more(const det_accel *t);
void hosted_batch_end(det_accel *t, double loss, int64_t n_samples);
void hosted_train_epoch_start(det_accel *t);
void hosted_train_epoch_end(det_accel *t);
void hosted_eval_start(det_accel *t);
void hosted_eval_end(det_accel *t);
bool hosted_has_evaluated(const det_accel *t); // what was trained so far
// After an epoch, with all that belongs to it.
void hosted_epoch_end(det_accel *t);
void hosted_stop(det_accel *t);

// --- history.c

// Values that were ever recorded; with it, what is new can be found.
int64_t history_count(const det_accel_history *h);
// The latest of each metric that has got values since. Room for all metrics.
int history_news(const det_accel_history *h, int64_t since, det_metric_value *out);
det_value *history_state(const det_accel_history *h);
int history_load(det_accel_history *h, const det_value *state, det_err *err);
