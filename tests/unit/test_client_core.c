// What the Generic API promises, alone and with a master that comes and goes.
#include "support/fake_master.h"

#include "client/client.h"
#include "client/journal.h"
#include "det/client.h"
#include "sys/interrupt.h"
#include <dirent.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static det_err err;

// --- environments

static void forget_environment(void)
{
    static const char *const names[] = {"DET_MASTER",
                                        "DET_ALLOCATION_ID",
                                        "DET_SESSION_TOKEN",
                                        "DET_TRIAL_ID",
                                        "DET_EXPERIMENT_ID",
                                        "DET_TRIAL_RUN_ID",
                                        "DET_TRIAL_SEED",
                                        "DET_HPARAMS",
                                        "DET_EXPERIMENT_CONFIG",
                                        "DET_RUN_DIR",
                                        "DET_CHECKPOINT_STORAGE",
                                        "DET_LATEST_CHECKPOINT",
                                        "DET_RENDEZVOUS_INFO",
                                        "RANK",
                                        "WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("DET_HOME", temp_path("home"), 1);
}

static void set_environment(void)
{
    fake_environment("2");
    setenv("DET_TRIAL_SEED", "42", 1);
    setenv("DET_HPARAMS", "{\"lr\":0.5,\"opt\":{\"name\":\"sgd\",\"steps\":3},\"flag\":true}", 1);
    setenv("DET_EXPERIMENT_CONFIG", "{\"data\":{\"url\":\"here\"},\"searcher\":{\"name\":\"x\"}}",
           1);
}

static int n_journals(void)
{
    int n = 0;
    DIR *dir = opendir(temp_path("run"));
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strstr(e->d_name, ".journal") != NULL;
    if (dir) closedir(dir);
    return n;
}

static int setup(void **state)
{
    (void)state;
    temp_remove(NULL);
    temp_folder[0] = 0;
    forget_environment();
    fake_reset();
    err = (det_err){0};
    return 0;
}

static int setup_master(void **state)
{
    setup(state);
    fake_start();
    set_environment();
    return 0;
}

static int teardown_master(void **state)
{
    (void)state;
    fake_stop();
    fake_reset();
    return 0;
}

static det_core *start(void)
{
    det_core *core = det_core_init_with(&(det_core_opts){.patience_ms = 20000}, &err);
    if (!core) fail_msg("%s", err.msg);
    return core;
}

static void report(det_core *core, int batches)
{
    assert_ok(det_core_report_training_metrics(core, batches, DET_METRICS({"loss", 0.5}), &err),
              &err);
}

static void look(void *ctx)
{
    (void)ctx;
}

static const char *heard(const char *path, int n)
{
    serve_call(&fake.serve, look, NULL); // all that the server wrote before is ours to read
    return fake_heard(path, n);
}

static int n_heard(const char *path)
{
    int n = 0;
    while (heard(path, n))
        n++;
    return n;
}

static void assert_reports_in_order(int n)
{
    assert_int_equal(n_heard("trials/7/metrics"), n);
    for (int i = 0; i < n; i++) {
        char steps[64];
        snprintf(steps, sizeof steps, "\"stepsCompleted\":%d,", i + 1);
        if (!strstr(heard("trials/7/metrics", i), steps))
            fail_msg("report %d is %s", i, heard("trials/7/metrics", i));
    }
}

// --- alone

static void test_alone__runs_without_any_environment(void **state)
{
    (void)state;
    const det_core_opts opts = {.hparams = "{\"lr\":0.1}", .trial_seed = 5, .batches = 20};
    det_core *core = det_core_init_with(&opts, &err);
    assert_non_null(core);
    const det_core_info *info = det_core_get_info(core);
    assert_true(info->is_local);
    assert_int_equal(info->trial_seed, 5);
    assert_int_equal(info->size, 1);
    double lr = 0;
    assert_ok(det_core_get_double(core, "hparams.lr", &lr, &err), &err);
    assert_true(lr == 0.1);
    const char *path = NULL;
    assert_int_equal(det_core_latest_checkpoint(core, &path, &err), 0);
    assert_false(det_core_should_preempt(core));
    det_search_op *op;
    int64_t n = 0;
    assert_int_equal(det_core_next_search_op(core, &op, &err), 1);
    assert_ok(det_search_op_batches(op, &n, &err), &err);
    assert_int_equal(n, 20);
    assert_int_equal(det_search_op_epochs(op, &n, &err), DET_EINVAL);
    assert_failed_with(&err, DET_EINVAL, "configured in batches, not in epochs");
    assert_ok(det_search_op_report_progress(op, 10, &err), &err);
    assert_ok(det_search_op_complete(op, 0.25, &err), &err);
    assert_int_equal(det_core_next_search_op(core, &op, &err), 0);
    const det_rendezvous *r;
    assert_ok(det_core_rendezvous(core, &r, &err), &err);
    assert_int_equal(r->size, 1);
    assert_ok(det_core_close(core, &err), &err);
}

static void test_alone__keeps_metrics_and_checkpoints_in_its_folder(void **state)
{
    (void)state;
    det_core *core = det_core_init_with(&(det_core_opts){.folder = temp_path("run")}, &err);
    assert_non_null(core);
    assert_ok(det_core_report_validation_metrics(
                  core, 10, DET_METRICS({"loss", 0.5}, {"error", __builtin_nan("")}), &err),
              &err);
    det_checkpoint *c;
    const char *path = det_checkpoint_begin(core, &c, &err);
    assert_non_null(path);
    char file[512], kept[512];
    snprintf(file, sizeof file, "%s/weights", path);
    write_bytes(file, "abc", 3);
    snprintf(kept, sizeof kept, "%s/checkpoints/%s/weights", temp_path("run"),
             det_checkpoint_uuid(c));
    assert_ok(det_checkpoint_commit(c, "{\"epoch\":3}", &err), &err);
    assert_int_equal(access(kept, R_OK), 0);
    assert_int_not_equal(access(file, R_OK), 0);
    assert_ok(det_core_close(core, &err), &err);
    assert_int_equal(n_journals(), 1);
    char command[256];
    snprintf(command, sizeof command, "grep -q '\"error\":\"NaN\"' %s/metrics-*.journal",
             temp_path("run"));
    assert_int_equal(system(command), 0);
}

static void test_alone__refuses_nonsense(void **state)
{
    (void)state;
    assert_null(det_core_init_with(&(det_core_opts){.hparams = "{"}, &err));
    assert_null(det_core_init_with(&(det_core_opts){.hparams = "[]"}, &err));
    setenv("DET_TRIAL_SEED", "many", 1);
    assert_null(det_core_init(&err));
    assert_failed_with(&err, DET_EINVAL, "DET_TRIAL_SEED must be an integer, found 'many'");
    unsetenv("DET_TRIAL_SEED");
    det_core *core = det_core_init(&err);
    assert_non_null(core);
    assert_int_equal(det_core_report_training_metrics(core, -1, DET_METRICS({"a", 1}), &err),
                     DET_EINVAL);
    assert_int_equal(det_core_report_metrics(core, "a.b", 1, "{}", &err), DET_EINVAL);
    assert_int_equal(det_core_report_metrics(core, "a", 1, "{\"x\":}", &err), DET_EINVAL);
    assert_int_equal(det_core_report_metrics(core, "a", 1, "[1]", &err), DET_EINVAL);
    assert_ok(det_core_report_metrics(core, "a", 1, "{\"x\":\n[1]}", &err), &err);
    det_checkpoint *c;
    assert_non_null(det_checkpoint_begin(core, &c, &err));
    assert_int_equal(det_checkpoint_commit(c, "[]", &err), DET_EINVAL);
    assert_ok(det_core_close(core, &err), &err);
}

// --- with a master

static void test_values__come_from_the_environment(void **state)
{
    (void)state;
    det_core *core = start();
    const det_core_info *info = det_core_get_info(core);
    int64_t steps = 0;
    double lr = 0;
    bool flag = false;
    const char *text = NULL;
    assert_int_equal(info->trial_id, 7);
    assert_int_equal(info->run_id, 2);
    assert_int_equal(info->trial_seed, 42);
    assert_ok(det_core_get_int(core, "hparams.opt.steps", &steps, &err), &err);
    assert_ok(det_core_get_double(core, "hparams.opt.steps", &lr, &err), &err);
    assert_ok(det_core_get_bool(core, "hparams.flag", &flag, &err), &err);
    assert_ok(det_core_get_str(core, "data.url", &text, &err), &err);
    assert_true(steps == 3 && lr == 3 && flag);
    assert_string_equal(text, "here");
    assert_string_equal(det_core_get_json(core, "hparams.opt"), "{\"name\":\"sgd\",\"steps\":3}");
    assert_null(det_core_get_json(core, "hparams.other"));
    assert_int_equal(det_core_get_int(core, "hparams.lr", &steps, &err), DET_EINVAL);
    assert_int_equal(det_core_get_int(core, "hparams.none", &steps, &err), DET_ENOTFOUND);
    assert_int_equal(det_core_get_str(core, "config.searcher.name.x", &text, &err), DET_ENOTFOUND);
    assert_int_equal(steps, 3);
    assert_ok(det_core_close(core, &err), &err);
}

static void test_reports__arrive_once_and_in_order(void **state)
{
    (void)state;
    det_core *core = start();
    for (int i = 1; i <= 100; i++)
        report(core, i);
    assert_ok(det_core_close(core, &err), &err);
    assert_reports_in_order(100);
    assert_non_null(strstr(heard("trials/7/metrics", 0), "\"trialRunId\":2"));
    assert_non_null(strstr(heard("trials/7/metrics", 0), "\"metrics\":{\"loss\":0.5}"));
    assert_int_equal(n_heard("allocations/3.ab.1/ready"), 1);
    assert_int_equal(fake.n_doubles, 0);
    assert_int_equal(n_journals(), 0);
}

static void test_reports__survive_an_outage(void **state)
{
    (void)state;
    det_core *core = start();
    report(core, 1);
    fake_wait_for(2); // ready, and the report
    fake_stop();
    for (int i = 2; i <= 50; i++)
        report(core, i);
    fake.n_fail = 3;
    fake_start();
    assert_ok(det_core_close(core, &err), &err);
    assert_reports_in_order(50);
}

static void test_reports__are_caught_up_with_in_batches(void **state)
{
    (void)state;
    enum { N = 2500 };
    det_core *core = start();
    fake_wait_for(1); // ready
    fake_stop();
    for (int i = 1; i <= N; i++)
        report(core, i);
    fake_start();
    assert_ok(det_core_close(core, &err), &err);
    assert_reports_in_order(N);
    assert_int_equal(fake.n_doubles, 0);
    assert_in_range(fake.n_batches, 3, 4); // 1000 at most, and what the stop has cut off
}

static void test_reports__of_a_batch_are_not_doubled_when_its_answer_is_lost(void **state)
{
    (void)state;
    det_core *core = start();
    fake_wait_for(1);
    fake_stop();
    for (int i = 1; i <= 20; i++)
        report(core, i);
    fake.n_mute = 1;
    fake_start();
    fake_wait_for(21); // but nobody says so
    for (int i = 21; i <= 30; i++)
        report(core, i); // go with the others, when these are sent again
    fake_stop();
    fake_start();
    assert_ok(det_core_close(core, &err), &err);
    assert_reports_in_order(30);
    assert_int_equal(fake.n_doubles, 20);
}

static void test_reports__of_a_batch_that_is_refused_go_one_by_one(void **state)
{
    (void)state;
    det_core *core = start();
    fake_wait_for(1);
    fake_stop();
    for (int i = 1; i <= 20; i++)
        report(core, i);
    fake.refuse_path = "trials/7/metrics";
    fake.refuse_status = 409;
    fake.refuse_text = "\"stepsCompleted\":7,";
    fake_start();
    assert_int_equal(det_core_close(core, &err), DET_ESTATE);
    assert_int_equal(n_heard("trials/7/metrics"), 19);
    assert_int_equal(fake.n_batches, 0);
}

static void test_reports__are_not_doubled_when_an_answer_is_lost(void **state)
{
    (void)state;
    fake.n_mute = 1; // the first one: ready
    det_core *core = start();
    fake_wait_for(1);
    report(core, 1);
    fake_stop(); // and with it the answer
    fake.n_mute = 1;
    fake_start();
    fake_wait_for(2);
    fake_stop();
    fake_start();
    assert_ok(det_core_close(core, &err), &err);
    assert_reports_in_order(1);
    assert_int_equal(n_heard("ready"), 1);
    assert_int_equal(fake.n_doubles, 2);
}

static void test_reports__that_are_refused_fail_the_next_one(void **state)
{
    (void)state;
    fake.refuse_path = "trials/7/metrics";
    fake.refuse_status = 409;
    det_core *core = start();
    report(core, 1);
    det_search_op *op;
    assert_int_equal(det_core_next_search_op(core, &op, &err), 0); // all was delivered
    assert_int_equal(det_core_report_training_metrics(core, 2, DET_METRICS({"loss", 0.5}), &err),
                     DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "the master refused a report: no way");
    report(core, 3); // said once
    assert_int_equal(det_core_close(core, &err), DET_ESTATE);
    assert_int_equal(n_heard("ack_preemption"), 1);
}

static void test_reports__end_when_the_master_has_given_us_up(void **state)
{
    (void)state;
    setenv("DET_SESSION_TOKEN", "of-another-run", 1);
    det_core *core = start();
    bool preempt = false;
    assert_ok(det_core_wait_preempt(core, &preempt, &err), &err);
    assert_true(preempt); // nothing we do counts any more
    assert_int_equal(det_core_close(core, &err), DET_EAUTH);
    assert_int_equal(n_heard(""), 0);
    assert_int_equal(n_journals(), 1);
}

static void test_close__keeps_what_could_not_be_delivered(void **state)
{
    (void)state;
    fake_stop();
    det_core *core = det_core_init_with(&(det_core_opts){.patience_ms = 50}, &err);
    assert_non_null(core);
    for (int i = 1; i <= 20; i++)
        report(core, i);
    assert_int_equal(det_core_close(core, &err), DET_ETIMEOUT);
    assert_failed_with(&err, DET_ETIMEOUT, "21 reports could not be delivered");
    assert_int_equal(n_journals(), 1);
    fake_start();
    const struct http_client_opts master = {.url = getenv("DET_MASTER"), .token = "alloc-token"};
    assert_ok(client_deliver(temp_path("run"), &master, 20000000, &err), &err);
    assert_reports_in_order(20);
    assert_int_equal(n_journals(), 0);
}

static void test_death__loses_nothing_that_was_reported(void **state)
{
    (void)state;
    fake_stop();
    char *arguments[] = {(char *)(uintptr_t) "test", (char *)(uintptr_t) "die", NULL};
    pid_t pid;
    int status;
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(n_journals(), 1);
    fake_start();
    const struct http_client_opts master = {.url = getenv("DET_MASTER"), .token = "alloc-token"};
    assert_ok(client_deliver(temp_path("run"), &master, 20000000, &err), &err);
    assert_reports_in_order(300);
}

// The program of the test above, and of the one below.
static int play(const char *part)
{
    det_core *core = det_core_init(&err);
    for (int i = 1; core && i <= 300; i++)
        det_core_report_training_metrics(core, i, DET_METRICS({"loss", 0.5}), &err);
    if (core && !strcmp(part, "die")) raise(SIGKILL);
    return core ? 0 : 1; // without det_core_close()
}

static void test_exit__without_close_delivers_everything(void **state)
{
    (void)state;
    char *arguments[] = {(char *)(uintptr_t) "test", (char *)(uintptr_t) "leave", NULL};
    pid_t pid;
    int status;
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_reports_in_order(300);
    assert_int_equal(n_journals(), 0);
}

// A worker that loads data is forked, lives on when its parent has died, and must not keep others from
// delivering what the parent has left.
static void test_fork__leaves_the_journal_to_the_parent(void **state)
{
    (void)state;
    int pipes[2];
    char done = 0;
    det_core *core = start();
    report(core, 1);
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (!pid) { // the child
        det_err why = {0};
        int rc = det_core_report_training_metrics(core, 2, DET_METRICS({"loss", 0.5}), &why);
        bool is_clear = rc == DET_ESTATE && strstr(why.msg, "forked");
        if (write(pipes[1], is_clear ? "y" : "n", 1) != 1) _exit(2);
        if (det_core_close(core, &why)) _exit(3); // at once, and without a trace
        exit(0);
    }
    assert_int_equal(read(pipes[0], &done, 1), 1);
    assert_int_equal(done, 'y');
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    report(core, 2);
    assert_ok(det_core_close(core, &err), &err);
    assert_reports_in_order(2);
    close(pipes[0]);
    close(pipes[1]);
}

// --- giving up

static int n_asked;

static bool is_enough(void)
{
    return ++n_asked > 2;
}

static void test_interrupt__ends_what_waits_for_a_master(void **state)
{
    (void)state;
    det_search_op *op;
    bool preempt;
    det_core *core = start();
    fake_stop();
    report(core, 1);
    interrupt_wanted = is_enough;
    n_asked = 0;
    assert_int_equal(det_core_next_search_op(core, &op, &err), DET_ECANCELED);
    n_asked = 0;
    assert_int_equal(det_core_close(core, &err), DET_ECANCELED);
    assert_non_null(strstr(err.msg, "are kept in"));
    core = start();
    n_asked = 0;
    assert_int_equal(det_core_wait_preempt(core, &preempt, &err), DET_ECANCELED);
    n_asked = 0;
    det_core_close(core, NULL);
    interrupt_wanted = NULL;
    fake_start();
}

// --- search

static void set_operation(void *text)
{
    fake.operation = text;
}

static void test_search__asks_complete_and_ask_again(void **state)
{
    (void)state;
    static char first[] = "{\"op\":{\"validateAfter\":{\"length\":3,\"unit\":\"epochs\"}},"
                          "\"completed\":false}",
                second[] = "{\"op\":{\"validateAfter\":{\"length\":9,\"unit\":\"epochs\"}}}",
                none[] = "{\"op\":{\"validateAfter\":{\"length\":9}},\"completed\":true}";
    int64_t n = 0;
    det_search_op *op, *again;
    fake.operation = first;
    det_core *core = start();
    assert_int_equal(det_core_next_search_op(core, &op, &err), 1);
    assert_ok(det_search_op_epochs(op, &n, &err), &err);
    assert_int_equal(n, 3);
    assert_string_equal(det_search_op_unit(op), "epochs");
    assert_int_equal(det_core_next_search_op(core, &again, &err), DET_ESTATE);
    assert_ok(det_search_op_report_progress(op, 1.5, &err), &err);
    serve_call(&fake.serve, set_operation, second);
    assert_ok(det_search_op_complete(op, 0.25, &err), &err);
    assert_int_equal(det_search_op_complete(op, 0.25, &err), DET_ESTATE);
    assert_ok(det_search_op_report_progress(op, 3, &err), &err);
    assert_int_equal(det_search_op_report_progress(op, 2, &err), DET_ESTATE);
    assert_int_equal(det_core_next_search_op(core, &op, &err), 1);
    assert_int_equal(det_search_op_length(op), 9);
    serve_call(&fake.serve, set_operation, none);
    assert_ok(det_search_op_complete(op, __builtin_nan(""), &err), &err);
    assert_int_equal(det_core_next_search_op(core, &op, &err), 0);
    assert_ok(det_core_close(core, &err), &err);
    assert_string_equal(heard("completed_operation", 0),
                        "{\"op\":{\"length\":3},\"searcherMetric\":0.25}");
    assert_string_equal(heard("completed_operation", 1),
                        "{\"op\":{\"length\":9},\"searcherMetric\":\"NaN\"}");
    assert_string_equal(heard("progress", 0), "{\"progress\":1.5}");
    assert_int_equal(n_heard("ack_preemption"), 1);
}

static void test_search__waits_for_a_master_that_is_away(void **state)
{
    (void)state;
    static char operation[] = "{\"op\":{\"validateAfter\":{\"length\":3,\"unit\":\"batches\"}}}";
    fake.operation = operation;
    fake.n_fail = 4;
    det_core *core = start();
    det_search_op *op;
    assert_int_equal(det_core_next_search_op(core, &op, &err), 1);
    assert_int_equal(det_search_op_length(op), 3);
    assert_ok(det_core_close(core, &err), &err);
    assert_int_equal(n_heard("ack_preemption"), 0); // it was not complete: the program had enough
}

static void test_search__acknowledges_when_one_operation_was_enough(void **state)
{
    (void)state;
    static char operation[] = "{\"op\":{\"validateAfter\":{\"length\":3,\"unit\":\"batches\"}}}";
    fake.operation = operation;
    det_core *core = start();
    det_search_op *op;
    assert_int_equal(det_core_next_search_op(core, &op, &err), 1);
    assert_ok(det_search_op_complete(op, 1, &err), &err);
    assert_ok(det_core_close(core, &err), &err);
    assert_int_equal(n_heard("ack_preemption"), 1);
}

static void test_best_validation__may_not_exist_yet(void **state)
{
    (void)state;
    double best = 0;
    fake.best = NULL;
    det_core *core = start();
    assert_int_equal(det_core_best_validation(core, &best, &err), 0);
    assert_ok(det_core_close(core, &err), &err);
    fake.best = "{\"metric\":0.75}";
    core = start();
    assert_int_equal(det_core_best_validation(core, &best, &err), 1);
    assert_true(best == 0.75);
    assert_ok(det_core_set_status(core, "validating", &err), &err);
    assert_ok(det_core_report_invalid_hparams(core, &err), &err);
    assert_ok(det_core_close(core, &err), &err);
    assert_string_equal(heard("runner/metadata", 0), "{\"state\":\"validating\"}");
    assert_string_equal(heard("early_exit", 0), "{\"reason\":\"EXITED_REASON_INVALID_HP\"}");
}

// --- pause

static void test_preempt__is_heard_and_acknowledged(void **state)
{
    (void)state;
    bool preempt = true;
    det_core *core = start();
    assert_ok(det_core_wait_preempt(core, &preempt, &err), &err);
    assert_false(preempt);
    assert_false(det_core_should_preempt(core));
    serve_call(&fake.serve, fake_preempt_now, NULL);
    for (int i = 1; !det_core_should_preempt(core); i++)
        report(core, i);
    assert_true(det_core_should_preempt(core));
    assert_ok(det_core_close(core, &err), &err);
    assert_int_equal(n_heard("ack_preemption"), 1);
}

// --- checkpoints

static void save(det_core *core, const char *content, char uuid[40])
{
    det_checkpoint *c;
    char file[512];
    const char *path = det_checkpoint_begin(core, &c, &err);
    if (!path) fail_msg("%s", err.msg);
    snprintf(file, sizeof file, "%s/weights", path);
    write_bytes(file, content, strlen(content));
    snprintf(uuid, 40, "%s", det_checkpoint_uuid(c));
    assert_ok(det_checkpoint_commit(c, NULL, &err), &err);
}

static void assert_restores(const char *content)
{
    det_core *core = start();
    const char *path;
    char file[512];
    assert_int_equal(det_core_latest_checkpoint(core, &path, &err), 1);
    snprintf(file, sizeof file, "%s/weights", path);
    struct buf text = BUF_INIT(100);
    FILE *f = fopen(file, "rb");
    for (int c; f && (c = fgetc(f)) != EOF;)
        buf_addc(&text, (char)c);
    if (f) fclose(f);
    assert_string_equal(buf_str(&text).ptr, content);
    buf_done(&text);
    assert_ok(det_core_close(core, &err), &err);
}

static void test_checkpoint__is_reported_and_restored(void **state)
{
    (void)state;
    char first[40], second[40], damaged[512];
    det_core *core = start();
    report(core, 5);
    save(core, "one", first);
    report(core, 6);
    save(core, "two", second);
    det_checkpoint *aborted;
    assert_non_null(det_checkpoint_begin(core, &aborted, &err));
    det_checkpoint_abort(aborted);
    assert_ok(det_core_close(core, &err), &err);
    assert_int_equal(n_heard("checkpoints"), 2);
    const char *body = heard("checkpoints", 0);
    assert_non_null(strstr(body, first));
    assert_non_null(strstr(body, "\"stepsCompleted\":5"));
    assert_non_null(strstr(body, "\"weights\":3"));
    setenv("DET_LATEST_CHECKPOINT", second, 1);
    assert_restores("two");
    snprintf(damaged, sizeof damaged, "%s/%s/weights", temp_path("ckpt"), second);
    write_bytes(damaged, "tow", 3);
    assert_restores("one"); // the newest that is whole
}

static void test_ranks__only_the_first_reports(void **state)
{
    (void)state;
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("DET_RENDEZVOUS_INFO",
           "{\"container_addrs\":[\"10.0.0.1\",\"10.0.0.2\"],\"container_rank\":1,"
           "\"container_slot_counts\":[4,8]}",
           1);
    det_core *core = start();
    assert_int_equal(det_core_report_training_metrics(core, 1, DET_METRICS({"a", 1}), &err),
                     DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "for rank 0 only; this is rank 1");
    det_checkpoint *c;
    assert_null(det_checkpoint_begin(core, &c, &err));
    const det_rendezvous *r;
    assert_ok(det_core_rendezvous(core, &r, &err), &err);
    assert_int_equal(r->rank, 1);
    assert_int_equal(r->size, 2);
    assert_string_equal(r->addresses[0], "10.0.0.1");
    assert_int_equal(r->slots[1], 8);
    assert_ok(det_core_close(core, &err), &err);
    assert_int_equal(n_heard(""), 0);
}

static void test_rendezvous__says_what_is_wrong_with_it(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{", "DET_RENDEZVOUS_INFO"},
        {"[]", "there is no address"},
        {"{\"container_addrs\":[],\"container_rank\":0,\"container_slot_counts\":[]}",
         "there is no address"},
        {"{\"container_addrs\":[\"a\"],\"container_rank\":1,\"container_slot_counts\":[1]}",
         "the rank is not one of them"},
        {"{\"container_addrs\":[\"a\"],\"container_slot_counts\":[1]}",
         "the rank is not one of them"},
        {"{\"container_addrs\":[\"a\",\"b\"],\"container_rank\":1,\"container_slot_counts\":[1]}",
         "the lists differ in length"},
        {"{\"container_addrs\":[7],\"container_rank\":0,\"container_slot_counts\":[1]}",
         "an address or a number of slots is none"},
        {"{\"container_addrs\":[\"a\"],\"container_rank\":0,\"container_slot_counts\":[-1]}",
         "an address or a number of slots is none"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const det_rendezvous *r = NULL;
        setenv("DET_RENDEZVOUS_INFO", wrong[i][0], 1);
        det_core *core = start();
        assert_true(det_core_rendezvous(core, &r, &err) < 0);
        assert_failed_with(&err, DET_EINVAL, wrong[i][1]);
        assert_null(r);
        assert_ok(det_core_close(core, &err), &err);
    }
}

#define ALONE(f) cmocka_unit_test_setup(f, setup)
#define T(f) cmocka_unit_test_setup_teardown(f, setup_master, teardown_master)

int main(int argc, char **argv)
{
    if (argc > 1) return play(argv[1]);
    const struct CMUnitTest tests[] = {
        ALONE(test_alone__runs_without_any_environment),
        ALONE(test_alone__keeps_metrics_and_checkpoints_in_its_folder),
        ALONE(test_alone__refuses_nonsense),
        T(test_values__come_from_the_environment),
        T(test_reports__arrive_once_and_in_order),
        T(test_reports__survive_an_outage),
        T(test_reports__are_not_doubled_when_an_answer_is_lost),
        T(test_reports__are_caught_up_with_in_batches),
        T(test_reports__of_a_batch_are_not_doubled_when_its_answer_is_lost),
        T(test_reports__of_a_batch_that_is_refused_go_one_by_one),
        T(test_reports__that_are_refused_fail_the_next_one),
        T(test_reports__end_when_the_master_has_given_us_up),
        T(test_close__keeps_what_could_not_be_delivered),
        T(test_death__loses_nothing_that_was_reported),
        T(test_exit__without_close_delivers_everything),
        T(test_fork__leaves_the_journal_to_the_parent),
        T(test_interrupt__ends_what_waits_for_a_master),
        T(test_search__asks_complete_and_ask_again),
        T(test_search__waits_for_a_master_that_is_away),
        T(test_search__acknowledges_when_one_operation_was_enough),
        T(test_best_validation__may_not_exist_yet),
        T(test_preempt__is_heard_and_acknowledged),
        T(test_checkpoint__is_reported_and_restored),
        T(test_ranks__only_the_first_reports),
        ALONE(test_rendezvous__says_what_is_wrong_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
