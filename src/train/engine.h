// train/engine.h: what the loop needs of whatever computes.
//
// The loop never touches a tensor: it holds the engine's objects by pointer and hands them to these
// functions. engine_det is the engine of this library; another one puts its own objects behind the
// same pointers.
#pragma once

#include "base/buf.h"
#include "det/trial.h"
#include "dist/dist.h"

struct engine_ops {
    // Steps. begin opens the memory of one batch and makes its random numbers a function of (seed,
    // step); end closes it. check gives the first failure since the last question.
    void (*seed)(uint64_t seed);
    void (*begin)(uint64_t step);
    void (*end)(void);
    int (*check)(det_err *err);
    bool (*set_grad_enabled)(bool on); // returns the setting before

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

    // State. Trees are the caller's, but may share tensors with the objects; snapshot makes the
    // copy that does not change any more. Loading changes nothing on failure. grads_state gives
    // NULL if no parameter has a gradient.
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
    int (*save)(const char *path, const det_value *state, det_err *err);
    det_value *(*load)(const char *path, det_err *err);

    // Several ranks. Gradients become their mean over all of them; models (or only what is not a
    // parameter) get the values of rank 0; trees travel as bytes.
    int (*mean_grads)(det_optimizer *opt, struct dist *ranks, det_err *err);
    int (*share_model)(det_module *model, bool buffers_only, struct dist *ranks, det_err *err);
    int (*pack)(const det_value *tree, struct buf *out, det_err *err);
    det_value *(*unpack)(struct str bytes, det_err *err);
};

extern const struct engine_ops engine_det;
