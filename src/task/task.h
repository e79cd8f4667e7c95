// task/task.h: the shim around one task, and the directory in which it can be followed.
//   task_shim_run  task_shim_finish  task_spec_save  task_spec_load  task_exit_save  task_exit_load
//   task_shim_load task_has_reports  task_find_shim  task_kill_rest  task_log_read  task_log_trim
//   task_usage_parse
//
// A task is one or several processes (ranks) of one allocation. Its shim is a process of its own:
// it starts the ranks, writes down what they print and how they end, and outlives whoever started
// it. They meet in the allocation's directory:
//
//     spec.json    what to run; written before the shim is started
//     shim.json    which process the shim is; written by it when it is ready for signals
//     log.*        output in pieces of a limited size. Whoever reads them removes what he has, and
//                  the task waits when there is too much; if nobody does, the oldest go
//     exit.json    how it ended; complete or not there at all, and the last thing the shim does
//     task/        the task's own: DET_RUN_DIR. All else is out of its reach, if it has a sandbox
//     tmp/, home/  /tmp and the home directory of a task with a strict sandbox
//
// The shim has an exclusive flock() on the directory as long as it lives: who gets the lock knows
// that there is no shim. A shim that was killed leaves things undone; then a second one ends them
// (task_shim_finish), in a process of its own as well.
//
// SIGTERM asks a shim to stop its task: SIGTERM to the ranks, SIGKILL when the grace is over.
// SIGINT skips the grace. If a rank fails, the others are stopped in the same way. Nothing that a
// task has started survives its shim: what is left over is killed, also what left its process
// group.
#pragma once

#include "base/arena.h"
#include "doc/field.h"
#include "base/str.h"
#include "det/err.h"
#include "sandbox/sandbox.h"
#include "sys/proc.h"
#include <stdint.h>

// One slot of the machine, and the processors that belong to it; none: any.
struct task_slot {
    int64_t id;
    LIST_OF(int64_t) cpus;
};

struct task_spec {
    int64_t token;                // of the allocation
    LIST_OF(const char *) argv;   // what to run
    LIST_OF(const char *) launch; // a launch layer to put in front of argv; empty: none
    LIST_OF(const char *) env;    // "NAME=value"; DET_* variables of our own are not passed on
    const char *withheld;         // variables of ours that begin so are not passed on; NULL: none
    const char *workdir;          // NULL: DET_RUN_DIR
    LIST_OF(struct task_slot) slots;
    bool rank_per_slot;     // one process for each slot; else one for all of them
    int64_t grace_us;       // between SIGTERM and SIGKILL
    int64_t log_max_bytes;  // of all pieces together
    struct sandbox sandbox; // the shim adds the task's own directories
};

// Environment of every rank, besides spec.env: DET_SLOT_IDS, DET_RUN_DIR, DET_RENDEZVOUS_INFO; with
// slots C10D_PORT, DTRAIN_SSH_PORT, INTER_TRAIN_PROCESS_COMM_PORT_1 and _2, ports that are free
// when the task starts and that no other task is given; with rank_per_slot RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (the same as
// C10D_PORT), DET_RANKS_KEY (dist/dist.h).

enum { TASK_LOCK_FD = 3 }; // of a shim: the directory, with the lock

// An argument behind the directory, for the program that a shim is: it is the second one.
#define TASK_SECOND_SHIM "after"

// Cgroups of tasks are <hierarchy>/.../det-<something of the master>/<token>.
#define TASK_CGROUP_PREFIX "det-"

enum task_end {
    TASK_SUCCEEDED,   // every rank returned 0
    TASK_FAILED,      // a rank returned something else, or was ended by a signal
    TASK_NOT_STARTED, // there is no such program, or the like
    TASK_LOST,        // the shim ended before its task did
};

struct task_exit {
    int64_t token;
    int end;                      // enum task_end
    int64_t code;                 // of the first rank that failed; -1: ended by signal
    int64_t signal;               // 0: none
    int64_t rank;                 // that rank; -1: none
    bool asked;                   // somebody had asked the task to stop before that
    const char *why;              // "rank 3 was ended by signal 11 (Segmentation fault)"
    const char *said;             // the last line that this rank wrote to stderr; NULL: none
    int64_t started_us, ended_us; // since 1970
};

// The body of the program that a shim is. Directories are absolute paths here. lock_fd: a
// descriptor of dir with the lock, or -1: takes the lock itself. Returns when exit.json is written;
// otherwise an error, and nothing was started.
int task_shim_run(const char *dir, int lock_fd, det_err *err);

// The same for the second shim of a task: kills what is left of it, delivers its reports, which may
// take as long as the master is away, and writes an exit.json if there is none.
int task_shim_finish(const char *dir, int lock_fd, det_err *err);

// Descriptor of dir with the lock, or DET_ESTATE: a shim lives.
int task_lock(const char *dir, int *out, det_err *err);

// Saving is atomic; an exit is durable, too. What is loaded lives in the arena; DET_ENOTFOUND if
// there is no such file, DET_ECORRUPT if it is not one of ours.
int task_spec_save(const char *dir, const struct task_spec *spec, det_err *err);
int task_spec_load(const char *dir, struct arena *arena, struct task_spec *out, det_err *err);
int task_exit_save(const char *dir, const struct task_exit *exit, det_err *err);
int task_exit_load(const char *dir, struct arena *arena, struct task_exit *out, det_err *err);
int task_shim_load(const char *dir, struct proc_id *out, det_err *err);

// The process that has the lock of dir: the shim, whatever shim.json says. *out becomes its pidfd.
// DET_ENOTFOUND if there is none.
int task_find_shim(const char *dir, pid_t *pid, int *out, det_err *err);

// Whether programs of the task left reports that nobody has delivered.
bool task_has_reports(const char *dir);

// Kills what a task has left behind, after its shim was killed.
void task_kill_rest(const char *dir);

enum task_stream {
    TASK_STDOUT,
    TASK_STDERR,
    TASK_SHIM,  // words of the shim itself
    TASK_USAGE, // what the task uses of the machine: see task_usage_parse()
};

struct task_line {
    int64_t time_us;
    int64_t rank;
    enum task_stream stream;
    bool partial;    // the line goes on in the next one of this stream and rank
    struct str text; // as the task wrote it: maybe no UTF-8
};

struct task_page {
    LIST_OF(struct task_line) lines;
    int64_t next;         // where to go on reading
    int64_t n_lost_bytes; // before the first line: removed to stay within the limit
};

// The lines from byte offset on (0, or next of an earlier page), at most about 1 MB of them. At the
// end of what is there: no lines, and next is offset. A line that is not complete yet comes later.
int task_log_read(const char *dir, int64_t offset, struct arena *arena, struct task_page *out,
                  det_err *err);

// What a task used of the machine since the line of this kind before. They come every second at
// first, later twice a minute.
struct task_usage {
    double cpu;               // processors
    int64_t memory_bytes;     // at the end of that time
    double gpu;               // 0 .. 1, mean of its GPUs; NaN: it has none, or nobody knows
    int64_t gpu_memory_bytes; // of all of them; -1: not known
};

// The text of a line of TASK_USAGE. False: it is none.
bool task_usage_parse(struct str text, struct task_usage *out);

// Removes the pieces of the log that lie before offset. Those are kept elsewhere now, for good.
void task_log_trim(const char *dir, int64_t offset);
