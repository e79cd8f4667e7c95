// Checkpoints, and runs that go on where they were interrupted.
#include "support/accel.h"
#include "support/files.h"

DET_ACCEL_PARTIAL(decay, det_lr_step_decay, 3, 0.5);

// --- checkpoints

static det_value *content_of(const char *path)
{
    det_err err;
    det_accel *t = small_trainer();
    det_value *content = NULL;
    assert_ok(try_load_checkpoint(t, path, &err, .scheduler = false, .optimizer = false,
                                  .content = &content),
              &err);
    det_accel_free(t);
    return content;
}

static void test_checkpoint__has_what_was_asked_for(void **state)
{
    (void)state;
    const char *path = temp_path("checkpoint.pth");
    det_dataset *d = pairs(16);
    det_accel *t = small_trainer();
    assert_trains(t, d, .num_epochs = 1, .create_scheduler = decay);
    det_value *kwargs = det_value_dict();
    det_value_set(kwargs, "note", det_value_str("of mine"));
    det_err err;
    assert_ok(try_save_checkpoint(t, path, &err, .checkpoint_kwargs = kwargs), &err);
    det_value *all = content_of(path);
    assert_non_null(det_value_get(all, "model_state_dict"));
    assert_non_null(det_value_get(all, "optimizer_state_dict"));
    assert_non_null(det_value_get(all, "scheduler_state_dict"));
    assert_non_null(det_value_get(all, "note"));
    det_value_free(all);
    assert_ok(try_save_checkpoint(t, path, &err, .optimizer = false, .scheduler = false), &err);
    det_value *bare = content_of(path);
    assert_int_equal(det_value_len(bare), 1);
    det_value_free(bare);
    det_value_free(kwargs);
    det_accel_free(t);
    det_dataset_free(d);
}

static void test_checkpoint__brings_everything_back(void **state)
{
    (void)state;
    const char *path = temp_path("checkpoint.pth");
    det_dataset *d = pairs(16);
    det_accel *a = small_trainer(), *b = small_trainer();
    assert_trains(a, d, .num_epochs = 2, .create_scheduler = decay);
    assert_trains(b, d, .num_epochs = 1, .create_scheduler = decay);
    det_err err;
    assert_ok(try_save_checkpoint(a, path, &err), &err);
    assert_false(same_weights(a, b));
    assert_ok(try_load_checkpoint(b, path, &err), &err);
    assert_true(same_weights(a, b));
    assert_near(det_optim_lr(det_accel_optimizer(b), 0), det_optim_lr(det_accel_optimizer(a), 0),
                0);
    assert_int_equal(det_lr_scheduler_updates(det_accel_scheduler(b)), 4);
    det_accel_free(a);
    det_accel_free(b);
    det_dataset_free(d);
}

static void test_checkpoint__wants_a_scheduler_for_a_scheduler(void **state)
{
    (void)state;
    const char *path = temp_path("checkpoint.pth");
    det_dataset *d = pairs(16);
    det_accel *a = small_trainer(), *b = small_trainer();
    assert_trains(a, d, .num_epochs = 1, .create_scheduler = decay);
    det_err err;
    assert_ok(try_save_checkpoint(a, path, &err), &err);
    assert_int_equal(try_load_checkpoint(b, path, &err), DET_ESTATE);
    assert_err(err, DET_ESTATE, "checkpoint.pth': it has a scheduler, the trainer has none");
    assert_false(same_weights(a, b)); // nothing was changed
    assert_ok(try_load_checkpoint(b, path, &err, .scheduler = false), &err);
    assert_true(same_weights(a, b));
    assert_int_equal(try_load_checkpoint(b, "/nowhere", &err), DET_ENOTFOUND);
    det_accel_free(a);
    det_accel_free(b);
    det_dataset_free(d);
}

// --- resuming

struct crash {
    int64_t at_batch; // of the run
    int64_t seen;
    const char *path;
};

// Saves at a batch's beginning, and goes down in it.
static void crash_step_start(void *self, det_accel *t)
{
    struct crash *c = self;
    if (c->seen++ != c->at_batch) return;
    det_err err;
    assert_ok(try_save_training_state(t, c->path, &err), &err);
    det_raise(DET_EIO, "the machine went down");
}

static const det_accel_callback_ops crash_ops = {.name = "Crash",
                                                 .on_train_step_start = crash_step_start};

#define RUN \
    .num_epochs = 3, .eval_dataset = eval, .per_device_batch_size = 8, .create_scheduler = decay

#define WATCHERS                                                                   \
    det_accel_callback_early_stopping(.patience = 50),                             \
        det_accel_callback_save_best_model(.save_path = best_path, .load = false), \
        det_accel_callback_model_ema(.decay = 0.9, .save_path = ema_path)

// Interrupted at every batch of three epochs, with dropout, batch norm, Adam, a schedule and an
// average of the weights: weights and history end up the same to the last bit.
static void test_resume__is_exact_everywhere(void **state)
{
    (void)state;
    det_dataset *train = pairs(44), *eval = pairs(16); // 6 batches, the last one short
    FILE *out = fopen("/dev/null", "w");
    const char *path = temp_path("state.pth"), *best_path = temp_path("best.pt"),
               *ema_path = temp_path("ema.pt");
    det_accel *whole =
        dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS(WATCHERS), .out = out));
    assert_trains(whole, train, RUN);
    for (int64_t at = 0; at < 18; at++) {
        struct crash crash = {.at_batch = at, .path = path};
        det_accel *broken = dropout_trainer(
            DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS(
                               det_accel_callback_new(&crash_ops, &crash), WATCHERS),
                           .out = out));
        det_err err;
        assert_int_equal(try_train(broken, train, &err, RUN), DET_EIO);
        det_accel *resumed =
            dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS(WATCHERS), .out = out));
        assert_trains(resumed, train, RUN, .resume_from = path);
        assert_true(same_weights(whole, resumed));
        assert_same_history(whole, resumed);
        assert_int_equal(det_accel_updates(resumed), 18);
        det_accel_free(broken);
        det_accel_free(resumed);
    }
    det_accel_free(whole);
    det_dataset_free(train);
    det_dataset_free(eval);
    fclose(out);
}

// Saved after epochs, and after their training part.
static void test_resume__works_between_epochs(void **state)
{
    (void)state;
    det_dataset *train = pairs(40), *eval = pairs(16);
    FILE *out = fopen("/dev/null", "w");
    const char *dir = temp_path("states");
    det_accel *whole = dropout_trainer(
        DET_ACCEL_OPTS(.out = out,
                       .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_save_training_state(
                               .save_dir = dir, .every_n_epochs = 1, .every_n_steps = 5))));
    assert_trains(whole, train, RUN);
    static const char *const names[] = {"epoch_1", "epoch_2", "epoch_3", "step_5",
                                        "step_10", "step_15", "final"};
    for (size_t i = 0; i < N_OF(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s.pth", dir, names[i]);
        det_accel *resumed = dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE));
        assert_trains(resumed, train, RUN, .resume_from = path);
        assert_true(same_weights(whole, resumed));
        assert_same_history(whole, resumed);
        det_accel_free(resumed);
    }
    det_accel_free(whole);
    det_dataset_free(train);
    det_dataset_free(eval);
    fclose(out);
}

// Files of the first version, which knew nothing of evaluations before. Other processors compute
// other last bits.
static void test_resume__reads_files_of_older_versions(void **state)
{
    (void)state;
    det_dataset *train = pairs(44), *eval = pairs(16);
    det_accel *whole = dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE));
    assert_trains(whole, train, RUN);
    static const char *const names[] = {"step_8", "epoch_2"};
    for (size_t i = 0; i < N_OF(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "tests/golden/accel/version-0.1-%s.pth", names[i]);
        det_accel *resumed = dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE));
        assert_trains(resumed, train, RUN, .resume_from = path);
        assert_near(weight_distance(whole, resumed), 0, 1e-3);
        assert_int_equal(n_values(resumed, "train_loss_epoch"), 3);
        assert_int_equal(n_values(resumed, "eval_loss_epoch"), 3);
        det_accel_free(resumed);
    }
    det_accel_free(whole);
    det_dataset_free(train);
    det_dataset_free(eval);
}

// A finished run goes on if it is made longer.
static void test_resume__counts_all_epochs(void **state)
{
    (void)state;
    det_dataset *train = pairs(16);
    FILE *out = fopen("/dev/null", "w");
    const char *dir = temp_path("longer");
    det_accel *two = dropout_trainer(
                  DET_ACCEL_OPTS(.out = out,
                                 .callbacks = DET_ACCEL_CALLBACKS(
                                     det_accel_callback_save_training_state(.save_dir = dir)))),
              *five = dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE)),
              *more = dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE));
    char path[256];
    snprintf(path, sizeof path, "%s/final.pth", dir);
    assert_trains(two, train, .num_epochs = 2);
    assert_trains(five, train, .num_epochs = 5);
    assert_trains(more, train, .num_epochs = 5, .resume_from = path);
    assert_true(same_weights(five, more));
    assert_same_history(five, more);
    det_accel_free(two);
    det_accel_free(five);
    det_accel_free(more);
    det_dataset_free(train);
    fclose(out);
}

static void test_resume__wants_the_same_order(void **state)
{
    (void)state;
    det_dataset *train = pairs(40);
    const char *path = temp_path("state.pth");
    struct crash crash = {.at_batch = 3, .path = path};
    det_accel *broken = small_trainer(.callbacks = DET_ACCEL_CALLBACKS(
                                          det_accel_callback_new(&crash_ops, &crash))),
              *resumed = small_trainer();
    det_err err;
    assert_int_equal(try_train(broken, train, &err, .num_epochs = 1), DET_EIO);
    try_train(resumed, train, &err, .num_epochs = 1, .per_device_batch_size = 4,
              .resume_from = path);
    assert_err(err, DET_EINVAL, "it is amid an epoch of 5 batches, here are 10");
    det_accel_free(broken);
    det_accel_free(resumed);
    det_dataset_free(train);
}

static int n_refused;

static void try_to_save(void *self, det_accel *t, const det_value *batch,
                        const det_accel_batch_output *output)
{
    (void)batch, (void)output;
    det_err err;
    assert_false(det_accel_is_resumable(t));
    assert_int_equal(try_save_training_state(t, self, &err), DET_ESTATE);
    assert_err(err, DET_ESTATE, "not amid an update or evaluation");
    n_refused++;
}

static void try_to_save_amid_accumulation(void *self, det_accel *t)
{
    (void)self;
    assert_int_equal(det_accel_is_resumable(t), det_accel_step(t) % 2 == 0);
}

static void test_training_state__is_refused_amid_a_step(void **state)
{
    (void)state;
    static const det_accel_callback_ops ops = {.name = "Try",
                                               .on_train_step_start = try_to_save_amid_accumulation,
                                               .on_train_step_end = try_to_save,
                                               .on_eval_step_end = try_to_save};
    det_dataset *d = pairs(16);
    det_accel *t = small_trainer(.callbacks = DET_ACCEL_CALLBACKS(
                                     det_accel_callback_new(&ops, (void *)temp_path("no.pth"))));
    assert_trains(t, d, .num_epochs = 1, .eval_dataset = d, .gradient_accumulation_steps = 2);
    assert_int_equal(n_refused, 4);
    det_accel_free(t);
    det_dataset_free(d);
}

static void test_resume__refuses_what_does_not_fit(void **state)
{
    (void)state;
    det_dataset *d = pairs(16);
    FILE *out = fopen("/dev/null", "w");
    const char *dir = temp_path("other");
    char path[256];
    snprintf(path, sizeof path, "%s/final.pth", dir);
    det_accel *a = small_trainer(.out = out,
                                 .callbacks = DET_ACCEL_CALLBACKS(
                                     det_accel_callback_save_training_state(.save_dir = dir))),
              *seeded = small_trainer(.seed = 5),
              *larger = dropout_trainer(DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE));
    assert_trains(a, d, .num_epochs = 1);
    det_err err;
    try_train(seeded, d, &err, .num_epochs = 2, .resume_from = path);
    assert_err(err, DET_EINVAL, "it has seed 42, the trainer 5");
    try_train(larger, d, &err, .num_epochs = 2, .resume_from = path);
    assert_err(err, DET_EINVAL, "final.pth");
    const char *plain = temp_path("plain.pth");
    assert_ok(try_save_checkpoint(a, plain, &err), &err);
    try_train(a, d, &err, .num_epochs = 2, .resume_from = plain);
    assert_err(err, DET_EINVAL, "plain.pth': epoch");
    det_accel_free(a);
    det_accel_free(seeded);
    det_accel_free(larger);
    det_dataset_free(d);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_checkpoint__has_what_was_asked_for),
        TEST(test_checkpoint__brings_everything_back),
        TEST(test_checkpoint__wants_a_scheduler_for_a_scheduler),
        TEST(test_resume__is_exact_everywhere),
        TEST(test_resume__works_between_epochs),
        TEST(test_resume__reads_files_of_older_versions),
        TEST(test_resume__counts_all_epochs),
        TEST(test_resume__wants_the_same_order),
        TEST(test_training_state__is_refused_amid_a_step),
        TEST(test_resume__refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
