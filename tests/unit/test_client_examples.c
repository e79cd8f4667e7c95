// The examples of the Generic API, in three languages: the same conversation, the same numbers.
#include "support/fake_master.h"

#include <math.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static char *const c_program[] = {(char *)(uintptr_t)EXAMPLE_C, NULL};
static char *const shell_script[] = {(char *)(uintptr_t) "/bin/sh",
                                     (char *)(uintptr_t) "examples/generic/train.sh", NULL};
static char *const python_script[] = {(char *)(uintptr_t) "/usr/bin/python3",
                                      (char *)(uintptr_t) "examples/generic/train.py", NULL};
static char *const *const programs[] = {c_program, shell_script, python_script};

static void set_environment(void)
{
    fake_environment("1");
    setenv("DET_HPARAMS", "{\"learning_rate\":0.01}", 1);
    setenv("DET_EXPERIMENT_CONFIG", "{}", 1);
}

static void run(char *const *program, const char *operation)
{
    pid_t pid;
    int status;
    fake_reset();
    fake.operation = operation;
    fake.one_operation = true;
    fake_start();
    char master[64];
    snprintf(master, sizeof master, "http://127.0.0.1:%d", fake.port);
    setenv("DET_MASTER", master, 1);
    assert_int_equal(posix_spawn(&pid, program[0], NULL, NULL, program, environ), 0);
    waitpid(pid, &status, 0);
    fake_stop();
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s failed", program[0]);
}

static double number_after(const char *text, const char *key)
{
    const char *at = text ? strstr(text, key) : NULL;
    if (!at) fail_msg("no %s in %s", key, text ? text : "nothing");
    return strtod(at + strlen(key), NULL);
}

// Trains for two epochs, and in another run for two more.
static double train_twice(char *const *program)
{
    set_environment();
    run(program,
        "{\"op\":{\"validateAfter\":{\"length\":2,\"unit\":\"epochs\"}},\"completed\":false}");
    assert_non_null(fake_heard("allocations/3.ab.1/ready", 0));
    assert_true(number_after(fake_heard("metrics", 0), "\"stepsCompleted\":") == 64);
    assert_true(number_after(fake_heard("metrics", 3), "\"stepsCompleted\":") == 128);
    assert_null(fake_heard("metrics", 4));
    assert_true(number_after(fake_heard("progress", 1), "\"progress\":") == 2);
    assert_true(number_after(fake_heard("completed_operation", 0), "\"length\":") == 2);
    assert_non_null(fake_heard("ack_preemption", 0));
    const char *uuid = strstr(fake_heard("checkpoints", 1), "\"uuid\":") + strlen("\"uuid\":");
    char latest[37] = {0};
    memcpy(latest, strchr(uuid, '"') + 1, 36);
    setenv("DET_LATEST_CHECKPOINT", latest, 1);
    setenv("DET_TRIAL_RUN_ID", "2", 1);
    run(program,
        "{\"op\":{\"validateAfter\":{\"length\":4,\"unit\":\"epochs\"}},\"completed\":false}");
    assert_true(number_after(fake_heard("metrics", 0), "\"stepsCompleted\":") == 192);
    assert_true(number_after(fake_heard("metrics", 0), "\"trialRunId\":") == 2);
    assert_null(fake_heard("metrics", 4));
    return number_after(fake_heard("completed_operation", 0), "\"searcherMetric\":");
}

static void test_examples__train_and_resume_alike(void **state)
{
    (void)state;
    double expected = pow(1 - 0.02, 2 * 4 * 64);
    for (int i = 0; i < 3; i++) {
        double metric = train_twice(programs[i]);
        if (fabs(metric - expected) > 1e-9 * expected)
            fail_msg("%s ended with %g instead of %g", programs[i][0], metric, expected);
    }
    fake_reset();
}

static void test_examples__stop_when_they_are_told_to(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        set_environment();
        pid_t pid;
        int status;
        fake_reset();
        fake.operation = "{\"op\":{\"validateAfter\":{\"length\":1000000,\"unit\":\"epochs\"}},"
                         "\"completed\":false}";
        fake_start();
        set_environment();
        assert_int_equal(posix_spawn(&pid, programs[i][0], NULL, NULL, programs[i], environ), 0);
        fake_wait_for(4); // it trains
        serve_call(&fake.serve, fake_preempt_now, NULL);
        waitpid(pid, &status, 0);
        fake_stop();
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_non_null(fake_heard("ack_preemption", 0));
        assert_null(fake_heard("completed_operation", 0));
    }
    fake_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples__train_and_resume_alike),
        cmocka_unit_test(test_examples__stop_when_they_are_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
