// Unit liner.c: cuts the output of a rank into lines. Called by the shim.
#include "task/shim.h"

#include "base/assert.h"
#include "sys/clock.h"
#include <ctype.h>
#include <string.h>

enum {
    PARTIAL_US = 1000000,   // a line that does not go on is shown after a second,
    PROGRESS_US = 10000000, // one that is drawn again and again, less often
};

void liner_init(struct liner *l, struct spool *spool, enum task_stream stream, int64_t rank,
                bool prefix)
{
    *l = (struct liner){.spool = spool,
                        .stream = stream,
                        .rank = rank,
                        .prefix = prefix,
                        .pending = BUF_INIT(LOG_LINE_BYTES)};
}

void liner_done(struct liner *l)
{
    buf_done(&l->pending);
}

// What a terminal would show: a carriage return starts the line again.
static struct str visible(struct str line)
{
    while (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    const char *last = line.len ? memrchr(line.ptr, '\r', line.len) : NULL;
    if (!last) return line;
    return (struct str){last + 1, line.len - (size_t)(last + 1 - line.ptr)};
}

// Rules such as ===== say nothing.
static bool has_words(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (isalnum((unsigned char)text.ptr[i]) || (unsigned char)text.ptr[i] >= 0x80) return true;
    return false;
}

static void remember(struct liner *l, struct str text)
{
    size_t n = MIN(text.len, LINER_SAID_BYTES);
    if (!has_words(text)) return;
    memcpy(l->said, text.ptr, n);
    l->said[n] = 0;
}

const char *liner_last_words(struct liner *l)
{
    if (!l->inside) remember(l, visible(buf_str(&l->pending)));
    return l->said;
}

static void write_line(struct liner *l, struct str text, bool partial)
{
    enum { PREFIX_BYTES = 32 };
    char prefixed[LOG_LINE_BYTES + PREFIX_BYTES];
    text = visible(text);
    ASSERT(text.len <= LOG_LINE_BYTES);
    if (!l->inside) remember(l, text);
    if (l->prefix && !l->inside) {
        int n = snprintf(prefixed, PREFIX_BYTES, "[rank=%lld] ", (long long)l->rank);
        if (text.len) memcpy(prefixed + n, text.ptr, text.len);
        text = (struct str){prefixed, text.len + (size_t)n};
    }
    const struct task_line line = {.time_us = clock_unix_us(),
                                   .rank = l->rank,
                                   .stream = l->stream,
                                   .partial = partial,
                                   .text = text};
    spool_add(l->spool, &line);
    l->inside = partial;
}

void liner_flush(struct liner *l, bool partial)
{
    if (!l->pending.len) return;
    write_line(l, buf_str(&l->pending), partial);
    buf_clear(&l->pending);
}

// Appends to what is pending, and writes that whenever it is full.
static void add_pending(struct liner *l, struct str bytes, int64_t now_us)
{
    while (bytes.len) {
        size_t n = MIN(bytes.len, LOG_LINE_BYTES - l->pending.len);
        if (!l->pending.len) l->since_us = now_us;
        buf_add(&l->pending, bytes.ptr, n);
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
        if (l->pending.len == LOG_LINE_BYTES) liner_flush(l, true);
    }
}

void liner_add(struct liner *l, struct str bytes, int64_t now_us)
{
    while (bytes.len) {
        const char *newline = memchr(bytes.ptr, '\n', bytes.len);
        size_t n = newline ? (size_t)(newline - bytes.ptr) : bytes.len;
        add_pending(l, (struct str){bytes.ptr, n}, now_us);
        if (!newline) return;
        write_line(l, buf_str(&l->pending), false);
        buf_clear(&l->pending);
        bytes = (struct str){bytes.ptr + n + 1, bytes.len - n - 1};
    }
}

int64_t liner_due_us(const struct liner *l)
{
    if (!l->pending.len) return INT64_MAX;
    bool progress = memchr(l->pending.ptr, '\r', l->pending.len);
    return l->since_us + (progress ? PROGRESS_US : PARTIAL_US);
}
