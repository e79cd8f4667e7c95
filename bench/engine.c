// Program bench-engine: trains one workload for some seconds and prints one line of JSON.
//   bench-engine WORKLOAD THREADS SECONDS [bf16]
// SECONDS may be a number of steps instead, as in `20steps`: always the same work, whose
// instructions `valgrind --tool=callgrind` can count. Two numbers of steps give the cost of one
// without the start. BENCH_START (nanoseconds of the monotonic clock when the process was started)
// gives the time to the first step. engine.py is the torch side.
#include "support/models.h"

#include "det/optim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { N_BATCHES = 4, MAX_SAMPLES = 100000 };

struct workload {
    const char *name;
    int64_t batch;
    det_module *(*model)(void);
    det_optimizer *(*optimizer)(det_module *m);
    det_tensor *(*input)(void);
    det_tensor *(*target)(void);
    det_tensor *(*loss)(det_tensor *y, det_tensor *target);
};

static det_module *mnist_model(void)
{
    return model_mnist(0.5);
}
static det_module *onevar_model(void)
{
    return det_nn_linear(1, 1);
}
static det_module *lstm_model(void)
{
    return model_lstm(256, 256, 10);
}
static det_module *gpt_model(void)
{
    return model_gpt(1000, 256, 8, 4, 128);
}
static det_module *resnet_model(void)
{
    return model_resnet(32);
}

static det_optimizer *sgd_mnist(det_module *m)
{
    return det_optim_sgd(m, .lr = 0.001, .momentum = 0.9);
}
static det_optimizer *sgd_plain(det_module *m)
{
    return det_optim_sgd(m, .lr = 0.01);
}
static det_optimizer *adam(det_module *m)
{
    return det_optim_adam(m, .lr = 1e-3);
}
static det_optimizer *adamw(det_module *m)
{
    return det_optim_adamw(m, .lr = 3e-4);
}
static det_optimizer *sgd_image(det_module *m)
{
    return det_optim_sgd(m, .lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4);
}

static det_tensor *digits(void)
{
    return det_randn(DET_F32, DET_DIMS(64, 1, 28, 28));
}
static det_tensor *numbers(void)
{
    return det_randn(DET_F32, DET_DIMS(32, 1));
}
static det_tensor *vectors(void)
{
    return det_randn(DET_F32, DET_DIMS(128, 784));
}
static det_tensor *images(void)
{
    return det_randn(DET_F32, DET_DIMS(64, 3, 32, 32));
}
static det_tensor *sequences(void)
{
    return det_randn(DET_F32, DET_DIMS(64, 32, 256));
}
static det_tensor *tokens(void)
{
    return det_randint(0, 1000, DET_DIMS(8, 128));
}
static det_tensor *classes_64(void)
{
    return det_randint(0, 10, DET_DIMS(64));
}
static det_tensor *classes_128(void)
{
    return det_randint(0, 10, DET_DIMS(128));
}
static det_tensor *classes_32(void)
{
    return det_randint(0, 10, DET_DIMS(32));
}

static det_tensor *nll(det_tensor *y, det_tensor *t)
{
    return det_nll_loss(y, t);
}
static det_tensor *mse(det_tensor *y, det_tensor *t)
{
    return det_mse_loss(y, t);
}
static det_tensor *cross_entropy(det_tensor *y, det_tensor *t)
{
    return det_cross_entropy(y, t);
}
static det_tensor *token_loss(det_tensor *y, det_tensor *t)
{
    return det_cross_entropy(det_view(y, DET_DIMS(1024, 1000)), det_view(t, DET_DIMS(1024)));
}

static const struct workload workloads[] = {
    {"mnist", 64, mnist_model, sgd_mnist, digits, classes_64, nll},
    {"onevar", 32, onevar_model, sgd_plain, numbers, numbers, mse},
    {"mlp", 128, model_mlp, adam, vectors, classes_128, cross_entropy},
    {"vgg", 64, model_vgg, sgd_image, images, classes_64, cross_entropy},
    {"resnet", 64, resnet_model, sgd_image, images, classes_64, cross_entropy},
    {"gpt", 8, gpt_model, adamw, tokens, tokens, token_loss},
    {"lstm", 32, lstm_model, adam, sequences, classes_32, cross_entropy},
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct run {
    const struct workload *w;
    det_module *model;
    det_optimizer *opt;
    det_tensor *x[N_BATCHES], *y[N_BATCHES];
    bool bf16;
    double loss;
};

// What a user writes for one batch.
static void step(struct run *r, int64_t i)
{
    det_scope_begin();
    det_set_autocast(r->bf16);
    det_tensor *out = det_forward(r->model, r->x[i % N_BATCHES]);
    det_set_autocast(false);
    det_tensor *loss = r->w->loss(out, r->y[i % N_BATCHES]);
    det_backward(loss);
    det_optim_step(r->opt);
    det_optim_zero_grad(r->opt);
    if (i % 64 == 0) r->loss = det_item(loss);
    det_scope_end();
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Median over chunks of about 0.1 s.
static double median_step_s(struct run *r, double seconds)
{
    static double chunk[MAX_SAMPLES];
    int64_t start = now_ns(), warm = 0, i = 0;
    for (; i < 3 || now_ns() - start < 300000000; i++)
        step(r, i);
    warm = i;
    int64_t per = (int64_t)(0.1 * (double)warm / ((double)(now_ns() - start) * 1e-9));
    if (per < 1) per = 1;
    int n = 0;
    start = now_ns();
    while (n < MAX_SAMPLES && (n < 3 || (double)(now_ns() - start) * 1e-9 < seconds)) {
        int64_t t = now_ns();
        for (int64_t k = 0; k < per; k++)
            step(r, i++);
        chunk[n++] = (double)(now_ns() - t) * 1e-9 / (double)per;
    }
    qsort(chunk, (size_t)n, sizeof *chunk, compare);
    return chunk[n / 2];
}

// Mean over a fixed number of steps.
static double mean_step_s(struct run *r, int64_t n_step)
{
    int64_t start = now_ns();
    for (int64_t i = 1; i <= n_step; i++)
        step(r, i);
    return (double)(now_ns() - start) * 1e-9 / (double)n_step;
}

static double measure(struct run *r, const char *length)
{
    char *unit;
    double value = strtod(length, &unit);
    if (value <= 0) return 0;
    return strcmp(unit, "steps") ? median_step_s(r, value) : mean_step_s(r, (int64_t)value);
}

static int bench(const struct workload *w, int threads, const char *length, bool bf16)
{
    det_set_threads(threads);
    det_manual_seed(1);
    det_scope_begin();
    struct run r = {.w = w, .model = w->model(), .bf16 = bf16};
    r.opt = w->optimizer(r.model);
    for (int i = 0; i < N_BATCHES; i++) {
        r.x[i] = w->input();
        r.y[i] = w->target();
    }
    step(&r, 0);
    const char *start = getenv("BENCH_START");
    double first_ms = start ? (double)(now_ns() - strtoll(start, NULL, 10)) * 1e-6 : 0;
    double s = measure(&r, length);
    det_err err;
    if (det_check(&err)) {
        fprintf(stderr, "bench-engine: %s: %s\n", w->name, err.msg);
        return 1;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"workload\": \"%s\", \"bf16\": %s, \"threads\": %d, \"step_ms\": %.6f, "
           "\"samples_per_s\": %.1f, "
           "\"rss_mb\": %.1f, \"first_step_ms\": %.2f, \"loss\": %.6f, \"kernels\": \"%s\"}\n",
           w->name, bf16 ? "true" : "false", threads, s * 1e3, s > 0 ? (double)w->batch / s : 0,
           (double)usage.ru_maxrss / 1024, first_ms, r.loss, det_isa());
    det_optim_free(r.opt);
    det_module_free(r.model);
    det_scope_end();
    return 0;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc >= 4 && i < sizeof workloads / sizeof *workloads; i++)
        if (!strcmp(argv[1], workloads[i].name))
            return bench(&workloads[i], atoi(argv[2]), argv[3],
                         argc > 4 && !strcmp(argv[4], "bf16"));
    fprintf(stderr, "usage: bench-engine WORKLOAD THREADS SECONDS|Nsteps [bf16]\n");
    return 2;
}
