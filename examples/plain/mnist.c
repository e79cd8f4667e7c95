// mnist.c: trains a small convolutional network on the MNIST digits with nothing but the engine:
// tensors, modules, an optimizer, a loader, and a loop written by hand.
//
//     mnist DIRECTORY [EPOCHS]
//
// DIRECTORY holds the four idx files (scripts/fetch-mnist prints where it put them).
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static det_loader *digits(const char *dir, bool train)
{
    det_transform *transform = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081)));
    return det_loader_new(det_dataset_mnist(dir, .train = train, .transform = transform),
                          .batch_size = 64, .shuffle = train, .seed = 1);
}

static det_module *network(void)
{
    return det_nn_sequential(det_nn_conv2d(1, 40, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                             det_nn_conv2d(40, 40, .kernel = 5), det_nn_max_pool2d(2),
                             det_nn_relu(), det_nn_flatten(), det_nn_linear(640, 50), det_nn_relu(),
                             det_nn_dropout2d(0.5), det_nn_linear(50, 10), det_nn_log_softmax(1));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void progress(int epoch, int64_t done, int64_t total, double loss, double rate)
{
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = (int64_t)i * total < done * WIDTH ? '#' : '.';
    bar[WIDTH] = 0;
    printf("\repoch %d [%s] %4lld/%lld  loss %.4f  %.0f samples/s ", epoch, bar, (long long)done,
           (long long)total, loss, rate);
    fflush(stdout);
}

static int train(det_module *model, det_optimizer *opt, det_loader *loader, int epoch, det_err *err)
{
    det_module_train(model, true);
    det_iter *it = det_loader_iter(loader, .epoch = (uint64_t)epoch);
    int64_t n = 0, total = det_loader_length(loader), samples = 0;
    double loss_sum = 0, start = seconds();
    for (const det_value *batch; (batch = det_iter_next(it, err)); n++) {
        det_scope_begin();
        det_rng_set_step((uint64_t)(epoch * total + n));
        det_tensor *target = det_batch_at(batch, 1);
        det_tensor *loss = det_nll_loss(det_forward(model, det_batch_at(batch, 0)), target);
        det_backward(loss);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
        loss_sum += det_item(loss);
        samples += det_numel(target);
        det_scope_end();
        if (det_check(err)) break;
        if (isatty(STDOUT_FILENO) && n % 20 == 0)
            progress(epoch, n + 1, total, loss_sum / (double)(n + 1),
                     (double)samples / (seconds() - start));
    }
    det_iter_free(it);
    if (err->code) return err->code;
    progress(epoch, n, total, loss_sum / (double)n, (double)samples / (seconds() - start));
    putchar('\n');
    return 0;
}

static int test(det_module *model, det_loader *loader, double *error_rate, det_err *err)
{
    det_module_train(model, false);
    bool grad = det_set_grad_enabled(false);
    det_iter *it = det_loader_iter(loader);
    double wrong = 0;
    for (const det_value *batch; (batch = det_iter_next(it, err));) {
        det_scope_begin();
        det_tensor *guess = det_argmax(det_forward(model, det_batch_at(batch, 0)), 1, false);
        wrong += det_item(det_sum(det_to(det_ne(guess, det_batch_at(batch, 1)), DET_F32)));
        det_scope_end();
        if (det_check(err)) break;
    }
    det_iter_free(it);
    det_set_grad_enabled(grad);
    *error_rate = wrong / (double)det_loader_samples(loader);
    return err->code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: mnist DIRECTORY [EPOCHS]\n");
        return 2;
    }
    int epochs = argc > 2 ? atoi(argv[2]) : 2;
    det_err err = {0};
    det_manual_seed(1);
    det_loader *training = digits(argv[1], true), *testing = digits(argv[1], false);
    det_module *model = network();
    det_optimizer *opt = det_optim_sgd(model, .lr = 0.01, .momentum = 0.9);
    double error_rate = 1;
    int rc = det_check(&err);
    for (int epoch = 0; !rc && epoch < epochs; epoch++)
        rc = train(model, opt, training, epoch, &err);
    if (!rc) rc = test(model, testing, &error_rate, &err);
    if (rc)
        fprintf(stderr, "mnist: %s\n", err.msg);
    else
        printf("test error %.2f %%\n", 100 * error_rate);
    det_optim_free(opt);
    det_module_free(model);
    det_loader_free(training);
    det_loader_free(testing);
    return rc ? 1 : 0;
}
