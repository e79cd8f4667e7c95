// Unit proc_find.c: finds processes by what /proc says of them, in order to kill them.
#include "sys/proc.h"

#include "base/number.h"
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

static bool is_marked(int64_t pid, const char *entry, struct buf *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    if (fs_read(path, text, NULL)) return false;
    for (struct str rest = buf_str(text); rest.len;)
        if (str_eqz(str_cut(&rest, '\0'), entry)) return true;
    return false;
}

// The descriptor is opened before the look at the environment, so it is that process which dies.
static bool kill_if_marked(int64_t pid, const char *entry, struct buf *text)
{
    enum { WAIT_MS = 1000 };
    int fd = pidfd_open((pid_t)pid, 0);
    if (fd < 0) return false;
    bool marked = is_marked(pid, entry, text);
    if (marked) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        proc_signal(fd, SIGKILL);
        poll(&p, 1, WAIT_MS);
    }
    close(fd);
    return marked;
}

static bool kill_all_marked(const char *entry, struct buf *text)
{
    bool any = false;
    int64_t pid;
    DIR *dir = opendir("/proc");
    if (!dir) return false;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!number_to_int(str_from(e->d_name), 10, &pid) || pid == getpid()) continue;
        any |= kill_if_marked(pid, entry, text);
    }
    closedir(dir);
    return any;
}

// A process that forks while we look may be missed with its child, but not for ever.
void proc_kill_marked(const char *entry)
{
    enum { MAX_SCANS = 20 }; // what cannot be killed (stuck in a driver) must not hold us
    struct buf text = BUF_INIT(MAX_ENVIRON_BYTES);
    for (int i = 0; i < MAX_SCANS && kill_all_marked(entry, &text); i++)
        ;
    buf_done(&text);
}
