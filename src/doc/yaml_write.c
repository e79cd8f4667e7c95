// Unit yaml_write.c: yaml_write(). Careful about quotes: what is written must read back as the same
// value, by readers of YAML 1.1 too.
#include "doc/yaml.h"

#include "base/number.h"
#include "base/utf8.h"
#include "doc/yaml_scalar.h"
#include <math.h>

enum { INDENT = 2, SIMPLE_KEY_MAX = 512 }; // readers give up on simple keys over 1024 characters

static void new_line(struct buf *out, int indent)
{
    buf_addc(out, '\n');
    for (int i = 0; i < indent; i++)
        buf_addc(out, ' ');
}

static bool is_printable(int32_t c)
{
    return c >= 0 && !utf8_is_control(c) && c != 0xFFFE && c != 0xFFFF;
}

static bool all_printable(struct str text, int32_t besides)
{
    while (text.len) {
        int32_t c = utf8_next(&text);
        if (!is_printable(c) && c != besides) return false;
    }
    return true;
}

// Can the text stand there as it is, and be taken for nothing but text?
static bool is_plain(struct str text)
{
    if (!text.len || !all_printable(text, -2)) return false;
    char first = text.ptr[0], last = text.ptr[text.len - 1];
    if (strchr("-?:,[]{}#&*!|>'\"%@`=<+0123456789~ ", first)) return false;
    if (first == '.' && (text.len == 1 || strchr(".0123456789", text.ptr[1]))) return false;
    if (last == ' ' || last == ':') return false;
    if (memmem(text.ptr, text.len, ": ", 2) || memmem(text.ptr, text.len, " #", 2)) return false;
    struct doc as = {.kind = DOC_NULL};
    return yaml_resolve(text, &as) && as.kind == DOC_STR && !yaml_1_1_meaning(text);
}

static void add_quoted(struct buf *out, struct str text)
{
    static const char names[] = "\n\t\r\"\\", letters[] = "ntr\"\\";
    buf_addc(out, '"');
    while (text.len) {
        const char *at = text.ptr;
        int32_t c = utf8_next(&text);
        const char *name = c > 0 && c < 0x80 ? strchr(names, c) : NULL;
        if (c < 0)
            buf_addz(out, "\xEF\xBF\xBD");
        else if (name)
            buf_printf(out, "\\%c", letters[name - names]);
        else if (is_printable(c))
            buf_add(out, at, (size_t)(text.ptr - at));
        else
            buf_printf(out, "\\u%04X", (unsigned)c);
    }
    buf_addc(out, '"');
}

// A text of several lines is best read as such. Blanks at its start, or more than one line break at
// its end, would need notation that few people know.
static bool is_block(struct str text)
{
    const char *line_break = memchr(text.ptr, '\n', text.len);
    if (!line_break || strchr(" \n", text.ptr[0]) || !all_printable(text, '\n')) return false;
    return text.len < 2 || memcmp(text.ptr + text.len - 2, "\n\n", 2) != 0;
}

static void add_block(struct buf *out, struct str text, int indent)
{
    bool ends_with_break = text.ptr[text.len - 1] == '\n';
    buf_addz(out, ends_with_break ? "|" : "|-");
    if (ends_with_break) text.len--;
    while (text.ptr) {
        struct str line = str_cut(&text, '\n');
        new_line(out, line.len ? indent : 0);
        buf_add(out, line.ptr, line.len);
    }
}

static void add_double(struct buf *out, double value)
{
    if (isfinite(value))
        buf_add_double(out, value);
    else
        buf_addz(out, isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf");
}

static void add_text(struct buf *out, struct str text)
{
    if (is_plain(text))
        buf_add(out, text.ptr, text.len);
    else
        add_quoted(out, text);
}

static void add_scalar(struct buf *out, const struct doc *d, int indent)
{
    if (d->kind == DOC_BOOL)
        buf_addz(out, d->boolean ? "true" : "false");
    else if (d->kind == DOC_INT)
        buf_add_int(out, d->integer);
    else if (d->kind == DOC_DOUBLE)
        add_double(out, d->number);
    else if (d->kind == DOC_STR && d->text.len && is_block(d->text))
        add_block(out, d->text, indent);
    else if (d->kind == DOC_STR)
        add_text(out, d->text);
    else if (d->kind == DOC_NULL)
        buf_addz(out, "null");
    else
        buf_addz(out, d->kind == DOC_MAP ? "{}" : "[]");
}

static bool is_container(const struct doc *d)
{
    return d->kind >= DOC_LIST && d->n > 0;
}

static void add_entries(struct buf *out, const struct doc *d, int indent);

static void add_map_entry(struct buf *out, const struct doc *e, int indent)
{
    bool simple = e->key.len <= SIMPLE_KEY_MAX;
    if (!simple) buf_addz(out, "? ");
    add_text(out, e->key);
    if (!simple) new_line(out, indent);
    buf_addc(out, ':');
    if (!is_container(e)) {
        buf_addc(out, ' ');
        add_scalar(out, e, indent + INDENT);
        return;
    }
    int inner =
        e->kind == DOC_MAP ? indent + INDENT : indent; // a list needs no indentation in a map
    new_line(out, inner);
    add_entries(out, e, inner);
}

static void add_entries(struct buf *out, const struct doc *d, int indent)
{
    for (const struct doc *e = d->first; e; e = e->next) {
        if (e != d->first) new_line(out, indent);
        if (d->kind == DOC_MAP) {
            add_map_entry(out, e, indent);
            continue;
        }
        buf_addz(out, "- ");
        if (is_container(e))
            add_entries(out, e, indent + INDENT);
        else
            add_scalar(out, e, indent + INDENT);
    }
}

void yaml_write(const struct doc *doc, struct buf *out)
{
    if (is_container(doc))
        add_entries(out, doc, 0);
    else
        add_scalar(out, doc, INDENT);
    buf_addc(out, '\n');
}
