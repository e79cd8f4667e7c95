// Directories of tasks as older versions have left them: tests/golden/allocation.
#include "support/fake_master.h"
#include "support/shim.h"

#include "rm/rm.h"
#include <sys/stat.h>

struct world {
    struct arena arena;
    struct rm *rm;
    struct rm_event event;
};

// The allocation with token 1 is a copy of the directory.
static void open_copy(struct world *w, const char *name)
{
    static const char *shim[] = {NULL, "task-shim", NULL};
    const char *root = arena_strdup(&w->arena, temp_path(name));
    det_err err = {0};
    shim[0] = self_path();
    assert_int_equal(mkdir(root, 0700), 0);
    const char *copy = arena_printf(&w->arena, "cp -r tests/golden/allocation/%s %s/1", name, root);
    assert_int_equal(system(copy), 0);
    w->rm = rm_open(&(struct rm_opts){.root = root, .shim = shim, .n_cpu_slots = 2}, &err);
    if (!w->rm) fail_msg("%s", err.msg);
}

static void wait_event(struct world *w, enum rm_event_kind kind)
{
    do {
        while (!rm_next(w->rm, &w->event))
            wait_readable(rm_fd(w->rm));
    } while (w->event.kind == RM_LOG);
    assert_int_equal(w->event.kind, kind);
    assert_int_equal(w->event.token, 1);
}

static void close_copy(struct world *w)
{
    det_err err = {0};
    assert_ok(rm_forget(w->rm, 1, NULL, &err), &err);
    rm_close(w->rm);
    arena_done(&w->arena);
}

static void test_ended__is_told_as_it_was(void **state)
{
    (void)state;
    struct world w = {0};
    struct task_page page;
    det_err err = {0};
    open_copy(&w, "ended");
    wait_event(&w, RM_STARTED);
    wait_event(&w, RM_EXITED);
    assert_int_equal(w.event.exit.end, TASK_FAILED);
    assert_int_equal(w.event.exit.code, 3);
    assert_string_equal(w.event.exit.why, "the task returned 3");
    assert_int_equal(w.event.exit.started_us, 1794949459686086);
    assert_ok(task_log_read(rm_find(w.rm, 1)->dir, 0, &w.arena, &page, &err), &err);
    static const char *const lines[] = {"first line", "to stderr", "last line",
                                        "the task returned 3"};
    assert_int_equal(page.lines.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(str_eqz(page.lines.items[i].text, lines[i]));
    assert_int_equal(page.lines.items[1].stream, TASK_STDERR);
    close_copy(&w);
}

// Reports lie beside the records there, not in a directory of the task.
static void test_lost__has_its_reports_delivered_before_it_is_told(void **state)
{
    (void)state;
    struct world w = {0};
    char url[64];
    fake_reset();
    fake_start();
    snprintf(url, sizeof url, "http://127.0.0.1:%d", fake.port);
    setenv("DET_MASTER", url, 1); // where the master is today
    open_copy(&w, "lost");
    wait_event(&w, RM_STARTED);
    wait_event(&w, RM_EXITED);
    fake_stop();
    assert_int_equal(w.event.exit.end, TASK_LOST);
    assert_string_equal(w.event.exit.why, "the shim was killed");
    assert_int_equal(fake.n_heard, 12);
    assert_string_equal(fake.heard[11].path, "trials/2/metrics");
    assert_non_null(strstr(fake.heard[11].body, "\"stepsCompleted\":11"));
    close_copy(&w);
    fake_reset();
}

int main(int argc, char **argv)
{
    become_shim_if_asked(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ended__is_told_as_it_was),
        cmocka_unit_test(test_lost__has_its_reports_delivered_before_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
