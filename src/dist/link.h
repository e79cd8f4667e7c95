// dist/link.h: what the first rank of a node says to the first ranks of the nodes beside it. Private
// to the layer.
//
// Nodes stand in a line. What goes up it comes in the order of ranks, which is how sums are taken;
// what goes down it is the result. Everything is a frame: a head with the stamp of the operation,
// then bytes. Sending never waits, so two nodes may send to each other as much as they like.
#pragma once

#include "dist/shared.h"

enum link_side { LINK_BELOW, LINK_ABOVE, LINK_N_SIDE };

// A way of getting bytes to both sides.
struct wire;
struct wire_ops {
    // Sends now or later; takes a copy of what has to wait.
    int (*send)(struct wire *w, enum link_side to, const void *bytes, size_t n, det_err *err);
    // Takes what has come of n bytes, and adds to *done how many; 0 is fine. DET_EUNREACHABLE: no
    // more will come.
    int (*receive)(struct wire *w, enum link_side from, void *bytes, size_t n, size_t *done,
                   det_err *err);
    bool (*is_sending)(const struct wire *w);
    void (*wait)(struct wire *w, int timeout_ms); // until something may have come, or can be sent
    void (*close)(struct wire *w);                // what waits to be sent is dropped
};
struct wire {
    const struct wire_ops *ops;
};

struct link_opts {
    const char *key, *nodes; // see dist_opts
    int node, n_nodes;
    int64_t end_us; // when to give up
};

int wire_tcp_open(struct dist *d, const struct link_opts *opts, struct wire **out, det_err *err);

// Meets the nodes beside this one.
int link_open(struct dist *d, const struct link_opts *opts, det_err *err);
// Tells them that this node leaves, or why it is broken.
void link_close(struct dist *d);

// What this node knows of its failure, to whoever does not know it yet.
void link_tell_failure(struct dist *d);

bool link_has(const struct dist *d, enum link_side side);

// Of the present operation. A frame that says that another node is broken breaks this one. What is
// received must have n bytes and be of the same operation.
int link_send(struct dist *d, enum link_side to, const void *bytes, size_t n, det_err *err);
int link_receive(struct dist *d, enum link_side from, void *bytes, size_t n, struct stamp *stamp,
                 det_err *err);
// Of any length; *bytes is malloced.
int link_receive_any(struct dist *d, enum link_side from, char **bytes, size_t *n, det_err *err);
int link_flush(struct dist *d, det_err *err); // until all is sent
