// The callbacks that come with det: when they stop, what they save, and that an interruption makes
// no difference.
#include "support/files.h"
#include "support/tensors.h"

#include "det/callbacks.h"
#include "det/data.h"
#include "det/finetuning.h"
#include "det/format.h"
#include "det/optim.h"
#include "det/trainer.h"
#include <math.h>

// One weight w that learns to multiply by 1: w after n batches is 1 - (1 - 2 lr)^n. The metric of its
// validations is what the test wants.
enum { BATCHES = 4 }; // of an epoch
static const double LR = 0.125;

struct script {
    double metric[8]; // of each validation
    double seen[8];   // weights during each validation
    int n;
    void (*add)(det_context *ctx, det_module *model);
};
static struct script script;

struct point {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

static det_loader *ones(int64_t n)
{
    det_scope_begin();
    det_tensor *one = det_ones(DET_F32, DET_DIMS(n, 1)), *pair[] = {one, one};
    det_loader *loader = det_loader_new(det_dataset_tensors(pair, 2), .batch_size = 2);
    det_scope_end();
    return loader;
}

static det_loader *training_data(void *self)
{
    (void)self;
    return ones(2 * BATCHES);
}

static det_loader *validation_data(void *self)
{
    (void)self;
    return ones(2);
}

static int init(void *self, det_context *ctx, det_err *err)
{
    struct point *p = self;
    p->ctx = ctx;
    p->model = det_wrap_model(ctx, det_nn_linear(1, 1, .no_bias = true));
    bool grads = det_set_grad_enabled(false);
    det_fill_(det_module_find_param(p->model, "weight"), 0);
    det_set_grad_enabled(grads);
    p->opt = det_wrap_optimizer(ctx, det_optim_sgd(p->model, .lr = LR));
    return det_check(err);
}

static void build_callbacks(void *self, det_context *ctx)
{
    struct point *p = self;
    if (script.add) script.add(ctx, p->model);
}

static int train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct point *p = self;
    det_tensor *loss = det_mse_loss(det_forward(p->model, det_batch_at(step->batch, 0)),
                                    det_batch_at(step->batch, 1));
    det_backward_loss(p->ctx, loss);
    det_step_optimizer(p->ctx, p->opt);
    det_metric(out, "loss", loss);
    return det_check(err);
}

static int evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct point *p = self;
    int n = (int)step->epoch_idx - 1;
    script.seen[n] = det_item(det_module_find_param(p->model, "weight"));
    script.n = n + 1;
    det_metric(out, "score", script.metric[n]);
    return det_check(err);
}

DET_TRIAL(PointTrial) = {
    .size = sizeof(struct point),
    .init = init,
    .build_callbacks = build_callbacks,
    .train_batch = train_batch,
    .evaluate_batch = evaluate_batch,
    .build_training_data_loader = training_data,
    .build_validation_data_loader = validation_data,
};

static int64_t n_trained;
static det_stop_reason why;

static int train(int64_t epochs, const char *dir, bool larger, det_err *err)
{
    det_trainer *t = det_init(.seed = 1);
    const det_result *r =
        det_train(t, det_build_trial(t, &PointTrial), .max_length = det_epochs(epochs),
                  .min_validation_period = det_epochs(1), .metric = "score",
                  .larger_is_better = larger, .checkpoint_dir = dir, .resume_newest = dir != NULL);
    n_trained = r ? r->batches : -1;
    why = r ? r->stop_reason : DET_STOP_LENGTH;
    det_trainer_free(t);
    return det_check(err);
}

static void assert_trains(int64_t epochs, const char *dir, bool larger)
{
    det_err err;
    assert_ok(train(epochs, dir, larger, &err), &err);
}

static int reset(void **state)
{
    script = (struct script){0};
    return scope_setup(state);
}

// --- early stopping

static void stop_early(det_context *ctx, det_module *model)
{
    (void)model;
    det_add_early_stopping(ctx, .patience = 2);
}

static void test_early_stopping__waits_for_patience(void **state)
{
    (void)state;
    script = (struct script){.metric = {3, 2, 2, 1, 1, 4, 0, 0}, .add = stop_early};
    assert_trains(8, NULL, false);
    assert_int_equal(why, DET_STOP_REQUESTED);
    assert_int_equal(script.n, 6); // 1 and 4 are no better than the first 1
    assert_int_equal(n_trained, 6 * BATCHES);
    assert_trains(5, NULL, false);
    assert_int_equal(why, DET_STOP_LENGTH);
}

static void test_early_stopping__knows_what_is_better(void **state)
{
    (void)state;
    script = (struct script){.metric = {1, 2, NAN, 3, NAN, NAN, 9, 9}, .add = stop_early};
    assert_trains(8, NULL, true);
    assert_int_equal(script.n, 6);
}

static void stop_by_threshold(det_context *ctx, det_module *model)
{
    (void)model;
    det_add_early_stopping(ctx, .patience = 1, .threshold = 0.5, .metric = "score");
}

static void test_early_stopping__ignores_small_changes(void **state)
{
    (void)state;
    script = (struct script){.metric = {3, 2, 1.75, 0}, .add = stop_by_threshold};
    assert_trains(4, NULL, false);
    assert_int_equal(script.n, 3);
}

static void test_early_stopping__counts_on_after_an_interruption(void **state)
{
    (void)state;
    const char *dir = temp_path("early");
    script = (struct script){.metric = {3, 2, 2, 2, 0, 0, 0, 0}, .add = stop_early};
    assert_trains(3, dir, false);
    assert_int_equal(why, DET_STOP_LENGTH);
    assert_trains(8, dir, false);
    assert_int_equal(script.n, 4);
}

static void stop_by_nothing(det_context *ctx, det_module *model)
{
    (void)model;
    det_add_early_stopping(ctx, .metric = "f1");
}

static void never_stop(det_context *ctx, det_module *model)
{
    (void)model;
    det_add_early_stopping(ctx, .patience = 0);
}

static void test_early_stopping__says_what_is_wrong(void **state)
{
    (void)state;
    det_err err;
    script.add = stop_by_nothing;
    train(1, NULL, false, &err);
    assert_err(
        err, DET_EINVAL,
        "callback 'early_stopping', on_validation_end: validation does not report the metric 'f1'");
    script.add = never_stop;
    train(1, NULL, false, &err);
    assert_err(err, DET_EINVAL, "patience must be >= 1, got 0");
    script.add = stop_early;
    det_trainer *t = det_init();
    det_train(t, det_build_trial(t, &PointTrial), .max_length = det_epochs(1));
    assert_raised(DET_EINVAL, "which metric tells what is best is not known: give .metric");
    det_trainer_free(t);
}

// --- the best model

static const char *best_path;

static void save_best(det_context *ctx, det_module *model)
{
    det_add_save_best(ctx, model, best_path);
}

static void assert_best(int epoch, double score)
{
    det_err err;
    double value = NAN;
    det_value *saved = det_pth_load(best_path, &err);
    assert_non_null(saved);
    assert_ok(det_value_as_float(det_value_get(saved, "score"), &value, &err), &err);
    assert_near(value, score, 0);
    det_tensor *w =
        det_value_as_tensor(det_value_get(det_value_get(saved, "model_state_dict"), "weight"));
    assert_near(det_item(w), 1 - pow(1 - 2 * LR, epoch * BATCHES), 1e-6);
    det_value_free(saved);
}

static void test_save_best__keeps_the_model_of_the_best_validation(void **state)
{
    (void)state;
    best_path = temp_path("best.pth");
    script = (struct script){.metric = {3, 1, 2}, .add = save_best};
    assert_trains(3, NULL, false);
    assert_best(2, 1);
    assert_trains(3, NULL, true);
    assert_best(1, 3);
}

static void test_save_best__goes_on_after_an_interruption(void **state)
{
    (void)state;
    const char *dir = temp_path("save");
    best_path = temp_path("best-on.pth");
    script = (struct script){.metric = {3, 1, 2, 0.5}, .add = save_best};
    assert_trains(2, dir, false);
    unlink(best_path);
    assert_trains(3, dir, false);
    assert_int_not_equal(access(best_path, F_OK), 0); // 2 is no better than 1
    assert_trains(4, dir, false);
    assert_best(4, 0.5);
}

// --- averages

static void average(det_context *ctx, det_module *model)
{
    det_add_ema(ctx, model, .decay = 0.75);
}

// The weight and its average after each batch.
static double average_after(int n)
{
    double w = 0, mean = 0;
    for (int i = 0; i < n; i++) {
        w = 1 - pow(1 - 2 * LR, i + 1);
        mean = 0.75 * mean + 0.25 * w;
    }
    return mean;
}

static void test_ema__is_what_validations_see(void **state)
{
    (void)state;
    script.add = average;
    assert_trains(3, NULL, false);
    for (int i = 0; i < 3; i++)
        assert_near(script.seen[i], average_after((i + 1) * BATCHES), 1e-6);
}

static void average_then_save(det_context *ctx, det_module *model)
{
    det_add_ema(ctx, model, .decay = 0.75);
    det_add_save_best(ctx, model, best_path);
}

static void test_ema__gives_the_weights_back(void **state)
{
    (void)state;
    best_path = temp_path("after.pth");
    script = (struct script){.metric = {1, 0}, .add = average_then_save};
    assert_trains(2, NULL, false);
    assert_best(2, 0);
}

static void average_quietly(det_context *ctx, det_module *model)
{
    det_add_ema(ctx, model, .decay = 0.75, .evaluate = false);
}

static void test_ema__may_stay_in_the_background(void **state)
{
    (void)state;
    script.add = average_quietly;
    assert_trains(1, NULL, false);
    assert_near(script.seen[0], 1 - pow(1 - 2 * LR, BATCHES), 1e-6);
}

static void test_ema__goes_on_after_an_interruption(void **state)
{
    (void)state;
    script.add = average;
    const char *dir = temp_path("ema");
    assert_trains(1, dir, false);
    assert_trains(3, dir, false);
    assert_near(script.seen[2], average_after(3 * BATCHES), 1e-6);
}

#define POINT_TEST(function) cmocka_unit_test_setup_teardown(function, reset, scope_teardown)

static const struct CMUnitTest tests[] = {
    POINT_TEST(test_early_stopping__waits_for_patience),
    POINT_TEST(test_early_stopping__knows_what_is_better),
    POINT_TEST(test_early_stopping__ignores_small_changes),
    POINT_TEST(test_early_stopping__counts_on_after_an_interruption),
    POINT_TEST(test_early_stopping__says_what_is_wrong),
    POINT_TEST(test_save_best__keeps_the_model_of_the_best_validation),
    POINT_TEST(test_save_best__goes_on_after_an_interruption),
    POINT_TEST(test_ema__is_what_validations_see),
    POINT_TEST(test_ema__gives_the_weights_back),
    POINT_TEST(test_ema__may_stay_in_the_background),
    POINT_TEST(test_ema__goes_on_after_an_interruption),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
