// Trainers in processes of their own, as det-launch starts them.
#include "support/accel.h"
#include "support/ranks.h"

#include "sys/pool.h"

enum { TRAIN_LOSS, EVAL_LOSS, UPDATES };

// As many samples per update, however many share them.
static int train(int rank, struct rank_result *mine)
{
    det_dataset *train_set = pairs(64), *eval_set = pairs(36);
    char *text = NULL;
    size_t n_text = 0;
    FILE *out = open_memstream(&text, &n_text);
    pool_set_threads(1);
    det_trainer *task = det_init(.seed = 42);
    RANK_CHECK(task && det_trainer_rank(task) == rank);
    det_accel *t =
        small_trainer(.trainer = task, .out = out,
                      .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_print_metrics()));
    RANK_CHECK(!try_train(t, train_set, &mine->err, .num_epochs = 2, .shuffle = false,
                          .per_device_batch_size = 4 / det_trainer_size(task),
                          .gradient_accumulation_steps = 2, .eval_dataset = eval_set));
    fclose(out);
    RANK_CHECK(!n_text == (rank > 0)); // one of them prints
    RANK_CHECK(det_accel_get_run_config(t)->is_world_process_zero == !rank);
    free(text);
    for (int i = 0; i < det_module_n_params(det_accel_model(t)); i++) {
        det_tensor *w = det_module_param(det_accel_model(t), i);
        memcpy(mine->weight + mine->n_weights, det_data(w), (size_t)det_numel(w) * sizeof(float));
        mine->n_weights += (int)det_numel(w);
    }
    mine->number[TRAIN_LOSS] = latest(t, "train_loss_epoch");
    mine->number[EVAL_LOSS] = latest(t, "eval_loss_epoch");
    mine->number[UPDATES] = (double)det_accel_updates(t);
    det_accel_free(t);
    det_trainer_free(task);
    det_dataset_free(train_set);
    det_dataset_free(eval_set);
    return 0;
}

static void test_ranks__of_the_accelerated_trainer_train_as_one(void **state)
{
    (void)state;
    const struct rank_result *one = ranks_run_env(1, train);
    assert_ranks_fine(one, 1);
    for (int n = 2; n <= 4; n += 2) {
        const struct rank_result *all = ranks_run_env(n, train);
        assert_ranks_fine(all, n);
        for (int i = 0; i < n; i++) {
            assert_memory_equal(all[i].weight, all[0].weight,
                                (size_t)one->n_weights * sizeof(float));
            assert_near(all[i].number[TRAIN_LOSS], one->number[TRAIN_LOSS], 1e-6);
            assert_near(all[i].number[EVAL_LOSS], one->number[EVAL_LOSS], 1e-6);
            assert_near(all[i].number[UPDATES], one->number[UPDATES], 0);
        }
        for (int i = 0; i < one->n_weights; i++)
            assert_near(all[0].weight[i], one->weight[i], 1e-6);
    }
}

static void die_in_second_epoch(void *self, det_accel *trainer)
{
    (void)self;
    if (det_accel_history_current_epoch(det_accel_run_history(trainer)) == 2) raise(SIGKILL);
}

static const det_accel_callback_ops dying = {.name = "Dying",
                                             .on_train_epoch_start = die_in_second_epoch};

static int train_until_death(int rank, struct rank_result *mine)
{
    det_dataset *train_set = pairs(64);
    pool_set_threads(1);
    det_trainer *task = det_init(.seed = 42);
    det_accel_opts opts = DET_ACCEL_OPTS(.callbacks = DET_ACCEL_CALLBACKS_NONE, .trainer = task);
    det_accel_callback *const callbacks[] = {rank ? det_accel_callback_new(&dying, NULL) : NULL};
    if (rank) opts.callbacks = (det_accel_callbacks){callbacks, 1};
    det_accel *t = small_trainer_of(opts);
    RANK_CHECK(try_train(t, train_set, &mine->err, .num_epochs = 3));
    det_accel_free(t);
    det_trainer_free(task);
    det_dataset_free(train_set);
    return 0;
}

static void test_death__of_another_process_fails_the_run(void **state)
{
    (void)state;
    const struct rank_result *all = ranks_run_env(2, train_until_death);
    assert_int_equal(all[1].status, RANK_KILLED);
    assert_int_equal(all[0].status, 0);
    assert_err(all[0].err, DET_EUNREACHABLE, "rank 1 (process ");
}

RUN_TESTS(cmocka_unit_test(test_ranks__of_the_accelerated_trainer_train_as_one),
          cmocka_unit_test(test_death__of_another_process_fails_the_run))
