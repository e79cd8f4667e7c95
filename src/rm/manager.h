// rm/manager.h: what the parts of the resource manager share. Private to the layer.
#pragma once

#include "rm/rm.h"

// One allocation. Events that its owner has not been told yet are flags.
struct alloc {
    struct rm_alloc seen; // what the owner sees
    int pidfd;            // of the shim; -1: it has ended
    int watch;            // of inotify; -1: none
    bool is_ready;        // shim.json is there
    bool asked;           // to stop, by this owner
    bool is_unfinished;   // it needs a second shim
    int n_finishers;      // that were started by this owner
    const char *defect;   // why it cannot go on; NULL: it can
    bool tell_started, tell_log, tell_exited;
    struct arena arena; // of the directory's name and of exit
    struct task_exit exit;
};

struct rm {
    struct arena arena; // of what lives as long as the manager
    const char *root;   // absolute
    const char *const *shim;
    int root_fd;              // has the lock of the owner
    int epoll, inotify, wake; // wake: an eventfd, for events that no other descriptor tells
    struct alloc **allocs;    // by token
    size_t n_allocs, turn; // turn: where rm_next() goes on, so that nobody waits behind a loud one
    struct rm_slot *slots;
    struct task_slot *slot_cpus; // of the same index
    size_t n_slots;
    bool looked; // since rm_next() said that there was nothing
};

// slots.c
int slots_find(struct rm *rm, int n_cpu_slots, det_err *err);
// Free ones for the task; DET_ESTATE if there are not enough. They are not taken yet.
int slots_choose(const struct rm *rm, int n, int pool, struct arena *arena, struct task_spec *out,
                 det_err *err);
void slots_take(struct rm *rm, const struct task_spec *spec);
void slots_free(struct rm *rm, int64_t token);
// "CUDA_VISIBLE_DEVICES=...": which devices the chosen slots are; NULL if they are none.
const char *slots_devices(const struct rm *rm, const struct task_spec *spec, struct arena *arena);

// alloc.c
struct alloc *alloc_new(struct rm *rm, int64_t token); // directory name only; not in rm yet
void alloc_free(struct rm *rm, struct alloc *a);
// Starts its shim, or the second one, and watches it.
int alloc_start_shim(struct rm *rm, struct alloc *a, bool second, det_err *err);
void alloc_note_ready(struct rm *rm, struct alloc *a);
// The shim has ended; false: it was killed, or failed. What it left undone is up to a second one.
void alloc_conclude(struct rm *rm, struct alloc *a, bool well);
void alloc_finish(struct rm *rm, struct alloc *a); // if it is_unfinished
void alloc_destroy(struct alloc *a);               // kills all of it
// What an earlier owner has left: running, or over.
void alloc_recover(struct rm *rm, struct alloc *a);
