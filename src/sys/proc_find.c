// Unit proc_find.c: finds processes by what /proc says of them, in order to kill them.
#include "sys/proc.h"

#include "base/number.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <unistd.h>

enum { MAX_ENVIRON_BYTES = 16 << 20 };

size_t proc_children(pid_t *out, size_t max)
{
    char path[64];
    size_t n = 0;
    int64_t pid;
    struct buf text = BUF_INIT(1 << 20);
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    fs_read(path, &text, NULL);
    for (struct str rest = buf_str(&text); rest.len && n < max;)
        if (number_to_int(str_cut(&rest, ' '), 10, &pid)) out[n++] = (pid_t)pid;
    buf_done(&text);
    return n;
}

// The content of /proc/<pid>/<name>; empty if it cannot be read.
static struct str read_of(int64_t pid, const char *name, struct buf *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
    if (fs_read(path, text, NULL)) buf_clear(text);
    return buf_str(text);
}

static bool has_program(int64_t pid)
{
    char path[64], program[8];
    snprintf(path, sizeof path, "/proc/%lld/exe", (long long)pid);
    return readlink(path, program, sizeof program) > 0;
}

enum mark { MARK_NO, MARK_YES, MARK_UNKNOWN };

static enum mark look_in_environment(int64_t pid, const char *entry, struct buf *text)
{
    struct str rest = read_of(pid, "environ", text);
    if (!rest.len) return MARK_UNKNOWN;
    while (rest.len)
        if (str_eqz(str_cut(&rest, '\0'), entry)) return MARK_YES;
    return MARK_NO;
}

// Neither arguments nor environment, and yet a program: the process is about to become another one,
// and the kernel has not put them in place yet. It may just have: once there are arguments, what is
// empty then is empty.
static enum mark look_for_mark(int64_t pid, const char *entry, struct buf *text)
{
    enum mark mark = look_in_environment(pid, entry, text);
    if (mark != MARK_UNKNOWN) return mark;
    if (!has_program(pid)) return MARK_NO;
    if (!read_of(pid, "cmdline", text).len) return MARK_UNKNOWN;
    mark = look_in_environment(pid, entry, text);
    return mark == MARK_UNKNOWN ? MARK_NO : mark;
}

// The descriptor is opened before the look at the environment, so it is that process which dies.
static enum mark kill_if_marked(int64_t pid, const char *entry, struct buf *text)
{
    enum { WAIT_MS = 1000 };
    int fd = pidfd_open((pid_t)pid, 0);
    if (fd < 0) return MARK_NO;
    enum mark mark = look_for_mark(pid, entry, text);
    if (mark == MARK_YES) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        proc_signal(fd, SIGKILL);
        poll(&p, 1, WAIT_MS);
    }
    close(fd);
    return mark;
}

// True if there was none, for sure.
static bool kill_all_marked(const char *entry, struct buf *text)
{
    bool none = true;
    int64_t pid;
    DIR *dir = opendir("/proc");
    if (!dir) return true;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!number_to_int(str_from(e->d_name), 10, &pid) || pid == getpid()) continue;
        none &= kill_if_marked(pid, entry, text) == MARK_NO;
    }
    closedir(dir);
    return none;
}

// A process that forks while we look may be missed with its child, but not for ever.
void proc_kill_marked(const char *entry)
{
    enum { MAX_US = 10000000 }; // what cannot be killed (stuck in a driver) must not hold us
    int64_t give_up_us = clock_mono_us() + MAX_US;
    struct buf text = BUF_INIT(MAX_ENVIRON_BYTES);
    while (!kill_all_marked(entry, &text) && clock_mono_us() < give_up_us)
        poll(NULL, 0, 1);
    buf_done(&text);
}
