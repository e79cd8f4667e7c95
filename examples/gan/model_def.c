// Two models against each other: a generator makes points of the plane, and a discriminator tells
// them from points of a circle. Each has an optimizer of its own, and a batch has several steps.
#include <det/det.h>
#include <math.h>

enum { N_POINTS = 2048 };

struct gan {
    det_context *ctx;
    det_module *generator, *discriminator;
    det_optimizer *generator_opt, *discriminator_opt;
    int64_t latent; // numbers that a point is made from
};

// --- models

static det_module *layers(int64_t in, int64_t hidden, int64_t out)
{
    return det_nn_sequential(det_nn_linear(in, hidden), det_nn_leaky_relu(0.2),
                             det_nn_linear(hidden, hidden), det_nn_leaky_relu(0.2),
                             det_nn_linear(hidden, out));
}

// Whatever is wrapped is saved, in this order.
static int gan_init(void *self, det_context *ctx, det_err *err)
{
    struct gan *g = self;
    int64_t hidden = det_hparam_int(ctx, "hidden");
    g->ctx = ctx;
    g->latent = det_hparam_int(ctx, "latent");
    g->generator = det_wrap_model(ctx, layers(g->latent, hidden, 2));
    g->discriminator = det_wrap_model(ctx, layers(2, hidden, 1));
    g->generator_opt = det_wrap_optimizer(
        ctx,
        det_optim_adam(g->generator, .lr = det_hparam_double(ctx, "generator_lr"), .beta1 = 0.5));
    g->discriminator_opt = det_wrap_optimizer(
        ctx, det_optim_adam(g->discriminator, .lr = det_hparam_double(ctx, "discriminator_lr"),
                            .beta1 = 0.5));
    return det_check(err);
}

// --- one batch

// n points: (n, 2)
static det_tensor *generate(struct gan *g, int64_t n)
{
    return det_forward(g->generator, det_randn(DET_F32, DET_DIMS(n, g->latent)));
}

// How far the discriminator is from saying that all of these points are real, or none of them.
static det_tensor *judge(struct gan *g, det_tensor *points, bool real)
{
    det_tensor *logits = det_forward(g->discriminator, points);
    det_tensor *wanted = det_full(DET_F32, DET_DIMS(det_size(points, 0), 1), real);
    return det_bce_with_logits_loss(logits, wanted);
}

static det_tensor *step_discriminator(struct gan *g, det_tensor *real)
{
    det_tensor *fake = det_detach(generate(g, det_size(real, 0)));
    det_tensor *loss = det_add(judge(g, real, true), judge(g, fake, false));
    det_backward_loss(g->ctx, loss);
    det_step_optimizer(g->ctx, g->discriminator_opt);
    return loss;
}

// The way back leads through the discriminator, which is frozen meanwhile: it gets no gradients.
static det_tensor *step_generator(struct gan *g, int64_t n)
{
    det_module_requires_grad(g->discriminator, false);
    det_tensor *loss = judge(g, generate(g, n), true);
    det_backward_loss(g->ctx, loss);
    det_step_optimizer(g->ctx, g->generator_opt);
    det_module_requires_grad(g->discriminator, true);
    return loss;
}

static int gan_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct gan *g = self;
    det_tensor *real = det_batch_at(step->batch, 0), *loss = NULL;
    for (int64_t i = det_hparam_int(g->ctx, "discriminator_steps"); i > 0; i--)
        loss = step_discriminator(g, real);
    det_metric(out, "discriminator_loss", loss);
    det_metric(out, "generator_loss", step_generator(g, det_size(real, 0)));
    return det_check(err);
}

// How far generated points are from the circle: 0 would be perfect.
static int gan_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct gan *g = self;
    det_tensor *points = generate(g, det_size(det_batch_at(step->batch, 0), 0));
    det_tensor *radius = det_norm_over(points, 2, DET_DIMS(1), false);
    det_metric(out, "distance", det_mean(det_abs(det_sub_scalar(radius, 1))));
    return det_check(err);
}

// --- data: points of the circle with radius 1

static det_loader *gan_data(void *self)
{
    struct gan *g = self;
    det_tensor *angle = det_mul_scalar(det_arange(DET_F32, 0, N_POINTS, 1), 2 * M_PI / N_POINTS);
    det_tensor *points = det_stack((det_tensor *const[]){det_cos(angle), det_sin(angle)}, 2, 1);
    return det_loader_new(det_dataset_tensors(&points, 1), .shuffle = true,
                          .batch_size = det_context_per_slot_batch_size(g->ctx));
}

DET_TRIAL(GanTrial) = {
    .size = sizeof(struct gan),
    .init = gan_init,
    .train_batch = gan_train_batch,
    .evaluate_batch = gan_evaluate_batch,
    .build_training_data_loader = gan_data,
    .build_validation_data_loader = gan_data,
};
