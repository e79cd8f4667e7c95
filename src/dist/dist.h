// dist/dist.h: collectives: what the processes (ranks) of one job do together, on one machine (node)
// or on several.
//   dist_join  dist_join_env  dist_leave  dist_fail  dist_is_broken  dist_blame  dist_rank
//   dist_size  dist_barrier  dist_all_reduce  dist_broadcast  dist_all_gather  dist_parts_done
//   dist_set_note  dist_note
//
//     struct dist *d;
//     if (dist_join_env(&d, err)) return err->code;      // NULL: alone, everything below is free
//     dist_all_reduce(d, "gradients", grads, n, DIST_F32, DIST_MEAN, err);
//     dist_leave(d);
//
// All ranks call the same operations in the same order; `what` is for messages and must be the same
// too. Whoever deviates, fails (dist_fail) or dies makes the present operation of all others, and
// every later one, fail with an error that names the rank. Nothing is ever left behind: the memory
// that ranks share has no name and is gone with the last of them.
//
// Sums are taken in the order of ranks, so every rank gets the same bits in every run, on however
// many nodes. A handle belongs to one thread.
#pragma once

#include "base/str.h"
#include "det/err.h"
#include <stdint.h>

struct dist; // NULL: there is one rank, this one

enum { DIST_MAX_RANKS = 256, DIST_MAX_NODES = 1024, DIST_MAX_SIZE = 32768 }; // ranks: of a node

struct dist_opts {
    const char *key; // a name for the job that no other one on this machine has; on several nodes
                     // the same on all, and known to nobody else
    int rank, size;
    int64_t timeout_us; // how long to wait for the others to come; 0: five minutes
    // Of several nodes. Their ranks follow each other in the order of the nodes.
    int local_rank, local_size; // of this node; 0: all of them are here
    int node;                   // 0, 1, ...
    const char *nodes; // "10.0.0.1:15123,10.0.0.2:15001": addresses and free ports; NULL: one node
};

// Meets the other ranks. *out is NULL if size is 1.
int dist_join(const struct dist_opts *opts, struct dist **out, det_err *err);
// The same with RANK, WORLD_SIZE and DET_RANKS_KEY of the environment, and, if the ranks are on
// several nodes, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK and DET_RANKS_NODES. Without WORLD_SIZE,
// or with 1, this is the only one; with more, a missing key is an error.
int dist_join_env(struct dist **out, det_err *err);

// Ends the membership. Those who still count on this rank fail.
void dist_leave(struct dist *d);

// Tells the others why this rank cannot go on: their operations fail with code and "rank N: why".
// What they have said before counts more.
void dist_fail(struct dist *d, int code, const char *why);
bool dist_is_broken(const struct dist *d); // operations can only fail
// If it is another rank's fault, err becomes what is known of it, without what it interrupted here.
// Returns the code; 0: it is not.
int dist_blame(const struct dist *d, det_err *err);

int dist_rank(const struct dist *d);
int dist_size(const struct dist *d);

// Returns when all ranks have come here.
int dist_barrier(struct dist *d, const char *what, det_err *err);

enum dist_type { DIST_F32, DIST_F64, DIST_BF16 };
enum dist_sum { DIST_SUM, DIST_MEAN };
// data, n elements on every rank, becomes the sum or mean over all ranks. bf16 is summed as f32 and
// rounded once.
int dist_all_reduce(struct dist *d, const char *what, void *data, size_t n, enum dist_type type,
                    enum dist_sum sum, det_err *err);

// data, n bytes, becomes that of the root.
int dist_broadcast(struct dist *d, const char *what, int root, void *data, size_t n_bytes,
                   det_err *err);

// The bytes of every rank; lengths may differ.
struct dist_parts {
    struct str *part; // one per rank
    int n;
    char *memory;
};
int dist_all_gather(struct dist *d, const char *what, struct str mine, struct dist_parts *out,
                    det_err *err);
void dist_parts_done(struct dist_parts *parts);

// A number that rank 0 sends along with whatever comes next: after an operation, dist_note is the
// same on all ranks. So they can stop at the same place for the price of a load.
void dist_set_note(struct dist *d, uint64_t note);
uint64_t dist_note(const struct dist *d);
