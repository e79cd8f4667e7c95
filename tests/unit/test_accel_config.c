// The numbers of a run, and schedulers that are made of them.
#include "accel/accel.h"
#include "support/accel.h"

static det_accel_run_config config(int64_t batches, int processes, det_accel_train_opts asked)
{
    det_accel_run_config c = {.train_dataloader_len = batches,
                              .num_processes = processes,
                              .train_per_device_batch_size = 8,
                              .eval_per_device_batch_size = 8};
    run_config_resolve(&c, &asked);
    return c;
}

static void test_run_config__counts_updates(void **state)
{
    (void)state;
    det_accel_run_config c = config(20, 4, DET_ACCEL_TRAIN_OPTS(.num_epochs = 300));
    assert_int_equal(c.num_update_steps_per_epoch, 80);
    assert_int_equal(c.num_local_update_steps_per_epoch, 20);
    assert_int_equal(c.max_num_train_steps, 24001);
    assert_int_equal(c.num_epochs, 300);
    assert_true(c.is_distributed);
    c = config(41, 1, DET_ACCEL_TRAIN_OPTS(.num_epochs = 3, .gradient_accumulation_steps = 2));
    assert_int_equal(c.num_update_steps_per_epoch, 21);
    assert_int_equal(c.train_total_batch_size, 16);
    assert_int_equal(c.eval_total_batch_size, 8);
    assert_false(c.is_distributed);
}

// Upstream's text; its code takes the maximum of steps even if num_epochs is shorter.
static void test_run_config__takes_the_smaller_limit(void **state)
{
    (void)state;
    det_accel_run_config c =
        config(10, 1, DET_ACCEL_TRAIN_OPTS(.num_epochs = 5, .max_num_train_steps = 17));
    assert_int_equal(c.num_epochs, 2);
    assert_int_equal(c.max_num_train_steps, 17);
    c = config(10, 1, DET_ACCEL_TRAIN_OPTS(.num_epochs = 2, .max_num_train_steps = 1000));
    assert_int_equal(c.num_epochs, 2);
    c = config(10, 1, DET_ACCEL_TRAIN_OPTS(.max_num_train_steps = 31));
    assert_int_equal(c.num_epochs, 4);
}

static void test_run_config__scales_losses(void **state)
{
    (void)state;
    det_accel_train_opts asked = {.num_epochs = 1, .gradient_accumulation_steps = 2};
    det_accel_run_config many = config(20, 4, asked), one = config(20, 1, asked);
    assert_near(run_config_loss_factor(&many, 2, false), 0.5, 0);
    assert_near(run_config_loss_factor(&many, 2, true), 2, 0);
    assert_near(run_config_loss_factor(&one, 2, false), 0.5, 0);
    assert_near(run_config_loss_factor(&one, 2, true), 0.5, 0);
    assert_near(run_config_loss_factor(&one, 1, false), 1, 0);
}

static const char *eval_warning(int64_t n_samples, det_err *err)
{
    det_accel_run_config c = config(1, 4, DET_ACCEL_TRAIN_OPTS(.num_epochs = 1));
    const char *warning;
    run_config_check_eval(&c, n_samples, &warning, err);
    return warning;
}

static void test_run_config__looks_at_the_last_evaluation_batch(void **state)
{
    (void)state;
    det_err err;
    assert_null(eval_warning(64, &err));
    assert_int_equal(err.code, 0);
    assert_non_null(strstr(eval_warning(64 + 23, &err), "without samples"));
    assert_non_null(strstr(eval_warning(64 + 25, &err), "smaller"));
    eval_warning(7, &err);
    assert_err(err, DET_EINVAL, "a batch of all 4 processes has 32 samples, the dataset only 7");
}

static void test_run_config__is_a_dict(void **state)
{
    (void)state;
    det_accel_run_config c = config(20, 1, DET_ACCEL_TRAIN_OPTS(.num_epochs = 3));
    c.mixed_precision = "no";
    det_value *d = det_accel_run_config_to_dict(&c);
    int64_t n;
    const char *s;
    assert_int_equal(det_value_as_int(det_value_get(d, "num_epochs"), &n, NULL), 0);
    assert_int_equal(n, 3);
    assert_int_equal(det_value_as_str(det_value_get(d, "mixed_precision"), &s, NULL), 0);
    assert_string_equal(s, "no");
    assert_int_equal(det_value_kind(det_value_get(d, "gradient_clip_value")), DET_KIND_NONE);
    assert_int_equal(det_value_kind(det_value_get(d, "train_dl_kwargs")), DET_KIND_DICT);
    det_value_free(d);
}

// --- placeholders

static int64_t resolved[5];

static det_lr_scheduler *note(det_optimizer *opt, int64_t a, int64_t b, int64_t c, int64_t d,
                              int64_t e)
{
    memcpy(resolved, (int64_t[]){a, b, c, d, e}, sizeof resolved);
    return det_lr_exponential(opt, 0.9);
}

DET_ACCEL_PARTIAL(all_of_them, note, DET_ACCEL_NUM_EPOCHS, DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH,
                  DET_ACCEL_TRAIN_DATALOADER_LEN, DET_ACCEL_EVAL_DATALOADER_LEN,
                  DET_ACCEL_PER_PROCESS_NUM_UPDATE_STEPS_PER_EPOCH);
DET_ACCEL_PARTIAL(arithmetic, note, DET_ACCEL_NUM_EPOCHS * 2, DET_ACCEL_NUM_EPOCHS + 2,
                  DET_ACCEL_NUM_EPOCHS - 1,
                  DET_ACCEL_NUM_EPOCHS *DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH, 7);
DET_ACCEL_PARTIAL(one_cycle, det_lr_one_cycle, .max_lr = 0.5,
                  .total_steps = DET_ACCEL_NUM_EPOCHS * DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH);
DET_ACCEL_PARTIAL(cosine, det_lr_cosine, .total_num_epochs = DET_ACCEL_NUM_EPOCHS,
                  .num_update_steps_per_epoch = DET_ACCEL_NUM_UPDATE_STEPS_PER_EPOCH);

static void test_placeholders__have_the_values_of_the_run(void **state)
{
    (void)state;
    static const struct {
        int64_t n_train, n_eval, epochs, accumulation;
        int64_t expected[5];
    } runs[] = {{100, 50, 5, 1, {5, 100, 100, 50, 100}}, {80, 20, 10, 2, {10, 40, 80, 20, 40}}};
    for (int i = 0; i < 2; i++) {
        det_accel *t = small_trainer();
        det_dataset *train = pairs(runs[i].n_train), *eval = pairs(runs[i].n_eval);
        assert_trains(t, train, .eval_dataset = eval, .num_epochs = runs[i].epochs,
                      .per_device_batch_size = 1,
                      .gradient_accumulation_steps = runs[i].accumulation,
                      .create_scheduler = all_of_them);
        assert_memory_equal(resolved, runs[i].expected, sizeof resolved);
        det_accel_free(t);
        det_dataset_free(train);
        det_dataset_free(eval);
    }
}

static void test_placeholders__can_be_calculated_with(void **state)
{
    (void)state;
    det_accel *t = small_trainer();
    det_dataset *train = pairs(12);
    assert_trains(t, train, .num_epochs = 3, .per_device_batch_size = 4,
                  .create_scheduler = arithmetic);
    assert_memory_equal(resolved, ((int64_t[]){6, 5, 2, 9, 7}), sizeof resolved);
    assert_near(det_optim_lr(det_accel_optimizer(t), 0), 0.1 * pow(0.9, 9), 1e-12);
    det_accel_free(t);
    det_dataset_free(train);
}

// A cycle that is laid out over the run ends with it.
static void test_partial__makes_any_scheduler(void **state)
{
    (void)state;
    det_dataset *train = pairs(12);
    det_accel *t = small_trainer();
    assert_trains(t, train, .num_epochs = 2, .per_device_batch_size = 4,
                  .create_scheduler = cosine);
    assert_int_equal(det_lr_scheduler_updates(det_accel_scheduler(t)), 5);
    assert_true(det_optim_lr(det_accel_optimizer(t), 0) < 0.01);
    assert_trains(t, train, .num_epochs = 2, .per_device_batch_size = 4,
                  .create_scheduler = one_cycle);
    det_accel_free(t);
    det_dataset_free(train);
}

RUN_TESTS(TEST(test_run_config__counts_updates), TEST(test_run_config__takes_the_smaller_limit),
          TEST(test_run_config__scales_losses),
          TEST(test_run_config__looks_at_the_last_evaluation_batch),
          TEST(test_run_config__is_a_dict), TEST(test_placeholders__have_the_values_of_the_run),
          TEST(test_placeholders__can_be_calculated_with), TEST(test_partial__makes_any_scheduler))
