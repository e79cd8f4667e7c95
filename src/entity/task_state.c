// Unit task_state.c: states of allocations, checkpoints and jobs.
#include "entity/state.h"

#include "base/assert.h"
#include "entity/machine.h"

const char *const allocation_state_names[] = {
    "STATE_PENDING",     "STATE_ASSIGNED",   "STATE_PULLING",
    "STATE_STARTING",    "STATE_RUNNING",    "STATE_WAITING",
    "STATE_TERMINATING", "STATE_TERMINATED", NULL,
};

const char *const checkpoint_state_names[] = {
    "STATE_ACTIVE", "STATE_COMPLETED", "STATE_ERROR", "STATE_PARTIALLY_DELETED", "STATE_DELETED",
    NULL,
};

const char *const job_state_names[] = {
    "STATE_QUEUED", "STATE_SCHEDULED", "STATE_SCHEDULED_BACKFILLED",
    "STATE_ENDED",  "STATE_PAUSED",    NULL,
};

// clang-format off
#define ASSIGNED    ALLOCATION_ASSIGNED
#define PULLING     ALLOCATION_PULLING
#define STARTING    ALLOCATION_STARTING
#define RUNNING     ALLOCATION_RUNNING
#define WAITING     ALLOCATION_WAITING
#define TERMINATING ALLOCATION_TERMINATING
#define TERMINATED  ALLOCATION_TERMINATED

static const signed char allocation_cells[ALLOCATION_N_STATE][ALLOCATION_N_EVENT] = {
//                              ASSIGN    PULL     START     RUN      WAIT     STOP         EXIT
    [ALLOCATION_PENDING]     = {ASSIGNED, WRONG,   WRONG,    WRONG,   WRONG,   TERMINATED,  TERMINATED},
    [ALLOCATION_ASSIGNED]    = {WRONG,    PULLING, STARTING, RUNNING, WAITING, TERMINATING, TERMINATED},
    [ALLOCATION_PULLING]     = {WRONG,    STAY,    STARTING, RUNNING, WAITING, TERMINATING, TERMINATED},
    [ALLOCATION_STARTING]    = {WRONG,    STAY,    STAY,     RUNNING, WAITING, TERMINATING, TERMINATED},
    [ALLOCATION_RUNNING]     = {WRONG,    STAY,    STAY,     STAY,    WAITING, TERMINATING, TERMINATED},
    [ALLOCATION_WAITING]     = {WRONG,    STAY,    STAY,     STAY,    STAY,    TERMINATING, TERMINATED},
    [ALLOCATION_TERMINATING] = {WRONG,    STAY,    STAY,     STAY,    STAY,    STAY,        TERMINATED},
    [ALLOCATION_TERMINATED]  = {ENDED,    STAY,    STAY,     STAY,    STAY,    STAY,        STAY},
};

#define COMPLETED CHECKPOINT_COMPLETED
#define ERROR     CHECKPOINT_ERROR
#define PARTIALLY CHECKPOINT_PARTIALLY_DELETED
#define DELETED   CHECKPOINT_DELETED

static const signed char checkpoint_cells[CHECKPOINT_N_STATE][CHECKPOINT_N_EVENT] = {
//                                    COMPLETE   FAIL   DELETE_SOME  DELETE_ALL
    [CHECKPOINT_ACTIVE]            = {COMPLETED, ERROR, WRONG,       DELETED},
    [CHECKPOINT_COMPLETED]         = {STAY,      ERROR, PARTIALLY,   DELETED},
    [CHECKPOINT_ERROR]             = {WRONG,     STAY,  WRONG,       DELETED},
    [CHECKPOINT_PARTIALLY_DELETED] = {WRONG,     ERROR, STAY,        DELETED},
    [CHECKPOINT_DELETED]           = {VANISHED,  STAY,  VANISHED,    STAY},
};

#define SCHEDULED  JOB_SCHEDULED
#define BACKFILLED JOB_BACKFILLED
#define QUEUED     JOB_QUEUED

static const signed char job_cells[JOB_N_STATE][JOB_N_EVENT] = {
//                      START      BACKFILL    RELEASE END
    [JOB_QUEUED]     = {SCHEDULED, BACKFILLED, STAY,   JOB_ENDED},
    [JOB_SCHEDULED]  = {STAY,      STAY,       QUEUED, JOB_ENDED},
    [JOB_BACKFILLED] = {SCHEDULED, STAY,       QUEUED, JOB_ENDED},
    [JOB_ENDED]      = {ENDED,     ENDED,      STAY,   STAY},
    [JOB_PAUSED]     = {SCHEDULED, BACKFILLED, STAY,   JOB_ENDED},
};
// clang-format on

int allocation_step(enum allocation_state from, enum allocation_event event,
                    enum allocation_state *out, det_err *err)
{
    static const char *const events[] = {"assign slots", "pull", "start", "run",
                                         "wait",         "stop", "end"};
    static const struct machine machine = {"allocation", allocation_state_names, events,
                                           allocation_cells[0], ALLOCATION_N_EVENT};
    int next = machine_step(&machine, from, event, err);
    if (next < 0) return next;
    *out = (enum allocation_state)next;
    return 0;
}

int checkpoint_step(enum checkpoint_state from, enum checkpoint_event event,
                    enum checkpoint_state *out, det_err *err)
{
    static const char *const events[] = {"complete", "fail", "delete files of it", "delete"};
    static const struct machine machine = {"checkpoint", checkpoint_state_names, events,
                                           checkpoint_cells[0], CHECKPOINT_N_EVENT};
    int next = machine_step(&machine, from, event, err);
    if (next < 0) return next;
    *out = (enum checkpoint_state)next;
    return 0;
}

int job_step(enum job_state from, enum job_event event, enum job_state *out, det_err *err)
{
    static const char *const events[] = {"start", "backfill", "release", "end"};
    static const struct machine machine = {"job", job_state_names, events, job_cells[0],
                                           JOB_N_EVENT};
    int next = machine_step(&machine, from, event, err);
    if (next < 0) return next;
    *out = (enum job_state)next;
    return 0;
}
