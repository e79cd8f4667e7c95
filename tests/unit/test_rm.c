// What the resource manager promises, with real processes.
#include "support/mounts.h"
#include "support/shim.h"

#include "base/rng.h"
#include "rm/rm.h"
#include "sys/fs.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct world {
    struct arena arena;
    const char *root;
    struct rm *rm;
    struct rm_event event; // the last one that was waited for
};

static const char *const *shim_argv(void)
{
    static const char *argv[] = {NULL, "task-shim", NULL};
    argv[0] = self_path();
    return argv;
}

static struct rm *open_root(const char *root, int n_slots)
{
    det_err err = {0};
    struct rm *rm =
        rm_open(&(struct rm_opts){.root = root, .shim = shim_argv(), .n_cpu_slots = n_slots}, &err);
    if (!rm) fail_msg("%s", err.msg);
    return rm;
}

static int setup(void **state)
{
    static int n;
    char name[16];
    struct world *w = calloc(1, sizeof *w);
    snprintf(name, sizeof name, "%d", n++);
    w->root = arena_strdup(&w->arena, temp_path(name));
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    rm_close(w->rm);
    umount2(w->root, MNT_DETACH); // if it is a disk of its own
    arena_done(&w->arena);
    free(w);
    return 0;
}

static int start_slots(struct rm *rm, int64_t token, int n_slots, const char *script, det_err *err)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    const char *env[] = {"DET_TEST=given", NULL};
    return rm_start(
        rm, &(struct rm_task){.token = token, .n_slots = n_slots, .argv = argv, .env = env}, err);
}

static void start(struct rm *rm, int64_t token, const char *script)
{
    det_err err = {0};
    assert_ok(start_slots(rm, token, 1, script, &err), &err);
}

// The next event that is not about the log; nothing but the descriptor is waited for.
static void wait_event(struct world *w, enum rm_event_kind kind, int64_t token)
{
    do {
        while (!rm_next(w->rm, &w->event))
            wait_readable(rm_fd(w->rm));
    } while (w->event.kind == RM_LOG);
    assert_int_equal(w->event.kind, kind);
    assert_int_equal(w->event.token, token);
}

static void assert_quiet(struct world *w)
{
    while (rm_next(w->rm, &w->event))
        assert_int_equal(w->event.kind, RM_LOG);
}

static bool has_line(struct world *w, int64_t token, const char *text)
{
    struct buf lines = BUF_INIT(1 << 20);
    read_lines(rm_find(w->rm, token)->dir, TASK_STDOUT, &lines);
    bool found = lines.ptr && strstr(lines.ptr, text);
    buf_done(&lines);
    return found;
}

static void forget(struct world *w, int64_t token)
{
    det_err err = {0};
    assert_ok(rm_forget(w->rm, token, NULL, &err), &err);
}

static void test_start__tells_start_log_and_exit(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    struct task_page page;
    w->rm = open_root(w->root, 2);
    start(w->rm, 7, "echo $DET_TEST $DET_SLOT_IDS; exit 3");
    wait_event(w, RM_STARTED, 7);
    assert_true(rm_find(w->rm, 7)->running);
    wait_event(w, RM_EXITED, 7);
    assert_int_equal(w->event.exit.end, TASK_FAILED);
    assert_int_equal(w->event.exit.code, 3);
    assert_string_equal(w->event.exit.why, "the task returned 3");
    assert_false(rm_find(w->rm, 7)->running);
    assert_ok(task_log_read(rm_find(w->rm, 7)->dir, 0, &w->arena, &page, &err), &err);
    const struct task_line *line = page.lines.items;
    while (line->stream == TASK_USAGE)
        line++;
    assert_true(str_eqz(line->text, "given [0]"));
    forget(w, 7);
    assert_null(rm_find(w->rm, 7));
    assert_int_equal(access(arena_printf(&w->arena, "%s/7", w->root), F_OK), -1);
    assert_quiet(w);
}

static void test_start__tells_of_output_while_it_comes(void **state)
{
    struct world *w = *state;
    w->rm = open_root(w->root, 1);
    start(w->rm, 1, "echo first; until [ -e go ]; do sleep 0.01; done; echo second");
    do
        while (!rm_next(w->rm, &w->event))
            wait_readable(rm_fd(w->rm));
    while (w->event.kind != RM_LOG || !has_line(w, 1, "first"));
    write_bytes(arena_printf(&w->arena, "%s/task/go", rm_find(w->rm, 1)->dir), "", 0);
    wait_event(w, RM_EXITED, 1);
    assert_true(has_line(w, 1, "second"));
}

static void test_start__refuses_a_token_that_was_used(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    w->rm = open_root(w->root, 3);
    start(w->rm, 5, "echo x >> runs; echo ready; exec sleep 1000");
    wait_event(w, RM_STARTED, 5);
    wait_until(has_line(w, 5, "ready"));
    assert_int_equal(start_slots(w->rm, 5, 1, "echo x >> runs", &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "allocation 5 was started before");
    rm_kill(w->rm, 5, RM_KILL, &err);
    wait_event(w, RM_EXITED, 5);
    assert_int_equal(start_slots(w->rm, 5, 1, "echo x >> runs", &err), DET_ESTATE);
    rm_close(w->rm);
    w->rm = open_root(w->root, 3);
    assert_int_equal(start_slots(w->rm, 5, 1, "echo x >> runs", &err), DET_ESTATE);
    struct buf runs = BUF_INIT(100);
    assert_ok(fs_read(arena_printf(&w->arena, "%s/5/task/runs", w->root), &runs, &err), &err);
    assert_string_equal(runs.ptr, "x\n");
    buf_done(&runs);
}

static void test_start__tells_that_there_is_no_such_program(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    const char *argv[] = {"/no/such/program", NULL};
    w->rm = open_root(w->root, 1);
    assert_ok(rm_start(w->rm, &(struct rm_task){.token = 1, .argv = argv}, &err), &err);
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
    assert_int_equal(w->event.exit.end, TASK_NOT_STARTED);
    assert_non_null(strstr(w->event.exit.why, "cannot start '/no/such/program'"));
}

static void test_start__without_a_shim_nothing_remains(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    const char *no_shim[] = {"/no/such/shim", NULL};
    w->rm = rm_open(&(struct rm_opts){.root = w->root, .shim = no_shim, .n_cpu_slots = 1}, &err);
    assert_int_equal(start_slots(w->rm, 1, 1, "true", &err), DET_ENOTFOUND);
    assert_null(rm_find(w->rm, 1));
    assert_int_equal(access(arena_printf(&w->arena, "%s/1", w->root), F_OK), -1);
    size_t n;
    assert_int_equal(rm_slots(w->rm, &n)[0].token, 0);
}

static void test_slots__belong_to_one_allocation(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    size_t n;
    w->rm = open_root(w->root, 4);
    assert_ok(start_slots(w->rm, 1, 3, "exec sleep 1000", &err), &err);
    const struct rm_slot *slots = rm_slots(w->rm, &n);
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(slots[i].token, i < 3 ? 1 : 0);
    assert_int_equal(start_slots(w->rm, 2, 2, "true", &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "2 slots are wanted, but only 1 are free");
    wait_event(w, RM_STARTED, 1);
    rm_kill(w->rm, 1, RM_KILL, &err);
    wait_event(w, RM_EXITED, 1);
    assert_ok(start_slots(w->rm, 2, 2, "true", &err), &err);
}

static void test_slots__belong_to_pools(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    struct rm_task task = {
        .token = 1, .n_slots = 1, .pool = 1, .argv = (const char *const[]){"true", NULL}};
    w->rm = open_root(w->root, 3);
    rm_put_slot(w->rm, 2, 1);
    assert_int_equal(rm_capacity(w->rm, 0), 2);
    assert_int_equal(rm_capacity(w->rm, 1), 1);
    assert_ok(rm_start(w->rm, &task, &err), &err);
    size_t n;
    assert_int_equal(rm_slots(w->rm, &n)[2].token, 1);
    task.token = 2;
    assert_int_equal(rm_start(w->rm, &task, &err), DET_ESTATE); // although others are free
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
}

static void test_slots__disabled_ones_take_nothing_new(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    w->rm = open_root(w->root, 2);
    assert_int_equal(rm_capacity(w->rm, 0), 2);
    start(w->rm, 1, "exec sleep 1000"); // on slot 0
    rm_enable_slot(w->rm, 0, false);
    assert_int_equal(rm_capacity(w->rm, 0), 2); // one used, one free
    rm_enable_slot(w->rm, 1, false);
    assert_int_equal(rm_capacity(w->rm, 0), 1);
    assert_int_equal(start_slots(w->rm, 2, 1, "true", &err), DET_ESTATE);
    rm_enable_slot(w->rm, 1, true);
    assert_ok(start_slots(w->rm, 2, 1, "true", &err), &err);
    rm_kill(w->rm, 1, RM_KILL, &err);
}

static void test_slots__divide_the_processors(void **state)
{
    struct world *w = *state;
    size_t n;
    w->rm = open_root(w->root, 1);
    start(w->rm, 1, "nproc");
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
    assert_true(has_line(w, 1, arena_printf(&w->arena, "%ld\n", sysconf(_SC_NPROCESSORS_ONLN))));
    rm_close(w->rm);
    w->rm = open_root(w->root, 3000);
    rm_slots(w->rm, &n);
    assert_int_equal(n, 3000);
    start(w->rm, 2, "nproc");
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
    wait_event(w, RM_STARTED, 2);
    wait_event(w, RM_EXITED, 2);
    assert_true(has_line(w, 2, "1\n"));
}

static void test_slots__are_the_gpus_if_there_are_any(void **state)
{
    struct world *w = *state;
    static const char fake[] = "#!/bin/sh\n"
                               "echo 'GPU-aaaa, NVIDIA A100-SXM4-40GB'\n"
                               "echo 'GPU-bbbb, NVIDIA A100-SXM4-40GB'\n";
    const char *bin = arena_strdup(&w->arena, temp_path("bin"));
    char *old_path = strdup(getenv("PATH"));
    size_t n;
    det_err err = {0};
    mkdir(bin, 0700);
    const char *program = arena_printf(&w->arena, "%s/nvidia-smi", bin);
    write_bytes(program, fake, sizeof fake - 1);
    chmod(program, 0700);
    setenv("PATH", arena_printf(&w->arena, "%s:%s", bin, old_path), 1);
    w->rm = open_root(w->root, 0);
    setenv("PATH", old_path, 1);
    free(old_path);
    const struct rm_slot *slots = rm_slots(w->rm, &n);
    assert_int_equal(n, 2);
    assert_string_equal(slots[1].uuid, "GPU-bbbb");
    assert_string_equal(slots[1].name, "NVIDIA A100-SXM4-40GB");
    assert_ok(start_slots(w->rm, 1, 2, "echo =$CUDA_VISIBLE_DEVICES=", &err), &err);
    assert_ok(start_slots(w->rm, 2, 0, "echo =$CUDA_VISIBLE_DEVICES=", &err), &err);
    wait_until((rm_next(w->rm, &w->event), !rm_find(w->rm, 1)->running) &&
               !rm_find(w->rm, 2)->running);
    assert_true(has_line(w, 1, "=GPU-aaaa,GPU-bbbb="));
    assert_true(has_line(w, 2, "=="));
}

static void test_kill__stops_kills_or_destroys(void **state)
{
    struct world *w = *state;
    static const enum rm_how hows[] = {RM_STOP, RM_KILL, RM_DESTROY};
    static const enum task_end ends[] = {TASK_SUCCEEDED, TASK_FAILED, TASK_LOST};
    det_err err = {0};
    w->rm = open_root(w->root, 1);
    for (int i = 0; i < 3; i++) {
        start(w->rm, 1 + i, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        wait_event(w, RM_STARTED, 1 + i);
        wait_until(has_line(w, 1 + i, "ready"));
        assert_int_equal(rm_forget(w->rm, 1 + i, NULL, &err), DET_ESTATE);
        assert_ok(rm_kill(w->rm, 1 + i, hows[i], &err), &err);
        wait_event(w, RM_EXITED, 1 + i);
        assert_true(w->event.exit.asked);
        assert_int_equal(w->event.exit.signal, hows[i] == RM_KILL ? SIGKILL : 0);
        assert_int_equal(w->event.exit.end, ends[i]);
        assert_ok(rm_kill(w->rm, 1 + i, hows[i], &err), &err); // nothing to do
    }
    assert_int_equal(rm_kill(w->rm, 99, RM_STOP, &err), DET_ENOTFOUND);
}

// A shim that hangs does not read signals; to be killed needs none.
static void test_kill__destroys_a_shim_that_hangs(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    struct proc_id id;
    w->rm = open_root(w->root, 1);
    start(w->rm, 1, "echo ready; exec sleep 1000");
    wait_event(w, RM_STARTED, 1);
    assert_ok(task_shim_load(rm_find(w->rm, 1)->dir, &id, &err), &err);
    assert_int_equal(kill((pid_t)id.pid, SIGSTOP), 0);
    assert_ok(rm_kill(w->rm, 1, RM_DESTROY, &err), &err);
    wait_event(w, RM_EXITED, 1);
    assert_int_equal(w->event.exit.end, TASK_LOST);
}

static void test_shim__killed_is_told_and_leaves_nothing(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    struct proc_id id;
    size_t n;
    w->rm = open_root(w->root, 1);
    start(w->rm, 1,
          "setsid sh -c 'echo $$ > inner; mv inner stray; exec sleep 1000' & "
          "until [ -e stray ]; do sleep 0.01; done; echo ready; exec sleep 1000");
    wait_event(w, RM_STARTED, 1);
    wait_until(has_line(w, 1, "ready"));
    assert_ok(task_shim_load(rm_find(w->rm, 1)->dir, &id, &err), &err);
    assert_int_equal(kill((pid_t)id.pid, SIGKILL), 0);
    wait_event(w, RM_EXITED, 1);
    assert_int_equal(w->event.exit.end, TASK_LOST);
    assert_false(w->event.exit.asked);
    assert_string_equal(w->event.exit.why, "the shim was killed");
    assert_int_equal(rm_slots(w->rm, &n)[0].token, 0);
    struct buf pid = BUF_INIT(32);
    assert_ok(fs_read(arena_printf(&w->arena, "%s/1/task/stray", w->root), &pid, &err), &err);
    assert_false(process_exists(strtol(pid.ptr, NULL, 10)));
    buf_done(&pid);
    rm_close(w->rm);
    w->rm = open_root(w->root, 1); // the next owner is told the same
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
    assert_int_equal(w->event.exit.end, TASK_LOST);
}

// An owner in a process of its own: starts a task on each of its slots, says when all have started,
// and is killed. -1: it is killed before it says anything, after so many microseconds.
static void run_owner_and_kill_it(const char *root, int64_t first, int n, const char *script,
                                  int64_t after_us)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        det_err err;
        struct rm_event e;
        struct rm *rm =
            rm_open(&(struct rm_opts){.root = root, .shim = shim_argv(), .n_cpu_slots = n}, &err);
        for (int i = 0; rm && i < n; i++)
            start_slots(rm, first + i, 1, script, &err);
        for (int n_started = 0; rm && n_started < n;)
            if (rm_next(rm, &e)) n_started += e.kind == RM_STARTED;
        while (write(ready[1], "", 1) != 1 || pause())
            ;
    }
    close(ready[1]);
    struct pollfd p = {.fd = ready[0], .events = POLLIN};
    if (after_us < 0)
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    else
        usleep((useconds_t)after_us);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
}

static void test_owner__killed_leaves_tasks_to_the_next(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    size_t n;
    run_owner_and_kill_it(
        w->root, 11, 2, "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
        -1);
    w->rm = open_root(w->root, 2);
    wait_event(w, RM_STARTED, 11);
    wait_event(w, RM_STARTED, 12);
    assert_int_equal(rm_count(w->rm), 2);
    assert_int_equal(rm_at(w->rm, 1)->token, 12);
    assert_int_equal(rm_slots(w->rm, &n)[1].token, 12);
    assert_int_equal(start_slots(w->rm, 13, 1, "true", &err), DET_ESTATE); // the slots are taken
    wait_until(has_line(w, 12, "ready"));
    rm_kill(w->rm, 12, RM_STOP, &err);
    wait_event(w, RM_EXITED, 12);
    assert_int_equal(w->event.exit.end, TASK_SUCCEEDED);
    assert_true(w->event.exit.asked);
    assert_true(has_line(w, 12, "saved"));
    assert_true(rm_find(w->rm, 11)->running);
    rm_kill(w->rm, 11, RM_KILL, &err);
    wait_event(w, RM_EXITED, 11);
    assert_quiet(w);
}

static void test_owner__is_told_what_ended_while_there_was_none(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    int lock;
    run_owner_and_kill_it(w->root, 1, 1, "until [ -e ../../go ]; do sleep 0.01; done; exit 9", -1);
    write_bytes(arena_printf(&w->arena, "%s/go", w->root), "", 0);
    const char *dir = arena_printf(&w->arena, "%s/1", w->root);
    wait_until(task_lock(dir, &lock, &err) == 0);
    close(lock);
    for (int i = 0; i < 2; i++) { // until it is forgotten
        w->rm = open_root(w->root, 1);
        wait_event(w, RM_STARTED, 1);
        wait_event(w, RM_EXITED, 1);
        assert_int_equal(w->event.exit.code, 9);
        assert_quiet(w);
        if (i == 1) forget(w, 1);
        rm_close(w->rm);
    }
    w->rm = open_root(w->root, 1);
    assert_int_equal(rm_count(w->rm), 0);
    assert_quiet(w);
}

static void test_owner__is_told_of_shims_that_died_in_the_meantime(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    struct proc_id id;
    int fd;
    run_owner_and_kill_it(w->root, 1, 1, "exec sleep 1000", -1);
    assert_ok(task_shim_load(arena_printf(&w->arena, "%s/1", w->root), &id, &err), &err);
    assert_ok(proc_open(&id, &fd, &err), &err);
    proc_signal(fd, SIGKILL);
    wait_readable(fd);
    close(fd);
    w->rm = open_root(w->root, 1);
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
    assert_int_equal(w->event.exit.end, TASK_LOST);
}

static void test_owner__is_told_of_what_never_started(void **state)
{
    struct world *w = *state;
    mkdir(w->root, 0700);
    mkdir(arena_printf(&w->arena, "%s/4", w->root), 0700);
    mkdir(arena_printf(&w->arena, "%s/unrelated", w->root), 0700);
    w->rm = open_root(w->root, 1);
    assert_int_equal(rm_count(w->rm), 1);
    wait_event(w, RM_EXITED, 4);
    assert_int_equal(w->event.exit.end, TASK_LOST);
    assert_string_equal(w->event.exit.why, "the shim did not start");
}

static void test_owner__there_is_only_one(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    w->rm = open_root(w->root, 1);
    assert_null(rm_open(&(struct rm_opts){.root = w->root, .shim = shim_argv()}, &err));
    assert_failed_with(&err, DET_ESTATE, "belongs to another process");
}

// Killed at any moment of starting tasks: each of them runs at most once, and its end is told once.
static void test_owner__killed_at_any_moment_nothing_runs_twice(void **state)
{
    struct world *w = *state;
    enum { ROUNDS = 25, N = 4 };
    det_err err = {0};
    int n_told = 0;
    mkdir(w->root, 0700);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t first = 1 + round * N, after_us = (int64_t)rng_below(1, 2, (uint64_t)round, 30000);
        run_owner_and_kill_it(w->root, first, N, "echo x >> ../../runs.$(basename ${PWD%/*})",
                              after_us);
        struct rm *rm = w->rm = open_root(w->root, N);
        for (int i = 0; i < N; i++) // who lost its owner too early is started now
            start_slots(rm, first + i, 0, "echo x >> ../../runs.$(basename ${PWD%/*})", &err);
        int n_exits[N] = {0};
        for (int n_exited = 0; n_exited < N;) {
            while (!rm_next(rm, &w->event))
                wait_readable(rm_fd(rm));
            if (w->event.kind != RM_EXITED) continue;
            n_exits[w->event.token - first]++;
            n_exited++;
            n_told += w->event.exit.end == TASK_SUCCEEDED;
        }
        for (int i = 0; i < N; i++) {
            struct buf runs = BUF_INIT(100);
            assert_int_equal(n_exits[i], 1);
            const char *path =
                arena_printf(&w->arena, "%s/runs.%lld", w->root, (long long)first + i);
            if (!fs_read(path, &runs, &err)) assert_string_equal(runs.ptr, "x\n");
            buf_done(&runs);
            forget(w, first + i);
        }
        rm_close(rm);
        w->rm = NULL;
    }
    assert_true(n_told > ROUNDS * N / 2); // lost are only those killed between two steps
}

static void test_zombies__there_are_none(void **state)
{
    struct world *w = *state;
    enum { N = 20, MANY = 100 };
    pid_t pids[MANY];
    size_t n_before = proc_children(getpid(), pids, MANY); // of managers that were closed
    w->rm = open_root(w->root, N);
    for (int i = 1; i <= N; i++)
        start(w->rm, i, "sleep 1000 & exit 0");
    for (int n_exited = 0; n_exited < N;) {
        while (!rm_next(w->rm, &w->event))
            wait_readable(rm_fd(w->rm));
        n_exited += w->event.kind == RM_EXITED;
    }
    assert_int_equal(proc_children(getpid(), pids, MANY), n_before);
}

static void test_full_disk__is_reported_and_leaves_nothing(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    mkdir(w->root, 0700);
    if (!mount_small_disk(w->root, "size=256k")) skip(); // needs root
    const char *ballast = arena_printf(&w->arena, "%s/ballast", w->root);
    char *zeros = calloc(1, 256 << 10);
    write_bytes(ballast, zeros, 256 << 10);
    free(zeros);
    w->rm = open_root(w->root, 1);
    assert_int_equal(start_slots(w->rm, 1, 1, "true", &err), DET_ENOSPC);
    assert_int_equal(rm_count(w->rm), 0);
    assert_int_equal(unlink(ballast), 0);
    start(w->rm, 1, "echo works again");
    wait_event(w, RM_STARTED, 1);
    wait_event(w, RM_EXITED, 1);
    assert_int_equal(w->event.exit.end, TASK_SUCCEEDED);
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(int argc, char **argv)
{
    become_shim_if_asked(argc, argv);
    prctl(PR_SET_CHILD_SUBREAPER, 1); // shims whose owner was killed are ours to wait for
    const struct CMUnitTest tests[] = {
        T(start__tells_start_log_and_exit),
        T(start__tells_of_output_while_it_comes),
        T(start__refuses_a_token_that_was_used),
        T(start__tells_that_there_is_no_such_program),
        T(start__without_a_shim_nothing_remains),
        T(slots__belong_to_one_allocation),
        T(slots__belong_to_pools),
        T(slots__disabled_ones_take_nothing_new),
        T(slots__divide_the_processors),
        T(slots__are_the_gpus_if_there_are_any),
        T(kill__stops_kills_or_destroys),
        T(kill__destroys_a_shim_that_hangs),
        T(shim__killed_is_told_and_leaves_nothing),
        T(owner__killed_leaves_tasks_to_the_next),
        T(owner__is_told_what_ended_while_there_was_none),
        T(owner__is_told_of_shims_that_died_in_the_meantime),
        T(owner__is_told_of_what_never_started),
        T(owner__there_is_only_one),
        T(owner__killed_at_any_moment_nothing_runs_twice),
        T(zombies__there_are_none),
        T(full_disk__is_reported_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
