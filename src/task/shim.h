// task/shim.h: the parts of a shim. Private to the layer.
#pragma once

#include "sys/port.h"
#include "task/log.h"
#include <sys/types.h>

enum { LINER_SAID_BYTES = 200 };

// Turns what one stream of one rank writes into lines of the log.
struct liner {
    struct spool *spool;
    enum task_stream stream;
    int64_t rank;
    bool prefix; // "[rank=N] " in front of each line
    bool inside; // the next text goes on with a line that was written in part
    struct buf pending;
    int64_t since_us;                // monotonic: when pending began
    char said[LINER_SAID_BYTES + 1]; // the beginning of the last line with words in it
};

void liner_init(struct liner *l, struct spool *spool, enum task_stream stream, int64_t rank,
                bool prefix);
void liner_done(struct liner *l);
void liner_add(struct liner *l, struct str bytes, int64_t now_us);

// When pending text should be written although its line is not complete; INT64_MAX: nothing
// pending.
int64_t liner_due_us(const struct liner *l);
void liner_flush(struct liner *l, bool partial);

// The last words of a program are usually why it failed. "": none.
const char *liner_last_words(struct liner *l);

// One process of the task. It leads a session and a process group of its own, and stays a zombie to
// the end, so that its number, which is also that of the group, cannot come to mean another one.
struct rank {
    pid_t pid; // 0: not started
    bool ended;
    int code, signal; // how
    int pipes[2];     // its stdout and stderr; -1: closed
    struct liner liners[2];
};

// What the task uses, written down now and then.
struct usage {
    int64_t began_us, last_us, next_us; // monotonic; when it is looked at next
    int64_t cpu_us;                     // at last_us
    struct gpus *gpus;                  // NULL: none
};

void usage_init(struct usage *u, const struct task_spec *spec, int64_t now_us);
void usage_done(struct usage *u);

// Looks at all that the processes have started, if it is time.
void usage_add(struct usage *u, struct spool *spool, const pid_t *roots, size_t n, int64_t now_us);

// GPUs by their UUIDs, with commas between them, watched by a child of the shim. NULL: there can be
// none.
struct gpus *gpus_watch(const char *uuids);
void gpus_done(struct gpus *g);
bool gpus_has(const struct gpus *g, pid_t pid); // it is that child
// What was last heard since the last time; false: nothing.
bool gpus_read(struct gpus *g, double *share, int64_t *memory_bytes);

enum { TASK_N_PORTS = 4 };
#define TASK_ADDRESS "127.0.0.1" // by which the ranks of a task reach each other

// What the ranks of a task have in common.
struct ranks {
    const struct task_spec *spec;
    const char *dir;                 // of the allocation
    const char *home;                // directory of the task: DET_RUN_DIR
    const char *key;                 // that no other task knows
    struct port ports[TASK_N_PORTS]; // of a task with slots; number 0: none
    struct sandbox_box box;
};

// Ports that are the task's as long as its shim lives; what was taken before a failure has to be
// returned, too.
int task_ports_take(struct port ports[TASK_N_PORTS], det_err *err);
void task_ports_return(struct port ports[TASK_N_PORTS]);
// "C10D_PORT=15042", ...
const char *task_port_variable(struct arena *arena, const struct port ports[TASK_N_PORTS], int i);

// "DET_RENDEZVOUS_INFO={...}": the machines of the task, their addresses and slots.
const char *task_rendezvous(struct arena *arena, const struct task_spec *spec);

int rank_start(struct rank *r, const struct ranks *all, int64_t index, det_err *err);

bool rank_check(struct rank *r);                    // true if it has ended since the last call
void rank_signal(const struct rank *r, int signal); // to the whole group
// Takes what is there, and closes the pipe at its end; false: there was nothing.
bool rank_read(struct rank *r, int stream, int64_t now_us);
void rank_drain(struct rank *r); // takes all that is there

// Is fd really that directory, and is the lock ours?
int task_check_lock(const char *dir, int fd, det_err *err);

// Sends what the task's programs left in their journals. DET_ETIMEOUT: the master stayed away.
int task_deliver_reports(const struct task_spec *spec, const char *dir, det_err *err);

int task_shim_save(const char *dir, const struct proc_id *id, const struct proc_id *init,
                   det_err *err);
int task_init_load(const char *dir, struct proc_id *out, det_err *err); // pid 0: no sandbox

// What spec.env says; the last entry of a name counts. NULL: nothing.
const char *task_variable(const struct task_spec *spec, const char *name);

// The directory of the task inside that of its allocation.
const char *task_home(struct arena *arena, const char *dir);

// Makes the task's directories, and a copy of the specification's sandbox that has them.
int task_sandbox(const char *dir, int dir_fd, const struct task_spec *spec, struct arena *arena,
                 struct sandbox *out, det_err *err);

// "NAME=value" in the environment of everything that a task starts.
const char *task_mark(struct arena *arena, const char *dir);
