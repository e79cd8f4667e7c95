// Program bench-ranks: what ranks cost and what they gain.
//   bench-ranks [BATCHES]
// First the time of a barrier and of sums over two ranks; then the network of the MNIST example,
// with made-up digits, trained by one rank with two threads and by two ranks with one thread each.
#include "det/det.h"
#include "dist/dist.h"
#include "support/models.h"
#include "sys/clock.h"
#include "sys/pool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_DIGITS = 3200, GLOBAL_BATCH = 64, WARM_UP = 20 };

static int64_t n_batches = 300;
static double *shared; // a number of rank 0, for the parent

// Runs fn as n ranks.
static void run_ranks(int n, int n_threads, void (*fn)(void))
{
    static int n_runs;
    char key[64], text[16];
    snprintf(key, sizeof key, "bench-%ld-%d", (long)getpid(), n_runs++);
    setenv("DET_RANKS_KEY", key, 1);
    for (int i = 0; i < n; i++) {
        if (fork()) continue;
        snprintf(text, sizeof text, "%d", i);
        setenv("RANK", text, 1);
        snprintf(text, sizeof text, "%d", n);
        setenv("WORLD_SIZE", text, 1);
        pool_set_threads(n_threads);
        fn();
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
}

static struct dist *join(void)
{
    det_err err;
    struct dist *d;
    if (!dist_join_env(&d, &err)) return d;
    fprintf(stderr, "bench-ranks: %s\n", err.msg);
    _exit(1);
}

// --- operations

static size_t sum_bytes; // 0: a barrier

static void repeat_operation(void)
{
    struct dist *d = join();
    float *data = calloc(sum_bytes / sizeof *data + 1, sizeof *data);
    int n = sum_bytes > 1 << 20 ? 50 : 2000;
    int64_t start_us = 0;
    for (int i = -n / 10; i < n; i++) {
        if (i == 0) start_us = clock_mono_us();
        if (sum_bytes)
            dist_all_reduce(d, "bench", data, sum_bytes / sizeof *data, DIST_F32, DIST_MEAN, NULL);
        else
            dist_barrier(d, "bench", NULL);
    }
    if (!dist_rank(d)) *shared = (double)(clock_mono_us() - start_us) / n;
    free(data);
    dist_leave(d);
}

static void measure_operations(void)
{
    static const size_t sizes[] = {0, 4 << 10, 294560, 4 << 20, 64 << 20}; // the third: MNIST
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sum_bytes = sizes[i];
        run_ranks(2, 1, repeat_operation);
        if (sum_bytes)
            printf("all-reduce of %8.1f KB: %9.1f us, %5.2f GB/s\n", (double)sum_bytes / 1e3,
                   *shared, (double)sum_bytes / *shared / 1e3);
        else
            printf("barrier: %29.1f us\n", *shared);
    }
}

// --- a trial

struct digits {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
    int64_t start_us;
};

static int digits_init(void *self, det_context *ctx, det_err *err)
{
    struct digits *m = self;
    m->ctx = ctx;
    m->model = det_wrap_model(ctx, model_mnist(0.5));
    m->opt = det_wrap_optimizer(ctx, det_optim_sgd(m->model, .lr = 0.01, .momentum = 0.9));
    return det_check(err);
}

static int digits_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct digits *m = self;
    if (step->batch_idx == WARM_UP) m->start_us = clock_mono_us();
    det_tensor *y = det_forward(m->model, det_batch_at(step->batch, 0));
    det_tensor *loss = det_nll_loss(y, det_batch_at(step->batch, 1));
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt);
    det_metric(out, "loss", loss);
    if (step->batch_idx == n_batches - 1 && !det_context_rank(m->ctx))
        *shared = (double)(n_batches - WARM_UP) / (double)(clock_mono_us() - m->start_us) * 1e6;
    return det_check(err);
}

static int digits_evaluate(void *self, det_loader *loader, det_metrics *out, det_err *err)
{
    (void)self, (void)loader;
    det_metric(out, "loss", 0.0);
    return det_check(err);
}

static det_loader *digits_data(void *self)
{
    const struct digits *m = self;
    det_tensor *both[] = {det_rand(DET_F32, DET_DIMS(N_DIGITS, 1, 28, 28)),
                          det_randint(0, 10, DET_DIMS(N_DIGITS))};
    return det_loader_new(det_dataset_tensors(both, 2),
                          .batch_size = det_context_per_slot_batch_size(m->ctx), .shuffle = true);
}

static void train(void)
{
    static const det_trial_ops ops = {.size = sizeof(struct digits),
                                      .init = digits_init,
                                      .train_batch = digits_train_batch,
                                      .evaluate_full_dataset = digits_evaluate,
                                      .build_training_data_loader = digits_data,
                                      .build_validation_data_loader = digits_data};
    det_err err;
    det_trainer *t = det_init(.hparams = "{global_batch_size: 64}", .seed = 1);
    det_train(t, det_build_trial(t, &ops), .max_length = det_batches(n_batches));
    if (det_check(&err)) fprintf(stderr, "bench-ranks: %s\n", err.msg);
    det_trainer_free(t);
}

int main(int argc, char **argv)
{
    if (argc > 1) n_batches = strtoll(argv[1], NULL, 10);
    if (n_batches <= WARM_UP) n_batches = WARM_UP + 1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    measure_operations();
    static const int ways[][2] = {{1, 1}, {1, 2}, {2, 1}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run_ranks(ways[i][0], ways[i][1], train);
        printf("MNIST, batches of %d: %d rank%s x %d thread%s: %7.1f batches/s\n", GLOBAL_BATCH,
               ways[i][0], ways[i][0] > 1 ? "s" : "", ways[i][1], ways[i][1] > 1 ? "s" : "",
               *shared);
    }
    return 0;
}
