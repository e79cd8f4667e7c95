// http/crowd.h: who has how many of a server's connections. Private to the layer.
//
// A connection belongs to the network it comes from (it is anonymous) until a request on it says who
// calls; then it belongs to that user. Each of these has a limit of its own, so nobody can take the
// places of all others. There is always room for a new connection: of anonymous ones the one that has
// been quiet the longest makes it, first of the same network, then of all.
#pragma once

#include "base/hash.h"
#include "http/http.h"

enum owner_kind { OWNER_NETWORK, OWNER_USER, OWNER_UNLIMITED, OWNER_N_KIND };

// A connection's place. Part of the server's record of the connection.
struct seat {
    struct seat *before, *after;                     // of the same owner, the longest quiet first
    struct seat *before_anonymous, *after_anonymous; // of all anonymous ones, likewise
    struct crowd_owner *owner;                       // NULL: it has been shown the door
    bool is_busy;                                    // it waits for our answer
};

enum { CROWD_BUCKETS = 1024 };

struct crowd {
    struct http_limits limits;
    struct hash_key key;
    struct crowd_owner *owners[CROWD_BUCKETS];
    struct seat *first_anonymous, *last_anonymous;
    int n, n_of[OWNER_N_KIND]; // connections
};

int crowd_init(struct crowd *crowd, const struct http_limits *limits, det_err *err);

// A connection comes. Returns one that has to be closed for it, or NULL.
struct seat *crowd_enter(struct crowd *crowd, struct seat *seat, const char *network);
void crowd_leave(struct crowd *crowd, struct seat *seat);

// It waits for our answer now; or it does not any more, and is quiet from now on.
void crowd_set_busy(struct crowd *crowd, struct seat *seat, bool is_busy);

// A request on the connection was made by this user. DET_EBUSY if they have too many.
int crowd_claim(struct crowd *crowd, struct seat *seat, int64_t user, bool unlimited, det_err *err);
