// A trial as a task of a cluster: what the master hears, and what it decides. The program is the
// same as one that runs by itself.
#include "support/fake_master.h"
#include "support/heard.h"
#include "support/onevar.h"

static const char *const to_4_batches =
    "{\"op\":{\"validateAfter\":{\"length\":4,\"unit\":\"batches\"}},\"completed\":false}";
static const char *const to_3_epochs =
    "{\"op\":{\"validateAfter\":{\"length\":3,\"unit\":\"epochs\"}},\"completed\":false}";

static int setup(void **state)
{
    temp_remove(NULL);
    temp_folder[0] = 0;
    fake_reset();
    fake_start();
    fake.operation = to_4_batches;
    fake.one_operation = true;
    fake_environment("1");
    setenv("DET_TRIAL_SEED", "42", 1);
    setenv("DET_HPARAMS", "{\"learning_rate\":0.25}", 1);
    setenv("DET_EXPERIMENT_CONFIG",
           "{\"searcher\":{\"name\":\"single\",\"metric\":\"loss\",\"max_length\":{\"batches\":4}},"
           "\"hyperparameters\":{\"learning_rate\":0.5},\"scheduling_unit\":2}",
           1);
    return lab_setup(state);
}

static int teardown(void **state)
{
    fake_stop();
    fake_reset();
    return lab_teardown(state);
}

// What a program does that knows nothing of clusters: 8 batches an epoch.
static int64_t train(const det_trial_ops *ops, det_report_fn on_report)
{
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.125, global_batch_size: 8}");
    const det_result *r = det_train(t, det_build_trial(t, ops), .max_length = det_batches(100),
                                    .on_report = on_report);
    int64_t batches = r ? r->batches : -1;
    if (r) assert_int_equal(r->seed, 42);
    det_trainer_free(t);
    return batches;
}

static void test_task__trains_as_the_master_says(void **state)
{
    (void)state;
    assert_int_equal(train(&OneVarTrial, NULL), 4);
    assert_heard("metrics", 0, "\"group\":\"training\",\"stepsCompleted\":2");
    assert_heard("metrics", 1, "\"group\":\"training\",\"stepsCompleted\":4");
    assert_heard("metrics", 2, "\"group\":\"validation\",\"stepsCompleted\":4");
    assert_null(fake_heard("metrics", 3));
    assert_heard("progress", 0, "{\"progress\":2.0}");
    assert_heard("progress", 1, "{\"progress\":4.0}");
    // The learning rate is that of the task: 0.25, which halves the distance with each batch.
    assert_heard("metrics", 2, "\"metrics\":{\"loss\":0.00390625}");
    assert_heard("completed_operation", 0, "{\"op\":{\"length\":4},\"searcherMetric\":0.00390625}");
    assert_heard("ack_preemption", 0, "{}");
}

static void test_task__completes_a_length_when_all_of_it_is_safe(void **state)
{
    (void)state;
    train(&OneVarTrial, NULL);
    assert_heard("checkpoints", 0, "\"stepsCompleted\":4");
    char framework[64];
    snprintf(framework, sizeof framework, "\"framework\":\"%s\"", lab_engine->name);
    assert_heard("checkpoints", 0, framework);
    assert_heard("checkpoints", 0, "\"state-dict.pth\":");
    assert_null(fake_heard("checkpoints", 1));
    assert_true(heard_index("checkpoints") < heard_index("completed_operation"));
}

static void test_task__goes_on_from_the_checkpoint_of_the_master(void **state)
{
    (void)state;
    train(&OneVarTrial, NULL);
    begin_again(to_3_epochs);
    assert_int_equal(train(&OneVarTrial, NULL), 24);
    assert_heard("metrics", 0, "\"stepsCompleted\":6");
    assert_heard("metrics", 0, "\"trialRunId\":2");
    assert_heard("completed_operation", 0, "{\"op\":{\"length\":3}");
}

static void test_task__validates_again_if_the_master_does_not_know(void **state)
{
    (void)state;
    train(&OneVarTrial, NULL);
    begin_again(to_4_batches);
    assert_int_equal(train(&OneVarTrial, NULL), 4);
    assert_heard("metrics", 0, "\"group\":\"validation\",\"stepsCompleted\":4");
    assert_heard("completed_operation", 0, "\"searcherMetric\":0.00390625");
    assert_null(fake_heard("checkpoints", 0));
}

static void preempt_after_2(const det_report *r, void *user)
{
    (void)user;
    if (r->batches == 2) serve_call(&fake.serve, fake_preempt_now, NULL);
}

static void test_task__saves_and_ends_when_it_is_preempted(void **state)
{
    (void)state;
    setenv("DET_EXPERIMENT_CONFIG",
           "{\"searcher\":{\"name\":\"single\",\"metric\":\"loss\"},"
           "\"scheduling_unit\":1000000}",
           1);
    fake.operation = // longer than anybody waits
        "{\"op\":{\"validateAfter\":{\"length\":1000000000000,\"unit\":\"batches\"}}}";
    int64_t batches = train(&OneVarTrial, preempt_after_2);
    assert_true(batches >= 2);
    assert_null(fake_heard("completed_operation", 0));
    assert_heard("ack_preemption", 0, "{}");
    char steps[64];
    snprintf(steps, sizeof steps, "\"stepsCompleted\":%d,", (int)batches);
    assert_heard("checkpoints", 0, steps);
}

static int refuse(void *self, det_context *ctx, det_err *err)
{
    (void)self, (void)ctx;
    return det_fail(err, DET_EHPARAM, "too wide");
}

static void test_task__says_that_hyperparameters_cannot_work(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.init = refuse;
    assert_int_equal(train(&ops, NULL), -1);
    det_err err;
    assert_int_equal(det_check(&err), DET_EHPARAM);
    assert_heard("early_exit", 0, "EXITED_REASON_INVALID_HP");
}

#define TASK_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TASK_TEST(test_task__trains_as_the_master_says),
    TASK_TEST(test_task__completes_a_length_when_all_of_it_is_safe),
    TASK_TEST(test_task__goes_on_from_the_checkpoint_of_the_master),
    TASK_TEST(test_task__validates_again_if_the_master_does_not_know),
    TASK_TEST(test_task__saves_and_ends_when_it_is_preempted),
    TASK_TEST(test_task__says_that_hyperparameters_cannot_work),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
