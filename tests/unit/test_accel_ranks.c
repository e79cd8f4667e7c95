// Trainers in processes of their own, as det-launch starts them.
#include "support/accel.h"
#include "support/ranks.h"

#include "sys/pool.h"

enum { TRAIN_LOSS, EVAL_LOSS };

// As many samples per update, however many share them.
static int train(int rank, struct rank_result *mine)
{
    det_accel_processes processes;
    det_dataset *train_set = pairs(64), *eval_set = pairs(32);
    pool_set_threads(1);
    RANK_CHECK(!det_accel_join(&processes, &mine->err) && processes.rank == rank);
    det_accel *t = small_trainer(.processes = processes);
    RANK_CHECK(!det_accel_train(t, train_set, &mine->err, .num_epochs = 2, .keep_order = true,
                                .per_device_batch_size = 8 / processes.n,
                                .eval_dataset = eval_set));
    for (int i = 0; i < det_module_n_params(det_accel_model(t)); i++) {
        det_tensor *w = det_module_param(det_accel_model(t), i);
        memcpy(mine->weight + mine->n_weights, det_data(w), (size_t)det_numel(w) * sizeof(float));
        mine->n_weights += (int)det_numel(w);
    }
    mine->number[TRAIN_LOSS] = latest(t, "train_loss_epoch");
    mine->number[EVAL_LOSS] = latest(t, "eval_loss_epoch");
    det_accel_free(t);
    det_accel_leave(&processes);
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
    det_accel_processes processes;
    det_dataset *train_set = pairs(64);
    pool_set_threads(1);
    RANK_CHECK(!det_accel_join(&processes, &mine->err));
    det_accel_opts opts = {.no_callbacks = true, .processes = processes};
    det_accel_callback *const callbacks[] = {rank ? det_accel_callback_new(&dying, NULL) : NULL};
    if (rank) opts.callbacks = (det_accel_callbacks){callbacks, 1};
    det_accel *t = small_trainer_of(opts);
    RANK_CHECK(det_accel_train(t, train_set, &mine->err, .num_epochs = 3));
    det_accel_free(t);
    det_accel_leave(&processes);
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
