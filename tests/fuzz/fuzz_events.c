// Fuzz target events: lines and events do not depend on the pieces in which they arrive.
#include "fuzz.h"

#include "base/assert.h"
#include "http/sse.h"

static bool add_event(void *ctx, const struct http_event *e)
{
    buf_printf(ctx, "%s|%s|%.*s\n", e->id, e->type, STR_ARG(e->data));
    return true;
}

static struct buf read_in_pieces(const uint8_t *data, size_t size, size_t step)
{
    struct buf out = BUF_INIT(16 << 20);
    struct sse_reader events;
    sse_init(&events, add_event, &out);
    struct line_reader lines = {.line = BUF_INIT(1000), .on_line = sse_add_line, .ctx = &events};
    for (size_t i = 0; i < size; i += step)
        if (!line_reader_add(&lines, (struct str){(const char *)data + i, MIN(step, size - i)}))
            break;
    sse_done(&events);
    line_reader_done(&lines);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf bytewise = read_in_pieces(data, size, 1);
    struct buf large = read_in_pieces(data, size, 7);
    ASSERT(str_eq(buf_str(&bytewise), buf_str(&large)));
    buf_done(&bytewise);
    buf_done(&large);
    return 0;
}
