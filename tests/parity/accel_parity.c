// accel_parity FILE: trains and writes a checkpoint for torch. accel_parity FILE FROM: goes on from
// a checkpoint that torch wrote. Prints the evaluation loss and the learning rate. See
// accel_parity.py.
#include "det/accelerated.h"
#include <stdlib.h>

enum { N = 40 };

static det_dataset *pairs(void)
{
    float x[N][2];
    int64_t y[N];
    for (int i = 0; i < N; i++) {
        x[i][0] = (float)((i * 37) % 101) / 50 - 1;
        x[i][1] = (float)((i * 53) % 97) / 48 - 1;
        y[i] = x[i][0] < x[i][1];
    }
    det_tensor *t[] = {det_from(DET_F32, DET_DIMS(N, 2), x), det_from(DET_I64, DET_DIMS(N), y)};
    return det_dataset_tensors(t, 2);
}

DET_ACCEL_PARTIAL(decay, det_lr_step_decay, 4, 0.5);

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    det_scope_begin();
    det_module *net = det_nn_sequential(det_nn_linear(2, 8), det_nn_batch_norm1d(8), det_nn_relu(),
                                        det_nn_linear(8, 2));
    det_accel *t = det_accel_new(net, det_cross_entropy_with, det_optim_adam(net, .lr = 0.01),
                                 .callbacks = DET_ACCEL_CALLBACKS_NONE);
    det_dataset *d = pairs();
    det_err err;
    det_accel_train(t, d, .num_epochs = 1, .shuffle = false, .create_scheduler = decay);
    if (argc > 2) det_accel_load_checkpoint(t, argv[2]);
    det_accel_save_checkpoint(t, argv[1]);
    det_accel_evaluate(t, d);
    if (det_check(&err)) {
        fprintf(stderr, "accel_parity: %s\n", err.msg);
        return 1;
    }
    printf("%.9g %.9g\n", det_accel_history_latest(det_accel_run_history(t), "evaluation_loss"),
           det_optim_lr(det_accel_optimizer(t), 0));
    det_accel_free(t);
    det_dataset_free(d);
    det_scope_end();
    return 0;
}
