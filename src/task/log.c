// Unit log.c: reads the log of a task, while it is being written or later.
#include "task/log.h"

#include "base/assert.h"
#include "base/number.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 1 << 20 };

// Letters of the streams; capital: partial.
static const char letters[] = "oesu";

size_t log_format_head(const struct task_line *line, char out[LOG_HEAD_BYTES])
{
    char letter = letters[line->stream];
    if (line->partial) letter -= 'a' - 'A';
    return (size_t)snprintf(out, LOG_HEAD_BYTES, "%lld %lld %c ", (long long)line->time_us,
                            (long long)line->rank, letter);
}

static bool parse_letter(struct str text, struct task_line *out)
{
    if (text.len != 1 || !text.ptr[0]) return false;
    const char *letter = strchr(letters, text.ptr[0] | ('a' - 'A'));
    if (!letter) return false;
    out->stream = (enum task_stream)(letter - letters);
    out->partial = *letter != text.ptr[0];
    return true;
}

struct task_line log_parse_line(struct str line)
{
    struct task_line out = {0};
    struct str rest = line;
    bool good = number_to_int(str_cut(&rest, ' '), 10, &out.time_us) &&
                number_to_int(str_cut(&rest, ' '), 10, &out.rank) &&
                parse_letter(str_cut(&rest, ' '), &out) && rest.ptr;
    out.text = rest;
    if (good) return out;
    return (struct task_line){.rank = -1, .stream = TASK_SHIM, .text = line};
}

void log_file_name(int64_t position, char out[LOG_NAME_BYTES])
{
    snprintf(out, LOG_NAME_BYTES, "log.%015lld", (long long)position);
}

// False if it is another name.
static bool log_file_position(const char *name, int64_t *out)
{
    struct str text = str_from(name), prefix = STR("log.");
    struct str digits = {text.ptr + prefix.len, text.len - prefix.len};
    return text.len == LOG_NAME_BYTES - 1 && str_starts(text, prefix) &&
           number_to_int(digits, 10, out) && *out >= 0;
}

// The file to read at offset: the last that begins at or before it, or else the first there is.
struct source {
    char name[LOG_NAME_BYTES]; // empty: there is none
    int64_t begin;
    int64_t next; // where the file behind it begins; -1: it is the last one
};

// Names are sorted, so positions are, too.
static int find_source(int dir, const char *path, int64_t offset, struct source *out, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries entries = {0};
    struct source s = {.next = -1};
    int64_t begin;
    int rc = dir_list(dir, path, &arena, &entries, err);
    for (size_t i = 0; !rc && i < entries.n; i++) {
        if (!log_file_position(entries.items[i].name, &begin)) continue;
        if (s.name[0] && begin > offset) {
            s.next = begin;
            break;
        }
        snprintf(s.name, sizeof s.name, "%s", entries.items[i].name);
        s.begin = begin;
    }
    *out = s;
    arena_done(&arena);
    return rc;
}

// At most a page, from position at of the file on.
static int read_text(int fd, int64_t at, struct arena *arena, struct str *out)
{
    struct stat st;
    size_t done = 0;
    if (fstat(fd, &st) < 0) return -1;
    size_t n = (size_t)MAX(0, MIN(st.st_size - at, PAGE_BYTES));
    char *text = arena_alloc(arena, n);
    while (done < n) {
        ssize_t got = pread(fd, text + done, n - done, (off_t)at + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    *out = (struct str){text, done};
    return 0;
}

// Complete lines only: what is behind the last newline is left for later. Returns the bytes used.
static int64_t split_lines(struct str text, struct arena *arena, struct task_page *out)
{
    size_t n = 0, used = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    bool endless = n == 0 && text.len == PAGE_BYTES; // none of our lines, but it must not stop us
    out->lines.items = arena_array(arena, n + endless, sizeof *out->lines.items);
    for (struct str rest = text; out->lines.n < n + endless;) {
        struct str line = str_cut(&rest, '\n');
        out->lines.items[out->lines.n++] = log_parse_line(line);
        used += line.len + 1;
    }
    return (int64_t)MIN(used, text.len);
}

static int read_page(int dir, const char *path, int64_t offset, struct arena *arena,
                     struct task_page *out, det_err *err)
{
    struct source source;
    struct str text;
    int fd;
    *out = (struct task_page){.next = offset};
    int rc = find_source(dir, path, offset, &source, err);
    if (rc || !source.name[0]) return rc;
    out->n_lost_bytes = MAX(0, source.begin - offset);
    offset = MAX(offset, source.begin);
    rc = dir_open_file(dir, source.name, &fd, err);
    if (rc) return rc;
    if (read_text(fd, offset - source.begin, arena, &text))
        rc = fs_fail(err, "read the log in", path);
    else
        out->next = offset + split_lines(text, arena, out);
    close(fd);
    // Nothing more comes in a file that has a successor, not even the rest of a line.
    if (!rc && !out->lines.n && source.next >= 0) out->next = source.next;
    return rc;
}

int task_log_read(const char *dir, int64_t offset, struct arena *arena, struct task_page *out,
                  det_err *err)
{
    struct task_page page = {.next = offset};
    int64_t n_lost = 0, before;
    int fd, rc = dir_open(dir, 0, &fd, err);
    if (rc) return rc;
    do { // from the end of a file on to the next
        before = page.next;
        rc = read_page(fd, dir, before, arena, &page, err);
        if (rc == DET_ENOTFOUND) rc = read_page(fd, dir, before, arena, &page, err); // just removed
        n_lost += rc ? 0 : page.n_lost_bytes;
    } while (!rc && !page.lines.n && page.next != before);
    close(fd);
    if (rc) return rc;
    page.n_lost_bytes = n_lost;
    *out = page;
    return det_ok(err);
}

// The last piece is being written, and stays.
void task_log_trim(const char *dir, int64_t offset)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries entries = {0};
    const char *before = NULL;
    int64_t begin;
    int fd;
    if (offset <= 0 || dir_open(dir, 0, &fd, NULL)) return;
    if (!dir_list(fd, dir, &arena, &entries, NULL))
        for (size_t i = 0; i < entries.n; i++) {
            if (!log_file_position(entries.items[i].name, &begin)) continue;
            if (begin > offset) break;
            if (before) unlinkat(fd, before, 0);
            before = entries.items[i].name;
        }
    close(fd);
    arena_done(&arena);
}
