// Unit spool.c: writes the log of a task. Called by the shim. Limits its size; survives a full
// disk and a reader that is away.
#include "task/log.h"

#include "base/assert.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

// The file stays the old one if a new one cannot be made.
static bool start_file(struct spool *s, int64_t position)
{
    char name[LOG_NAME_BYTES];
    log_file_name(position, name);
    int fd = openat(s->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    if (s->fd >= 0) close(s->fd);
    s->fd = fd;
    s->begin = position;
    s->size = 0;
    s->files[s->n_files++] = position;
    return true;
}

static void forget_oldest(struct spool *s)
{
    s->n_files--;
    memmove(s->files, s->files + 1, (size_t)s->n_files * sizeof *s->files);
}

// The reader removes what he has taken.
static bool oldest_was_taken(const struct spool *s)
{
    char name[LOG_NAME_BYTES];
    log_file_name(s->files[0], name);
    return faccessat(s->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static void forget_taken(struct spool *s)
{
    while (s->n_files > 1 && oldest_was_taken(s)) {
        forget_oldest(s);
        s->deserted = false;
        s->full_us = 0;
    }
}

static void remove_oldest(struct spool *s)
{
    char name[LOG_NAME_BYTES];
    log_file_name(s->files[0], name);
    unlinkat(s->dir, name, 0);
    forget_oldest(s);
}

int spool_open(struct spool *s, int dir, int64_t max_bytes, det_err *err)
{
    *s = SPOOL_INIT;
    s->dir = dir;
    s->max_bytes = max_bytes;
    return start_file(s, 0) ? det_ok(err) : fs_fail(err, "create", "the log");
}

void spool_close(struct spool *s)
{
    if (s->fd >= 0) close(s->fd);
    *s = SPOOL_INIT;
}

static bool file_is_full(const struct spool *s)
{
    return s->size >= s->max_bytes / LOG_MAX_FILES;
}

static void make_space(struct spool *s)
{
    if (!file_is_full(s)) return;
    forget_taken(s);
    if (start_file(s, s->begin + s->size) && s->n_files > LOG_MAX_FILES) remove_oldest(s);
}

bool spool_is_full(struct spool *s, int64_t now_us)
{
    enum { PATIENCE_US = 10 * 1000000 };
    if (!file_is_full(s) || s->n_files < LOG_MAX_FILES) return false;
    forget_taken(s);
    if (s->deserted || s->n_files < LOG_MAX_FILES) return false;
    if (!s->full_us) s->full_us = now_us;
    s->deserted = now_us - s->full_us > PATIENCE_US;
    return !s->deserted;
}

// A line is there as a whole or not at all, however far the write got.
static bool write_line(struct spool *s, const struct task_line *line)
{
    char head[LOG_HEAD_BYTES];
    struct iovec parts[3] = {{head, log_format_head(line, head)},
                             {(void *)(uintptr_t)line->text.ptr, line->text.len},
                             {"\n", 1}};
    size_t total = parts[0].iov_len + parts[1].iov_len + 1;
    ssize_t n;
    do
        n = writev(s->fd, parts, 3);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)total) {
        s->size += n;
        return true;
    }
    // To shorten a file needs no space. Should it fail even so, the line counts as written.
    if (n > 0 && ftruncate(s->fd, s->size) < 0) s->size += n;
    return false;
}

static bool admit_losses(struct spool *s)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%lld lines were lost: no space", (long long)s->n_dropped);
    const struct task_line line = {
        .time_us = clock_unix_us(), .rank = -1, .stream = TASK_SHIM, .text = {text, (size_t)n}};
    if (!write_line(s, &line)) return false;
    s->n_dropped = 0;
    return true;
}

void spool_add(struct spool *s, const struct task_line *line)
{
    make_space(s);
    if ((s->n_dropped && !admit_losses(s)) || !write_line(s, line)) s->n_dropped++;
}

void spool_sync(const struct spool *s)
{
    for (int i = 0; i < s->n_files; i++) {
        char name[LOG_NAME_BYTES];
        log_file_name(s->files[i], name);
        int fd = openat(s->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) continue; // it was taken
        fdatasync(fd);
        close(fd);
    }
    fsync(s->dir);
}
