// Unit stream.c: answers without a known end: a queue between who writes (the loop's thread, when
// something happens) and the transport (when the client can take more).
#include "http/exchange.h"

#include "base/assert.h"
#include "base/mem.h"

enum { HEARTBEAT_US = 15 * 1000000, KEPT_BYTES = 64 << 10 };

struct http_stream {
    struct exchange *x;
    struct http_stream_opts opts;
    struct buf queue;
    size_t n_taken; // bytes of queue that were sent
    bool ended, dropped, waits;
    char last[2];   // bytes that were taken last: an event ends with two line ends
    bool resyncing; // an event "resync" is at the end of the queue
    void (*wake)(void *transport);
    void *transport;
    struct loop_timer heartbeat; // of event streams
};

static void wake(struct http_stream *stream)
{
    if (!stream->waits) return;
    stream->waits = false;
    stream->wake(stream->transport);
}

static void beat(void *ctx)
{
    struct http_stream *stream = ctx;
    if (stream->waits) http_stream_write(stream, STR(":\n\n"));
    loop_timer_set(stream->x->loop, &stream->heartbeat, HEARTBEAT_US);
}

struct http_stream *http_stream_start(struct http_request *req, const struct http_stream_opts *opts)
{
    struct exchange *x = exchange_of(req);
    struct http_stream *stream = xcalloc(1, sizeof *stream);
    const char *type = http_content_type(req->route->content);
    stream->x = x;
    stream->opts = *opts;
    stream->queue.max = opts->max_queue ? opts->max_queue : HTTP_MAX_QUEUE;
    if (opts->content_type) type = arena_strdup(&x->arena, opts->content_type);
    x->reply.status = 200;
    x->reply.content_type = type;
    x->reply.stream = stream;
    http_set_header(req, "Cache-Control", "no-store");
    if (str_starts(str_from(type), str_from(http_content_type(HTTP_EVENTS)))) {
        stream->heartbeat = (struct loop_timer){.fn = beat, .ctx = stream};
        loop_timer_set(x->loop, &stream->heartbeat, HEARTBEAT_US);
    }
    reply_mark_answered(x);
    return stream;
}

// Forgets what was taken.
static void move_to_front(struct http_stream *stream)
{
    struct buf *queue = &stream->queue;
    queue->len -= stream->n_taken;
    if (queue->len) memmove(queue->ptr, queue->ptr + stream->n_taken, queue->len);
    stream->n_taken = 0;
}

size_t http_stream_queued(const struct http_stream *stream)
{
    return stream->queue.len - stream->n_taken;
}

// How many bytes of the queue belong to an event of which the client has taken a part.
static size_t rest_of_event(const struct http_stream *stream)
{
    const char *rest = stream->queue.ptr + stream->n_taken;
    size_t n = http_stream_queued(stream);
    if (!n || !stream->last[1] || !memcmp(stream->last, "\n\n", 2)) return 0;
    if (stream->last[1] == '\n' && rest[0] == '\n') return 1;
    const char *end = memmem(rest, n, "\n\n", 2);
    return end ? (size_t)(end - rest) + 2 : n;
}

// The client lags behind. The events that wait are thrown away, and so are all that come until it
// has taken this one: it will read everything again after them.
static void resync(struct http_stream *stream)
{
    struct buf kept = BUF_INIT(stream->queue.max);
    buf_add(&kept, stream->queue.ptr + stream->n_taken, rest_of_event(stream));
    buf_addz(&kept, "event: resync\ndata: {}\n\n");
    buf_done(&stream->queue);
    stream->queue = kept;
    stream->n_taken = 0;
    stream->resyncing = true;
}

void http_stream_write(struct http_stream *stream, struct str bytes)
{
    struct buf *queue = &stream->queue;
    if (stream->ended || stream->dropped || stream->resyncing) return;
    if (stream->n_taken == queue->len || queue->len + bytes.len > queue->max) move_to_front(stream);
    if (stream->opts.resyncs && queue->len + bytes.len > queue->max)
        resync(stream);
    else
        buf_add(queue, bytes.ptr, bytes.len);
    if (!buf_ok(queue)) stream->dropped = true;
    wake(stream);
}

void http_stream_end(struct http_stream *stream)
{
    stream->ended = true;
    wake(stream);
}

void http_stream_break(struct http_stream *stream)
{
    stream->dropped = true;
    wake(stream);
}

static void add_field(struct buf *out, const char *name, struct str value)
{
    buf_printf(out, "%s: ", name);
    for (size_t i = 0; i < value.len; i++) // a line end in it would begin another field
        buf_addc(out, value.ptr[i] == '\n' || value.ptr[i] == '\r' ? ' ' : value.ptr[i]);
    buf_addc(out, '\n');
}

void http_put_event(struct buf *out, const char *id, const char *event, struct str data)
{
    if (id) add_field(out, "id", str_from(id));
    if (event) add_field(out, "event", str_from(event));
    while (data.ptr)
        add_field(out, "data", str_cut(&data, '\n'));
    buf_addc(out, '\n');
}

void http_send_event(struct http_stream *stream, const char *id, const char *event, struct str data)
{
    struct buf text = BUF_INIT(stream->queue.max);
    http_put_event(&text, id, event, data);
    if (buf_ok(&text))
        http_stream_write(stream, buf_str(&text));
    else if (stream->opts.resyncs && !stream->resyncing)
        resync(stream);
    else
        stream->dropped = !stream->opts.resyncs;
    wake(stream);
    buf_done(&text);
}

// --- the transport's side

void stream_on_wake(struct http_stream *stream, void (*fn)(void *transport), void *transport)
{
    stream->wake = fn;
    stream->transport = transport;
}

enum stream_read stream_read(struct http_stream *stream, char *to, size_t max, size_t *n)
{
    struct buf *queue = &stream->queue;
    bool is_empty = stream->n_taken == queue->len;
    if (is_empty && !stream->ended && !stream->dropped && stream->opts.pull)
        stream->opts.pull(stream->opts.ctx, stream);
    if (stream->dropped) return STREAM_BROKEN;
    *n = MIN(max, queue->len - stream->n_taken);
    if (*n) {
        memcpy(to, queue->ptr + stream->n_taken, *n);
        stream->n_taken += *n;
        stream->last[0] = *n > 1 ? to[*n - 2] : stream->last[1];
        stream->last[1] = to[*n - 1];
        if (stream->n_taken == queue->len) stream->resyncing = false;
        return STREAM_BYTES;
    }
    if (queue->cap > KEPT_BYTES) { // thousands of quiet streams must not hold on to memory
        buf_done(queue);
        stream->n_taken = 0;
    }
    if (stream->ended) return STREAM_END;
    stream->waits = true;
    return STREAM_WAIT;
}

void stream_free(struct http_stream *stream)
{
    if (!stream) return;
    loop_timer_clear(stream->x->loop, &stream->heartbeat);
    if (stream->opts.closed) stream->opts.closed(stream->opts.ctx);
    buf_done(&stream->queue);
    free(stream);
}
