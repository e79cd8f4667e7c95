// An accelerated program as a task of a cluster: what the master hears, and what it decides. The
// program is the same as one that runs by itself.
#include "support/accel.h"
#include "support/fake_master.h"
#include "support/heard.h"

static const char *const to_3_epochs =
    "{\"op\":{\"validateAfter\":{\"length\":3,\"unit\":\"epochs\"}},\"completed\":false}";
static const char *const to_4_epochs =
    "{\"op\":{\"validateAfter\":{\"length\":4,\"unit\":\"epochs\"}},\"completed\":false}";
static const char *const to_6_batches =
    "{\"op\":{\"validateAfter\":{\"length\":6,\"unit\":\"batches\"}},\"completed\":false}";

enum { BATCHES = 4 }; // of an epoch

static int setup(void **state)
{
    (void)state;
    temp_remove(NULL);
    temp_folder[0] = 0;
    fake_reset();
    fake_start();
    fake.operation = to_3_epochs;
    fake.one_operation = true;
    fake_environment("1");
    setenv("DET_TRIAL_SEED", "42", 1);
    setenv("DET_HPARAMS", "{\"lr\":0.25}", 1);
    setenv("DET_EXPERIMENT_CONFIG",
           "{\"searcher\":{\"name\":\"single\",\"metric\":\"eval_loss_epoch\","
           "\"max_length\":{\"epochs\":3}},\"hyperparameters\":{\"lr\":0.5}}",
           1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_stop();
    fake_reset();
    unsetenv("DET_MASTER");
    return 0;
}

struct program {
    det_report_fn on_report; // NULL: none
    void *user;
    det_accel_callback *callback; // NULL: none
    det_stop_reason why;          // from here on: how it ended
    int64_t batches, scheduled;   // the latter: epochs that a scheduler was made for
    float weights[256];
    int n_weights;
};

static void keep_weights(det_accel *t, struct program *p)
{
    for (int i = 0; i < det_module_n_params(det_accel_model(t)); i++) {
        det_tensor *w = det_module_param(det_accel_model(t), i);
        memcpy(p->weights + p->n_weights, det_data(w), (size_t)det_numel(w) * sizeof(float));
        p->n_weights += (int)det_numel(w);
    }
}

// A program that knows nothing of clusters, but for its hyperparameters. It asks for more epochs
// than the searcher.
static int run(struct program *p, det_err *err)
{
    det_dataset *train = pairs(8 * BATCHES), *eval = pairs(16);
    det_trainer *task = det_init();
    assert_near(det_hparam_double(task, "lr"), 0.25, 0);
    det_accel *t = dropout_trainer(DET_ACCEL_OPTS(.trainer = task,
                                                  .callbacks = DET_ACCEL_CALLBACKS(p->callback),
                                                  .out = stderr));
    const det_result *r =
        det_accel_train(t, train, .num_epochs = 100, .eval_dataset = eval,
                        .run = {.on_report = p->on_report, .report_user = p->user});
    if (r) {
        p->why = r->stop_reason;
        p->batches = r->batches;
        p->scheduled = det_accel_get_run_config(t)->num_epochs;
        keep_weights(t, p);
    }
    det_accel_free(t);
    det_dataset_free(train);
    det_dataset_free(eval);
    int rc = det_check(err);
    det_trainer_free(task);
    return rc;
}

static void assert_runs(struct program *p)
{
    det_err err;
    assert_ok(run(p, &err), &err);
}

static void test_task__trains_as_the_master_says(void **state)
{
    (void)state;
    struct program p = {0};
    assert_runs(&p);
    assert_int_equal(p.why, DET_STOP_LENGTH);
    assert_int_equal(p.batches, 3 * BATCHES);
    assert_int_equal(p.scheduled, 3);
    assert_heard("metrics", 0, "\"group\":\"training\",\"stepsCompleted\":4");
    assert_heard("metrics", 0, "\"train_loss_epoch\":");
    assert_heard("metrics", 1, "\"group\":\"validation\",\"stepsCompleted\":4");
    assert_heard("metrics", 1, "{\"eval_loss_epoch\":");
    assert_heard("metrics", 5, "\"group\":\"validation\",\"stepsCompleted\":12");
    assert_null(fake_heard("metrics", 6));
    assert_heard("progress", 0, "{\"progress\":1.0}");
    assert_heard("progress", 2, "{\"progress\":3.0}");
    assert_heard("completed_operation", 0, "{\"op\":{\"length\":3},\"searcherMetric\":0.");
    assert_null(fake_heard("completed_operation", 1));
}

static void test_task__completes_a_length_when_all_of_it_is_safe(void **state)
{
    (void)state;
    assert_runs(&(struct program){0});
    assert_heard("checkpoints", 0, "\"stepsCompleted\":4"); // the best so far
    assert_heard("checkpoints", 0, "\"state-dict.pth\":");
    assert_true(heard_index("checkpoints") < heard_index("completed_operation"));
}

// The metric that decides has the same name, wherever the length ends.
static void test_task__evaluates_where_a_length_ends_amid_an_epoch(void **state)
{
    (void)state;
    fake.operation = to_6_batches;
    struct program p = {0};
    assert_runs(&p);
    assert_int_equal(p.batches, 6);
    assert_heard("metrics", 3, "\"group\":\"validation\",\"stepsCompleted\":6");
    assert_heard("metrics", 3, "{\"eval_loss_epoch\":");
    assert_heard("completed_operation", 0, "{\"op\":{\"length\":6},\"searcherMetric\":0.");
    begin_again(to_3_epochs);
    struct program on = {0};
    assert_runs(&on);
    assert_int_equal(on.batches, 3 * BATCHES);
}

static void test_task__evaluates_again_if_the_master_does_not_know(void **state)
{
    (void)state;
    assert_runs(&(struct program){0});
    begin_again(to_3_epochs);
    struct program p = {0};
    assert_runs(&p);
    assert_int_equal(p.batches, 3 * BATCHES);
    assert_heard("metrics", 0, "\"group\":\"validation\",\"stepsCompleted\":12");
    assert_null(fake_heard("metrics", 1));
    assert_heard("completed_operation", 0, "\"searcherMetric\":0.");
}

static void test_task__goes_on_to_a_longer_length_in_another_run(void **state)
{
    (void)state;
    fake.operation = to_4_epochs;
    struct program whole = {0}, first = {0}, second = {0};
    assert_runs(&whole);
    teardown(NULL);
    setup(NULL);
    assert_runs(&first);
    begin_again(to_4_epochs);
    assert_runs(&second);
    assert_int_equal(second.batches, 4 * BATCHES);
    assert_memory_equal(whole.weights, second.weights, (size_t)whole.n_weights * sizeof(float));
}

static void preempt_after_5(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_BATCH && r->batches == 5)
        serve_call(&fake.serve, fake_preempt_now, NULL);
}

static void test_task__saves_and_ends_when_it_is_preempted(void **state)
{
    (void)state;
    fake.operation = // longer than anybody waits
        "{\"op\":{\"validateAfter\":{\"length\":1000000000000,\"unit\":\"batches\"}}}";
    struct program p = {.on_report = preempt_after_5}, on = {0};
    assert_runs(&p);
    assert_int_equal(p.why, DET_STOP_PREEMPTED);
    assert_true(p.batches >= 5);
    assert_null(fake_heard("completed_operation", 0));
    assert_heard("ack_preemption", 0, "{}");
    begin_again(
        "{\"op\":{\"validateAfter\":{\"length\":1,\"unit\":\"epochs\"}},\"completed\":false}");
    assert_runs(&on); // has it behind it
    assert_int_equal(on.why, DET_STOP_LENGTH);
    assert_int_equal(on.batches, p.batches);
}

static void refuse(void *self, det_accel *t)
{
    (void)self, (void)t;
    det_raise(DET_EHPARAM, "too wide");
}

static void test_task__says_that_hyperparameters_cannot_work(void **state)
{
    (void)state;
    static const det_accel_callback_ops ops = {.name = "Refuse", .on_train_epoch_start = refuse};
    struct program p = {.callback = det_accel_callback_new(&ops, NULL)};
    det_err err;
    assert_int_equal(run(&p, &err), DET_EHPARAM);
    assert_heard("early_exit", 0, "EXITED_REASON_INVALID_HP");
}

static void test_task__that_stops_early_ends_with_what_it_has(void **state)
{
    (void)state;
    struct program p = {.callback =
                            det_accel_callback_early_stopping(.patience = 1, .threshold = 1000)};
    assert_runs(&p);
    assert_int_equal(p.why, DET_STOP_REQUESTED);
    assert_int_equal(p.batches, 2 * BATCHES);
    assert_heard("metrics", 3, "\"group\":\"validation\",\"stepsCompleted\":8");
    assert_heard("checkpoints", 1, "\"stepsCompleted\":8");
    assert_null(fake_heard("completed_operation", 0));
}

#define TASK_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TASK_TEST(test_task__trains_as_the_master_says),
    TASK_TEST(test_task__completes_a_length_when_all_of_it_is_safe),
    TASK_TEST(test_task__evaluates_where_a_length_ends_amid_an_epoch),
    TASK_TEST(test_task__evaluates_again_if_the_master_does_not_know),
    TASK_TEST(test_task__goes_on_to_a_longer_length_in_another_run),
    TASK_TEST(test_task__saves_and_ends_when_it_is_preempted),
    TASK_TEST(test_task__says_that_hyperparameters_cannot_work),
    TASK_TEST(test_task__that_stops_early_ends_with_what_it_has),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
