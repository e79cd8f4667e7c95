// sys/worker.h: threads for slow work of an event loop: hashing passwords, unpacking archives.
//   worker_new  worker_free  worker_run  worker_drain
//
//     worker_run(workers, check_password, answer, job);   // returns at once
//
// run is called by some thread and must work on what the job alone holds; done is then called by
// the loop's thread.
#pragma once

#include "det/err.h"
#include "sys/loop.h"
#include <stdbool.h>

struct worker;

struct worker *worker_new(struct loop *loop, int n_threads, det_err *err);

// When the loop does not run any more. Waits for what is under way; nothing is reported then.
void worker_free(struct worker *w);

// Waits for all jobs and reports them, in the calling thread, which is the loop's. False: there was
// nothing to do.
bool worker_drain(struct worker *w);

void worker_run(struct worker *w, void (*run)(void *job), void (*done)(void *job), void *job);
