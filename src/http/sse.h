// http/sse.h: reads lines and server-sent events from pieces of any size.
#pragma once

#include "http/http.h"

// Splits at \n, \r\n and \r, whatever the pieces. What is left at the end is a line too, for those
// who call line_reader_end().
struct line_reader {
    struct buf line;
    bool after_cr;
    http_line_fn on_line;
    void *ctx;
};

enum { LINE_MAX_BYTES = 16 << 20 };

// False: the callback wants no more, or (then line.overflowed) a line is too long.
bool line_reader_add(struct line_reader *r, struct str piece);
bool line_reader_end(struct line_reader *r);
void line_reader_done(struct line_reader *r);

// To be fed with lines: on_line = sse_add_line, ctx = the reader.
struct sse_reader {
    struct buf id, type, data;
    bool has_data;
    http_event_fn on_event;
    void *ctx;
};

void sse_init(struct sse_reader *r, http_event_fn on_event, void *ctx);
bool sse_add_line(void *reader, struct str line);
void sse_done(struct sse_reader *r);
