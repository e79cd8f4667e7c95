// base/buf.h: text or bytes being built, never larger than a maximum given at the start.
//   BUF_INIT(max)  buf_done  buf_clear  buf_add  buf_addz  buf_addc  buf_printf  buf_str
//   buf_ok  buf_take
//
// Appending past the maximum drops the piece and marks the buf as overflowed; callers ask once, at
// the end, with buf_ok(). The content is always followed by a NUL that is not counted.
#pragma once

#include "base/str.h"
#include <stdarg.h>

struct buf {
    char *ptr;
    size_t len, cap, max;
    bool overflowed;
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

void buf_done(struct buf *b);
void buf_clear(struct buf *b); // empty again, memory kept
void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_addz(struct buf *b, const char *z);
void buf_addc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list args);
bool buf_ok(const struct buf *b); // nothing was dropped
struct str buf_str(const struct buf *b);
char *buf_take(struct buf *b); // the NUL-terminated content, to be freed by the caller; b is empty
