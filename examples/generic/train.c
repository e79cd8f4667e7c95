// A training program of its own making, with the Generic API: metrics, checkpoints, search, pause
// and resume. The model is one weight that learns to be 1; nothing of det's engine is used.
//
//     cc -o train train.c -ldet && ./train          # alone: 3 epochs
//     det experiment create c.yaml .                # the same program on a cluster
#include <det/client.h>
#include <stdio.h>

enum { BATCHES_PER_EPOCH = 64 };

struct state {
    double weight;
    long long epoch, batches; // trained so far
};

static double square(double x)
{
    return x * x;
}

static double train_epoch(struct state *s, double learning_rate)
{
    double sum = 0;
    for (int i = 0; i < BATCHES_PER_EPOCH; i++) {
        sum += square(s->weight - 1);
        s->weight -= learning_rate * 2 * (s->weight - 1);
    }
    s->epoch++;
    s->batches += BATCHES_PER_EPOCH;
    return sum / BATCHES_PER_EPOCH;
}

static int save(det_core *core, const struct state *s, det_err *err)
{
    char file[4096];
    det_checkpoint *checkpoint;
    const char *folder = det_checkpoint_begin(core, &checkpoint, err);
    if (!folder) return err->code;
    snprintf(file, sizeof file, "%s/state.txt", folder);
    FILE *f = fopen(file, "w");
    int written = f ? fprintf(f, "%.17g %lld %lld\n", s->weight, s->epoch, s->batches) : -1;
    if (!f || fclose(f) || written < 0) {
        det_checkpoint_abort(checkpoint);
        return det_fail(err, DET_EIO, "cannot write '%s'", file);
    }
    return det_checkpoint_commit(checkpoint, NULL, err);
}

static int restore(det_core *core, struct state *s, det_err *err)
{
    char file[4096];
    const char *folder;
    int found = det_core_latest_checkpoint(core, &folder, err);
    if (found != 1) return found;
    snprintf(file, sizeof file, "%s/state.txt", folder);
    FILE *f = fopen(file, "r");
    int n = f ? fscanf(f, "%lf %lld %lld", &s->weight, &s->epoch, &s->batches) : 0;
    if (f) fclose(f);
    return n == 3 ? 0 : det_fail(err, DET_ECORRUPT, "'%s' is not a state", file);
}

// Trains as long as the searcher says, or until it is told to stop.
static int train(det_core *core, struct state *s, det_err *err)
{
    double learning_rate = 0.001;
    int64_t epochs = 0;
    det_search_op *op;
    det_core_get_double(core, "hparams.learning_rate", &learning_rate, NULL);
    int rc = restore(core, s, err);
    while (!rc && (rc = det_core_next_search_op(core, &op, err)) == 1) {
        rc = det_search_op_epochs(op, &epochs, err);
        while (!rc && s->epoch < epochs) {
            if (det_core_should_preempt(core)) return 0;
            double loss = train_epoch(s, learning_rate);
            rc = det_core_report_training_metrics(core, s->batches, DET_METRICS({"loss", loss}),
                                                  err);
            if (!rc)
                rc = det_core_report_validation_metrics(
                    core, s->batches, DET_METRICS({"loss", square(s->weight - 1)}), err);
            if (!rc) rc = det_search_op_report_progress(op, (double)s->epoch, err);
            if (!rc) rc = save(core, s, err);
            printf("epoch %lld: loss %g\n", s->epoch, loss);
        }
        if (!rc) rc = det_search_op_complete(op, square(s->weight - 1), err);
    }
    return rc;
}

int main(void)
{
    det_err err = {0};
    struct state state = {0};
    setvbuf(stdout, NULL, _IOLBF, 0); // lines are seen when they are printed
    det_core *core = det_core_init_with(&(det_core_opts){.epochs = 3}, &err);
    int rc = core ? train(core, &state, &err) : err.code;
    if (rc) fprintf(stderr, "train: %s\n", err.msg);
    int closed = det_core_close(core, &err);
    if (closed && !rc) fprintf(stderr, "train: %s\n", err.msg);
    return rc || closed ? 1 : 0;
}
