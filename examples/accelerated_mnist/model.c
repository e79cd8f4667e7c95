// MNIST with the trainer of pytorch-accelerated. A callback records accuracy, precision and recall
// of every evaluation in the run history, from where they are printed.
//
//     accelerated_mnist FOLDER [EPOCHS]       the folder has the idx files as distributed
//
// The same program is an experiment with const.yaml, and a search with search.yaml.
#include <det/det.h>
#include <stdlib.h>

enum { N_CLASSES = 10 };

static det_module *build_model(void)
{
    return det_nn_sequential(det_nn_conv2d(1, 32, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                             det_nn_conv2d(32, 64, .kernel = 5), det_nn_max_pool2d(2),
                             det_nn_relu(), det_nn_flatten(), det_nn_linear(1024, 128),
                             det_nn_relu(), det_nn_dropout(0.25), det_nn_linear(128, N_CLASSES));
}

static det_dataset *digits(const char *folder, bool train)
{
    return det_dataset_mnist(folder, .train = train,
                             .transform = det_transform_compose(
                                 det_transform_to_tensor(),
                                 det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081))));
}

static void update_metrics(void *self, det_accel *trainer, const det_value *batch,
                           const det_accel_batch_output *output)
{
    (void)trainer;
    det_confusion_update(self, det_argmax(output->model_outputs, -1, false),
                         det_batch_at(batch, 1));
}

static void record_metrics(void *self, det_accel *trainer)
{
    det_accel_history *history = det_accel_run_history(trainer);
    det_accel_history_update(history, "accuracy", det_confusion_accuracy(self));
    det_accel_history_update(history, "precision",
                             det_confusion_precision(self, DET_AVERAGE_MACRO));
    det_accel_history_update(history, "recall", det_confusion_recall(self, DET_AVERAGE_MACRO));
    det_confusion_reset(self);
}

static const det_accel_callback_ops metrics = {
    .name = "Metrics", .on_eval_step_end = update_metrics, .on_eval_epoch_end = record_metrics};

DET_ACCEL_PARTIAL(one_cycle, det_lr_one_cycle, .max_lr = 3e-3,
                  .total_steps = DET_ACCEL_NUM_EPOCHS * DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH);

static void train(det_trainer *task, det_dataset *training, det_dataset *validation, int64_t epochs)
{
    det_module *model = build_model();
    det_optimizer *adamw = det_optim_adamw(model, .lr = det_hparam_double(task, "learning_rate"));
    det_confusion *confusion = det_confusion_new(N_CLASSES);
    // The callback that records comes before those that print.
    det_accel *trainer =
        det_accel_new(model, det_cross_entropy_with, adamw, .trainer = task,
                      .callbacks = DET_ACCEL_CALLBACKS(
                          det_accel_callback_new(&metrics, confusion), DET_ACCEL_DEFAULT_CALLBACKS,
                          det_accel_callback_save_best_model(.watch_metric = "accuracy",
                                                             .greater_is_better = true)));
    det_accel_train(trainer, training, .num_epochs = epochs, .eval_dataset = validation,
                    .per_device_batch_size = det_hparam_int(task, "batch_size"),
                    .create_scheduler = one_cycle);
    det_accel_free(trainer);
    det_confusion_free(confusion);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER [EPOCHS]\n", argv[0]);
        return 2;
    }
    // By itself it has these hyperparameters and trains so many epochs; under a master a searcher
    // may have others in mind.
    det_trainer *task = det_init(.hparams = "{learning_rate: 0.001, batch_size: 64}");
    det_dataset *training = digits(argv[1], true), *validation = digits(argv[1], false);
    train(task, training, validation, argc > 2 ? strtol(argv[2], NULL, 10) : 2);
    det_err err;
    int rc = det_check(&err);
    if (rc) fprintf(stderr, "%s: %s\n", argv[0], err.msg);
    det_dataset_free(training);
    det_dataset_free(validation);
    det_trainer_free(task);
    return rc ? 1 : 0;
}
