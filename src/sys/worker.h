// sys/worker.h: threads for slow work of an event loop: reading, hashing passwords, unpacking.
//   worker_new  worker_free  worker_run  worker_drain
//
// A worker has threads and a queue of its own, so those who wait for one kind of work do not wait
// for another kind. Within a queue everybody on whose behalf something is to be done gets a turn,
// one after the other, and nobody gets all threads of several: who asks for a thousand things does
// not make others wait for a thousand.
//
//     worker_run(hashing, &(struct work){.run = check, .done = answer, .job = job, .who =
//     user_id});
//
// run is called by some thread and must work on what the job alone holds; done is then called by
// the loop's thread.
#pragma once

#include "det/err.h"
#include "sys/loop.h"
#include <stdbool.h>

struct worker;

struct worker_opts {
    int n_threads;
    // What a thread has for itself, e.g. a connection; made and given back by that thread. NULL:
    // nothing.
    int (*open)(void *ctx, void **own, det_err *err);
    void (*close)(void *own);
    void *ctx;
};

struct worker *worker_new(struct loop *loop, const struct worker_opts *opts, det_err *err);

// When the loop does not run any more. Waits for what is under way; nothing is reported then.
void worker_free(struct worker *w);

struct work {
    void (*run)(void *job, void *own); // own: see worker_opts
    void (*done)(void *job);
    void *job;
    int64_t who; // on whose behalf
};

void worker_run(struct worker *w, const struct work *work);

// Waits for all jobs and reports them, in the calling thread, which is the loop's. False: there was
// nothing to do.
bool worker_drain(struct worker *w);
