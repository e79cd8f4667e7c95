// entity/state.h: the states of experiments, trials, allocations, checkpoints and jobs, and the
// only legal ways between them. Part of entity/entity.h.
//
// A machine is a table (state x event); a cell is the next state, "nothing changes", or a refusal
// with words. Who changes a state calls the machine's step function and writes the result:
//
//     enum exp_state next;
//     if (experiment_step(row.state, EXPERIMENT_PAUSE, &next, err)) return ...;  // says why not
//     row.state = next;
#pragma once

#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>

// Of experiments (all of them) and trials (up to EXP_ERROR).
//
//     PAUSED <-> ACTIVE --> STOPPING_x --> COMPLETED | CANCELED | ERROR --> DELETING --> DELETED
//                                                                              ^ |
//                                                                              | v
//                                                                          DELETE_FAILED
enum exp_state {
    EXP_PAUSED,
    EXP_ACTIVE,
    EXP_STOPPING_COMPLETED, // in order of severity: a stop can only become more severe
    EXP_STOPPING_CANCELED,
    EXP_STOPPING_KILLED,
    EXP_STOPPING_ERROR,
    EXP_COMPLETED,
    EXP_CANCELED,
    EXP_ERROR,
    EXP_DELETING,
    EXP_DELETE_FAILED,
    EXP_DELETED,
    EXP_N_STATE
};

extern const char *const exp_state_names[]; // "STATE_PAUSED", ...; NULL at the end

bool exp_state_is_terminal(enum exp_state state); // COMPLETED, CANCELED, ERROR
bool exp_state_is_stopping(enum exp_state state);

enum experiment_event {
    EXPERIMENT_ACTIVATE,
    EXPERIMENT_PAUSE,
    EXPERIMENT_CANCEL, // trials may save a checkpoint
    EXPERIMENT_KILL,
    EXPERIMENT_SEARCH_DONE,     // the searcher wants no more
    EXPERIMENT_SEARCH_CANCELED, // every trial was canceled
    EXPERIMENT_FAIL,            // every trial failed, or the search cannot go on
    EXPERIMENT_DRAINED,         // no live trial remains
    EXPERIMENT_ABANDON,         // it cannot be restored after a restart of the master
    EXPERIMENT_CONTINUE,        // runs on after its end
    EXPERIMENT_ARCHIVE,         // or unarchive: a flag that only ended experiments have
    EXPERIMENT_DELETE,
    EXPERIMENT_DELETE_DONE,
    EXPERIMENT_DELETE_FAIL,
    EXPERIMENT_N_EVENT
};

// The state after an event, which may be the same one. Refusals: DET_ESTATE, or DET_ENOTFOUND where
// there is nothing left to act on.
int experiment_step(enum exp_state from, enum experiment_event event, enum exp_state *out,
                    det_err *err);

enum trial_event {
    TRIAL_ACTIVATE,
    TRIAL_PAUSE,
    TRIAL_CLOSE, // the searcher is done with it
    TRIAL_CANCEL,
    TRIAL_KILL,
    TRIAL_FAIL,
    TRIAL_DRAINED, // no allocation remains
    TRIAL_N_EVENT
};

// Never refuses: what comes too late, or is milder than what is under way, changes nothing.
enum exp_state trial_step(enum exp_state from, enum trial_event event);

// What a trial in a state must have done to it.
enum trial_effect {
    TRIAL_LEAVE,     // nothing to do
    TRIAL_ALLOCATE,  // ask for slots
    TRIAL_TERMINATE, // gracefully: let it save a checkpoint
    TRIAL_DESTROY,   // kill it
    TRIAL_END,       // go to the terminal state
};

enum trial_effect trial_effect(enum exp_state state, bool has_allocation, bool has_work);

// How the run of a task ended.
enum exit_kind {
    EXIT_NONE,      // it has not
    EXIT_KILLED,    // by us
    EXIT_PREEMPTED, // it acknowledged the request to stop
    EXIT_DONE,      // status 0 of its own accord
    EXIT_TASK_FAILED,
    EXIT_NODE_FAILED,    // the machine went away under it
    EXIT_ABORTED,        // it never started, by no fault of its own
    EXIT_RESTORE_FAILED, // a restarted master could not find it again
    EXIT_UNRECOVERABLE,  // the system can never run it
    EXIT_N_KIND
};

extern const char *const exit_kind_names[];

// What is known when a task's last process is gone.
struct exit_facts {
    bool killed_by_us, preemption_acked;
    enum exit_kind system; // NODE_FAILED .. UNRECOVERABLE if the system failed, else EXIT_NONE
    int status;            // exit status, 128 + signal
};

enum exit_kind exit_classify(const struct exit_facts *facts);
bool exit_is_error(enum exit_kind kind);

// What to do with a trial whose allocation has ended.
struct trial_facts {
    enum exp_state state;
    enum exit_kind exit;
    bool searcher_done; // its operations are complete and it is closed
    bool retries_off;   // a log policy says: do not restart
    bool same_failure;  // the failure before was the same one at the same point, right after start
    bool invalid_hp;    // it reported its hyperparameters as invalid
    bool has_work;      // the searcher has an operation for it
    int64_t restarts, max_restarts;
};

enum trial_verdict {
    TRIAL_GOES_ON,    // allocate again if ACTIVE and there is work; else stay without resources
    TRIAL_RESTARTS,   // the same, and it counts as a restart
    TRIAL_COMPLETES,  // -> COMPLETED
    TRIAL_IS_INVALID, // -> COMPLETED, and the searcher hears of invalid hyperparameters
    TRIAL_STOPS,      // -> the terminal state that it is stopping for
    TRIAL_FAILS,      // -> ERROR
};

// The first rule that matches; *why (static text) says which one, for the log of the trial.
enum trial_verdict trial_judge(const struct trial_facts *facts, const char **why);

// Allocations only move forward:
// PENDING -> ASSIGNED -> PULLING -> STARTING -> RUNNING -> WAITING -> TERMINATING -> TERMINATED
enum allocation_state {
    ALLOCATION_PENDING,
    ALLOCATION_ASSIGNED,
    ALLOCATION_PULLING,
    ALLOCATION_STARTING,
    ALLOCATION_RUNNING,
    ALLOCATION_WAITING, // for its services
    ALLOCATION_TERMINATING,
    ALLOCATION_TERMINATED,
    ALLOCATION_N_STATE
};

extern const char *const allocation_state_names[];

enum allocation_event {
    ALLOCATION_ASSIGN,
    ALLOCATION_PULL,
    ALLOCATION_START,
    ALLOCATION_RUN,
    ALLOCATION_WAIT,
    ALLOCATION_STOP, // it was told to end
    ALLOCATION_EXIT,
    ALLOCATION_N_EVENT
};

// An event that would move backwards changes nothing: reports of several processes cross.
// DET_ESTATE: slots for one that has ended.
int allocation_step(enum allocation_state from, enum allocation_event event,
                    enum allocation_state *out, det_err *err);

enum checkpoint_state {
    CHECKPOINT_ACTIVE, // announced, being written
    CHECKPOINT_COMPLETED,
    CHECKPOINT_ERROR,
    CHECKPOINT_PARTIALLY_DELETED,
    CHECKPOINT_DELETED,
    CHECKPOINT_N_STATE
};

extern const char *const checkpoint_state_names[];

enum checkpoint_event {
    CHECKPOINT_COMPLETE,
    CHECKPOINT_FAIL,
    CHECKPOINT_DELETE_SOME, // of its files
    CHECKPOINT_DELETE_ALL,
    CHECKPOINT_N_EVENT
};

int checkpoint_step(enum checkpoint_state from, enum checkpoint_event event,
                    enum checkpoint_state *out, det_err *err);

// A job is an entry of the queue: what an experiment or a generic task wants to run.
enum job_state { JOB_QUEUED, JOB_SCHEDULED, JOB_BACKFILLED, JOB_ENDED, JOB_PAUSED, JOB_N_STATE };

extern const char *const job_state_names[];

enum job_event { JOB_START, JOB_BACKFILL, JOB_RELEASE, JOB_END, JOB_N_EVENT };

int job_step(enum job_state from, enum job_event event, enum job_state *out, det_err *err);
