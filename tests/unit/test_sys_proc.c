// What sys/proc.h promises.
#include "support/files.h"

#include "sys/proc.h"
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { PLENTY_US = 60000000 };

static void test_run__collects_the_output(void **state)
{
    (void)state;
    det_err err = {0};
    struct buf out = BUF_INIT(100);
    const char *argv[] = {"sh", "-c", "echo a; echo hidden >&2; echo b", NULL};
    assert_ok(proc_run(argv, PLENTY_US, &out, &err), &err);
    assert_string_equal(out.ptr, "a\nb\n");
    buf_done(&out);
}

static void test_run__reports_failures(void **state)
{
    (void)state;
    det_err err = {0};
    struct buf out = BUF_INIT(100);
    assert_int_equal(proc_run((const char *[]){"no-such-program", NULL}, PLENTY_US, &out, &err),
                     DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "cannot start 'no-such-program'");
    proc_run((const char *[]){"sh", "-c", "exit 3", NULL}, PLENTY_US, &out, &err);
    assert_failed_with(&err, DET_EIO, "sh failed with status 3");
    proc_run((const char *[]){"sleep", "1000", NULL}, 1000, &out, &err);
    assert_failed_with(&err, DET_EIO, "sleep takes too long");
    proc_run((const char *[]){"head", "-c", "101", "/dev/zero", NULL}, PLENTY_US, &out, &err);
    assert_failed_with(&err, DET_ELIMIT, "head prints too much");
    buf_done(&out);
}

static void test_open__knows_a_process_by_its_start(void **state)
{
    (void)state;
    det_err err = {0};
    struct proc_id id;
    int fd;
    assert_ok(proc_id_of(getpid(), &id, &err), &err);
    assert_ok(proc_open(&id, &fd, &err), &err);
    assert_true(proc_signal(fd, 0));
    close(fd);
    id.start++;
    assert_int_equal(proc_open(&id, &fd, &err), DET_ENOTFOUND);
    id.start--;
    id.boot[0] ^= 1; // before the machine was started again
    assert_int_equal(proc_open(&id, &fd, &err), DET_ENOTFOUND);
    assert_int_equal(proc_open(&(struct proc_id){.pid = -1}, &fd, &err), DET_ENOTFOUND);
}

static void test_open__a_zombie_has_ended(void **state)
{
    (void)state;
    det_err err = {0};
    struct proc_id id;
    int fd, child;
    assert_ok(proc_spawn((const char *[]){"/bin/sleep", "1000", NULL}, -1, &child, &err), &err);
    pid_t pid;
    assert_int_equal(proc_children(getpid(), &pid, 1), 1);
    assert_ok(proc_id_of(pid, &id, &err), &err);
    assert_true(proc_signal(child, SIGKILL));
    struct pollfd p = {.fd = child, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(proc_open(&id, &fd, &err), DET_ENOTFOUND);
    proc_reap(child);
    assert_int_equal(proc_children(getpid(), &pid, 1), 0);
    assert_false(proc_signal(child, SIGKILL));
    close(child);
}

static void test_spawn__says_why_not(void **state)
{
    (void)state;
    det_err err = {0};
    int fd;
    assert_int_equal(proc_spawn((const char *[]){"/no/such", NULL}, -1, &fd, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "cannot start '/no/such'");
}

// Every process of the tree has the mark, the one that left the tree as well.
static void test_kill_marked__finds_all_and_only_those(void **state)
{
    (void)state;
    char mark[64];
    det_err err = {0};
    int marked, other;
    snprintf(mark, sizeof mark, "DET_TEST_MARK=%ld", (long)getpid());
    setenv("DET_TEST_MARK", strchr(mark, '=') + 1, 1);
    const char *tree[] = {"/bin/sh", "-c", "setsid sleep 1000 & sleep 1000 & wait", NULL};
    assert_ok(proc_spawn(tree, -1, &marked, &err), &err);
    setenv("DET_TEST_MARK", "another", 1);
    assert_ok(proc_spawn((const char *[]){"/bin/sleep", "1000", NULL}, -1, &other, &err), &err);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    proc_kill_marked((const char *[]){"DET_TEST_MARK=nobody", mark, NULL});
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid)
        assert_int_equal(info.si_status, SIGKILL);
    pid_t pids[4];
    assert_int_equal(proc_children(getpid(), pids, 4), 1); // the other one
    assert_true(proc_signal(other, SIGKILL));
    struct pollfd p = {.fd = other, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    proc_reap(other);
    close(marked);
    close(other);
}

static void test_usage__is_that_of_all_that_was_started(void **state)
{
    (void)state;
    const pid_t self = getpid();
    struct proc_usage before, after;
    proc_usage_of(&self, 1, &before);
    // A child that has ended counts, and so does the memory of one that lives.
    pid_t child = fork();
    if (!child) {
        for (volatile int64_t i = 0; clock() < CLOCKS_PER_SEC / 5; i++)
            ;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    enum { BYTES = 64 << 20 };
    char *block = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i += 512)
        block[i] = 1;
    proc_usage_of(&self, 1, &after);
    assert_true(after.cpu_us - before.cpu_us >= 150000);
    assert_true(after.memory_bytes - before.memory_bytes >= BYTES / 2);
    free(block);
    proc_usage_of(NULL, 0, &after);
    assert_int_equal(after.cpu_us + after.memory_bytes, 0);
}

RUN_TESTS(cmocka_unit_test(test_usage__is_that_of_all_that_was_started),
          cmocka_unit_test(test_run__collects_the_output),
          cmocka_unit_test(test_run__reports_failures),
          cmocka_unit_test(test_open__knows_a_process_by_its_start),
          cmocka_unit_test(test_open__a_zombie_has_ended),
          cmocka_unit_test(test_spawn__says_why_not),
          cmocka_unit_test(test_kill_marked__finds_all_and_only_those))
