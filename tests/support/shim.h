// tests/support/shim.h: the test program is also the shim of the tasks that it starts.
#pragma once

#include "support/files.h"

#include "sys/clock.h"
#include "task/task.h"
#include <poll.h>

enum { PATIENCE_MS = 60000 }; // far more than anything here takes

static inline const char *self_path(void)
{
    static char path[256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) abort();
    return path;
}

// First line of main(): does not return in a shim.
static inline void become_shim_if_asked(int argc, char **argv)
{
    det_err err = {0};
    if (argc < 3 || strcmp(argv[1], "task-shim") != 0) return;
    bool second = argc > 3 && !strcmp(argv[3], "after");
    int rc = second ? task_shim_finish(argv[2], TASK_LOCK_FD, &err)
                    : task_shim_run(argv[2], TASK_LOCK_FD, &err);
    exit(rc ? 1 : 0);
}

static inline void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, PATIENCE_MS) != 1) fail_msg("nothing happens");
}

// Looks again and again until it is so.
#define wait_until(condition)                                                 \
    do {                                                                      \
        int64_t give_up = clock_mono_us() + PATIENCE_MS * (int64_t)1000;      \
        while (!(condition)) {                                                \
            if (clock_mono_us() > give_up) fail_msg("never: %s", #condition); \
            poll(NULL, 0, 2);                                                 \
        }                                                                     \
    } while (0)

// All lines of a log, each with a newline; those of the shim itself only with a stream to match.
static inline void read_lines(const char *dir, enum task_stream stream, struct buf *out)
{
    struct arena arena = ARENA_INIT;
    struct task_page page = {0};
    det_err err = {0};
    int64_t offset = 0;
    do {
        assert_ok(task_log_read(dir, offset, &arena, &page, &err), &err);
        offset = page.next;
        for (size_t i = 0; i < page.lines.n; i++) {
            if (page.lines.items[i].stream != stream) continue;
            buf_add(out, page.lines.items[i].text.ptr, page.lines.items[i].text.len);
            if (!page.lines.items[i].partial) buf_addc(out, '\n');
        }
    } while (page.lines.n);
    arena_done(&arena);
}

static inline bool process_exists(int64_t pid)
{
    struct proc_id id;
    return proc_id_of((pid_t)pid, &id, NULL) == 0;
}
