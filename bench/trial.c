// Program bench-trial: what the loop of a trial costs above a loop written by hand.
//   bench-trial MNIST_FOLDER [ROUNDS [BATCHES]]
// Both train the network of the MNIST example with the same loader and report the same loss, in
// turn; each round takes BATCHES batches. Prints one line of JSON with the medians. Times are those
// of the processor, so that other programs on the machine matter less.
#include "det/det.h"
#include "support/models.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 64, MAX_ROUNDS = 101 };

struct bench {
    const char *dir;
    int64_t n_batches;
};

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static det_loader *digits(const char *dir)
{
    det_transform *transform = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081)));
    return det_loader_new(det_dataset_mnist(dir, .train = true, .transform = transform),
                          .batch_size = BATCH, .shuffle = true, .seed = 1);
}

static det_optimizer *sgd(det_module *model)
{
    return det_optim_sgd(model, .lr = 0.01, .momentum = 0.9);
}

static det_tensor *loss_of(det_module *model, const det_value *batch)
{
    return det_nll_loss(det_forward(model, det_batch_at(batch, 0)), det_batch_at(batch, 1));
}

// --- by hand

static double run_bare(const struct bench *b, double *loss)
{
    det_err err;
    det_loader *loader = digits(b->dir);
    det_manual_seed(1);
    det_module *model = model_mnist(0.5);
    det_optimizer *opt = sgd(model);
    det_module_train(model, true);
    double sum = 0, start = cpu_seconds();
    det_iter *it = det_loader_iter(loader, .repeat = true);
    for (int64_t i = 0; i < b->n_batches; i++) {
        const det_value *batch = det_iter_next(it, &err);
        det_scope_begin();
        det_rng_set_step((uint64_t)i + 1);
        det_tensor *l = loss_of(model, batch);
        det_backward(l);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
        sum += det_item(l);
        det_scope_end();
    }
    det_iter_free(it);
    double seconds = cpu_seconds() - start;
    *loss = sum / (double)b->n_batches;
    det_optim_free(opt);
    det_module_free(model);
    det_loader_free(loader);
    return seconds;
}

// --- as a trial

struct digits_trial {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

static int trial_init(void *self, det_context *ctx, det_err *err)
{
    struct digits_trial *m = self;
    m->ctx = ctx;
    m->model = det_wrap_model(ctx, model_mnist(0.5));
    m->opt = det_wrap_optimizer(ctx, sgd(m->model));
    return det_check(err);
}

static int trial_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct digits_trial *m = self;
    det_tensor *loss = loss_of(m->model, step->batch);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt);
    det_metric(out, "loss", loss);
    return det_check(err);
}

// Validation is a part of every training, but not of this comparison.
static int trial_evaluate(void *self, det_loader *loader, det_metrics *out, det_err *err)
{
    (void)self, (void)loader;
    det_metric(out, "loss", 0.0);
    return det_check(err);
}

static double run_trial(const struct bench *b, double *loss)
{
    static const det_trial_ops ops = {.size = sizeof(struct digits_trial),
                                      .init = trial_init,
                                      .train_batch = trial_train_batch,
                                      .evaluate_full_dataset = trial_evaluate};
    det_trainer *trainer = det_init(.hparams = "{global_batch_size: 64}", .seed = 1);
    det_trial *trial = det_build_trial(trainer, &ops);
    det_loader *training = digits(b->dir), *validation = digits(b->dir);
    double start = cpu_seconds();
    const det_result *r =
        det_train(trainer, trial, training, validation, .max_length = det_batches(b->n_batches),
                  .reporting_period = det_batches(b->n_batches));
    double seconds = cpu_seconds() - start;
    if (r) *loss = det_metrics_get(r->training, "loss");
    det_trainer_free(trainer);
    return seconds;
}

// --- both

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench-trial MNIST_FOLDER [ROUNDS [BATCHES]]\n");
        return 2;
    }
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    if (rounds < 1 || rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    struct bench b = {argv[1], argc > 3 ? atoll(argv[3]) : 200};
    double bare[MAX_ROUNDS], trial[MAX_ROUNDS], ratio[MAX_ROUNDS], bare_loss = 0, trial_loss = 0;
    det_err err;
    det_set_threads(1);
    for (int i = 0; i < rounds; i++) {
        bare[i] = run_bare(&b, &bare_loss);
        trial[i] = run_trial(&b, &trial_loss);
        ratio[i] = trial[i] / bare[i];
        if (det_check(&err)) {
            fprintf(stderr, "bench-trial: %s\n", err.msg);
            return 1;
        }
    }
    printf("{\"batches\": %lld, \"bare_us\": %.1f, \"trial_us\": %.1f, \"ratio\": %.4f, "
           "\"bare_loss\": %.6f, \"trial_loss\": %.6f}\n",
           (long long)b.n_batches, 1e6 * median(bare, rounds) / (double)b.n_batches,
           1e6 * median(trial, rounds) / (double)b.n_batches, median(ratio, rounds), bare_loss,
           trial_loss);
    return 0;
}
