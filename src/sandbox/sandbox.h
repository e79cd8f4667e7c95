// sandbox/sandbox.h: what a task can see and do on this machine: namespaces, mounts, privileges,
// limits.
//   sandbox_open  sandbox_join  sandbox_close  sandbox_try
//   limits_find  limits_kill  limits_memory_exceeded
//
// A shim opens a sandbox; processes that it starts afterwards call sandbox_join() before they
// become the task's program:
//
//     sandbox_open(&spec.sandbox, &box, &err);
//     if (fork() == 0 && !sandbox_join(&box, &failure)) execvp(...);
//     ...
//     sandbox_close(&box);      // nothing that was started inside survives
//
// The shim itself stays outside. Inside, process 1 is a copy of the shim that does nothing but wait
// for orphans. The kernel kills all others when it ends, and it ends when the shim does.
//
// As another user than root, the sandbox has a user namespace of its own, in which the task's user
// is the only one. The task has no capabilities in either case, so it cannot undo the mounts.
#pragma once

#include "doc/field.h"
#include "det/err.h"
#include <stdint.h>
#include <sys/types.h>

enum sandbox_mode {
    SANDBOX_NONE,    // the task sees what the shim sees
    SANDBOX_PRIVATE, // it sees its own processes, its own /dev and /dev/shm, and not what is hidden
    SANDBOX_STRICT,  // and can write only where something is mounted for it
    SANDBOX_USERS,   // private, as another Unix user; needs root
};
extern const char *const sandbox_mode_names[]; // up to a NULL

enum { SANDBOX_MAX_GROUPS = 1024 };

// One file or directory that the task gets.
struct sandbox_mount {
    const char *host; // absolute
    const char *path; // where the task sees it, absolute; made if it is not there
    bool read_only;
    // A user asked for it: host is looked up in the task's name, and where something is hidden.
    bool asked;
};

struct sandbox_limits {
    int64_t memory_bytes, n_processes;          // of the whole task; 0: no limit
    const char *memory_cgroup, *process_cgroup; // the task's own; NULL: by other means
};

struct sandbox {
    int mode;                             // enum sandbox_mode
    LIST_OF(const char *) hidden;         // what nobody may mount either; files, too
    LIST_OF(const char *) covered;        // directories that are empty unless something is mounted
    LIST_OF(struct sandbox_mount) mounts; // in this order
    bool guarded;            // mounts that were asked for give no access to the system or to homes
    int64_t shm_bytes;       // of /dev/shm; 0: half of the memory
    int64_t uid, gid;        // SANDBOX_USERS
    LIST_OF(int64_t) groups; // at most SANDBOX_MAX_GROUPS
    struct sandbox_limits limits;
};

struct sandbox_box {
    const struct sandbox *sandbox;
    pid_t init;         // process 1 inside; 0: there is none
    int life;           // open as long as the sandbox is to live
    int reaped;         // readable when an orphan has ended
    int mnt, ipc, root; // what to join; -1: nothing
};

#define SANDBOX_BOX_INIT \
    ((struct sandbox_box){.life = -1, .reaped = -1, .mnt = -1, .ipc = -1, .root = -1})

// For a process with one thread. Whatever it starts from now on is inside the new process
// namespace. Descriptors of `open` are closed on exec.
int sandbox_open(const struct sandbox *s, struct sandbox_box *out, det_err *err);

// In a new process: enters, and gives up all privileges. Returns 0, or an errno, and *what failed.
// With SANDBOX_NONE it only sets the limits.
int sandbox_join(const struct sandbox_box *box, const char **what);

// Kills what is inside and waits for it. Harmless if it was not opened.
void sandbox_close(struct sandbox_box *box);

// Whether a sandbox of this kind works here: makes one, in a child, and runs nothing in it. err
// tells what the kernel refuses. For a process with one thread.
int sandbox_try(const struct sandbox *s, det_err *err);

// --- limits

enum limits_means { LIMITS_NONE, LIMITS_CGROUP2, LIMITS_CGROUP1, LIMITS_RLIMIT };
extern const char *const limits_means_names[]; // "cgroup v2", ...

// How memory and processes can be limited here, and below which directory (in the arena) the groups
// of tasks are made. name is that of the directory: one for each master.
struct limits_place {
    enum limits_means memory, processes;
    const char *memory_parent, *process_parent; // NULL: no cgroups
};
void limits_find(const char *name, struct arena *arena, struct limits_place *out);

// Ends every process in the task's groups and removes them.
void limits_kill(const struct sandbox_limits *l);

// Whether the kernel has ended a process of the task because of the limit.
bool limits_memory_exceeded(const struct sandbox_limits *l);
