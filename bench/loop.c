// Program bench-loop: trains one of the examples for a number of batches; instructions.py counts the
// instructions.
//   bench-loop onevar|mnist BATCHES [CONFIG]
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const det_trial_ops OneVarTrial, MNistTutorial;

static const struct workload {
    const char *name;
    const det_trial_ops *ops;
    const char *hparams;
} workloads[] = {
    {"onevar", &OneVarTrial, "{learning_rate: 0.001, global_batch_size: 32}"},
    {"mnist", &MNistTutorial,
     "{learning_rate: 0.01, global_batch_size: 64, n_filters1: 10, n_filters2: 20, dropout: 0.5}"},
};

static const struct workload *find(const char *name)
{
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (!strcmp(workloads[i].name, name)) return &workloads[i];
    return NULL;
}

static int train(const struct workload *w, int64_t n_batches, const char *config)
{
    det_err err;
    det_set_threads(1); // so that every run executes the same instructions
    det_trainer *trainer = det_init(.hparams = w->hparams, .config = config, .seed = 1);
    det_train(trainer, det_build_trial(trainer, w->ops), .max_length = det_batches(n_batches),
              .reporting_period = det_batches(100));
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "bench-loop: %s\n", err.msg);
    det_trainer_free(trainer);
    return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
    const struct workload *w = argc > 2 ? find(argv[1]) : NULL;
    if (w) return train(w, strtoll(argv[2], NULL, 10), argc > 3 ? argv[3] : NULL);
    fprintf(stderr, "usage: %s onevar|mnist BATCHES [CONFIG]\n", argv[0]);
    return 2;
}
