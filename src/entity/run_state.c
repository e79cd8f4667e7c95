// Unit run_state.c: states of experiments and trials.
#include "entity/state.h"

#include "base/assert.h"
#include "entity/machine.h"

const char *const run_state_names[] = {
    "STATE_PAUSED",
    "STATE_ACTIVE",
    "STATE_STOPPING_COMPLETED",
    "STATE_STOPPING_CANCELED",
    "STATE_STOPPING_KILLED",
    "STATE_STOPPING_ERROR",
    "STATE_COMPLETED",
    "STATE_CANCELED",
    "STATE_ERROR",
    "STATE_DELETING",
    "STATE_DELETE_FAILED",
    "STATE_DELETED",
    NULL,
};

bool run_state_is_terminal(enum run_state state)
{
    return state >= RUN_COMPLETED && state <= RUN_ERROR;
}

bool run_state_is_stopping(enum run_state state)
{
    return state >= RUN_STOPPING_COMPLETED && state <= RUN_STOPPING_ERROR;
}

// clang-format off
#define PAUSED     RUN_PAUSED
#define ACTIVE     RUN_ACTIVE
#define S_COMPLETED RUN_STOPPING_COMPLETED
#define S_CANCELED RUN_STOPPING_CANCELED
#define S_KILLED   RUN_STOPPING_KILLED
#define S_ERROR    RUN_STOPPING_ERROR
#define COMPLETED  RUN_COMPLETED
#define CANCELED   RUN_CANCELED
#define ERROR      RUN_ERROR
#define DELETING   RUN_DELETING
#define DEL_FAILED RUN_DELETE_FAILED
#define DELETED    RUN_DELETED

// Canceling or killing what is already that far succeeds silently; kill escalates a cancel. Searches
// end only once. A failure while stopping wins over how it was meant to end.
static const signed char experiment_cells[RUN_N_STATE][EXPERIMENT_N_EVENT] = {
//                           ACTIVATE  PAUSE     CANCEL      KILL      SEARCH_DONE  SEARCH_CANC FAIL     DRAINED    ABANDON  CONTINUE  ARCHIVE   DELETE    DEL_DONE DEL_FAIL
    [RUN_PAUSED]          = {ACTIVE,   STAY,     S_CANCELED, S_KILLED, S_COMPLETED, S_CANCELED, S_ERROR, STAY,      ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [RUN_ACTIVE]          = {STAY,     PAUSED,   S_CANCELED, S_KILLED, S_COMPLETED, S_CANCELED, S_ERROR, STAY,      ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [RUN_STOPPING_COMPLETED] = {WRONG, WRONG,    STAY,       STAY,     STAY,        STAY,       S_ERROR, COMPLETED, ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [RUN_STOPPING_CANCELED]  = {WRONG, WRONG,    STAY,       S_KILLED, STAY,        STAY,       S_ERROR, CANCELED,  ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [RUN_STOPPING_KILLED] = {WRONG,    WRONG,    STAY,       STAY,     STAY,        STAY,       S_ERROR, CANCELED,  ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [RUN_STOPPING_ERROR]  = {WRONG,    WRONG,    STAY,       STAY,     STAY,        STAY,       STAY,    ERROR,     ERROR,   ACTIVE,   NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [RUN_COMPLETED]       = {NOTHING,  ENDED,    STAY,       STAY,     STAY,        STAY,       STAY,    STAY,      STAY,    ACTIVE,   STAY,     DELETING, WRONG,   WRONG},
    [RUN_CANCELED]        = {NOTHING,  ENDED,    STAY,       STAY,     STAY,        STAY,       STAY,    STAY,      STAY,    ACTIVE,   STAY,     DELETING, WRONG,   WRONG},
    [RUN_ERROR]           = {NOTHING,  ENDED,    STAY,       STAY,     STAY,        STAY,       STAY,    STAY,      STAY,    ACTIVE,   STAY,     DELETING, WRONG,   WRONG},
    [RUN_DELETING]        = {VANISHED, VANISHED, VANISHED,   VANISHED, STAY,        STAY,       STAY,    STAY,      STAY,    VANISHED, VANISHED, STAY,     DELETED, DEL_FAILED},
    [RUN_DELETE_FAILED]   = {WRONG,    WRONG,    WRONG,      WRONG,    STAY,        STAY,       STAY,    STAY,      STAY,    WRONG,    WRONG,    DELETING, WRONG,   WRONG},
    [RUN_DELETED]         = {VANISHED, VANISHED, VANISHED,   VANISHED, STAY,        STAY,       STAY,    STAY,      STAY,    VANISHED, VANISHED, VANISHED, STAY,    WRONG},
};

static const signed char trial_cells[RUN_DELETING][TRIAL_N_EVENT] = {
//                              ACTIVATE PAUSE   CLOSE        CANCEL      KILL      FAIL     DRAINED
    [RUN_PAUSED]             = {ACTIVE,  STAY,   S_COMPLETED, S_CANCELED, S_KILLED, S_ERROR, STAY},
    [RUN_ACTIVE]             = {STAY,    PAUSED, S_COMPLETED, S_CANCELED, S_KILLED, S_ERROR, STAY},
    [RUN_STOPPING_COMPLETED] = {STAY,    STAY,   STAY,        S_CANCELED, S_KILLED, S_ERROR, COMPLETED},
    [RUN_STOPPING_CANCELED]  = {STAY,    STAY,   STAY,        STAY,       S_KILLED, S_ERROR, CANCELED},
    [RUN_STOPPING_KILLED]    = {STAY,    STAY,   STAY,        STAY,       STAY,     S_ERROR, CANCELED},
    [RUN_STOPPING_ERROR]     = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    ERROR},
    [RUN_COMPLETED]          = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    STAY},
    [RUN_CANCELED]           = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    STAY},
    [RUN_ERROR]              = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    STAY},
};
// clang-format on

int experiment_step(enum run_state from, enum experiment_event event, enum run_state *out,
                    det_err *err)
{
    static const char *const events[] = {
        "activate",        "pause",          "cancel",  "kill",
        "complete",        "cancel",         "fail",    "end",
        "give it up",      "continue",       "archive", "delete",
        "finish deleting", "fail to delete",
    };
    static const struct machine machine = {"experiment", run_state_names, events,
                                           experiment_cells[0], EXPERIMENT_N_EVENT};
    int next = machine_step(&machine, from, event, err);
    if (next < 0) return next;
    *out = (enum run_state)next;
    return 0;
}

enum run_state trial_step(enum run_state from, enum trial_event event)
{
    ASSERT(from <= RUN_ERROR);
    int cell = trial_cells[from][event];
    return cell == STAY ? from : (enum run_state)cell;
}

enum trial_effect trial_effect(enum run_state state, bool has_allocation, bool has_work)
{
    switch (state) {
    case RUN_ACTIVE:
        return !has_allocation && has_work ? TRIAL_ALLOCATE : TRIAL_LEAVE;
    case RUN_PAUSED:
        return has_allocation ? TRIAL_TERMINATE : TRIAL_LEAVE;
    case RUN_STOPPING_COMPLETED:
    case RUN_STOPPING_CANCELED:
        return has_allocation ? TRIAL_TERMINATE : TRIAL_END;
    case RUN_STOPPING_KILLED:
    case RUN_STOPPING_ERROR:
        return has_allocation ? TRIAL_DESTROY : TRIAL_END;
    default:
        return TRIAL_LEAVE;
    }
}
