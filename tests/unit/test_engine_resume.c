// Networks of all kinds that are stopped after any batch and resumed end with the same bits as those
// that are not: models, optimizers, schedules, loss scales and waiting gradients.
#include "support/files.h"
#include "support/tensors.h"
#include "support/training.h"

#include "det/det.h"

enum { SAMPLES = 38, BATCH = 6, TOTAL = 11 }; // 7 batches per epoch, the last one of 2 samples

struct net {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

// --- models: all of them draw random numbers while they train

static det_module *mlp(void)
{
    return det_nn_sequential(det_nn_flatten(), det_nn_linear(64, 24), det_nn_relu(),
                             det_nn_dropout(0.3), det_nn_linear(24, 4));
}

static det_module *cnn(void)
{
    return det_nn_sequential(det_nn_conv2d(1, 4, .kernel = 3), det_nn_batch_norm2d(4),
                             det_nn_relu(), det_nn_max_pool2d(2), det_nn_dropout2d(0.2),
                             det_nn_flatten(), det_nn_linear(36, 4));
}

// (B, 1, 8, 8) as a sequence (B, 8, 8), and the mean over it.
static det_tensor *sequence_forward(det_module *m, det_tensor *x)
{
    det_tensor *sequence = det_squeeze(x, 1);
    det_tensor *y = det_forward(det_module_child(m, 0), sequence);
    return det_forward(det_module_child(m, 1), det_mean_over(y, DET_DIMS(1), false));
}

static det_module *sequence_model(det_module *body, int64_t width)
{
    det_module *m = det_module_new("Sequence", 0, sequence_forward);
    det_module_add(m, "body", body);
    det_module_add(m, "head", det_nn_linear(width, 4));
    return m;
}

static det_module *rnn(void)
{
    return sequence_model(det_nn_lstm(8, 6, .num_layers = 2, .dropout = 0.2, .batch_first = true),
                          6);
}

static det_module *transformer(void)
{
    return sequence_model(det_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16,
                                                           .dropout = 0.1, .batch_first = true),
                          8);
}

static det_module *(*const models[])(void) = {mlp, cnn, rnn, transformer};

// --- the trial

static int net_init(void *self, det_context *ctx, det_err *err)
{
    struct net *n = self;
    n->ctx = ctx;
    if (det_hparam_bool(ctx, "amp")) det_use_amp(ctx);
    n->model = det_wrap_model(ctx, models[det_hparam_int(ctx, "model")]());
    n->opt = det_wrap_optimizer(ctx, det_hparam_bool(ctx, "adam")
                                         ? det_optim_adam(n->model, .lr = 0.01)
                                         : det_optim_sgd(n->model, .lr = 0.1, .momentum = 0.9));
    det_wrap_lr_scheduler(ctx, det_lr_exponential(n->opt, 0.9), DET_STEP_EVERY_BATCH, 2);
    return det_check(err);
}

static det_tensor *net_loss(struct net *n, const det_value *batch)
{
    return det_cross_entropy(det_forward(n->model, det_batch_at(batch, 0)), det_batch_at(batch, 1));
}

static int net_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_tensor *loss = net_loss(n, step->batch);
    det_backward_loss(n->ctx, loss);
    det_step_optimizer(n->ctx, n->opt, .clip_norm = 1);
    det_metric(out, "loss", loss);
    return det_check(err);
}

static int net_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    det_metric(out, "loss", net_loss(self, step->batch));
    return det_check(err);
}

static det_loader *net_data(void *self)
{
    (void)self;
    det_rng_state before = det_get_rng_state();
    det_manual_seed(99);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(SAMPLES, 1, 8, 8));
    det_tensor *y = det_randint(0, 4, DET_DIMS(SAMPLES));
    det_set_rng_state(before);
    return det_loader_new(det_dataset_tensors((det_tensor *const[]){x, y}, 2), .batch_size = BATCH,
                          .shuffle = true, .num_workers = 1);
}

DET_TRIAL(Net) = {
    .size = sizeof(struct net),
    .init = net_init,
    .train_batch = net_train_batch,
    .evaluate_batch = net_evaluate_batch,
    .build_training_data_loader = net_data,
    .build_validation_data_loader = net_data,
};

// --- running it

static int stop_flag;
static int64_t stop_at;

static void stop_there(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_BATCH && r->batches == stop_at) stop_flag = 1;
}

struct variant {
    int model, aggregation;
    bool adam, amp;
};

// Trains up to batch `to`, stopping after batch `stop`, and gives the path of the weights.
static void train_part(const struct variant *v, const char *resume, int stop, char *path)
{
    char hparams[128];
    snprintf(hparams, sizeof hparams, "{model: %d, adam: %s, amp: %s}", v->model,
             v->adam ? "true" : "false", v->amp ? "true" : "false");
    // A resumed run takes its seed from the checkpoint, not from here.
    det_trainer *t = det_init(.hparams = hparams, .seed = resume ? 12345 : 7);
    stop_at = stop;
    stop_flag = 0;
    const det_result *r = train_ok(
        t, det_build_trial(t, &Net), .max_length = det_batches(TOTAL),
        .min_validation_period = det_batches(4), .checkpoint_policy = DET_CHECKPOINT_NONE,
        .aggregation_frequency = v->aggregation, .resume = resume,
        .checkpoint_dir = temp_path("checkpoints"), .stop = &stop_flag, .on_report = stop_there);
    assert_int_equal(r->batches, stop < TOTAL ? stop : TOTAL);
    snprintf(path, 256, "%s", r->checkpoint);
    det_trainer_free(t);
}

static void assert_same_file(const char *a, const char *b)
{
    char command[600];
    snprintf(command, sizeof command, "cmp '%s/state-dict.pth' '%s/state-dict.pth'", a, b);
    assert_int_equal(system(command), 0);
}

static void resume_everywhere(int model)
{
    for (int bits = 0; bits < 8; bits++) {
        const struct variant v = {model, bits & 1 ? 3 : 1, bits & 2, bits & 4};
        char whole[256], part[256], rest[256];
        train_part(&v, NULL, TOTAL + 1, whole);
        for (int k = 1; k < TOTAL; k++) {
            train_part(&v, NULL, k, part);
            train_part(&v, part, TOTAL + 1, rest);
            assert_same_file(whole, rest);
        }
    }
}

static void test_resume__mlp_is_exact_after_every_batch(void **state)
{
    (void)state;
    resume_everywhere(0);
}

static void test_resume__cnn_is_exact_after_every_batch(void **state)
{
    (void)state;
    resume_everywhere(1);
}

static void test_resume__rnn_is_exact_after_every_batch(void **state)
{
    (void)state;
    resume_everywhere(2);
}

static void test_resume__transformer_is_exact_after_every_batch(void **state)
{
    (void)state;
    resume_everywhere(3);
}

// --- using one without training

static void test_predict__keeps_the_order_of_the_data(void **state)
{
    (void)state;
    char dir[256];
    train_part(&(struct variant){0}, NULL, 3, dir);
    det_trainer *t = det_init(.hparams = "{model: 3}"); // the checkpoint knows better
    det_trial *trial = det_load_checkpoint_trial(t, &Net, .directory = dir);
    assert_fine();
    det_tensor *x = det_randn(DET_F32, DET_DIMS(13, 1, 8, 8));
    det_tensor *many = det_predict(
        t, trial,
        det_loader_new(det_dataset_tensors((det_tensor *const[]){x}, 1), .batch_size = 4));
    det_tensor *once = det_predict(
        t, trial,
        det_loader_new(det_dataset_tensors((det_tensor *const[]){x}, 1), .batch_size = 13));
    assert_fine();
    assert_int_equal(det_size(many, 0), 13);
    assert_int_equal(det_size(many, 1), 4);
    const float *a = det_data_f32(many), *b = det_data_f32(once);
    for (int i = 0; i < 13 * 4; i++)
        assert_near(a[i], b[i], 1e-5);
    det_unref(many);
    det_unref(once);
    det_trainer_free(t);
}

static const struct CMUnitTest tests[] = {
    TEST(test_resume__mlp_is_exact_after_every_batch),
    TEST(test_resume__cnn_is_exact_after_every_batch),
    TEST(test_resume__rnn_is_exact_after_every_batch),
    TEST(test_resume__transformer_is_exact_after_every_batch),
    TEST(test_predict__keeps_the_order_of_the_data),
};

int main(void)
{
    // Hundreds of checkpoints: in memory, where there is nothing to wait for.
    snprintf(temp_folder, sizeof temp_folder, "/dev/shm/det-test-XXXXXX");
    if (!mkdtemp(temp_folder)) temp_folder[0] = '\0';
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
