// Unit power.c: the disk of tests/support/power.h.
#include "support/power.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define OURS __attribute__((visibility("default")))

enum { SECTOR = 512 };

// One change that is not durable. Newest first.
struct change {
    enum { WRITE, CREATE, REMOVE, RENAME } kind;
    ino_t ino;             // of the file, or of the directory that has the name
    int fd;                // WRITE: ours, of the file
    off_t at, size_before; // WRITE: where, and how large the file was
    size_t n, n_before;    // bytes written; bytes that were there before
    char path[PATH_MAX];   // of the name
    char other[PATH_MAX];  // RENAME: the name before
    char attic[PATH_MAX];  // REMOVE, RENAME: what had the name; empty: nothing
    struct change *older;
    char before[];
};

static struct {
    pthread_mutex_t lock;
    bool on;
    char root[PATH_MAX], attic[PATH_MAX];
    size_t root_bytes;
    uint64_t random;
    int64_t n_calls, last_call;
    int n_attic;
    struct change *newest;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t draw(void)
{
    disk.random ^= disk.random << 13;
    disk.random ^= disk.random >> 7;
    disk.random ^= disk.random << 17;
    return disk.random;
}

// --- what is where

static bool is_below_root(const char *path)
{
    return !strncmp(path, disk.root, disk.root_bytes) && path[disk.root_bytes] == '/';
}

// The full name that a call means. False: it is none of ours.
static bool name_of(int dir, const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX], link[64];
    if (!disk.on) return false;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, folder, sizeof folder - 1);
        if (n < 0) return false;
        folder[n] = 0;
        if ((size_t)snprintf(out, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return false;
    }
    return is_below_root(out);
}

static bool is_ours(int fd)
{
    char path[PATH_MAX], link[64];
    if (!disk.on) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return false;
    path[n] = 0;
    return is_below_root(path) ||
           (!strncmp(path, disk.root, disk.root_bytes) && !path[disk.root_bytes]);
}

static ino_t folder_of(const char *path)
{
    char folder[PATH_MAX];
    struct stat st = {0};
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return stat(folder, &st) < 0 ? 0 : st.st_ino;
}

// --- changes

static struct change *note(int kind, size_t n_before)
{
    struct change *c = calloc(1, sizeof *c + n_before);
    if (!c) abort();
    c->kind = kind;
    c->n_before = n_before;
    c->older = disk.newest;
    disk.newest = c;
    return c;
}

static void note_name(int kind, const char *path)
{
    struct change *c = note(kind, 0);
    snprintf(c->path, sizeof c->path, "%s", path);
    c->ino = folder_of(path);
    if (kind == CREATE) return;
    snprintf(c->attic, sizeof c->attic, "%s/%d", disk.attic, disk.n_attic++);
    if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, c->attic, 0) < 0) c->attic[0] = 0;
}

static void note_write(int fd, off_t at, size_t n)
{
    struct stat st;
    char link[64];
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return;
    size_t there = at < st.st_size ? (size_t)(st.st_size - at) : 0;
    struct change *c = note(WRITE, there < n ? there : n);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    c->ino = st.st_ino;
    c->fd = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDWR | O_CLOEXEC, 0);
    c->at = at;
    c->n = n;
    c->size_before = st.st_size;
    if (c->n_before && syscall(SYS_pread64, c->fd, c->before, c->n_before, at) < 0) abort();
}

// All changes of a file, or of the names in a directory, are durable.
static void forget(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return;
    for (struct change **at = &disk.newest; *at;) {
        struct change *c = *at;
        bool durable = c->ino == st.st_ino && (c->kind == WRITE) == !S_ISDIR(st.st_mode);
        if (!durable) {
            at = &c->older;
            continue;
        }
        if (c->kind == WRITE) syscall(SYS_close, c->fd);
        if (c->attic[0]) syscall(SYS_unlinkat, AT_FDCWD, c->attic, 0);
        *at = c->older;
        free(c);
    }
}

// --- the power goes off

static void undo_write(const struct change *c)
{
    static const char zeros[SECTOR];
    struct stat st;
    int how = (int)(draw() % 3); // nothing, all of it, sectors
    if (how == 0) return;
    for (size_t k = 0; k < c->n; k += SECTOR) {
        size_t n = c->n - k < SECTOR ? c->n - k : SECTOR;
        size_t n_old = k >= c->n_before ? 0 : c->n_before - k < n ? c->n_before - k : n;
        if (how == 2 && draw() % 2) continue;
        if (n_old) syscall(SYS_pwrite64, c->fd, c->before + k, n_old, c->at + (off_t)k);
        if (n_old < n && !fstat(c->fd, &st) && st.st_size > c->at + (off_t)k + (off_t)n_old)
            syscall(SYS_pwrite64, c->fd, zeros, n - n_old, c->at + (off_t)(k + n_old));
    }
    bool was_last = !fstat(c->fd, &st) && st.st_size <= c->at + (off_t)c->n;
    if (how == 1 && was_last && st.st_size > c->size_before && draw() % 2)
        syscall(SYS_ftruncate, c->fd, c->size_before);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)at;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, kind == FTW_DP ? AT_REMOVEDIR : 0);
}

static void undo_name(const struct change *c)
{
    switch (c->kind) {
    case CREATE:
        nftw(c->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        break;
    case RENAME:
        syscall(SYS_renameat, AT_FDCWD, c->path, AT_FDCWD, c->other);
        break;
    default:
        break;
    }
    if (c->attic[0]) syscall(SYS_renameat, AT_FDCWD, c->attic, AT_FDCWD, c->path);
}

// Of the names in each directory the first ones stay: as many as were drawn for it.
struct folder {
    ino_t ino;
    uint64_t n, n_undone;
    struct folder *next;
};

static struct folder *find_folder(struct folder **all, ino_t ino)
{
    struct folder *f = *all;
    while (f && f->ino != ino)
        f = f->next;
    if (f) return f;
    f = calloc(1, sizeof *f);
    if (!f) abort();
    *f = (struct folder){.ino = ino, .next = *all};
    return *all = f;
}

static void undo_all(void)
{
    struct folder *folders = NULL;
    for (struct change *c = disk.newest; c; c = c->older)
        if (c->kind != WRITE) find_folder(&folders, c->ino)->n++;
    for (struct folder *f = folders; f; f = f->next)
        f->n_undone = draw() % (f->n + 1);
    for (struct change *c = disk.newest; c; c = c->older) {
        struct folder *f = c->kind == WRITE ? NULL : find_folder(&folders, c->ino);
        if (!f)
            undo_write(c);
        else if (f->n_undone) {
            f->n_undone--;
            undo_name(c);
        }
    }
    nftw(disk.attic, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool is_stopped(pid_t pid)
{
    char path[PATH_MAX], text[256];
    bool all = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir) abort();
    for (struct dirent *e; (e = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (!f) continue;
        const char *name_end = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        all = all && name_end && name_end[2] == 'T';
        fclose(f);
    }
    closedir(dir);
    return all;
}

// Another process undoes, while this one stands still: its threads would fall over what changes
// under them, and nothing may be said or done after the power is off.
static _Noreturn void lose_power(void)
{
    pid_t victim = getpid(), pid = fork();
    if (pid < 0) abort();
    for (; pid;)
        pause();
    disk.on = false;
    if (kill(victim, SIGSTOP) < 0) abort();
    while (!is_stopped(victim))
        sched_yield();
    undo_all();
    syscall(SYS_close_range, 3, ~0u, 0); // locks of files end with the one that had them
    kill(victim, SIGKILL);
    _exit(0);
}

bool power_was_lost(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

void power_on(const char *root, uint64_t seed, int64_t n_calls)
{
    if (!realpath(root, disk.root)) abort();
    disk.root_bytes = strlen(disk.root);
    snprintf(disk.attic, sizeof disk.attic, "%.4000s.attic", disk.root);
    if (mkdir(disk.attic, 0700) < 0 && errno != EEXIST) abort();
    disk.random = seed * 0x9E3779B97F4A7C15u + 0x1234567u;
    for (int i = 0; i < 8; i++)
        draw();
    disk.last_call = n_calls;
    disk.on = true;
}

void power_off(void)
{
    pthread_mutex_lock(&disk.lock);
    lose_power();
}

int64_t power_n_calls(void)
{
    return disk.n_calls;
}

// With the lock, before something changes.
static void begin(void)
{
    pthread_mutex_lock(&disk.lock);
    if (++disk.n_calls == disk.last_call) lose_power();
}

static long end(long result)
{
    int error = errno;
    pthread_mutex_unlock(&disk.lock);
    errno = error;
    return result;
}

// --- the calls

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    char name[PATH_MAX];
    struct stat st;
    if (!(flags & (O_CREAT | O_TRUNC)) || !name_of(dir, path, name))
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    begin();
    bool is_new = lstat(name, &st) < 0;
    if (!is_new && flags & O_TRUNC && st.st_size) abort(); // nobody of ours does that
    int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && is_new) note_name(CREATE, name);
    return (int)end(fd);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & O_CREAT ? va_arg(args, mode_t) : 0;
}

#define OPEN(function)                                   \
    OURS int function(const char *path, int flags, ...); \
    int function(const char *path, int flags, ...)       \
    {                                                    \
        va_list args;                                    \
        va_start(args, flags);                           \
        mode_t mode = mode_of(flags, args);              \
        va_end(args);                                    \
        return open_at(AT_FDCWD, path, flags, mode);     \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(function)                                          \
    OURS int function(int dir, const char *path, int flags, ...); \
    int function(int dir, const char *path, int flags, ...)       \
    {                                                             \
        va_list args;                                             \
        va_start(args, flags);                                    \
        mode_t mode = mode_of(flags, args);                       \
        va_end(args);                                             \
        return open_at(dir, path, flags, mode);                   \
    }
OPENAT(openat)
OPENAT(openat64)

static ssize_t write_at(int fd, const void *bytes, size_t n, off_t at)
{
    if (!is_ours(fd)) return syscall(SYS_pwrite64, fd, bytes, n, at);
    begin();
    note_write(fd, at, n);
    return end(syscall(SYS_pwrite64, fd, bytes, n, at));
}

OURS ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    return write_at(fd, bytes, n, at);
}

OURS ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
    return write_at(fd, bytes, n, at);
}

static off_t position(int fd)
{
    struct stat st;
    if (fcntl(fd, F_GETFL) & O_APPEND) return fstat(fd, &st) < 0 ? 0 : st.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

OURS ssize_t write(int fd, const void *bytes, size_t n)
{
    if (!is_ours(fd)) return syscall(SYS_write, fd, bytes, n);
    begin();
    note_write(fd, position(fd), n);
    return end(syscall(SYS_write, fd, bytes, n));
}

OURS ssize_t writev(int fd, const struct iovec *parts, int n_parts)
{
    size_t n = 0;
    if (!is_ours(fd)) return syscall(SYS_writev, fd, parts, n_parts);
    for (int i = 0; i < n_parts; i++)
        n += parts[i].iov_len;
    begin();
    note_write(fd, position(fd), n);
    return end(syscall(SYS_writev, fd, parts, n_parts));
}

static int cut(int fd, off_t size)
{
    struct stat st;
    if (!is_ours(fd) || fstat(fd, &st) < 0) return (int)syscall(SYS_ftruncate, fd, size);
    begin();
    if (st.st_size > size) note_write(fd, size, (size_t)(st.st_size - size));
    return (int)end(syscall(SYS_ftruncate, fd, size));
}

OURS int ftruncate(int fd, off_t size)
{
    return cut(fd, size);
}

OURS int ftruncate64(int fd, off_t size)
{
    return cut(fd, size);
}

static int sync_fd(int fd, long number)
{
    if (!is_ours(fd)) return (int)syscall(number, fd);
    begin();
    forget(fd); // the disk of the machine may take its time: it is this one that matters
    return (int)end(0);
}

OURS int fsync(int fd)
{
    return sync_fd(fd, SYS_fsync);
}

OURS int fdatasync(int fd)
{
    return sync_fd(fd, SYS_fdatasync);
}

OURS int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    char old[PATH_MAX], new[PATH_MAX];
    if (!name_of(from_dir, from, old) || !name_of(to_dir, to, new))
        return (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
    begin();
    struct stat st;
    if (!lstat(old, &st)) {
        note_name(RENAME, new);
        snprintf(disk.newest->other, sizeof disk.newest->other, "%s", old);
    }
    return (int)end(syscall(SYS_renameat, from_dir, from, to_dir, to));
}

OURS int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

OURS int unlinkat(int dir, const char *path, int flags)
{
    char name[PATH_MAX];
    struct stat st;
    if (!name_of(dir, path, name)) return (int)syscall(SYS_unlinkat, dir, path, flags);
    begin();
    if (!(flags & AT_REMOVEDIR) && !lstat(name, &st)) note_name(REMOVE, name);
    return (int)end(syscall(SYS_unlinkat, dir, path, flags));
}

OURS int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

OURS int mkdirat(int dir, const char *path, mode_t mode)
{
    char name[PATH_MAX];
    if (!name_of(dir, path, name)) return (int)syscall(SYS_mkdirat, dir, path, mode);
    begin();
    int rc = (int)syscall(SYS_mkdirat, dir, path, mode);
    if (!rc) note_name(CREATE, name);
    return (int)end(rc);
}

OURS int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
