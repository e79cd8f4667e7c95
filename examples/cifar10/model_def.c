// CIFAR-10: photographs of ten kinds of things, told apart by a small residual network.
//
// Training images are cropped and mirrored at random; each one's luck depends on seed, epoch and
// place alone, so a continued training sees the same images as one that was never interrupted.
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_CLASSES = 10, N_STAGES = 3 };

struct cifar {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

// --- data

static det_transform *images(bool train)
{
    det_transform *normalize = det_transform_normalize(DET_REALS(0.4914, 0.4822, 0.4465),
                                                       DET_REALS(0.2470, 0.2435, 0.2616));
    if (!train) return det_transform_compose(det_transform_to_tensor(), normalize);
    return det_transform_compose(det_transform_random_crop(32, 4),
                                 det_transform_random_horizontal_flip(0.5),
                                 det_transform_to_tensor(), normalize);
}

static det_loader *photographs(struct cifar *m, bool train)
{
    const det_config *data = det_data_config(m->ctx);
    const char *home = getenv("HOME");
    char dir[512];
    snprintf(dir, sizeof dir, "%s/.cache/det/cifar-10-batches-bin", home ? home : "");
    if (det_config_has(data, "dir")) snprintf(dir, sizeof dir, "%s", det_config_str(data, "dir"));
    return det_loader_new(det_dataset_cifar10(dir, .train = train, .transform = images(train)),
                          .shuffle = train, .num_workers = 1,
                          .batch_size = det_context_per_slot_batch_size(m->ctx));
}

static det_loader *cifar_training_data(void *self)
{
    return photographs(self, true);
}

static det_loader *cifar_validation_data(void *self)
{
    return photographs(self, false);
}

// --- model

// Two convolutions beside a shortcut. With a stride, the shortcut is a convolution as well.
struct block {
    det_module *body, *shortcut;
};

static det_tensor *block_forward(det_module *m, det_tensor *x)
{
    struct block *b = det_module_self(m);
    return det_relu(det_add(det_forward(b->body, x), det_forward(b->shortcut, x)));
}

static det_module *block_new(int64_t in, int64_t out, int64_t stride)
{
    det_module *m = det_module_new("Block", sizeof(struct block), block_forward);
    struct block *b = det_module_self(m);
    b->body = det_module_add(
        m, "body",
        det_nn_sequential(
            det_nn_conv2d(in, out, .kernel = 3, .padding = 1, .stride = stride, .no_bias = true),
            det_nn_batch_norm2d(out), det_nn_relu(),
            det_nn_conv2d(out, out, .kernel = 3, .padding = 1, .no_bias = true),
            det_nn_batch_norm2d(out)));
    det_module *shortcut = in == out && stride == 1
                               ? det_nn_identity()
                               : det_nn_sequential(det_nn_conv2d(in, out, .kernel = 1,
                                                                 .stride = stride, .no_bias = true),
                                                   det_nn_batch_norm2d(out));
    b->shortcut = det_module_add(m, "shortcut", shortcut);
    return m;
}

// Three stages (32, 16 and 8 pixels wide), each with twice the channels of the one before.
static det_module *resnet(int64_t width, int64_t n_blocks)
{
    det_module *net =
        det_nn_sequential(det_nn_conv2d(3, width, .kernel = 3, .padding = 1, .no_bias = true),
                          det_nn_batch_norm2d(width), det_nn_relu());
    int64_t in = width;
    char name[32];
    for (int stage = 0; stage < N_STAGES; stage++) {
        int64_t out = width << stage;
        for (int64_t i = 0; i < n_blocks; i++, in = out) {
            snprintf(name, sizeof name, "stage%d_%lld", stage + 1, (long long)i + 1);
            det_module_add(net, name, block_new(in, out, i == 0 && stage > 0 ? 2 : 1));
        }
    }
    det_module_add(net, "pool", det_nn_adaptive_avg_pool2d(1, 1));
    det_module_add(net, "flatten", det_nn_flatten());
    det_module_add(net, "fc", det_nn_linear(in, N_CLASSES));
    return net;
}

static int cifar_init(void *self, det_context *ctx, det_err *err)
{
    struct cifar *m = self;
    m->ctx = ctx;
    m->model = det_wrap_model(
        ctx, resnet(det_hparam_int(ctx, "width"), det_hparam_int(ctx, "blocks_per_stage")));
    m->opt = det_wrap_optimizer(
        ctx,
        det_optim_sgd(m->model, .lr = det_hparam_double(ctx, "learning_rate"), .momentum = 0.9,
                      .nesterov = true, .weight_decay = det_hparam_double(ctx, "weight_decay")));
    det_wrap_lr_scheduler(ctx, det_lr_cosine_annealing(m->opt, det_hparam_int(ctx, "epochs"), 0),
                          DET_STEP_EVERY_EPOCH, 1);
    return det_check(err);
}

// --- one batch

// The part of the images whose label is not among the k likeliest.
static det_tensor *error_rate(det_tensor *logits, det_tensor *labels, int64_t k)
{
    det_tensor *likeliest = NULL;
    det_topk(logits, k, 1, true, &likeliest);
    det_tensor *hits = det_to(det_eq(likeliest, det_unsqueeze(labels, 1)), DET_F32);
    return det_add_scalar(det_mul_scalar(det_mean(hits), (double)-k), 1);
}

static int cifar_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct cifar *m = self;
    det_tensor *labels = det_batch_at(step->batch, 1);
    det_tensor *logits = det_forward(m->model, det_batch_at(step->batch, 0));
    det_tensor *loss = det_cross_entropy(logits, labels);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt);
    det_metric(out, "loss", loss);
    det_metric(out, "train_error", error_rate(logits, labels, 1));
    return det_check(err);
}

static int cifar_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct cifar *m = self;
    det_tensor *labels = det_batch_at(step->batch, 1);
    det_tensor *logits = det_forward(m->model, det_batch_at(step->batch, 0));
    det_metric(out, "validation_loss", det_cross_entropy(logits, labels));
    det_metric(out, "validation_error", error_rate(logits, labels, 1));
    det_metric(out, "validation_error_top5", error_rate(logits, labels, 5));
    return det_check(err);
}

DET_TRIAL(CifarTrial) = {
    .size = sizeof(struct cifar),
    .init = cifar_init,
    .train_batch = cifar_train_batch,
    .evaluate_batch = cifar_evaluate_batch,
    .build_training_data_loader = cifar_training_data,
    .build_validation_data_loader = cifar_validation_data,
};
