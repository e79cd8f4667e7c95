// A training that is stopped after any batch and resumed ends with the same bits as one that was
// not: models, optimizers, schedules, loss scales and waiting gradients.
#include "support/files.h"
#include "support/lab.h"
#include "support/training.h"

#include "train/train.h"

enum {
    FEATURES = 5,
    SAMPLES = 38,
    BATCH = 6,
    TOTAL = 11
}; // 7 batches per epoch, the last one of 2 samples

struct net {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

// --- the trial: its model draws random numbers while it trains

static int net_init(void *self, det_context *ctx, det_err *err)
{
    struct net *n = self;
    n->ctx = ctx;
    if (det_hparam_bool(ctx, "amp")) det_use_amp(ctx);
    const struct lab_model model = {.features = (int)det_hparam_int(ctx, "features"),
                                    .start = NAN,
                                    .dropout = 0.3,
                                    .has_buffer = det_hparam_bool(ctx, "buffer")};
    n->model = det_wrap_model(ctx, lab_model(model));
    n->opt = det_wrap_optimizer(ctx, lab_sgd(n->model, 0.1, 0.9));
    det_wrap_lr_scheduler(ctx, lab_lr_decaying(n->opt, 0.9), DET_STEP_EVERY_BATCH, 2);
    return det_check(err);
}

static int net_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_tensor *loss = lab_loss(n->model, step->batch);
    det_backward_loss(n->ctx, loss);
    det_step_optimizer(n->ctx, n->opt, .clip_norm = 1);
    det_metric(out, "loss", loss);
    return det_check(err);
}

static int net_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_metric(out, "loss", lab_loss(n->model, step->batch));
    return det_check(err);
}

static det_loader *net_data(void *self)
{
    (void)self;
    return lab_loader((struct lab_data){
        .samples = SAMPLES, .batch = BATCH, .features = FEATURES, .shuffle = true});
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
    int aggregation;
    bool buffer, amp;
};

static const char *const plain = "{features: 5, buffer: false, amp: false}";

// Trains up to batch `to`, stopping after batch `stop`, and gives the path of the weights.
static void train_part(const struct variant *v, const char *resume, int stop, char *path)
{
    char hparams[128];
    snprintf(hparams, sizeof hparams, "{features: 5, buffer: %s, amp: %s}",
             v->buffer ? "true" : "false", v->amp ? "true" : "false");
    // A resumed run takes its seed from the checkpoint, not from here.
    det_trainer *t = lab_init(.hparams = hparams, .seed = resume ? 12345 : 7);
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

static void test_resume__is_exact_after_every_batch(void **state)
{
    (void)state;
    for (int bits = 0; bits < 8; bits++) {
        const struct variant v = {bits & 1 ? 3 : 1, bits & 2, bits & 4};
        char whole[256], part[256], rest[256];
        train_part(&v, NULL, TOTAL + 1, whole);
        for (int k = 1; k < TOTAL; k++) {
            train_part(&v, NULL, k, part);
            train_part(&v, part, TOTAL + 1, rest);
            assert_same_file(whole, rest);
        }
    }
}

// --- what a checkpoint is

static void test_resume__file_has_the_four_keys(void **state)
{
    (void)state;
    char dir[256], path[300];
    train_part(&(struct variant){0}, NULL, 3, dir);
    snprintf(path, sizeof path, "%s/state-dict.pth", dir);
    det_err err;
    det_value *tree = lab_engine->load(path, &err);
    if (!tree) fail_msg("%s", err.msg);
    assert_int_equal(det_value_len(det_value_get(tree, "models_state_dict")), 1);
    assert_int_equal(det_value_len(det_value_get(tree, "optimizers_state_dict")), 1);
    assert_int_equal(det_value_len(det_value_get(tree, "lr_schedulers_state_dict")), 1);
    assert_int_equal(det_value_kind(det_value_get(tree, "callbacks")), DET_KIND_DICT);
    det_value_free(tree);
}

static void test_resume__one_seed_gives_one_training(void **state)
{
    (void)state;
    char first[256], second[256];
    train_part(&(struct variant){.buffer = true}, NULL, TOTAL + 1, first);
    train_part(&(struct variant){.buffer = true}, NULL, TOTAL + 1, second);
    assert_same_file(first, second);
}

// Trains up to a batch, from the newest checkpoint in a folder; gives the last one.
static void train_newest(const char *folder, int to, uint64_t seed, struct training_log *log)
{
    memset(log, 0, sizeof *log);
    det_trainer *t = lab_init(.hparams = plain, .seed = seed);
    train_ok(t, det_build_trial(t, &Net), .max_length = det_batches(to),
             .checkpoint_policy = DET_CHECKPOINT_NONE, .min_checkpoint_period = det_batches(1),
             .checkpoint_dir = temp_path(folder), .resume_newest = true, LOG_TO(log));
    det_trainer_free(t);
}

static void test_resume__newest_skips_damaged_ones(void **state)
{
    (void)state;
    static struct training_log whole, log;
    char command[400];
    train_newest("whole", TOTAL, 7, &whole);
    train_newest("damaged", 5, 7, &log);
    assert_int_equal(log.n_warning, 0);
    snprintf(command, sizeof command, "printf x >> '%s/state-dict.pth'", log.checkpoint);
    assert_int_equal(system(command), 0);
    train_newest("damaged", TOTAL, 1, &log);
    assert_non_null(strstr(log.warning, "is not used: "));
    assert_int_equal(log.checkpoint_batches[0], 5); // trained again, from 4
    assert_same_file(whole.checkpoint, log.checkpoint);
}

static int noted_init(void *self, det_context *ctx, det_err *err)
{
    det_context_set_metadata(ctx, "author", "a \"name\"");
    det_context_set_metadata(ctx, "format", "mine");
    assert_raised(DET_EINVAL, "'format' is set by the loop");
    return net_init(self, ctx, err);
}

static void assert_has(const char *dir, const char *file, const char *text)
{
    char command[600];
    snprintf(command, sizeof command, "grep -qF '%s' '%s/%s'", text, dir, file);
    if (system(command)) fail_msg("%s has no '%s'", file, text);
}

static void test_resume__checkpoint_has_code_and_metadata(void **state)
{
    (void)state;
    char command[700], code[128];
    snprintf(code, sizeof code, "%s", temp_path("code"));
    snprintf(
        command, sizeof command,
        "mkdir -p '%s/parts/saved' && cd '%s' && echo model >model_def.c && echo part "
        ">parts/part.h && echo secret >.hidden && mkdir pictures && echo data >pictures/1.png && "
        "echo pictures/ >.detignore && ln -s /etc/passwd link && head -c 2000000 "
        "/dev/zero >parts/data.bin",
        code, code);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/parts/saved", code);
    det_trial_ops ops = Net;
    ops.init = noted_init;
    static struct training_log log;
    det_trainer *t = lab_init(.hparams = plain);
    const det_result *r = train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(2),
                                   .min_checkpoint_period = det_batches(1), .code_dir = code,
                                   .checkpoint_dir = command, LOG_TO(&log));
    assert_has(r->checkpoint, "metadata.json", "\"author\": \"a \\\"name\\\"\"");
    assert_has(r->checkpoint, "metadata.json", "\"steps_completed\": 2");
    assert_has(r->checkpoint, "metadata.json", lab_engine->name);
    assert_has(r->checkpoint, "config.json", "\"amp\": false");
    assert_has(r->checkpoint, "architecture.txt", "5 parameters");
    assert_has(r->checkpoint, "code/model_def.c", "model");
    assert_has(r->checkpoint, "code/parts/part.h", "part");
    assert_non_null(strstr(log.warning, "1 file of"));
    assert_non_null(
        strstr(log.warning, "is data or too large, and not in checkpoints: 'parts/data.bin'"));
    snprintf(command, sizeof command, "test $(cd '%s/code' && find . -type f | wc -l) = 2",
             r->checkpoint);
    assert_int_equal(system(command), 0);
    det_trainer_free(t);
}

static void test_resume__code_that_is_too_large_is_named(void **state)
{
    (void)state;
    char command[700], code[128];
    snprintf(code, sizeof code, "%s", temp_path("large"));
    snprintf(command, sizeof command,
             "mkdir '%s' && cd '%s' && for n in 1 2 3 4 5; do head -c 2000000 /dev/zero >$n; done",
             code, code);
    assert_int_equal(system(command), 0);
    static struct training_log log;
    det_trainer *t = lab_init(.hparams = plain);
    train_ok(t, det_build_trial(t, &Net), .max_length = det_batches(1), .code_dir = code,
             .checkpoint_dir = temp_path("large-saved"), LOG_TO(&log));
    assert_non_null(strstr(log.warning, "5 files of"));
    assert_non_null(strstr(
        log.warning, "are data or too large, and not in checkpoints: '1', '2', '3' and 2 more"));
    det_trainer_free(t);
}

// --- from another trial: its weights, but not its position

static void check_warm_start(const det_result *r, void *user)
{
    (void)user;
    assert_int_equal(r->batches, 2);
}

static void test_resume__from_another_trial_starts_counting_anew(void **state)
{
    (void)state;
    char dir[256];
    det_err err;
    train_part(&(struct variant){0}, NULL, 5, dir);
    struct arena arena = ARENA_INIT;
    struct doc *hparams = doc_new(&arena, DOC_MAP);
    doc_set(hparams, STR("features"), doc_new_int(&arena, FEATURES));
    doc_set(hparams, STR("buffer"), doc_new_bool(&arena, false));
    doc_set(hparams, STR("amp"), doc_new_bool(&arena, false));
    const struct train_task task = {.trial = trial_find("Net", &err),
                                    .engine = lab_engine,
                                    .hparams = hparams,
                                    .trial_id = 8,
                                    .opts = {.max_length = det_batches(2), .resume = dir},
                                    .on_result = check_warm_start};
    assert_ok(train_run(&task, &err), &err);
    arena_done(&arena);
}

static void test_resume__other_hyperparameters_are_pointed_out(void **state)
{
    (void)state;
    char dir[256];
    static struct training_log log;
    train_part(&(struct variant){0}, NULL, 3, dir);
    det_trainer *t =
        lab_init(.hparams = "{features: 5.0, buffer: false, amp: false, note: [1, 2], lr: 3}");
    train_ok(t, det_build_trial(t, &Net), .max_length = det_batches(4), .resume = dir,
             LOG_TO(&log));
    assert_int_equal(log.n_warning, 1);
    assert_non_null(strstr(log.warning, "made with other values of 'note', 'lr'; what it has"));
    det_trainer_free(t);
}

static void refuse(const char *hparams, const char *dir, int code, const char *message)
{
    det_trainer *t = lab_init(.hparams = hparams);
    assert_null(
        det_train(t, det_build_trial(t, &Net), .max_length = det_batches(TOTAL), .resume = dir));
    assert_raised(code, message);
    det_trainer_free(t);
}

static void test_resume__refuses_what_does_not_fit(void **state)
{
    (void)state;
    char dir[256], command[400];
    train_part(&(struct variant){0}, NULL, 3, dir);
    refuse("{features: 4, buffer: false, amp: false}", dir, DET_EINVAL, "model 0: ");
    snprintf(command, sizeof command, "printf x >> '%s/state-dict.pth'", dir);
    assert_int_equal(system(command), 0);
    refuse(plain, dir, DET_ECORRUPT, "cannot resume");
    refuse(plain, "/nowhere/at-all", DET_ENOTFOUND, "cannot resume");
}

// --- using one without training

static int predictions(det_trainer *t, det_trial *trial, int64_t batch, float *out)
{
    const struct lab_data data = {.samples = 13, .batch = batch, .features = FEATURES};
    det_tensor *all = det_predict(t, trial, lab_loader(data));
    assert_fine();
    int n = lab_values(all, out, 13);
    lab_free(all);
    return n;
}

static void test_predict__keeps_the_order_of_the_data(void **state)
{
    (void)state;
    char dir[256];
    float many[13], once[13];
    train_part(&(struct variant){0}, NULL, 3, dir);
    det_trainer *t = lab_init(.hparams = "{features: 3}"); // the checkpoint knows better
    det_trial *trial = det_load_checkpoint_trial(t, &Net, .directory = dir);
    assert_fine();
    assert_int_equal(predictions(t, trial, 4, many), 13);
    assert_int_equal(predictions(t, trial, 13, once), 13);
    for (int i = 0; i < 13; i++)
        assert_near(many[i], once[i], 1e-5);
    assert_true(many[0] != many[12]);
    det_trainer_free(t);
}

static void test_predict__refuses_a_damaged_checkpoint(void **state)
{
    (void)state;
    char dir[256], command[400];
    train_part(&(struct variant){0}, NULL, 3, dir);
    snprintf(command, sizeof command, "printf x >> '%s/state-dict.pth'", dir);
    assert_int_equal(system(command), 0);
    det_trainer *t = lab_init();
    assert_null(det_load_checkpoint_trial(t, &Net, .directory = dir));
    assert_raised(DET_ECORRUPT, "state-dict.pth");
    det_trainer_free(t);
}

static const struct CMUnitTest tests[] = {
    LAB_TEST(test_resume__is_exact_after_every_batch),
    LAB_TEST(test_resume__other_hyperparameters_are_pointed_out),
    LAB_TEST(test_resume__file_has_the_four_keys),
    LAB_TEST(test_resume__one_seed_gives_one_training),
    LAB_TEST(test_resume__newest_skips_damaged_ones),
    LAB_TEST(test_resume__checkpoint_has_code_and_metadata),
    LAB_TEST(test_resume__code_that_is_too_large_is_named),
    LAB_TEST(test_resume__from_another_trial_starts_counting_anew),
    LAB_TEST(test_resume__refuses_what_does_not_fit),
    LAB_TEST(test_predict__keeps_the_order_of_the_data),
    LAB_TEST(test_predict__refuses_a_damaged_checkpoint),
};

int main(void)
{
    // Hundreds of checkpoints: in memory, where there is nothing to wait for.
    snprintf(temp_folder, sizeof temp_folder, "/dev/shm/det-test-XXXXXX");
    if (!mkdtemp(temp_folder)) temp_folder[0] = '\0';
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
