// MNIST digits: a convolutional network, trained step by step by the trial itself.
//
// tutorial.c is the same network in the style where the loop does the steps.
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>

struct mnist {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

// --- data

// The files that scripts/fetch-mnist gets, unless the configuration names another folder.
static det_dataset *digits(det_context *ctx, bool train)
{
    const det_config *data = det_data_config(ctx);
    const char *home = getenv("HOME");
    char dir[512];
    snprintf(dir, sizeof dir, "%s/.cache/det/mnist", home ? home : "");
    if (det_config_has(data, "dir")) snprintf(dir, sizeof dir, "%s", det_config_str(data, "dir"));
    return det_dataset_mnist(dir, .train = train,
                             .transform = det_transform_compose(
                                 det_transform_to_tensor(),
                                 det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081))));
}

static det_loader *mnist_training_data(void *self)
{
    struct mnist *m = self;
    return det_loader_new(digits(m->ctx, true), .shuffle = true,
                          .batch_size = det_context_per_slot_batch_size(m->ctx));
}

static det_loader *mnist_validation_data(void *self)
{
    struct mnist *m = self;
    return det_loader_new(digits(m->ctx, false),
                          .batch_size = det_context_per_slot_batch_size(m->ctx));
}

// --- model

static int mnist_init(void *self, det_context *ctx, det_err *err)
{
    struct mnist *m = self;
    int64_t f1 = det_hparam_int(ctx, "n_filters1"), f2 = det_hparam_int(ctx, "n_filters2");
    m->ctx = ctx;
    m->model = det_wrap_model(
        ctx,
        det_nn_sequential(det_nn_conv2d(1, f1, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                          det_nn_conv2d(f1, f2, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                          det_nn_flatten(), det_nn_linear(16 * f2, 50), det_nn_relu(),
                          det_nn_dropout2d(det_hparam_double(ctx, "dropout")),
                          det_nn_linear(50, 10), det_nn_log_softmax(1)));
    m->opt = det_wrap_optimizer(
        ctx,
        det_optim_sgd(m->model, .lr = det_hparam_double(ctx, "learning_rate"), .momentum = 0.9));
    return det_check(err);
}

static det_tensor *error_rate(det_tensor *logp, det_tensor *labels)
{
    return det_mean(det_to(det_ne(det_argmax(logp, 1, false), labels), DET_F32));
}

static int mnist_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct mnist *m = self;
    det_tensor *images = det_batch_at(step->batch, 0), *labels = det_batch_at(step->batch, 1);
    det_tensor *logp = det_forward(m->model, images);
    det_tensor *loss = det_nll_loss(logp, labels);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt);
    det_metric(out, "loss", loss);
    det_metric(out, "train_error", error_rate(logp, labels));
    return det_check(err);
}

static int mnist_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct mnist *m = self;
    det_tensor *images = det_batch_at(step->batch, 0), *labels = det_batch_at(step->batch, 1);
    det_tensor *logp = det_forward(m->model, images);
    det_metric(out, "validation_loss", det_nll_loss(logp, labels));
    det_metric(out, "validation_error", error_rate(logp, labels));
    return det_check(err);
}

DET_TRIAL(MNistTrial) = {
    .size = sizeof(struct mnist),
    .init = mnist_init,
    .train_batch = mnist_train_batch,
    .evaluate_batch = mnist_evaluate_batch,
    .build_training_data_loader = mnist_training_data,
    .build_validation_data_loader = mnist_validation_data,
};
