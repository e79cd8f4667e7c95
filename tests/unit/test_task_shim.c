// What a shim promises, with real processes.
#include "support/task.h"

#include "base/number.h"
#include <fcntl.h>
#include <signal.h>

// A number that the task has printed behind a name.
static int64_t printed_number(struct world *w, const char *name)
{
    struct buf lines = BUF_INIT(1 << 20);
    int64_t value = 0;
    read_lines(w->dir, TASK_STDOUT, &lines);
    const char *at = strstr(lines.ptr, name);
    assert_non_null(at);
    at += strlen(name);
    assert_true(number_to_int((struct str){at, strcspn(at, "\n")}, 10, &value));
    buf_done(&lines);
    return value;
}

static void add_slots(struct world *w, int n)
{
    w->spec.slots.items = arena_array(&w->arena, (size_t)n, sizeof *w->spec.slots.items);
    w->spec.slots.n = (size_t)n;
    for (int i = 0; i < n; i++)
        w->spec.slots.items[i].id = 10 + i;
    w->spec.rank_per_slot = true;
}

static void test_shim__records_output_and_success(void **state)
{
    struct world *w = *state;
    run(w, "echo one; echo two >&2; printf 'no newline'");
    assert_int_equal(w->exit.token, 7);
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    assert_int_equal(w->exit.code, 0);
    assert_int_equal(w->exit.rank, -1);
    assert_false(w->exit.asked);
    assert_lines(w, TASK_STDOUT, "one\nno newline\n");
    assert_lines(w, TASK_STDERR, "two\n");
}

static void test_shim__gives_the_task_its_environment(void **state)
{
    struct world *w = *state;
    const char *env[] = {"DET_TASK_ID=t.1", "PATH=/usr/bin:/bin", "SPACED=a  b"};
    w->spec.env.items = env;
    w->spec.env.n = 3;
    add_slots(w, 2);
    w->spec.rank_per_slot = false;
    setenv("DET_OF_OURS", "secret", 1);
    setenv("NOT_OF_DET", "kept", 1);
    run(w, "echo \"$DET_TASK_ID|$SPACED|$PATH|$DET_SLOT_IDS|$DET_OF_OURS|$NOT_OF_DET|$RANK\"; "
           "[ \"$DET_RUN_DIR\" = \"$PWD\" ] && echo here; cat");
    assert_lines(w, TASK_STDOUT, "t.1|a  b|/usr/bin:/bin|[10,11]||kept|\nhere\n");
    unsetenv("DET_OF_OURS");
}

static void test_shim__says_how_a_task_failed(void **state)
{
    struct world *w = *state;
    run(w, "exit 3");
    assert_int_equal(w->exit.end, TASK_FAILED);
    assert_int_equal(w->exit.code, 3);
    assert_int_equal(w->exit.signal, 0);
    assert_int_equal(w->exit.rank, 0);
    assert_string_equal(w->exit.why, "the task returned 3");
    assert_lines(w, TASK_SHIM, "the task returned 3\n");
}

static void test_shim__keeps_the_last_words_of_a_task_that_failed(void **state)
{
    struct world *w = *state;
    run(w, "echo to stdout; (echo Traceback; printf 'ValueError: x is \\033[31m1\\n'; echo; echo "
           "====) "
           ">&2; exit 1");
    assert_string_equal(w->exit.why, "the task returned 1");
    assert_string_equal(w->exit.said, "ValueError: x is \\x1b[31m1");
}

static void test_shim__last_words_need_no_newline(void **state)
{
    struct world *w = *state;
    run(w, "printf 'no newline' >&2; exit 1");
    assert_string_equal(w->exit.said, "no newline");
}

static void test_shim__what_is_long_is_cut(void **state)
{
    struct world *w = *state;
    run(w, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1");
    assert_int_equal(strlen(w->exit.said), 200);
}

static void test_shim__names_the_signal_that_ended_a_task(void **state)
{
    struct world *w = *state;
    run(w, "kill -SEGV $$");
    assert_int_equal(w->exit.end, TASK_FAILED);
    assert_int_equal(w->exit.code, -1);
    assert_int_equal(w->exit.signal, SIGSEGV);
    assert_string_equal(w->exit.why, "the task was ended by signal 11 (Segmentation fault)");
}

static void test_shim__says_why_a_program_does_not_start(void **state)
{
    struct world *w = *state;
    set_argv(w, "no-such-program", NULL, NULL);
    start_shim(w);
    finish(w);
    assert_int_equal(w->exit.end, TASK_NOT_STARTED);
    assert_string_equal(w->exit.why, "cannot start 'no-such-program': No such file or directory");
}

static void test_shim__says_that_the_folder_is_missing(void **state)
{
    struct world *w = *state;
    w->spec.workdir = "/no/such/folder";
    run(w, "echo never");
    assert_int_equal(w->exit.end, TASK_NOT_STARTED);
    assert_non_null(strstr(w->exit.why, "change to the directory '/no/such/folder'"));
    assert_lines(w, TASK_STDOUT, "");
}

static void test_shim__says_what_is_wrong_with_a_specification(void **state)
{
    struct world *w = *state;
    w->spec.log_max_bytes = 0;
    run(w, "echo never");
    assert_int_equal(w->exit.end, TASK_NOT_STARTED);
    assert_non_null(strstr(w->exit.why, "log_max_bytes"));
}

static void test_shim__puts_the_launch_layer_in_front(void **state)
{
    struct world *w = *state;
    const char *launch[] = {"env", "LAYER=deep"};
    w->spec.launch.items = launch;
    w->spec.launch.n = 2;
    run(w, "echo $LAYER");
    assert_lines(w, TASK_STDOUT, "deep\n");
}

static void test_shim__binds_a_task_to_the_processors_of_its_slots(void **state)
{
    struct world *w = *state;
    int64_t cpu = 0;
    add_slots(w, 1);
    w->spec.slots.items[0].cpus.items = &cpu;
    w->spec.slots.items[0].cpus.n = 1;
    run(w, "nproc");
    assert_lines(w, TASK_STDOUT, "[rank=0] 1\n");
}

static void test_ranks__each_knows_its_place(void **state)
{
    struct world *w = *state;
    add_slots(w, 3);
    run(w, "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
           "$MASTER_ADDR $DET_SLOT_IDS; [ $MASTER_PORT = $C10D_PORT ] || echo odd");
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    for (int i = 0; i < 3; i++) {
        char line[100];
        snprintf(line, sizeof line, "[rank=%d] %d %d 3 3 0 1 127.0.0.1 [10,11,12]\n", i, i, i);
        assert_true(has_line(w, TASK_STDOUT, line));
    }
    assert_false(has_line(w, TASK_STDOUT, "odd"));
}

static void test_shim__tells_where_the_processes_of_a_task_meet(void **state)
{
    struct world *w = *state;
    add_slots(w, 2);
    w->spec.rank_per_slot = false;
    run(w, "echo \"$DET_RENDEZVOUS_INFO\"; for p in $C10D_PORT $DTRAIN_SSH_PORT "
           "$INTER_TRAIN_PROCESS_COMM_PORT_1 $INTER_TRAIN_PROCESS_COMM_PORT_2; do "
           "[ $p -gt 1024 ] && echo $p; done | sort -u | wc -l");
    assert_lines(w, TASK_STDOUT,
                 "{\"container_addrs\":[\"127.0.0.1\"],\"container_rank\":0,"
                 "\"container_slot_counts\":[2]}\n4\n");
}

static void test_shim__gives_no_ports_to_a_task_without_slots(void **state)
{
    struct world *w = *state;
    run(w, "echo \"$DET_RENDEZVOUS_INFO|$C10D_PORT|\"");
    assert_lines(w, TASK_STDOUT,
                 "{\"container_addrs\":[\"127.0.0.1\"],\"container_rank\":0,"
                 "\"container_slot_counts\":[0]}||\n");
}

static void test_ranks__the_first_failure_stops_all_and_is_named(void **state)
{
    struct world *w = *state;
    add_slots(w, 4);
    // Only when all others wait does rank 2 fail.
    run(w, "touch ready.$RANK; "
           "if [ $RANK = 2 ]; then until [ -e ready.0 -a -e ready.1 -a -e ready.3 ]; do :; done; "
           "exit 5; fi; exec sleep 1000");
    assert_int_equal(w->exit.end, TASK_FAILED);
    assert_int_equal(w->exit.rank, 2);
    assert_int_equal(w->exit.code, 5);
    assert_string_equal(w->exit.why, "rank 2 returned 5");
}

static void test_ranks__some_may_end_well_before_the_others(void **state)
{
    struct world *w = *state;
    add_slots(w, 2);
    run(w, "if [ $RANK = 1 ]; then until [ -e over ]; do :; done; echo last; else touch over; fi");
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    assert_lines(w, TASK_STDOUT, "[rank=1] last\n");
}

static void test_stop__lets_a_task_finish(void **state)
{
    struct world *w = *state;
    start(w, "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    wait_until(has_line(w, TASK_STDOUT, "ready"));
    assert_true(proc_signal(w->shim, SIGTERM));
    finish(w);
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    assert_true(w->exit.asked);
    assert_lines(w, TASK_STDOUT, "ready\nsaved\n");
}

static void test_stop__kills_what_does_not_stop_in_time(void **state)
{
    struct world *w = *state;
    w->spec.grace_us = 1000;
    start(w, "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    wait_until(has_line(w, TASK_STDOUT, "ready"));
    assert_true(proc_signal(w->shim, SIGTERM));
    finish(w);
    assert_int_equal(w->exit.signal, SIGKILL);
    assert_true(w->exit.asked);
    assert_string_equal(w->exit.why, "stopped on request: the task was ended by signal 9 (Killed)");
}

// The grace is a minute: only without it does the test end in time.
static void test_stop__kills_at_once_when_told(void **state)
{
    struct world *w = *state;
    start(w, "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    wait_until(has_line(w, TASK_STDOUT, "ready"));
    int64_t before = clock_mono_us();
    assert_true(proc_signal(w->shim, SIGINT));
    finish(w);
    assert_int_equal(w->exit.signal, SIGKILL);
    assert_true(clock_mono_us() - before < w->spec.grace_us / 2);
}

// The shell is ended by the signal at once, its child wants time to save.
static void test_stop__waits_for_processes_that_outlive_their_rank(void **state)
{
    struct world *w = *state;
    start(w, "sh -c \"trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; "
             "while :; do sleep 0.01; done\"; true");
    wait_until(has_line(w, TASK_STDOUT, "ready"));
    assert_true(proc_signal(w->shim, SIGTERM));
    finish(w);
    assert_true(has_line(w, TASK_STDOUT, "saved\n"));
}

static const char daemon_script[] =
    "setsid sh -c 'setsid sh -c \"echo inner=\\$\\$; exec sleep 1000\" & echo outer=$$; "
    "exec sleep 1000' & until grep -q inner ../log.*; do sleep 0.01; done; echo over";

static void test_end__nothing_that_a_task_started_survives(void **state)
{
    struct world *w = *state;
    run(w, daemon_script);
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    assert_false(process_exists(printed_number(w, "inner=")));
    assert_false(process_exists(printed_number(w, "outer=")));
}

static void test_end__a_killed_shim_takes_its_ranks_along(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    int lock;
    start(w, "setsid sh -c 'echo inner=$$; exec sleep 1000' & echo rank=$$; wait");
    wait_until(has_line(w, TASK_STDOUT, "inner=") && has_line(w, TASK_STDOUT, "rank="));
    assert_true(proc_signal(w->shim, SIGKILL));
    wait_readable(w->shim);
    proc_reap(w->shim);
    wait_until(!process_exists(printed_number(w, "rank=")));
    task_kill_rest(w->dir);
    assert_false(process_exists(printed_number(w, "inner=")));
    assert_int_equal(task_exit_load(w->dir, &w->arena, &w->exit, &err), DET_ENOTFOUND);
    assert_ok(task_lock(w->dir, &lock, &err), &err); // nobody is there any more
    close(lock);
}

static void test_lock__only_one_shim_works_in_a_folder(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    int lock;
    start(w, "echo ready; exec sleep 1000");
    wait_until(has_line(w, TASK_STDOUT, "ready"));
    assert_int_equal(task_lock(w->dir, &lock, &err), DET_ESTATE);
    assert_int_equal(task_shim_run(w->dir, -1, &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "is alive");
    int other = open(w->dir, O_RDONLY | O_DIRECTORY); // the folder, but not the lock
    assert_int_equal(task_shim_run(w->dir, other, &err), DET_ESTATE);
    assert_int_equal(task_shim_run(w->dir, 0, &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "descriptor 0 is not the lock");
    close(other);
    proc_signal(w->shim, SIGINT);
    finish(w);
    assert_ok(task_lock(w->dir, &lock, &err), &err);
    close(lock);
}

static void test_shim__can_be_found_by_number_and_start(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    struct proc_id id;
    int fd;
    start(w, "echo ready; exec sleep 1000");
    wait_until(has_line(w, TASK_STDOUT, "ready"));
    assert_ok(task_shim_load(w->dir, &id, &err), &err);
    assert_ok(proc_open(&id, &fd, &err), &err);
    proc_signal(fd, SIGINT);
    close(fd);
    wait_readable(w->shim);
    assert_int_equal(proc_open(&id, &fd, &err), DET_ENOTFOUND); // a zombie, still
    finish(w);
    id.pid = getpid(); // alive, but another one
    assert_int_equal(proc_open(&id, &fd, &err), DET_ENOTFOUND);
}

// A disk of 512 kB, half of it taken: the log needs more than the rest. The task must neither
// notice nor wait, and its result is there although the disk is still full.
static void test_full_disk__hides_no_result(void **state)
{
    struct world *w = *state;
    if (!mount_small_disk(w->dir, "size=512k")) skip(); // needs root
    w->spec.log_max_bytes = 64 << 20;
    run(w, "echo first; head -c 262144 /dev/zero > ballast; "
           "yes 0123456789012345678901234567890 | head -c 3000000; exit 4");
    assert_int_equal(w->exit.end, TASK_FAILED);
    assert_int_equal(w->exit.code, 4);
    assert_true(has_line(w, TASK_STDOUT, "first\n"));
}

static void test_full_disk__the_log_goes_on_when_space_returns(void **state)
{
    struct world *w = *state;
    if (!mount_small_disk(w->dir, "size=512k")) skip();
    w->spec.log_max_bytes = 64 << 20;
    run(w, "head -c 400000 /dev/zero > ballast; "
           "yes 0123456789012345678901234567890 | head -c 300000; rm ballast; echo last");
    assert_int_equal(w->exit.end, TASK_SUCCEEDED);
    assert_true(has_line(w, TASK_SHIM, "lines were lost: no space\n"));
    assert_true(has_line(w, TASK_STDOUT, "last\n"));
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(int argc, char **argv)
{
    become_shim_if_asked(argc, argv);
    const struct CMUnitTest tests[] = {
        T(shim__records_output_and_success),
        T(shim__gives_the_task_its_environment),
        T(shim__says_how_a_task_failed),
        T(shim__keeps_the_last_words_of_a_task_that_failed),
        T(shim__last_words_need_no_newline),
        T(shim__what_is_long_is_cut),
        T(shim__names_the_signal_that_ended_a_task),
        T(shim__says_why_a_program_does_not_start),
        T(shim__says_that_the_folder_is_missing),
        T(shim__says_what_is_wrong_with_a_specification),
        T(shim__puts_the_launch_layer_in_front),
        T(shim__binds_a_task_to_the_processors_of_its_slots),
        T(shim__tells_where_the_processes_of_a_task_meet),
        T(shim__gives_no_ports_to_a_task_without_slots),
        T(ranks__each_knows_its_place),
        T(ranks__the_first_failure_stops_all_and_is_named),
        T(ranks__some_may_end_well_before_the_others),
        T(stop__lets_a_task_finish),
        T(stop__kills_what_does_not_stop_in_time),
        T(stop__kills_at_once_when_told),
        T(stop__waits_for_processes_that_outlive_their_rank),
        T(end__nothing_that_a_task_started_survives),
        T(end__a_killed_shim_takes_its_ranks_along),
        T(lock__only_one_shim_works_in_a_folder),
        T(shim__can_be_found_by_number_and_start),
        T(full_disk__hides_no_result),
        T(full_disk__the_log_goes_on_when_space_returns),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
