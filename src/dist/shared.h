// dist/shared.h: the memory that the ranks of a node share. Private to the layer.
//
//     header | a member per rank | two chunks per rank | pieces, if there are other nodes
//
// Ranks write into their own chunk, meet at the barrier, and read the chunks of others. Whoever is
// at the next barrier has read all of that, so behind it the same chunks may be written again: with
// two of them, used in turns, nobody has to wait for the readers.
//
// Here, ranks are counted on the node, from 0 on; `first` is the number of rank 0 among all. The
// culprit of a failure is counted among all.
#pragma once

#include "dist/dist.h"

#include "sys/proc.h"
#include <stdatomic.h>

enum { CHUNK_BYTES = 1 << 20, WHAT_BYTES = 40, LINE_BYTES = 64 };

// Of sums over nodes: so many are on their way at a time, and two more hold what came last.
enum { PIECE_BYTES = 256 << 10, PIECES_AHEAD = 8, N_PIECES = PIECES_AHEAD + 2 };

enum operation { OP_BARRIER, OP_SUM, OP_BROADCAST, OP_GATHER };

// What a rank is about to do: compared by all, so that those who do something else are found.
struct stamp {
    uint64_t serial;
    uint32_t operation, detail; // detail: type, kind of sum, root
    uint64_t n_bytes;           // may differ between ranks in OP_GATHER only
    uint64_t note;
    char what[WHAT_BYTES];
};

enum member_state { MEMBER_AWAY, MEMBER_HERE, MEMBER_LEFT, MEMBER_FAILED };

struct member {
    _Alignas(LINE_BYTES) _Atomic uint32_t state; // enum member_state
    struct proc_id process;                      // unless MEMBER_AWAY; written by rank 0
    struct stamp stamp[2];                       // by parity of the operation
    int culprit;                                 // MEMBER_FAILED: whose fault it was
    det_err failure;
};

struct shared {
    uint32_t version;
    int32_t size;
    uint64_t note;       // of the first rank of all; written by rank 0
    uint64_t n_gathered; // bytes that rank 0 has for all; the same
    _Alignas(LINE_BYTES) _Atomic uint32_t n_arrived;
    _Alignas(LINE_BYTES) _Atomic uint32_t n_met; // barriers so far: the futex that ranks sleep on
    struct member member[];
};

struct link;

struct dist {
    int rank, size;   // on this node
    int first, world; // rank 0 of this node among all; how many those are
    int node, n_nodes;
    struct link *link; // to the nodes beside this one; of rank 0 only
    struct shared *shared;
    size_t n_bytes;     // mapped
    int *pidfd;         // of the others; -1: not opened yet
    uint64_t serial;    // operations so far
    uint32_t n_met;     // barriers so far
    unsigned parity;    // which chunk comes next
    uint64_t note;      // of rank 0, in the last operation
    uint64_t next_note; // rank 0: to be sent
    bool broken;
    int culprit; // if broken: who
    det_err failure;
};

size_t shared_bytes(const struct dist *d);
char *shared_chunk(const struct dist *d, int rank); // of the present parity
char *shared_piece(const struct dist *d, size_t index);

int shared_attach(struct dist *d, int fd, det_err *err); // maps the file
void shared_detach(struct dist *d);
// Rank 0: gives a process its place.
int shared_seat(struct dist *d, int rank, pid_t pid, det_err *err);

// Waits for all ranks. Fails if one of them cannot come any more.
int shared_meet(struct dist *d, det_err *err);
// Whether another rank has ended, left or failed: then d is broken, and err says so.
int shared_check(struct dist *d, det_err *err);
// Marks d as broken, tells the others, and returns the code.
int shared_break(struct dist *d, int culprit, const det_err *failure, det_err *err);

// What a rank does, in words.
void stamp_describe(const struct stamp *s, char *out, size_t n);
bool stamp_same(const struct stamp *a, const struct stamp *b);
const struct stamp *stamp_of(const struct dist *d, int rank); // of the present operation

// Out: += each source in turn, / divisor at the end (reduce.c).
void reduce_sum(enum dist_type type, void *out, const char *const *sources, int n_sources, size_t n,
                int divisor);
size_t reduce_type_bytes(enum dist_type type);

// The same in parts, for sums that go from node to node: bf16 is summed as f32.
size_t reduce_partial_bytes(enum dist_type type);
void reduce_add(enum dist_type type, void *partial, const char *const *sources, int n_sources,
                size_t n, bool begins);
void reduce_divide(enum dist_type type, void *partial, size_t n, int divisor);
void reduce_take(enum dist_type type, void *out, const void *partial, size_t n);
