// Unit cgroup.c: the cgroups of tasks: makes, joins and removes them. Called by box.c and by
// whoever cleans up after a shim that was killed.
#include "sandbox/box.h"

#include "base/assert.h"
#include "base/number.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static int open_in(const char *group, const char *name, int flags)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return open(path, flags | O_CLOEXEC);
}

// 0 or an errno.
static int put(const char *group, const char *name, const char *text)
{
    int fd = open_in(group, name, O_WRONLY);
    if (fd < 0) return errno;
    int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
    close(fd);
    return error;
}

// The name of the file differs between the versions.
static int limit(const char *group, const char *const names[2], int64_t value, det_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    int error = mkdir(group, 0755) < 0 && errno != EEXIST ? errno : put(group, names[0], text);
    if (error == ENOENT) error = put(group, names[1], text);
    errno = error;
    return error ? fs_fail(err, "limit", group) : det_ok(err);
}

int cgroup_make(const struct sandbox_limits *l, det_err *err)
{
    static const char *const memory[] = {"memory.max", "memory.limit_in_bytes"};
    static const char *const processes[] = {"pids.max", "pids.max"};
    int rc = 0;
    if (l->memory_cgroup && l->memory_bytes) {
        rc = limit(l->memory_cgroup, memory, l->memory_bytes, err);
        put(l->memory_cgroup, "memory.oom.group",
            "1"); // version 2: all of the task ends, or nothing
    }
    if (!rc && l->process_cgroup && l->n_processes)
        rc = limit(l->process_cgroup, processes, l->n_processes, err);
    return rc;
}

int cgroup_join(const struct sandbox_limits *l)
{
    int error = l->memory_cgroup ? put(l->memory_cgroup, "cgroup.procs", "0") : 0;
    bool is_other = l->process_cgroup &&
                    (!l->memory_cgroup || !str_eqz(str_from(l->memory_cgroup), l->process_cgroup));
    if (!error && is_other) error = put(l->process_cgroup, "cgroup.procs", "0");
    return error;
}

// --- the end

static bool is_cgroup(const char *path)
{
    struct statfs fs;
    return !statfs(path, &fs) &&
           (fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC);
}

static size_t members(const char *group, int64_t *out, size_t max)
{
    char path[PATH_MAX];
    struct buf text = BUF_INIT(1 << 20);
    size_t n = 0;
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    fs_read(path, &text, NULL);
    for (struct str rest = buf_str(&text); rest.len && n < max;)
        n += number_to_int(str_cut(&rest, '\n'), 10, &out[n]);
    buf_done(&text);
    return n;
}

// Without cgroup.kill. A number that is still a member after its descriptor was opened is meant.
static void kill_members(const char *group)
{
    enum { AT_ONCE = 256 };
    int64_t before[AT_ONCE], after[AT_ONCE];
    int fds[AT_ONCE];
    size_t n = members(group, before, AT_ONCE);
    for (size_t i = 0; i < n; i++)
        fds[i] = pidfd_open((pid_t)before[i], 0);
    size_t n_after = members(group, after, AT_ONCE);
    for (size_t i = 0; i < n; i++) {
        if (fds[i] < 0) continue;
        for (size_t k = 0; k < n_after; k++)
            if (after[k] == before[i]) proc_signal(fds[i], SIGKILL);
        close(fds[i]);
    }
}

static void end_group(const char *group)
{
    enum { MAX_US = 10000000 }; // what cannot be killed (stuck in a driver) must not hold us
    int64_t give_up_us = clock_mono_us() + MAX_US;
    if (!group || !is_cgroup(group)) return;
    while (rmdir(group) < 0 && errno == EBUSY && clock_mono_us() < give_up_us) {
        if (put(group, "cgroup.kill", "1")) kill_members(group);
        poll(NULL, 0, 1);
    }
}

void limits_kill(const struct sandbox_limits *l)
{
    end_group(l->memory_cgroup);
    end_group(l->process_cgroup);
}

bool limits_memory_exceeded(const struct sandbox_limits *l)
{
    static const char *const names[] = {"memory.events", "memory.oom_control"};
    char path[PATH_MAX];
    struct buf text = BUF_INIT(4096);
    int64_t n = 0;
    for (size_t i = 0; l->memory_cgroup && i < STATIC_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", l->memory_cgroup, names[i]);
        if (fs_read(path, &text, NULL)) buf_clear(&text);
        for (struct str rest = buf_str(&text); rest.len && n == 0;) {
            struct str line = str_cut(&rest, '\n');
            if (str_eqz(str_cut(&line, ' '), "oom_kill")) number_to_int(line, 10, &n);
        }
    }
    buf_done(&text);
    return n > 0;
}
