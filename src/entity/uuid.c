// Unit uuid.c: RFC 4122 identifiers as text.
#include "entity/entity.h"

#include "base/assert.h"

struct uuid uuid_v4(const uint8_t random[16])
{
    struct uuid id;
    memcpy(id.bytes, random, sizeof id.bytes);
    id.bytes[6] = (id.bytes[6] & 0x0F) | 0x40;
    id.bytes[8] = (id.bytes[8] & 0x3F) | 0x80;
    return id;
}

static bool has_dash_before(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void uuid_format(struct uuid id, char out[UUID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    char *p = out;
    for (int i = 0; i < 16; i++) {
        if (has_dash_before(i)) *p++ = '-';
        *p++ = digits[id.bytes[i] >> 4];
        *p++ = digits[id.bytes[i] & 15];
    }
    *p = 0;
}

static int nibble(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *hit = c ? strchr(digits, c) : NULL;
    return hit ? (int)(hit - digits) % 16 : -1;
}

int uuid_parse(const char *text, struct uuid *out, det_err *err)
{
    struct uuid id;
    const char *p = text;
    bool good = strlen(text) == UUID_TEXT_BYTES - 1;
    for (int i = 0; good && i < 16; i++) {
        if (has_dash_before(i)) good = *p++ == '-';
        int high = nibble(p[0]), low = nibble(p[1]);
        good = good && high >= 0 && low >= 0;
        if (good) id.bytes[i] = (uint8_t)(high << 4 | low);
        p += 2;
    }
    if (!good) return det_fail(err, DET_EINVAL, "'%.60s' is not a UUID", text);
    *out = id;
    return det_ok(err);
}
