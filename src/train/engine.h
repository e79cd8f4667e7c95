// train/engine.h: what the loop needs of whatever computes.
//
// The loop never touches a tensor: it holds the engine's objects by pointer (det/handles.h) and
// hands them to these functions. The engine of this library is src/engine/; another one puts its
// own objects behind the same pointers, and a trial makes them with that engine's functions.
//
// Functions are called by the thread that trains, except those of which something else is said.
// Those that return nothing, a bool or an object fail by the sticky error (det/sticky.h), which
// the loop asks for. Unless something else is said, all have to be there.
#pragma once

#include "base/buf.h"
#include "det/trainer.h"
#include "dist/dist.h"

struct det_engine {
    const char *name; // "det": the framework of its checkpoints

    // Steps. begin opens the memory of one batch and makes its random numbers a function of (seed,
    // step); end closes it.
    void (*seed)(uint64_t seed);
    void (*begin)(uint64_t step);
    void (*end)(void);
    bool (*set_grad_enabled)(bool on); // returns the setting before
    // Who hears of what is allowed and rarely meant. Returns the one before.
    det_warning_handler (*set_warning_handler)(det_warning_handler handler);

    // Data. Batches are valid until the next call; NULL without an error is the end.
    int64_t (*loader_length)(const det_loader *loader);
    int64_t (*loader_batch_size)(const det_loader *loader);
    void (*loader_seed)(det_loader *loader, uint64_t seed); // unless it has one
    void (*loader_free)(det_loader *loader);
    det_iter *(*iter_open)(det_loader *loader, det_iter_opts opts);
    const det_value *(*iter_next)(det_iter *it, det_err *err);
    void (*iter_close)(det_iter *it);
    int64_t (*batch_length)(const det_value *batch, det_err *err);

    // Models.
    void (*model_train)(det_module *model, bool training);
    void (*model_autocast)(det_module *model, bool on); // its forward computes in low precision
    void (*model_describe)(const det_module *model, struct buf *out); // for people: its layers
    void (*model_free)(det_module *model);

    // Gradients and steps. A scaler may be NULL.
    void (*backward)(det_tensor *loss, det_backward_opts opts);
    det_scaler *(*scaler_new)(void);
    det_tensor *(*scale_loss)(det_scaler *scaler, det_tensor *loss);
    void (*unscale_grads)(det_scaler *scaler, det_optimizer *opt); // unless that is done already
    void (*scaler_again)(det_scaler *scaler, const det_optimizer *opt); // it may step once more
    void (*scaler_update)(det_scaler *scaler);
    void (*scaler_free)(det_scaler *scaler);
    void (*scale_grads)(det_optimizer *opt, double factor);
    // Parameters that are in none of the models.
    int (*n_params_outside)(const det_optimizer *opt, det_module *const *models, int n_models);
    double (*clip_norm)(det_optimizer *opt, double max_norm);
    void (*clip_value)(det_optimizer *opt, double limit);
    bool (*optim_step)(det_scaler *scaler, det_optimizer *opt);
    void (*zero_grad)(det_optimizer *opt);
    void (*optim_free)(det_optimizer *opt);
    void (*lr_step)(det_lr_scheduler *schedule);
    bool (*lr_wants_metric)(const det_lr_scheduler *schedule);
    det_optimizer *(*lr_optimizer)(const det_lr_scheduler *schedule);
    void (*lr_free)(det_lr_scheduler *schedule);

    // Metrics. What a trial reports must be a single number (err says what it is instead). Where
    // looking at it costs nothing, *number gets it. Where the loop would have to wait for it (on
    // another device), *kept gets a reference to what it is now, and the numbers of a whole
    // workload are read at once. Whatever is kept is given to kept_free. The last two may be NULL
    // in an engine that keeps nothing.
    int (*scalar)(det_tensor *value, double *number, det_tensor **kept, det_err *err);
    int (*read_kept)(det_tensor *const *kept, int64_t n, double *out, det_err *err);
    void (*kept_free)(det_tensor *kept);

    // Predictions. forward is what a model makes of a batch, by default of the first tensor in it;
    // keep is a copy that outlives the batch; join makes one of a list of them, in order, which is
    // the caller's by reference.
    det_tensor *(*forward)(det_module *model, const det_value *batch);
    det_value *(*prediction_keep)(det_tensor *prediction);
    det_tensor *(*prediction_join)(const det_value *parts);

    // State. Trees are the caller's, but may share tensors with the objects; snapshot makes the
    // copy that does not change any more. What of a tree is an object (train never looks inside)
    // is up to the engine. Loading changes nothing on failure. grads_state gives NULL if no
    // parameter has a gradient. A snapshot is saved and freed by the thread that writes
    // checkpoints, while the loop goes on.
    det_value *(*model_state)(const det_module *model);
    int (*model_load)(det_module *model, const det_value *state, det_err *err);
    det_value *(*grads_state)(const det_module *model);
    int (*grads_load)(det_module *model, const det_value *state, det_err *err);
    det_value *(*optim_state)(const det_optimizer *opt);
    int (*optim_load)(det_optimizer *opt, const det_value *state, det_err *err);
    det_value *(*lr_state)(const det_lr_scheduler *schedule);
    int (*lr_load)(det_lr_scheduler *schedule, const det_value *state, det_err *err);
    det_value *(*scaler_state)(const det_scaler *scaler);
    int (*scaler_load)(det_scaler *scaler, const det_value *state, det_err *err);
    det_value *(*rng_state)(void);
    int (*rng_load)(const det_value *state, det_err *err);
    det_value *(*snapshot)(const det_value *state, det_err *err);
    int (*save)(const char *path, const det_value *snapshot, det_err *err);
    det_value *(*load)(const char *path, det_err *err);

    // Several ranks. Gradients become their mean over all of them; models (or only what is not a
    // parameter) get the values of rank 0; trees travel as bytes.
    int (*mean_grads)(det_optimizer *opt, struct dist *ranks, det_err *err);
    int (*share_model)(det_module *model, bool buffers_only, struct dist *ranks, det_err *err);
    int (*pack)(const det_value *tree, struct buf *out, det_err *err);
    det_value *(*unpack)(struct str bytes, det_err *err);
};

// The engine of a det_init that names none, and of a train_task. A layer that has an engine says so
// when the program is loaded; NULL: there is none.
extern const det_engine *engine_default;
