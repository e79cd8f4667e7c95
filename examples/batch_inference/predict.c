// Batch inference: what a trained model of the mnist example says about the test images, as CSV.
//
//     predict [CONFIG]
//
// In a job the configuration is that of the job, and the checkpoint is the best one of a trial of
// the cluster. The model is made with the hyperparameters that are in the checkpoint; predictions
// have the order of the dataset, whatever the batches are and however many slots share them
// (det-launch --slots 8 ./predict ...).
#include <det/det.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const det_trial_ops MNistTrial;

static det_loader *images(const det_config *data)
{
    det_transform *transform = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081)));
    return det_loader_new(det_dataset_mnist(det_config_str(data, "images"), .transform = transform),
                          .batch_size = det_config_int(data, "batch_size"));
}

static det_trial *trained(det_trainer *trainer, const det_config *data)
{
    if (!det_config_has(data, "checkpoint"))
        return det_load_checkpoint_trial(trainer, &MNistTrial,
                                         .trial_id = det_config_int(data, "trial_id"));
    return det_load_checkpoint_trial(trainer, &MNistTrial,
                                     .directory = det_config_str(data, "checkpoint"));
}

// logp: (images, classes). One line per image: its number, the likeliest class, how likely it is.
static int write_csv(const char *path, det_tensor *logp, det_err *err)
{
    det_tensor *class = NULL;
    const float *best = det_data_f32(det_max_along(logp, 1, false, &class));
    const int64_t *digit = det_data_i64(class);
    int rc = det_check(err);
    if (rc) return rc;
    FILE *f = fopen(path, "w");
    if (!f) return det_fail(err, DET_EIO, "cannot write '%s': %s", path, strerror(errno));
    fprintf(f, "index,digit,probability\n");
    for (int64_t i = 0; i < det_size(logp, 0); i++)
        fprintf(f, "%lld,%lld,%.4f\n", (long long)i, (long long)digit[i], exp((double)best[i]));
    bool failed = ferror(f);
    if (fclose(f) || failed) return det_fail(err, DET_EIO, "cannot write all of '%s'", path);
    printf("%lld predictions in %s\n", (long long)det_size(logp, 0), path);
    return det_ok(err);
}

int main(int argc, char **argv)
{
    det_err err;
    det_trainer *trainer = det_init(.config = argc > 1 ? argv[1] : NULL);
    const det_config *data = trainer ? det_data_config(trainer) : NULL;
    det_trial *trial = trainer ? trained(trainer, data) : NULL;
    det_tensor *logp = trial ? det_predict(trainer, trial, images(data)) : NULL;
    const char *output = logp ? det_config_str(data, "output") : "";
    int rc = det_check(&err);
    if (!rc && det_trainer_rank(trainer) == 0) {
        det_scope_begin();
        rc = write_csv(output, logp, &err);
        det_scope_end();
    }
    if (rc) fprintf(stderr, "predict: %s\n", err.msg);
    det_unref(logp);
    det_trainer_free(trainer);
    return rc ? 1 : 0;
}
