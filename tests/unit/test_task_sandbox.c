// What a task in a sandbox can see and do, and what not: as root, and as another user.
#include "support/task.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

// What is mounted where, before the first test.
static char *mounts_before;

static char *read_mounts(void)
{
    char *text = calloc(1, 1 << 16);
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    for (ssize_t n, at = 0; (n = read(fd, text + at, (1 << 16) - 1 - (size_t)at)) > 0;)
        at += n;
    close(fd);
    return text;
}

// Mounts that any other namespace shares, as systemd has them. A sandbox must detach itself first.
static void share_mounts(void)
{
    if (make_own_mounts()) mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL);
    mounts_before = read_mounts();
}

static int leave_no_mounts(void **state)
{
    char *now = read_mounts();
    int differs = strcmp(now, mounts_before);
    if (differs) print_error("mounts outside of the sandbox:\n%s", now);
    free(now);
    return teardown(state) || differs ? -1 : 0;
}

// A directory next to that of the task, with a secret in it.
static const char *hide_something(struct world *w)
{
    static const char *hidden[1];
    const char *dir = arena_printf(&w->arena, "%s-secret", w->dir);
    mkdir(dir, 0755);
    write_bytes(arena_printf(&w->arena, "%s/key", dir), "secret\n", 7);
    hidden[0] = dir;
    w->spec.sandbox.hidden.items = hidden;
    w->spec.sandbox.hidden.n = 1;
    return dir;
}

static void add_mount(struct world *w, struct sandbox_mount m)
{
    static struct sandbox_mount mounts[8];
    w->spec.sandbox.mounts.items = mounts;
    mounts[w->spec.sandbox.mounts.n++] = m;
}

static void expect_lines(struct world *w, int mode, const char *script, const char *lines)
{
    w->spec.sandbox.mode = mode;
    run(w, script);
    if (w->exit.end == TASK_NOT_STARTED) fail_msg("%s", w->exit.why);
    assert_lines(w, TASK_STDERR, "");
    assert_lines(w, TASK_STDOUT, lines);
}

static void test_private__shows_no_other_process(void **state)
{
    expect_lines(*state, SANDBOX_PRIVATE,
                 "echo $$; ls -d /proc/[0-9]*; "
                 "grep -c . /proc/1/environ 2>&1 | sed 's/.*: //'",
                 "2\n/proc/1\n/proc/2\nPermission denied\n");
}

static void test_private__hides_what_is_hidden(void **state)
{
    struct world *w = *state;
    const char *dir = hide_something(w);
    const char *script = arena_printf(
        &w->arena, "cat %s/key 2>&1 | sed 's/.*: //'; ls -A %s | wc -l; pwd; echo x > own; cat own",
        dir, dir);
    expect_lines(w, SANDBOX_PRIVATE, script,
                 arena_printf(&w->arena, "No such file or directory\n0\n%s/task\nx\n", w->dir));
}

static void test_private__leaves_the_rest_as_it_is(void **state)
{
    struct world *w = *state;
    const char *file = arena_printf(&w->arena, "%s-other", w->dir);
    expect_lines(w, SANDBOX_PRIVATE, arena_printf(&w->arena, "echo y > %s; cat %s", file, file),
                 "y\n");
    assert_int_equal(access(file, F_OK), 0);
}

static void test_strict__lets_write_only_where_allowed(void **state)
{
    struct world *w = *state;
    const char *own = arena_printf(&w->arena, "%s-own", w->dir);
    mkdir(own, 0777);
    add_mount(w, (struct sandbox_mount){.host = own, .path = own});
    const char *script =
        arena_printf(&w->arena,
                     "for f in /x /etc/x /usr/x /var/x /dev/x /sys/x /proc/sys/kernel/hostname; do "
                     "(echo 1 > $f) 2>/dev/null && echo $f; done; "
                     "for f in /tmp/x /var/tmp/y $HOME/z own %s/x /dev/shm/x /dev/null; do "
                     "echo 1 > $f && echo $f; done; ls /tmp | grep -v det-test",
                     own);
    setenv("HOME", "/home/of-nobody", 1);
    w->spec.sandbox.covered.items = (const char *[]){"/home", "/root", "/home/of-nobody"};
    w->spec.sandbox.covered.n = 3;
    expect_lines(w, SANDBOX_STRICT, script,
                 arena_printf(&w->arena,
                              "/tmp/x\n/var/tmp/y\n/home/of-nobody/z\nown\n%s/x\n/dev/shm/x\n"
                              "/dev/null\nx\ny\n",
                              own));
}

static void test_mounts__are_real_and_obey_read_only(void **state)
{
    struct world *w = *state;
    const char *data = arena_printf(&w->arena, "%s-data", w->dir);
    mkdir(data, 0777);
    write_bytes(arena_printf(&w->arena, "%s/a", data), "A\n", 2);
    add_mount(w, (struct sandbox_mount){data, "/det-test-data/deep", true, true});
    add_mount(w, (struct sandbox_mount){data, "/usr/det-test-data", false, true});
    add_mount(w, (struct sandbox_mount){data, arena_printf(&w->arena, "%s/task/in/side", w->dir),
                                        false, true});
    const char *script = "cat /det-test-data/deep/a /usr/det-test-data/a in/side/a; "
                         "(echo 1 > /det-test-data/deep/b) 2>/dev/null || echo no; "
                         "echo B > /usr/det-test-data/b; cat in/side/b; ls -d /usr/bin /etc/passwd";
    expect_lines(w, SANDBOX_PRIVATE, script, "A\nA\nA\nno\nB\n/etc/passwd\n/usr/bin\n");
    assert_int_equal(access("/det-test-data", F_OK), -1); // nothing of it outside
    assert_int_equal(access("/usr/det-test-data", F_OK), -1);
}

// A mount that comes later is not read-only.
static void test_strict__sees_no_later_mounts(void **state)
{
    struct world *w = *state;
    const char *place = arena_printf(&w->arena, "%s-later", w->dir);
    mkdir(place, 0777);
    add_mount(w, (struct sandbox_mount){place, "/det-test-later", true, true});
    w->spec.sandbox.mode = SANDBOX_STRICT;
    start(w, arena_printf(&w->arena,
                          "echo up; until [ -e go ]; do sleep 0.01; done; "
                          "for d in %s /det-test-later; do (echo > $d/x) 2>/dev/null && echo $d; "
                          "done",
                          place));
    wait_until(has_line(w, TASK_STDOUT, "up\n"));
    bool is_mounted = !mount("tmpfs", place, "tmpfs", 0, "mode=0777");
    write_bytes(arena_printf(&w->arena, "%s/task/go", w->dir), "", 0);
    finish(w);
    if (is_mounted) assert_int_equal(umount(place), 0);
    assert_lines(w, TASK_STDOUT, "up\n");
    if (!is_mounted) skip(); // needs root
}

static void test_mounts__lead_to_nothing_hidden(void **state)
{
    struct world *w = *state;
    const char *dir = hide_something(w);
    const char *parent = arena_strdup(&w->arena, dir);
    *strrchr(parent, '/') = 0;
    add_mount(w, (struct sandbox_mount){parent, "/det-test-parent", false, true});
    add_mount(w, (struct sandbox_mount){dir, "/det-test-itself", false, true});
    const char *script = arena_printf(
        &w->arena, "cat /det-test-itself/key /det-test-parent%s/key 2>/dev/null; echo -",
        dir + strlen(parent));
    expect_lines(w, SANDBOX_PRIVATE, script, "-\n");
}

static void test_end__code_and_signal_are_those_of_the_program(void **state)
{
    struct world *w = *state;
    w->spec.sandbox.mode = SANDBOX_PRIVATE;
    run(w, "exit 7");
    assert_int_equal(w->exit.code, 7);
    start(w, "kill -SEGV $$");
}

static void test_end__orphans_are_stopped_and_killed(void **state)
{
    struct world *w = *state;
    w->spec.grace_us = 200000;
    expect_lines(
        w, SANDBOX_PRIVATE,
        "setsid sh -c 'trap \"echo told; exit 0\" TERM; echo up; while :; do sleep 0.01; "
        "done' & setsid sh -c 'trap \"\" TERM; exec sleep 1000' & "
        "until grep -q up ../log.* 2>/dev/null || [ $((n=n+1)) -gt 20 ]; do sleep 0.02; done",
        "up\ntold\n");
}

// Whose environment is empty and whose session is its own, too.
static void test_end__nothing_survives_the_shim(void **state)
{
    struct world *w = *state;
    w->spec.sandbox.mode = SANDBOX_PRIVATE;
    start(w, "env -i setsid sh -c 'echo up; while :; do sleep 0.01; done' & wait");
    wait_until(has_line(w, TASK_STDOUT, "up\n"));
    pid_t root = proc_pid(w->shim);
    size_t n;
    pid_t *tree = proc_tree(&root, 1, &n);
    assert_true(n >= 4); // the shim, process 1, the rank, the other one
    assert_true(proc_signal(w->shim, SIGKILL));
    wait_readable(w->shim);
    for (size_t i = 0; i < n; i++)
        wait_until(tree[i] == root || !process_exists(tree[i]));
    free(tree);
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, leave_no_mounts)

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        T(private__shows_no_other_process),     T(private__hides_what_is_hidden),
        T(private__leaves_the_rest_as_it_is),   T(strict__lets_write_only_where_allowed),
        T(strict__sees_no_later_mounts),        T(mounts__are_real_and_obey_read_only),
        T(mounts__lead_to_nothing_hidden),      T(end__code_and_signal_are_those_of_the_program),
        T(end__orphans_are_stopped_and_killed), T(end__nothing_survives_the_shim),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}

int main(int argc, char **argv)
{
    enum { NOBODY = 65534 };
    int status = 0;
    become_shim_if_asked(argc, argv);
    share_mounts();
    if (geteuid() == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)) return 1;
            prctl(PR_SET_DUMPABLE, 1); // as if it had been started so
            return run_all();
        }
        waitpid(pid, &status, 0);
    }
    return run_all() || status;
}
