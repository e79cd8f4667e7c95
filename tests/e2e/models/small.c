// Small: a trial of many kinds, quick to train. Hyperparameters: net (mlp, cnn, rnn, transformer),
// optimizer (sgd, adam), lr; the configuration adds mixed precision and aggregation. With
// SMALL_SLEEP in the environment it falls asleep in its first batch.
#include <det/det.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SAMPLES = 320, N_FEATURES = 64, N_CLASSES = 4, SIDE = 8, WIDTH = 16 };

struct small {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

// --- networks: 64 features are a vector, an image of 8 x 8, or a sequence of 8 vectors of 8

static det_tensor *as_image(det_module *m, det_tensor *x)
{
    (void)m;
    return det_reshape(x, DET_DIMS(-1, 1, SIDE, SIDE));
}

static det_tensor *as_sequence(det_module *m, det_tensor *x)
{
    (void)m;
    return det_reshape(x, DET_DIMS(-1, SIDE, SIDE));
}

static det_tensor *last_of_sequence(det_module *m, det_tensor *x)
{
    (void)m;
    return det_select(x, 1, SIDE - 1);
}

static det_module *mlp(void)
{
    return det_nn_sequential(det_nn_linear(N_FEATURES, 32), det_nn_batch_norm1d(32), det_nn_relu(),
                             det_nn_dropout(0.2), det_nn_linear(32, N_CLASSES));
}

static det_module *cnn(void)
{
    return det_nn_sequential(det_module_new("AsImage", 0, as_image),
                             det_nn_conv2d(1, 8, .kernel = 3, .padding = 1), det_nn_batch_norm2d(8),
                             det_nn_relu(), det_nn_max_pool2d(2), det_nn_dropout2d(0.1),
                             det_nn_flatten(), det_nn_linear(8 * 16, N_CLASSES));
}

static det_module *rnn(void)
{
    return det_nn_sequential(
        det_module_new("AsSequence", 0, as_sequence),
        det_nn_lstm(SIDE, WIDTH, .num_layers = 2, .dropout = 0.1, .batch_first = true),
        det_module_new("Last", 0, last_of_sequence), det_nn_linear(WIDTH, N_CLASSES));
}

static det_module *transformer(void)
{
    return det_nn_sequential(
        det_module_new("AsSequence", 0, as_sequence), det_nn_linear(SIDE, WIDTH),
        det_nn_transformer_encoder_layer(WIDTH, 2, .dim_feedforward = 32, .dropout = 0.1,
                                         .batch_first = true),
        det_module_new("Last", 0, last_of_sequence), det_nn_linear(WIDTH, N_CLASSES));
}

static det_module *build(const char *name)
{
    static const struct {
        const char *name;
        det_module *(*build)(void);
    } rows[] = {{"mlp", mlp}, {"cnn", cnn}, {"rnn", rnn}, {"transformer", transformer}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(name, rows[i].name)) return rows[i].build();
    det_raise(DET_EINVAL, "hyperparameter 'net' is '%s', which is none of ours", name);
    return NULL;
}

// --- data: classes that can be learned, the same in every process

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static det_loader *loader(det_context *ctx, uint32_t seed, int64_t n, bool shuffle)
{
    static float x[N_SAMPLES * N_FEATURES];
    static int64_t y[N_SAMPLES];
    for (int64_t i = 0; i < n; i++) {
        y[i] = next_random(&seed) % N_CLASSES;
        for (int k = 0; k < N_FEATURES; k++)
            x[i * N_FEATURES + k] =
                (float)next_random(&seed) / (1 << 24) + (k % N_CLASSES == y[i] ? 0.5f : 0);
    }
    det_tensor *both[] = {det_from(DET_F32, DET_DIMS(n, N_FEATURES), x),
                          det_from(DET_I64, DET_DIMS(n), y)};
    return det_loader_new(det_dataset_tensors(both, 2),
                          .batch_size = det_context_per_slot_batch_size(ctx), .shuffle = shuffle);
}

static det_loader *training_loader(void *self)
{
    return loader(((struct small *)self)->ctx, 1, N_SAMPLES, true);
}

static det_loader *validation_loader(void *self)
{
    return loader(((struct small *)self)->ctx, 2, 64, false);
}

// --- the trial

static int init(void *self, det_context *ctx, det_err *err)
{
    struct small *s = self;
    double lr = det_hparam_double(ctx, "lr");
    s->ctx = ctx;
    s->model = det_wrap_model(ctx, build(det_hparam_str(ctx, "net")));
    bool adam = !strcmp(det_hparam_str(ctx, "optimizer"), "adam");
    s->opt = det_wrap_optimizer(ctx, adam ? det_optim_adam(s->model, .lr = lr)
                                          : det_optim_sgd(s->model, .lr = lr, .momentum = 0.9));
    det_wrap_lr_scheduler(ctx, det_lr_exponential(s->opt, 0.99), DET_STEP_EVERY_OPTIMIZER_STEP, 1);
    return det_check(err);
}

static void sleep_if_asked(void)
{
    if (!getenv("SMALL_SLEEP")) return;
    fprintf(stderr, "asleep\n");
    for (;;)
        pause();
}

static int train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct small *s = self;
    sleep_if_asked();
    det_tensor *loss = det_cross_entropy(det_forward(s->model, det_batch_at(step->batch, 0)),
                                         det_batch_at(step->batch, 1));
    det_backward_loss(s->ctx, loss);
    det_step_optimizer(s->ctx, s->opt, .clip_norm = 1);
    det_metric(out, "loss", loss);
    return det_check(err);
}

static int evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct small *s = self;
    det_metric(out, "loss",
               det_cross_entropy(det_forward(s->model, det_batch_at(step->batch, 0)),
                                 det_batch_at(step->batch, 1)));
    return det_check(err);
}

DET_TRIAL(Small) = {
    .size = sizeof(struct small),
    .init = init,
    .train_batch = train_batch,
    .evaluate_batch = evaluate_batch,
    .build_training_data_loader = training_loader,
    .build_validation_data_loader = validation_loader,
};
