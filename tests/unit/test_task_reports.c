// Reports of programs that died before the master had heard them.
#include "support/fake_master.h"
#include "support/task.h"

#include "client/journal.h"

static void leave_journal(struct world *w)
{
    det_err err = {0};
    struct journal *j;
    const char *path = arena_printf(&w->arena, "%s/metrics-1-2.journal", w->dir);
    assert_ok(journal_create(path, &j, &err), &err);
    assert_ok(journal_add(j, "/api/v1/trials/7/metrics", STR("{\"n\":1}"), &err), &err);
    assert_ok(journal_add(j, "/api/v1/trials/7/metrics", STR("{\"n\":2}"), &err), &err);
    journal_close(j);
}

static void set_master(struct world *w, const char *token)
{
    static const char *env[2];
    env[0] = arena_printf(&w->arena, "DET_MASTER=http://127.0.0.1:%d", fake.port);
    env[1] = arena_printf(&w->arena, "DET_SESSION_TOKEN=%s", token);
    w->spec.env.items = env;
    w->spec.env.n = 2;
}

static bool has_journal(const struct world *w)
{
    char path[256];
    snprintf(path, sizeof path, "%s/metrics-1-2.journal", w->dir);
    return access(path, F_OK) == 0;
}

static void test_reports__reach_the_master_before_the_exit_is_known(void **state)
{
    struct world *w = *state;
    fake_reset();
    fake_start();
    set_master(w, "alloc-token");
    leave_journal(w);
    run(w, "exit 3");
    fake_stop();
    assert_int_equal(w->exit.code, 3);
    assert_int_equal(fake.n_heard, 2);
    assert_string_equal(fake.heard[1].body, "{\"n\":2}");
    assert_false(has_journal(w));
    fake_reset();
}

static void test_reports__wait_for_a_master_that_is_away(void **state)
{
    struct world *w = *state;
    fake_reset();
    fake_start();
    set_master(w, "alloc-token");
    fake_stop();
    leave_journal(w);
    start(w, "echo done");
    wait_until(has_line(w, TASK_STDOUT, "done\n"));
    fake_start();
    finish(w);
    fake_stop();
    assert_int_equal(fake.n_heard, 2);
    fake_reset();
}

// A process that is being killed has its files for longer than it is seen.
static void test_reports__wait_for_the_end_of_who_wrote_them(void **state)
{
    struct world *w = *state;
    char byte;
    int held[2];
    fake_reset();
    fake_start();
    set_master(w, "alloc-token");
    leave_journal(w);
    assert_int_equal(pipe(held), 0);
    pid_t pid = fork();
    if (pid == 0) {
        det_err err = {0};
        struct journal *j;
        const char *path = arena_printf(&w->arena, "%s/metrics-1-2.journal", w->dir);
        if (journal_open(path, &j, &err) || write(held[1], "", 1) != 1) _exit(1);
        while (!has_line(w, TASK_STDOUT, "done\n"))
            usleep(1000);
        usleep(300000); // the shim has come to the reports meanwhile
        _exit(0);
    }
    assert_int_equal(read(held[0], &byte, 1), 1);
    run(w, "echo done");
    waitpid(pid, NULL, 0);
    fake_stop();
    assert_int_equal(fake.n_heard, 2);
    assert_false(has_journal(w));
    fake_reset();
    close(held[0]);
    close(held[1]);
}

static void test_reports__that_nobody_wants_are_kept(void **state)
{
    struct world *w = *state;
    fake_reset();
    fake_start();
    set_master(w, "of-another-run");
    leave_journal(w);
    run(w, "true");
    fake_stop();
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    assert_true(has_line(w, TASK_SHIM, "the master refused a report: who are you?"));
    assert_true(has_journal(w));
    fake_reset();
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(int argc, char **argv)
{
    become_shim_if_asked(argc, argv);
    const struct CMUnitTest tests[] = {
        T(reports__reach_the_master_before_the_exit_is_known),
        T(reports__wait_for_a_master_that_is_away),
        T(reports__wait_for_the_end_of_who_wrote_them),
        T(reports__that_nobody_wants_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
