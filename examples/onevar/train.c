// Trains the trial of model_def.c by itself: no master, no configuration.
#include <det/det.h>
#include <stdio.h>

extern const det_trial_ops OneVarTrial;

static void show(const det_report *r, void *user)
{
    (void)user;
    if (r->kind != DET_REPORT_VALIDATION) return;
    printf("epoch %lld: loss %.6f\n", (long long)r->epochs, det_metrics_get(r->metrics, "loss"));
}

int main(void)
{
    det_trainer *trainer = det_init(.hparams = "{learning_rate: 0.001, global_batch_size: 32}");
    det_trial *trial = det_build_trial(trainer, &OneVarTrial);
    const det_result *result = det_fit(trainer, trial, .max_length = det_epochs(10),
                                       .min_validation_period = det_epochs(1), .on_report = show);
    if (result)
        printf("trained %lld batches, w is %.6f\n", (long long)result->batches,
               det_metrics_get(result->training, "weight"));
    det_err err;
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "%s\n", err.msg);
    det_trainer_free(trainer);
    return rc ? 1 : 0;
}
