// Unit feed.c: the life of a feed.
//
//     begin (reads) --> answer (loop) --> [the client takes a piece --> next (reads)] ... -->
//     closed
//
// next runs while the transport waits for it, so there is one piece at a time. A stream of events
// may be closed meanwhile: then the feed is freed when next is done.
#include "master/feed.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/log.h"

enum { MAX_PIECE = 64 << 20 }; // one record may be large

static void free_feed(void *feed)
{
    struct feed *f = feed;
    if (f->opts.closed) f->opts.closed(f);
    buf_done(&f->out);
    arena_done(&f->arena);
    free(f);
}

struct feed *feed_new(struct http_request *req, const struct feed_opts *opts)
{
    struct feed *f = xcalloc(1, sizeof *f);
    f->opts = *opts;
    f->master = req->user;
    f->req = req;
    f->who = api_who(req);
    f->out = BUF_INIT(MAX_PIECE);
    req->found = f;
    req->drop = free_feed;
    return f;
}

int feed_begin(struct feed *f, det_err *err)
{
    int rc = f->opts.next(f, f->req->reader, err);
    if (rc || f->state != FEED_ENDS || f->opts.content != HTTP_JSON) return rc;
    http_reply_json(f->req, 200, &f->out);
    return 0;
}

// --- on the loop

static void run(struct feed *f);

static void work(void *job, void *own)
{
    struct feed *f = job;
    f->rc = f->opts.next(f, own, &f->err);
}

// False: it is over.
static bool send(struct feed *f)
{
    struct http_stream *stream = f->stream;
    if (f->rc || !buf_ok(&f->out)) {
        log_warn("an answer was broken off: %s", f->rc ? f->err.msg : "a record is too large");
        http_stream_break(stream);
        return false;
    }
    if (f->out.len) {
        f->wanted = false;
        http_stream_write(stream, buf_str(&f->out));
        buf_done(&f->out); // those who wait must not hold on to memory
        f->out.max = MAX_PIECE;
    }
    if (f->state != FEED_ENDS) return true;
    http_stream_end(stream);
    return false;
}

static void done(void *job)
{
    struct feed *f = job;
    f->runs = false;
    if (f->is_closed)
        free_feed(f);
    else if (send(f))
        run(f);
}

// If the client wants more and there may be more.
static void run(struct feed *f)
{
    if (f->runs || !f->wanted || (f->state == FEED_WAITS && !f->woken)) return;
    f->runs = true;
    f->woken = false;
    f->state = FEED_MORE;
    if (f->opts.before) f->opts.before(f);
    worker_run(f->master->workers[WORK_READ], &(struct work){work, done, f, f->who});
}

static void pull(void *ctx, struct http_stream *stream)
{
    struct feed *f = ctx;
    f->stream = stream;
    f->wanted = true;
    if (f->out.len || f->state == FEED_ENDS)
        send(f); // the first piece
    else
        run(f);
}

static void closed(void *ctx)
{
    struct feed *f = ctx;
    f->is_closed = true;
    f->stream = NULL;
    if (!f->runs) free_feed(f);
}

int feed_answer(struct http_request *req, det_err *err)
{
    struct feed *f = req->found;
    (void)err;
    req->found = NULL; // the stream has it now
    req->drop = NULL;
    f->req = NULL;
    http_stream_start(req,
                      &(struct http_stream_opts){.content_type = http_content_type(f->opts.content),
                                                 .pull = pull,
                                                 .closed = closed,
                                                 .ctx = f,
                                                 .max_queue = MAX_PIECE});
    return 0;
}

void feed_wake(struct feed *f)
{
    f->woken = true;
    run(f);
}
