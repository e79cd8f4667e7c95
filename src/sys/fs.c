// Unit fs.c: the files of sys/fs.h. Everything that stores or reads files goes through here.
#include "sys/fs.h"

#include "base/assert.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int code_of(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return DET_ENOSPC;
    case ENOENT:
    case ENOTDIR:
        return DET_ENOTFOUND;
    case ENOMEM:
        return DET_ENOMEM;
    default:
        return DET_EIO;
    }
}

int fs_fail(det_err *err, const char *verb, const char *path)
{
    int error = errno;
    char text[128];
    return det_fail(err, code_of(error), "cannot %s '%s': %s", verb, path,
                    strerror_r(error, text, sizeof text));
}

// Reads up to n bytes; fewer only at the end of the file. -1 after an error.
static ssize_t read_full(int fd, char *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, to + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static int write_all(int fd, const char *from, size_t n)
{
    enum { AT_ONCE = 1 << 30 }; // Linux writes at most 2 GB per call
    while (n) {
        ssize_t wrote = write(fd, from, MIN(n, (size_t)AT_ONCE));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return -1;
        from += wrote;
        n -= (size_t)wrote;
    }
    return 0;
}

int fs_read(const char *path, struct buf *out, det_err *err)
{
    char piece[16 << 10];
    ssize_t got;
    int rc = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fs_fail(err, "open", path);
    buf_clear(out);
    do {
        got = read_full(fd, piece, sizeof piece);
        if (got > 0) buf_add(out, piece, (size_t)got);
    } while (got == sizeof piece && buf_ok(out));
    if (got < 0)
        rc = fs_fail(err, "read", path);
    else if (!buf_ok(out))
        rc = det_fail(err, DET_ELIMIT, "cannot read '%s': it is larger than %zu bytes", path,
                      out->max);
    close(fd);
    return rc;
}

int fs_create(const char *path, struct str content, det_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return fs_fail(err, "create", path);
    int rc = write_all(fd, content.ptr, content.len) < 0 ? fs_fail(err, "write", path) : 0;
    if (close(fd) < 0 && !rc) rc = fs_fail(err, "write", path);
    return rc;
}

int fs_map(const char *path, struct str *out, det_err *err)
{
    struct stat st;
    void *map = NULL;
    int rc = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not make us wait
    if (fd < 0) return fs_fail(err, "open", path);
    if (fstat(fd, &st) < 0) {
        rc = fs_fail(err, "open", path);
    } else if (!S_ISREG(st.st_mode)) {
        rc = det_fail(err, DET_EIO, "cannot map '%s': it is not a regular file", path);
    } else if (st.st_size > 0) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) rc = fs_fail(err, "map", path);
    }
    if (!rc) *out = (struct str){map ? map : "", (size_t)st.st_size};
    close(fd);
    return rc;
}

void fs_unmap(struct str map)
{
    if (map.len) munmap((void *)(uintptr_t)map.ptr, map.len);
}

// --- atomic writing
// ---------------------------------------------------------------------------------

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int open_directory_of(const char *path)
{
    size_t n = (size_t)(base_name(path) - path);
    char *dir = n ? xstrndup(path, n) : xstrdup(".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = errno;
    free(dir);
    errno = error;
    return fd;
}

// Some file systems cannot sync a directory and say so with EINVAL; there is nothing to wait for.
static int sync_directory(int fd, const char *path, det_err *err)
{
    return fsync(fd) < 0 && errno != EINVAL ? fs_fail(err, "sync the directory of", path) : 0;
}

int fs_sync_directory_of(const char *path, det_err *err)
{
    int fd = open_directory_of(path);
    if (fd < 0) return fs_fail(err, "open the directory of", path);
    int rc = sync_directory(fd, path, err);
    close(fd);
    return rc;
}

// The name may be left over from a process that died with our number; then the next one is free.
static int create_temp(struct fs_writer *w)
{
    static _Atomic unsigned counter;
    do {
        snprintf(w->temp, sizeof w->temp, ".det-%ld-%u.tmp", (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        w->fd = openat(w->dir_fd, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (w->fd < 0 && errno == EEXIST);
    if (w->fd < 0) w->temp[0] = 0;
    return w->fd;
}

int fs_writer_open(struct fs_writer *w, const char *path, det_err *err)
{
    *w = FS_WRITER_INIT;
    w->dir_fd = open_directory_of(path);
    int rc = 0;
    if (w->dir_fd < 0 || create_temp(w) < 0)
        rc = fs_fail(err, "create", path);
    else
        w->path = xstrdup(path);
    if (rc) fs_writer_close(w);
    return rc;
}

int fs_writer_add(struct fs_writer *w, const void *bytes, size_t n, det_err *err)
{
    ASSERT(w->fd >= 0);
    if (write_all(w->fd, bytes, n) < 0) return fs_fail(err, "write", w->path);
    w->n_bytes += n;
    return 0;
}

int fs_writer_publish(struct fs_writer *w, det_err *err)
{
    ASSERT(w->fd >= 0);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) < 0) return fs_fail(err, "write", w->path);
    if (renameat(w->dir_fd, w->temp, w->dir_fd, base_name(w->path)) < 0)
        return fs_fail(err, "write", w->path);
    w->temp[0] = 0;
    return 0;
}

int fs_writer_commit(struct fs_writer *w, det_err *err)
{
    ASSERT(w->fd >= 0);
    if (fsync(w->fd) < 0) return fs_fail(err, "write", w->path);
    int rc = fs_writer_publish(w, err);
    return rc ? rc : sync_directory(w->dir_fd, w->path, err);
}

void fs_writer_close(struct fs_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temp[0]) unlinkat(w->dir_fd, w->temp, 0);
    if (w->dir_fd >= 0) close(w->dir_fd);
    free(w->path);
    *w = FS_WRITER_INIT;
}
