// Unit journal.c: the journal of client/journal.h. Filled by the functions that report, emptied by
// shipper.c.
#include "client/journal.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/number.h"
#include "entity/entity.h"
#include "sys/entropy.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CRC_DIGITS = 8, READ_BYTES = 64 << 10 };

struct journal {
    char *path;
    int fd;
    char id[UUID_TEXT_BYTES];
    pthread_mutex_t lock;     // of the next four
    int64_t size;             // bytes of whole lines
    int64_t n_added, n_taken; // numbers of the last ones
    struct buf line;          // being written
    // The taker's own.
    int64_t at, n_noted; // where the next line begins; entries that an "acked" line covers
    struct buf ahead;    // what was read from there
    size_t n_given;      // bytes of it that were given and may be given again
    struct buf current;  // the entry that was given last
};

// --- writing

// Appends the line in j->line, or nothing at all.
static int write_line(struct journal *j, det_err *err)
{
    struct buf *line = &j->line;
    if (j->fd < 0)
        return det_fail(err, DET_ESTATE,
                        "reports are for the process that opened '%s'; this one was forked from it",
                        j->path);
    if (!buf_ok(line))
        return det_fail(err, DET_ELIMIT, "one report has at most %d bytes", JOURNAL_MAX_LINE);
    size_t done = 0;
    while (done < line->len) {
        ssize_t n = pwrite(j->fd, line->ptr + done, line->len - done, j->size + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fs_fail(err, "write", j->path); // the next line goes to the same place
        done += (size_t)n;
    }
    j->size += (int64_t)line->len;
    return det_ok(err);
}

// Puts the checksum in front of the text that follows, and the end of the line behind it.
static void begin_line(struct journal *j)
{
    buf_clear(&j->line);
    buf_addz(&j->line, "00000000 ");
}

static int end_line(struct journal *j, det_err *err)
{
    struct str text = buf_str(&j->line);
    char crc[CRC_DIGITS + 1];
    if (buf_ok(&j->line)) {
        uint32_t sum = crc32c_add(0, text.ptr + CRC_DIGITS + 1, text.len - CRC_DIGITS - 1);
        snprintf(crc, sizeof crc, "%08x", sum);
        memcpy(j->line.ptr, crc, CRC_DIGITS);
    }
    buf_addc(&j->line, '\n');
    return write_line(j, err);
}

int journal_add(struct journal *j, const char *path, struct str body, det_err *err)
{
    ASSERT(!memchr(body.ptr, '\n', body.len));
    pthread_mutex_lock(&j->lock);
    begin_line(j);
    buf_printf(&j->line, "%lld %s ", (long long)j->n_added + 1, path);
    buf_add(&j->line, body.ptr, body.len);
    int rc = end_line(j, err);
    if (!rc) j->n_added++;
    pthread_mutex_unlock(&j->lock);
    return rc;
}

int journal_note_taken(struct journal *j, det_err *err)
{
    pthread_mutex_lock(&j->lock);
    int rc = 0;
    if (j->n_noted < j->n_taken) {
        begin_line(j);
        buf_printf(&j->line, "%lld acked", (long long)j->n_taken);
        rc = end_line(j, err);
        if (!rc) j->n_noted = j->n_taken;
    }
    pthread_mutex_unlock(&j->lock);
    return rc;
}

void journal_disown(struct journal *j)
{
    close(j->fd);
    j->fd = -1;
    pthread_mutex_init(&j->lock, NULL); // whoever had it is not in this process
}

int journal_sync(struct journal *j, det_err *err)
{
    return fdatasync(j->fd) < 0 ? fs_fail(err, "write", j->path) : det_ok(err);
}

// --- reading

struct line {
    int64_t number;
    struct str word, rest; // "acked", "journal" or a path; and what follows
};

// It becomes part of a request.
static bool is_word(struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] <= ' ' || word.ptr[i] > '~') return false;
    return word.len > 0;
}

static bool parse_line(struct str text, struct line *out)
{
    int64_t crc;
    struct str sum = str_cut(&text, ' ');
    if (!text.ptr || sum.len != CRC_DIGITS || !number_to_int(sum, 16, &crc)) return false;
    if (crc != crc32c_add(0, text.ptr, text.len)) return false;
    struct str number = str_cut(&text, ' ');
    if (!text.ptr || !number_to_int(number, 10, &out->number)) return false;
    out->word = str_cut(&text, ' ');
    out->rest = text.ptr ? text : STR("");
    return is_word(out->word);
}

static int64_t published_size(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    int64_t size = j->size;
    pthread_mutex_unlock(&j->lock);
    return size;
}

// Finds the line behind what was given. 1: *out, without its end; 0: there is no whole line yet.
static int peek_line(struct journal *j, struct str *out, det_err *err)
{
    char piece[READ_BYTES];
    int64_t size = published_size(j);
    for (size_t n_seen = j->n_given;;) {
        struct str have = buf_str(&j->ahead);
        const char *begin = have.ptr + j->n_given;
        const char *end = have.len ? memchr(have.ptr + n_seen, '\n', have.len - n_seen) : NULL;
        n_seen = have.len;
        if (end) {
            *out = (struct str){begin, (size_t)(end - begin)};
            return 1;
        }
        int64_t from = j->at + (int64_t)have.len, n = MIN(size - from, (int64_t)READ_BYTES);
        if (n <= 0) return 0;
        ssize_t got = pread(j->fd, piece, (size_t)n, from);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fs_fail(err, "read", j->path);
        if (got == 0) return 0;
        buf_add(&j->ahead, piece, (size_t)got);
        if (!buf_ok(&j->ahead))
            return det_fail(err, DET_ECORRUPT, "'%s' has a line without an end", j->path);
    }
}

static void pass_line(struct journal *j, size_t n_bytes)
{
    j->at += (int64_t)n_bytes;
    j->ahead.len -= n_bytes;
    memmove(j->ahead.ptr, j->ahead.ptr + n_bytes, j->ahead.len);
}

// Copies the entry, because more may be read while it is being sent.
static void give(struct journal *j, const struct line *line, size_t n_bytes,
                 struct journal_entry *out)
{
    buf_clear(&j->current);
    buf_add(&j->current, line->word.ptr, line->word.len);
    buf_addc(&j->current, 0);
    buf_add(&j->current, line->rest.ptr, line->rest.len);
    j->n_given += n_bytes;
    *out = (struct journal_entry){
        .number = line->number,
        .path = j->current.ptr,
        .body = {j->current.ptr + line->word.len + 1, line->rest.len},
    };
    snprintf(out->key, sizeof out->key, "%s:%lld", j->id, (long long)line->number);
}

int journal_more(struct journal *j, struct journal_entry *out, det_err *err)
{
    struct str text;
    for (int rc; (rc = peek_line(j, &text, err)) != 0;) {
        struct line line;
        if (rc < 0) return rc;
        bool is_entry = parse_line(text, &line) &&
                        (line.word.ptr[0] == '/' || !line.number || str_eqz(line.word, "acked"));
        if (!is_entry)
            return det_fail(err, DET_ECORRUPT, "'%s' is damaged after byte %lld", j->path,
                            (long long)j->at + (long long)j->n_given);
        if (line.number > j->n_taken && !str_eqz(line.word, "acked")) {
            give(j, &line, text.len + 1, out);
            return 1;
        }
        if (j->n_given)
            j->n_given += text.len + 1;
        else
            pass_line(j, text.len + 1);
    }
    return 0;
}

int journal_next(struct journal *j, struct journal_entry *out, det_err *err)
{
    j->n_given = 0;
    return journal_more(j, out, err);
}

void journal_taken(struct journal *j, int64_t number)
{
    pthread_mutex_lock(&j->lock);
    j->n_taken = number;
    pthread_mutex_unlock(&j->lock);
}

int64_t journal_n_waiting(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    int64_t n = j->n_added - j->n_taken;
    pthread_mutex_unlock(&j->lock);
    return n;
}

const char *journal_path(const struct journal *j)
{
    return j->path;
}

// --- life

static struct journal *journal_new(const char *path, int fd)
{
    struct journal *j = xcalloc(1, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
    j->path = xstrdup(path);
    j->fd = fd;
    j->line = BUF_INIT(JOURNAL_MAX_LINE);
    j->ahead = BUF_INIT(2 * JOURNAL_MAX_LINE + READ_BYTES); // what was given, and a line
    j->current = BUF_INIT(JOURNAL_MAX_LINE + 1);
    return j;
}

void journal_close(struct journal *j)
{
    if (!j) return;
    close(j->fd);
    pthread_mutex_destroy(&j->lock);
    buf_done(&j->line);
    buf_done(&j->ahead);
    buf_done(&j->current);
    free(j->path);
    free(j);
}

int journal_remove(struct journal *j, det_err *err)
{
    int rc = unlink(j->path) < 0 ? fs_fail(err, "remove", j->path) : det_ok(err);
    journal_close(j);
    return rc;
}

static int write_header(struct journal *j, det_err *err)
{
    uint8_t random[16];
    int rc = entropy_read(random, sizeof random, err);
    if (rc) return rc;
    uuid_format(uuid_v4(random), j->id);
    begin_line(j);
    buf_printf(&j->line, "0 journal %s", j->id);
    return end_line(j, err);
}

int journal_create(const char *path, struct journal **out, det_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return fs_fail(err, "create", path);
    struct journal *j = journal_new(path, fd);
    int rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? fs_fail(err, "lock", path) : write_header(j, err);
    if (!rc) rc = fs_sync_directory_of(path, err);
    if (rc)
        journal_remove(j, NULL);
    else
        *out = j;
    return rc;
}

// Counts what is in it, up to the first line that is not whole.
static int scan(struct journal *j, det_err *err)
{
    struct str text = {0};
    struct line line;
    int64_t n_acked = 0;
    int rc;
    while ((rc = peek_line(j, &text, err)) == 1 && parse_line(text, &line)) {
        if (!line.number && str_eqz(line.word, "journal"))
            snprintf(j->id, sizeof j->id, "%.*s", STR_ARG(line.rest));
        else if (str_eqz(line.word, "acked"))
            n_acked = MAX(n_acked, line.number);
        else
            j->n_added = MAX(j->n_added, line.number);
        pass_line(j, text.len + 1);
    }
    if (rc < 0) return rc;
    struct uuid id;
    if (uuid_parse(j->id, &id, NULL))
        return det_fail(err, DET_ECORRUPT, "'%s' is not a journal", j->path);
    j->size = j->at;
    j->n_taken = j->n_noted = MIN(n_acked, j->n_added);
    j->at = 0;
    buf_clear(&j->ahead);
    // What comes after is half a line; the next one must not begin behind it.
    return ftruncate(j->fd, j->size) < 0 ? fs_fail(err, "write", j->path) : det_ok(err);
}

int journal_open(const char *path, struct journal **out, det_err *err)
{
    struct stat st = {0};
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); // a pipe must not hold us
    if (fd < 0) return fs_fail(err, "open", path);
    struct journal *j = journal_new(path, fd);
    int rc = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = det_fail(err, DET_ESTATE, "'%s' is being written", path);
    else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        rc = det_fail(err, DET_ECORRUPT, "'%s' is not a regular file of one name", path);
    if (!rc) {
        j->size = st.st_size;
        rc = scan(j, err);
    }
    if (rc)
        journal_close(j);
    else
        *out = j;
    return rc;
}
