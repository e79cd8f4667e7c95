// Unit utf8.c: checks UTF-8. Used by every reader that turns bytes into strings.
#include "base/utf8.h"

#include <stdint.h>

// What may follow a lead byte: the range of the second byte and how many further ones there are.
struct lead {
    uint8_t first, last; // lead bytes
    uint8_t low, high;   // second byte
    uint8_t n_more;      // bytes after the second
};

static const struct lead leads[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
    {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
    {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2},
};

static const struct lead *lead_find(uint8_t byte)
{
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
        if (byte >= leads[i].first && byte <= leads[i].last) return &leads[i];
    return NULL;
}

bool utf8_valid(struct str s)
{
    const uint8_t *p = (const uint8_t *)s.ptr, *end = p + s.len;
    while (p < end) {
        if (*p++ < 0x80) continue;
        const struct lead *lead = lead_find(p[-1]);
        if (!lead || end - p < 1 + lead->n_more) return false;
        if (*p < lead->low || *p > lead->high) return false;
        p++;
        for (int i = 0; i < lead->n_more; i++)
            if ((*p++ & 0xC0) != 0x80) return false;
    }
    return true;
}
