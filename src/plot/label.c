// Unit label.c: texts of users in pictures. Called by text.c and svg.c.
#include "plot/frame.h"

#include "base/safe.h"
#include "base/utf8.h"

static int width_of(struct str text)
{
    int n = 0;
    for (; text.len; n++)
        utf8_next(&text);
    return n;
}

int label_add(struct buf *out, const char *text, int most)
{
    struct buf safe = BUF_INIT(1 << 20);
    safe_add(&safe, str_from(text), SAFE_LINE);
    struct str rest = buf_str(&safe);
    int n = 0;
    const bool fits = width_of(rest) <= most;
    while (rest.len && n < (fits ? most : most - 3)) {
        const char *from = rest.ptr;
        utf8_next(&rest);
        buf_add(out, from, (size_t)(rest.ptr - from));
        n++;
    }
    if (!fits) buf_addz(out, "...");
    buf_done(&safe);
    return fits ? n : most;
}
