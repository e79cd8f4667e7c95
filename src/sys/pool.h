// sys/pool.h: the one pool of worker threads that all kernels share.
//
// Work is n independent pieces. The caller takes part and pieces are claimed one by one, so a
// worker that the system does not let run delays nothing but the piece it holds. Which thread runs
// a piece is not determined; what a piece computes must depend on its index alone: then results are
// the same bits for any number of threads.
#pragma once

#include <stdbool.h>

enum { POOL_MAX_THREADS = 256 };

typedef void (*pool_fn)(void *ctx, int piece); // piece in [0, n)

// Threads taking part, the caller included. First use starts with the CPUs that are ours.
int pool_threads(void);

// Changes the number of threads (clamped to 1 .. POOL_MAX_THREADS). Not while pool_run is running.
void pool_set_threads(int n_threads);

// Runs fn for every piece and returns when all are done. Inside a piece, and while another thread
// uses the pool, it simply runs all pieces in the calling thread.
void pool_run(int n_pieces, pool_fn fn, void *ctx);

// By this thread alone if it is not worth more.
static inline void pool_run_if(bool worth, int n, pool_fn fn, void *ctx)
{
    if (worth)
        pool_run(n, fn, ctx);
    else
        for (int i = 0; i < n; i++)
            fn(ctx, i);
}
