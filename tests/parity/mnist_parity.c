// mnist_parity DIGITS CONFIG INITIAL SEED BATCHES: trains the trial of examples/mnist from the
// weights in the checkpoint directory INITIAL, in the order that NumPy shuffles with SEED. Prints
// the loss of each batch, and in the end the validation error, one number a line.
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_TRAINING = 60000, BATCH = 64 };

extern const det_trial_ops MNistTrial;

static det_loader *digits(const char *dir, bool train, uint64_t seed)
{
    det_transform *transform = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081)));
    return det_loader_new(det_dataset_mnist(dir, .train = train, .transform = transform),
                          .batch_size = BATCH,
                          .sampler = train ? det_sampler_numpy_shuffle(N_TRAINING, seed) : NULL);
}

static void show(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_TRAINING) printf("%.9g\n", det_metrics_get(r->metrics, "loss"));
}

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    uint64_t seed = strtoull(argv[4], NULL, 10);
    det_err err;
    det_trainer *trainer = det_init(.config = argv[2], .seed = seed);
    const det_result *result = det_train(
        trainer, det_build_trial(trainer, &MNistTrial), .training = digits(argv[1], true, seed),
        .validation = digits(argv[1], false, seed), .max_length = det_batches(atoll(argv[5])),
        .reporting_period = det_batches(1), .resume = argv[3], .on_report = show);
    if (result) printf("%.9g\n", det_metrics_get(result->validation, "validation_error"));
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "mnist_parity: %s\n", err.msg);
    det_trainer_free(trainer);
    return rc ? 1 : 0;
}
