// MNIST digits in the style of the tutorial: six functions say what model, optimizer, data and
// losses are, and the loop does the rest: backward, steps, clearing gradients.
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>

struct mnist {
    det_context *ctx;
};

static int mnist_init(void *self, det_context *ctx, det_err *err)
{
    struct mnist *m = self;
    m->ctx = ctx;
    return det_ok(err);
}

// --- data

static det_loader *digits(struct mnist *m, bool train)
{
    const det_config *data = det_data_config(m->ctx);
    const char *home = getenv("HOME");
    char dir[512];
    snprintf(dir, sizeof dir, "%s/.cache/det/mnist", home ? home : "");
    if (det_config_has(data, "dir")) snprintf(dir, sizeof dir, "%s", det_config_str(data, "dir"));
    return det_loader_new(det_dataset_mnist(dir, .train = train), .shuffle = train,
                          .batch_size = det_context_per_slot_batch_size(m->ctx));
}

static det_loader *mnist_training_data(void *self)
{
    return digits(self, true);
}

static det_loader *mnist_validation_data(void *self)
{
    return digits(self, false);
}

// --- model

static det_module *mnist_model(void *self)
{
    struct mnist *m = self;
    int64_t f1 = det_hparam_int(m->ctx, "n_filters1"), f2 = det_hparam_int(m->ctx, "n_filters2");
    det_module *model =
        det_nn_sequential(det_nn_conv2d(1, f1, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                          det_nn_conv2d(f1, f2, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                          det_nn_flatten(), det_nn_linear(16 * f2, 50), det_nn_relu(),
                          det_nn_dropout2d(det_hparam_double(m->ctx, "dropout")),
                          det_nn_linear(50, 10), det_nn_log_softmax(1));
    det_module_reset_parameters(model);
    return model;
}

static det_optimizer *mnist_optimizer(void *self, det_module *model)
{
    struct mnist *m = self;
    return det_optim_sgd(model, .lr = det_hparam_double(m->ctx, "learning_rate"), .momentum = 0.9);
}

static det_tensor *error_rate(det_tensor *predictions, det_tensor *labels)
{
    return det_mean(det_to(det_ne(det_argmax(predictions, 1, false), labels), DET_F32));
}

static int mnist_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self;
    det_tensor *data = det_batch_at(step->batch, 0), *labels = det_batch_at(step->batch, 1);
    det_tensor *output = det_forward(step->model, data);
    det_metric(out, "loss", det_nll_loss(output, labels));
    det_metric(out, "train_error", error_rate(output, labels));
    return det_check(err);
}

static int mnist_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self;
    det_tensor *data = det_batch_at(step->batch, 0), *labels = det_batch_at(step->batch, 1);
    det_metric(out, "validation_error", error_rate(det_forward(step->model, data), labels));
    return det_check(err);
}

DET_TRIAL(MNistTutorial) = {
    .size = sizeof(struct mnist),
    .init = mnist_init,
    .build_model = mnist_model,
    .optimizer = mnist_optimizer,
    .train_batch = mnist_train_batch,
    .evaluate_batch = mnist_evaluate_batch,
    .build_training_data_loader = mnist_training_data,
    .build_validation_data_loader = mnist_validation_data,
};
