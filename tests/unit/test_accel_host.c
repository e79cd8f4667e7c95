// The accelerated trainer as a training like any other, on one's own machine: checkpoints, files of
// metrics, stopping and going on, configurations.
#include "support/accel.h"
#include "support/files.h"
#include "support/ranks.h"

#include "sys/pool.h"

enum { BATCHES = 6 }; // of an epoch

DET_ACCEL_PARTIAL(decay, det_lr_step_decay, 3, 0.5);

struct stop {
    int64_t at;
    volatile int now;
};

static void stop_at(const det_report *r, void *user)
{
    struct stop *s = user;
    if (r->kind == DET_REPORT_BATCH && r->batches == s->at) s->now = 1;
}

#define WATCHERS                                       \
    det_accel_callback_early_stopping(.patience = 50), \
        det_accel_callback_model_ema(.decay = 0.9, .save_path = temp_path("ema_model.pt"))

static det_accel *watched(det_trainer *task)
{
    return dropout_trainer(
        DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS(WATCHERS), .out = stderr, .trainer = task));
}

#define RUN(dir)                                                             \
    .num_epochs = 3, .eval_dataset = eval, .gradient_accumulation_steps = 2, \
    .create_scheduler = decay, .run.checkpoint_dir = (dir), .run.resume_newest = true

static int64_t count(const char *path)
{
    int64_t n = 0;
    FILE *f = fopen(path, "r");
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f) fclose(f);
    return n;
}

// Stopped at every update of three epochs. Weights and history end up the same to the last bit.
static void test_stop__at_any_batch_and_going_on_is_exact(void **state)
{
    (void)state;
    det_dataset *train = pairs(8 * BATCHES - 3), *eval = pairs(16);
    det_accel *whole = watched(NULL);
    assert_trains(whole, train, RUN(NULL));
    for (int64_t at = 1; at < 3 * BATCHES; at++) {
        char name[32];
        snprintf(name, sizeof name, "stop-%d", (int)at);
        const char *dir = temp_path(name);
        struct stop stop = {.at = at};
        det_accel *first = watched(NULL);
        const det_result *r = det_accel_train(first, train, RUN(dir), .run.on_report = stop_at,
                                              .run.report_user = &stop, .run.stop = &stop.now);
        assert_fine();
        assert_int_equal(r->stop_reason, DET_STOP_REQUESTED);
        assert_int_equal(r->batches, at + at % 2); // with the update
        assert_non_null(r->checkpoint);
        det_accel *second = watched(NULL);
        r = det_accel_train(second, train, RUN(dir));
        assert_fine();
        assert_int_equal(r->stop_reason, DET_STOP_LENGTH);
        assert_int_equal(r->batches, 3 * BATCHES);
        assert_true(same_weights(whole, second));
        assert_same_history(whole, second);
        det_accel_free(first);
        det_accel_free(second);
    }
    det_accel_free(whole);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_end__leaves_nothing_to_do_for_another_run(void **state)
{
    (void)state;
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    const char *dir = temp_path("done");
    det_accel *one = watched(NULL), *two = watched(NULL);
    assert_trains(one, train, RUN(dir));
    assert_trains(two, train, RUN(dir));
    assert_true(same_weights(one, two));
    assert_same_history(one, two);
    det_accel_free(one);
    det_accel_free(two);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_result__has_metrics_and_the_best(void **state)
{
    (void)state;
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    det_accel *t = small_trainer();
    const det_result *r = det_accel_train(t, train, .num_epochs = 3, .eval_dataset = eval,
                                          .run.metric = "eval_loss_epoch");
    assert_fine();
    assert_near(det_metrics_get(r->validation, "eval_loss_epoch"), latest(t, "eval_loss_epoch"), 0);
    assert_near(det_metrics_get(r->training, "train_loss_epoch"), latest(t, "train_loss_epoch"), 0);
    assert_true(det_metrics_get(r->best_validation, "eval_loss_epoch") <=
                latest(t, "eval_loss_epoch"));
    assert_int_equal(r->epochs, 3);
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_metrics__go_to_a_file_and_by_period(void **state)
{
    (void)state;
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    const char *path = temp_path("metrics.jsonl");
    det_accel *t = small_trainer();
    assert_trains(t, train, .num_epochs = 2, .eval_dataset = eval, .run.metrics_file = path,
                  .run.reporting_period = det_batches(2));
    assert_int_equal(count(path), 2 * (2 + 1 + 1)); // by period, with the epoch's end, validation
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void count_checkpoints(const det_report *r, void *user)
{
    *(int *)user += r->kind == DET_REPORT_CHECKPOINT;
}

static void test_checkpoints__are_made_by_period_and_policy(void **state)
{
    (void)state;
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    det_accel *t = small_trainer();
    int n = 0;
    assert_trains(t, train, .num_epochs = 2, .eval_dataset = eval,
                  .run = {.checkpoint_dir = temp_path("by-period"),
                          .min_checkpoint_period = det_batches(2),
                          .checkpoint_policy = DET_CHECKPOINT_NONE,
                          .on_report = count_checkpoints,
                          .report_user = &n});
    assert_int_equal(n, 6); // at 2, 4, 6, 8, 10 and 12
    n = 0;
    assert_trains(t, train, .num_epochs = 2, .eval_dataset = eval,
                  .run = {.checkpoint_dir = temp_path("by-policy"),
                          .checkpoint_policy = DET_CHECKPOINT_ALL,
                          .on_report = count_checkpoints,
                          .report_user = &n});
    assert_int_equal(n, 2);
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
}

// A program says how long, or its configuration does.
static void test_configuration__says_how_long(void **state)
{
    (void)state;
    const char *path = temp_path("const.yaml");
    FILE *f = fopen(path, "w");
    fprintf(f, "hyperparameters: {lr: 0.5}\n"
               "searcher: {name: single, metric: eval_loss_epoch, max_length: {batches: 9}}\n");
    fclose(f);
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    det_trainer *task = det_init(.config = path, .seed = 7);
    assert_near(det_hparam_double(task, "lr"), 0.5, 0);
    det_accel *t = small_trainer(.trainer = task);
    const det_result *r = det_accel_train(t, train, .eval_dataset = eval);
    assert_fine();
    assert_int_equal(r->batches, 9);
    assert_int_equal(r->seed, 7);
    assert_int_equal(det_accel_get_run_config(t)->num_epochs, 2);
    r = det_accel_train(t, train, .num_epochs = 1, .eval_dataset = eval);
    assert_int_equal(r->batches, BATCHES);
    det_accel_free(t);
    det_trainer_free(task);
    det_dataset_free(train);
    det_dataset_free(eval);
}

// Random numbers of its own, unless told otherwise; then those that the run began with.
static void test_seed__is_that_of_the_checkpoint(void **state)
{
    (void)state;
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    const char *dir = temp_path("seed");
    det_trainer *task = det_init(.seed = 5), *other = det_init(.seed = 6);
    det_accel *a = watched(task), *b = watched(other);
    assert_trains(a, train, .num_epochs = 1, .eval_dataset = eval, .run.checkpoint_dir = dir);
    const det_result *r = det_accel_train(b, train, .num_epochs = 2, .eval_dataset = eval,
                                          .run = {.checkpoint_dir = dir, .resume_newest = true});
    assert_fine();
    assert_int_equal(r->seed, 5);
    assert_int_equal(r->batches, 2 * BATCHES);
    det_accel_free(a);
    det_accel_free(b);
    det_trainer_free(task);
    det_trainer_free(other);
    det_dataset_free(train);
    det_dataset_free(eval);
}

// --- several ranks

static int train_in_parts(int rank, struct rank_result *mine, const char *dir,
                          int64_t stop_at_batch)
{
    (void)rank;
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    struct stop stop = {.at = stop_at_batch};
    pool_set_threads(1);
    det_trainer *task = det_init(.seed = 42);
    det_accel *t = watched(task);
    det_accel_train(t, train, .per_device_batch_size = 4, RUN(dir), .run.on_report = stop_at,
                    .run.report_user = &stop, .run.stop = &stop.now);
    int rc = det_check(&mine->err);
    for (int i = 0; !rc && i < det_module_n_params(det_accel_model(t)); i++) {
        det_tensor *w = det_module_param(det_accel_model(t), i);
        memcpy(mine->weight + mine->n_weights, det_data(w), (size_t)det_numel(w) * sizeof(float));
        mine->n_weights += (int)det_numel(w);
    }
    mine->number[0] = rc ? 0 : latest(t, "train_loss_epoch");
    det_accel_free(t);
    det_trainer_free(task);
    det_dataset_free(train);
    det_dataset_free(eval);
    return rc;
}

static const char *ranks_dir;

static int train_whole(int rank, struct rank_result *mine)
{
    return train_in_parts(rank, mine, NULL, -1);
}

static int train_first(int rank, struct rank_result *mine)
{
    train_in_parts(rank, mine, ranks_dir, 8);
    return mine->err.code;
}

static int train_second(int rank, struct rank_result *mine)
{
    return train_in_parts(rank, mine, ranks_dir, -1);
}

static void test_ranks__stop_together_and_go_on_exactly(void **state)
{
    (void)state;
    ranks_dir = temp_path("ranks");
    const struct rank_result *whole = ranks_run_env(2, train_whole),
                             *first = ranks_run_env(2, train_first),
                             *second = ranks_run_env(2, train_second);
    assert_ranks_fine(whole, 2);
    assert_ranks_fine(first, 2);
    assert_ranks_fine(second, 2);
    size_t n = (size_t)whole->n_weights * sizeof(float);
    assert_memory_equal(first[0].weight, first[1].weight, n);
    assert_memory_not_equal(first[0].weight, whole[0].weight, n);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(second[i].weight, whole[i].weight, n);
        assert_near(second[i].number[0], whole[i].number[0], 1e-12);
    }
}

RUN_TESTS(TEST(test_stop__at_any_batch_and_going_on_is_exact),
          TEST(test_end__leaves_nothing_to_do_for_another_run),
          TEST(test_result__has_metrics_and_the_best),
          TEST(test_metrics__go_to_a_file_and_by_period),
          TEST(test_checkpoints__are_made_by_period_and_policy),
          TEST(test_configuration__says_how_long), TEST(test_seed__is_that_of_the_checkpoint),
          cmocka_unit_test(test_ranks__stop_together_and_go_on_exactly))
