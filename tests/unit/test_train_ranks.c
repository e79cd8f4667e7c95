// One trial on several ranks: the same result as on one, the same bits on all of them, and the same
// bits again when it goes on after a stop or a death.
#include "support/files.h"
#include "support/lab.h"
#include "support/ranks.h"

#include "sys/pool.h"

enum { SAMPLES = 48, GLOBAL = 12, FEATURES = 6 }; // 4 global batches an epoch

// What the ranks of a test do; set before they are started.
static struct plan {
    bool is_noisy; // its model draws random numbers and has a buffer
    int batches, aggregation, checkpoint_period;
    bool adam, amp;
    int samples;                      // 0: SAMPLES
    int odd_rank, odd_batch;          // where something special happens
    bool dies, fails, stops, renames; // what
    bool overflows;
    bool unlike;           // ranks start with weights of their own
    bool whole_validation; // evaluate_full_dataset
    bool newest;           // goes on from the newest checkpoint in folder
    bool test;             // test_mode
    const char *folder;
} plan;

struct net {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
    det_reducer *order;
    int n_full;
};
static const struct net *present; // of this process
static double last_draw;          // of random numbers

// --- the trial

static double is_in_order(const double *values, int64_t n, void *user)
{
    (void)user;
    for (int64_t i = 0; i < n; i++)
        if (values[i] != (double)i) return -1;
    return (double)n;
}

static int net_init(void *self, det_context *ctx, det_err *err)
{
    struct net *n = self;
    n->ctx = ctx;
    present = n;
    if (plan.amp) det_use_amp(ctx);
    const struct lab_model model = {.features = FEATURES,
                                    .hidden = 16,
                                    .start = NAN,
                                    .dropout = plan.is_noisy ? 0.4 : 0,
                                    .has_buffer = plan.is_noisy};
    n->model = det_wrap_model(ctx, lab_model(model));
    if (plan.unlike) lab_set_weight(n->model, 0, 0.1 + det_context_rank(ctx));
    n->opt = det_wrap_optimizer(ctx, plan.adam ? lab_adam(n->model, 0.01)
                                               : lab_sgd(n->model, 0.05, 0.9));
    n->order = det_wrap_reducer_fn(ctx, "order", is_in_order, NULL, .for_training = false);
    return det_check(err);
}

static int special_batch(struct net *n, const det_step *step, det_err *err)
{
    if (step->batch_idx != plan.odd_batch || det_context_rank(n->ctx) != plan.odd_rank) return 0;
    if (plan.dies) raise(SIGKILL);
    if (plan.stops) det_context_set_stop_requested(n->ctx, true);
    return plan.fails ? det_fail(err, DET_EHPARAM, "this cannot work") : 0;
}

static int net_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    int rc = special_batch(n, step, err);
    if (rc) return rc;
    det_tensor *loss = lab_loss(n->model, step->batch);
    bool odd = step->batch_idx == plan.odd_batch && det_context_rank(n->ctx) == plan.odd_rank;
    det_backward_loss(n->ctx, odd && plan.overflows ? lab_times(loss, 1e38) : loss);
    det_step_optimizer(n->ctx, n->opt);
    last_draw = lab_draw();
    det_metric(out, plan.renames && det_context_rank(n->ctx) ? "other" : "loss", loss);
    det_metric(out, "records", (double)lab_batch_length(step->batch));
    return det_check(err);
}

static int net_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_metric(out, "loss", lab_loss(n->model, step->batch));
    for (int64_t i = 0; i < lab_batch_length(step->batch); i++)
        det_reducer_update(n->order, (double)lab_batch_number(step->batch, i));
    return det_check(err);
}

static int net_evaluate_full(void *self, det_loader *loader, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_metric(out, "n_full", ++n->n_full);
    det_metric(out, "samples", (double)lab_engine->loader_length(loader));
    return det_check(err);
}

static det_loader *data(int64_t batch, bool shuffle)
{
    return lab_loader((struct lab_data){.samples = plan.samples ? plan.samples : SAMPLES,
                                        .batch = batch,
                                        .features = FEATURES,
                                        .shuffle = shuffle});
}

static det_loader *training_data(void *self)
{
    const struct net *n = self;
    return data(det_context_per_slot_batch_size(n->ctx), true);
}

static det_loader *validation_data(void *self)
{
    (void)self;
    return data(2, false);
}

static const det_trial_ops net = {
    .size = sizeof(struct net),
    .init = net_init,
    .train_batch = net_train_batch,
    .evaluate_batch = net_evaluate_batch,
    .build_training_data_loader = training_data,
    .build_validation_data_loader = validation_data,
};

// --- running it

enum { BATCHES, LOSS, VALIDATION_LOSS, ORDER, RECORDS, FULL, N_REPORTS, DRAW };

static void count_report(const det_report *r, void *user)
{
    double *count = user;
    *count += r->kind == DET_REPORT_TRAINING;
}

static void keep_weights(struct rank_result *mine)
{
    mine->n_weights = lab_state(present->model, mine->weight, RANK_WEIGHTS_MAX);
}

static void keep_result(const det_result *r, struct rank_result *mine)
{
    mine->number[BATCHES] = (double)r->batches;
    mine->number[LOSS] = det_metrics_get(r->training, "loss");
    mine->number[VALIDATION_LOSS] = det_metrics_get(r->validation, "loss");
    mine->number[ORDER] = det_metrics_get(r->validation, "order");
    mine->number[RECORDS] = det_metrics_get(r->training, "records");
    mine->number[FULL] = det_metrics_get(r->validation, "n_full");
    mine->number[DRAW] = last_draw;
    keep_weights(mine);
}

static int train(int rank, struct rank_result *mine)
{
    det_trial_ops ops = net;
    if (plan.whole_validation) {
        ops.evaluate_batch = NULL;
        ops.evaluate_full_dataset = net_evaluate_full;
    }
    pool_set_threads(1);
    // Without rank 0, each would have a seed of its own.
    det_trainer *t = lab_init(.hparams = "{global_batch_size: 12}", .seed = 7 + (uint64_t)rank);
    const det_result *r = det_train(
        t, det_build_trial(t, &ops), .max_length = det_batches(plan.batches),
        .reporting_period = det_batches(4), .aggregation_frequency = plan.aggregation,
        .min_checkpoint_period =
            plan.checkpoint_period ? det_batches(plan.checkpoint_period) : (det_length){0},
        .checkpoint_policy = DET_CHECKPOINT_NONE,
        .checkpoint_dir = plan.folder ? temp_path(plan.folder) : NULL, .test_mode = plan.test,
        .resume_newest = plan.newest && !rank, .on_report = count_report,
        .report_user = &mine->number[N_REPORTS]);
    if (r) keep_result(r, mine);
    det_check(&mine->err);
    det_trainer_free(t);
    return 0;
}

static struct rank_result *run(int n)
{
    struct rank_result *all = ranks_run_env(n, train);
    assert_ranks_fine(all, n);
    for (int i = 0; i < n; i++)
        if (all[i].err.code) fail_msg("rank %d: %s", i, all[i].err.msg);
    return all;
}

static void assert_same_weights(const struct rank_result *a, const struct rank_result *b)
{
    assert_true(a->n_weights > 0);
    assert_int_equal(a->n_weights, b->n_weights);
    assert_memory_equal(a->weight, b->weight, (size_t)a->n_weights * sizeof(float));
}

static void assert_near_weights(const struct rank_result *a, const struct rank_result *b)
{
    assert_int_equal(a->n_weights, b->n_weights);
    for (int i = 0; i < a->n_weights; i++)
        assert_near(a->weight[i], b->weight[i], 1e-6);
}

// --- the same result

static void test_ranks__train_as_one_does(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 20, .odd_batch = -1};
    const struct rank_result *one = run(1);
    for (int n = 2; n <= 4; n++) {
        const struct rank_result *all = run(n);
        assert_near_weights(&all[0], one);
        assert_near(all[0].number[LOSS], one->number[LOSS], 1e-6);
        assert_near(all[0].number[VALIDATION_LOSS], one->number[VALIDATION_LOSS], 1e-6);
        for (int i = 1; i < n; i++)
            assert_same_weights(&all[0], &all[i]);
    }
}

static void test_ranks__start_with_the_weights_of_rank_0(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 3, .unlike = true, .odd_batch = -1};
    const struct rank_result *all = run(3);
    assert_same_weights(&all[0], &all[1]);
    assert_same_weights(&all[0], &all[2]);
}

// Batch norm sees other data on each rank, but its averages are those of rank 0 in the end.
static void test_ranks__have_the_same_buffers(void **state)
{
    (void)state;
    plan = (struct plan){.is_noisy = true, .batches = 8, .adam = true, .odd_batch = -1};
    const struct rank_result *all = run(2);
    assert_same_weights(&all[0], &all[1]);
    const struct rank_result *again = run(2);
    assert_same_weights(&all[0], &again[0]);
}

static void test_ranks__aggregate_before_they_average(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 12, .aggregation = 3, .odd_batch = -1};
    const struct rank_result *one = run(1), *all = run(2);
    assert_near_weights(&all[0], one);
    assert_same_weights(&all[0], &all[1]);
}

static void test_ranks__draw_random_numbers_of_their_own(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 3, .odd_batch = -1};
    const struct rank_result *all = run(3), *again = run(3);
    for (int i = 0; i < 3; i++) {
        assert_true(all[i].number[DRAW] != all[(i + 1) % 3].number[DRAW]);
        assert_true(all[i].number[DRAW] == again[i].number[DRAW]);
    }
}

// A gradient that is infinite on one rank only: no rank takes the step.
static void test_ranks__skip_a_step_together(void **state)
{
    (void)state;
    plan =
        (struct plan){.batches = 4, .amp = true, .overflows = true, .odd_rank = 1, .odd_batch = 2};
    const struct rank_result *all = run(2);
    assert_same_weights(&all[0], &all[1]);
    for (int i = 0; i < all[0].n_weights; i++)
        assert_true(isfinite(all[0].weight[i]));
}

// --- metrics

static void test_metrics__are_those_of_all_ranks(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 8, .samples = 47, .odd_batch = -1};
    for (int n = 1; n <= 4; n++) {
        const struct rank_result *all = run(n);
        for (int i = 0; i < n; i++) {
            assert_int_equal(all[i].number[ORDER], 47); // every sample once, in order
            assert_true(all[i].number[LOSS] == all[0].number[LOSS]);
            assert_true(all[i].number[VALIDATION_LOSS] == all[0].number[VALIDATION_LOSS]);
            assert_int_equal(all[i].number[N_REPORTS], i ? 0 : 2);
        }
    }
}

// 12 / 5 is 2 for each slot, and more slots than validation batches: 24 of 2 samples, then 1.
static void test_metrics__with_ranks_that_have_no_validation_batch(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 4, .samples = 12, .odd_batch = -1};
    const struct rank_result *all = run(8);
    assert_int_equal(all[7].number[ORDER], 12);
    assert_int_equal(all[0].number[RECORDS], 1);
}

static void test_metrics__of_the_full_dataset_are_those_of_rank_0(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 4, .whole_validation = true, .odd_batch = -1};
    const struct rank_result *all = run(3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(all[i].number[FULL], 1);
}

static void assert_says(const struct rank_result *r, int code, const char *text)
{
    assert_int_equal(r->status, 0);
    assert_err(r->err, code, text);
}

static void test_metrics__must_be_the_same_on_all_ranks(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 4, .renames = true, .odd_batch = -1};
    const struct rank_result *all = ranks_run_env(2, train);
    assert_says(&all[0], DET_EINVAL, "rank 0 reports the metric 'loss', rank 1 does not");
}

// --- stopping and going on

static int count_checkpoints(const char *folder)
{
    char command[200];
    int n = 0;
    snprintf(command, sizeof command, "ls '%s' | grep -c '^[0-9a-f-]*$'", temp_path(folder));
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void test_stop__asked_for_by_one_rank_stops_all(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 100, .stops = true, .odd_rank = 1, .odd_batch = 9};
    const struct rank_result *all = run(3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(all[i].number[BATCHES], 12); // the end of the workload
}

// Killed at any batch, with gradients that wait or not, and resumed by as many ranks.
static void kill_and_resume(struct plan base)
{
    plan = base;
    const struct rank_result *whole = run(2);
    for (int at = 1; at < base.batches; at += 2) {
        char folder[32];
        snprintf(folder, sizeof folder, "killed-%d-%d", base.aggregation, at);
        plan = base;
        plan.folder = folder;
        plan.checkpoint_period = 1;
        plan.dies = true;
        plan.odd_rank = at / 2 % 2;
        plan.odd_batch = at;
        const struct rank_result *dead = ranks_run_env(2, train);
        assert_int_equal(dead[plan.odd_rank].status, RANK_KILLED);
        assert_says(&dead[!plan.odd_rank], DET_EUNREACHABLE,
                    plan.odd_rank ? "rank 1 (process" : "rank 0 (process");
        plan.dies = false;
        plan.newest = true;
        const struct rank_result *rest = run(2);
        assert_same_weights(&rest[0], &whole[0]);
        assert_same_weights(&rest[1], &whole[0]);
    }
}

static void test_death__and_resume_give_the_same_bits(void **state)
{
    (void)state;
    kill_and_resume((struct plan){.is_noisy = true, .batches = 9, .odd_batch = -1});
}

static void test_death__with_gradients_that_wait(void **state)
{
    (void)state;
    kill_and_resume((struct plan){.is_noisy = true,
                                  .batches = 9,
                                  .aggregation = 3,
                                  .adam = true,
                                  .amp = true,
                                  .odd_batch = -1});
}

static void test_resume__with_another_number_of_ranks(void **state)
{
    (void)state;
    static const int sizes[][2] = {{2, 1}, {1, 3}, {3, 4}};
    plan = (struct plan){.batches = 14, .odd_batch = -1};
    const struct rank_result *one = run(1);
    for (int i = 0; i < 3; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "other-%d", i);
        plan.folder = folder;
        plan.newest = true;
        plan.batches = 6;
        run(sizes[i][0]);
        plan.batches = 14;
        const struct rank_result *all = run(sizes[i][1]);
        assert_near_weights(&all[0], one);
        assert_int_equal(all[0].number[BATCHES], 14);
    }
}

static void test_test_mode__of_ranks_keeps_nothing(void **state)
{
    (void)state;
    plan = (struct plan){.folder = "tested", .test = true, .odd_batch = -1};
    const struct rank_result *all = run(3);
    assert_same_weights(&all[0], &all[2]);
    assert_int_equal(access(temp_path("tested"), F_OK), -1);
}

static void test_resume__says_how_many_slots_gradients_wait_for(void **state)
{
    (void)state;
    plan = (struct plan){
        .batches = 5, .aggregation = 3, .folder = "waiting", .newest = true, .odd_batch = -1};
    run(2);
    plan.batches = 9;
    const struct rank_result *all = ranks_run_env(3, train);
    assert_says(&all[0], DET_EINVAL,
                "it has gradients of 2 slots that wait for their step, now there are 3 slots");
    assert_int_equal(count_checkpoints("waiting"), 1);
    run(2);
    assert_int_equal(count_checkpoints("waiting"), 2); // one rank writes
}

static void test_failure__of_one_rank_is_that_of_all(void **state)
{
    (void)state;
    plan = (struct plan){.batches = 9, .fails = true, .odd_rank = 1, .odd_batch = 5};
    const struct rank_result *all = ranks_run_env(3, train);
    assert_says(&all[1], DET_EHPARAM, "train_batch, batch 5: this cannot work");
    assert_true(strncmp(all[0].err.msg, "rank 1: trial ", 14) == 0);
    assert_says(&all[2], DET_EHPARAM, "train_batch, batch 5: this cannot work");
}

// --- predictions

static int predict(int rank, struct rank_result *mine)
{
    (void)rank;
    pool_set_threads(1);
    det_trainer *t = lab_init(.hparams = "{global_batch_size: 12}", .seed = 7);
    det_tensor *all = det_predict(t, det_build_trial(t, &net), validation_data(NULL));
    mine->n_weights = lab_values(all, mine->weight, RANK_WEIGHTS_MAX);
    lab_free(all);
    det_check(&mine->err);
    det_trainer_free(t);
    return 0;
}

static void test_predictions__are_in_the_order_of_the_dataset(void **state)
{
    (void)state;
    plan = (struct plan){.samples = 47, .odd_batch = -1};
    const struct rank_result *one = ranks_run_env(1, predict);
    assert_int_equal(one->n_weights, 47);
    for (int n = 2; n <= 4; n++) {
        const struct rank_result *all = ranks_run_env(n, predict);
        for (int i = 0; i < n; i++)
            assert_same_weights(&all[i], one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks__train_as_one_does),
        cmocka_unit_test(test_ranks__start_with_the_weights_of_rank_0),
        cmocka_unit_test(test_ranks__have_the_same_buffers),
        cmocka_unit_test(test_ranks__aggregate_before_they_average),
        cmocka_unit_test(test_ranks__draw_random_numbers_of_their_own),
        cmocka_unit_test(test_ranks__skip_a_step_together),
        cmocka_unit_test(test_metrics__are_those_of_all_ranks),
        cmocka_unit_test(test_metrics__with_ranks_that_have_no_validation_batch),
        cmocka_unit_test(test_metrics__of_the_full_dataset_are_those_of_rank_0),
        cmocka_unit_test(test_metrics__must_be_the_same_on_all_ranks),
        cmocka_unit_test(test_stop__asked_for_by_one_rank_stops_all),
        cmocka_unit_test(test_death__and_resume_give_the_same_bits),
        cmocka_unit_test(test_death__with_gradients_that_wait),
        cmocka_unit_test(test_resume__with_another_number_of_ranks),
        cmocka_unit_test(test_test_mode__of_ranks_keeps_nothing),
        cmocka_unit_test(test_resume__says_how_many_slots_gradients_wait_for),
        cmocka_unit_test(test_failure__of_one_rank_is_that_of_all),
        cmocka_unit_test(test_predictions__are_in_the_order_of_the_dataset),
    };
    temp_path("");
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
