// dist/across.h: operations of the ranks of several nodes. Private to the layer.
//
// All ranks of a node call them. Its rank 0 talks to the nodes beside it while the others wait at a
// barrier. They come behind the first barrier of an operation, when the ranks of the node are known
// to do the same.
#pragma once

#include "dist/shared.h"

struct sum_work {
    char *data;
    size_t n; // elements
    enum dist_type type;
    enum dist_sum sum;
};

// Also with n = 0, which is a barrier of all nodes.
int across_sum(struct dist *d, const struct sum_work *w, det_err *err);

// root: among all ranks.
int across_broadcast(struct dist *d, int root, char *data, size_t n_bytes, det_err *err);

// mine: of every rank. *memory becomes the packed parts of all ranks, malloced; see across_unpack().
int across_gather(struct dist *d, struct str mine, char **memory, size_t *n, det_err *err);
