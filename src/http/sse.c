// Unit sse.c: lines, and the event stream format of the HTML standard. Called by client.c.
#include "http/sse.h"

enum { NAME_MAX_BYTES = 4096 };

static bool emit(struct line_reader *r)
{
    bool go_on = r->on_line(r->ctx, buf_str(&r->line));
    buf_clear(&r->line);
    return go_on;
}

bool line_reader_add(struct line_reader *r, struct str piece)
{
    for (size_t i = 0; i < piece.len; i++) {
        char c = piece.ptr[i];
        bool was_cr = r->after_cr;
        r->after_cr = c == '\r';
        if (c == '\n' && was_cr) continue; // the second half of a line end
        if (c != '\n' && c != '\r') {
            buf_addc(&r->line, c);
            continue;
        }
        if (!buf_ok(&r->line) || !emit(r)) return false;
    }
    return buf_ok(&r->line);
}

bool line_reader_end(struct line_reader *r)
{
    return !r->line.len || emit(r);
}

void line_reader_done(struct line_reader *r)
{
    buf_done(&r->line);
}

void sse_init(struct sse_reader *r, http_event_fn on_event, void *ctx)
{
    *r = (struct sse_reader){.id = BUF_INIT(NAME_MAX_BYTES),
                             .type = BUF_INIT(NAME_MAX_BYTES),
                             .data = BUF_INIT(LINE_MAX_BYTES),
                             .on_event = on_event,
                             .ctx = ctx};
}

void sse_done(struct sse_reader *r)
{
    buf_done(&r->id);
    buf_done(&r->type);
    buf_done(&r->data);
}

static void replace(struct buf *b, struct str text)
{
    buf_clear(b);
    buf_add(b, text.ptr, text.len);
}

static bool dispatch(struct sse_reader *r)
{
    bool go_on = true;
    if (r->has_data) {
        const struct http_event event = {.id = buf_str(&r->id).ptr,
                                         .type = r->type.len ? r->type.ptr : "message",
                                         .data = buf_str(&r->data)};
        go_on = r->on_event(r->ctx, &event);
    }
    r->has_data = false;
    buf_clear(&r->type);
    buf_clear(&r->data);
    return go_on;
}

bool sse_add_line(void *reader, struct str line)
{
    struct sse_reader *r = reader;
    if (!line.len) return dispatch(r);
    struct str value = line, name = str_cut(&value, ':');
    if (!value.ptr) value = STR("");
    if (value.len && value.ptr[0] == ' ') value = (struct str){value.ptr + 1, value.len - 1};
    if (str_eqz(name, "data")) {
        if (r->has_data) buf_addc(&r->data, '\n');
        buf_add(&r->data, value.ptr, value.len);
        r->has_data = true;
    } else if (str_eqz(name, "event")) {
        replace(&r->type, value);
    } else if (str_eqz(name, "id") && !memchr(value.ptr, 0, value.len)) {
        replace(&r->id, value);
    }
    return buf_ok(&r->data); // comments and other names mean nothing to us
}
