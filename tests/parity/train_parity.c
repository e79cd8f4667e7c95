// train_parity OUT BATCHES [RESUME]: trains a small network on the data in OUT (x.npy, y.npy), four
// samples per batch in order, with a checkpoint in OUT/checkpoints after each batch, whose
// directories are printed. RESUME is the directory of a checkpoint to go on from.
#include "det/format.h"
#include "det/det.h"
#include <stdio.h>
#include <stdlib.h>

static const char *out_dir;

struct net {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

static int net_init(void *self, det_context *ctx, det_err *err)
{
    struct net *n = self;
    n->ctx = ctx;
    n->model = det_wrap_model(
        ctx, det_nn_sequential(det_nn_linear(6, 10), det_nn_tanh(), det_nn_linear(10, 3)));
    n->opt = det_wrap_optimizer(ctx, det_optim_adam(n->model, .lr = 0.02, .weight_decay = 0.01));
    det_wrap_lr_scheduler(ctx, det_lr_step_decay(n->opt, 2, 0.5), DET_STEP_EVERY_BATCH, 1);
    return det_check(err);
}

static int net_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_tensor *loss = det_cross_entropy(det_forward(n->model, det_batch_at(step->batch, 0)),
                                         det_batch_at(step->batch, 1));
    det_backward_loss(n->ctx, loss);
    det_step_optimizer(n->ctx, n->opt);
    det_metric(out, "loss", loss);
    return det_check(err);
}

static int net_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step;
    det_metric(out, "nothing", 0);
    return det_check(err);
}

static det_tensor *load(const char *name)
{
    char path[512];
    det_err err;
    snprintf(path, sizeof path, "%s/%s", out_dir, name);
    det_tensor *t = det_npy_load(path, &err);
    if (!t) det_raise(err.code, "%s", err.msg);
    return t;
}

static det_loader *net_data(void *self)
{
    (void)self;
    det_tensor *x = load("x.npy"), *y = load("y.npy");
    det_dataset *data = det_dataset_tensors((det_tensor *const[]){x, y}, 2);
    det_unref(x);
    det_unref(y);
    return det_loader_new(data, .batch_size = 4);
}

DET_TRIAL(Net) = {
    .size = sizeof(struct net),
    .init = net_init,
    .train_batch = net_train_batch,
    .evaluate_batch = net_evaluate_batch,
    .build_training_data_loader = net_data,
    .build_validation_data_loader = net_data,
};

static void show(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_CHECKPOINT) printf("%lld %s\n", (long long)r->batches, r->text);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    char checkpoints[512];
    out_dir = argv[1];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", out_dir);
    det_trainer *t = det_init(.seed = 3);
    det_train(t, det_build_trial(t, &Net), .max_length = det_batches(atoll(argv[2])),
              .min_checkpoint_period = det_batches(1), .checkpoint_dir = checkpoints,
              .resume = argc > 3 ? argv[3] : NULL, .on_report = show);
    det_err err;
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "%s\n", err.msg);
    det_trainer_free(t);
    return rc ? 1 : 0;
}
