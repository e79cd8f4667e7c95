// Unit safe.c: safe_add(). Called for all that the programs print (args/print.c) and log
// (sys/log.c).
#include "base/safe.h"

#include "base/utf8.h"

enum { MAX_COLOUR_BYTES = 64 };

// The length of "ESC [ numbers m" at the front, which sets colours; 0: it is something else.
static size_t colour_len(struct str text)
{
    size_t n = 2;
    if (text.len < 3 || text.ptr[0] != '\033' || text.ptr[1] != '[') return 0;
    while (n < text.len && n < MAX_COLOUR_BYTES && strchr("0123456789;:", text.ptr[n]) &&
           text.ptr[n])
        n++;
    return n < text.len && text.ptr[n] == 'm' ? n + 1 : 0;
}

static bool is_kept(int32_t c, struct str rest, enum safe_keep keep)
{
    bool ends_line = c == '\r' && rest.len && rest.ptr[0] == '\n';
    return keep != SAFE_LINE && (c == '\n' || c == '\t' || ends_line);
}

static void add_shown(struct buf *out, int32_t c, unsigned char byte)
{
    if (c == '\n' || c == '\r' || c == '\t')
        buf_addc(out, ' ');
    else if (c < 0x80)
        buf_printf(out, "\\x%02x", c < 0 ? byte : (unsigned)c);
    else
        buf_printf(out, "\\u%04x", (unsigned)c);
}

void safe_add(struct buf *out, struct str text, enum safe_keep keep)
{
    bool coloured = false;
    struct str good = {text.ptr, 0}; // what needs no change goes out in one piece
    while (text.len) {
        const char *at = text.ptr;
        size_t n_colour = keep == SAFE_COLOURS ? colour_len(text) : 0;
        int32_t c = utf8_next(&text);
        if (n_colour) {
            text = (struct str){at + n_colour, text.len - (n_colour - 1)};
            coloured = true;
        }
        bool ends_colour = coloured && c == '\n'; // those of a line are not those of the next one
        bool plain = c >= 0 && (!utf8_is_control(c) || is_kept(c, text, keep));
        if ((plain && !ends_colour) || n_colour) {
            good.len += (size_t)(text.ptr - at);
            continue;
        }
        buf_add(out, good.ptr, good.len);
        if (ends_colour)
            buf_addz(out, "\033[0m\n");
        else
            add_shown(out, c, (unsigned char)*at);
        coloured = coloured && !ends_colour;
        good = (struct str){text.ptr, 0};
    }
    buf_add(out, good.ptr, good.len);
    if (coloured) buf_addz(out, "\033[0m");
}
