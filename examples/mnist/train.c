// Trains one of the two trials on this machine: mnist CONFIG [CHECKPOINTS]
//
// Checkpoints are kept in the folder CHECKPOINTS. Whatever ended the program, starting it again
// goes on from the newest one.
#include <det/det.h>
#include <stdio.h>
#include <string.h>

extern const det_trial_ops MNistTrial, MNistTutorial;

static void show(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_WARNING) printf("warning: %s\n", r->text);
    if (r->kind == DET_REPORT_CHECKPOINT) printf("checkpoint %s\n", r->text);
    if (r->kind != DET_REPORT_TRAINING && r->kind != DET_REPORT_VALIDATION) return;
    printf("batch %5lld:", (long long)r->batches);
    for (int i = 0; i < det_metrics_len(r->metrics); i++)
        printf("  %s %.4f", det_metrics_name(r->metrics, i), det_metrics_at(r->metrics, 0, i));
    printf("  (%.0f records/s)\n", (double)r->n_records / r->seconds);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *config = argc > 1 ? argv[1] : "const.yaml";
    const det_trial_ops *ops = strstr(config, "tutorial") ? &MNistTutorial : &MNistTrial;
    det_trainer *trainer = det_init(.config = config);
    det_train(trainer, det_build_trial(trainer, ops), .on_report = show,
              .checkpoint_dir = argc > 2 ? argv[2] : NULL, .resume_newest = true);
    det_err err;
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "%s\n", err.msg);
    det_trainer_free(trainer);
    return rc ? 1 : 0;
}
