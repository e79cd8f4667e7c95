// master/feed.h: answers that are made piece by piece, each by a thread that reads, when the client
// has taken the one before: long lists, logs that are followed. So they cost the loop nothing, and
// never more memory than a piece. Private to the layer.
//
//     static int read_list(struct http_request *req, det_err *err)      // a row's read
//     {
//         struct feed *f = feed_new(req, &(struct feed_opts){.next = next_piece});
//         f->source = ...                                               // in f->arena
//         return feed_begin(f, err);                                    // answers if it is short
//     }
//     {HTTP_GET, "/list", .read = read_list, .handle = feed_answer},
#pragma once

#include "master/api.h"

enum { FEED_PIECE_BYTES = 256 << 10 }; // a piece has hardly more

enum feed_state {
    FEED_MORE,
    FEED_WAITS, // for feed_wake()
    FEED_ENDS,
};

struct feed;

struct feed_opts {
    // Appends the next piece to f->out and sets f->state. In a thread that reads; nothing but the
    // feed itself may be used.
    int (*next)(struct feed *f, struct db_reader *r, det_err *err);
    void (*before)(struct feed *f); // in the loop's thread, before each next; NULL: nothing
    void (*closed)(struct feed *f); // in the loop's thread, before it is freed; NULL: nothing
    enum http_content content;
};

struct feed {
    struct feed_opts opts;
    struct master *master;
    struct arena arena; // as long as the feed
    void *source;       // whatever next needs
    struct buf out;
    enum feed_state state;
    // Private.
    struct http_request *req;   // until it is answered
    struct http_stream *stream; // NULL: there is none yet, or none any more
    int64_t who;
    bool runs, woken, wanted, is_closed;
    int rc;
    det_err err;
};

// In a row's read. Belongs to the request until that is answered.
struct feed *feed_new(struct http_request *req, const struct feed_opts *opts);

// Makes the first piece; it may be left to feed_answer(), if there is something before it. If it is
// the last one, too, it is the answer. Return it.
int feed_begin(struct feed *f, det_err *err);

// A row's handle: the pieces, as a stream.
int feed_answer(struct http_request *req, det_err *err);

void feed_wake(struct feed *f); // there may be something new
