// http/guest.h: a connection as the server sees it, from its arrival to its end: where it comes
// from, whose it is, until when it must have made progress. Private to the layer.
#pragma once

#include "http/crowd.h"
#include "http/peer.h"
#include "http/slow.h"

struct MHD_Connection;
struct exchange;

struct guest {
    struct slow_client slow;
    struct seat seat;
    struct peer peer;
    struct MHD_Connection *connection;
    struct guest *prev_head, *next_head;
    bool has_head; // it is among guests.heads
};

struct guests {
    const struct http_server_opts *opts;
    struct slow_list slow;
    struct crowd crowd;
    struct guest *heads; // those whose request has begun, but is not known yet
    uint64_t n_crowded;  // had to go for others
};

int guests_init(struct guests *all, struct loop *loop, const struct http_server_opts *opts,
                det_err *err);
void guests_done(struct guests *all);
void guests_set_limits(struct guests *all, const struct http_limits *limits);

struct guest *guest_new(struct guests *all, struct MHD_Connection *connection);
void guest_free(struct guests *all, struct guest *guest);

// A request line has come; and the whole head, or the end of it all.
void guest_begin_head(struct guests *all, struct guest *guest);
void guest_end_head(struct guests *all, struct guest *guest);

void guest_read_headers(const struct guest *guest, struct exchange *x);

// libmicrohttpd 0.9.75 answers a Content-Length that it cannot read by itself, and sends the head
// of that answer twice. Called when it complains about such a length, before it answers: the guest
// that this is about is answered here and hears nothing more.
void guests_refuse_bad_lengths(struct guests *all);
