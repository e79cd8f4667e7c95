// rm/rm.h: the resource manager of this machine: its slots, and the allocations that run on them.
//   rm_open  rm_close  rm_fd  rm_next  rm_start  rm_kill  rm_forget  rm_find
//   rm_slots  rm_enable_slot  rm_put_slot  rm_capacity
//
// An allocation is a right to run one task, used at most once. Its token is a number that the owner
// never uses again; it fences: a second start with the same token is refused, and who writes in the
// name of an allocation can be asked for it. Every allocation has a directory, root/<token>.
//
// Tasks run under shims (task/task.h) and live on when the owner of the manager ends, however that
// happens. The next owner finds them again:
//
//     struct rm *rm = rm_open(&(struct rm_opts){.root = "/var/lib/det/run", .shim = shim}, &err);
//     int watched = rm_fd(rm);                // readable: call rm_next() until there is nothing
//     struct rm_event e;
//     while (rm_next(rm, &e))
//         if (e.kind == RM_EXITED) { record(&e); rm_forget(rm, e.token, &err); }
//
// One event RM_STARTED and one RM_EXITED for each allocation, also for those that were started, or
// ended, under an earlier owner: what was not forgotten is told again. After RM_EXITED all lines of
// the log are there, and all reports of its programs are with the master, whoever was killed when.
// One whose directory is damaged is lost, and its processes are killed; the others do not notice.
#pragma once

#include "task/task.h"

struct rm;

struct rm_opts {
    const char *root;        // directory; made if it is not there
    const char *const *shim; // program and arguments, up to a NULL, that call task_shim_run(); the
                             // directory is appended, the lock is TASK_LOCK_FD. If TASK_SECOND_SHIM
                             // is behind that, task_shim_finish() is to be called instead
    int n_cpu_slots;         // 0: the GPUs of the machine, or one slot if there are none; else so
                             // many slots, and the processors are divided among them
};

// Finds what earlier owners have left; the events tell. DET_ESTATE if another process is the owner.
struct rm *rm_open(const struct rm_opts *opts, det_err *err);
void rm_close(struct rm *rm); // tasks go on

int rm_fd(const struct rm *rm);

enum rm_event_kind {
    RM_STARTED, // the shim is there
    RM_LOG,     // task_log_read() has something new; may come without reason
    RM_EXITED,  // it is over; the slots are free
};

struct rm_event {
    enum rm_event_kind kind;
    int64_t token;
    struct task_exit exit; // RM_EXITED; why is valid until the next call
};

bool rm_next(struct rm *rm, struct rm_event *out); // false: nothing now

struct rm_task {
    int64_t token;                 // > 0
    int n_slots;                   // free ones are chosen
    int pool;                      // of these slots
    const char *const *argv;       // up to a NULL
    const char *const *launch;     // the same; NULL: no launch layer
    const char *const *env;        // "NAME=value", up to a NULL
    const char *withheld;          // variables of ours that begin so are not for it; NULL: none
    const char *workdir;           // NULL: a directory of its own
    bool rank_per_slot;            // one process for each slot
    int64_t grace_us;              // between SIGTERM and SIGKILL; 0: 30 s
    int64_t log_max_bytes;         // 0: 256 MB
    const struct sandbox *sandbox; // what it can see; NULL: everything
};

// DET_ESTATE if the token was used before, or if there are not enough free slots. That the program
// itself could not be started is told by RM_EXITED.
// Adds CUDA_VISIBLE_DEVICES to the environment where slots are GPUs.
int rm_start(struct rm *rm, const struct rm_task *task, det_err *err);

enum rm_how {
    RM_STOP,    // SIGTERM, and SIGKILL when the grace is over
    RM_KILL,    // SIGKILL
    RM_DESTROY, // and of the shim too, which may be stopped: the exit will be TASK_LOST
};

// Asks; RM_EXITED tells when it has happened. DET_ENOTFOUND for an unknown token; nothing happens
// to what has exited.
int rm_kill(struct rm *rm, int64_t token, enum rm_how how, det_err *err);

// Removes an allocation that has exited. DET_ESTATE if it runs. Its directory, which may take long
// to remove, becomes that of the caller, with the name aside; NULL: it is removed now.
int rm_forget(struct rm *rm, int64_t token, const char *aside, det_err *err);

struct rm_alloc {
    int64_t token;
    bool running;    // no RM_EXITED yet
    const char *dir; // see task/task.h
    int n_slots;
};

// Borrowed until the next call that starts or forgets; NULL if the token is unknown.
const struct rm_alloc *rm_find(const struct rm *rm, int64_t token);
size_t rm_count(const struct rm *rm);
const struct rm_alloc *rm_at(const struct rm *rm, size_t index); // in the order of the tokens

struct rm_slot {
    int id;           // 0, 1, ...
    const char *uuid; // of a GPU; NULL: a CPU slot
    const char *name; // "NVIDIA A100-SXM4-40GB", "CPU 0-3"
    bool disabled;    // takes nothing new
    int64_t token;    // of the allocation that has it; 0: free
    int pool;         // that it belongs to; 0, unless rm_put_slot() says otherwise; -1: none
};

const struct rm_slot *rm_slots(const struct rm *rm, size_t *n);
void rm_enable_slot(struct rm *rm, int id, bool enabled);
void rm_put_slot(struct rm *rm, int id, int pool);

// How many slots of a pool may be used. One that was disabled while in use counts until it is free:
// so what the scheduler sees as free is what is free.
int rm_capacity(const struct rm *rm, int pool);
