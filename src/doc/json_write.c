// Unit json_write.c: json_writer, text straight into a buf.
#include "doc/json.h"

#include "base/assert.h"
#include "base/number.h"
#include "base/utf8.h"
#include <math.h>

void json_init(struct json_writer *w, struct buf *out, int indent)
{
    *w = (struct json_writer){.out = out, .indent = indent};
}

static void new_line(struct json_writer *w)
{
    if (!w->indent) return;
    buf_addc(w->out, '\n');
    for (int i = 0; i < w->depth * w->indent; i++)
        buf_addc(w->out, ' ');
}

// What stands between the previous item and the next one.
static void separate(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->has_items) buf_addc(w->out, ',');
    if (w->depth) new_line(w);
    w->has_items = true;
}

static void open_with(struct json_writer *w, char opener, char closer)
{
    ASSERT(w->depth < JSON_WRITER_DEPTH);
    separate(w);
    buf_addc(w->out, opener);
    w->closer[w->depth++] = closer;
    w->has_items = false;
}

void json_open_map(struct json_writer *w)
{
    open_with(w, '{', '}');
}

void json_open_list(struct json_writer *w)
{
    open_with(w, '[', ']');
}

void json_close(struct json_writer *w)
{
    ASSERT(w->depth > 0 && !w->after_key);
    w->depth--;
    if (w->has_items) new_line(w);
    buf_addc(w->out, w->closer[w->depth]);
    w->has_items = true;
}

static void add_escaped(struct buf *out, int32_t c)
{
    static const char names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *hit = c && c < 0x80 ? strchr(names, c) : NULL;
    if (hit)
        buf_printf(out, "\\%c", letters[hit - names]);
    else
        buf_printf(out, "\\u%04x", (unsigned)c);
}

static void add_quoted(struct buf *out, struct str rest)
{
    buf_addc(out, '"');
    struct str good = {rest.ptr, 0}; // what needs no change goes out in one piece
    while (rest.len) {
        const char *at = rest.ptr;
        int32_t c = utf8_next(&rest);
        bool plain = c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !utf8_is_control(c));
        if (plain) {
            good.len += (size_t)(rest.ptr - at);
            continue;
        }
        buf_add(out, good.ptr, good.len);
        if (c < 0)
            buf_addz(out, "\xEF\xBF\xBD");
        else
            add_escaped(out, c);
        good = (struct str){rest.ptr, 0};
    }
    buf_add(out, good.ptr, good.len);
    buf_addc(out, '"');
}

void json_keyn(struct json_writer *w, struct str key)
{
    ASSERT(w->depth > 0 && w->closer[w->depth - 1] == '}' && !w->after_key);
    separate(w);
    add_quoted(w->out, key);
    buf_addz(w->out, w->indent ? ": " : ":");
    w->after_key = true;
}

void json_key(struct json_writer *w, const char *key)
{
    json_keyn(w, str_from(key));
}

void json_put_null(struct json_writer *w)
{
    separate(w);
    buf_addz(w->out, "null");
}

void json_put_bool(struct json_writer *w, bool value)
{
    separate(w);
    buf_addz(w->out, value ? "true" : "false");
}

void json_put_int(struct json_writer *w, int64_t value)
{
    separate(w);
    buf_add_int(w->out, value);
}

void json_put_double(struct json_writer *w, double value)
{
    separate(w);
    if (isnan(value))
        buf_addz(w->out, "\"NaN\"");
    else if (isinf(value))
        buf_addz(w->out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        buf_add_double(w->out, value);
}

void json_put_rounded(struct json_writer *w, double value)
{
    separate(w);
    if (isfinite(value))
        buf_add_rounded(w->out, value);
    else
        buf_addz(w->out, "null");
}

void json_put_strn(struct json_writer *w, struct str text)
{
    separate(w);
    add_quoted(w->out, text);
}

void json_put_str(struct json_writer *w, const char *text)
{
    if (text)
        json_put_strn(w, str_from(text));
    else
        json_put_null(w);
}

void json_put_json(struct json_writer *w, struct str json)
{
    separate(w);
    buf_add(w->out, json.ptr, json.len);
}

void json_put_doc(struct json_writer *w, const struct doc *doc)
{
    switch (doc->kind) {
    case DOC_NULL:
        json_put_null(w);
        return;
    case DOC_BOOL:
        json_put_bool(w, doc->boolean);
        return;
    case DOC_INT:
        json_put_int(w, doc->integer);
        return;
    case DOC_DOUBLE:
        json_put_double(w, doc->number);
        return;
    case DOC_STR:
        json_put_strn(w, doc->text);
        return;
    case DOC_LIST:
    case DOC_MAP:
        break;
    }
    (doc->kind == DOC_MAP ? json_open_map : json_open_list)(w);
    for (const struct doc *e = doc->first; e; e = e->next) {
        if (doc->kind == DOC_MAP) json_keyn(w, e->key);
        json_put_doc(w, e);
    }
    json_close(w);
}
