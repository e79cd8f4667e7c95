// Unit buf.c: growing text with a mandatory maximum.
#include "base/buf.h"

#include "base/assert.h"
#include "base/mem.h"

struct str str_cut(struct str *rest, char sep)
{
    struct str head = *rest;
    const char *hit = rest->len ? memchr(rest->ptr, sep, rest->len) : NULL;
    if (!hit) {
        *rest = (struct str){NULL, 0};
        return head;
    }
    head.len = (size_t)(hit - head.ptr);
    rest->ptr = hit + 1;
    rest->len -= head.len + 1;
    return head;
}

void buf_done(struct buf *b)
{
    if (!b) return;
    free(b->ptr);
    *b = BUF_INIT(b->max);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->overflowed = false;
    if (b->ptr) b->ptr[0] = 0;
}

// Makes room for n more bytes and the NUL.
static bool buf_reserve(struct buf *b, size_t n)
{
    if (n > b->max || b->len > b->max - n) {
        b->overflowed = true;
        return false;
    }
    size_t want = b->len + n + 1;
    if (want <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want)
        cap *= 2;
    b->ptr = xrealloc(b->ptr, cap);
    b->cap = cap;
    return true;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    if (!buf_reserve(b, n)) return;
    if (n) memcpy(b->ptr + b->len, bytes, n);
    b->len += n;
    b->ptr[b->len] = 0;
}

void buf_addz(struct buf *b, const char *z)
{
    buf_add(b, z, strlen(z));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    ASSERT(n >= 0);
    if (buf_reserve(b, (size_t)n)) {
        vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vprintf(b, fmt, args);
    va_end(args);
}

bool buf_ok(const struct buf *b)
{
    return !b->overflowed;
}

struct str buf_str(const struct buf *b)
{
    return (struct str){b->ptr ? b->ptr : "", b->len};
}

char *buf_take(struct buf *b)
{
    char *z = b->ptr ? b->ptr : xstrdup("");
    *b = BUF_INIT(b->max);
    return z;
}
