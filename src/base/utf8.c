// Unit utf8.c: decodes UTF-8. Used by every reader that turns bytes into strings.
#include "base/utf8.h"

#include "base/assert.h"

static int sequence_len(unsigned char lead)
{
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 0;
}

static int32_t decode(const unsigned char *p, int len)
{
    static const int32_t lead_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    static const int32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    int32_t point = p[0] & lead_mask[len];
    for (int i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80) return -1;
        point = point << 6 | (p[i] & 0x3F);
    }
    bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    return point < smallest[len] || point > 0x10FFFF || surrogate ? -1 : point;
}

int32_t utf8_next(struct str *rest)
{
    ASSERT(rest->len > 0);
    const unsigned char *p = (const unsigned char *)rest->ptr;
    int len = sequence_len(p[0]);
    int32_t point = len && (size_t)len <= rest->len ? decode(p, len) : -1;
    if (point < 0) len = 1;
    rest->ptr += len;
    rest->len -= (size_t)len;
    return point;
}

bool utf8_is_control(int32_t point)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {
        {0x00, 0x1F},     {0x7F, 0x9F},     {0x061C, 0x061C}, {0x200E, 0x200F},
        {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && point >= ranges[i].first; i++)
        if (point <= ranges[i].last) return true;
    return false;
}

bool utf8_has_control(struct str s)
{
    while (s.len) {
        int32_t c = utf8_next(&s);
        if (c < 0 || utf8_is_control(c)) return true;
    }
    return false;
}

bool utf8_valid(struct str s)
{
    while (s.len)
        if (utf8_next(&s) < 0) return false;
    return true;
}
