// What one batch does: gradients, clipping, schedules, mixed precision; and trials that leave the
// steps to the loop.
#include "support/files.h"
#include "support/onevar.h"
#include "support/training.h"

#include "train/train.h"
#include <inttypes.h>

static struct training_log training;

// --- schedules: the learning rate of batch b shows how often a schedule has stepped before it

static int scheduled_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    onevar_init(self, ctx, err);
    det_wrap_lr_scheduler(ctx, lab_lr_counting(m->opt), (det_step_mode)det_hparam_int(ctx, "mode"),
                          det_hparam_int(ctx, "frequency"));
    return det_check(err);
}

static int scheduled_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    (void)step;
    det_metric(out, "loss", lab_lr(m->opt));
    return det_check(err);
}

// 10 batches per epoch; the schedule has stepped after these batches, and no others.
static void expect_steps(det_step_mode mode, int frequency, int aggregation, const int *after)
{
    char hparams[128];
    snprintf(hparams, sizeof hparams,
             "{learning_rate: 1, global_batch_size: 7, mode: %d, frequency: %d}", mode, frequency);
    det_trial_ops ops = OneVarTrial;
    ops.init = scheduled_init;
    ops.train_batch = scheduled_train_batch;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = hparams);
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(41),
             .reporting_period = det_batches(1), .aggregation_frequency = aggregation,
             LOG_TO(&training));
    int steps = 0;
    for (int b = 0; b < 41; b++) {
        assert_near(training.loss[b], steps, 0);
        for (; *after == b; after++)
            steps++;
    }
    det_trainer_free(t);
}

#define AFTER(...) ((const int[]){__VA_ARGS__, -1})

static void test_schedule__steps_by_epoch(void **state)
{
    (void)state;
    expect_steps(DET_STEP_EVERY_EPOCH, 1, 1, AFTER(9, 19, 29, 39));
    expect_steps(DET_STEP_EVERY_EPOCH, 2, 1, AFTER(19, 39));
    expect_steps(DET_STEP_EVERY_EPOCH, 1, 4, AFTER(7, 19, 27, 39)); // the epoch's last update
}

static void test_schedule__steps_by_batch(void **state)
{
    (void)state;
    expect_steps(DET_STEP_EVERY_BATCH, 10, 1, AFTER(9, 19, 29, 39));
    // Those of batches 3, 6, 9, 12, ... wait for the next update.
    expect_steps(DET_STEP_EVERY_BATCH, 3, 4,
                 AFTER(3, 7, 11, 11, 15, 19, 23, 23, 27, 31, 35, 35, 39));
}

static void test_schedule__steps_by_optimizer_step(void **state)
{
    (void)state;
    expect_steps(DET_STEP_EVERY_OPTIMIZER_STEP, 2, 4, AFTER(7, 15, 23, 31, 39));
}

static void test_schedule__is_left_alone_if_manual(void **state)
{
    (void)state;
    expect_steps(DET_STEP_MANUAL, 1, 1, AFTER(-1));
}

static int plateau_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    onevar_init(self, ctx, err);
    det_wrap_lr_scheduler(ctx, lab_lr_plateau(m->opt), DET_STEP_EVERY_EPOCH, 1);
    return det_check(err);
}

static det_optimizer *foreign;

static int foreign_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    onevar_init(self, ctx, err);
    m->opt = foreign = lab_sgd(m->model, 1, 0);
    return det_check(err);
}

static void fail_with(const det_trial_ops *ops, const char *hparams, int code, const char *message)
{
    det_trainer *t = lab_init(.hparams = hparams);
    assert_null(det_train(t, det_build_trial(t, ops), .max_length = det_batches(4),
                          .aggregation_frequency = 2));
    assert_raised(code, message);
    det_trainer_free(t);
}

static int keep_grads(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    (void)step, (void)out;
    det_step_optimizer(m->ctx, m->opt, .zero_grads = false);
    return det_check(err);
}

static int late_wrap(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    (void)step, (void)out;
    det_wrap_model(m->ctx, lab_model((struct lab_model){.features = 1}));
    return det_check(err);
}

static void test_batch__says_what_is_not_allowed(void **state)
{
    (void)state;
    const char *hparams = "{learning_rate: 1, global_batch_size: 8}";
    det_trial_ops ops = OneVarTrial;
    ops.init = plateau_init;
    fail_with(&ops, hparams, DET_EINVAL, "a schedule that wants a metric needs DET_STEP_MANUAL");
    ops.init = foreign_init;
    fail_with(&ops, hparams, DET_ESTATE, "this optimizer is not wrapped");
    lab_engine->optim_free(foreign);
    ops = OneVarTrial;
    ops.train_batch = keep_grads;
    fail_with(&ops, hparams, DET_EINVAL,
              "zero_grads = false does not go with aggregation_frequency 2");
    ops.train_batch = late_wrap;
    fail_with(&ops, hparams, DET_ESTATE, "det_wrap_model: only while the trial is made");
}

static int never_init(void *self, det_context *ctx, det_err *err)
{
    (void)self, (void)ctx, (void)err;
    fail_msg("init was called, and might have divided by a batch size of 0");
    return 0;
}

static void test_batch_size__is_checked_before_init(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.init = never_init;
    fail_with(&ops, "{global_batch_size: 0}", DET_EHPARAM,
              "'global_batch_size' is 0, but there is 1 slot");
    fail_with(&ops, "{global_batch_size: many}", DET_EINVAL,
              "'global_batch_size' is a string ('many'), expected an integer");
}

static void test_nan__is_told_once(void **state)
{
    (void)state;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 1e30, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &OneVarTrial), .max_length = det_batches(20), LOG_TO(&training),
             .reporting_period = det_batches(3));
    assert_int_equal(training.n_warning, 1);
    int64_t batch;
    assert_int_equal(sscanf(training.warning, "metric 'weight' of batch %" SCNd64, &batch), 1);
    // So is the average of every report that has this batch, or a later one.
    for (int i = 0; i < training.n_training; i++)
        assert_int_equal(isnan(training.weight[i]), 3 * (i + 1) > batch);
    det_trainer_free(t);
}

static int nan_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step, (void)err;
    det_metric(out, "accuracy", NAN);
    return 0;
}

static void test_nan__of_a_validation_is_told_too(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.evaluate_batch = nan_evaluate_batch;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.01, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(4), LOG_TO(&training),
             .min_validation_period = det_batches(2));
    assert_int_equal(training.n_validation, 2);
    assert_int_equal(training.n_warning, 1);
    assert_non_null(strstr(training.warning, "validation metric 'accuracy' is not a number"));
    det_trainer_free(t);
}

// --- what is rarely meant

static int silent_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step, (void)out, (void)err;
    return 7;
}

static int raising_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step, (void)out, (void)err;
    det_raise(DET_ESTATE, "out of luck");
    return -1;
}

static int repeating_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step;
    det_metric(out, "loss", 1);
    det_metric(out, "loss", 2);
    return det_check(err);
}

static void test_batch__has_a_reason_to_fail(void **state)
{
    (void)state;
    const char hparams[] = "{learning_rate: 1, global_batch_size: 8}";
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = silent_train_batch;
    fail_with(&ops, hparams, DET_EINVAL, "train_batch, batch 0: it returned 7, and no reason");
    ops.train_batch = raising_train_batch;
    fail_with(&ops, hparams, DET_ESTATE, "train_batch, batch 0: out of luck");
    ops.train_batch = repeating_train_batch;
    fail_with(&ops, hparams, DET_EINVAL, "metric 'loss' is reported twice");
}

static int coping_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step;
    det_fail(err, DET_ENOTFOUND, "no file with weights; those drawn will do");
    det_metric(out, "loss", 1);
    return 0;
}

static void test_batch__may_cope_with_failures(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = coping_train_batch;
    det_trainer *t = lab_init(.hparams = "{learning_rate: 1, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(2));
    det_trainer_free(t);
}

static int idle_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    det_metric(out, "loss", lab_loss(m->model, step->batch));
    det_step_optimizer(m->ctx, m->opt);
    return det_check(err);
}

static void test_hints__optimizers_without_gradients_are_pointed_out(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = idle_train_batch;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 1, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(6), LOG_TO(&training),
             .reporting_period = det_batches(2));
    assert_int_equal(training.n_warning, 1);
    assert_non_null(strstr(training.warning, "a step of SGD changes nothing: "));
    det_trainer_free(t);
}

static det_module *outside;

static int outside_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    onevar_init(self, ctx, err);
    lab_add_model(m->opt, outside);
    return det_check(err);
}

static void test_hints__parameters_of_no_model_are_pointed_out(void **state)
{
    (void)state;
    outside = lab_model((struct lab_model){.features = 1});
    det_trial_ops ops = OneVarTrial;
    ops.init = outside_init;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.1, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(1), LOG_TO(&training));
    assert_int_equal(training.n_warning, 1);
    assert_non_null(strstr(training.warning, "1 parameter of optimizer 0 is in no wrapped model"));
    det_trainer_free(t);
    lab_engine->model_free(outside);
}

// --- clipping: the gradient of the first batch is -2

static det_step_opts how_to_step;

#define STEP_OPTS(...)                                                                         \
    DET_OPTS(det_step_opts, .clip_norm = INFINITY, .clip_value = INFINITY, .zero_grads = true, \
             __VA_ARGS__)

static int clipped_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    det_tensor *loss = lab_loss(m->model, step->batch);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer_with(m->ctx, m->opt, how_to_step);
    det_metric(out, "weight", lab_weight_tensor(m->model));
    return det_check(err);
}

static void halve(det_optimizer *opt, void *user)
{
    lab_engine->scale_grads(opt, *(double *)user);
}

static double weight_after_one_step(det_step_opts opts)
{
    how_to_step = opts;
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = clipped_train_batch;
    det_trainer *t = lab_init(.hparams = "{learning_rate: 1, global_batch_size: 8}");
    const det_result *r = train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(1));
    double w = det_metrics_get(r->training, "weight");
    det_trainer_free(t);
    return w;
}

static void test_batch__clips_gradients(void **state)
{
    (void)state;
    double half = 0.5;
    assert_near(weight_after_one_step(STEP_OPTS()), 2, 1e-6);
    assert_near(weight_after_one_step(STEP_OPTS(.clip_norm = 0.25)), 0.25, 1e-6);
    assert_near(weight_after_one_step(STEP_OPTS(.clip_norm = 0)), 0, 0); // 0 is a limit, too
    assert_near(weight_after_one_step(STEP_OPTS(.clip_value = 0.125)), 0.125, 1e-6);
    assert_near(weight_after_one_step(STEP_OPTS(.clip = halve, .clip_user = &half)), 1, 1e-6);
}

static int summing_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    m->ctx = ctx;
    m->model = det_wrap_model(ctx, lab_model((struct lab_model){.features = 1}));
    m->opt =
        det_wrap_optimizer(ctx, lab_sgd(m->model, 0.125, 0), .average_aggregated_gradients = false);
    return det_check(err);
}

static void test_batch__sums_aggregated_gradients_if_asked(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.init = summing_init;
    det_trainer *t = lab_init(.hparams = "{global_batch_size: 8}");
    const det_result *r = train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(4),
                                   .aggregation_frequency = 4, .reporting_period = det_batches(1));
    assert_near(det_metrics_get(r->training, "weight"), 4 * 2 * 0.125, 1e-6);
    det_trainer_free(t);
}

// --- the loop reaches numbers through its engine only

static int n_backward, n_scaled, n_stepped, n_zeroed, n_begun;

static void count_backward(det_tensor *loss, det_backward_opts opts)
{
    n_backward++;
    lab_engine->backward(loss, opts);
}

static void count_scale(det_optimizer *opt, double factor)
{
    assert_near(factor, 0.25, 0);
    n_scaled++;
    lab_engine->scale_grads(opt, factor);
}

static bool count_step(det_scaler *scaler, det_optimizer *opt)
{
    n_stepped++;
    return lab_engine->optim_step(scaler, opt);
}

static void count_zero(det_optimizer *opt)
{
    n_zeroed++;
    lab_engine->zero_grad(opt);
}

static void count_begin(uint64_t step)
{
    n_begun++;
    lab_engine->begin(step);
}

static void test_engine__can_be_replaced(void **state)
{
    (void)state;
    det_engine engine = *lab_engine;
    engine.backward = count_backward;
    engine.scale_grads = count_scale;
    engine.optim_step = count_step;
    engine.zero_grad = count_zero;
    engine.begin = count_begin;
    struct arena arena = ARENA_INIT;
    struct doc *hparams = doc_new(&arena, DOC_MAP);
    doc_set(hparams, STR("learning_rate"), doc_new_double(&arena, 0.1));
    doc_set(hparams, STR("global_batch_size"), doc_new_int(&arena, 8)); // 8 batches
    const struct train_task task = {
        .trial = trial_find("OneVarTrial", NULL),
        .hparams = hparams,
        .engine = &engine,
        .opts = {.max_length = det_batches(11), .aggregation_frequency = 4}};
    det_err err;
    assert_ok(train_run(&task, &err), &err);
    assert_int_equal(n_backward, 11);
    assert_int_equal(n_scaled, 2);
    assert_int_equal(n_stepped, 2);
    assert_int_equal(n_zeroed, 2);
    assert_int_equal(n_begun, 1 + 11 + 8); // init, training, validation
    arena_done(&arena);
}

// --- mixed precision

static double factor_of[64]; // of the loss of each batch

static int amp_init(void *self, det_context *ctx, det_err *err)
{
    det_use_amp(ctx);
    return onevar_init(self, ctx, err);
}

static int amp_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    det_tensor *y = lab_output(m->model, step->batch), *loss = lab_loss(m->model, step->batch);
    det_backward_loss(m->ctx, lab_times(loss, factor_of[step->batch_idx]));
    det_step_optimizer(m->ctx, m->opt, .clip_norm = 1e9);
    det_metric(out, "loss", lab_mean(y));
    det_metric(out, "weight", lab_weight_tensor(m->model));
    return det_check(err);
}

static double saved_scale(const char *dir)
{
    char path[300];
    snprintf(path, sizeof path, "%s/state-dict.pth", dir);
    det_value *tree = lab_engine->load(path, NULL);
    double scale = NAN;
    det_value_as_float(det_value_get(det_value_get(tree, "scaler_state_dict"), "scale"), &scale,
                       NULL);
    det_value_free(tree);
    return scale;
}

static void test_amp__skips_steps_with_infinite_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++)
        factor_of[i] = i == 5 ? 1e36 : i == 6 ? 0 : 1;
    det_trial_ops ops = OneVarTrial;
    ops.init = amp_init;
    ops.train_batch = amp_train_batch;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.01, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(8), LOG_TO(&training),
             .reporting_period = det_batches(1), .min_checkpoint_period = det_batches(1),
             .checkpoint_dir = temp_path("amp"));
    assert_near(training.weight[0], 0.02, 1e-4);
    assert_true(training.weight[4] > training.weight[3]);
    assert_near(training.weight[5], training.weight[4], 0); // infinite: left out
    assert_near(training.weight[6], training.weight[5], 0); // zero: nothing to do
    assert_true(training.weight[7] > training.weight[6]);
    // The model computes with 8 bits: what it gives is the weight, rounded.
    assert_true(training.loss[7] != training.weight[6]);
    assert_near(training.loss[7], training.weight[6], 1e-2 * training.weight[6]);
    assert_near(saved_scale(training.checkpoints[4]), 65536, 0);
    assert_near(saved_scale(training.checkpoints[5]), 32768, 0);
    assert_near(saved_scale(training.checkpoints[7]), 32768, 0);
    det_trainer_free(t);
}

struct manual {
    struct onevar base; // first
    det_scaler *scaler;
};

static int manual_init(void *self, det_context *ctx, det_err *err)
{
    struct manual *m = self;
    m->scaler = det_wrap_scaler(ctx, lab_scaler(4));
    return onevar_init(self, ctx, err);
}

static int manual_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct manual *m = self;
    det_tensor *loss = lab_loss(m->base.model, step->batch);
    det_backward_loss(m->base.ctx, lab_engine->scale_loss(m->scaler, loss));
    if (step->batch_idx == 3) // allowed, not needed
        lab_engine->unscale_grads(m->scaler, m->base.opt);
    det_step_optimizer(m->base.ctx, m->base.opt, .scaler = m->scaler, .clip_norm = 100);
    if (det_context_is_update(m->base.ctx)) lab_engine->scaler_update(m->scaler);
    det_metric(out, "loss", lab_scale(m->scaler));
    det_metric(out, "weight", lab_weight_tensor(m->base.model));
    return det_check(err);
}

static void train_manually(int n_batches, int aggregation)
{
    det_trial_ops ops = OneVarTrial;
    ops.size = sizeof(struct manual);
    ops.init = manual_init;
    ops.train_batch = manual_train_batch;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.01, global_batch_size: 8}");
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(n_batches), LOG_TO(&training),
             .reporting_period = det_batches(1), .aggregation_frequency = aggregation);
    det_trainer_free(t);
}

static void test_amp__leaves_a_wrapped_scaler_to_the_trial(void **state)
{
    (void)state;
    train_manually(9, 1);
    assert_near(training.loss[2], 65536, 0);
    assert_near(training.loss[3], 131072, 0);
    assert_near(training.loss[8], 262144, 0);
    for (int n = 0; n < 9; n++)
        assert_near(training.weight[n], 1 - pow(0.98, n + 1), 1e-6);
}

static void test_amp__a_scaler_of_the_trial_goes_with_aggregation(void **state)
{
    (void)state;
    train_manually(8, 2);
    assert_near(training.loss[6], 65536, 0);
    assert_near(training.loss[7], 131072, 0); // after four steps
    assert_near(training.weight[7], 1 - pow(0.98, 4), 1e-6);
}

static int stepping_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    for (int i = 0; i < 2; i++) {
        double factor = step->batch_idx == 1 && i == 0 ? 1e36 : 1; // infinite once it is scaled
        det_backward_loss(m->ctx, lab_times(lab_loss(m->model, step->batch), factor));
        det_step_optimizer(m->ctx, m->opt, .clip_norm = i ? 100 : INFINITY);
    }
    det_metric(out, "loss", 0);
    det_metric(out, "weight", lab_weight_tensor(m->model));
    return det_check(err);
}

static void test_amp__a_batch_may_have_several_steps(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.init = amp_init;
    ops.train_batch = stepping_train_batch;
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.01, global_batch_size: 8}");
    const det_result *r =
        train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(3), LOG_TO(&training),
                 .reporting_period = det_batches(1), .checkpoint_dir = temp_path("steps"));
    assert_near(training.weight[0], 1 - pow(0.98, 2), 1e-4);
    assert_near(training.weight[1], 1 - pow(0.98, 3), 1e-3); // one of the two was left out
    assert_near(training.weight[2], 1 - pow(0.98, 5), 1e-3);
    assert_near(saved_scale(r->checkpoint), 32768, 0);
    det_trainer_free(t);
}

static int twice_init(void *self, det_context *ctx, det_err *err)
{
    det_use_amp(ctx);
    det_wrap_scaler(ctx, lab_scaler(2000));
    return onevar_init(self, ctx, err);
}

static int too_late_init(void *self, det_context *ctx, det_err *err)
{
    onevar_init(self, ctx, err);
    det_use_amp(ctx);
    return det_check(err);
}

static void test_amp__says_what_is_not_allowed(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.init = twice_init;
    fail_with(&ops, "{learning_rate: 1, global_batch_size: 8}", DET_ESTATE, "a scaler already");
    ops.init = too_late_init;
    fail_with(&ops, "{learning_rate: 1, global_batch_size: 8}", DET_ESTATE,
              "only before det_wrap_model");
}

// --- trials whose loop does the steps

static int old_init(void *self, det_context *ctx, det_err *err)
{
    struct onevar *m = self;
    (void)err;
    m->ctx = ctx;
    return 0;
}

static det_module *old_model(void *self)
{
    (void)self;
    return lab_model((struct lab_model){.features = 1});
}

static det_optimizer *old_optimizer(void *self, det_module *model)
{
    struct onevar *m = self;
    return lab_sgd(model, det_hparam_double(m->ctx, "learning_rate"), 0);
}

static det_lr_scheduler *old_schedule(void *self, det_optimizer *opt, det_step_mode *mode)
{
    (void)self;
    *mode = DET_STEP_EVERY_BATCH;
    return lab_lr_decaying(opt, 0.5);
}

static int old_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self;
    det_metric(out, "loss", lab_loss(step->model, step->batch));
    det_metric(out, "weight", lab_mean(lab_output(step->model, step->batch)));
    return det_check(err);
}

static int old_without_loss(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step;
    det_metric(out, "loss", 0.5);
    return det_check(err);
}

static const det_trial_ops old_style = {
    .size = sizeof(struct onevar),
    .init = old_init,
    .build_model = old_model,
    .optimizer = old_optimizer,
    .train_batch = old_train_batch,
    .evaluate_batch = old_train_batch,
    .build_training_data_loader = onevar_data,
    .build_validation_data_loader = onevar_data,
};

static void train_old(const det_trial_ops *ops, const char *hparams, int batches)
{
    memset(&training, 0, sizeof training);
    det_trainer *t = lab_init(.hparams = hparams);
    train_ok(t, det_build_trial(t, ops), .max_length = det_batches(batches),
             .reporting_period = det_batches(1), LOG_TO(&training));
    det_trainer_free(t);
}

static void test_old_style__loop_runs_backward_and_steps(void **state)
{
    (void)state;
    train_old(&old_style, "{learning_rate: 0.01, global_batch_size: 8}", 20);
    for (int n = 0; n < 20; n++)
        assert_near(training.weight[n], 1 - pow(0.98, n), 1e-6);
}

static void test_old_style__has_schedules_and_clipping(void **state)
{
    (void)state;
    det_trial_ops ops = old_style;
    ops.create_lr_scheduler = old_schedule;
    train_old(&ops, "{learning_rate: 0.01, global_batch_size: 8}", 10);
    double left = 1; // of the way; the rate halves after each batch
    for (int n = 0; n < 10; n++) {
        assert_near(training.weight[n], 1 - left, 1e-6);
        left *= 1 - 2 * 0.01 * pow(0.5, n);
    }
    train_old(&old_style, "{learning_rate: 0.5, global_batch_size: 8, clip_grad_l2_norm: 0.1}", 3);
    assert_near(training.weight[2], 0.1, 1e-5);
    train_old(&old_style, "{learning_rate: 0.5, global_batch_size: 8, clip_grad_val: 0.2}", 3);
    assert_near(training.weight[2], 0.2, 1e-6);
}

static void test_old_style__says_what_is_missing(void **state)
{
    (void)state;
    const char *hparams = "{learning_rate: 1, global_batch_size: 8}";
    det_trial_ops ops = old_style;
    ops.train_batch = old_without_loss;
    fail_with(&ops, hparams, DET_EINVAL, "it must report a tensor as metric 'loss'");
    ops = old_style;
    ops.optimizer = NULL;
    fail_with(&ops, hparams, DET_EINVAL, "has no optimizer (it has build_model)");
    fail_with(&old_style,
              "{learning_rate: 1, global_batch_size: 8, clip_grad_val: 1, clip_grad_l2_norm: 1}",
              DET_EHPARAM, "do not go together");
}

static void test_old_style__needs_no_loader_of_its_own(void **state)
{
    (void)state;
    det_trial_ops ops = old_style;
    ops.build_training_data_loader = ops.build_validation_data_loader = NULL;
    det_trainer *t = lab_init(.hparams = "{learning_rate: 1}");
    train_ok(t, det_build_trial(t, &ops), lab_ones(4), lab_ones(4), .max_length = det_batches(2));
    det_trainer_free(t);
}

static const struct CMUnitTest tests[] = {
    LAB_TEST(test_schedule__steps_by_epoch),
    LAB_TEST(test_schedule__steps_by_batch),
    LAB_TEST(test_schedule__steps_by_optimizer_step),
    LAB_TEST(test_schedule__is_left_alone_if_manual),
    LAB_TEST(test_batch__says_what_is_not_allowed),
    LAB_TEST(test_batch__clips_gradients),
    LAB_TEST(test_batch__sums_aggregated_gradients_if_asked),
    LAB_TEST(test_engine__can_be_replaced),
    LAB_TEST(test_amp__skips_steps_with_infinite_gradients),
    LAB_TEST(test_batch_size__is_checked_before_init),
    LAB_TEST(test_nan__is_told_once),
    LAB_TEST(test_nan__of_a_validation_is_told_too),
    LAB_TEST(test_batch__has_a_reason_to_fail),
    LAB_TEST(test_batch__may_cope_with_failures),
    LAB_TEST(test_hints__optimizers_without_gradients_are_pointed_out),
    LAB_TEST(test_hints__parameters_of_no_model_are_pointed_out),
    LAB_TEST(test_amp__leaves_a_wrapped_scaler_to_the_trial),
    LAB_TEST(test_amp__a_scaler_of_the_trial_goes_with_aggregation),
    LAB_TEST(test_amp__a_batch_may_have_several_steps),
    LAB_TEST(test_amp__says_what_is_not_allowed),
    LAB_TEST(test_old_style__loop_runs_backward_and_steps),
    LAB_TEST(test_old_style__has_schedules_and_clipping),
    LAB_TEST(test_old_style__says_what_is_missing),
    LAB_TEST(test_old_style__needs_no_loader_of_its_own),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
