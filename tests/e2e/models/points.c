// Which of two numbers is larger? An accelerated program for accelerated.py. SLOW in the environment lets it be caught in the
// middle.
#include <det/det.h>
#include <stdlib.h>
#include <unistd.h>

static det_dataset *points(int n)
{
    float x[512][2];
    int64_t y[512];
    for (int i = 0; i < n; i++) {
        x[i][0] = (float)(i * 37 % 101) / 50 - 1;
        x[i][1] = (float)(i * 53 % 97) / 48 - 1;
        y[i] = x[i][0] < x[i][1];
    }
    det_scope_begin();
    det_tensor *t[] = {det_from(DET_F32, DET_DIMS(n, 2), x), det_from(DET_I64, DET_DIMS(n), y)};
    det_dataset *d = det_dataset_tensors(t, 2);
    det_scope_end();
    return d;
}

static void wait(void *self, det_accel *t)
{
    (void)self;
    if (det_accel_step(t) % 4 == 0 && getenv("SLOW")) usleep(20000);
}
static const det_accel_callback_ops slow = {.name = "Slow", .on_train_step_start = wait};

int main(void)
{
    det_trainer *task = det_init(.hparams = "{lr: 0.01, width: 16}");
    det_dataset *train = points(512), *eval = points(128);
    det_module *model =
        det_nn_sequential(det_nn_linear(2, det_hparam_int(task, "width")), det_nn_relu(),
                          det_nn_dropout(0.2), det_nn_linear(det_hparam_int(task, "width"), 2));
    det_accel *trainer =
        det_accel_new(model, det_cross_entropy_with,
                      det_optim_adam(model, .lr = det_hparam_double(task, "lr")), .trainer = task,
                      .callbacks = DET_ACCEL_CALLBACKS(DET_ACCEL_DEFAULT_CALLBACKS,
                                                       det_accel_callback_new(&slow, NULL),
                                                       det_accel_callback_model_ema(.decay = 0.9)));
    const det_result *r = det_accel_train(trainer, train, .num_epochs = 1, .eval_dataset = eval,
                                          .per_device_batch_size = 8 / det_trainer_size(task));
    if (r)
        det_accel_print(trainer, "ended after %lld batches: %d", (long long)r->batches,
                        (int)r->stop_reason);
    det_accel_free(trainer);
    det_dataset_free(train);
    det_dataset_free(eval);
    det_err err;
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "%s\n", err.msg);
    det_trainer_free(task);
    return rc ? 1 : 0;
}
