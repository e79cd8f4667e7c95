// tests/support/task.h: a task with its shim and its directory, for the tests of task/.
#pragma once

#include "support/mounts.h"
#include "support/shim.h"

#include <sys/stat.h>
#include <sys/wait.h>

struct world {
    struct arena arena;
    const char *dir;
    struct task_spec spec;
    const char *argv[8];
    int shim; // pidfd
    struct task_exit exit;
};

static inline int setup(void **state)
{
    static int n;
    char name[16];
    struct world *w = calloc(1, sizeof *w);
    snprintf(name, sizeof name, "%d", n++);
    w->dir = arena_strdup(&w->arena, temp_path(name));
    if (mkdir(w->dir, 0700)) return -1;
    w->spec = (struct task_spec){.token = 7, .grace_us = 60000000, .log_max_bytes = 1 << 20};
    w->shim = -1;
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    if (w->shim >= 0) close(w->shim);
    umount2(w->dir, MNT_DETACH); // if it is a disk of its own
    arena_done(&w->arena);
    free(w);
    return 0;
}

static inline void set_argv(struct world *w, const char *program, const char *option,
                            const char *script)
{
    w->argv[0] = program;
    w->argv[1] = option;
    w->argv[2] = script;
    w->spec.argv.items = w->argv;
    w->spec.argv.n = script ? 3 : 1;
}

static inline void start_shim(struct world *w)
{
    det_err err = {0};
    int lock;
    assert_ok(task_spec_save(w->dir, &w->spec, &err), &err);
    assert_ok(task_lock(w->dir, &lock, &err), &err);
    const char *argv[] = {self_path(), "task-shim", w->dir, NULL};
    assert_ok(proc_spawn(argv, lock, &w->shim, &err), &err);
    close(lock);
}

static inline void start(struct world *w, const char *script)
{
    set_argv(w, "sh", "-c", script);
    start_shim(w);
}

static inline void finish(struct world *w)
{
    det_err err = {0};
    siginfo_t info = {0};
    wait_readable(w->shim);
    assert_int_equal(waitid(P_PIDFD, (id_t)w->shim, &info, WEXITED), 0);
    assert_int_equal(info.si_code, CLD_EXITED);
    assert_int_equal(info.si_status, 0); // a sanitizer in the shim would have had its say
    assert_ok(task_exit_load(w->dir, &w->arena, &w->exit, &err), &err);
    assert_true(w->exit.started_us > 0 && w->exit.ended_us >= w->exit.started_us);
}

static inline void run(struct world *w, const char *script)
{
    start(w, script);
    finish(w);
}

static inline bool has_line(struct world *w, enum task_stream stream, const char *text)
{
    struct buf lines = BUF_INIT(8 << 20);
    read_lines(w->dir, stream, &lines);
    bool found = lines.ptr && strstr(lines.ptr, text);
    buf_done(&lines);
    return found;
}

static inline void assert_lines(struct world *w, enum task_stream stream, const char *text)
{
    struct buf lines = BUF_INIT(8 << 20);
    read_lines(w->dir, stream, &lines);
    assert_string_equal(lines.ptr ? lines.ptr : "", text);
    buf_done(&lines);
}
