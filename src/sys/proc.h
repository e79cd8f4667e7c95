// sys/proc.h: processes. A number is not enough to know one, because numbers are used again; so a
// process is known by a descriptor (pidfd), or by its number and the moment of its start.
//   proc_id_of  proc_open  proc_signal  proc_reap  proc_pid  proc_spawn  proc_run  proc_children
//   proc_signal_child  proc_tree  proc_kill_tree  proc_kill_marked  proc_has_file  proc_find_file
//   proc_ends_with  proc_is_ending  proc_usage_of
#pragma once

#include "base/buf.h"
#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_BOOT_BYTES = 40 };

struct proc_id {
    int64_t pid;
    int64_t start;              // in clock ticks since the machine was started
    char boot[PROC_BOOT_BYTES]; // which start of the machine
};

// DET_ENOTFOUND if there is no such process.
int proc_id_of(pid_t pid, struct proc_id *out, det_err *err);

// A descriptor that becomes readable when the process ends. DET_ENOTFOUND if it has ended, be it
// that nobody waited for it yet, or that its number belongs to another one now.
int proc_open(const struct proc_id *id, int *out, det_err *err);

// False if it has ended.
bool proc_signal(int pidfd, int signal);

// Takes the result of a child that has ended. False: it did not return 0. Nothing happens if it is
// not our child or still runs.
bool proc_reap(int pidfd);

// The number of a process; 0 if it has ended and was waited for.
pid_t proc_pid(int pidfd);

// Starts a program with argv[0] as its path, in a session of its own, with /dev/null as its input
// and output and every signal blocked (it has to unblock what it wants). Of our descriptors it gets
// none but keep_fd, as number 3, unless that is -1. *out becomes its pidfd; it is our child.
int proc_spawn(const char *const *argv, int keep_fd, int *out, det_err *err);

// Runs a program found in PATH and collects what it prints to standard output. Fails if it does not
// return 0, prints more than out may hold, or takes longer than the timeout: then it is killed.
int proc_run(const char *const *argv, int64_t timeout_us, struct buf *out, det_err *err);

// The children of a process with one thread, those included that nobody has waited for; at most max
// of them. Whose parent ends becomes a child of the next subreaper above it: when that one has
// no children left, nothing is left of all that it ever started.
size_t proc_children(pid_t of, pid_t *out, size_t max);

// False if pid is not, or not any more, the number of a living child of that parent.
bool proc_signal_child(pid_t parent, pid_t pid, int signal);

// The processes and all that they have started, as far as it has not been left by its parents;
// free() it. One that ends meanwhile may be in it, one that starts may be missing.
pid_t *proc_tree(const pid_t *roots, size_t n_roots, size_t *n);

// Kills all that a process has started, but not itself, and waits for their end, a second at most.
void proc_kill_tree(pid_t root);

// Kills every process that was started with one of these entries ("NAME=value", up to a NULL) in
// its environment, and all that these have started, if they kept it. Returns when there are none
// left, or after 10 s.
void proc_kill_marked(const char *const *entries);

// Whether the process has the file as its descriptor fd, and whether word is its last argument.
bool proc_has_file(pid_t pid, int fd, const char *path);
bool proc_ends_with(pid_t pid, const char *word);

// Whether it was killed or has ended, but may not be gone yet. Nobody sees its arguments any more.
bool proc_is_ending(pid_t pid);

// Another process that has the file as its descriptor fd; 0: none.
pid_t proc_find_file(int fd, const char *path);

// What processes and all that they have started (proc_tree) use of the machine.
struct proc_usage {
    int64_t cpu_us;       // of processor time so far; less than before if one has ended unnoticed
    int64_t memory_bytes; // of their own, without files and shared memory
};
void proc_usage_of(const pid_t *roots, size_t n_roots, struct proc_usage *out);
