// Unit proc_find.c: finds processes by what /proc says of them, in order to kill them, or to see
// what they use.
#include "sys/proc.h"

#include "base/mem.h"
#include "base/number.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENVIRON_BYTES = 16 << 20 };

size_t proc_children(pid_t of, pid_t *out, size_t max)
{
    char path[64];
    size_t n = 0;
    int64_t pid;
    struct buf text = BUF_INIT(1 << 20);
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)of, (long)of);
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

// --- by their parents

struct link {
    pid_t pid, parent;
    bool is_found;
};

struct links {
    struct link *items;
    size_t n, cap;
};

// The parent, or 0 if the process has ended.
static pid_t living_parent(int64_t pid, struct buf *text)
{
    struct str stat = read_of(pid, "stat", text);
    const char *name_end = stat.len ? memrchr(stat.ptr, ')', stat.len) : NULL;
    int64_t parent = 0;
    if (!name_end || (size_t)(name_end - stat.ptr) + 4 >= stat.len) return 0;
    if (strchr("ZX", name_end[2])) return 0;
    struct str rest = {name_end + 4, stat.len - (size_t)(name_end + 4 - stat.ptr)};
    number_to_int(str_cut(&rest, ' '), 10, &parent);
    return (pid_t)parent;
}

static void read_links(struct links *out, struct buf *text)
{
    int64_t pid;
    DIR *dir = opendir("/proc");
    out->n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!number_to_int(str_from(e->d_name), 10, &pid)) continue;
        if (out->n == out->cap) {
            out->cap = out->cap ? 2 * out->cap : 256;
            out->items = xrealloc(out->items, out->cap * sizeof *out->items);
        }
        out->items[out->n++] = (struct link){(pid_t)pid, living_parent(pid, text), false};
    }
    if (dir) closedir(dir);
}

static bool is_found(const struct links *l, pid_t pid)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].pid == pid) return l->items[i].is_found;
    return false;
}

// Children of what was found, until there are no more.
static void find_tree(struct links *l, const pid_t *roots, size_t n_roots)
{
    bool more = true;
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < n_roots; k++)
            l->items[i].is_found |= l->items[i].pid == roots[k];
    while (more) {
        more = false;
        for (size_t i = 0; i < l->n; i++) {
            struct link *one = &l->items[i];
            if (one->is_found || !one->parent || !is_found(l, one->parent)) continue;
            one->is_found = more = true;
        }
    }
}

pid_t *proc_tree(const pid_t *roots, size_t n_roots, size_t *n)
{
    struct links all = {0};
    struct buf text = BUF_INIT(4096);
    read_links(&all, &text);
    find_tree(&all, roots, n_roots);
    pid_t *out = xcalloc(all.n + 1, sizeof *out);
    *n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (all.items[i].is_found) out[(*n)++] = all.items[i].pid;
    free(all.items);
    buf_done(&text);
    return out;
}

// Whose parent is the right one after its descriptor was opened is the one that is meant.
static bool signal_child(pid_t parent, pid_t pid, int signal, struct buf *text)
{
    int fd = pidfd_open(pid, 0);
    if (fd < 0) return false;
    bool sent = living_parent(pid, text) == parent && proc_signal(fd, signal);
    close(fd);
    return sent;
}

bool proc_signal_child(pid_t parent, pid_t pid, int signal)
{
    struct buf text = BUF_INIT(4096);
    bool sent = signal_child(parent, pid, signal, &text);
    buf_done(&text);
    return sent;
}

// How many there are.
static size_t signal_tree(pid_t root, int signal, struct links *all, struct buf *text)
{
    size_t n = 0;
    read_links(all, text);
    find_tree(all, &root, 1);
    for (size_t i = 0; i < all->n; i++) {
        const struct link *one = &all->items[i];
        if (one->is_found && one->pid != root && one->parent)
            n += signal_child(one->parent, one->pid, signal, text);
    }
    return n;
}

// Stopped first: what does not run starts nothing new while the others are looked for.
void proc_kill_tree(pid_t root)
{
    enum { MAX_US = 1000000, ROUNDS = 3 };
    int64_t give_up_us = clock_mono_us() + MAX_US;
    struct links all = {0};
    struct buf text = BUF_INIT(4096);
    for (int i = 0; i < ROUNDS; i++)
        signal_tree(root, SIGSTOP, &all, &text);
    while (signal_tree(root, SIGKILL, &all, &text) && clock_mono_us() < give_up_us)
        poll(NULL, 0, 1);
    free(all.items);
    buf_done(&text);
}

// --- by what they have open, and how they were called

static bool has_open(int64_t pid, int fd, const struct stat *wanted)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, fd);
    return !stat(path, &st) && st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino;
}

bool proc_has_file(pid_t pid, int fd, const char *path)
{
    struct stat wanted;
    return !stat(path, &wanted) && has_open(pid, fd, &wanted);
}

pid_t proc_find_file(int fd, const char *path)
{
    struct stat wanted;
    int64_t pid;
    pid_t found = 0;
    DIR *dir = stat(path, &wanted) ? NULL : opendir("/proc");
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        if (number_to_int(str_from(e->d_name), 10, &pid) && pid != getpid() &&
            has_open(pid, fd, &wanted))
            found = (pid_t)pid;
    if (dir) closedir(dir);
    return found;
}

bool proc_ends_with(pid_t pid, const char *word)
{
    struct buf text = BUF_INIT(1 << 20);
    struct str line = read_of(pid, "cmdline", &text);
    if (line.len) line.len--; // of the NUL at the end
    bool ends = str_ends(line, str_from(word)) && line.len > strlen(word) &&
                !line.ptr[line.len - strlen(word) - 1];
    buf_done(&text);
    return ends;
}

bool proc_is_ending(pid_t pid)
{
    enum { FIELDS_BEFORE_FLAGS = 6, PF_EXITING = 4 };
    struct buf text = BUF_INIT(4096);
    struct str stat = read_of(pid, "stat", &text);
    const char *name_end = stat.len ? memrchr(stat.ptr, ')', stat.len) : NULL;
    int64_t flags = 0;
    if (name_end && (size_t)(name_end - stat.ptr) + 2 < stat.len) {
        struct str rest = {name_end + 2, stat.len - (size_t)(name_end + 2 - stat.ptr)};
        for (int i = 0; i < FIELDS_BEFORE_FLAGS; i++)
            str_cut(&rest, ' ');
        number_to_int(str_cut(&rest, ' '), 10, &flags);
    }
    buf_done(&text);
    return flags & PF_EXITING;
}

// --- by a mark in their environment

static bool has_program(int64_t pid)
{
    char path[64], program[8];
    snprintf(path, sizeof path, "/proc/%lld/exe", (long long)pid);
    return readlink(path, program, sizeof program) > 0;
}

enum mark { MARK_NO, MARK_YES, MARK_UNKNOWN };

static bool is_one_of(struct str text, const char *const *entries)
{
    for (; *entries; entries++)
        if (str_eqz(text, *entries)) return true;
    return false;
}

static enum mark look_in_environment(int64_t pid, const char *const *entries, struct buf *text)
{
    struct str rest = read_of(pid, "environ", text);
    if (!rest.len) return MARK_UNKNOWN;
    while (rest.len)
        if (is_one_of(str_cut(&rest, '\0'), entries)) return MARK_YES;
    return MARK_NO;
}

// Neither arguments nor environment, and yet a program: the process is about to become another one,
// and the kernel has not put them in place yet. It may just have: once there are arguments, what is
// empty then is empty.
static enum mark look_for_mark(int64_t pid, const char *const *entries, struct buf *text)
{
    enum mark mark = look_in_environment(pid, entries, text);
    if (mark != MARK_UNKNOWN) return mark;
    if (!has_program(pid)) return MARK_NO;
    if (!read_of(pid, "cmdline", text).len) return MARK_UNKNOWN;
    mark = look_in_environment(pid, entries, text);
    return mark == MARK_UNKNOWN ? MARK_NO : mark;
}

// The descriptor is opened before the look at the environment, so it is that process which dies.
static enum mark kill_if_marked(int64_t pid, const char *const *entries, struct buf *text)
{
    enum { WAIT_MS = 1000 };
    int fd = pidfd_open((pid_t)pid, 0);
    if (fd < 0) return MARK_NO;
    enum mark mark = look_for_mark(pid, entries, text);
    if (mark == MARK_YES) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        proc_signal(fd, SIGKILL);
        poll(&p, 1, WAIT_MS);
    }
    close(fd);
    return mark;
}

// True if there was none, for sure.
static bool kill_all_marked(const char *const *entries, struct buf *text)
{
    bool none = true;
    int64_t pid;
    DIR *dir = opendir("/proc");
    if (!dir) return true;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!number_to_int(str_from(e->d_name), 10, &pid) || pid == getpid()) continue;
        none &= kill_if_marked(pid, entries, text) == MARK_NO;
    }
    closedir(dir);
    return none;
}

// A process that forks while we look may be missed with its child, but not for ever.
void proc_kill_marked(const char *const *entries)
{
    enum { MAX_US = 10000000 }; // what cannot be killed (stuck in a driver) must not hold us
    int64_t give_up_us = clock_mono_us() + MAX_US;
    struct buf text = BUF_INIT(MAX_ENVIRON_BYTES);
    while (!kill_all_marked(entries, &text) && clock_mono_us() < give_up_us)
        poll(NULL, 0, 1);
    buf_done(&text);
}

// --- what they use

// Time of its own and of its children that it has waited for, in clock ticks.
static int64_t ticks_of(int64_t pid, struct buf *text)
{
    enum { TO_TIMES = 11, N_TIMES = 4 }; // fields, from the state on
    struct str stat = read_of(pid, "stat", text);
    const char *name_end = stat.len ? memrchr(stat.ptr, ')', stat.len) : NULL;
    int64_t sum = 0, ticks;
    if (!name_end || (size_t)(name_end - stat.ptr) + 2 >= stat.len) return 0;
    struct str rest = {name_end + 2, stat.len - (size_t)(name_end + 2 - stat.ptr)};
    for (int i = 0; i < TO_TIMES; i++)
        str_cut(&rest, ' ');
    for (int i = 0; i < N_TIMES; i++)
        if (number_to_int(str_cut(&rest, ' '), 10, &ticks)) sum += ticks;
    return sum;
}

static int64_t pages_of(int64_t pid, struct buf *text)
{
    struct str rest = read_of(pid, "statm", text);
    int64_t resident = 0, shared = 0;
    str_cut(&rest, ' ');
    number_to_int(str_cut(&rest, ' '), 10, &resident);
    number_to_int(str_cut(&rest, ' '), 10, &shared);
    return resident - shared;
}

void proc_usage_of(const pid_t *roots, size_t n_roots, struct proc_usage *out)
{
    size_t n;
    pid_t *all = proc_tree(roots, n_roots, &n);
    struct buf text = BUF_INIT(4096);
    int64_t ticks = 0, pages = 0;
    for (size_t i = 0; i < n; i++) {
        ticks += ticks_of(all[i], &text);
        pages += pages_of(all[i], &text);
    }
    *out =
        (struct proc_usage){ticks * 1000000 / sysconf(_SC_CLK_TCK), pages * sysconf(_SC_PAGESIZE)};
    buf_done(&text);
    free(all);
}
