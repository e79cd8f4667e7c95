// Unit proc.c: the processes of sys/proc.h, except for the search in /proc (proc_find.c).
#include "sys/proc.h"

#include "base/number.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

// Fields of /proc/<pid>/stat, counted from the one behind the program's name, which may contain
// anything.
enum { STAT_STATE = 0, STAT_START = 19 };

static struct str stat_field(struct str stat, int field)
{
    const char *behind_name = memrchr(stat.ptr, ')', stat.len);
    if (!behind_name || (size_t)(behind_name - stat.ptr) + 2 >= stat.len) return (struct str){0};
    struct str rest = {behind_name + 2, stat.len - (size_t)(behind_name + 2 - stat.ptr)};
    while (field-- > 0)
        str_cut(&rest, ' ');
    return str_cut(&rest, ' ');
}

static int read_boot(char out[PROC_BOOT_BYTES], det_err *err)
{
    struct buf text = BUF_INIT(PROC_BOOT_BYTES);
    int rc = fs_read("/proc/sys/kernel/random/boot_id", &text, err);
    if (!rc) snprintf(out, PROC_BOOT_BYTES, "%.*s", (int)strcspn(text.ptr, "\n"), text.ptr);
    buf_done(&text);
    return rc;
}

// A process that has ended, but was not waited for, counts as none.
static int read_start(pid_t pid, int64_t *out, det_err *err)
{
    char path[32];
    struct buf text = BUF_INIT(4096);
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int rc = fs_read(path, &text, NULL);
    struct str state = rc ? (struct str){0} : stat_field(buf_str(&text), STAT_STATE);
    bool ended = !state.len || strchr("ZX", state.ptr[0]);
    if (ended || !number_to_int(stat_field(buf_str(&text), STAT_START), 10, out))
        rc = det_fail(err, DET_ENOTFOUND, "there is no process %ld", (long)pid);
    buf_done(&text);
    return rc;
}

int proc_id_of(pid_t pid, struct proc_id *out, det_err *err)
{
    struct proc_id id = {.pid = pid};
    int rc = read_boot(id.boot, err);
    if (!rc) rc = read_start(pid, &id.start, err);
    if (!rc) *out = id;
    return rc;
}

// Once the descriptor is open, the number cannot pass to another process unnoticed: if the start is
// the right one afterwards, it was so when the descriptor was opened.
int proc_open(const struct proc_id *id, int *out, det_err *err)
{
    struct proc_id now;
    int fd = id->pid > 0 ? pidfd_open((pid_t)id->pid, 0) : -1;
    bool same = fd >= 0 && !proc_id_of((pid_t)id->pid, &now, NULL) && now.start == id->start &&
                str_eqz(str_from(now.boot), id->boot);
    if (same) {
        *out = fd;
        return det_ok(err);
    }
    if (fd >= 0) close(fd);
    return det_fail(err, DET_ENOTFOUND, "process %lld has ended", (long long)id->pid);
}

bool proc_signal(int pidfd, int signal)
{
    return pidfd_send_signal(pidfd, signal, NULL, 0) == 0;
}

bool proc_reap(int pidfd)
{
    siginfo_t info = {0};
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 && errno == EINTR)
        ;
    return !info.si_pid || (info.si_code == CLD_EXITED && info.si_status == 0);
}

pid_t proc_pid(int pidfd)
{
    char path[64];
    int64_t pid = 0;
    struct buf text = BUF_INIT(4096);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (fs_read(path, &text, NULL)) buf_clear(&text);
    for (struct str rest = buf_str(&text); rest.len;) {
        struct str line = str_cut(&rest, '\n');
        if (str_starts(line, STR("Pid:\t")))
            number_to_int((struct str){line.ptr + 5, line.len - 5}, 10, &pid);
    }
    buf_done(&text);
    return pid > 0 ? (pid_t)pid : 0;
}

static int spawn_fail(det_err *err, int error, const char *program)
{
    errno = error;
    return fs_fail(err, "start", program);
}

int proc_spawn(const char *const *argv, int keep_fd, int *out, det_err *err)
{
    enum { KEPT = 3 };
    pid_t pid;
    sigset_t all;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t files;
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    posix_spawnattr_setsigmask(&attr, &all);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawn_file_actions_init(&files);
    if (keep_fd >= 0) posix_spawn_file_actions_adddup2(&files, keep_fd, KEPT);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
    posix_spawn_file_actions_adddup2(&files, 0, 2);
    posix_spawn_file_actions_addclosefrom_np(&files, keep_fd >= 0 ? KEPT + 1 : KEPT);
    int error = posix_spawn(&pid, argv[0], &files, &attr, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    if (error) return spawn_fail(err, error, argv[0]);
    int fd = pidfd_open(pid, 0);
    if (fd >= 0) {
        *out = fd;
        return det_ok(err);
    }
    int rc = fs_fail(err, "watch", argv[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return rc;
}

// --- a program for its output

static int spawn_with_output(const char *const *argv, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(pid, argv[0], &files, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

// Until the end of the output; false after the deadline.
static bool collect(int fd, int64_t deadline_us, struct buf *out)
{
    char piece[4096];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left_us = deadline_us - clock_mono_us();
        if (left_us <= 0) return false;
        int ready = poll(&p, 1, (int)(left_us / 1000) + 1);
        if (ready <= 0) continue;
        ssize_t n = read(fd, piece, sizeof piece);
        if (n <= 0) return true;
        buf_add(out, piece, (size_t)n);
    }
}

int proc_run(const char *const *argv, int64_t timeout_us, struct buf *out, det_err *err)
{
    int ends[2], status = -1;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) < 0) return fs_fail(err, "start", argv[0]);
    int error = spawn_with_output(argv, ends[1], &pid);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return spawn_fail(err, error, argv[0]);
    }
    bool in_time = collect(ends[0], clock_mono_us() + timeout_us, out);
    close(ends[0]);
    if (!in_time) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!in_time) return det_fail(err, DET_EIO, "%s takes too long", argv[0]);
    if (status != 0)
        return det_fail(err, DET_EIO, "%s failed with status %d", argv[0], WEXITSTATUS(status));
    if (!buf_ok(out)) return det_fail(err, DET_ELIMIT, "%s prints too much", argv[0]);
    return det_ok(err);
}
